/** `/{org}/flows`: the flows of an organization. */
import { getFlows } from "../../../api/flows/flows.ts";
import { card, empty, nameCell, pageHead, table } from "../../components/layout.ts";
import { filters, pageOf, pager } from "../../components/lists.ts";
import { badge, stateOf } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import { page } from "../../page/page.ts";

export const flowsPage = page({
  path: "/{org}/flows",
  async show(visit) {
    const { call, query, to, now } = visit;
    const answer = await call(getFlows, {
      query: { page: pageOf(query), per_page: 25, search_by_name: query.get("search"), sort: query.get("sort") },
    });
    if (Array.isArray(answer)) throw new Error("a page of flows is expected");
    const rows = answer.data.map(
      (flow) =>
        html`<tr>${nameCell({ href: to.flow(flow.name), name: flow.name, sub: flow.description })}<td>${badge(
          stateOf(flow.latest_state),
        )}</td><td class="r">${time(flow.latest_activity_at, now)}</td></tr>`,
    );
    const list = table({
      caption: "Flows",
      columns: [{ text: "Name" }, { text: "Latest trail" }, { text: "Active", isRight: true }],
      rows,
    });
    return {
      title: "Flows",
      section: "flows",
      crumbs: [],
      main: html`${pageHead({ title: "Flows" })}
${filters(visit, {
  items: [{ kind: "search", name: "search", label: "Search by name" }],
  total: answer.pagination.total,
  what: "flows",
})}
${
  rows.length === 0
    ? html`<section class="card">${empty({ icon: "workflow", title: "No flows", text: "None." })}</section>`
    : card({ id: "h-flows", title: "All flows", body: list })
}${pager(visit, answer.pagination)}`,
    };
  },
});
