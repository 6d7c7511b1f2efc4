/** The tab with the deployments of a flow: when what it built began to run, and how long that took. */
import { presentPagination } from "../../../http/pagination.ts";
import { listDeployments } from "../../../api/environments/deployments.ts";
import { deploymentTable, leadTimeCard } from "../../components/deployments.ts";
import { empty } from "../../components/layout.ts";
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
    })}</section>`;
  const newest = await call(listDeployments, {
    query: { flow_name: flow.name, page: 1, per_page: MAX_POINTS, start_ts: from, first_starts: true },
  });
  const list = deploymentTable(visit, answer.deployments, {
    unnamed: ({ fingerprint }) => fingerprint,
    sub: ({ trail_name: trail }) => trail,
  });
  const pages = presentPagination(total, page, PER_PAGE);
  return html`${leadTimeCard(newest.deployments, distribution)}<section class="card" aria-label="Deployments">${list}
</section>${pager(visit, pages)}`;
}

/** Ranges of lead times, each up to a number of seconds. */
const RANGES: readonly { text: string; below: number }[] = [
  { text: "under 1\u00a0h", below: 3600 },
  { text: "1 to 4\u00a0h", below: 4 * 3600 },
  { text: "4 to 24\u00a0h", below: 86_400 },
  { text: "1 to 3\u00a0days", below: 3 * 86_400 },
  { text: "3 to 7\u00a0days", below: 7 * 86_400 },
  { text: "longer", below: Number.POSITIVE_INFINITY },
];

/** How many of the lead times lie in each range. */
function distribution(times: readonly number[], { finding }: { finding: string }): Html {
  const counts = RANGES.map(({ text, below }, index) => {
    const from = RANGES[index - 1]?.below ?? 0;
    return { text, count: times.filter((seconds) => seconds >= from && seconds < below).length };
  });
  const most = counts.reduce((highest, { count }) => Math.max(highest, count), 0);
  const bars = counts.map(({ text, count }) => {
    const height = (count / most) * 100;
    const [top, tall] = [(100 - height).toFixed(1), height.toFixed(1)];
    const bar = html`<rect class="c-bar" x="20%" width="60%" y="${top}%" height="${tall}%"/>`;
    return html`<div><svg aria-hidden="true">${count > 0 && bar}</svg><b>${count}</b>${text}</div>`;
  });
  return html`<div class="dist" role="img" aria-label="${finding}">${bars}</div>`;
}
