/** Tags in responses. */
import { Type } from "typebox";

/** Always an object, `{}` without tags (wire-contract 1.7). */
export const Tags = Type.Record(Type.String(), Type.String());
