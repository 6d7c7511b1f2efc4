import { Type } from "typebox";
import { ORIGINAL_TYPE } from "../../domain/attestation/kinds.ts";
import { judgeOverride } from "../../domain/attestation/override.ts";
import { TEXT_LENGTH } from "../../contract/shapes.ts";
import { attestation } from "./report.ts";

export const postOverride = attestation({
  segment: "override",
  input: "OverrideAttestationPostInput",
  form: null,
  summary: "Override the verdict of an attestation",
  description:
    "Appends a record that supersedes the latest one of that name, in either direction, with the reason. A later ordinary report of that name supersedes the override.",
  payload: {
    reason: Type.String({ minLength: 1, maxLength: TEXT_LENGTH }),
    new_compliance_status: Type.Boolean(),
    original_attestation_type: Type.String({
      pattern: ORIGINAL_TYPE,
      "x-published": { pattern: ORIGINAL_TYPE.replaceAll(".*", String.raw`[^\x00\r\n]*`) },
      maxLength: 300,
      description: "Type of what is overridden: a built-in type, `custom`, `custom:NAME`, `decision` or `system:NAME`",
    }),
  },
  judge: judgeOverride,
  facts: ({ reason, new_compliance_status, original_attestation_type }) => ({
    reason,
    new_compliance_status,
    original_attestation_type,
  }),
  originalType: ({ original_attestation_type }) => original_attestation_type,
  example: { reason: "Accepted by the security board", new_compliance_status: true, original_attestation_type: "snyk" },
});
