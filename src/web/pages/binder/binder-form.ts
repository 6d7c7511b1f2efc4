/** What a binder is about, and its period: what was chosen, and the fields to choose something else. */
import type { getAuditBinder } from "../../../api/environments/audit-binder.ts";
import { AppError } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { choiceField, nameField, timeField } from "../../components/lists.ts";
import { icon } from "../../components/icon.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

export type ShownBinder = AnswerOf<typeof getAuditBinder>;
type Kind = ShownBinder["subject"]["kind"];

const KINDS: readonly { value: Kind; text: string }[] = [
  { value: "control", text: "Control" },
  { value: "environment", text: "Environment" },
  { value: "flow", text: "Flow" },
];

/** What the address asks for; `name` empty: nothing yet. */
export type Asked = { kind: Kind; name: string; from: string; to: string };
/** What is wrong with a field, by its name. */
export type BinderProblems = Readonly<Partial<Record<"kind" | "name" | "from" | "to", string>>>;

/** The form names kind and name apart; links name the one by the other. As of a moment, the period ends with it. */
export function askedOf({ query, moment }: Pick<Visit, "query" | "moment">): Asked {
  const text = (name: string): string => (query.get(name) ?? "").trim();
  const given = KINDS.find(({ value }) => text(value) !== "");
  const chosen = KINDS.find(({ value }) => value === text("kind"));
  const kind = (given ?? chosen)?.value ?? "control";
  return { kind, name: given ? text(kind) : text("name"), from: text("from"), to: text("to") || (moment?.text ?? "") };
}

/** The parameters of the address and of the operation. */
export const queryOf = ({ kind, name, from, to }: Asked) => ({ [kind]: name, from: from || null, to: to || null });

/** What is wrong with the kind in the address, which is then not taken for another one; null where nothing is. */
export function kindProblem({ query }: Pick<Visit, "query">): BinderProblems | null {
  const kind = (query.get("kind") ?? "").trim();
  return kind === "" || KINDS.some(({ value }) => value === kind) ? null : { kind: `There is no kind '${kind}'` };
}

/** The problems that the operation found, at their fields; the error itself where it is about something else. */
export function problemsIn(error: unknown, { kind, name }: Asked): BinderProblems {
  if (!(error instanceof AppError)) throw error;
  if (error.code === "not_found") return { name: `There is no ${kind} '${name}'` };
  if (error.code !== "invalid" || error.fields === null) throw error;
  const { from, to } = error.fields;
  if (!from && !to) throw error;
  return { ...(from ? { from: words(from) } : {}), ...(to ? { to: words(to) } : {}) };
}

function words(problem: string): string {
  if (problem.startsWith("Input should not be after")) return "The period starts after its end";
  if (problem.startsWith("Input should not be in the future")) return "The period starts in the future";
  return "Write it as 2026-01-31, 2026-01-31T18:00 or 90days";
}

export function binderForm(visit: Visit, asked: Asked, problems: BinderProblems): Html {
  const { to, path, now, query } = visit;
  const { kind, name, from, to: end } = asked;
  const shown = problems.kind === undefined ? kind : (query.get("kind") ?? kind);
  const periods = periodsOf(now);
  const isCurrent = (one: Period): boolean => one.from === from && one.to === end;
  const links = periods.map(
    (one) =>
      html`<a class="btn" href="${to.auditBinder(queryOf({ ...asked, from: one.from, to: one.to }))}"${
        isCurrent(one) && html` aria-current="true"`
      }>${one.text}</a>`,
  );
  const isOpen = !periods.some(isCurrent) || problems.from !== undefined || problems.to !== undefined;
  return html`<div class="list-head"><form class="filters" method="get" action="${to.path(path.slice(1))}">
${choiceField("kind", "Kind", { value: shown, choices: KINDS, problem: problems.kind })}
${nameField("name", kind === "control" ? "Identifier" : "Name", { value: name, problem: problems.name })}
${name !== "" && html`<span class="btn-group states" role="group" aria-label="Period">${links}</span>`}
<details class="filters-range"${isOpen && html` open`}>
<summary class="btn">From and to${icon("chevron-down", "12")}</summary>
<div class="filters-row">${timeField("from", "From", {
    value: from,
    placeholder: "90days",
    problem: problems.from,
  })}${timeField("to", "To", { value: end, placeholder: "now", problem: problems.to })}</div></details>
<button class="btn" type="submit">Show</button></form></div>`;
}

type Period = { text: string; from: string; to: string };

const MONTHS_PER_QUARTER = 3;

/** The last 90 days, and the present quarter and year with the quarters before, in UTC. */
function periodsOf(now: number): Period[] {
  const today = new Date(now * 1000);
  const year = today.getUTCFullYear();
  const quarter = Math.floor(today.getUTCMonth() / MONTHS_PER_QUARTER);
  return [
    { text: "90 days", from: "", to: "" },
    ...[0, 1, 2].map((back) => quarterOf(year, quarter - back)),
    { text: `${year}`, from: `${year}-01-01`, to: `${year}-12-31` },
  ];
}

/** @param quarter from 0; a negative one is of an earlier year */
function quarterOf(year: number, quarter: number): Period {
  const day = (date: number): string => new Date(date).toISOString().slice(0, "2026-01-31".length);
  const start = new Date(Date.UTC(year, quarter * MONTHS_PER_QUARTER, 1));
  const number = Math.floor(start.getUTCMonth() / MONTHS_PER_QUARTER) + 1;
  return {
    text: `Q${number} ${start.getUTCFullYear()}`,
    from: day(start.getTime()),
    // Day 0 of a month is the last one of the month before.
    to: day(Date.UTC(year, (quarter + 1) * MONTHS_PER_QUARTER, 0)),
  };
}
