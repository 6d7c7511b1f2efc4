/** The whole attack list. A new file of rows gets one line here. */
import type { Attack } from "./attack.ts";
import { BODY_ATTACKS } from "./bodies.ts";

export const ATTACKS: readonly Attack[] = [...BODY_ATTACKS];
