/** The rows of what changed: when, what, why, and the way to more about it. */
import { splitName } from "../../../domain/snapshot/comparison.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { causesLine } from "../../components/causes.ts";
import { commitList } from "../../components/commits.ts";
import { artifactName, buildLink, commit, reportedLink } from "../../components/identifier.ts";
import { formatNumber, stateIcon, stateOfVerdict } from "../../components/state.ts";
import { formatDate, moment } from "../../components/time.ts";
import { Html, html } from "../../html.ts";
import type { Value } from "../../html.ts";
import type { listChanges } from "../../../api/environments/period-changes.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import type { Visit } from "../../page/page.ts";

export type ListedChange = AnswerOf<typeof listChanges>["data"][number];

/** Like changes that each have a row; where there are more, the others share one. */
const MAX_ALIKE = 3;

type Row = {
  change: ListedChange;
  mark: Value;
  title: Value;
  /** Whether the title says what the environment did, without naming it. */
  isOfPlace?: boolean;
  sub?: Value;
  cause?: Html | null;
  more?: Value;
  link?: Value;
  look?: string;
};

/** @param options.isMixed whether the rows are of several environments, so that each names its own */
export function changeRows(visit: Visit, changes: readonly ListedChange[], { isMixed = false } = {}): Html {
  const rows = foldAlike(changes).map(({ first, others, words }) => {
    if (words === null) return changeRow(visit, rowOf(visit, first), isMixed);
    const all = [first, ...others].map((one) => changeRow(visit, rowOf(visit, one), isMixed));
    const when = moment(first.timestamp, visit.now);
    const place = isMixed && first.environment_name;
    const where = place && html` <span class="muted">in <bdi class="cut">${place}</bdi></span>`;
    const summary = html`<summary>${words}${where}${icon("chevron-down", "12")}</summary>`;
    return html`<li class="folded">${when}${icon(ICONS[first.kind])}<details>${summary}<ol
class="changes">${all}</ol></details></li>`;
  });
  return html`<ol class="changes">${rows}</ol>`;
}

/** Changes that share a row, in words; a change with a row of its own has no words. */
type Group = { first: ListedChange; others: ListedChange[]; words: Value };

/**
 * What is alike shares a row, at the place of its newest change: all runs of an artifact that starts again and again,
 * as a job of every night does; and of many upgrades, starts or exits in one snapshot those after the first ones.
 */
function foldAlike(changes: readonly ListedChange[]): Group[] {
  const runs = Map.groupBy(changes, runOf);
  const alike = Map.groupBy(changes, kindInSnapshot);
  const groups = new Map<string, Group>();
  for (const change of changes) {
    const run = runOf(change);
    const ofRun = run === null ? [] : (runs.get(run) ?? []);
    const same = kindInSnapshot(change);
    const ofSame = same === null ? [] : (alike.get(same) ?? []);
    if (ofRun.length > MAX_ALIKE) addTo(groups, `run ${run}`, { change, words: () => wordsOfRun(ofRun) });
    else if (ofSame.length > MAX_ALIKE + 1 && ofSame.indexOf(change) >= MAX_ALIKE)
      addTo(groups, `same ${same}`, {
        change,
        words: () => html`<b>${formatNumber(ofSame.length - MAX_ALIKE)} more ${MANY[change.kind]}</b>`,
      });
    else groups.set(change.id, { first: change, others: [], words: null });
  }
  return [...groups.values()];
}

function addTo(
  groups: Map<string, Group>,
  key: string,
  { change, words }: { change: ListedChange; words(): Value },
): void {
  const group = groups.get(key);
  if (group) group.others.push(change);
  else groups.set(key, { first: change, others: [], words: words() });
}

const MANY: Readonly<Partial<Record<ListedChange["kind"], string>>> = {
  upgraded: "upgrades",
  started: "starts",
  exited: "exits",
  scaled: "scaled",
  provenance: "with other provenance",
};

/** What fails stands by itself. */
const isFolded = ({ kind, compliant }: ListedChange): boolean =>
  MANY[kind] !== undefined && (kind === "upgraded" || kind === "exited" || compliant?.after !== false);

