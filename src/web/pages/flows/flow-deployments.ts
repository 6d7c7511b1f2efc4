/** The tab with the deployments of a flow: when what it built began to run, and how long that took. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { listDeployments } from "../../../api/environments/deployments.ts";
import { commit } from "../../components/identifier.ts";
import { card, empty, figures, nameCell, padded, table } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { badge, formatNumber, stateOfVerdict } from "../../components/state.ts";
import { formatSpan, time } from "../../components/time.ts";
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
  return html`${leadTimes(newest.deployments)}<section class="card" aria-label="Deployments">${table({
    caption: "Deployments",
    columns: [
      { text: "Artifact" },
      { text: "At the start", className: "w-st" },
      { text: "Environment" },
      { text: "Commit", className: "hide-s" },
      { text: "Lead time", isRight: true },
      { text: "Deployed", isRight: true },
    ],
    rows: answer.deployments.map((deployment) => deploymentRow(visit, deployment)),
  })}</section>${pager(visit, { total, per_page: PER_PAGE, page, page_count: Math.ceil(total / PER_PAGE) })}`;
}

function deploymentRow({ to, now }: Visit, deployment: Deployment): Html {
  const { flow_name: flow, artifact_name: artifact, snapshot_index: index } = deployment;
  const name = nameCell({
    href: flow === null ? null : to.artifact(flow, deployment.fingerprint),
    name: html`<bdi>${artifact ?? deployment.fingerprint}</bdi>`,
    sub: deployment.trail_name,
  });
  const place =
    index === null
      ? deployment.environment_name
      : html`<a href="${to.snapshot(deployment.environment_name, index)}">${deployment.environment_name} #${index}</a>`;
  const lead = deployment.lead_time_seconds;
  return html`<tr>${name}<td>${badge(stateOfVerdict(deployment.compliant))}</td><td class="fill">${place}</td>
<td class="hide-s">${commit(deployment.git_commit, deployment.commit_url)}</td>
<td class="r num" data-l="Lead time">${lead === null ? "–" : formatSpan(lead)}</td>
<td class="r">${time(deployment.deployed_at, now)}</td></tr>`;
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
  const times = deployments
    .flatMap(({ lead_time_seconds: lead }) => (lead === null ? [] : [lead]))
    .sort((a, b) => a - b);
  if (times.length === 0) return null;
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(share * times.length))] as number;
  const [median, slow, longest] = [at(0.5), at(0.9), times.at(-1) as number];
  const sentence = [
    `Half of the newest ${times.length} deployments took at most ${formatSpan(median)}`,
    `nine of ten at most ${formatSpan(slow)}`,
    `the slowest ${formatSpan(longest)}`,
  ].join(", ");
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
        { label: "Median", value: formatSpan(median) },
        { label: "Nine of ten within", value: formatSpan(slow) },
        { label: "Slowest", value: formatSpan(longest), note: `of ${formatNumber(times.length)}` },
      ])}<div class="dist" role="img" aria-label="${sentence}">${bars}</div>`,
    ),
  });
}
