/** A snapshot: what runs, why it fails, what changed, and which policies apply. */
import { getSnapshot } from "../../../api/environments/snapshots.ts";
import { attachPolicyToEnv } from "../../../api/environments/environment-policies.ts";
import { SEPARATOR } from "../../components/causes.ts";
import { icon } from "../../components/icon.ts";
import { artifactName } from "../../components/identifier.ts";
import type { IconName } from "../../components/icon.ts";
import { card, empty, linkButton, moreLink, padded, table } from "../../components/layout.ts";
import { filters, pageOf, pager } from "../../components/lists.ts";
import { formatNumber, stateIcon, stateOfVerdict } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { artifactHref, artifactRows, changeOf } from "./artifact-rows.ts";
import type { ListedArtifact, ShownSnapshot } from "./artifact-rows.ts";
import { historyCard } from "./history.ts";
import { byWhom, causeOfTurn, wordOfVerdict } from "./turn-words.ts";
import type { ShownEnvironment } from "./types.ts";

const PER_PAGE = 25;
/** Changes and failures that the column at the side lists. */
const MAX_CHANGES = 8;

const SHOWN = ["all", "failing", "unknown", "compliant", "changed"] as const;
type Show = (typeof SHOWN)[number];
const NAMES: Readonly<Record<Show, string>> = {
  all: "All",
  failing: "Failing",
  unknown: "Unknown",
  compliant: "Compliant",
  changed: "Changed",
};

/** Reads the page of artifacts that the address asks for. @throws AppError 404 */
export function readSnapshot({ call, query }: Visit, environment: string, expression: string): Promise<ShownSnapshot> {
  return call(getSnapshot, {
    params: { env_name: environment, snapshot_expression: expression },
    query: { page: pageOf(query), per_page: PER_PAGE, show: showOf(query), search: searchOf(query) },
  });
}

const searchOf = (query: URLSearchParams): string | null => query.get("search")?.trim() || null;

const showOf = (query: URLSearchParams): Show => SHOWN.find((one) => one === query.get("show")) ?? "all";

/** Artifacts that run in a snapshot. */
export const runningIn = ({ artifact_compliance_count: counts }: ShownSnapshot): number =>
  counts.true + counts.false + counts.null;

export async function snapshotView(
  visit: Visit,
  { environment, snapshot }: { environment: ShownEnvironment; snapshot: ShownSnapshot },
): Promise<Html> {
  const { call } = visit;
  const read = (show: Show, size: number): Promise<ShownSnapshot> =>
    call(getSnapshot, {
      params: { env_name: environment.name, snapshot_expression: snapshot.index },
      query: { show, per_page: size },
    });
  const show = showOf(visit.query);
  const changed = await read("changed", MAX_CHANGES);
  // Failing artifacts of a physical environment come first, so the first page names those of each policy.
  const comeFirst = show === "failing" || (show === "all" && environment.type !== "logical");
  const hasFailing = comeFirst && snapshot.pagination?.page === 1 && searchOf(visit.query) === null;
  const failing = hasFailing ? snapshot : await read("failing", PER_PAGE);
  const history = await historyCard(visit, environment, snapshot);
  return html`${history}<div class="cols cols-narrow"><div class="stack">${artifactsCard(visit, {
    environment,
    snapshot,
    changes: changed.pagination?.total ?? 0,
  })}</div>
<div class="stack">${snapshot.index > 1 && changesCard(visit, environment, changed)}${policiesCard(
    visit,
    environment,
    failing,
  )}</div></div>`;
}

