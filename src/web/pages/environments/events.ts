/** The tab with what started, exited and changed in an environment, newest first. */
import { getEnvEvents } from "../../../api/environments/environment-events.ts";
import { DAY_S } from "../../../domain/time.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { artifactName, fingerprint, reportedLink } from "../../components/identifier.ts";
import { card, empty, linkButton } from "../../components/layout.ts";
import { filters, pageOf } from "../../components/lists.ts";
import { plainState, stateOfVerdict } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { reportCommand } from "./types.ts";
import type { ShownEnvironment } from "./types.ts";

type Event = AnswerOf<typeof getEnvEvents>[number];

const PER_PAGE = 50;
const KINDS = ["started", "exited", "changed"] as const;
const PERIODS = { "1": "1days", "7": "7days", "30": "30days", "90": "90days" } as const;
const NAMES = ["search", "kind", "days", "repo"] as const;

export async function environmentEvents(visit: Visit, environment: ShownEnvironment): Promise<Html> {
  const { call, query, here, moment, now } = visit;
  const kind = KINDS.find((one) => one === query.get("kind"));
  const period = PERIODS[query.get("days") as keyof typeof PERIODS];
  const days = period === undefined ? null : Number(query.get("days"));
  const repository = (query.get("repo") ?? "").trim();
  const reading = call(getEnvEvents, {
    params: { env_name: environment.name },
    query: {
      page: pageOf(query),
      per_page: PER_PAGE,
      reverse: false,
      search: query.get("search")?.trim() || null,
      ...(moment === null ? { start: period ?? null } : { from: days === null ? null : now - days * DAY_S, to: now }),
      ...(kind ? { kind: [kind] } : {}),
      ...(repository === "" ? {} : { repo_name: [repository] }),
    },
  });
  const events = await reading.catch((error: unknown): readonly Event[] => {
    // No event is of a repository that does not exist.
    if (repository !== "" && error instanceof AppError && error.code === "not_found") return [];
    throw error;
  });
  const isFiltered = NAMES.some((name) => (query.get(name) ?? "") !== "");
  const form = eventFilters(visit);
  if (events.length > 0) return html`${form}${eventList(visit, environment, events)}`;
  if (isFiltered || pageOf(query) > 1)
    return html`${form}<section class="card">${empty({
      icon: "search",
      title: "No event matches",
      text: "The search looks for a part of the artifact's name, or the beginning of its fingerprint.",
      actions: linkButton(here({ search: null, kind: null, days: null, repo: null }), "Clear filters"),
    })}</section>`;
  return html`<section class="card">${empty({
    icon: "history",
    title: "No events yet",
    text: "An event is recorded when an artifact starts, exits or changes.",
    command: reportCommand(environment),
  })}</section>`;
}

const eventFilters = (visit: Visit): Html =>
  filters(visit, {
    items: [
      { kind: "search", name: "search", label: "Name or fingerprint" },
      {
        kind: "choice",
        name: "kind",
        label: "Kind",
        choices: [
          { value: "", text: "Any event" },
          { value: "started", text: "Started" },
          { value: "exited", text: "Exited" },
          { value: "changed", text: "Changed" },
        ],
      },
      {
        kind: "choice",
        name: "days",
        label: "Period",
        choices: [
          { value: "", text: "Any time" },
          { value: "1", text: "Last day" },
          { value: "7", text: "Last 7 days" },
          { value: "30", text: "Last 30 days" },
          { value: "90", text: "Last 90 days" },
        ],
      },
      { kind: "text", name: "repo", label: "Repository" },
    ],
    keep: ["tab"],
    total: null,
    what: "events",
  });

/** Older events are fetched when the end of the list comes into view; without scripts it is a link. */
function eventList(visit: Visit, environment: ShownEnvironment, events: readonly Event[]): Html {
  const page = pageOf(visit.query);
  const newer = page > 1 && html`<p class="gap-b"><a href="${visit.here({ page: page - 1 })}">Newer events</a></p>`;
  const older =
    events.length === PER_PAGE &&
    html`<li class="tl-more"><a class="btn" href="${visit.here({ page: page + 1 })}"
data-hx-get="${visit.here({ page: page + 1 })}"
data-hx-trigger="click, intersect once" data-hx-target="closest li" data-hx-swap="outerHTML"
data-hx-select="#events > li">Older events</a></li>`;
  const items = events.map((event) => eventItem(visit, event, environment.type === "logical"));
  return html`${newer}${card({
    id: "h-events",
    title: "Events",
    note: "newest first",
    body: html`<ol class="tl" id="events">${items}${older}</ol>`,
  })}`;
}

type Look = { icon: IconName; look: string; word: string };

function lookOf({ type, artifact_compliance: verdict }: Event): Look {
  if (type === "exited") return { icon: "diff-removed", look: "", word: "exited" };
  if (type === "became-non-compliant") return { icon: "x-circle-fill", look: "bad", word: "became non-compliant" };
  if (type === "became-compliant") return { icon: "check-circle-fill", look: "ok", word: "became compliant" };
  if (type === "updated-provenance") return { icon: "diff-modified", look: "", word: "got other provenance" };
  if (type.startsWith("started")) return { icon: "diff-added", look: verdict === false ? "bad" : "", word: "started" };
  return { icon: "diff-modified", look: "", word: type === "scaled" ? "was scaled" : "changed" };
}

/** `6 instances stopped running (from 6 to 0)`, whose end goes to the next line as a whole. */
const keepTogether = (text: string): string => text.replace(/\(.*\)$/, (end) => end.replaceAll(" ", "\u00a0"));

function eventItem({ to, now }: Visit, event: Event, isLogical: boolean): Html {
  const { icon: name, look, word } = lookOf(event);
  const flow = event.flows[0]?.flow_name;
  const label = artifactName(event.artifact_name);
  const title =
    flow && event.sha256 !== "" ? html`<a class="name" href="${to.artifact(flow, event.sha256)}">${label}</a>` : label;
  const verdict =
    event.type === "exited" || event.type.startsWith("became")
      ? null
      : plainState(stateOfVerdict(event.artifact_compliance));
  const place = html`${isLogical && html`<bdi>${event.environment_name}</bdi> `}#${event.snapshot_index}`;
  const parts = [
    event.sha256 !== "" && fingerprint(event.sha256),
    html`<span>${keepTogether(event.description)}</span>`,
    verdict,
    flow && html`<a href="${to.flow(flow)}"><bdi>${flow}</bdi></a>`,
    event.code_diff && reportedLink(event.code_diff, "Commits"),
  ];
  return html`<li><span class="tl-n ${look}" aria-hidden="true">${icon(name, "12")}</span><div
class="tl-b"><b>${title}</b> ${word}
in <a href="${to.snapshot(event.environment_name, event.snapshot_index)}">${place}</a><div
class="sub ev-sub">${parts}</div></div>${time(event.reported_at, now)}</li>`;
}
