/** The tab with the builds of a repository: how often it is built, and what was built. */
import { buildStatistics, listBuilds } from "../../../api/flows/builds.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { artifactName, buildLink, commit, fingerprint } from "../../components/identifier.ts";
import { card, empty, nameCell, padded, table } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { formatNumber } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { frequencyChart, listWindow, longerPeriod, periodChoice, periodOf } from "./repo-period.ts";

type Build = AnswerOf<typeof listBuilds>["builds"][number];

const PER_PAGE = 25;

export async function buildTab(visit: Visit, { id }: { id: string }): Promise<Html> {
  const { call, query } = visit;
  const period = periodOf(visit);
  const window = { repo_inner_id: id, start_ts: period.from, end_ts: period.to };
  const { timestamps } = await call(buildStatistics, { query: window });
  const current = pageOf(query);
  const part = listWindow(visit, period);
  const list = await call(listBuilds, { query: { ...window, ...part.window, page: current, per_page: PER_PAGE } });
  const { total_count: total, total_pages } = list;
  const a_week = (timestamps.length / period.days) * 7;
  const chart = html`${frequencyChart(visit, timestamps, { period, what: "build" })}<p class="sub gap-t2">${
    timestamps.length > 0 && `${a_week < 10 ? a_week.toFixed(1) : formatNumber(Math.round(a_week))} builds a week`
  }</p>`;
  return html`<div class="cols"><div class="stack"><div class="list-head">${card({
    id: "h-builds",
    title: "Builds",
    note: part.note(total),
    more: periodChoice(visit, period),
    body: list.builds.length > 0 ? builds(visit, list.builds) : noBuilds(visit, total),
  })}${pager(visit, { total, page: current, per_page: PER_PAGE, page_count: total_pages })}</div></div>
<div class="stack">${card({
    id: "h-frequency",
    title: "Frequency",
    note: period.days > 30 ? "by week" : "by day",
    body: padded(chart),
  })}</div></div>`;
}

const builds = (visit: Visit, rows: readonly Build[]): Html =>
  table({
    caption: "Builds",
    columns: [
      { text: "Artifact" },
      { text: "Commit", className: "hide-s" },
      { text: "Fingerprint" },
      { text: "Build", className: "hide-s" },
      { text: "Reported", isRight: true },
    ],
    rows: rows.map((build) => buildRow(visit, build)),
  });

function buildRow({ to, now }: Visit, build: Build): Html {
  const { fingerprint: print, flow_name: flow, trail_name: trail } = build;
  const isKnown = build._links.artifact !== undefined;
  return html`<tr>${nameCell({
    href: isKnown ? to.artifact(flow, print) : null,
    name: artifactName(build.artifact_name),
    sub: isKnown && html`${flow}${trail !== "" && html`<a href="${to.trail(flow, trail)}">${trail}</a>`}`,
  })}<td class="hide-s">${commit(build.git_commit, build.commit_url)}</td>
<td data-l="Fingerprint">${print === "" ? html`<span class="muted">–</span>` : fingerprint(print)}</td>
<td class="hide-s">${
    build.build_url === null ? html`<span class="muted">–</span>` : buildLink(build.build_url)
  }</td><td class="r">${time(build.created_at, now)}</td></tr>`;
}

const noBuilds = (visit: Visit, total: number): Html =>
  empty({
    icon: "package",
    title: total > 0 ? "This page is beyond the end" : "No builds in this period",
    text: "A build is the first report of an artifact whose report names this repository.",
    actions: longerPeriod(visit, periodOf(visit)),
  });
