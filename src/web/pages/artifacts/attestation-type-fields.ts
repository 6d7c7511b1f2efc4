/**
 * The form of an attestation type, from its fields to the operations: storing a definition, and trying it. The rules
 * are lines of one field, and the summary has two fields for each row, so errors are moved to these fields.
 */
import { postCustomAttestationType } from "../../../api/attestations/custom-attestation-types.ts";
import { tryCustomAttestationType } from "../../../api/attestations/try-attestation-type.ts";
import { AppError, invalid } from "../../../errors.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { inWords } from "../../page/field-words.ts";
import type { Fields } from "../../page/fields.ts";
import type { RefusedForm, Visit } from "../../page/page.ts";

/** The rows of a summary that a form may have. */
const MAX_ROWS = 100;
/** The field with one rule a line. */
export const RULES_FIELD = "evaluator.rules";

type SummaryRow = { name: string; expression: string };

/** One rule a line; an indented line continues the rule above it. */
export const joinRules = (rules: readonly string[]): string =>
  rules.map((rule) => rule.trim().replace(/\n(?=\S)/g, "\n  ")).join("\n");

function splitRules(text: string): string[] {
  const rules: string[] = [];
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    if (/^\s/.test(line) && rules.length > 0) rules.push(`${rules.pop()}\n${line.trimEnd()}`);
    else rules.push(line.trim());
  }
  return rules;
}

/** The rows of the summary in the form, with the numbers of their fields; blank ones are left out. */
export function summaryRows(fields: Fields): (SummaryRow & { at: number })[] {
  const rows = Array.from({ length: MAX_ROWS }, (_, at) => ({
    at,
    name: fields.text(`summary.${at}.name`).trim(),
    expression: fields.text(`summary.${at}.expression`).trim(),
  }));
  return rows.filter(({ name, expression }) => name !== "" || expression !== "");
}

type Definition = {
  evaluator?: { content_type: "jq"; rules: string[] };
  summary: SummaryRow[] | null;
};

function definitionOf(fields: Fields): Definition {
  const rules = splitRules(fields.text(RULES_FIELD));
  const rows = summaryRows(fields).map(({ name, expression }) => ({ name, expression }));
  return {
    ...(rules.length === 0 ? {} : { evaluator: { content_type: "jq", rules } }),
    summary: rows.length === 0 ? null : rows,
  };
}

/** Calls an operation; its errors are moved to the fields of the form. */
async function atFields<T>(fields: Fields, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof AppError) || error.fields === null) throw error;
    const moved: Record<string, string> = {};
    for (const [path, text] of Object.entries(error.fields)) {
      const [field, message] = placeOf(fields, path, inWords(text));
      moved[field] = moved[field] === undefined ? message : `${moved[field]}; ${message}`;
    }
    throw invalid(moved);
  }
}

function placeOf(fields: Fields, path: string, text: string): [field: string, message: string] {
  const [, rule] = /^evaluator\.rules\.(\d+)/.exec(path) ?? [];
  if (rule !== undefined) {
    const number = Number(rule) + 1;
    return [RULES_FIELD, text.startsWith("Rule ") ? `Rule ${number}${text.slice(4)}` : `Rule ${number}: ${text}`];
  }
  if (path.startsWith(RULES_FIELD) || path === "evaluator") return [RULES_FIELD, text];
  const [, row, member] = /^summary\.(\d+)\.(\w+)$/.exec(path) ?? [];
  const at = row === undefined ? undefined : summaryRows(fields)[Number(row)]?.at;
  return at === undefined ? [path, text] : [`summary.${at}.${member}`, text];
}

/** Adds a version. @throws AppError invalid on the fields of the form, and every other refusal of the operation */
export async function storeDefinition({ call }: Visit, name: string, fields: Fields): Promise<void> {
  const schema = fields.text("type_schema");
  const body = { name, description: fields.text("description"), ...definitionOf(fields) };
  const file = schema.trim() === "" ? {} : { file: { filename: "schema.json", text: schema } };
  await atFields(fields, () => call(postCustomAttestationType, { body, ...file }));
}

export type TryAnswer = AnswerOf<typeof tryCustomAttestationType>;

/**
 * Tries the definition if the button for it was pressed, and keeps what was typed.
 * @returns the visit that shows the form again, with the result; null if the definition is to be stored
 */
export async function tryDefinition(
  visit: Visit,
  { form, fields }: { form: string; fields: Fields },
): Promise<{ visit: Visit; result: { answer: TryAnswer; hasData: boolean } } | null> {
  if (!fields.flag("try")) return null;
  const data = fields.text("attestation_data");
  const body = { type_schema: fields.text("type_schema"), ...definitionOf(fields), attestation_data: data };
  const answer = await atFields(fields, () => visit.call(tryCustomAttestationType, { body }));
  const typed: RefusedForm = { form, fields, errors: {}, message: null, problems: [] };
  const again: Visit = Object.create(visit, { refused: { value: typed } });
  return { visit: again, result: { answer, hasData: data.trim() !== "" } };
}
