/** The card with the history of a trail. Runs of like events are folded into one. */
import type { AnswerOf } from "../../../http/in-process.ts";
import type { listTrailEvents } from "../../../api/flows/trails.ts";
import { resultOf } from "../../components/attestation-result.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { commit, fingerprint } from "../../components/identifier.ts";
import { card, moreLink } from "../../components/layout.ts";
import { count } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { CLOSED } from "./trail-checklist.ts";
import type { Trail, TrailAttestation } from "./trail-entries.ts";

type EventPage = AnswerOf<typeof listTrailEvents>;
export type TrailEvent = EventPage["data"][number];
type Facts = { trail: Trail; events: EventPage; records: ReadonlyMap<string, TrailAttestation> };

/** Events a page of the history has. */
const EVENTS_PER_PAGE = 25;
/** Like events are folded if they are at least as many. */
const MIN_FOLDED = 3;
const NAMES_IN_FOLD = 2;

/** The page of the history that the address asks for. */
export function eventsQuery({ query }: Pick<Visit, "query">) {
  const page = Number(query.get("events") ?? "1");
  return {
    order: query.get("order") === "oldest" ? ("oldest" as const) : ("newest" as const),
    page: Number.isInteger(page) && page >= 1 && page <= 1_000_000 ? page : 1,
    per_page: EVENTS_PER_PAGE,
  };
}

export function eventsCard(visit: Visit, facts: Facts): Html {
  const { here, query } = visit;
  const { total } = facts.events.pagination;
  const isOldestFirst = query.get("order") === "oldest";
  const other = here({ order: isOldestFirst ? null : "oldest", events: null, page: query.get("page") });
  const runs = runsOf(facts.events.data);
  const items = runs.flatMap((run) =>
    run.length >= MIN_FOLDED ? [foldedItem(visit, run, facts)] : run.map((event) => eventItem(visit, event, facts)),
  );
  return card({
    id: "h-events",
    title: "Events",
    note: count(total),
    more: total > 1 ? moreLink(`${other}#h-events`, isOldestFirst ? "Newest first" : "Oldest first") : null,
    body:
      items.length > 0
        ? html`<ol class="tl">${items}</ol>`
        : html`<div class="card-b muted">There are no events on this page of the history.</div>`,
    foot: pageLinks(visit, facts.events),
  });
}

function pageLinks({ here, query }: Visit, { pagination: { page, page_count: last } }: EventPage): Html | null {
  if (last <= 1 && page === 1) return null;
  const at = (to: number): string => `${here({ events: to === 1 ? null : to, page: query.get("page") })}#h-events`;
  const earlier = page > 1 && html`<a href="${at(Math.min(page - 1, Math.max(last, 1)))}">Previous events</a>`;
  return html`<span class="num">Page ${page} of ${Math.max(last, 1)}</span><span class="row right">${earlier}${
    page < last && html`<a href="${at(page + 1)}">More events</a>`
  }</span>`;
}

/** Consecutive events that read alike: passing reports, or starts and stops of one artifact in one environment. */
function runsOf(events: readonly TrailEvent[]): TrailEvent[][] {
  const runs: TrailEvent[][] = [];
  let key: string | null = null;
  for (const event of events) {
    const own = likenessOf(event);
    if (own !== null && own === key) runs.at(-1)?.push(event);
    else runs.push([event]);
    key = own;
  }
  return runs;
}

/** null for an event that is shown on its own. */
function likenessOf({ type, attestation_type: kind, is_compliant: isCompliant, ...event }: TrailEvent): string | null {
  if (type === "artifact_started_running" || type === "artifact_stopped_running")
    return `runs ${event.artifact_id} ${event.environment_id}`;
  return type.includes("attestation") && kind !== "override" && isCompliant === true ? "passed" : null;
}

type Look = { icon: IconName; colour?: "ok" | "bad" | "wait"; text: Value };

const item = (event: TrailEvent, now: number, { icon: name, colour = undefined, text }: Look): Html =>
  html`<li><span class="tl-n ${colour}">${icon(name)}</span><div
class="tl-b">${text}</div>${time(event.timestamp, now)}</li>`;

function eventItem(visit: Visit, event: TrailEvent, facts: Facts): Html {
  return item(event, visit.now, lookOf(visit, event, facts));
}

