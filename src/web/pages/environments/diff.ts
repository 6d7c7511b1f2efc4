/** The difference between two snapshots, of one environment or of two; and the form that chooses them. */
import { environmentDiff } from "../../../api/environments/env-diff.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { icon } from "../../components/icon.ts";
import type { IconName } from "../../components/icon.ts";
import { fingerprint, reportedLink } from "../../components/identifier.ts";
import { card, empty, table } from "../../components/layout.ts";
import { count, formatNumber } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { artifactName } from "./artifact-rows.ts";
import type { ShownEnvironment } from "./types.ts";

type Diff = AnswerOf<typeof environmentDiff>;
type Info = Diff["changed"]["artifacts"][number];
type GroupKey = "added" | "removed" | "changed" | "same";

/** Artifacts that each list shows at first, and when one list is asked for. */
const PER_LIST = 25;
const PER_LONG_LIST = 250;

const GROUPS: readonly { key: GroupKey; title: string; icon: IconName; look: string }[] = [
  { key: "added", title: "Only in the second", icon: "diff-added", look: "ok" },
  { key: "removed", title: "Only in the first", icon: "diff-removed", look: "bad" },
  { key: "changed", title: "In both, with other instances", icon: "diff-modified", look: "wait" },
  { key: "same", title: "In both, unchanged", icon: "check", look: "none" },
];

/** What a form asks to compare; empty texts before it was submitted. */
type Sides = { left: string; right: string };

/** @param action where the form leads @param keep fields of the page that must stay */
export async function diffView(
  visit: Visit,
  sides: Sides,
  { action, keep = null }: { action: string; keep?: Html | null },
): Promise<Html> {
  const { left, right } = sides;
  const long = GROUPS.find(({ key }) => key === visit.query.get("all"))?.key ?? null;
  const isAsked = left !== "" && right !== "";
  const answer = isAsked ? await compare(visit, sides, long === null ? PER_LIST : PER_LONG_LIST) : null;
  const problems = answer !== null && "problems" in answer ? answer.problems : {};
  const form = html`<form class="diff-form" method="get" action="${action}">${keep}${sideField("left", {
    label: "First",
    value: left,
    problem: problems["snappish1"] ?? null,
  })}${sideField("right", { label: "Second", value: right, problem: problems["snappish2"] ?? null })}<button
class="btn btn-primary" type="submit">Compare</button></form>
<p class="hint gap-b">An environment stands for its latest snapshot. <code>#12</code> is snapshot 12, <code>~1</code>
the one before
the latest, <code>@{2.days.ago}</code> or <code>@{2026-01-31T12:00:00}</code> the one in force then:
<code>production~1</code>.</p>`;
  if (answer === null) return html`${form}${nothingAsked()}`;
  if ("problems" in answer)
    return html`${form}${answer.message !== null && html`<p class="problem" role="alert">${answer.message}</p>`}`;
  return html`${form}${comparison(visit, answer.diff, long)}`;
}

const nothingAsked = (): Html =>
  html`<section class="card">${empty({
    icon: "git-compare",
    title: "Choose two snapshots",
    text: "The comparison shows what runs only in one of them, and where the number of instances differs.",
    command: "kosli diff snapshots staging production",
  })}</section>`;

type Refusal = { problems: Readonly<Record<string, string>>; message: string | null };

/** A refusal is shown at the form, which keeps what was typed. */
async function compare({ call }: Visit, { left, right }: Sides, limit: number): Promise<{ diff: Diff } | Refusal> {
  try {
    return { diff: await call(environmentDiff, { query: { snappish1: left, snappish2: right, limit } }) };
  } catch (error) {
    if (!(error instanceof AppError) || (error.code !== "invalid" && error.code !== "not_found")) throw error;
    return { problems: error.fields ?? {}, message: error.fields ? null : `${error.message}.` };
  }
}

function sideField(name: string, options: { label: string; value: string; problem: string | null }): Html {
  const { label, value, problem } = options;
  const invalid = problem !== null && html` aria-invalid="true" aria-describedby="${name}-error"`;
  return html`<div class="form-field"><label for="${name}">${label}</label><input class="field mono" id="${name}"
name="${name}"
value="${value}" placeholder="production~1" maxlength="300" required${invalid}>${
    problem !== null && html`<p class="field-error" id="${name}-error">${icon("alert-fill", "12")}${problem}</p>`
  }</div>`;
}

