/** The box that says why a trail is not compliant, or not complete. */
import type { Html } from "../../html.ts";
import { html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { postOverride } from "../../../api/attestations/override.ts";
import { typeWordOf } from "../../../domain/attestation/kinds.ts";
import { shortenCause } from "../../../domain/compliance/cause-words.ts";
import { NOTHING } from "../../../domain/compliance/causes.ts";
import { countingId } from "../../../domain/compliance/checklist.ts";
import type { VerdictCause } from "../../../domain/compliance/causes.ts";
import { resultOf } from "../../components/attestation-result.ts";
import { causeName, causeSentence } from "../../components/causes.ts";
import { linkButton, reasonsBox } from "../../components/layout.ts";
import { formatNumber } from "../../components/state.ts";
import { CLOSED } from "./trail-checklist.ts";
import { recordOf } from "./trail-entries.ts";
import type { ShownCheck, Checklist, TrailAttestation } from "./trail-entries.ts";

/** Reasons that are shown; the checklist has the rest. */
const MAX_REASONS = 5;
const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

type Facts = { checklist: Checklist; records: ReadonlyMap<string, TrailAttestation> };

/** null for a compliant trail. */
export function trailReasons(visit: Visit, { checklist, records }: Facts): Html | null {
  const { trail, totals, reasons } = checklist;
  if (trail.compliance_state === "COMPLIANT") return null;
  const total = totals.failing + totals.missing + totals.missing_artifacts;
  const shown = [
    ...reasons.failing.map((check) => failingReason(visit, check, records)),
    ...reasons.missing_artifacts.map((name) =>
      causeSentence({ subject: `Artifact ${name}`, text: `Artifact ${name} is missing` }),
    ),
    ...reasons.missing.map(missingReason),
  ].slice(0, MAX_REASONS);
  const rest = total - shown.length;
  const isIncomplete = trail.compliance_state === "INCOMPLETE";
  const count = NUMBERS[total] ?? formatNumber(total);
  const title = isIncomplete
    ? `Incomplete: ${total === 1 ? "one thing is" : `${count} things are`} missing`
    : `Not compliant, for ${count} ${total === 1 ? "reason" : "reasons"}`;
  return reasonsBox({
    state: isIncomplete ? "wait" : "bad",
    title,
    reasons: rest > 0 ? [...shown, `${formatNumber(rest)} more in the checklist`] : shown,
    actions: html`${overrideButton(visit, reasons.failing[0])}${linkButton(
      visit.to.whyTrail(trail.flow.name, trail.name),
      "How it was decided",
      { icon: "question", kind: "small" },
    )}`,
  });
}

const overrideButton = ({ may, here }: Visit, check: ShownCheck | undefined): Html | false =>
  check !== undefined &&
  may(postOverride) &&
  linkButton(here({ ...CLOSED, attestation_id: countingId(check), ask: "override" }), "Override with a reason", {
    icon: "pencil",
    kind: "small",
  });

const causeOf = ({ attestation_name: name }: ShownCheck, kind: VerdictCause["kind"]): VerdictCause => ({
  ...NOTHING,
  kind,
  words: "",
  name,
  level: null,
});

const ownerOf = ({ artifact }: ShownCheck): Html =>
  artifact === null ? html`the trail` : html`artifact <bdi>${artifact.name}</bdi>`;

function failingReason({ here }: Visit, check: ShownCheck, records: Facts["records"]): Html {
  const record = recordOf(check, records);
  const result = record ? resultOf(record) : "";
  const cause = shortenCause(causeOf(check, "non_compliant_attestation"), result === "" ? null : [result]);
  const sentence = causeSentence(
    cause,
    (name) => html`<a href="${here({ ...CLOSED, attestation_id: countingId(check) })}">${name}</a>`,
  );
  const extra = check.unexpected && ", not in the template";
  return html`${sentence} <span class="muted">· ${ownerOf(check)}${extra}</span>`;
}

function missingReason(check: ShownCheck): Html {
  const { attestation_name: name, attestation_type: type, reported_type: reported } = check;
  const wanted = type === "*" ? "" : `, type ${typeWordOf(type)}`;
  const sentence =
    reported === null
      ? causeSentence(shortenCause(causeOf(check, "missing_attestation"), null))
      : html`${causeName(name)} was reported as ${typeWordOf(reported)}`;
  return html`${sentence} <span class="muted">· ${ownerOf(check)}${wanted}</span>`;
}
