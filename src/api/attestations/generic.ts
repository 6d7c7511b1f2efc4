/** Generic attestations: the reporter states the verdict. */
import { Type } from "typebox";
import { evaluateGeneric } from "../../domain/attestation/verdicts.ts";
import { DATA_BOUNDS } from "../../http/operation.ts";
import { defineKind } from "./kind.ts";
import { attestationOperation } from "./report.ts";

export const GENERIC = defineKind({
  segment: "generic",
  input: "GenericAttestationPostInput",
  form: "GenericAttestationForm",
  summary: "Report the result of any check",
  description: "For checks without a kind of their own: the reporter states whether the check passed.",
  payload: { is_compliant: Type.Boolean() },
  bounds: DATA_BOUNDS,
  evaluate: evaluateGeneric,
  facts: () => ({}),
  example: { is_compliant: true },
});

export const postGeneric = attestationOperation(GENERIC);
