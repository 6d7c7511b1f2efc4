/** Artifacts as of a moment: what had been reported, and where it ran then. */
import { listPastArtifacts } from "../../../api/environments/past-artifacts.ts";
import { PAST_STATES } from "../../../domain/compliance/past-states.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { typeIcon, typeName } from "../../components/environment-type.ts";
import { icon } from "../../components/icon.ts";
import { artifactName, commit, fingerprint } from "../../components/identifier.ts";
import { card, linkButton, nameCell, padded, table } from "../../components/layout.ts";
import { listPage } from "../../components/list-page.ts";
import type { ListPart } from "../../components/list-page.ts";
import { oneOf, PER_PAGE, stateFilter } from "../../components/lists.ts";
import type { Filter } from "../../components/lists.ts";
import { badge, formatNumber, stateIcon, stateOfVerdict } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { MAX_ENVIRONMENTS } from "./artifact-verdicts.ts";
import type { Runs } from "./artifact-verdicts.ts";

type Artifact = AnswerOf<typeof listPastArtifacts>["data"][number];

export const showArtifactsThen = listPage({
  title: "Artifacts",
  section: "artifacts",
  sub: "What had been reported, and where it ran.",
  what: ["artifact", "artifacts"],
  async read({ call, query, moment }: Visit) {
    const { data, next, total, states } = await call(listPastArtifacts, {
      query: {
        at: moment?.text ?? "",
        after: query.get("after"),
        per_page: PER_PAGE,
        name: query.get("search")?.trim() || null,
        state: oneOf(query, "state", PAST_STATES),
        counts: true,
      },
    });
    return { rows: data, position: { next, total: total as number }, states: states as Record<string, number> };
  },
  filters: (_visit, { states }) => [{ kind: "search", name: "search", label: "Search by name" }, statesThen(states)],
  caption: "Artifacts that had been reported, newest first",
  columns: [
    { text: "Artifact" },
    { text: "Ran in" },
    { text: "Flow and trail" },
    { text: "Commit", className: "hide-m" },
    { text: "Reported", isRight: true, className: "w-time" },
  ],
  row: artifactRow,
  empty: {
    icon: "history",
    title: "No artifact had been reported",
    text: "Artifacts are listed from the moment on at which they were reported, until retention removes them.",
  },
  none: "The search looks for a part of the name, in any case. The states are the verdicts where it ran then.",
});

/** The filter by what was stored: the verdict of what ran. */
function statesThen(states: ListPart<unknown>["states"]): Filter {
  const filter = stateFilter(PAST_STATES, states);
  const choices = filter.choices.map((one) => (one.value === "NOT-RUNNING" ? { ...one, text: "Ran nowhere" } : one));
  return { ...filter, choices };
}

function artifactRow({ to, now }: Visit, artifact: Artifact): Html {
  const { flow_name: flow, trail_name: trail, ran_in: places } = artifact;
  const name = nameCell({
    href: to.artifact(flow, artifact.fingerprint, artifact.artifact_id),
    name: artifactName(artifact.name),
    sub: fingerprint(artifact.fingerprint),
    mark: icon("package"),
  });
  const ran = places.map(
    ({ environment_name: environment, snapshot_index: index, is_compliant: isCompliant }) =>
      html`<div class="ran">${stateIcon(stateOfVerdict(isCompliant))}<a href="${to.whyArtifact(
        environment,
        index,
        artifact.fingerprint,
      )}"><bdi>${environment}</bdi></a></div>`,
  );
  const total = artifact.ran_in_total;
  const rest = (total ?? 0) - places.length;
  const more =
    total === null ? "Perhaps in others, which were not looked at" : rest > 0 && `and ${formatNumber(rest)} more`;
  const where =
    ran.length > 0 || more
      ? html`${ran}${more && html`<span class="sub">${more}</span>`}`
      : html`<span class="muted">nowhere</span>`;
  const below =
    trail === null
      ? html`<div class="sub">of the flow</div>`
      : html`<div class="sub"><bdi class="cut">${trail}</bdi></div>`;
  return html`<tr>${name}<td>${where}</td>
<td class="flow fill"><bdi class="cut">${flow}</bdi>${below}</td><td
class="hide-m">${commit(artifact.git_commit, artifact.commit_url ?? "")}</td>
<td class="r">${time(artifact.reported_at, now)}</td></tr>`;
}

/** Of the environments in which an artifact ran, or had run. */
export function verdictsThen({ to }: Visit, identity: string, runs: Runs): Html {
  const environments = runs.environments.filter(({ is_archived: isArchived }) => !isArchived);
  const rows = environments.slice(0, MAX_ENVIRONMENTS).map((environment) => {
    const {
      environment_name: name,
      environment_type: type,
      is_running: isRunning,
      is_compliant: isCompliant,
      snapshot_index: index,
    } = environment;
    const why = linkButton(to.whyArtifact(name, index, identity), "Why then?", { icon: "question", kind: "small" });
    return html`<tr>${nameCell({
      href: to.snapshot(name, index),
      name: html`<bdi>${name}</bdi>`,
      mark: typeIcon(type),
      sub: `${typeName(type)}, ${isRunning ? "ran in" : "had run until"} #${index}`,
    })}<td>${badge(stateOfVerdict(isCompliant))}</td><td class="r">${why}</td></tr>`;
  });
  const rest = environments.length - rows.length;
  return card({
    id: "h-verdicts",
    title: "Verdicts then",
    body:
      rows.length === 0
        ? padded(html`<p class="muted">It had not run anywhere yet.</p>`)
        : table({
            caption: "Verdicts of environments",
            columns: [{ text: "Environment" }, { text: "Verdict", className: "w-st" }, { text: "Why", isHidden: true }],
            rows,
          }),
    foot:
      rest > 0 || runs.has_more ? `${rest > 0 ? formatNumber(rest) : "Some"} more environments are not listed.` : null,
  });
}
