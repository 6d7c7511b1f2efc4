/** `/{org}/artifacts`: the artifacts of an organization, newest first. */
import { listArtifacts } from "../../../api/flows/artifacts.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { causesLine } from "../../components/causes.ts";
import { artifactName, commit, fingerprint } from "../../components/identifier.ts";
import { nameCell } from "../../components/layout.ts";
import { listPage, pageFrom } from "../../components/list-page.ts";
import type { ListPart } from "../../components/list-page.ts";
import { oneOf, PER_PAGE, stateFilter } from "../../components/lists.ts";
import { badge, stateOf } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { icon } from "../../components/icon.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { STATES } from "../../../domain/compliance/artifact.ts";
import { page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";
import { showArtifactsThen } from "./past-artifacts.ts";
import { flowFilter, repositoryFilter } from "./choices.ts";

type Envelope = Exclude<AnswerOf<typeof listArtifacts>, readonly unknown[]>;
type Artifact = Envelope["data"][number];

export const artifactsPage = page({
  path: "/{org}/artifacts",
  past: "then",
  show: (visit) => (visit.moment ? showArtifactsThen(visit) : showList(visit)),
});

const showList = listPage({
  title: "Artifacts",
  section: "artifacts",
  sub: "What the flows built, and whether its evidence is complete.",
  what: ["artifact", "artifacts"],
  read: (visit) => knownOnly(readArtifacts(visit)),
  filters: async (visit, { states }) => [
    { kind: "search", name: "search", label: "Search by name" },
    stateFilter(STATES, states),
    await flowFilter(visit),
    await repositoryFilter(visit),
  ],
  caption: "Artifacts, newest first",
  columns: [
    { text: "Artifact" },
    { text: "State", className: "w-st" },
    { text: "Flow and trail", className: "w-place" },
    { text: "Commit and repository", className: "hide-m" },
    { text: "Reported", isRight: true, className: "w-time" },
  ],
  row: artifactRow,
  empty: {
    icon: "package",
    title: "No artifacts yet",
    text: "An artifact is what a run of a flow built: a container image, a file or a directory.",
    command: "kosli attest artifact IMAGE --artifact-type oci \\\n  --flow FLOW --trail TRAIL --name NAME",
  },
  none:
    "The search looks for a part of the name, in any case. Of a flow or a repository that is archived or does not " +
    "exist, nothing is listed.",
});

const readArtifacts = pageFrom(listArtifacts, ({ query }) => ({
  query: {
    envelope: true,
    causes: true,
    flow_name: query.get("flow") || null,
    repo_name: query.get("repo") || null,
    state: oneOf(query, "state", STATES),
    name: query.get("search")?.trim() || null,
  },
}));

/** A flow or repository that does not exist, or is archived, has nothing to list. */
async function knownOnly<P extends ListPart<unknown>>(reading: Promise<P>): Promise<P | typeof NOTHING> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return NOTHING;
    throw error;
  }
}

const NOTHING = { rows: [], position: { total: 0, page: 1, per_page: PER_PAGE, page_count: 0 } };

function artifactRow({ to, now }: Visit, artifact: Artifact): Html {
  const { flow_name: flow, trail_name: trail, repo_info: repo } = artifact;
  const name = nameCell({
    href: to.artifact(flow, artifact.fingerprint, artifact.id),
    name: artifactName(artifact.filename),
    sub: html`${fingerprint(artifact.fingerprint)}${causesLine(artifact)}`,
    mark: icon("package"),
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