function artifactsCard(
  visit: Visit,
  { environment, snapshot, changes }: { environment: ShownEnvironment; snapshot: ShownSnapshot; changes: number },
): Html {
  const show = showOf(visit.query);
  const { true: compliant, false: failing, null: unknown } = snapshot.artifact_compliance_count;
  const isSearched = searchOf(visit.query) !== null;
  const total = snapshot.pagination?.total ?? 0;
  // The list of all has what exited, too, whose number no other list knows.
  const counts = { all: show === "all" ? total : null, failing, compliant, unknown, changed: changes };
  const offered = SHOWN.filter((one) => one !== "unknown" || unknown > 0 || show === one);
  const form = filters(visit, {
    items: [
      { kind: "search", name: "search", label: "Name or fingerprint" },
      {
        kind: "state",
        name: "show",
        label: "State",
        choices: offered.map((one) => ({
          value: one === "all" ? "" : one,
          text: NAMES[one],
          // The numbers are of the snapshot: of what is found, the number in the other states is not known.
          count: isSearched ? (one === show ? total : null) : counts[one],
        })),
      },
    ],
    keep: ["tab"],
    total: isSearched || show !== "all" ? total : null,
    what: total === 1 ? "artifact" : "artifacts",
  });
  const isGrouped = environment.type === "logical";
  const rows = artifactRows(visit, snapshot, environment.name);
  const list =
    rows.length === 0
      ? isSearched
        ? noMatch(visit)
        : nothing(visit, { show, unknown })
      : table({
          caption: `Artifacts of snapshot ${snapshot.index}`,
          columns: [
            { text: "Artifact", className: "w-image" },
            { text: visit.moment ? "State then" : "State", className: "w-verdict" },
            { text: "Flow and trail" },
            { text: "Inst.", isRight: true },
            { text: "Since", isRight: true },
          ],
          rows,
          hasGroups: isGrouped,
        });
  const { pagination } = snapshot;
  const title = visit.moment ? "Artifacts that ran" : "Artifacts";
  return html`<div>${form}${card({ id: "h-run", title, body: list })}${pagination && pager(visit, pagination)}</div>`;
}

const noMatch = ({ here }: Visit): Html =>
  empty({
    icon: "search",
    title: "No artifact matches",
    text: "The search looks for a part of the name, or the first characters of the fingerprint, at least five.",
    actions: linkButton(here({ search: null, show: null }), "Clear filters"),
  });

function nothing({ here }: Visit, { show, unknown }: { show: Show; unknown: number }): Html {
  if (show === "failing" && unknown > 0)
    return empty({
      icon: "question",
      title: "Nothing is known to fail",
      text: `No artifact is non-compliant; ${formatNumber(unknown)} ${unknown === 1 ? "is" : "are"} unknown.`,
      actions: linkButton(here({ show: "unknown" }), "Show what is unknown"),
    });
  const texts: Readonly<Record<Show, { title: string; text: string; icon: IconName }>> = {
    all: { title: "Nothing runs", text: "The reporter found no artifact in this environment.", icon: "package" },
    failing: {
      title: "Nothing fails",
      text: "No artifact of this snapshot is non-compliant.",
      icon: "check-circle-fill",
    },
    compliant: { title: "Nothing is compliant", text: "No artifact of this snapshot is compliant.", icon: "package" },
    unknown: { title: "Every verdict is known", text: "Policies decide on all that runs.", icon: "package" },
    changed: { title: "Nothing changed", text: "This snapshot changed no artifact of its own.", icon: "diff-modified" },
  };
  const { title, text, icon: name } = texts[show];
  return empty({
    icon: name,
    title,
    text,
    ...(show === "all" ? {} : { actions: linkButton(here({ show: null }), "Show all artifacts") }),
  });
}

type Mark = { icon: IconName; look: string; word: string };
const markOf = (artifact: ListedArtifact): Mark => {
  const { annotation } = artifact;
  if (annotation.now === 0) return { icon: "diff-removed", look: "bad", word: "Exited" };
  return annotation.was === 0
    ? { icon: "diff-added", look: "ok", word: "Started" }
    : { icon: "diff-modified", look: "wait", word: "Changed" };
};

function changesCard(visit: Visit, { name }: ShownEnvironment, changed: ShownSnapshot): Html {
  const before = changed.index - 1;
  const total = changed.pagination?.total ?? 0;
  const diff = visit.to.environmentDiff(`${name}#${before}`, `${name}#${changed.index}`);
  const artifacts = changed.artifacts.map((artifact) => changeItem(visit, artifact));
  const items = [...turnItems(visit, changed), ...artifacts];
  const rest = total - artifacts.length;
  return card({
    id: "h-chg",
    title: `Changed since #${before}`,
    more: moreLink(diff, "Diff"),
    body:
      items.length === 0
        ? padded(html`<p class="muted">No artifact changed. The allowlist or a verdict did.</p>`)
        : html`<ul class="rows">${items}</ul>`,
    foot:
      rest > 0 &&
      html`<span>${formatNumber(rest)} more</span><a class="right" href="${visit.here({ show: "changed" })}">Show
all</a>`,
  });
}

