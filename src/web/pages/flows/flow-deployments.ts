/** The tab with the deployments of a flow: when what it built began to run, and how long that took. */
import { presentPagination } from "../../../http/pagination.ts";
import { listDeployments } from "../../../api/environments/deployments.ts";
import { deploymentTable, leadTimeCard } from "../../components/deployments.ts";
import { empty, linkButton } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Flow } from "./flow-trails.ts";

const PER_PAGE = 25;
/** Days that the tab looks back. */
const WINDOW_DAYS = 90;
/** Deployments whose lead times are drawn. */
const MAX_POINTS = 50;

export async function deploymentsTab(visit: Visit, flow: Flow): Promise<Html> {
  const { call, query, now } = visit;
  const page = pageOf(query);
  const from = Math.floor(now - WINDOW_DAYS * 86_400);
  const answer = await call(listDeployments, {
    query: { flow_name: flow.name, page, per_page: PER_PAGE, start_ts: from, first_starts: true },
  });
  const total = answer.total_count;
  if (total === 0)
    return html`<section class="card">${empty({
      icon: "rocket",
      title: `No deployments in the last ${WINDOW_DAYS} days`,
      text: "A deployment is recorded when an environment reports that an artifact of this flow began to run.",
      actions: linkButton(visit.to.environments(), "Environments"),
    })}</section>`;
  const newest = await call(listDeployments, {
    query: { flow_name: flow.name, page: 1, per_page: MAX_POINTS, start_ts: from, first_starts: true },
  });
  const list = deploymentTable(visit, answer.deployments, {
    unnamed: ({ fingerprint }) => fingerprint,
    sub: ({ trail_name: trail }) => trail,
  });
  const pages = presentPagination(total, page, PER_PAGE);
  return html`${leadTimeCard(newest.deployments, total)}<section class="card" aria-label="Deployments">${list}
</section>${pager(visit, pages)}`;
}
