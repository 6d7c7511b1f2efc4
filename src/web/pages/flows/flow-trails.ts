/** The tab with the trails of a flow, newest first. */
import type { AnswerOf } from "../../../http/in-process.ts";
import type { getFlow } from "../../../api/flows/flows.ts";
import { listTrails } from "../../../api/flows/trails.ts";
import { commit } from "../../components/identifier.ts";
import { nameCell } from "../../components/layout.ts";
import { renderList, pageFrom } from "../../components/list-page.ts";
import type { ListPart } from "../../components/list-page.ts";
import { oneOf, stateFilter } from "../../components/lists.ts";
import { badge, formatNumber, stateOf } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

export type Flow = AnswerOf<typeof getFlow>;
type Trail = Extract<AnswerOf<typeof listTrails>, { states: unknown }>["data"][number];

const STATES = ["NON-COMPLIANT", "INCOMPLETE", "COMPLIANT"] as const;

export async function trailsTab(visit: Visit, flow: Flow): Promise<Html> {
  const { body } = await renderList(visit, {
    what: ["trail", "trails"],
    read: pageFrom(listTrails, ({ query }) => ({
      params: { flow_name: flow.name },
      query: { summaries: true, state: oneOf(query, "state", STATES), search_by_name: query.get("search") },
    })) as (visit: Visit) => Promise<ListPart<Trail>>,
    filters: (_visit, { states }) => [
      { kind: "search", name: "search", label: "Search by name" },
      stateFilter(STATES, states),
    ],
    keep: ["tab"],
    columns: [
      { text: "Name" },
      { text: "State", className: "w-st" },
      { text: "What is wrong" },
      { text: "Commit", className: "hide-s" },
      { text: "Changed", isRight: true },
    ],
    row: trailRow,
    empty: {
      icon: "git-commit",
      title: "No trails yet",
      text: "A trail collects the evidence of one run of the flow, such as a release or a pull request.",
      command: `kosli begin trail release-1 --flow ${flow.name}`,
    },
    none: "The search looks for a part of the name, in any case.",
  });
  return html`<div>${body}</div>`;
}

function trailRow({ to, now }: Visit, trail: Trail): Html {
  const info = trail.git_commit_info;
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
function trailProblems({ problems }: Trail): Html | null {
  const of = (problem: string) =>
    problems.flatMap((one) => (one.problem === problem && one.attestation_name !== null ? [one.attestation_name] : []));
  const [failing, missing] = [of("failing"), of("missing")];
  const absent = problems.find(({ attestation_name: name }) => name === null)?.count ?? 0;
  const parts = [
    names(failing).map((list) => html`${list} ${failing.length === 1 ? "fails" : "fail"}`),
    names(missing).map((list) => html`${list} missing`),
    absent > 0 ? [html`${formatNumber(absent)} ${absent === 1 ? "artifact" : "artifacts"} missing`] : [],
  ].flat();
  return parts.length === 0 ? null : html`${parts.map((part, index) => html`${index > 0 && ", "}${part}`)}`;
}

/** The first names of a list in bold, and how many more there are; empty for an empty list. */
function names(all: readonly string[]): Html[] {
  const unique = [...new Set(all)];
  if (unique.length === 0) return [];
  const shown = unique.slice(0, MAX_NAMES).map((name, index) => html`${index > 0 && ", "}<b>${name}</b>`);
  const rest = unique.length - MAX_NAMES;
  return [html`${shown}${rest > 0 && html` and ${rest} more`}`];
}
