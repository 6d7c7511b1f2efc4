/** The tab with the trails of a flow, newest first. */
import type { AnswerOf } from "../../../http/in-process.ts";
import type { getFlow } from "../../../api/flows/flows.ts";
import { listTrails } from "../../../api/flows/trails.ts";
import { commit } from "../../components/identifier.ts";
import { empty, linkButton, nameCell, table } from "../../components/layout.ts";
import { filters, pageOf, pager } from "../../components/lists.ts";
import { badge, formatNumber, stateOf } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

export type Flow = AnswerOf<typeof getFlow>;
type TrailPage = Exclude<AnswerOf<typeof listTrails>, readonly unknown[]>;
type Trail = TrailPage["data"][number];

const PER_PAGE = 25;
const STATES = ["INCOMPLETE", "COMPLIANT", "NON-COMPLIANT"] as const;
const STATE_CHOICES = [
  { value: "", text: "Any state" },
  { value: "NON-COMPLIANT", text: "Non-compliant" },
  { value: "INCOMPLETE", text: "Incomplete" },
  { value: "COMPLIANT", text: "Compliant" },
];

export async function trailsTab(visit: Visit, flow: Flow): Promise<Html> {
  const { call, query, here } = visit;
  const state = STATES.find((one) => one === query.get("state"));
  const { data, pagination } = (await call(listTrails, {
    params: { flow_name: flow.name },
    query: { page: pageOf(query), per_page: PER_PAGE, state, search_by_name: query.get("search") },
  })) as TrailPage;
  const isFiltered = state !== undefined || Boolean(query.get("search"));
  if (pagination.total === 0 && !isFiltered)
    return html`<section class="card">${empty({
      icon: "git-commit",
      title: "No trails yet",
      text: "A trail collects the evidence of one run of the flow, such as a release or a pull request.",
      command: `kosli begin trail release-1 --flow ${flow.name}`,
    })}</section>`;
  const form = filters(visit, {
    items: [
      { kind: "search", name: "search", label: "Search by name" },
      { kind: "choice", name: "state", label: "State", choices: STATE_CHOICES },
    ],
    keep: ["tab"],
    total: pagination.total,
    what: pagination.total === 1 ? "trail" : "trails",
  });
  if (data.length === 0)
    return html`${form}<section class="card">${empty({
      icon: "search",
      title: "No trail matches",
      text: "The search looks for a part of the name, in any case.",
      actions: linkButton(here({ search: null, state: null }), "Clear filters"),
    })}</section>`;
  const columns = [
    { text: "Name" },
    { text: "State", className: "w-st" },
    { text: "What is wrong" },
    { text: "Commit", className: "hide-s" },
    { text: "Changed", isRight: true },
  ];
  return html`${form}<section class="card" aria-label="Trails">${table({
    caption: "Trails",
    columns,
    rows: data.map((trail) => trailRow(visit, trail)),
  })}</section>${pager(visit, pagination)}`;
}

function trailRow({ to, now }: Visit, trail: Trail): Html {
  const info = trail.git_commit_info as { sha1?: string; url?: string } | null;
  const name = nameCell({
    href: to.trail(trail.flow.name, trail.name),
    name: html`<bdi>${trail.name}</bdi>`,
    sub: trail.description,
  });
  return html`<tr>${name}<td>${badge(stateOf(trail.compliance_state))}</td><td class="fill">${trailProblems(trail)}</td>
<td class="hide-s">${commit(info?.sha1, info?.url)}</td><td class="r">${time(trail.last_modified_at, now)}</td></tr>`;
}

/** Names that are shown of those that fail, and of those that are missing. */
const MAX_NAMES = 3;

/** What fails and what is missing, by name; null where nothing does. */
function trailProblems({ compliance_status: status }: Pick<Trail, "compliance_status">): Html | null {
  const all = [
    ...status.attestations_statuses,
    ...Object.values(status.artifacts_statuses).flatMap(({ attestations_statuses: own }) => own),
  ];
  const failing = all.filter(({ is_compliant, status: presence }) => presence === "COMPLETE" && is_compliant === false);
  const missing = all.filter(({ status: presence }) => presence === "MISSING");
  const absent = Object.entries(status.artifacts_statuses).filter(([, { status: presence }]) => presence === "MISSING");
  const parts = [
    names(failing.map(({ attestation_name: name }) => name)).map((list) => html`${list} ${verb(failing.length)}`),
    names(missing.map(({ attestation_name: name }) => name)).map((list) => html`${list} missing`),
    absent.length > 0
      ? [html`${formatNumber(absent.length)} ${absent.length === 1 ? "artifact" : "artifacts"} missing`]
      : [],
  ].flat();
  if (parts.length === 0) return null;
  return html`${parts.map((part, index) => html`${index > 0 && ", "}${part}`)}`;
}

const verb = (count: number): string => (count === 1 ? "fails" : "fail");

/** The first names of a list in bold, and how many more there are; empty for an empty list. */
function names(all: readonly string[]): Html[] {
  const unique = [...new Set(all)];
  if (unique.length === 0) return [];
  const shown = unique.slice(0, MAX_NAMES).map((name, index) => html`${index > 0 && ", "}<b>${name}</b>`);
  const rest = unique.length - MAX_NAMES;
  return [html`${shown}${rest > 0 && html` and ${rest} more`}`];
}
