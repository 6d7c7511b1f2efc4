/** The tab with the deployments of a flow: when what it built began to run, and how long that took. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { listDeployments } from "../../../api/environments/deployments.ts";
import { deploymentTable, summarizeLeadTimes } from "../../components/deployments.ts";
import { card, empty, figures, padded } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { formatNumber } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Flow } from "./flow-trails.ts";

type Deployment = AnswerOf<typeof listDeployments>["deployments"][number];

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
    query: { flow_name: flow.name, page, per_page: PER_PAGE, start_ts: from },
  });
  const total = answer.total_count;
  if (total === 0)
    return html`<section class="card">${empty({
      icon: "rocket",
      title: `No deployments in the last ${WINDOW_DAYS} days`,
      text: "A deployment is recorded when an environment reports that an artifact of this flow began to run.",
    })}</section>`;
  const newest = await call(listDeployments, {
    query: { flow_name: flow.name, page: 1, per_page: MAX_POINTS, start_ts: from },
  });
  return html`${leadTimes(newest.deployments)}<section class="card" aria-label="Deployments">${deploymentTable(
    visit,
    answer.deployments,
    { unnamed: ({ fingerprint }) => fingerprint, sub: ({ trail_name: trail }) => trail },
  )}</section>${pager(visit, { total, per_page: PER_PAGE, page, page_count: Math.ceil(total / PER_PAGE) })}`;
}

/** Ranges of lead times, each up to a number of seconds. */
const RANGES: readonly { text: string; below: number }[] = [
  { text: "under 1 h", below: 3600 },
  { text: "1 to 4 h", below: 4 * 3600 },
  { text: "4 to 24 h", below: 86_400 },
  { text: "1 to 3 days", below: 3 * 86_400 },
  { text: "3 to 7 days", below: 7 * 86_400 },
  { text: "longer", below: Number.POSITIVE_INFINITY },
];

/** The lead times of the newest deployments: figures, and how many lie in each range. */
function leadTimes(deployments: readonly Deployment[]): Html | null {
  const summary = summarizeLeadTimes(deployments);
  if (summary === null) return null;
  const { times, median, slow, slowest, finding } = summary;
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
  return card({
    id: "h-lead",
    title: "Lead time",
    note: "from the report of the build to the start",
    body: padded(
      html`${figures([
        { label: "Median", value: median },
        { label: "Nine of ten within", value: slow },
        { label: "Slowest", value: slowest, note: `of ${formatNumber(times.length)}` },
      ])}<div class="dist" role="img" aria-label="${finding}">${bars}</div>`,
    ),
  });
}
