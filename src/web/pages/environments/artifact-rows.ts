/** The artifacts of a snapshot as rows of a table, with the reasons of those that fail. */
import { allowArtifact } from "../../../api/environments/allowlists.ts";
import type { getSnapshot } from "../../../api/environments/snapshots.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { causeSentence } from "../../components/causes.ts";
import { icon } from "../../components/icon.ts";
import { artifactName, commit, fingerprint } from "../../components/identifier.ts";
import { badge, formatNumber, stateOfVerdict, tag } from "../../components/state.ts";
import { formatDate, time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

export type ShownSnapshot = AnswerOf<typeof getSnapshot>;
export type ListedArtifact = ShownSnapshot["artifacts"][number];

/** Stored reasons that a row shows where there are no causes; the explanation has all of them. */
const MAX_REASONS = 4;

/** What a snapshot changed about an artifact, in words; null where nothing. */
export function changeOf({ annotation: { type, was, now } }: ListedArtifact): string | null {
  const words: Readonly<Record<string, string>> = {
    exited: "exited",
    "became-compliant": "became compliant",
    "became-non-compliant": "became non-compliant",
    "updated-provenance": "other provenance",
    changed: "changed",
    scaled: "scaled",
  };
  if (type === "unchanged") return was === now ? null : "scaled";
  return words[type] ?? "started";
}

/** The page of an artifact; null without provenance. */
export function artifactHref({ to }: Visit, { flows: [flow], fingerprint: value }: ListedArtifact): string | null {
  if (!flow || value === "") return null;
  // The address that the API gives names the record, of which a flow may have several with this fingerprint.
  const id = URL.canParse(flow.html_url) ? new URL(flow.html_url).searchParams.get("artifact_id") : null;
  return to.artifact(flow.flow_name, value, id);
}

/** `tr` elements; those of a logical environment in groups, each a `tbody`. */
export function artifactRows(
  visit: Visit,
  { artifacts, index, timestamp }: ShownSnapshot,
  environment: string,
): Html[] {
  const isGrouped = artifacts.some(({ environment_name: member }) => member !== undefined);
  const rowsOf = (artifact: ListedArtifact): Html =>
    artifactRow(visit, artifact, { environment, index, timestamp, owner: artifact.environment_name ?? environment });
  if (!isGrouped) return artifacts.map(rowsOf);
  const groups = Map.groupBy(artifacts, ({ environment_name: member }) => member ?? "");
  return [...groups].map(
    ([member, own]) =>
      html`<tbody><tr class="group"><th colspan="5" scope="rowgroup"><span class="gh"><a
href="${visit.to.environment(member)}"><bdi>${member}</bdi></a></span></th></tr>${own.map(rowsOf)}</tbody>`,
  );
}

/** The snapshot that is shown, with its time in epoch seconds; `owner`: where the artifact runs, maybe a member. */
type Place = { environment: string; index: number; timestamp: number; owner: string };

function artifactRow(visit: Visit, artifact: ListedArtifact, place: Place): Html {
  const { name, fingerprint: value, annotation } = artifact;
  const href = artifactHref(visit, artifact);
  const label = artifactName(name);
  const change = changeOf(artifact);
  const why = value === "" ? null : visit.to.whyArtifact(place.environment, place.index, value);
  const details = detailsOf(visit, artifact, { why, place });
  const sub = html`<div class="sub">${value === "" ? html`<span>no fingerprint</span>` : fingerprint(value)}${
    change && annotation.now > 0 && tag(change)
  }</div>`;
  const title =
    href === null
      ? html`<span class="t-name">${label}</span>`
      : html`<a class="t-name" href="${href}" data-prefetch>${label}</a>`;
  const { was, now: runs } = annotation;
  const instances = was === 0 || runs === 0 || was === runs ? `${runs}` : `${was} → ${runs}`;
  return html`<tr${details && html` class="has-detail"`}><td class="lead"><div
class="name-cell">${icon("package")}<div>${title}
${sub}</div></div></td><td>${stateOf(artifact)}${decisions(artifact, why)}</td><td
class="flow">${provenance(visit, artifact)}</td>
<td class="r num" data-l="Instances">${instances}</td><td
class="r" data-l="Since">${time(sinceOf(artifact, place.timestamp), visit.now)}</td></tr>${
    details && html`<tr class="detail"><td colspan="5" class="full">${details}</td></tr>`
  }`;
}

function stateOf({ annotation, compliant, allowed }: ListedArtifact): Html {
  if (annotation.now === 0) return badge("not_applicable", { word: "Exited" });
  if (compliant === true && allowed) return badge("allowlisted");
  return badge(stateOfVerdict(compliant));
}

/** How many of the policies are satisfied, with a link to the explanation. */
function decisions({ policy_decisions: all, annotation }: ListedArtifact, why: string | null): Html | null {
  if (all.length === 0 || annotation.now === 0) return null;
  const failing = all.filter(({ status }) => status === "NON-COMPLIANT");
  const text =
    failing.length === 0
      ? all.length === 1
        ? "satisfies its policy"
        : `satisfies ${all.length} policies`
      : failing.length === 1
        ? html`fails <span class="whole"><bdi>${failing[0]?.policy_name}</bdi> v${failing[0]?.policy_version}</span>`
        : `fails ${failing.length} of ${all.length} policies`;
  return html`<div class="sub">${why === null ? text : html`<a href="${why}"><span>${text}</span></a>`}</div>`;
}

function provenance({ to }: Visit, { flows, same_name: other }: ListedArtifact): Html {
  const [first, ...more] = flows;
  if (!first) {
    const none = html`<span class="muted nowrap">No provenance</span>`;
    if (!other) return none;
    const href = to.artifact(other.flow, other.fingerprint, other.artifact_id);
    const link = html`<a href="${href}">another fingerprint</a>`;
    return html`${none}<div class="sub"><span>its name has ${link} in <bdi>${other.flow}</bdi></span></div>`;
  }
  const trail =
    first.trail_name &&
    html`<a href="${to.trail(first.flow_name, first.trail_name)}"><bdi class="cut">${first.trail_name}</bdi></a>`;
  const flow = html`<a href="${to.flow(first.flow_name)}"><bdi class="cut">${first.flow_name}</bdi></a>`;
  const others = `and ${more.length} more ${more.length === 1 ? "flow" : "flows"}`;
  return html`${flow}<div class="sub">${trail} ${commit(first.git_commit, first.commit_url)}${
    more.length > 0 && html`<span>${others}</span>`
  }</div>`;
}

/** Since when its state is so: the first start of what runs; the snapshot of one that exited with it. */
function sinceOf({ creationTimestamp: starts, annotation }: ListedArtifact, timestamp: number): number | null {
  if (annotation.now === 0) return timestamp;
  const known = starts.filter((start) => start > 0);
  return known.length === 0 ? null : known.reduce((first, start) => Math.min(first, start));
}

/** Below the row: why it fails, or why it is accepted all the same; null where nothing needs an explanation. */
function detailsOf(
  { may, now, to }: Visit,
  artifact: ListedArtifact,
  { why, place }: { why: string | null; place: Place },
): Html | null {
  const { reasons_for_incompliance: reasons, annotation, allowed, compliant, fingerprint: value } = artifact;
  const { causes = [], further_causes: furtherCauses = 0 } = artifact;
  if (annotation.now === 0) return null;
  if (allowed && compliant === true)
    return html`<ul class="reasons allowed"><li>Accepted by <bdi>${allowed.user_name}</bdi>${
      allowed.expires_at !== null && html` until ${formatDate(allowed.expires_at, now)}`
    }: <q class="prose">${allowed.description}</q></li></ul>`;
  if (compliant !== false) return null;
  // Causes that cannot be read are missing; what is stored of the verdict is shown then.
  const shown = causes.length > 0 ? causes.map((cause) => causeSentence(cause)) : reasons.slice(0, MAX_REASONS);
  const rest = causes.length > 0 ? furtherCauses : reasons.length - shown.length;
  const allow =
    may(allowArtifact) &&
    value !== "" &&
    html`<a class="link" href="${to.environment(place.owner, {
      tab: "settings",
      allow: value,
      name: artifact.name,
    })}">Allow it</a>`;
  const { same_name: other } = artifact;
  const links = html`${why !== null && html`<a class="link" href="${why}">Why?</a>`} ${allow}`;
  return html`<ul class="reasons">${shown.map((one) => html`<li>${one}</li>`)}${
    rest > 0 && html`<li class="muted">and ${formatNumber(rest)} more</li>`
  }${other && html`<li>${other.words}</li>`}<li class="reason-links">${links}</li></ul>`;
}
