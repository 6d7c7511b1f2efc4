/** The difference between two snapshots, of one environment or of two; and the form that chooses them. */
import { compareSnapshots } from "../../../api/environments/snapshot-diff.ts";
import { parseSnapshotExpression } from "../../../domain/snapshot/expression.ts";
import { lastEvening } from "../../../domain/time.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { problemBox } from "../../components/forms.ts";
import { empty } from "../../components/layout.ts";
import { pageOf } from "../../components/lists.ts";
import { inWords } from "../../page/field-words.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { comparison, changeKindOf, setOf } from "./diff-changes.ts";
import { NO_MOMENTS, diffForm, readSide } from "./diff-form.ts";
import type { Side, SideProblems } from "./diff-form.ts";
import type { ShownEnvironment } from "./types.ts";

const PER_PAGE = 25;

type Sides = { left: Side; right: Side };
export type Diff = AnswerOf<typeof compareSnapshots>;
type Refusal = { problems: SideProblems; message: string | null };

/**
 * The form, and the comparison; `diff` is null where there is none.
 * @param action where the form leads @param keep fields of the page that must stay
 */
export async function diffView(
  visit: Visit,
  sides: Sides,
  { action, keep = null }: { action: string; keep?: Html | null },
): Promise<{ view: Html; diff: Diff | null }> {
  const { left, right } = sides;
  const isAsked = left.environment !== "" && right.environment !== "";
  const answer = isAsked ? await compare(visit, sides) : null;
  const problems = answer !== null && "problems" in answer ? answer.problems : {};
  const form = await diffForm(visit, sides, { action, keep, problems });
  const hint = html`<p class="hint gap-b">A moment is <code>latest</code>, a number such as <code>#12</code>,
<code>~1</code> for the one before the latest, <code>2.days.ago</code>, or a time in UTC such as
<code>2026-01-31 18:00</code>.</p>`;
  if (answer === null) return { view: html`<div>${form}${hint}${nothingAsked()}</div>`, diff: null };
  if (!("problems" in answer)) {
    const links = shortcuts(visit, answer, sides);
    return { view: html`<div>${form}${comparison(visit, answer, { links, hint })}</div>`, diff: answer };
  }
  return { view: html`<div>${form}${hint}${problemBox(answer.message)}</div>`, diff: null };
}

const nothingAsked = (): Html =>
  html`<section class="card">${empty({
    icon: "git-compare",
    title: "Choose two snapshots",
    text: "The comparison shows which verdicts differ and why, which policies, versions and numbers of instances.",
    command: "kosli diff snapshots staging production",
  })}</section>`;

const NO_MOMENT = {
  text: "Write latest, a number such as #12, ~1, 2.days.ago, or a time such as 2026-01-31 18:00",
  isName: false,
};

/** A refusal is shown at the form, which keeps what was typed. */
async function compare({ call, query, moment }: Visit, { left, right }: Sides): Promise<Diff | Refusal> {
  if (left.expression === null || right.expression === null)
    return {
      problems: {
        ...(left.expression === null ? { left: NO_MOMENT } : {}),
        ...(right.expression === null ? { right: NO_MOMENT } : {}),
      },
      message: null,
    };
  try {
    return await call(compareSnapshots, {
      query: {
        snappish1: left.expression,
        snappish2: right.expression,
        kind: changeKindOf(query),
        search: (query.get("search") ?? "").slice(0, 256),
        set: setOf(query),
        at: moment?.text ?? null,
        page: pageOf(query),
        per_page: PER_PAGE,
      },
    });
  } catch (error) {
    if (!(error instanceof AppError) || (error.code !== "invalid" && error.code !== "not_found")) throw error;
    if (error.fields === null) return missingSide(error.message, { left, right });
    // The moment was read above.
    const { snappish1, snappish2 } = error.fields;
    return {
      problems: {
        ...(snappish1 ? { left: { text: snappish1, isName: true } } : {}),
        ...(snappish2 ? { right: { text: snappish2, isName: true } } : {}),
      },
      message: null,
    };
  }
}

/** What does not exist, at the side that names it; above the comparison where neither does. */
function missingSide(message: string, sides: Sides): Refusal {
  const name = (["left", "right"] as const).find((side) =>
    [sides[side].environment, sides[side].expression].some((named) => message.includes(`'${named}'`)),
  );
  if (name === undefined) return { problems: {}, message: inWords(message) };
  const isName = message.includes(`'${sides[name].environment}'`);
  return { problems: { [name]: { text: message, isName } }, message: null };
}

/** Other moments of the same environments. */
function shortcuts({ here, now, moment }: Visit, { from, to, turned, last_compliant: last }: Diff, sides: Sides): Html {
  const isOne = from.environment === to.environment;
  const [left, right] = [from.environment, to.environment];
  const ago = (moment: string) => ({ left: `${left}@{${moment}}`, right: isOne ? right : `${right}@{${moment}}` });
  const evening = new Date(lastEvening(now) * 1000).toISOString().slice(0, 19);
  const links: { text: string; left: string; right: string }[] = isOne
    ? [
        { text: "Previous snapshot", left: `${right}~1`, right },
        { text: "24 hours", ...ago("24.hours.ago") },
        { text: "Since yesterday 18:00", ...ago(evening) },
        ...(last === null ? [] : [{ text: "Since it was last compliant", left: `${right}#${last.index}`, right }]),
        { text: "7 days", ...ago("7.days.ago") },
        ...(turned === null
          ? []
          : [
              {
                text: "The change of the verdict",
                left: `${right}#${turned.index - 1}`,
                right: `${right}#${turned.index}`,
              },
            ]),
      ]
    : [
        { text: moment ? "Both then" : "Both now", left, right },
        { text: "Both yesterday 18:00", ...ago(evening) },
        { text: "Both 7 days ago", ...ago("7.days.ago") },
      ];
  const cleared = { ...NO_MOMENTS, kind: null, search: null, set: null, page: null };
  const isSame = ({ expression }: Side, other: string): boolean =>
    expression !== null && spelledOf(expression, now) === spelledOf(other, now);
  const isShown = (one: { left: string; right: string }): boolean =>
    isSame(sides.left, one.left) && isSame(sides.right, one.right);
  return html`${links.map(
    (one) =>
      html`<a href="${here({ ...cleared, left: one.left, right: one.right })}"${
        isShown(one) && html` aria-current="true"`
      }>${one.text}</a>`,
  )}`;
}

/** An expression in one of its spellings: `production#-2` as `production~1`. */
function spelledOf(expression: string, now: number): string {
  const parsed = parseSnapshotExpression(expression, now);
  if (parsed === null) return expression;
  const { environment, position } = parsed;
  if (position.kind === "time") return `${environment}@${position.at}`;
  const behind = position.kind === "behind" ? position.behind : -1 - position.index;
  return behind >= 0 ? `${environment}~${behind}` : expression;
}

/** The tab of an environment: its latest snapshot, now or then, against the one before; or those in the address. */
export async function diffTab(visit: Visit, { name }: ShownEnvironment): Promise<Html> {
  const sides = { left: readSide(visit, "left", `${name}~1`), right: readSide(visit, "right", name) };
  const { view } = await diffView(visit, sides, {
    action: visit.to.environment(name),
    keep: html`<input type="hidden" name="tab" value="diff">`,
  });
  return view;
}
