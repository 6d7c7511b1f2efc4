/** What differs between two snapshots: why the verdict turned, sets of upgrades, and the changes by kind. */
import type { compareSnapshots } from "../../../api/environments/snapshot-diff.ts";
import { DIFF_KINDS } from "../../../domain/snapshot/comparison.ts";
import type { DiffKind } from "../../../domain/snapshot/comparison.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { causesLine } from "../../components/causes.ts";
import { commitList, commitsWords } from "../../components/commits.ts";
import { artifactName, buildLink, fingerprint, isWebAddress, snapshotLink } from "../../components/identifier.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { card, linkButton, reasonsBox, table } from "../../components/layout.ts";
import { filters, oneOf, pager } from "../../components/lists.ts";
import { count, formatNumber, plainState, plural, stateOfVerdict } from "../../components/state.ts";
import { formatDate, time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { causeOfTurn, wordOfVerdict } from "./turn-words.ts";

type Diff = AnswerOf<typeof compareSnapshots>;
type Entry = Diff["data"][number];
type Artifact = NonNullable<Entry["after"]>;

type Kind = { title: string; ofTwo: (diff: Diff) => string; icon: IconName };
const KINDS: Readonly<Record<DiffKind, Kind>> = {
  verdict: { title: "Verdicts changed", ofTwo: () => "Verdicts differ", icon: "verified" },
  policy: { title: "Policies", ofTwo: () => "Policies", icon: "law" },
  upgraded: { title: "Upgraded", ofTwo: () => "Versions", icon: "arrow-right" },
  started: { title: "Started", ofTwo: ({ to }) => `Only ${to.environment}`, icon: "diff-added" },
  exited: { title: "Exited", ofTwo: ({ from }) => `Only ${from.environment}`, icon: "diff-removed" },
  scaled: { title: "Scaled", ofTwo: () => "Scaled", icon: "arrow-switch" },
  unchanged: { title: "Same verdict and instances", ofTwo: () => "Same verdict and instances", icon: "check" },
};

/** The kind in the address; null for all but unchanged ones. */
export const changeKindOf = (query: URLSearchParams): DiffKind | null => oneOf(query, "kind", DIFF_KINDS);

/** The set of upgrades in the address, which is one of that kind. */
export const setOf = (query: URLSearchParams): string | null =>
  changeKindOf(query) === "upgraded" ? (query.get("set")?.slice(0, 20) ?? null) : null;

const isOfOne = ({ from, to }: Diff): boolean => from.environment === to.environment;
/** One environment changes from one snapshot to the next; two differ. */
const wordOf = (diff: Diff): string => (isOfOne(diff) ? "change" : "difference");
const titleOf = (diff: Diff, kind: DiffKind): string => (isOfOne(diff) ? KINDS[kind].title : KINDS[kind].ofTwo(diff));

/** @param links to other moments @param hint what a moment is */
export function comparison(visit: Visit, diff: Diff, { links, hint }: { links: Html; hint: Html }): Html {
  const { counts, pagination } = diff;
  const total = DIFF_KINDS.reduce((sum, kind) => sum + (kind === "unchanged" ? 0 : counts[kind]), 0);
  const isFiltered = (visit.query.get("search") ?? "") !== "";
  const isNarrowed = isFiltered || changeKindOf(visit.query) !== null;
  const head = html`<div class="diff-head"><nav class="diff-short" aria-label="Other moments">${links}</nav><p
class="diff-sum" role="status">${sideLink(visit, diff.from)} ${icon("arrow-right", "12")}
${sideLink(visit, diff.to)}${betweenWords(diff)} <b>${
    total === 0 ? (isFiltered ? "Nothing matches" : "Nothing differs") : plural(total, wordOf(diff))
  }</b></p></div>${hint}`;
  const sets = diff.sets.length > 0 && setOf(visit.query) === null && setsCard(visit, diff);
  return html`${head}<div class="stack">${turnBox(visit, diff)}${sets}${filterRow(visit, diff, total)}${
    pagination.total > 0 ? changesTable(visit, diff) : nothing(diff, isNarrowed)
  }${pager(visit, pagination)}${unchangedLine(visit, diff)}</div>`;
}

function betweenWords({ snapshots_between: between }: Diff): Html | null {
  return between === null || between === 0
    ? null
    : html`<span class="muted">${plural(between, "snapshot")} between</span>`;
}

const sideLink = ({ to, now }: Visit, side: Diff["from"]): Html =>
  html`${snapshotLink(to, side.environment, side.index)}
<span class="muted">${time(side.timestamp, now)}</span>`;

const newlyFailing = (diff: Diff): string =>
  `${plural(diff.failing_total, "artifact")} ${
    isOfOne(diff) ? "began to fail" : `${diff.failing_total === 1 ? "fails" : "fail"} in ${diff.to.environment} only`
  }`;

/** Why the verdict is another one; what began to fail where it is not. */
function turnBox(visit: Visit, diff: Diff): Html | null {
  const { turned, to, failing, failing_total: total } = diff;
  if (turned === null && total === 0) return null;
  const state = turned === null || to.compliant === false ? "bad" : to.compliant === true ? "ok" : "none";
  const title =
    turned === null
      ? newlyFailing(diff)
      : html`Turned ${wordOfVerdict(to.compliant)} at <a
href="${visit.to.snapshot(to.environment, turned.index)}">#${turned.index}</a>, ${time(
          turned.timestamp,
          visit.now,
        )}, ${causeOfTurn(visit, turned)}`;
  const reasons = failing.map(
    (artifact) => html`<b class="cut">${artifactName(artifact.name)}</b>${causesLine(artifact, policiesOf(artifact))}`,
  );
  const rest = total - failing.length;
  return reasonsBox({
    state,
    title,
    reasons: rest > 0 ? [...reasons, `${formatNumber(rest)} more in the list`] : reasons,
    actions:
      turned !== null &&
      linkButton(visit.to.whyArtifact(to.environment, turned.index, ""), "Why?", { icon: "question", kind: "small" }),
  });
}

const policiesOf = ({ policies }: Artifact): string | null =>
  policies.length === 0 ? null : policies.map(({ name, version }) => `${name} v${version}`).join(", ");

function filterRow(visit: Visit, diff: Diff, total: number): Html {
  const { query, here } = visit;
  const { total: matching } = diff.pagination;
  const isNarrowed = (query.get("search") ?? "") !== "" || changeKindOf(query) !== null;
  const shown = DIFF_KINDS.filter((kind) => kind !== "unchanged" || changeKindOf(query) === kind);
  const ofSet =
    setOf(query) !== null &&
    html`<p class="sub">Services that were upgraded together. <a href="${here({ set: null, page: null })}">Show all
upgrades</a></p>`;
  return html`<div class="diff-filter">${filters(visit, {
    items: [
      { kind: "search", name: "search", label: "Name or fingerprint" },
      {
        kind: "state",
        name: "kind",
        label: "Kind of change",
        choices: [
          { value: "", text: "All", count: total },
          ...shown.map((kind) => ({
            value: kind,
            text: titleOf(diff, kind).replace(/ (?:changed|differ)$/, ""),
            count: diff.counts[kind],
          })),
        ],
      },
    ],
    keep: ["tab", "left", "left_at", "right", "right_at"],
    total: isNarrowed ? matching : null,
    what: `${wordOf(diff)}${matching === 1 ? "" : "s"}`,
  })}${ofSet}</div>`;
}

const nothing = (diff: Diff, isFiltered: boolean): Html =>
  html`<section class="card"><p class="card-b muted">${
    isFiltered
      ? `No ${wordOf(diff)} matches.`
      : `The same ${plural(diff.counts.unchanged, "artifact")}, verdicts and policies.`
  }</p></section>`;

function setsCard(visit: Visit, { sets, sets_total: total, counts }: Diff): Html {
  const rows = sets.map((set) => {
    const state = html`${set.compliant > 0 && plainState("compliant", `${formatNumber(set.compliant)} compliant`)} ${
      set.non_compliant > 0 && plainState("non_compliant", `${formatNumber(set.non_compliant)} fail`)
    }`;
    const shown = visit.here({ kind: "upgraded", set: set.id, page: null });
    return html`<tr><td class="r num" data-l="Services">${formatNumber(set.total)}</td><td>${versions(
      set.before,
      set.after,
    )}</td><td
data-l="Commits">${set.commits ? commitsWords(set.commits) : html`<span class="muted">–</span>`}</td><td
data-l="Build">${builtBy(set.build)}</td><td>${state}</td><td class="r"><a href="${shown}">${
      set.total === 1 ? html`<bdi>${set.example}</bdi>` : "Show all"
    }</a></td></tr>`;
  });
  return card({
    id: "h-sets",
    title: "Upgraded together",
    note: "same versions and the same commits are one line",
    body: table({
      caption: "Sets of upgrades",
      columns: [
        { text: "Services", isRight: true, className: "w-time" },
        { text: "Change" },
        { text: "Commits" },
        { text: "Build" },
        { text: "Now" },
        { text: "Show", isHidden: true },
      ],
      rows,
    }),
    foot:
      total > sets.length && `${plural(total - sets.length, "smaller set")} of ${plural(counts.upgraded, "upgrade")}`,
  });
}

const turning = (before: Value, after: Value): Html =>
  html`<div class="flip">${before}${icon("arrow-right", "12")}${after}</div>`;

const versions = (before: string, after: string): Html =>
  turning(html`<bdi class="mono muted">${before}</bdi>`, html`<b class="mono"><bdi>${after}</bdi></b>`);

const builtBy = (build: Entry["build"]): Html =>
  build === null
    ? html`<span class="muted">–</span>`
    : html`${isWebAddress(build.url) ? buildLink(build.url) : "built"} by <bdi>${build.reported_by}</bdi>`;

function changesTable(visit: Visit, diff: Diff): Html {
  const groups = Map.groupBy(diff.data, ({ kind }) => kind);
  const isOne = isOfOne(diff);
  const rows = [...groups].map(
    ([kind, entries]) =>
      html`<tbody><tr class="group"><th colspan="${isOne ? 4 : 3}" scope="rowgroup"><span
class="gh">${icon(KINDS[kind].icon)}${titleOf(
        diff,
        kind,
      )} ${count(diff.counts[kind])}</span></th></tr>${entries.map((entry) => entryRow(visit, diff, entry))}</tbody>`,
  );
  // An amount takes less room than a step from one verdict or version to another.
  const hasSteps = diff.data.some((entry) => entry.policy !== null || isStep(entry));
  return html`<section class="card" aria-label="Changes">${table({
    caption: "Changes",
    columns: [
      { text: "What", className: "w-flow" },
      { text: isOne ? "Change" : "Difference", className: hasSteps ? "w-turn" : "w-st" },
      { text: isOne ? "Why" : "What it means" },
      ...(isOne ? [{ text: "When", isRight: true, className: "w-time" }] : []),
    ],
    rows,
    hasGroups: true,
  })}</section>`;
}

/** On a phone, a step stands below the name: beside it there is room for some of them only. */
const isStep = ({ kind }: Entry): boolean => kind === "verdict" || kind === "upgraded";

function entryRow(visit: Visit, diff: Diff, entry: Entry): Html {
  const when =
    entry.at &&
    html`<a href="${visit.to.snapshot(placeOf(diff, entry), entry.at.index)}">${time(
      entry.at.timestamp,
      visit.now,
    )}</a>`;
  const { what, change, why } = entry.policy
    ? policyCells(visit, diff, { at: entry.at, policy: entry.policy })
    : artifactCells(visit, diff, entry);
  return html`<tr><td class="lead"><div
class="name-cell">${icon(entry.policy ? "law" : "package")}<div>${what}</div></div></td>
<td${isStep(entry) && html` class="full"`}>${change}</td><td class="fill">${why}</td>${
    isOfOne(diff) && html`<td class="r">${when}</td>`
  }</tr>`;
}

/** The environment whose snapshot made the change: of a logical one, the member. */
const placeOf = ({ to }: Diff, { before, after }: Entry): string =>
  (after ?? before)?.environment_name ?? to.environment;

type Cells = { what: Value; change: Value; why: Value };

function policyCells(
  { to }: Visit,
  diff: Diff,
  { at, policy: { name, change, before, after } }: { at: Entry["at"]; policy: NonNullable<Entry["policy"]> },
): Cells {
  const words = isOfOne(diff)
    ? { attached: "Attached", detached: "Detached" }
    : {
        attached: html`Only <bdi>${diff.to.environment}</bdi>`,
        detached: html`Only <bdi>${diff.from.environment}</bdi>`,
      };
  return {
    what: html`<a class="t-name" href="${to.policy(name)}"><bdi>${name}</bdi></a><div class="sub">${
      change === "changed" ? "another version in force" : `v${after ?? before}`
    }</div>`,
    change: change === "changed" ? before !== null && versions(`v${before}`, `v${after}`) : words[change],
    why: at !== null && at.user_name !== null && html`by <bdi>${at.user_name}</bdi>`,
  };
}

function artifactCells(visit: Visit, diff: Diff, entry: Entry): Cells {
  const { kind, before, after, commits, build } = entry;
  const artifact = (after ?? before) as Artifact;
  const href =
    artifact.flow !== null && artifact.fingerprint !== ""
      ? visit.to.artifact(artifact.flow, artifact.fingerprint)
      : null;
  const label = artifactName(kind === "upgraded" ? artifact.service : artifact.name);
  const isReplaced = kind === "verdict" && before !== null && before.version !== artifact.version;
  const what = html`${
    href === null ? html`<span class="t-name">${label}</span>` : html`<a class="t-name" href="${href}">${label}</a>`
  }<div class="sub">${
    artifact.fingerprint === "" ? html`<span>no fingerprint</span>` : fingerprint(artifact.fingerprint)
  }${
    artifact.environment_name !== null && html`<span><bdi>${artifact.environment_name}</bdi></span>`
  }${artifact.trail !== null && html`<bdi class="cut">${artifact.trail}</bdi>`}${
    isReplaced && html`<span>replaced ${before.version}</span>`
  }</div>`;
  const state =
    after === null
      ? html`<span class="muted">was ${before && wordOfVerdict(before.compliant)}</span>`
      : stateWithCause(visit, diff, after);
  if (kind === "verdict")
    return {
      what,
      change: turning(verdict(before), verdict(after)),
      why: whyTurned(visit, diff, entry),
    };
  if (kind === "upgraded")
    return {
      what,
      change: html`${versions(before?.version ?? "", after?.version ?? "")}${
        build && html`<div class="sub"><span>${builtBy(build)}</span></div>`
      }`,
      why: html`${entry.would ? wouldStart(entry, entry.would) : state}${commits && commitList(commits)}`,
    };
  const instances = (one: Artifact | null): string => plural(one?.instances ?? 0, "instance");
  const change = kind === "scaled" ? turning(before?.instances, html`<b>${instances(after)}</b>`) : instances(artifact);
  return { what, change, why: entry.would ? wouldStart(entry, entry.would) : state };
}

/** The verdict if the newer version, or what runs in one environment only, came over to the other one. */
function wouldStart(entry: Entry, would: NonNullable<Entry["would"]>): Html {
  const { environment, artifact, compliant, allowed } = would;
  const version = entry.kind === "upgraded" ? (entry[artifact]?.version ?? "") : "";
  const subject = version === "" ? "Would" : `${version} would`;
  if (compliant === null)
    return causesLine(would) ?? html`<span class="muted">no policy is attached to <bdi>${environment}</bdi></span>`;
  if (!compliant) return html`${plainState("non_compliant", `${subject} fail in ${environment}`)}${causesLine(would)}`;
  return plainState(
    allowed ? "allowlisted" : "compliant",
    `${subject} pass in ${environment}${allowed ? ", allowlisted" : ""}`,
  );
}

function verdict(artifact: Artifact | null): Html {
  const isAllowed = artifact?.compliant === true && artifact.allowed !== null;
  return plainState(isAllowed ? "allowlisted" : stateOfVerdict(artifact?.compliant));
}

function stateWithCause(visit: Visit, diff: Diff, artifact: Artifact): Html {
  if (artifact.compliant !== false)
    return artifact.allowed !== null && artifact.compliant ? allowedWords(visit, artifact) : verdict(artifact);
  const href =
    artifact.fingerprint === "" ? null : visit.to.whyArtifact(diff.to.environment, diff.to.index, artifact.fingerprint);
  const link = href && html`<a class="link" href="${href}">Why?</a>`;
  return html`<div class="row">${verdict(artifact)}${link}</div>${causesLine(artifact, policiesOf(artifact))}`;
}

const allowedWords = ({ now }: Visit, { allowed }: Artifact): Html =>
  html`${plainState("allowlisted")} by <bdi>${allowed?.user_name}</bdi>${
    allowed?.expires_at != null && html` until ${formatDate(allowed.expires_at, now)}`
  }${allowed?.description && html`<div class="sub"><q class="prose">${allowed.description}</q></div>`}`;

function whyTurned(visit: Visit, diff: Diff, { before, after }: Entry): Value {
  if (after?.compliant === false) {
    const href =
      after.fingerprint === "" ? null : visit.to.whyArtifact(diff.to.environment, diff.to.index, after.fingerprint);
    return html`${causesLine(after, policiesOf(after))}${href && html`<a class="link" href="${href}">Why?</a>`}`;
  }
  if (after?.compliant === true && after.allowed !== null) return allowedWords(visit, after);
  if (after?.compliant === null) return html`<span class="muted">no policy applies any more</span>`;
  const was = before && causesLine(before);
  return was
    ? html`<span class="muted">until then</span>${was}`
    : html`<span class="muted">satisfies its policies</span>`;
}

/** What did not change, folded: the first names, and a link to all. */
function unchangedLine(visit: Visit, diff: Diff): Html | null {
  const { unchanged: total } = diff.counts;
  if (total === 0 || changeKindOf(visit.query) === "unchanged") return null;
  const { unchanged: names } = diff;
  const rest = total - names.length;
  const listed = names.map((name, index) => html`${index > 0 && ", "}${artifactName(name)}`);
  const all = visit.here({ kind: "unchanged", set: null, page: null });
  const same = `${formatNumber(total)} with the same verdict and instances`;
  return html`<p class="card diff-same"><a href="${all}">${same}</a><span class="muted">: ${listed}${
    rest > 0 && ` and ${formatNumber(rest)} more`
  }</span></p>`;
}
