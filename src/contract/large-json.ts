/**
 * Long JSON fields in answers (store/large-json.ts). What is reported today stays within MAX_FREE_FORM_BYTES and its
 * like, and is shown as it was reported. Records of older versions may hold more, and a page of records may hold more
 * together than an answer should: such a field is replaced by a mark with the reason and the size, so that no record
 * makes a list unreadable or takes the memory of the server.
 */
import { JsonText } from "../json/text.ts";
import { MAX_INLINE_JSON_BYTES, stubBytes } from "../store/db/large-json.ts";
import type { LargeJsonTable } from "../store/db/large-json.ts";
import { MAX_RESULTS_BYTES } from "./shapes.ts";
import { AnswerFullError } from "./placeholders.ts";
import type { PresenterContext } from "./presenter-context.ts";

const MB = 1_048_576;

/** What one answer may still show. Shared by all of its records. */
export type Allowance = { readonly maxFieldBytes: number; largeBytes: number; values: number; characters: number };

/** Of all long fields of one answer together. */
const MAX_LARGE_BYTES = 64 * MB;
/** Of all fields that must be read, not only passed on: each value takes about fifty bytes of memory. */
const MAX_VALUES = 1_000_000;
/** Of all other columns together; half of what the longest string of V8 holds. */
const MAX_CHARACTERS = 256 * MB;

/** For the records of one list. */
export const listAllowance = (): Allowance => ({
  maxFieldBytes: MAX_RESULTS_BYTES,
  largeBytes: MAX_LARGE_BYTES,
  values: MAX_VALUES,
  characters: MAX_CHARACTERS,
});
/** For a single record, of which each field is shown whole where that is possible. */
export const singleAllowance = (): Allowance => ({ ...listAllowance(), maxFieldBytes: MAX_LARGE_BYTES });
/** For what is written piece by piece, by a thread, and has to be complete: audit packages. */
export const wholeAllowance = (): Allowance => ({
  maxFieldBytes: Infinity,
  largeBytes: Infinity,
  values: Infinity,
  characters: Infinity,
});

/**
 * Counts `characters` that an answer shows. @throws AnswerFullError when they no longer fit; then nothing else does
 * either.
 */
export function take(allowance: Allowance, characters: number): void {
  const left = allowance.characters - characters;
  allowance.characters = Math.max(0, left);
  if (left < 0) throw new AnswerFullError();
}

/** As `take`, for a text such as a template: a long one counts among the long fields. @throws AnswerFullError */
export function takeText(allowance: Allowance, { length }: string): void {
  if (length <= MAX_INLINE_JSON_BYTES) return take(allowance, length);
  if (length > allowance.largeBytes) throw new AnswerFullError();
  allowance.largeBytes -= length;
}

/**
 * How a column is marked, in the form that readers of its field expect; `raw` ones are passed on without being read.
 */
type Column = { raw?: true; mark(reason: string, bytes: number): unknown };

const object: Column["mark"] = (reason, bytes) => ({ unreadable: reason, bytes });
const COLUMNS = {
  user_data_json: { raw: true, mark: object },
  payload_json: { mark: object },
  annotations_json: { mark: (reason) => ({ unreadable: reason }) },
  external_urls_json: { mark: (reason) => ({ [reason]: { href: "" } }) },
  target_artifacts_json: { mark: (reason) => [reason] },
  repo_info_json: { mark: (reason) => ({ name: reason, url: "", id: "", description: "" }) },
  git_commit_info_json: {
    mark: (reason) => ({
      sha1: "",
      message: reason,
      author: "",
      branch: "",
      timestamp: 0,
      author_username: null,
      url: null,
      parents: null,
      verified: null,
      signature_state: null,
    }),
  },
} satisfies Record<string, Column>;

const sizeText = (bytes: number): string => `${(bytes / MB).toFixed(1)} MB`;

/**
 * The row with the texts that its stubs stand for, as far as the allowance goes, and marks for the others.
 * @throws AnswerFullError when the answer holds enough without the row; Error for a text that is no JSON, as JSON.parse
 * would for a short one.
 */
export function withLargeJson<Row extends { id: number }>(
  { store }: Pick<PresenterContext, "store">,
  table: LargeJsonTable,
  row: Row,
  allowance: Allowance,
): Row {
  let whole: Record<string, unknown> | null = null;
  take(
    allowance,
    Object.values(row).reduce<number>(
      (sum, value: unknown) => (typeof value === "string" ? sum + value.length : sum),
      0,
    ),
  );
  for (const [column, { mark, raw }] of Object.entries<Column>(COLUMNS)) {
    const bytes = stubBytes((row as Row & Record<string, string | null | undefined>)[column] ?? null);
    if (bytes === null) continue;
    whole ??= { ...row };
    const reason = refusalOf(bytes, allowance);
    if (reason !== null) {
      whole[column] = JSON.stringify(mark(reason, bytes));
      continue;
    }
    const text = store.largeJson.text(table, column, row.id);
    if (text === null) throw new Error(`${column} of ${table} ${row.id} is no JSON`);
    allowance.largeBytes -= bytes;
    const values = raw ? 0 : countValues(text);
    const isTooMuch = values > allowance.values;
    if (!isTooMuch) allowance.values -= values;
    const tooMuch = `This field has ${sizeText(bytes)} and ${values} values: more than an answer shows`;
    whole[column] = isTooMuch ? JSON.stringify(mark(tooMuch, bytes)) : raw ? new JsonText(text) : text;
  }
  return (whole as Row | null) ?? row;
}

/** Why a field of that size is not shown, null when it is. */
function refusalOf(bytes: number, { maxFieldBytes, largeBytes }: Allowance): string | null {
  if (bytes > maxFieldBytes)
    return `This field has ${sizeText(bytes)}: fields of more than ${sizeText(maxFieldBytes)} are not shown here`;
  if (bytes > largeBytes)
    return `This field has ${sizeText(bytes)}: too much beside the other fields of this answer. Read the record alone`;
  return null;
}

/**
 * A free-form value as an answer holds it: what `withLargeJson` found to be JSON is passed on as it is stored,
 * everything else is read. Null for null. @throws SyntaxError for a text that is no JSON.
 */
export function freeForm(stored: string | JsonText | null): unknown {
  return stored === null || stored instanceof JsonText ? stored : (JSON.parse(stored) as unknown);
}

/** As freeForm, for a text of which the query made sure that a long one is JSON. */
export const soundJson = (text: string): unknown =>
  freeForm(text.length > MAX_INLINE_JSON_BYTES ? new JsonText(text) : text);

const [QUOTE, BACKSLASH, COMMA, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [...'"\\,[]{}'].map((sign) =>
  sign.charCodeAt(0),
);

/** How many values a JSON text without blanks holds; in one pass without reading them. */
function countValues(text: string): number {
  let values = 1;
  let isText = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (isText) {
      if (code === BACKSLASH) at += 1;
      else if (code === QUOTE) isText = false;
    } else if (code === QUOTE) isText = true;
    else if (code === COMMA) values += 1;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      const next = text.charCodeAt(at + 1);
      if (next !== CLOSE_LIST && next !== CLOSE_OBJECT) values += 1;
    }
  }
  return values;
}
