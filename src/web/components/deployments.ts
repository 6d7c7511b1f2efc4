/** Deployments of a flow or a repository as a table, and what their lead times say. */
import { medianOf } from "../../domain/median.ts";
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import type { Visit } from "../page/page.ts";
import { icon } from "./icon.ts";
import { artifactName, commit, snapshotLink } from "./identifier.ts";
import { card, figures, nameCell, padded, table } from "./layout.ts";
import type { TableColumn } from "./layout.ts";
import { badge, formatNumber, plural, stateOfVerdict } from "./state.ts";
import { formatSpan, time } from "./time.ts";

type Deployment = {
  artifact_name: string | null;
  fingerprint: string;
  flow_name: string | null;
  environment_name: string;
  /** null when the snapshot is deleted. */
  snapshot_index: number | null;
  compliant: boolean | null;
  git_commit: string | null;
  commit_url: string | null;
  /** Epoch seconds. */
  deployed_at: number;
} & Start;

/** What an answer with `first_starts` says of a start. */
type Start = {
  lead_time_seconds: number | null;
  is_first_start?: boolean;
  commit_lead_time_seconds?: number | null;
};

/** The one lead time of all pages (DORA's lead time for changes), and what stands beside it. */
export const LEAD_TIME = "Commit to first deployment";
const BUILD_TIME = "Build to first deployment";

type Naming<T> = {
  /** What names an artifact without a name. */
  unnamed: (deployment: T) => string;
  /** The second line of the name. */
  sub: (deployment: T) => Value;
};

export const DEPLOYMENT_COLUMNS = [
  { text: "Artifact", className: "w-image" },
  { text: "At the start", className: "w-st" },
  { text: "Environment", className: "w-env" },
  { text: "Commit", className: "hide-t" },
  { text: LEAD_TIME, isRight: true, className: "w-lead" },
  { text: "Deployed", isRight: true },
] as const satisfies readonly TableColumn[];

export const deploymentTable = <T extends Deployment>(
  visit: Pick<Visit, "to" | "now">,
  deployments: readonly T[],
  naming: Naming<T>,
): Html =>
  table({
    caption: "Deployments",
    columns: DEPLOYMENT_COLUMNS,
    rows: deployments.map((deployment) => deploymentRow(visit, deployment, naming)),
  });

export function deploymentRow<T extends Deployment>(
  { to, now }: Pick<Visit, "to" | "now">,
  deployment: T,
  { unnamed, sub }: Naming<T>,
): Html {
  const { flow_name: flow, environment_name: environment, snapshot_index: index } = deployment;
  return html`<tr>${nameCell({
    href: flow === null ? null : to.artifact(flow, deployment.fingerprint),
    name: artifactName(deployment.artifact_name ?? unnamed(deployment)),
    sub: sub(deployment),
    mark: icon("package"),
  })}<td>${badge(stateOfVerdict(deployment.compliant))}</td><td class="full">${
    index === null ? environment : snapshotLink(to, environment, index)
  }</td><td class="hide-t">${commit(deployment.git_commit, deployment.commit_url)}</td>
${leadCell(deployment)}
<td class="r" data-l="Deployed">${time(deployment.deployed_at, now)}</td></tr>`;
}

/** How long after the commit, and below it after the build; later starts of a fingerprint have neither. */
export function leadCell({
  is_first_start: isFirst,
  commit_lead_time_seconds: lead,
  lead_time_seconds: build,
}: Start): Html {
  const since = (seconds: number): string => formatSpan(Math.max(0, seconds));
  const value = isFirst
    ? html`${typeof lead === "number" ? since(lead) : html`<span class="muted">unknown</span>`}${
        build !== null && html`<div class="sub hide-tablet">${since(build)} from build</div>`
      }`
    : html`<span class="muted nowrap">not its first</span>`;
  return html`<td class="r num w-lead" data-l="${LEAD_TIME}">${value}</td>`;
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

/** How many of the lead times lie in each range. @param finding the sentence for screen readers */
function distribution(times: readonly number[], finding: string): Html {
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

/**
 * The lead times of the first starts among the newest deployments; null without one. A commit or a report after the
 * start counts as 0. @param total all deployments of the period
 */
export function leadTimeCard(deployments: readonly Start[], total: number): Html | null {
  const starts = deployments.filter(({ is_first_start: isFirst }) => isFirst);
  if (starts.length === 0) return null;
  const times = sorted(starts.map(({ commit_lead_time_seconds: lead }) => lead ?? null));
  const builds = sorted(starts.map(({ lead_time_seconds: lead }) => lead));
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? 0;
  const median = medianOf(times);
  const [half, slow, slowest] = [median ?? 0, at(0.9), at(1)].map(formatSpan) as [string, string, string];
  const unknown = starts.length - times.length;
  const among = total > deployments.length ? ` among the latest ${deployments.length} deployments` : "";
  const known = `of ${plural(times.length, "first start")}${among}`;
  const build = medianOf(builds);
  const finding = `Half ${known} came at most ${half} after the commit, nine of ten at most ${slow}`;
  const none = html`<span class="muted">–</span>`;
  return card({
    id: "h-lead",
    title: LEAD_TIME,
    note: unknown > 0 ? `${known}; the commit's time is unknown for ${formatNumber(unknown)}` : known,
    body: padded(
      html`${figures([
        { label: "Median", value: median === null ? none : half },
        { label: "Nine of ten within", value: median === null ? none : slow },
        { label: "Slowest", value: median === null ? none : slowest },
        { label: `${BUILD_TIME}, median`, value: build === null ? none : formatSpan(build) },
      ])}${median !== null && distribution(times, `${finding}, the slowest ${slowest}`)}`,
    ),
  });
}

const sorted = (times: readonly (number | null)[]): number[] =>
  times.flatMap((seconds) => (seconds === null ? [] : [Math.max(0, seconds)])).sort((one, other) => one - other);