const runOf = (change: ListedChange): string | null => {
  const { kind, artifact, environment_name: place } = change;
  if ((kind !== "started" && kind !== "exited") || artifact === null || !isFolded(change)) return null;
  return JSON.stringify([place, artifact.name, artifact.fingerprint]);
};

const kindInSnapshot = (change: ListedChange): string | null =>
  isFolded(change) ? JSON.stringify([change.kind, change.environment_name, change.snapshot_index]) : null;

function wordsOfRun(run: readonly ListedChange[]): Value {
  const total = (kind: string): string => {
    const times = run.filter((one) => one.kind === kind).length;
    return times === 0 ? "" : `${kind} ${times === 1 ? "once" : `${formatNumber(times)} times`}`;
  };
  const words = [total("started"), total("exited")].filter((one) => one !== "").join(", ");
  return html`${artifactName(run[0]?.artifact?.name ?? "")} ${words}`;
}

const placeOf = ({ to }: Pick<Visit, "to">, { environment_name: place }: ListedChange): Html | null =>
  place === null ? null : html`<a class="whole cut" href="${to.environment(place)}"><bdi>${place}</bdi></a>`;

function titleOf(visit: Pick<Visit, "to">, { change, title, isOfPlace = false }: Row, isMixed: boolean): Html {
  const place = isMixed ? placeOf(visit, change) : null;
  if (isOfPlace) return html`${place ?? html`<b>The environment</b>`} ${title}`;
  return html`${title}${place && html` <span class="muted">in</span> ${place}`}`;
}

function changeRow(visit: Visit, row: Row, isMixed: boolean): Html {
  const { change, mark, sub, cause, more, link, look } = row;
  const below = html`${cause}${sub && html`<span class="sub">${sub}</span>`}${more}`;
  return html`<li${look !== undefined && html` class="${look}"`}>${moment(change.timestamp, visit.now)}${mark}<div><span
class="change">${titleOf(visit, row, isMixed)}</span>${below}</div>${link}</li>`;
}

const ICONS: Readonly<Record<ListedChange["kind"], IconName>> = {
  verdict: "circle",
  upgraded: "arrow-up",
  started: "diff-added",
  exited: "diff-removed",
  scaled: "diff-modified",
  provenance: "link",
  policy: "law",
  allowlist: "shield-check",
  member: "person",
  key: "key",
  record: "pencil",
  stale: "broadcast",
};

function rowOf(visit: Visit, change: ListedChange): Row {
  const common = { change, mark: icon(ICONS[change.kind]) };
  switch (change.kind) {
    case "policy":
      return { ...common, ...policyRow(visit, change) };
    case "allowlist":
      return { ...common, ...allowlistRow(visit, change) };
    case "member":
      return { ...common, ...memberRow(visit, change) };
    case "key":
      return { ...common, ...keyRow(visit, change) };
    case "record":
      return {
        ...common,
        title: withCutNames(change),
        sub: by(change.by),
        link: html`<a href="${visit.to.settings("audit-log")}">Audit log</a>`,
      };
    case "stale":
      return {
        ...common,
        title: "stopped reporting",
        isOfPlace: true,
        sub: html`last report ${moment(change.last_reported_at ?? 0, visit.now)}; what is shown may be out of date`,
        link:
          change.environment_name !== null &&
          html`<a href="${visit.to.environment(change.environment_name, { tab: "log" })}">Log</a>`,
      };
    default:
      return { ...common, ...artifactRow(visit, change) };
  }
}

/** Names that are longer would take lines of their own. */
const MAX_WHOLE_CHARS = 60;
/** Texts that are longer have the values of tags; the audit log has all of them. */
const MAX_WHOLE_TEXT_CHARS = 240;

/** The sentence about a record, with long names cut, because it says behind its name what happened. */
function withCutNames({ text, record }: ListedChange): Value {
  const names = new Set([record?.name, record?.before].filter((name) => (name ?? "").length > MAX_WHOLE_CHARS));
  let parts: (string | Html)[] = [text];
  for (const name of names as Set<string>)
    parts = parts.flatMap((part) =>
      part instanceof Html
        ? [part]
        : part.split(name).flatMap((words, at) => (at === 0 ? [words] : [html`<bdi class="cut">${name}</bdi>`, words])),
    );
  return parts.map((part) =>
    typeof part === "string" && part.length > MAX_WHOLE_TEXT_CHARS
      ? html`<span class="cut" title="${part}">${part.replace(/^: /, "")}</span>`
      : part,
  );
}

