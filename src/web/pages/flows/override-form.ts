/** The form that overrides the verdict of an attestation, with what that would turn. */
import { postOverride } from "../../../api/attestations/override.ts";
import { formOf, selectField, textArea } from "../../components/forms.ts";
import { askPreview, impactPanel, seenField, submitText } from "../../components/impact.ts";
import { textOf } from "../../components/loose-json.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { ShownCheck, TrailAttestation } from "./trail-entries.ts";

/** What is overridden: a check, and the record that counts in it. */
type Overridden = { check: ShownCheck; record: TrailAttestation };

/** An override of the attestation, without its reason. */
export function overrideOf({ check, record }: Overridden, isCompliant: boolean) {
  const print = check.artifact?.artifact_fingerprint;
  return {
    attestation_name: check.attestation_name,
    new_compliance_status: isCompliant,
    original_attestation_type: textOf(record["original_attestation_type"]) || record.attestation_type,
    ...(print ? { artifact_fingerprint: print } : {}),
  };
}

/** @param options.cancel where "Cancel" leads */
export async function overrideForm(
  visit: Visit,
  { check, record }: Overridden,
  { cancel }: { cancel: string },
): Promise<Html> {
  const refused = visit.refused?.form === "override" ? visit.refused : null;
  const opposite = check.is_compliant === true ? "false" : "true";
  const verdict = refused?.fields.text("new_compliance_status") || opposite;
  const preview = await askPreview(visit, {
    override_attestation: {
      flow_name: record.flow_name,
      trail_name: record.trail_name,
      ...overrideOf({ check, record }, verdict === "true"),
    },
  });
  const fields = html`${selectField(visit, {
    form: "override",
    name: "new_compliance_status",
    label: "New verdict",
    value: verdict,
    hint: "Counts until the attestation is reported again. The trail is re-evaluated.",
    choices: [
      { value: "true", text: "Compliant" },
      { value: "false", text: "Non-compliant" },
    ],
  })}${textArea(visit, {
    form: "override",
    name: "reason",
    label: "Reason",
    hint: "Stays with the record. Name who decided, and the ticket.",
    of: postOverride,
  })}${seenField(verdict)}`;
  const hasFlips = !("failed" in preview) && preview.environments.some(({ flips }) => flips.length > 0);
  return html`<section><h3>Override the verdict</h3>${formOf(visit, {
    name: "override",
    submit: submitText("Override", preview),
    cancel,
    fields,
    within: (buttons) =>
      impactPanel(visit, {
        id: "h-impact",
        title: html`If it is ${verdict === "true" ? "compliant" : "non-compliant"}`,
        preview,
        buttons,
        note: hasFlips && "Environments count it with their next report.",
      }),
  })}</section>`;
}
