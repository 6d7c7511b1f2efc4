/** `/{org}/artifacts`: the artifacts of an organization, newest first. */
import { listArtifacts } from "../../../api/flows/artifacts.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { commit, fingerprint } from "../../components/identifier.ts";
import { empty, linkButton, nameCell, pageHead, table } from "../../components/layout.ts";
import { endlessPager, filters, pageOf } from "../../components/lists.ts";
import { badge, stateOf } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";
import { flowFilter, repositoryFilter } from "./choices.ts";

type Artifact = AnswerOf<typeof listArtifacts>[number];
const PER_PAGE = 25;

export const artifactsPage = page({
  path: "/{org}/artifacts",
  async show(visit) {
    const [artifacts, hasMore] = await readPage(visit);
    const { query } = visit;
    const isNew = artifacts?.length === 0 && pageOf(query) === 1 && !query.get("flow") && !query.get("repo");
    const items = isNew ? [] : [await flowFilter(visit), await repositoryFilter(visit)];
    const form = filters(visit, { items, total: null, what: "artifacts" });
    return {
      title: "Artifacts",
      section: "artifacts",
      crumbs: [],
      main: html`${pageHead({ title: "Artifacts", sub: "What the flows built, and whether its evidence is complete." })}
${isNew ? nothingYet() : html`${form}${list(visit, artifacts, hasMore)}`}`,
    };
  },
});

/** The rows of the page, and whether there are older ones; null for a flow or repository that does not exist. */
async function readPage({ call, query }: Visit): Promise<[readonly Artifact[] | null, boolean]> {
  const filter = { flow_name: query.get("flow") || null, repo_name: query.get("repo") || null };
  const number = pageOf(query);
  try {
    const rows = await call(listArtifacts, { query: { ...filter, page: number, per_page: PER_PAGE } });
    // The list does not count: the one after the last is asked for.
    const next = { ...filter, page: number * PER_PAGE + 1, per_page: 1 };
    const hasMore = rows.length === PER_PAGE && (await call(listArtifacts, { query: next })).length > 0;
    return [rows, hasMore];
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return [null, false];
    throw error;
  }
}

const nothingYet = (): Html =>
  html`<section class="card">${empty({
    icon: "package",
    title: "No artifacts yet",
    text: "An artifact is what a run of a flow built: a container image, a file or a directory.",
    command: "kosli attest artifact IMAGE --artifact-type oci --flow FLOW --trail TRAIL --name NAME",
  })}</section>`;

function list(visit: Visit, artifacts: readonly Artifact[] | null, hasMore: boolean): Html {
  const { to, query } = visit;
  if (artifacts === null || artifacts.length === 0) {
    const isPastEnd = artifacts !== null && pageOf(query) > 1;
    const missing = query.get("flow") ? `the flow ${query.get("flow")}` : `the repository ${query.get("repo")}`;
    return html`<section class="card">${empty({
      icon: "search",
      title: isPastEnd ? "No artifacts on this page" : "Nothing matches these filters",
      text: isPastEnd
        ? "The list ends before it."
        : artifacts === null
          ? html`There is no record of <bdi>${missing}</bdi>, or it is archived.`
          : html`Nothing was reported for <bdi>${missing}</bdi> yet.`,
      actions: isPastEnd
        ? linkButton(visit.here({ page: null }), "Newest artifacts")
        : linkButton(to.artifacts(), "Clear filters"),
    })}</section>`;
  }
  const columns = [
    { text: "Artifact" },
    { text: "State", className: "w-st" },
    { text: "Flow and trail" },
    { text: "Commit and repository", className: "hide-m" },
    { text: "Reported", isRight: true, className: "w-time" },
  ];
  const rows = artifacts.map((artifact) => artifactRow(visit, artifact));
  return html`<section class="card" aria-label="Artifacts">${table({
    caption: "Artifacts, newest first",
    columns,
    rows,
  })}</section>${endlessPager(visit, { hasMore })}`;
}

function artifactRow({ to, now }: Visit, artifact: Artifact): Html {
  const { flow_name: flow, trail_name: trail, repo_info: repo } = artifact;
  const name = nameCell({
    href: to.artifact(flow, artifact.fingerprint, artifact.id),
    name: html`<bdi>${artifact.filename}</bdi>`,
    sub: fingerprint(artifact.fingerprint),
  });
  const below =
    trail === null
      ? html`<div class="sub">of the flow</div>`
      : html`<div class="sub"><a href="${to.trail(flow, trail)}"><bdi class="cut">${trail}</bdi></a></div>`;
  return html`<tr>${name}<td>${badge(stateOf(artifact.state))}</td>
<td class="flow fill"><a href="${to.flow(flow)}"><bdi class="cut">${flow}</bdi></a>${below}</td>
<td class="hide-m">${commit(artifact.git_commit, artifact.commit_url)}${
    repo && html`<div class="sub"><bdi class="cut">${repo.name}</bdi></div>`
  }</td><td class="r">${time(Number(artifact.created_at), now)}</td></tr>`;
}
