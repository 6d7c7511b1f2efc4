/**
 * Long JSON fields in responses (store/db/large-json.ts). Reports are bounded by MAX_FREE_FORM_BYTES and similar limits
 * today and are shown as reported. Records of older versions may be longer, and a page of records may exceed what one
 * response should hold: such a field is replaced by a mark with the reason and the size, so that no record makes a list
 * unreadable or exhausts the server's memory.
 */
import { isObject, readStoredJson } from "../domain/stored-json.ts";
import type { Guard } from "../domain/stored-json.ts";
import { LargeAnswerError } from "../http/answers/large-answers.ts";
import { JsonText, isPlainJson, parseExact, toMembers } from "../json/text.ts";
import { MAX_INLINE_JSON_BYTES, stubBytes } from "../store/db/large-json.ts";
import type { LargeJsonTable } from "../store/db/large-json.ts";
import { MAX_RESULTS_BYTES } from "./shapes.ts";
import { ResponseFullError } from "./placeholders.ts";
import type { PresenterContext } from "./presenter-context.ts";

const MB = 1_048_576;

/**
 * What one response may still show. All of its records share it. `inlineBytes`: what may still be made on the main
 * thread; a response that needs more is made in the reader thread.
 */
export type Allowance = {
  readonly maxFieldBytes: number;
  largeBytes: number;
  values: number;
  characters: number;
  inlineBytes: number;
};
type Inline = { readonly inlineBytes?: number };

/** All long fields of one response together. */
const MAX_LARGE_BYTES = 64 * MB;
/** JSON values of all fields that must be parsed and not only passed on: each takes about 50 bytes of memory. */
const MAX_VALUES = 1_000_000;
/** All other columns together; half the longest string of V8. */
const MAX_OTHER_CHARS = 256 * MB;

/** The allowance of a list of records. */
export const listAllowance = ({ inlineBytes = Infinity }: Inline): Allowance => ({
  maxFieldBytes: MAX_RESULTS_BYTES,
  largeBytes: MAX_LARGE_BYTES,
  values: MAX_VALUES,
  characters: MAX_OTHER_CHARS,
  inlineBytes,
});
/** The allowance of a single record, which shows each field whole where possible. */
export const singleAllowance = (context: Inline): Allowance => ({
  ...listAllowance(context),
  maxFieldBytes: MAX_LARGE_BYTES,
});
/** The allowance of audit packages: a thread writes them piece by piece, and they have to be complete. */
export const unlimitedAllowance = (): Allowance => ({
  maxFieldBytes: Infinity,
  largeBytes: Infinity,
  values: Infinity,
  characters: Infinity,
  inlineBytes: Infinity,
});

/** @throws LargeAnswerError when the response is too large for the main thread */
function spendInline(allowance: Allowance, bytes: number): void {
  allowance.inlineBytes -= bytes;
  if (allowance.inlineBytes < 0) throw new LargeAnswerError();
}

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
export function spendText(allowance: Allowance, { length }: string): void {
  if (length <= MAX_INLINE_JSON_BYTES) spendCharacters(allowance, length);
  else if (length > allowance.largeBytes) throw new ResponseFullError();
  else {
    spendInline(allowance, length);
    allowance.largeBytes -= length;
  }
}

/** How to mark a column, in the shape that readers of its field expect; `raw` columns are passed on unparsed. */
type Column = { raw?: true; mark(reason: string, bytes: number): unknown };

const markObject: Column["mark"] = (reason, bytes) => ({ unreadable: reason, bytes });
const COLUMNS = {
  user_data_json: { raw: true, mark: markObject },
  payload_json: { mark: markObject },
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

const formatSize = (bytes: number): string => `${(bytes / MB).toFixed(1)} MB`;

/**
 * The row with its stubs replaced: by the stored texts as far as the allowance goes, by marks beyond that.
 * @throws ResponseFullError when the response has no room for the row; LargeAnswerError; Error for a long text that is
 * not JSON, as a short one throws when it is parsed
 */
export function withLargeJson<Row extends { id: number }>(
  { store }: Pick<PresenterContext, "store">,
  row: Row,
  { table, allowance }: { table: LargeJsonTable; allowance: Allowance },
): Row {
  let whole: Record<string, unknown> | null = null;
  spendCharacters(allowance, countCharacters(row));
  for (const [column, { mark, raw }] of Object.entries<Column>(COLUMNS)) {
    const bytes = stubBytes((row as Row & Record<string, string | null | undefined>)[column] ?? null);
    if (bytes === null) continue;
    whole ??= { ...row };
    const reason = findRefusal(bytes, allowance);
    if (reason !== null) {
      whole[column] = JSON.stringify(mark(reason, bytes));
      continue;
    }
    spendInline(allowance, bytes);
    const text = store.largeJson.findText(table, column, row.id);
    if (text === null) throw new Error(`${column} of ${table} ${row.id} is not JSON`);
    allowance.largeBytes -= bytes;
    const values = raw ? 0 : countValues(text);
    if (values > allowance.values) {
      const tooMany = `This field has ${formatSize(bytes)} and ${values} values: more than a response can show`;
      whole[column] = JSON.stringify(mark(tooMany, bytes));
    } else {
      allowance.values -= values;
      whole[column] = raw ? new JsonText(text) : text;
    }
  }
  return (whole as Row | null) ?? row;
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

const isAnyJson = (value: unknown): value is unknown => value !== undefined;

/**
 * A value that was reported, as it was sent (json/text.ts).
 * @throws StoredJsonError as readStoredJson
 */
export function readReported<T>(text: string, isShape: Guard<T>): T {
  const value = readStoredJson(text, isShape);
  return isPlainJson(text) ? value : (parseExact(text) as T);
}

/** As readReported, for a nullable column. */
export const readNullableReported = <T>(text: string | null, isShape: Guard<T>): T | null =>
  text === null ? null : readReported(text, isShape);

/** As readReported, for an object that stays one, whatever the order of its own keys. */
export const readReportedMembers = (text: string): Record<string, unknown> => toMembers(readReported(text, isObject));

/**
 * A free-form value for a response; null for null. Text that `withLargeJson` verified to be JSON is passed on as
 * stored, everything else is parsed.
 * @throws StoredJsonError for a text that is not JSON
 */
export function readFreeForm(stored: string | JsonText | null): unknown {
  return stored === null || stored instanceof JsonText ? stored : readReported(stored, isAnyJson);
}

/** As readFreeForm, for a column whose query verified that long texts are JSON. */
export const readVerifiedJson = (text: string): unknown =>
  readFreeForm(text.length > MAX_INLINE_JSON_BYTES ? new JsonText(text) : text);

const [QUOTE, BACKSLASH, COMMA, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [...'"\\,[]{}'].map((sign) =>
  sign.charCodeAt(0),
);

/** Counts the values of a JSON text without whitespace, in one pass and without parsing it. */
function countValues(text: string): number {
  let values = 1;
  let isInString = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (isInString) {
      if (code === BACKSLASH) at += 1;
      else if (code === QUOTE) isInString = false;
    } else if (code === QUOTE) isInString = true;
    else if (code === COMMA) values += 1;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      const next = text.charCodeAt(at + 1);
      if (next !== CLOSE_LIST && next !== CLOSE_OBJECT) values += 1;
    }
  }
  return values;
}
