/** The box that says why a trail is not compliant, or not complete. */
import type { Html } from "../../html.ts";
import { html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { postOverride } from "../../../api/attestations/override.ts";
import { typeWordOf } from "../../../domain/attestation/kinds.ts";
import { shortenCause } from "../../../domain/compliance/cause-words.ts";
import { NOTHING } from "../../../domain/compliance/causes.ts";
import type { VerdictCause } from "../../../domain/compliance/causes.ts";
import { resultOf } from "../../components/attestation-result.ts";
import { causeName, causeSentence } from "../../components/causes.ts";
import { linkButton, reasonsBox } from "../../components/layout.ts";
import { formatNumber } from "../../components/state.ts";
import { CLOSED } from "./trail-checklist.ts";
import { missingArtifacts } from "./trail-entries.ts";
import type { Entry, Trail, TrailAttestation } from "./trail-entries.ts";

/** Reasons that are shown; the checklist has the rest. */
const MAX_REASONS = 5;
const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

type Facts = { trail: Trail; entries: readonly Entry[]; records: ReadonlyMap<string, TrailAttestation> };

/** The entries that fail and that the box shows, whose records it needs. */
export const firstFailing = (entries: readonly Entry[]): Entry[] =>
  entries.filter(({ state }) => state === "non_compliant").slice(0, MAX_REASONS);

/** null for a compliant trail. */
export function trailReasons(visit: Visit, { trail, entries, records }: Facts): Html | null {
  if (trail.compliance_state === "COMPLIANT") return null;
  const failing = entries.filter(({ state }) => state === "non_compliant");
  const missing = entries.filter(({ state, group }) => state === "missing" && group?.artifact.status !== "MISSING");
  const absent = missingArtifacts(trail);
  const total = failing.length + missing.length + absent.length;
  const shown = [
    ...failing.slice(0, MAX_REASONS).map((entry) => failingReason(visit, entry, records)),
    ...absent
      .slice(0, MAX_REASONS)
      .map((name) => causeSentence({ subject: `Artifact ${name}`, text: `Artifact ${name} is missing` })),
    ...missing.slice(0, MAX_REASONS).map((entry) => missingReason(entry, entries)),
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
    actions: html`${overrideButton(visit, failing[0])}${linkButton(
      visit.to.whyTrail(trail.flow.name, trail.name),
      "How it was decided",
      { icon: "question", kind: "small" },
    )}`,
  });
}

const overrideButton = ({ may, here }: Visit, entry: Entry | undefined): Html | false =>
  entry !== undefined &&
  may(postOverride) &&
  linkButton(here({ ...CLOSED, attestation_id: entry.id, ask: "override" }), "Override with a reason", {
    icon: "pencil",
    kind: "small",
  });

const causeOf = ({ status }: Entry, kind: VerdictCause["kind"]): VerdictCause => ({
  ...NOTHING,
  kind,
  words: "",
  name: status.attestation_name,
  level: null,
});

const ownerOf = ({ group }: Entry): Html =>
  group === null ? html`the trail` : html`artifact <bdi>${group.name}</bdi>`;

function failingReason({ here }: Visit, entry: Entry, records: Facts["records"]): Html {
  const { status, id } = entry;
  const record = id === null ? undefined : records.get(id);
  const result = record ? resultOf(record) : "";
  const cause = shortenCause(causeOf(entry, "non_compliant_attestation"), result === "" ? null : [result]);
  const sentence = causeSentence(
    cause,
    (name) => html`<a href="${here({ ...CLOSED, attestation_id: id })}">${name}</a>`,
  );
  const extra = status.unexpected && ", not in the template";
  return html`${sentence} <span class="muted">· ${ownerOf(entry)}${extra}</span>`;
}

function missingReason(entry: Entry, entries: readonly Entry[]): Html {
  const { attestation_name: name, attestation_type: type } = entry.status;
  const other = entries.find(
    ({ group, status }) => status.unexpected && status.attestation_name === name && group?.name === entry.group?.name,
  );
  const wanted = type === "*" ? "" : `, type ${typeWordOf(type)}`;
  const sentence = other
    ? html`${causeName(name)} was reported as ${typeWordOf(other.status.attestation_type)}`
    : causeSentence(shortenCause(causeOf(entry, "missing_attestation"), null));
  return html`${sentence} <span class="muted">· ${ownerOf(entry)}${wanted}</span>`;
}
