/** The tab with the artifacts of a flow, newest first. */
import { listArtifacts } from "../../../api/flows/artifacts.ts";
import { commit, fingerprint } from "../../components/identifier.ts";
import { empty, nameCell, table } from "../../components/layout.ts";
import { endlessPager, pageOf } from "../../components/lists.ts";
import { badge, stateOf } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Flow } from "./flow-trails.ts";

const PER_PAGE = 25;

export async function artifactsTab(visit: Visit, flow: Flow): Promise<Html> {
  const { call, query, to, now } = visit;
  const page = pageOf(query);
  const artifacts = await call(listArtifacts, { query: { flow_name: flow.name, page, per_page: PER_PAGE } });
  if (artifacts.length === 0 && page === 1)
    return html`<section class="card">${empty({
      icon: "package",
      title: "No artifacts yet",
      text: "An artifact is what a run of the flow built: a container image, a file or a directory.",
      command: `kosli attest artifact IMAGE --artifact-type oci --flow ${flow.name} --trail TRAIL --name NAME`,
    })}</section>`;
  const rows = artifacts.map((artifact) => {
    const trail =
      artifact.trail_name === null || artifact.trail_name === undefined
        ? html`<span class="muted">of the flow</span>`
        : html`<a href="${to.trail(flow.name, artifact.trail_name)}"><bdi>${artifact.trail_name}</bdi></a>`;
    const name = nameCell({
      href: to.artifact(flow.name, artifact.fingerprint, artifact.id),
      name: html`<bdi>${artifact.filename}</bdi>`,
      sub: fingerprint(artifact.fingerprint),
    });
    const reported = time(Number(artifact.created_at), now);
    return html`<tr>${name}<td>${badge(stateOf(artifact.state))}</td><td class="fill">${trail}</td>
<td class="hide-s">${commit(artifact.git_commit, artifact.commit_url)}</td><td class="r">${reported}</td></tr>`;
  });
  const columns = [
    { text: "Artifact" },
    { text: "State", className: "w-st" },
    { text: "Trail" },
    { text: "Commit", className: "hide-s" },
    { text: "Reported", isRight: true },
  ];
  return html`<section class="card" aria-label="Artifacts">${table({
    caption: "Artifacts",
    columns,
    rows,
  })}</section>${endlessPager(visit, { hasMore: artifacts.length === PER_PAGE })}`;
}
