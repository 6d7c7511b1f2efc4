/**
 * Long JSON fields in responses (store/db/large-json.ts). Reports are bounded by MAX_FREE_FORM_BYTES and similar limits
 * today and are shown as reported. Records of older versions may be longer, and a page of records may exceed what one
 * response should hold: such a field is replaced by a mark with the reason and the size, so that no record makes a list
 * unreadable or exhausts the server's memory.
 */
import { LargeAnswerError, unboundedAnswer } from "../http/answers/large-answers.ts";
import type { AnswerBounds } from "../http/answers/large-answers.ts";
import { JsonText, stringifyJson } from "../json/text.ts";
import { MAX_INLINE_JSON_BYTES, stubBytes } from "../store/db/large-json.ts";
import type { LargeJsonPlace, LargeJsonTable } from "../store/db/large-json.ts";
import { MAX_RESULTS_BYTES, presentEventRepoInfo, readRepoInfo } from "./shapes.ts";
import { ResponseFullError } from "./placeholders.ts";
import type { PresenterContext } from "./presenter-context.ts";

const MB = 1_048_576;

/** What one response may still show. All of its records share it. */
export type Allowance = {
  readonly maxFieldBytes: number;
  largeBytes: number;
  characters: number;
  readonly answerBounds: AnswerBounds;
};
type Bounded = { readonly answerBounds?: AnswerBounds };

/** All long fields of one response together. */
const MAX_LARGE_BYTES = 64 * MB;
/** All other columns together; half the longest string of V8. */
const MAX_OTHER_CHARS = 256 * MB;

/** The allowance of a list of records. */
export const listAllowance = ({ answerBounds = unboundedAnswer() }: Bounded): Allowance => ({
  maxFieldBytes: MAX_RESULTS_BYTES,
  largeBytes: MAX_LARGE_BYTES,
  characters: MAX_OTHER_CHARS,
  answerBounds,
});
/** The allowance of a single record, which shows each field whole where possible. */
export const singleAllowance = (context: Bounded): Allowance => ({
  ...listAllowance(context),
  maxFieldBytes: MAX_LARGE_BYTES,
});
/** The allowance of what is written piece by piece and has to be complete, such as an audit package. */
export const unlimitedAllowance = ({ answerBounds = unboundedAnswer() }: Bounded): Allowance => ({
  maxFieldBytes: Infinity,
  largeBytes: Infinity,
  characters: Infinity,
  answerBounds,
});

/** @throws LargeAnswerError when the response is too large for the main thread */
function spendInline({ answerBounds }: Allowance, bytes: number): void {
  answerBounds.inlineBytes -= bytes;
  if (answerBounds.inlineBytes < 0) throw new LargeAnswerError();
}

/** Deducts what a row shows from what may be made in this thread. @throws LargeAnswerError */
export const spendRow = (context: Bounded, row: object): void =>
  spendInline(unlimitedAllowance(context), countCharacters(row));

/**
 * Deducts `characters` that the response shows.
 * @throws ResponseFullError when they no longer fit; then nothing else fits either. LargeAnswerError
 */
export function spendCharacters(allowance: Allowance, characters: number): void {
  spendInline(allowance, characters);
  const left = allowance.characters - characters;
  allowance.characters = Math.max(0, left);
  if (left < 0) throw new ResponseFullError();
}

/**
 * As spendCharacters, for a text such as a template; a long text counts as a long field.
 * @throws ResponseFullError, LargeAnswerError
 */
export function spendText(allowance: Allowance, { length }: { length: number }): void {
  if (length <= MAX_INLINE_JSON_BYTES) spendCharacters(allowance, length);
  else if (length > allowance.largeBytes) throw new ResponseFullError();
  else {
    spendInline(allowance, length);
    allowance.largeBytes -= length;
  }
}

/** How to mark a column, in the shape that readers of its field expect. */
type Mark = (reason: string, bytes: number) => unknown;