type Parts = Omit<Row, "change" | "mark"> & { mark?: Value };

const by = (name: string | null): Value => (name ? html`by <bdi>${name}</bdi>` : null);
const joined = (parts: readonly Value[]): Value => {
  const shown = parts.filter((part) => part !== null && part !== undefined && part !== false && part !== "");
  return shown.length === 0 ? null : shown.map((part, at) => html`${at > 0 && " · "}${part}`);
};

function artifactRow(visit: Visit, change: ListedChange): Parts {
  const { kind, artifact, compliant, snapshot_index: index, environment_name: place } = change;
  const { to } = visit;
  const fails = compliant?.after === false;
  const snapshot = place !== null && index !== null && html`<a href="${to.snapshot(place, index)}">#${index}</a>`;
  const isVerdict = kind === "verdict";
  const state = compliant?.after ?? null;
  const look = isVerdict ? (fails ? "turn" : state === true ? "turn-ok" : undefined) : undefined;
  const verdict = isVerdict ? { mark: stateIcon(stateOfVerdict(state)), ...(look ? { look } : {}) } : {};
  const turned = state === null ? "has no verdict any more" : `turned ${state ? "compliant" : "non-compliant"}`;
  if (artifact === null)
    return {
      ...verdict,
      title: turned,
      isOfPlace: true,
      cause: fails ? causesLine(change) : null,
      sub: null,
      link: snapshot,
    };
  const name = nameOf(visit, change, artifact);
  const why =
    place !== null && index !== null && artifact.fingerprint !== "" && state !== null && kind !== "exited"
      ? html`<a href="${to.whyArtifact(place, index, artifact.fingerprint)}">Why?</a>`
      : snapshot;
  if (isVerdict)
    return {
      ...verdict,
      title: html`${name} ${turned}`,
      cause: fails ? causesLine(change) : null,
      sub: !fails && change.causes.length > 0 ? html`no longer: ${causesLine(change)}` : null,
      link: why,
    };
  if (kind === "upgraded")
    return upgradeRow(change, {
      name: nameOf(visit, change, { ...artifact, name: splitName(artifact.name).service }),
      fallback: why,
    });
  const { instances_before: was, instances_after: now } = artifact;
  const words: Readonly<Record<string, Value>> = {
    started: html`${name} started${fails && ", non-compliant"}`,
    exited: html`${name} exited`,
    scaled: html`${name} ${step(String(was), String(now))} instances`,
    provenance: html`${name} got other provenance`,
  };
  return {
    ...(kind === "started" && fails ? { mark: stateIcon("non_compliant"), look: "turn" } : {}),
    title: words[kind],
    cause: kind === "started" && fails ? causesLine(change) : null,
    sub: kind === "started" && (change.build !== null || !fails) ? buildOf(change) : null,
    link: kind === "started" && fails ? why : snapshot,
  };
}

function nameOf(
  { to }: Visit,
  { build }: ListedChange,
  { name, fingerprint }: NonNullable<ListedChange["artifact"]>,
): Html {
  const label = artifactName(name);
  return build && fingerprint !== ""
    ? html`<a class="name cut" href="${to.artifact(build.flow_name, fingerprint)}">${label}</a>`
    : html`<span class="name cut">${label}</span>`;
}

const step = (before: string, after: string): Html =>
  html`<span class="step-v"><span class="from">${before}</span>${icon("arrow-right", "12")}<b>${after}</b></span>`;

function upgradeRow(change: ListedChange, { name, fallback }: { name: Html; fallback: Value }): Parts {
  const { artifact, replaced, build, commits } = change;
  const title = replaced && artifact ? html`${name} ${step(replaced.version, artifact.version)}` : name;
  const compare = build?.compare_url;
  return {
    title,
    sub: buildOf(change),
    more: commits && commits.items.length > 0 && commitList(commits),
    link: compare ? reportedLink(compare, "Commits") : fallback,
  };
}

