/** The tab with the deployments of an environment: how often, how long after the build, and each of them. */
import { getDeploymentFrequency, listEnvironmentDeployments } from "../../../api/environments/deployments.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { barList, countedIn, dayBars } from "../../components/charts.ts";
import { LEAD_TIME, leadCell, leadTimeCard } from "../../components/deployments.ts";
import { artifactName, commit } from "../../components/identifier.ts";
import { icon } from "../../components/icon.ts";
import { card, empty, linkButton, moreLink, nameCell, padded, table } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { badge, plural, stateOfVerdict } from "../../components/state.ts";
import { formatDate, time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { ShownEnvironment } from "./types.ts";

type Deployment = AnswerOf<typeof listEnvironmentDeployments>["deployments"][number];
type Frequency = AnswerOf<typeof getDeploymentFrequency>;

const PER_PAGE = 25;
/** Deployments whose lead times are drawn. */
const MAX_POINTS = 50;
const DAY_S = 86_400;
const WINDOWS = [7, 30, 90, 365] as const;

export async function environmentDeployments(visit: Visit, environment: ShownEnvironment): Promise<Html> {
  const { call, query, now, here, moment } = visit;
  const days = WINDOWS.find((one) => String(one) === query.get("days")) ?? 30;
  const params = { env_name: environment.name };
  const from = new Date((now - days * DAY_S) * 1000).toISOString().slice(0, 19).concat("Z");
  const page = pageOf(query);
  const period = { from, to: moment?.text ?? null };
  const answer = await call(listEnvironmentDeployments, {
    params,
    query: { ...period, page, page_size: PER_PAGE, first_starts: true },
  });
  const choices = periodChoices(visit, days, answer.total_count);
  if (answer.total_count === 0)
    return html`${choices}<section class="card">${empty({
      icon: "rocket",
      title: `No deployments in the last ${days} days`,
      text: "A deployment is recorded when a report says that an artifact with provenance began to run.",
      ...(days === 365 ? {} : { actions: linkButton(here({ days: 365 }), "Look back one year") }),
    })}</section>`;
  // Counted up to now only.
  const frequency = moment === null ? await call(getDeploymentFrequency, { params }) : null;
  const newest =
    page === 1 && answer.total_count <= PER_PAGE
      ? answer
      : await call(listEnvironmentDeployments, {
          params,
          query: { ...period, page: 1, page_size: MAX_POINTS, first_starts: true },
        });
  const list = table({
    caption: "Deployments",
    columns: [
      { text: "Artifact", className: "w-image" },
      { text: "At the start", className: "w-st" },
      { text: "Flow and trail", className: "w-place" },
      { text: LEAD_TIME, isRight: true, className: "w-lead" },
      { text: "Deployed", isRight: true },
    ],
    rows: answer.deployments.map((deployment) => deploymentRow(visit, deployment)),
  });
  const chart = frequency && frequencyCard(visit, environment.name, frequency);
  return html`<div class="stack">${chart}${choices}${leadTimeCard(newest.deployments, answer.total_count)}<div>${card({
    id: "h-dep",
    title: "Deployments",
    body: list,
  })}${pager(visit, {
    total: answer.total_count,
    page: answer.page,
    per_page: PER_PAGE,
    page_count: answer.total_pages,
  })}</div></div>`;
}

/** Links to the other periods, and how many deployments the shown one has. */
const periodChoices = ({ here }: Visit, days: number, total: number): Html =>
  html`<div class="row"><span class="btn-group">${WINDOWS.map(
    (one) =>
      html`<a class="btn btn-s" href="${here({ days: one === 30 ? null : one })}"${
        one === days && html` aria-current="true"`
      }>${one === 365 ? "1 year" : `${one} days`}</a>`,
  )}</span><span class="sub num">${plural(total, "deployment")}</span></div>`;

function frequencyCard(
  { now, to }: Visit,
  environment: string,
  { daily, total, median_per_day: median }: Frequency,
): Html {
  const days = daily.map(({ date, count: amount }) => ({
    label: formatDate(Date.parse(`${date}T00:00:00Z`) / 1000, now),
    amount,
    date,
  }));
  const counted = days.map(({ label: day, amount, date }) =>
    countedIn(amount, { day, href: to.deployments({ environment, from: date, to: date }) }),
  );
  const bars = days.map((day, at) => ({ ...day, counted: counted[at] ?? null }));
  const busiest = days.reduce((most, day) => (day.amount > most.amount ? day : most), { label: "", amount: 0 });
  const finding =
    `${total} deployments in ${days.length} days, ${median} a day at the median; ` +
    `most on ${busiest.label}: ${busiest.amount}`;
  return card({
    id: "h-freq",
    title: "Frequency",
    note: `per day (UTC), last ${days.length} days; median ${median}`,
    more: moreLink(to.changes({ environment, from: `${days.length}days` }), "What changed"),
    body: padded(html`${dayBars(bars, finding)}${barList("By day", counted)}`),
  });
}

function deploymentRow({ to, now }: Visit, deployment: Deployment): Html {
  const { flow_name: flow, trail_name: trail, snapshot_index: index } = deployment;
  const label = artifactName(deployment.artifact_name ?? deployment.fingerprint);
  const place =
    index !== null &&
    html`<a href="${to.snapshot(deployment.environment_name, index)}"><span><bdi>${deployment.environment_name}</bdi>
#${index}</span></a>`;
  const provenance =
    flow === null
      ? html`<span class="muted">–</span>`
      : html`<a href="${to.flow(flow)}"><bdi>${flow}</bdi></a><div class="sub">${
          trail !== null && html`<a href="${to.trail(flow, trail)}"><bdi>${trail}</bdi></a>`
        }<span class="hide-t">${commit(deployment.git_commit, deployment.commit_url)}</span></div>`;
  return html`<tr>${nameCell({
    href: flow === null ? null : to.artifact(flow, deployment.fingerprint),
    name: label,
    sub: place,
    mark: icon("package"),
  })}<td>${badge(stateOfVerdict(deployment.compliant))}</td><td class="flow">${provenance}</td>
${leadCell(deployment)}
<td class="r" data-l="Deployed">${time(deployment.deployed_at, now)}</td></tr>`;
}
