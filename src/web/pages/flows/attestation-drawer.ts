/** The drawer of the trail page with one attestation: `?attestation_id=`. */
import { getEvidence } from "../../../api/attestations/evidence.ts";
import { postOverride } from "../../../api/attestations/override.ts";
import { getAttestations } from "../../../api/attestations/reads.ts";
import { listTrailAttestations } from "../../../api/attestations/trail-attestations.ts";
import { AppError } from "../../../errors.ts";
import { membersOf } from "../../../json/text.ts";
import { typeWordOf } from "../../../domain/attestation/kinds.ts";
import { countingId } from "../../../domain/compliance/checklist.ts";
import { resultOf } from "../../components/attestation-result.ts";
import { drawer } from "../../components/drawer.ts";
import { icon } from "../../components/icon.ts";
import { commit, reportedLink } from "../../components/identifier.ts";
import { facts, linkButton } from "../../components/layout.ts";
import { jsonText } from "../../components/json.ts";
import { objectOf, textOf } from "../../components/loose-json.ts";
import { badge, formatNumber, stateIcon, stateOfVerdict, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { queryText } from "../../page/links.ts";
import { detailsOf } from "./attestation-details.ts";
import { sizeText } from "./evidence-preview.ts";
import { overrideForm } from "./override-form.ts";
import { sbomSection } from "./sbom-section.ts";
import { CLOSED } from "./trail-checklist.ts";
import type { Checklist, Trail, TrailAttestation } from "./trail-entries.ts";

/** Earlier records of a name that are looked at; a name that is reported more often has a list of its own. */
const MAX_HISTORY = 50;
const MAX_EARLIER = 10;

type Opened = {
  trail: Trail;
  record: TrailAttestation;
  /** The check that it counts or counted in, and its place; null for a record that a later one replaced. */
  place: Checklist["opened"];
  /** Records of the same name and target, newest first, itself included. */
  history: readonly TrailAttestation[];
};

/** null unless the address asks for an attestation. */
export async function attestationDrawer(visit: Visit, { trail, opened: place }: Checklist): Promise<Html | null> {
  const id = visit.query.get("attestation_id");
  if (id === null || id === "") return null;
  const record = await findRecord(visit, id);
  if (record === null || record.trail_name !== trail.name || record.flow_name !== trail.flow.name)
    return missingDrawer(visit, record);
  const answer = await visit.call(listTrailAttestations, {
    params: { flow_name: trail.flow.name, trail_name: trail.name },
    query: { attestation_name: record.attestation_name, per_page: MAX_HISTORY },
  });
  const history = (answer.data as TrailAttestation[]).filter((other) => isSameTarget(other, record));
  return drawerOf(visit, { trail, record, place, history });
}

/** null for an id that the organization does not have. */
export async function findRecord({ call }: Pick<Visit, "call">, id: string): Promise<TrailAttestation | null> {
  const { data } = await call(getAttestations, { query: { attestation_id: id, per_page: 1 } });
  return (data[0] as TrailAttestation | undefined) ?? null;
}

const targetOf = ({ artifact_fingerprint: print, target_artifacts: names }: TrailAttestation): string =>
  print ?? names?.join(" ") ?? "";
const isSameTarget = (one: TrailAttestation, other: TrailAttestation): boolean => targetOf(one) === targetOf(other);

/** The address of the trail without the drawer. */
const closed = ({ here, query }: Visit): string => here({ ...CLOSED, page: query.get("page") });

function missingDrawer(visit: Visit, elsewhere: TrailAttestation | null): Html {
  const text = elsewhere
    ? html`It was reported to <a href="${visit.to.attestation({
        flow: elsewhere.flow_name,
        trail: elsewhere.trail_name,
        id: elsewhere.attestation_id,
      })}"><bdi>${elsewhere.trail_name}</bdi></a> of flow <bdi>${elsewhere.flow_name}</bdi>.`
    : "Its address may be incomplete, or the retention rules of the organization removed it.";
  return drawer({
    label: "Attestation",
    what: "attestation",
    close: closed(visit),
    body: html`<section><h2>No such attestation on this trail</h2><p class="gap-t2">${text}</p></section>`,
  });
}

async function drawerOf(visit: Visit, opened: Opened): Promise<Html> {
  const { record, place } = opened;
  const { query } = visit;
  const label = html`Attestation ${record.attestation_name}`;
  const isJson = query.get("view") === "json";
  const isAsked = query.get("ask") === "override" && place !== null && visit.may(postOverride);
  const body = isJson
    ? html`<section><h3>Raw JSON</h3>${jsonText(
        record,
        "The record as the API shows it",
        wholeRecord(visit, record),
      )}</section>`
    : html`${await askedOverride(visit, opened, isAsked)}${await recordSections(visit, opened)}`;
  return drawer({
    label,
    what: "attestation",
    close: closed(visit),
    ...placeOf(visit, opened),
    body: html`${headSection(visit, opened)}${body}${actionSection(visit, opened, { isJson, isAsked })}`,
  });
}

/** Where the record stands in the checklist, and the way to its neighbours. */
function placeOf({ here }: Visit, { place }: Opened) {
  const addressOf = (id: string | null): string | null => id && here({ ...CLOSED, attestation_id: id });
  if (place === null) return { position: "Replaced by a later record", previous: null, next: null };
  return {
    position: `${formatNumber(place.position)} of ${formatNumber(place.reported)}`,
    previous: addressOf(place.previous),
    next: addressOf(place.next),
  };
}

/** The address of the record as JSON. */
const wholeRecord = ({ to, org }: Visit, { attestation_id: id }: TrailAttestation): string =>
  `${to.api("attestations", org)}${queryText({ attestation_id: id })}`;

function headSection(visit: Visit, { trail, record, place }: Opened): Html {
  const { to, now, query } = visit;
  const { rule, figures } = detailsOf(record, { now, whole: wholeRecord(visit, record) });
  const summary = html`<p class="gap-t2">${rule}</p>${figures && html`<div class="gap-t2">${figures}</div>`}`;
  const check = place?.check;
  const print = record.artifact_fingerprint ?? check?.artifact?.artifact_fingerprint;
  const owner = check?.artifact?.name ?? record.target_artifacts?.[0];
  const artifact = owner === undefined ? null : html`<bdi>${owner}</bdi>`;
  const isOverride = record.attestation_type === "override";
  // An override says nothing of its own: its kind is that of the check.
  const type = (isOverride && check?.attestation_type) || record.attestation_type;
  const isReplaced = check !== undefined && countingId(check) !== record.attestation_id;
  return html`<section><div class="ph-title"><h2><bdi>${record.attestation_name}</bdi></h2>${badge(
    stateOfVerdict(record.is_compliant),
    isOverride ? { word: `${record.is_compliant ? "Compliant" : "Non-compliant"} by override` } : {},
  )}${isReplaced && tag("overridden", "pencil")}${check?.unexpected && tag("not in template", "plus")}</div>
<div class="meta"><span>${typeWordOf(type)}</span>${
    artifact &&
    html`<span>${icon("package")}${
      print ? html`<a href="${to.artifact(trail.flow.name, print)}">${artifact}</a>` : artifact
    }</span>`
  }<span>${time(record.created_at, now)}</span></div>
${query.get("view") !== "json" && summary}</section>`;
}

async function recordSections(visit: Visit, opened: Opened): Promise<Value> {
  const { record } = opened;
  const whole = wholeRecord(visit, record);
  const { sections = [] } = detailsOf(record, { now: visit.now, whole });
  const userData = record.user_data;
  return [
    overrideSection(visit, opened),
    ...sections,
    await sbomSection(visit, record),
    recordSection(record),
    userData !== null &&
      userData !== undefined &&
      html`<section><h3>User data</h3>${jsonText(userData, "User data", whole)}</section>`,
    await evidenceSection(visit, opened),
    earlierSection(visit, opened),
  ];
}

/** Who overrode what, and why: of an override, and of the record that it replaced. */
function overrideSection(visit: Visit, { record, place, history }: Opened): Html | null {
  const { here, now } = visit;
  const overrideId = place?.check.overridden_attestation_id ?? null;
  const override =
    record.attestation_type === "override" ? record : history.find(({ attestation_id: id }) => id === overrideId);
  if (override === undefined) return null;
  const original =
    history.find(({ attestation_id: id }) => id === place?.check.attestation_id) ??
    history.find(({ attestation_type: type, created_at: at }) => type !== "override" && at < override.created_at);
  const to = (other: TrailAttestation): string => here({ ...CLOSED, attestation_id: other.attestation_id });
  const before =
    original === undefined
      ? "Nothing was reported before"
      : html`<span class="row">${stateIcon(stateOfVerdict(original.is_compliant))}<a href="${to(original)}">${
          resultOf(original) || (original.is_compliant ? "Compliant" : "Non-compliant")
        }</a></span>`;
  const isOwn = override === record;
  return html`<section><h3>Override</h3>${facts([
    ["Verdict", override.is_compliant ? "Compliant" : "Non-compliant"],
    ["By", html`<bdi>${override.reported_by}</bdi>`],
    ["When", time(override.created_at, now)],
    ["Reason", html`<span class="prose">${textOf(override["reason"])}</span>`],
    ["Before", isOwn ? before : null],
    ["Record", isOwn ? null : html`<a href="${to(override)}">The override in force</a>`],
  ])}</section>`;
}

function recordSection(record: TrailAttestation): Html {
  const info = objectOf(record.git_commit_info);
  const sha = textOf(info["sha1"]);
  const [message = ""] = textOf(info["message"]).split("\n");
  return html`<section><h3>Record</h3>${facts([
    ["Reported by", html`<bdi>${record.reported_by}</bdi>`],
    ["Description", record.description && html`<span class="prose">${record.description}</span>`],
    ["Commit", sha !== "" && html`${commit(sha, textOf(info["url"]))} ${message}`],
    ["Run", record.origin_url && reportedLink(record.origin_url, runName(record.origin_url))],
    ...membersOf(record.external_urls).map(
      ([name, link]) =>
        [name, reportedLink(textOf(objectOf(link)["href"]), shortAddress(textOf(objectOf(link)["href"])))] as const,
    ),
    ...membersOf(record.annotations).map(
      ([name, value]) => [name, reportedLink(textOf(value), textOf(value))] as const,
    ),
  ])}</section>`;
}

/** The name of a run by its address: `Build 88043`; the address where it does not end in a number. */
export function runName(url: string): string {
  const [, number] = /\/(\d+)\/?(?:\?[^?]*)?$/.exec(url) ?? [];
  return number === undefined ? shortAddress(url) : `Build ${number}`;
}

/** An address without its scheme, the middle left out where it is long. */
function shortAddress(url: string): string {
  const text = url.replace(/^https?:\/\//, "");
  return text.length <= 48 ? text : `${text.slice(0, 24)}…${text.slice(-23)}`;
}

async function evidenceSection(visit: Visit, { trail, record }: Opened): Promise<Html | null> {
  const { here, query, to, org } = visit;
  if (record.evidence_archive_fingerprint === null) return null;
  const id = record.attestation_id;
  const file = await openEvidence(visit, trail, id);
  if (file === null) return html`<section><h3>Evidence</h3><p>The file cannot be read at the moment.</p></section>`;
  const address = `${to.trail(trail.flow.name, trail.name)}/evidence${queryText({ attestation_id: id })}`;
  const download = to.api("attestations", org, trail.flow.name, "trail", trail.name, "attestation", id, "evidence");
  const isShown = query.get("view") === "evidence";
  const name = /\.(?:t?gz|tar|zip)$/.test(file.filename) ? "file-zip" : "file";
  return html`<section id="evidence"><h3>Evidence</h3><div class="secret">${icon(name)}<code>${file.filename}</code>
<span class="sub nowrap">${sizeText(file.size)}</span>${
    isShown
      ? linkButton(here({ ...CLOSED, attestation_id: id }), "Hide", { kind: "small" })
      : linkButton(`${here({ ...CLOSED, attestation_id: id, view: "evidence" })}#evidence`, "Preview", {
          kind: "small",
        })
  }<a class="btn btn-s btn-icon" href="${download}" download
