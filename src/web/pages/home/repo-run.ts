/** The tab with what runs of a repository: the artifacts of each commit with their environments. */
import { presentPagination } from "../../../http/pagination.ts";
import { getRepoLiveArtifacts } from "../../../api/flows/repo-releases.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { artifactName, commit } from "../../components/identifier.ts";
import { typeName } from "../../components/environment-type.ts";
import { card, empty, nameCell, table } from "../../components/layout.ts";
import { pageOf, pager } from "../../components/lists.ts";
import { badge, formatNumber, stateOf } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

type Live = AnswerOf<typeof getRepoLiveArtifacts>;
type Running = {
  row: Live["live_artifacts"][number];
  artifact: Live["_embedded"]["artifacts"][number] | null;
  environment: Live["_embedded"]["environments"][number] | null;
};

const PER_PAGE = 25;

export async function runTab(visit: Visit, { id }: { id: string }): Promise<Html> {
  const { call, query } = visit;
  const { live_artifacts: rows, _embedded } = await call(getRepoLiveArtifacts, {
    params: { repo_name: id },
    query: { id },
  });
  if (rows.length === 0)
    return html`<section class="card">${empty({
      icon: "container",
      title: "Nothing of this repository is running",
      text: "Artifacts appear here when an environment reports them and their build report names this repository.",
    })}</section>`;
  const artifacts = new Map(_embedded.artifacts.map((artifact) => [artifact.id, artifact]));
  const environments = new Map(_embedded.environments.map((environment) => [environment.id, environment]));
  const running = rows.map((row) => ({
    row,
    artifact: artifacts.get(row.artifact_id) ?? null,
    environment: environments.get(row.environment_id) ?? null,
  }));
  const latest = latestStarts(running);
  // The commit that started last comes first, and what started last within it.
  running.sort(
    (a, b) =>
      (latest.get(commitOf(b)) ?? 0) - (latest.get(commitOf(a)) ?? 0) ||
      (commitOf(a) < commitOf(b) ? -1 : commitOf(a) > commitOf(b) ? 1 : b.row.started_at - a.row.started_at),
  );
  const current = pageOf(query);
  const shown = running.slice((current - 1) * PER_PAGE, current * PER_PAGE);
  const total = running.length;
  return html`<div class="list-head">${card({
    id: "h-live",
    title: "Running now",
    note: `${formatNumber(total)} ${total === 1 ? "artifact" : "artifacts"} of ${formatNumber(latest.size)} ${
      latest.size === 1 ? "commit" : "commits"
    }`,
    body: table({
      caption: "What is running, by commit",
      columns: [
        { text: "Artifact" },
        { text: "State", className: "w-st" },
        { text: "Environment" },
        { text: "Since", isRight: true },
      ],
      rows: groups(visit, shown),
      hasGroups: true,
    }),
  })}${pager(visit, presentPagination(total, current, PER_PAGE))}</div>`;
}

const commitOf = ({ artifact }: Running): string => artifact?.commit_sha ?? "";

/** When something of each commit started last. */
function latestStarts(running: readonly Running[]): Map<string, number> {
  const latest = new Map<string, number>();
  for (const one of running) latest.set(commitOf(one), Math.max(latest.get(commitOf(one)) ?? 0, one.row.started_at));
  return latest;
}

/** A head row for each commit, with the rows that belong to it. */
function groups(visit: Visit, running: readonly Running[]): Html[] {
  const byCommit = Map.groupBy(running, commitOf);
  return [...byCommit].map(([sha, rows]) => {
    const url = rows[0]?.artifact?.commit_url;
    const head = sha === "" ? "Unknown commit" : html`Commit ${commit(sha, url)}`;
    return html`<tbody><tr class="group"><th colspan="4" scope="rowgroup"><span
class="gh">${head}</span></th></tr>${rows.map((row) => runningRow(visit, row))}</tbody>`;
  });
}

function runningRow({ to, now }: Visit, { row, artifact, environment }: Running): Html {
  const place =
    environment === null
      ? html`<span class="muted">–</span>`
      : html`<a href="${to.snapshot(environment.name, row.snapshot_index)}">${environment.name}
#${row.snapshot_index}</a>`;
  const page = artifact && to.artifact(artifact.flow_name, artifact.fingerprint);
  const name = nameCell({
    href: page,
    name: artifactName(row.artifact_name),
    sub: environment && typeName(environment.type),
  });
  return html`<tr>${name}<td>${badge(
    stateOf(row.compliance),
  )}</td><td class="fill">${place}</td><td class="r">${time(row.started_at, now)}</td></tr>`;
}