/** What turned the environment, and what else the snapshot changed about policies. */
function turnItems(visit: Visit, { turn }: ShownSnapshot): Html[] {
  if (!turn) return [];
  const isTurned = turn.before !== turn.after;
  const head = html`<li>${stateIcon(stateOfVerdict(turn.after))}<div class="grow"><b>Turned ${wordOfVerdict(
    turn.after,
  )}</b> ${causeOfTurn(visit, turn)}</div></li>`;
  const policies = turn.policies.slice(0, MAX_CHANGES).map(({ name, change, before, after }) => {
    const words = {
      attached: `v${after} attached`,
      detached: `v${before} detached`,
      changed: `v${before} to v${after}`,
    };
    return html`<li><span class="diffmark">${icon("law")}</span><div class="grow"><a class="name"
href="${visit.to.policy(name)}"><bdi>${name}</bdi></a><div class="sub">${words[change]}${byWhom(turn)}${
      !isTurned && ", the verdict stays"
    }</div></div></li>`;
  });
  // The head names the only policy.
  return isTurned ? [head, ...(policies.length > 1 ? policies : [])] : policies;
}

function changeItem(visit: Visit, artifact: ListedArtifact): Html {
  const { annotation, name } = artifact;
  const { icon: mark, look, word } = markOf(artifact);
  const href = artifactHref(visit, artifact);
  const label =
    href === null
      ? html`<span class="name">${artifactName(name)}</span>`
      : html`<a class="name" href="${href}">${artifactName(name)}</a>`;
  const instances = annotation.now === 0 ? annotation.was : annotation.now;
  const amount = `${formatNumber(instances)} ${instances === 1 ? "instance" : "instances"}`;
  const diff = artifact.deployment_diff?.diff_url;
  return html`<li><span class="diffmark ${look}" role="img" aria-label="${word}">${icon(mark)}</span><div
class="grow">${label}
<div class="sub">${changeOf(artifact) ?? "changed"}, ${amount}${
    diff && /^https?:\/\//.test(diff) && html`${SEPARATOR}<a href="${diff}" rel="noopener noreferrer">commits</a>`
  }</div></div></li>`;
}

/** @param failing the snapshot with its first failing artifacts */
function policiesCard(visit: Visit, environment: ShownEnvironment, failing: ShownSnapshot): Html {
  const { to, may } = visit;
  const policies = failing.applied_policies;
  const isComplete = failing.artifact_compliance_count.false <= PER_PAGE;
  const items = policies.map(({ name, version, failing_artifacts: own }) => {
    // Not "fails": an artifact that the allowlist accepts fails the policy and is not counted.
    const verb = own.length === 1 ? "artifact is" : "artifacts are";
    const some = `${isComplete ? "" : "at least "}${formatNumber(own.length)} ${verb}`;
    const count = own.length > 0 ? some : isComplete ? "no artifact is" : "none of the first artifacts is";
    return html`<li>${stateIcon(own.length > 0 ? "non_compliant" : "compliant")}<div class="grow"><a class="name"
href="${to.policy(name)}"><bdi>${name}</bdi></a> <span class="muted">v${version}</span><div
class="sub">${count} non-compliant</div></div></li>`;
  });
  const attach =
    environment.type !== "logical" &&
    may(attachPolicyToEnv) &&
    html` <a href="${to.environment(environment.name, { tab: "policies" })}">Attach a policy</a>`;
  return card({
    id: "h-pol",
    title: visit.moment ? "Policies in force then" : "Policies in force",
    body:
      items.length > 0
        ? html`<ul class="rows">${items}</ul>`
        : padded(html`<p class="muted">No policy was attached, so the state is unknown.${attach}</p>`),
  });
}
