/** The tab with the trails of a flow, newest first. */
import type { AnswerOf } from "../../../http/in-process.ts";
import type { getFlow } from "../../../api/flows/flows.ts";
import { listTrails } from "../../../api/flows/trails.ts";
import { STATES } from "../../../domain/compliance/artifact.ts";
import { causesLine } from "../../components/causes.ts";
import { commit } from "../../components/identifier.ts";
import { nameCell } from "../../components/layout.ts";
import { renderList, pageFrom } from "../../components/list-page.ts";
import type { ListPart } from "../../components/list-page.ts";
import { oneOf, stateFilter } from "../../components/lists.ts";
import { badge, stateOf } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { icon } from "../../components/icon.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

export type Flow = AnswerOf<typeof getFlow>;
type Trail = Extract<AnswerOf<typeof listTrails>, { states: unknown }>["data"][number];

export async function trailsTab(visit: Visit, flow: Flow): Promise<Html> {
  const { body } = await renderList(visit, {
    what: ["trail", "trails"],
    read: pageFrom(listTrails, ({ query }) => ({
      params: { flow_name: flow.name },
      query: {
        summaries: true,
        causes: true,
        state: oneOf(query, "state", STATES),
        search_by_name: query.get("search"),
      },
    })) as (visit: Visit) => Promise<ListPart<Trail>>,
    filters: (_visit, { states }) => [
      { kind: "search", name: "search", label: "Search by name" },
      stateFilter(STATES, states),
    ],
    keep: ["tab"],
    columns: [
      { text: "Name" },
      { text: "State", className: "w-st" },
      { text: "Cause", className: "w-cause" },
      { text: "Commit", className: "hide-t" },
      { text: "Begun", isRight: true },
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
    mark: icon("history"),
  });
  return html`<tr>${name}<td>${badge(stateOf(trail.compliance_state))}</td><td class="fill">${causesLine(trail)}</td>
<td class="hide-t">${commit(info?.sha1, info?.url)}</td><td class="r">${time(trail.created_at, now)}</td></tr>`;
}
