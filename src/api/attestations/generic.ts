import { Type } from "typebox";
import { judgeGeneric } from "../../domain/attestation/generic.ts";
import { attestation, kind } from "./report.ts";

export const GENERIC = kind({
  segment: "generic",
  input: "GenericAttestationPostInput",
  form: "GenericAttestationForm",
  summary: "Report a pass or fail of any kind",
  description: "For checks that have no kind of their own: the reporter says whether the check passed.",
  payload: { is_compliant: Type.Boolean() },
  judge: judgeGeneric,
  facts: () => ({}),
  example: { is_compliant: true },
});

export const postGeneric = attestation(GENERIC);
