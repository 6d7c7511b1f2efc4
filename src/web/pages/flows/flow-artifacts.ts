/** The tab with the artifacts of a flow, newest first. */
import { listArtifacts } from "../../../api/flows/artifacts.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { STATES } from "../../../domain/compliance/artifact.ts";
import { causesLine } from "../../components/causes.ts";
import { icon } from "../../components/icon.ts";
import { artifactName, commit, fingerprint } from "../../components/identifier.ts";
import { nameCell } from "../../components/layout.ts";
import { renderList, pageFrom } from "../../components/list-page.ts";
import { oneOf, stateFilter } from "../../components/lists.ts";
import { badge, stateOf } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Flow } from "./flow-trails.ts";

type Artifact = Exclude<AnswerOf<typeof listArtifacts>, readonly unknown[]>["data"][number];

export async function artifactsTab(visit: Visit, flow: Flow): Promise<Html> {
  const { body } = await renderList(visit, {
    what: ["artifact", "artifacts"],
    read: pageFrom(listArtifacts, ({ query }) => ({
      query: {
        envelope: true,
        causes: true,
        flow_name: flow.name,
        state: oneOf(query, "state", STATES),
        name: query.get("search")?.trim() || null,
      },
    })),
    filters: (_visit, { states }) => [
      { kind: "search", name: "search", label: "Search by name" },
      stateFilter(STATES, states),
    ],
    keep: ["tab"],
    columns: [
      { text: "Artifact" },
      { text: "State", className: "w-st" },
      { text: "Trail", className: "w-place" },
      { text: "Commit", className: "hide-t" },
      { text: "Reported", isRight: true },
    ],
    row: artifactRow,
    empty: {
      icon: "package",
      title: "No artifacts yet",
      text: "An artifact is what a run of the flow built: a container image, a file or a directory.",
      command: `kosli attest artifact IMAGE --artifact-type oci \\\n  --flow ${flow.name} --trail TRAIL --name NAME`,
    },
    none: "The search looks for a part of the name, in any case.",
  });
  return html`<div>${body}</div>`;
}

function artifactRow({ to, now }: Visit, artifact: Artifact): Html {
  const { flow_name: flow, trail_name: of } = artifact;
  const trail =
    of === null || of === undefined
      ? html`<span class="muted">of the flow</span>`
      : html`<a href="${to.trail(flow, of)}"><bdi>${of}</bdi></a>`;
  const name = nameCell({
    href: to.artifact(flow, artifact.fingerprint, artifact.id),
    name: artifactName(artifact.filename),
    mark: icon("package"),
    sub: html`${fingerprint(artifact.fingerprint)}${causesLine(artifact)}`,
  });
  return html`<tr>${name}<td>${badge(stateOf(artifact.state))}</td><td class="fill">${trail}</td>
<td class="hide-t">${commit(artifact.git_commit, artifact.commit_url)}</td>
<td class="r">${time(Number(artifact.created_at), now)}</td></tr>`;
}