const markObject: Mark = (reason, bytes) => ({ unreadable: reason, bytes });
const MARKS = {
  user_data_json: markObject,
  payload_json: markObject,
  event_json: (reason) => ({ unreadable: reason }),
  instances_json: () => ({ created: [] }),
  annotations_json: (reason) => ({ unreadable: reason }),
  external_urls_json: (reason) => ({ [reason]: { href: "" } }),
  target_artifacts_json: (reason) => [reason],
  repo_info_json: (reason) => ({ name: reason, url: "", id: "", description: "" }),
  git_commit_info_json: (reason) => ({
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
} satisfies Record<string, Mark>;
type LargeColumn = keyof typeof MARKS;
const COLUMNS = Object.keys(MARKS) as LargeColumn[];

/** Columns with plain text whose size clients once controlled. */
const TEXTS = ["description", "origin_url", "filename", "build_url", "commit_url", "repo_url", "evidence_filename"];

const formatSize = (bytes: number): string => `${(bytes / MB).toFixed(1)} MB`;

/** A row whose long columns are texts that are not parsed. */
export type WithLargeJson<Row> = { [K in keyof Row]: K extends LargeColumn ? Row[K] | JsonText : Row[K] };

/**
 * The row with its stubs replaced: by the stored texts as far as the allowance goes, by marks beyond that.
 * @throws ResponseFullError when the response has no room for the row; LargeAnswerError; Error for a long text that is
 * not JSON, as a short one throws when it is parsed
 */
export function withLargeJson<Row extends { id: number }>(
  context: Pick<PresenterContext, "store">,
  row: Row,
  { table, allowance }: { table: LargeJsonTable; allowance: Allowance },
): WithLargeJson<Row> {
  let whole: Record<string, unknown> = row;
  for (const column of TEXTS) {
    const text = whole[column];
    if (typeof text !== "string" || text.length <= MAX_INLINE_JSON_BYTES) continue;
    const reason = findRefusal(text.length, allowance);
    if (reason !== null) whole = { ...whole, [column]: reason };
    else allowance.largeBytes -= text.length;
  }
  spendCharacters(allowance, countCharacters(whole));
  return replaceStubs(context, whole as Row, { table, allowance });
}

/** As withLargeJson, for rows of which the response shows little else. */
export function replaceStubs<Row extends { id: number }>(
  context: Pick<PresenterContext, "store">,
  row: Row,
  { table, allowance }: { table: LargeJsonTable; allowance: Allowance },
): WithLargeJson<Row> {
  let whole: Record<string, unknown> | null = null;
  for (const column of COLUMNS) {
    const bytes = stubBytes((row as Row & Record<string, string | null | undefined>)[column] ?? null);
    if (bytes === null) continue;
    whole ??= { ...row };
    whole[column] = readLarge(context, { table, column, id: row.id, bytes }, allowance);
    if (whole[column] === null) throw new Error(`${column} of ${table} ${row.id} is not JSON`);
  }
  return (whole ?? row) as WithLargeJson<Row>;
}

/** The text that a stub stands for, or the text of a mark; null for one that is not JSON. @throws LargeAnswerError */
function readLarge(
  { store }: Pick<PresenterContext, "store">,
  { table, column, id, bytes }: LargeJsonPlace,
  allowance: Allowance,
): JsonText | null {
  const reason = findRefusal(bytes, allowance);
  if (reason !== null) return new JsonText(JSON.stringify(MARKS[column as LargeColumn](reason, bytes)));
  spendInline(allowance, bytes);
  const text = store.largeJson.findText(table, column, id);
  allowance.largeBytes -= bytes;
  return text === null ? null : new JsonText(text);
}

/**
 * Reads what the events of a trail show of long texts; an empty text stands for one that is not JSON.
 * @throws LargeAnswerError
 */
export const eventTextReader =
  (context: Pick<PresenterContext, "store">, allowance: Allowance) =>
  (place: LargeJsonPlace): string => {
    const found = readLarge(context, place, allowance);
    if (found === null) return "";
    // The rest of a repository is not shown, however long it is.
    return place.column === "repo_info_json" ? stringifyJson(presentEventRepoInfo(readRepoInfo(found))) : found.text;
  };

/**
 * The row with the stub of one column replaced, as spendText has room for it.
 * @throws ResponseFullError, LargeAnswerError; Error for a text that is not JSON
 */
export function withText<Column extends string, Row extends { id: number } & Record<Column, string | null>>(
  { store }: Pick<PresenterContext, "store">,
  row: Row,
  { table, column, allowance }: { table: LargeJsonTable; column: Column; allowance: Allowance },
): Omit<Row, Column> & Record<Column, string | JsonText | null> {
  const length = stubBytes(row[column]);
  if (length === null) {
    spendText(allowance, row[column] ?? "");
    return row;
  }
  spendText(allowance, { length });
  const text = store.largeJson.findText(table, column, row.id);
  if (text === null) throw new Error(`${column} of ${table} ${row.id} is not JSON`);
  return { ...row, [column]: new JsonText(text) };
}

const countCharacters = (row: object): number =>
  Object.values(row).reduce<number>((sum, value: unknown) => (typeof value === "string" ? sum + value.length : sum), 0);

/** Why a field of that size is not shown; null when it is. */
function findRefusal(bytes: number, { maxFieldBytes, largeBytes }: Allowance): string | null {
  if (bytes > maxFieldBytes)
    return `This field has ${formatSize(bytes)}: fields of more than ${formatSize(maxFieldBytes)} are not shown here`;
  if (bytes > largeBytes)
    return (
      `This field has ${formatSize(bytes)}: too much in addition to the other fields of this response. ` +
      "Read the record alone"
    );
  return null;
}
