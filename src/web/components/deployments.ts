/** Deployments of a flow or a repository as a table, and what their lead times say. */
import { medianOf } from "../../domain/median.ts";
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import type { Visit } from "../page/page.ts";
import { commit } from "./identifier.ts";
import { nameCell, table } from "./layout.ts";
import { badge, stateOfVerdict } from "./state.ts";
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
  lead_time_seconds: number | null;
  /** Epoch seconds. */
  deployed_at: number;
};

type Naming<T> = {
  /** What names an artifact without a name. */
  unnamed: (deployment: T) => string;
  /** The second line of the name. */
  sub: (deployment: T) => Value;
};

export const deploymentTable = <T extends Deployment>(
  { to, now }: Pick<Visit, "to" | "now">,
  deployments: readonly T[],
  { unnamed, sub }: Naming<T>,
): Html =>
  table({
    caption: "Deployments",
    columns: [
      { text: "Artifact" },
      { text: "At the start", className: "w-st" },
      { text: "Environment" },
      { text: "Commit", className: "hide-s" },
      { text: "Lead time", isRight: true },
      { text: "Deployed", isRight: true },
    ],
    rows: deployments.map((deployment) => {
      const { flow_name: flow, environment_name: environment, snapshot_index: index } = deployment;
      const lead = deployment.lead_time_seconds;
      return html`<tr>${nameCell({
        href: flow === null ? null : to.artifact(flow, deployment.fingerprint),
        name: html`<bdi>${deployment.artifact_name ?? unnamed(deployment)}</bdi>`,
        sub: sub(deployment),
      })}<td>${badge(stateOfVerdict(deployment.compliant))}</td><td class="fill">${
        index === null ? environment : html`<a href="${to.snapshot(environment, index)}">${environment} #${index}</a>`
      }</td><td class="hide-s">${commit(deployment.git_commit, deployment.commit_url)}</td>
<td class="r num" data-l="Lead time">${lead === null ? "–" : formatSpan(lead)}</td>
<td class="r">${time(deployment.deployed_at, now)}</td></tr>`;
    }),
  });

/**
 * The lead times of the newest deployments in seconds, sorted, and what they say; null when none has one. An artifact
 * that was reported after it began to run counts as 0.
 */
export function summarizeLeadTimes(deployments: readonly { lead_time_seconds: number | null }[]) {
  const times = deployments
    .flatMap(({ lead_time_seconds: lead }) => (lead === null ? [] : [Math.max(0, lead)]))
    .sort((one, other) => one - other);
  const middle = medianOf(times);
  if (middle === null) return null;
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(share * times.length))] as number;
  const [median, slow, slowest] = [middle, at(0.9), at(1)].map(formatSpan) as [string, string, string];
  const finding =
    `Half of the newest ${times.length} deployments took at most ${median}, nine of ten at most ${slow}, ` +
    `the slowest ${slowest}`;
  return { times, median, slow, slowest, finding };
}
