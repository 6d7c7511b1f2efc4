/** The difference between two snapshots, of one environment or of two; and the form that chooses them. */
import { compareSnapshots } from "../../../api/environments/snapshot-diff.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { icon } from "../../components/icon.ts";
import { empty } from "../../components/layout.ts";
import { pageOf } from "../../components/lists.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { inWords } from "../../page/field-words.ts";
import type { Visit } from "../../page/page.ts";
import { comparison, changeKindOf, setOf } from "./diff-changes.ts";
import type { ShownEnvironment } from "./types.ts";

const PER_PAGE = 25;

/** What a form asks to compare; empty texts before it was submitted. */
type Sides = { left: string; right: string };
type Diff = AnswerOf<typeof compareSnapshots>;
type Refusal = { problems: Readonly<Record<string, string>>; message: string | null };

/** @param action where the form leads @param keep fields of the page that must stay */
export async function diffView(
  visit: Visit,
  sides: Sides,
  { action, keep = null }: { action: string; keep?: Html | null },
): Promise<Html> {
  const { left, right } = sides;
  const answer = left !== "" && right !== "" ? await compare(visit, sides) : null;
  const problems = answer !== null && "problems" in answer ? answer.problems : {};
  const form = html`<form class="diff-form" method="get" action="${action}">${keep}${sideField("left", {
    label: "From",
    value: left,
    problem: problems["snappish1"] ?? null,
  })}${sideField("right", { label: "To", value: right, problem: problems["snappish2"] ?? null })}<button
class="btn btn-primary" type="submit">Compare</button></form>${shortcuts(visit, answer)}
<p class="hint gap-b">An environment stands for its latest snapshot. <code>#12</code> is snapshot 12, <code>~1</code>
the one before
the latest, <code>@{2.days.ago}</code> or <code>@{2026-01-31T12:00:00}</code> the one in force then:
<code>production~1</code>.</p>`;
  if (answer === null) return html`<div>${form}${nothingAsked()}</div>`;
  if (!("problems" in answer)) return html`<div>${form}${comparison(visit, answer)}</div>`;
  const refusal = answer.message !== null && html`<p class="problem" role="alert">${answer.message}</p>`;
  return html`<div>${form}${refusal}</div>`;
}

const nothingAsked = (): Html =>
  html`<section class="card">${empty({
    icon: "git-compare",
    title: "Choose two snapshots",
    text: "The comparison shows which verdicts differ and why, which policies, versions and numbers of instances.",
    command: "kosli diff snapshots staging production",
  })}</section>`;

/** A refusal is shown at the form, which keeps what was typed. */
async function compare({ call, query }: Visit, { left, right }: Sides): Promise<Diff | Refusal> {
  try {
    return await call(compareSnapshots, {
      query: {
        snappish1: left,
        snappish2: right,
        kind: changeKindOf(query),
        search: (query.get("search") ?? "").slice(0, 256),
        set: setOf(query),
        page: pageOf(query),
        per_page: PER_PAGE,
      },
    });
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
    problem !== null &&
    html`<p class="field-error" id="${name}-error">${icon("alert-fill", "12")}${inWords(problem)}</p>`
  }</div>`;
}

/** Other moments of the same environments, and the other direction. */
function shortcuts({ here }: Visit, answer: Diff | Refusal | null): Html | null {
  if (answer === null || "problems" in answer) return null;
  const { from, to, turned } = answer;
  const isOne = from.environment === to.environment;
  const both = isOne ? "" : "Both ";
  const ago = (time: string) => ({
    left: `${from.environment}@{${time}}`,
    right: isOne ? to.environment : `${to.environment}@{${time}}`,
  });
  const links: { text: string; left: string; right: string }[] = [
    ...(isOne ? [{ text: "Previous snapshot", left: `${to.environment}~1`, right: to.environment }] : []),
    { text: `${both}24 hours${isOne ? "" : " ago"}`, ...ago("24.hours.ago") },
    { text: `${both}7 days${isOne ? "" : " ago"}`, ...ago("7.days.ago") },
    ...(turned !== null
      ? [
          {
            text: "The change of the verdict",
            left: `${to.environment}#${turned.index - 1}`,
            right: `${to.environment}#${turned.index}`,
          },
        ]
      : []),
    { text: "Other direction", left: `${to.environment}#${to.index}`, right: `${from.environment}#${from.index}` },
  ];
  const cleared = { kind: null, search: null, set: null, page: null };
  return html`<p class="diff-short">${links.map(
    ({ text, left, right }) => html`<a href="${here({ ...cleared, left, right })}">${text}</a>`,
  )}</p>`;
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