function comparison(visit: Visit, diff: Diff, long: GroupKey | null): Html {
  const first = diff.snappish1.snapshot_id ?? "";
  const second = diff.snappish2.snapshot_id ?? "";
  const items = {
    added: diff.snappish2,
    removed: diff.snappish1,
    changed: diff.changed,
    same: diff["not-changed"],
  };
  const total = (key: GroupKey): number => items[key].total ?? items[key].artifacts.length;
  const differs = total("added") + total("removed") + total("changed");
  const words = `${formatNumber(differs)} ${differs === 1 ? "artifact differs" : "artifacts differ"}`;
  const finding = differs === 0 ? "Nothing differs" : words;
  const head = html`<p class="diff-sum" role="status">${snapshotLink(visit, first)} ${icon("arrow-right", "12")}
${snapshotLink(visit, second)} <b>${finding}</b></p>`;
  const shown = GROUPS.filter(({ key }) => total(key) > 0 && (long === null || long === key));
  const cards = shown.map((group) =>
    groupCard(visit, group, { artifacts: items[group.key].artifacts, total: total(group.key) }),
  );
  const back = long !== null && html`<p><a href="${visit.here({ all: null })}">All four lists</a></p>`;
  return html`${head}<div class="stack">${back}${cards}</div>`;
}

function snapshotLink({ to }: Visit, id: string): Html {
  const at = id.lastIndexOf("#");
  return html`<a href="${to.snapshot(id.slice(0, at), id.slice(at + 1))}"><bdi>${id}</bdi></a>`;
}

function groupCard(
  visit: Visit,
  { key, title, icon: mark, look }: (typeof GROUPS)[number],
  { artifacts, total }: { artifacts: readonly Info[]; total: number },
): Html {
  const rows = artifacts.map((artifact) => artifactRow(visit, artifact, key));
  const list = table({
    caption: title,
    columns: [
      { text: "Artifact" },
      { text: "Flow", className: "w-flow" },
      { text: "Instances", isRight: true, className: "w-time" },
      { text: "Latest start", isRight: true, className: "w-st" },
    ],
    rows,
  });
  const more = total - artifacts.length;
  return card({
    id: `h-${key}`,
    title: html`<span class="row"><span class="diffmark ${look}"
aria-hidden="true">${icon(mark)}</span>${title}</span>`,
    note: count(total),
    body: list,
    foot:
      more > 0 &&
      html`<span>${formatNumber(more)} more</span>${
        artifacts.length <= PER_LIST && html`<a class="right" href="${visit.here({ all: key })}">Show more</a>`
      }`,
  });
}

function artifactRow({ to, now }: Visit, artifact: Info, key: GroupKey): Html {
  const { name, flow, fingerprint: value, s1_instance_count: before, s2_instance_count: after } = artifact;
  const label = artifactName(name);
  const title =
    flow !== "" && value !== ""
      ? html`<a class="t-name" href="${to.artifact(flow, value)}">${label}</a>`
      : html`<span class="t-name">${label}</span>`;
  const instances = key === "changed" ? `${before} → ${after}` : String(key === "removed" ? before : after);
  return html`<tr><td class="lead">${title}<div class="sub">${
    value === "" ? html`<span>no fingerprint</span>` : fingerprint(value)
  }${artifact.commit_url && reportedLink(artifact.commit_url, "commit")}</div></td><td class="flow">${
    flow === ""
      ? html`<span class="muted">No provenance</span>`
      : html`<a href="${to.flow(flow)}"><bdi class="cut">${flow}</bdi></a>`
  }</td><td class="r num" data-l="Instances">${instances}</td><td class="r" data-l="Started">${time(
    artifact.most_recent_timestamp,
    now,
  )}</td></tr>`;
}

/** The tab of an environment: the latest snapshot against the one before, unless the address has others. */
export function diffTab(visit: Visit, { name }: ShownEnvironment): Promise<Html> {
  const { query, to } = visit;
  const sides = { left: query.get("left") ?? `${name}~1`, right: query.get("right") ?? name };
  return diffView(visit, sides, {
    action: to.environment(name),
    keep: html`<input type="hidden" name="tab" value="diff">`,
  });
}
