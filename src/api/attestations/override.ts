/** Overrides: records that replace the verdict of an attestation, with a reason (semantics 3.6). */
import { Type } from "typebox";
import { ORIGINAL_TYPE } from "../../domain/attestation/kinds.ts";
import { evaluateOverride } from "../../domain/attestation/verdicts.ts";
import { MAX_TEXT_CHARS } from "../../contract/shapes.ts";
import { attestationOperation } from "./report.ts";

export const postOverride = attestationOperation({
  segment: "override",
  input: "OverrideAttestationPostInput",
  form: null,
  summary: "Override the verdict of an attestation",
  description:
    "Appends a record that supersedes the latest one of that name, in either direction, and states the reason. A " +
    "later ordinary report of that name supersedes the override. The override names the type of what it overrides; " +
    "where nothing was reported, that which the template expects.",
  payload: {
    reason: Type.String({ minLength: 1, maxLength: MAX_TEXT_CHARS }),
    new_compliance_status: Type.Boolean(),
    original_attestation_type: Type.String({
      pattern: ORIGINAL_TYPE,
      "x-published": { pattern: ORIGINAL_TYPE.replaceAll(".*", String.raw`[^\x00\r\n]*`) },
      maxLength: 300,
      description: "The overridden type: a built-in one, `custom`, `custom:NAME`, `decision`, `sbom` or `system:NAME`",
    }),
  },
  evaluate: evaluateOverride,
  facts: ({ reason, new_compliance_status, original_attestation_type }) => ({
    reason,
    new_compliance_status,
    original_attestation_type,
  }),
  originalType: ({ original_attestation_type }) => original_attestation_type,
  example: { reason: "Accepted by the security board", new_compliance_status: true, original_attestation_type: "snyk" },
});
