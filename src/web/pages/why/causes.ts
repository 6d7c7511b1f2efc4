/** Causes and records in sentences, with links to the records. */
import { postOverride } from "../../../api/attestations/override.ts";
import { SAME_NAME_MEANING } from "../../../domain/compliance/same-name.ts";
import { causeSentence } from "../../components/causes.ts";
import type { TreeNode } from "../../components/tree.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { article, capitalized } from "./explained.ts";
import type { Artifact, Attestation, ShownCause } from "./explained.ts";

/** An attestation, as far as sentences about it need it. */
type Record = Pick<Attestation, "id" | "name"> & {
  is_compliant: boolean;
  record: Pick<
    NonNullable<Attestation["record"]>,
    "type" | "reasons" | "reported_by" | "created_at" | "description"
  > | null;
};
type Place = { flow: string | null; trail: string | null };

/** Reasons of one record that are shown. */
const MAX_REASONS = 5;

/** What a record found, on one line; null where its kind does not say. */
function findingsOf({ record }: Record): string | null {
  const reasons = record?.reasons ?? [];
  const rest = reasons.length - MAX_REASONS;
  if (reasons.length === 0) return null;
  return `${reasons.slice(0, MAX_REASONS).join("; ")}${rest > 0 ? `; and ${rest} more` : ""}`;
}

/** The link to the drawer of a record; null where no page has one. */
function recordLink({ to }: Pick<Visit, "to">, { flow, trail }: Place, id: string | null): Html | null {
  if (flow === null || trail === null || id === null) return null;
  return html`<a href="${to.attestation({ flow, trail, id })}">record</a>`;
}

/** The link to the form that overrides a record; null for who may not, and where no page has one. */
export function overrideLink({ to, may }: Visit, { flow, trail }: Place, id: string | null): Html | null {
  if (flow === null || trail === null || id === null || !may(postOverride)) return null;
  return html`<a href="${to.trail(flow, trail, { attestation_id: id, ask: "override" })}">override it</a>`;
}

export const trailLink = ({ to }: Pick<Visit, "to">, { flow, trail }: Place): Html | null =>
  flow === null || trail === null ? null : html`<a href="${to.trail(flow, trail)}">trail</a>`;

/** The link to the template of a trail, which stands on the page that explains the trail. */
const templateLink = ({ to }: Pick<Visit, "to">, { flow, trail }: Place): Html | null =>
  flow === null || trail === null ? null : html`<a href="${to.whyTrail(flow, trail)}">template</a>`;

/** Who reported a record, and when. */
function reportedBy({ now }: Pick<Visit, "now">, attestation: Record): Value {
  const { record } = attestation;
  if (record === null) return "The record no longer exists";
  const verb = record.type === "override" ? "Overridden" : "Reported";
  const note = record.description !== null && record.description !== "" && html`: ${record.description}`;
  return html`${verb} by <bdi>${record.reported_by}</bdi> ${time(record.created_at, now)}${note}`;
}

/** The node of a record that is not compliant. */
export function failingRecord(visit: Visit, attestation: Record, place: Place): TreeNode {
  const findings = findingsOf(attestation);
  return {
    state: "non_compliant",
    kind: "Fact",
    text:
      findings === null
        ? html`<bdi>${attestation.name}</bdi> is not compliant`
        : html`<bdi>${attestation.name}</bdi>: ${findings}`,
    sub: reportedBy(visit, attestation),
    right: recordLink(visit, place, attestation.id),
    isCause: true,
  };
}

/** The node of a record that is compliant. */
export const passingRecord = (visit: Visit, attestation: Record, place: Place): TreeNode => ({
  state: "compliant",
  kind: "Fact",
  text: html`<bdi>${attestation.name}</bdi> is compliant`,
  sub: reportedBy(visit, attestation),
  right: recordLink(visit, place, attestation.id),
});

/** The node of a cause. @param find the records that the facts name */
export function causeNode(visit: Visit, cause: ShownCause, find: (id: string) => Record | undefined): TreeNode {
  const { kind, name, type, attestation_id: id } = cause;
  const record = id === null ? undefined : find(id);
  if (kind === "non_compliant_attestation" && record) return failingRecord(visit, record, cause);
  const own = { kind: "Fact", isCause: true };
  if (kind === "missing_attestation")
    return {
      ...own,
      state: "missing",
      text: html`${named(cause)} was never reported`,
      sub: name !== null && type !== null && type !== "*" && `The template expects type ${type}`,
      right: templateLink(visit, cause),
    };
  if (kind === "missing_artifact")
    return {
      ...own,
      state: "missing",
      text: html`Artifact <bdi>${name}</bdi> was never reported`,
      right: templateLink(visit, cause),
    };
  const isMissing = kind === "no_provenance" || kind === "no_trail";
  return { ...own, state: isMissing ? "missing" : "non_compliant", text: cause.words, right: trailLink(visit, cause) };
}

/** The attestation that a cause is about: by its name, by its control, or by its type. */
function named({ name, control, type }: ShownCause): Value {
  if (name !== null) return html`<bdi>${name}</bdi>`;
  if (control !== null) return html`A decision for control <bdi>${control}</bdi>`;
  return type === null || type === "*" ? "An attestation" : html`${capitalized(article(type))} ${type} attestation`;
}

/** The record of the same name with another fingerprint, and what that usually means; nothing without one. */
export function sameNameSentences({ to }: Visit, { same_name: record }: Artifact): Value[] {
  if (record === undefined) return [];
  const { flow, trail, fingerprint, artifact_id: id } = record;
  const link = html`<a href="${to.artifact(flow, fingerprint, id)}">another fingerprint</a>`;
  const place = html`${trail !== null && html`trail <bdi>${trail}</bdi> of `}flow <bdi>${flow}</bdi>`;
  return [html`An artifact of this name was reported to ${place} with ${link}`, SAME_NAME_MEANING];
}

/** A cause as an item of the box at the top, with the link to the record that decided. */
export function causeItem({ to }: Visit, cause: ShownCause): Html {
  const { kind, flow, trail, attestation_id: id } = cause;
  if (kind === "non_compliant_attestation" && flow !== null && trail !== null && id !== null)
    return causeSentence(cause, (name) => html`<a href="${to.attestation({ flow, trail, id })}">${name}</a>`);
  const isMissing = kind === "missing_attestation" || kind === "missing_artifact";
  return html`${causeSentence(cause)}${isMissing && trail !== null && html` in trail <bdi>${trail}</bdi>`}`;
}