aria-label="Download ${file.filename}">${icon("download")}</a></div>${
    isShown &&
    html`<iframe class="evidence" sandbox src="${address}" title="Preview of ${file.filename}" loading="lazy"></iframe>
<p class="sub"><a href="${address}">Open the preview alone</a></p>`
  }</section>`;
}

/** null where the file is out of reach, so that the rest of the record stays readable. */
async function openEvidence(
  { open }: Visit,
  trail: Trail,
  id: string,
): Promise<{ filename: string; size: number } | null> {
  try {
    const found = await open(getEvidence, {
      params: { flow_name: trail.flow.name, trail_name: trail.name, attestation_id: id },
    });
    return "download" in found ? found.download : null;
  } catch (error) {
    if (!(error instanceof AppError) || error.code === "internal") throw error;
    return null;
  }
}

function earlierSection({ here, now }: Visit, { record, history, place }: Opened): Html | null {
  const current = place === null ? history.find(({ created_at: at }) => at > record.created_at) : undefined;
  const earlier = history.filter(
    (other) => other.created_at < record.created_at && other.attestation_id !== record.attestation_id,
  );
  if (earlier.length === 0 && !current) return null;
  const row = (other: TrailAttestation): Html => {
    const state = stateOfVerdict(other.is_compliant);
    const text = resultOf(other) || (other.is_compliant ? "Compliant" : "Non-compliant");
    const href = here({ ...CLOSED, attestation_id: other.attestation_id });
    const link = html`<a href="${href}">${text}</a>`;
    return html`<li>${stateIcon(state)}<span class="grow">${link}</span>${time(other.created_at, now)}</li>`;
  };
  const latest =
    current && html`<section><h3>Later record</h3><ul class="rows rows-flat">${row(current)}</ul></section>`;
  if (earlier.length === 0) return html`${latest}`;
  const rest = earlier.length - MAX_EARLIER;
  return html`${latest}<section><h3>Earlier records</h3><ul class="rows rows-flat">${earlier
    .slice(0, MAX_EARLIER)
    .map(row)}</ul>${rest > 0 && html`<p class="sub gap-t2">${rest} more.</p>`}</section>`;
}

function actionSection(
  { here, may, query }: Visit,
  { record, place }: Opened,
  { isJson, isAsked }: { isJson: boolean; isAsked: boolean },
): Html {
  const at = (changes: Record<string, string>): string =>
    here({ ...CLOSED, attestation_id: record.attestation_id, page: query.get("page"), ...changes });
  const override =
    place !== null &&
    !isAsked &&
    may(postOverride) &&
    linkButton(at({ ask: "override" }), "Override", { icon: "pencil" });
  const json = isJson
    ? linkButton(at({}), "Summary", { icon: "checklist" })
    : linkButton(at({ view: "json" }), "Raw JSON", { icon: "code" });
  return html`<section><div class="row">${override}${json}</div></section>`;
}

/** The form that overrides, where the address or a refusal asks for it. */
async function askedOverride(visit: Visit, { record, place }: Opened, isAsked: boolean): Promise<Html | null> {
  if (place === null || (!isAsked && visit.refused?.form !== "override")) return null;
  const cancel = visit.here({ ...CLOSED, attestation_id: record.attestation_id, page: visit.query.get("page") });
  return await overrideForm(visit, { check: place.check, record }, { cancel });
}