function foldedItem(visit: Visit, run: readonly TrailEvent[], facts: Facts): Html {
  const [first] = run as readonly [TrailEvent];
  const isReport = first.type.includes("attestation");
  const names = [...new Set(run.map(({ template_reference_name: name }) => name ?? ""))];
  const rest = run.length - Math.min(names.length, NAMES_IN_FOLD);
  const shown = names.slice(0, NAMES_IN_FOLD).map((name, at) => html`${at > 0 && ", "}<b><bdi>${name}</bdi></b>`);
  const text = isReport
    ? html`${shown} and ${rest} more reported`
    : html`Artifact <b><bdi>${first.artifact_name}</bdi></b> started and stopped
in <bdi>${first.environment_name}</bdi>,
${run.length} times`;
  const all = run.map(
    (event) =>
      html`<li>${lookOf(visit, event, facts).text} <span class="sub">${time(event.timestamp, visit.now)}</span></li>`,
  );
  return item(first, visit.now, {
    icon: isReport ? "check" : "sync",
    ...(isReport ? { colour: "ok" as const } : {}),
    text: html`<details class="fold"><summary>${text}</summary><ul>${all}</ul></details>`,
  });
}

function lookOf(visit: Visit, event: TrailEvent, facts: Facts): Look {
  switch (event.type) {
    case "trail_reported":
      return { icon: "git-commit", text: begunText(event, facts.trail) };
    case "trail_updated":
      return { icon: "pencil", text: updatedText(event) };
    case "artifact_creation_reported":
      return { icon: "package", text: html`Artifact ${artifactText(visit, event, facts)} reported` };
    case "artifact_started_running":
    case "artifact_stopped_running":
      return runningLook(visit, event);
    case "artifact_approval_reported":
      return { icon: "check", text: html`Approval reported for ${artifactText(visit, event, facts)}` };
    default:
      return reportLook(visit, event, facts);
  }
}

const begunText = ({ git_commit_info: info }: TrailEvent, { created_by: by }: Trail): Html =>
  html`Trail begun by <bdi>${by}</bdi>${info && html` at ${commit(info.sha1, info.url)}`}`;

const CHANGES: Readonly<Record<string, string>> = {
  description: "description",
  git_commit_info: "commit",
  origin_url: "address of the build",
  external_urls: "links",
  user_data: "user data",
  template_id: "template",
  repo_info: "repository",
};

const updatedText = ({ changes = [] }: TrailEvent): Html =>
  changes.length === 0
    ? html`Trail begun again without a change`
    : html`Trail updated: ${changes.map((name) => CHANGES[name] ?? name).join(", ")}`;

function artifactText({ to }: Visit, event: TrailEvent, { trail }: Facts): Html {
  const print = event.artifact_fingerprint;
  const name = html`<b><bdi>${event.template_reference_name ?? event.artifact_name ?? event.target_artifact}</bdi></b>`;
  if (!print) return name;
  return html`<a href="${to.artifact(trail.flow.name, print, event.artifact_id)}">${name}</a> ${fingerprint(print)}`;
}

function runningLook({ to }: Visit, event: TrailEvent): Look {
  const { environment_name: environment = "", snapshot_index: index = 0 } = event;
  const place = html`<a href="${to.snapshot(environment, index)}"><bdi>${environment}</bdi> #${index}</a>`;
  const verb = event.type === "artifact_started_running" ? "started running in" : "stopped running in";
  const name = event.template_reference_name ?? event.artifact_name;
  return {
    icon: event.type === "artifact_started_running" ? "play" : "skip",
    text: html`Artifact <b><bdi>${name}</bdi></b> ${verb} ${place}`,
  };
}

function reportLook({ here, query }: Visit, event: TrailEvent, { records }: Facts): Look {
  const { attestation_id: id = null, is_compliant: isCompliant, attestation_type: type = "" } = event;
  const record = id === null ? undefined : records.get(id);
  const opened = here({ ...CLOSED, attestation_id: id, page: query.get("page") });
  const name = html`<a href="${opened}"><b><bdi>${event.template_reference_name}</bdi></b></a>`;
  const artifact = event.target_artifact ?? event.artifact_name;
  const owner = artifact ? html` for <bdi>${artifact}</bdi>` : null;
  const colour = isCompliant ? ("ok" as const) : ("bad" as const);
  if (type === "override") {
    const reason = typeof record?.["reason"] === "string" && html`: “${record["reason"]}”`;
    const word = isCompliant ? "compliant" : "non-compliant";
    return {
      icon: "pencil",
      colour: "wait",
      text: html`${name} overridden to ${word}${owner}${record && html` by <bdi>${record.reported_by}</bdi>`}${reason}`,
    };
  }
  const result = record ? resultOf(record) : "";
  if (type === "system:decision")
    return {
      icon: "law",
      colour,
      text: html`${name} recorded${owner}${record && html` by <bdi>${record.reported_by}</bdi>`}, ${result}`,
    };
  return {
    icon: isCompliant ? "check" : "x",
    colour,
    text: html`${name} reported${event.is_reattestation && " again"}${owner}${result !== "" && html`: ${result}`}`,
  };
}