/** `#17, #19 · commit 1a2b3c4 · dev-lead · Build`. */
function buildOf({ build }: ListedChange): Value {
  if (build === null) return "no provenance";
  const pulls = build.pull_requests.slice(0, 3).map(({ url, title }, at) => {
    const number = /(\d+)\/?$/.exec(url)?.[1];
    return html`${at > 0 && ", "}<span${title !== null && html` title="${title}"`}>${reportedLink(
      url,
      number === undefined ? "pull request" : `#${number}`,
    )}</span>`;
  });
  const more = build.pull_requests.length - pulls.length;
  return joined([
    pulls.length > 0 && html`${pulls}${more > 0 && ` and ${more} more`}`,
    commit(build.git_commit ?? "", build.commit_url),
    html`<bdi>${build.reported_by}</bdi>`,
    build.build_url !== "" && buildLink(build.build_url),
  ]);
}

function policyRow(
  { to }: Visit,
  { policy, by: author, environment_name: place, snapshot_index: index }: ListedChange,
): Parts {
  if (policy === null) return { title: "A policy changed" };
  const { name, change, before, after } = policy;
  const link = html`<a class="name cut" href="${to.policy(name)}"><bdi>${name}</bdi></a>`;
  const label = html`Policy ${link}`;
  const words: Readonly<Record<typeof change, Value>> = {
    created: html`${label} created`,
    version: html`${label} ${step(`v${before}`, `v${after}`)} saved`,
    described: html`Description of policy ${link} changed`,
    renamed: html`${label} renamed`,
    archived: html`${label} archived`,
    attached: html`${label} v${after} attached`,
    detached: html`${label} v${before} detached`,
    in_force: html`${label} ${step(`v${before}`, `v${after}`)} in force here`,
  };
  return {
    title: words[change],
    sub: joined([by(author), policy.comment && html`“${policy.comment}”`]),
    link:
      place !== null && index !== null
        ? html`<a href="${to.snapshot(place, index)}">#${index}</a>`
        : html`<a href="${to.policy(name, { tab: "versions" })}">Versions</a>`,
  };
}

function allowlistRow(
  { to, now }: Visit,
  { artifact, allowlist, by: author, environment_name: place }: ListedChange,
): Parts {
  if (artifact === null || allowlist === null) return { title: "An artifact was allowed" };
  const end = allowlist.expires_at;
  return {
    title: html`<span class="name cut">${artifactName(artifact.name)}</span> allowed${
      end === null ? ", no end" : ` until ${formatDate(end, now)}`
    }`,
    sub: joined([by(author), html`“${allowlist.reason}”`]),
    link: place !== null && html`<a href="${to.environment(place, { tab: "settings" })}">Allowlist</a>`,
  };
}

function memberRow({ to, org }: Visit, { member, by: author }: ListedChange): Parts {
  if (member === null) return { title: "A member changed" };
  const { name, user_name: login, role, previous_role: previous } = member;
  const isAccount = login.startsWith(`${org}/`);
  const label = html`<b class="cut"><bdi>${name}</bdi></b>`;
  const title =
    role === null
      ? html`${label} removed, was ${previous ?? "unknown"}`
      : previous === null
        ? html`${label} ${isAccount ? "created" : "joined"} as ${role}`
        : html`${label} ${step(previous, role)}`;
  return {
    title,
    sub: by(author),
    link: isAccount
      ? html`<a href="${to.serviceAccount(name)}">Account</a>`
      : html`<a href="${to.settings("members")}">Members</a>`,
  };
}

function keyRow({ to }: Visit, { key, by: author }: ListedChange): Parts {
  if (key === null) return { title: "A key changed" };
  return {
    title: html`Key of <a class="name cut" href="${to.serviceAccount(key.account)}"><bdi>${key.account}</bdi></a> ${
      key.change
    }`,
    sub: joined([key.change !== "lapsed" && by(author), key.id !== "" && html`<span class="id">${key.id}</span>`]),
    link: html`<a href="${to.settings("audit-log", { event: "api_key" })}">Audit log</a>`,
  };
}
