/** The tab with the deployments of a repository: how often and how fast, by environment. */
import { medianOf } from "../../../domain/median.ts";
import { getRepoDeploymentStatistics, listRepoDeployments } from "../../../api/flows/repo-releases.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { deploymentTable, LEAD_TIME } from "../../components/deployments.ts";
import { card, empty, padded } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { formatNumber } from "../../components/state.ts";
import { HALF_WIDTH } from "../../components/charts.ts";
import { formatSpan } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { frequencyChart, listWindow, longerPeriod, periodChoice, periodOf } from "./repo-period.ts";
import type { Period } from "./repo-period.ts";

type Deployment = AnswerOf<typeof listRepoDeployments>["deployments"][number];
type Series = AnswerOf<typeof getRepoDeploymentStatistics>["environments"][number];

const PER_PAGE = 25;
/** Environments whose metrics are shown, the most deployed to first. */
const MAX_ENVIRONMENTS = 10;

export async function releaseTab(visit: Visit, { id }: { id: string }): Promise<Html> {
  const { call, query } = visit;
  const period = periodOf(visit);
  const window = { start_ts: period.from, end_ts: period.to };
  const { environments } = await call(getRepoDeploymentStatistics, {
    params: { repo: id },
    query: { ...window, first_starts: true },
  });
  const current = pageOf(query);
  const part = listWindow(visit, period);
  const list = await call(listRepoDeployments, {
    params: { repo: id },
    query: { ...part.window, page: current, per_page: PER_PAGE, first_starts: true },
  });
  const { total_count: total, total_pages } = list;
  const times = environments.flatMap(({ deployed_at: at }) => at);
  return html`<div class="stack"><div class="cols-half">${card({
    id: "h-frequency",
    title: "Frequency",
    note: period.days > 30 ? "by week" : "by day",
    body: padded(frequencyChart(visit, times, { period, what: "deployment", width: HALF_WIDTH })),
  })}${environments.length > 0 && metrics(visit, environments, period)}</div>
<div class="list-head">${card({
    id: "h-deployments",
    title: "Deployments",
    note: part.note(total),
    more: periodChoice(visit, period),
    body: list.deployments.length > 0 ? deployments(visit, list.deployments) : noDeployments(visit, total),
  })}${pager(visit, { total, page: current, per_page: PER_PAGE, page_count: total_pages })}</div></div>`;
}

function metrics({ to }: Visit, environments: readonly Series[], { days }: Period): Html {
  const shown = [...environments]
    .sort((a, b) => b.deployed_at.length - a.deployed_at.length)
    .slice(0, MAX_ENVIRONMENTS)
    .map(({ environment_name: name, deployed_at: at, first_start_lead_times: leads = [] }) => {
      const known = leads.filter((seconds) => seconds !== null).map((seconds) => Math.max(0, seconds));
      const lead = medianOf(known);
      const unknown = leads.length - known.length;
      const noun = at.length === 1 ? "deployment" : "deployments";
      const a_week = ((at.length / days) * 7).toFixed(1);
      return html`<li><div class="grow"><a class="name cut" href="${to.environment(name)}">${name}</a>
<div class="sub">${formatNumber(at.length)} ${noun}, ${a_week} a week${
        unknown > 0 && `; ${formatNumber(unknown)} with an unknown commit time`
      }</div></div><span
class="num">${lead === null ? html`<span class="muted">–</span>` : formatSpan(lead)}</span></li>`;
    });
  const rest = environments.length - shown.length;
  return card({
    id: "h-metrics",
    title: "By environment",
    note: `${LEAD_TIME.toLowerCase()}, median`,
    body: html`<ul class="rows">${shown}</ul>`,
    foot: rest > 0 && `${formatNumber(rest)} more environments`,
  });
}

const deployments = (visit: Visit, rows: readonly Deployment[]): Html =>
  deploymentTable(visit, rows, {
    unnamed: ({ fingerprint }) => fingerprint.slice(0, 7),
    sub: ({ flow_name: flow, trail_name: trail }) =>
      flow !== null && trail !== null && html`${flow}<a href="${visit.to.trail(flow, trail)}">${trail}</a>`,
  });

const noDeployments = (visit: Visit, total: number): Html =>
  empty({
    icon: "rocket",
    title: total > 0 ? "This page is beyond the end" : "No deployments in this period",
    text: "A deployment is the start of an artifact of this repository in an environment.",
    actions: longerPeriod(visit, periodOf(visit)),
  });
