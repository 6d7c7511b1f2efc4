/** The form that chooses two snapshots: an environment and a moment on each side. */
import { listEnvs } from "../../../api/environments/environments.ts";
import { parsePosition, parseSnapshotExpression, parseTimeExpression } from "../../../domain/snapshot/expression.ts";
import { icon } from "../../components/icon.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { inWords } from "../../page/field-words.ts";
import type { Visit } from "../../page/page.ts";

/**
 * A side as the address has it. `expression`: as the operation takes it, null for a text that is none; empty before
 * anything was chosen.
 */
export type Side = { environment: string; moment: string; expression: string | null };
type SideName = "left" | "right";
/** What is wrong with a side; `isName`: with the name of its environment, otherwise with its moment. */
export type SideProblems = Readonly<Partial<Record<SideName, { text: string; isName: boolean }>>>;

/** Environments in the list of choices, a page of them; with more the name is typed. */
const MAX_CHOICES = 49;

/** The latest snapshot, as people write it. */
const LATEST = "latest";

/** Fields of the form, which links to other sides clear. */
export const NO_MOMENTS = { left_at: null, right_at: null } as const;

/**
 * Reads a side: `left` is an expression such as `production~1`, or a name with its moment in `left_at`.
 * @param fallback the expression without any
 */
export function readSide({ query, now }: Visit, name: SideName, fallback: string): Side {
  const text = (query.get(name) ?? fallback).trim();
  const moment = query.get(`${name}_at`)?.trim();
  if (moment !== undefined) {
    const position = text === "" ? "" : positionOf(moment, now);
    return { environment: text, moment, expression: position === null ? null : `${text}${position}` };
  }
  const parsed = parseSnapshotExpression(text, now);
  if (!parsed) return { environment: text, moment: LATEST, expression: text };
  const { environment } = parsed;
  return { environment, moment: momentWords(text.slice(environment.length)), expression: text };
}

/** What follows the name of the environment; null for a text that is not a moment. */
function positionOf(text: string, now: number): string | null {
  if (text === "" || text.toLowerCase() === LATEST) return "";
  if (/^[#~@]/.test(text)) return parsePosition(text, now) === null ? null : text;
  if (/^-?\d{1,9}$/.test(text)) return `#${text}`;
  if (parsePosition(`@{${text}}`, now) !== null) return `@{${text}}`;
  const at = parseTimeExpression(text, now);
  return at === null ? null : `@{${new Date(at * 1000).toISOString().slice(0, 19)}}`;
}

/** `@{2026-11-19T18:00:00}` as it is typed: `2026-11-19 18:00`. */
function momentWords(position: string): string {
  if (position === "") return LATEST;
  const [, inner] = /^@\{(.*)\}$/s.exec(position) ?? [];
  if (inner === undefined) return position;
  return inner.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d)?)Z?$/, "$1 $2").replace(/(?<=^.{16}):00$/, "");
}

/** @param problems of the fields `left` and `right` @param keep fields of the page that must stay */
export async function diffForm(
  visit: Visit,
  sides: Record<SideName, Side>,
  options: { action: string; keep: Html | null; problems: SideProblems },
): Promise<Html> {
  const names = await environmentNames(visit);
  const field = (name: SideName, label: string): Html =>
    sideField({ name, label, side: sides[name], names, problem: options.problems[name] ?? null });
  const { left, right } = sides;
  const isSwappable = Boolean(left.expression && right.expression);
  const swap =
    isSwappable &&
    html`<a class="btn btn-icon diff-swap" href="${visit.here({
      ...NO_MOMENTS,
      left: right.expression,
      right: left.expression,
      kind: null,
      search: null,
      set: null,
      page: null,
    })}" aria-label="Other direction" title="Other direction">${icon("arrow-switch")}</a>`;
  return html`<form class="diff-form" method="get" action="${options.action}">${options.keep}${field(
    "left",
    "From",
  )}${swap || html`<span></span>`}${field("right", "To")}<button class="btn btn-primary"
type="submit">Compare</button></form>`;
}

async function environmentNames({ call }: Visit): Promise<string[] | null> {
  const answer = await call(listEnvs, { query: { page: 1, per_page: MAX_CHOICES + 1 } });
  const rows = Array.isArray(answer) ? answer : answer.environments;
  return rows.length > MAX_CHOICES ? null : rows.map(({ name }) => name);
}

function sideField({
  name,
  label,
  side: { environment, moment },
  names,
  problem,
}: {
  name: SideName;
  label: string;
  side: Side;
  names: readonly string[] | null;
  problem: SideProblems[SideName] | null;
}): Html {
  const [invalidName, invalidMoment] = [true, false].map(
    (isName) => problem?.isName === isName && html` aria-invalid="true" aria-describedby="${name}-error"`,
  );
  const choices = names && (names.includes(environment) || environment === "" ? names : [environment, ...names]);
  const place =
    choices === null
      ? html`<input class="field mono" id="${name}" name="${name}" value="${environment}" placeholder="production"
maxlength="300" required${invalidName}>`
      : html`<select class="field" id="${name}" name="${name}" required${invalidName}>${
          environment === "" && html`<option value="" selected>Choose an environment</option>`
        }${choices.map(
          (one) => html`<option value="${one}"${one === environment && html` selected`}>${one}</option>`,
        )}</select>`;
  return html`<fieldset class="diff-side"><legend>${label}</legend><label class="vh" for="${name}">${label}:
environment</label>${place}<label class="vh" for="${name}_at">${label}: moment</label><input class="field mono"
id="${name}_at" name="${name}_at" value="${moment}" maxlength="100" placeholder="latest"${invalidMoment}>${
    problem && html`<p class="field-error" id="${name}-error">${icon("alert-fill", "12")}${inWords(problem.text)}</p>`
  }</fieldset>`;
}
