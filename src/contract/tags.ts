import { Type } from "typebox";

/** Tags in answers: always an object, `{}` when there are none (wire-contract 1.7). */
export const Tags = Type.Record(Type.String(), Type.String());
