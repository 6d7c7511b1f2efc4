/** The whole attack list. Every file of rows is added here. */
import type { Attack } from "./attack.ts";
import { BODY_ATTACKS } from "./bodies.ts";
import { DOCUMENT_ATTACKS } from "./documents.ts";
import { REGO_ATTACKS } from "./rego.ts";

export const ATTACKS: readonly Attack[] = [...BODY_ATTACKS, ...DOCUMENT_ATTACKS, ...REGO_ATTACKS];
