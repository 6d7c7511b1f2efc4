/**
 * Long JSON fields in responses (store/db/large-json.ts). Reports are bounded by MAX_FREE_FORM_BYTES and similar limits
 * today and are shown as reported. Records of older versions may be longer, and a page of records may exceed what one
 * response should hold: such a field is replaced by a mark with the reason and the size, so that no record makes a list
 * unreadable or exhausts the server's memory.
 */
import { LargeAnswerError, unboundedAnswer } from "../http/answers/large-answers.ts";
import type { AnswerBounds } from "../http/answers/large-answers.ts";
import { JsonText, stringifyJson } from "../json/text.ts";
import { memberTexts } from "../json/walk.ts";
import { MAX_INLINE_JSON_BYTES, stubBytes } from "../store/db/large-json.ts";
import type { LargeJsonPlace, LargeJsonTable } from "../store/db/large-json.ts";
import { MAX_RESULTS_BYTES, presentEventRepoInfo, readRepoInfo } from "./shapes.ts";
import { ResponseFullError } from "./placeholders.ts";
import type { PresenterContext } from "./presenter-context.ts";

const MB = 1_048_576;

/** What one response may still show. All of its records share it. */
export type Allowance = {
  /** Longer fields are long: they count against `largeBytes`, and none is longer than `maxFieldBytes`. */
  readonly longBytes: number;
  readonly maxFieldBytes: number;
  largeBytes: number;
  /** Of all other columns together. */
  characters: number;
  /** Characters of a plain text; the rest is cut off. */
  readonly maxTextChars: number;
  /** Characters of the beginning that a mark has of a free-form field; the record is a single one. */
  readonly beginningChars: number;
  readonly answerBounds: AnswerBounds;
};
type Bounded = { readonly answerBounds?: AnswerBounds };

/** All long fields of one response together. */
const MAX_LARGE_BYTES = 64 * MB;
/** All other columns together; half the longest string of V8. */
const MAX_OTHER_CHARS = 256 * MB;

/**
 * The list of a page: together no more than is parsed in ten milliseconds. A field of 256 KB has the results of a
 * thousand tests; the page shows a line of each.
 */
const PAGE_LIST = {
  longBytes: 1_024,
  maxFieldBytes: MB / 4,
  largeBytes: MB,
  characters: 2 * MB,
  maxTextChars: 4_096,
  beginningChars: 0,
};
/** A single record on a page, such as an attestation in the drawer. */
const PAGE_RECORD = { ...PAGE_LIST, maxFieldBytes: MB, maxTextChars: 65_536, beginningChars: 40_000 };

/** The allowance of a list of records. */
export const listAllowance = ({ answerBounds = unboundedAnswer() }: Bounded): Allowance =>
  answerBounds.isForPage
    ? { ...PAGE_LIST, answerBounds }
    : {
        longBytes: MAX_INLINE_JSON_BYTES,
        maxFieldBytes: MAX_RESULTS_BYTES,
        largeBytes: MAX_LARGE_BYTES,
        characters: MAX_OTHER_CHARS,
        maxTextChars: Infinity,
        beginningChars: 0,
        answerBounds,
      };
/** The allowance of a single record, which shows each field whole where possible. */
export const singleAllowance = (context: Bounded): Allowance =>
  context.answerBounds?.isForPage
    ? { ...PAGE_RECORD, answerBounds: context.answerBounds }
    : { ...listAllowance(context), maxFieldBytes: MAX_LARGE_BYTES };
/** The allowance of what is written piece by piece and has to be complete, such as an audit package. */
export const unlimitedAllowance = ({ answerBounds = unboundedAnswer() }: Bounded): Allowance => ({
  longBytes: MAX_INLINE_JSON_BYTES,
  maxFieldBytes: Infinity,
  largeBytes: Infinity,
  characters: Infinity,
  maxTextChars: Infinity,
  beginningChars: 0,
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
 * As spendCharacters, for a text such as a template; a long text counts as a long field. A page that asks for one may
 * be about to change it, so it gets all of it.
 * @throws ResponseFullError, LargeAnswerError
 */
export function spendText(allowance: Allowance, { length }: { length: number }): void {
  if (allowance.answerBounds.isForPage) spendInline(allowance, length);
  else if (length <= MAX_INLINE_JSON_BYTES) spendCharacters(allowance, length);
  else if (length > allowance.largeBytes) throw new ResponseFullError();
  else {
    spendInline(allowance, length);
    allowance.largeBytes -= length;
  }
}

/** How to mark a column, in the shape that readers of its field expect. */
type Mark = (reason: string, bytes: number, beginning?: { beginning: string }) => unknown;

const markObject: Mark = (reason, bytes, beginning) => ({ unreadable: reason, bytes, ...beginning });
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

const formatSize = (bytes: number): string =>
  bytes < MB ? `${Math.ceil(bytes / 1_024)} KB` : `${(bytes / MB).toFixed(1)} MB`;

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
    if (typeof text !== "string") continue;
    if (text.length > allowance.maxTextChars)
      whole = { ...whole, [column]: `${text.slice(0, allowance.maxTextChars).toWellFormed()}…` };
    else if (text.length > MAX_INLINE_JSON_BYTES) {
      const reason = findRefusal(text.length, allowance);
      if (reason !== null) whole = { ...whole, [column]: reason };
      else allowance.largeBytes -= text.length;
    }
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
    const text = (row as Row & Record<string, string | null | undefined>)[column] ?? null;
    const bytes = stubBytes(text);
    if (bytes !== null) {
      whole ??= { ...row };
      whole[column] = readLarge(context, { table, column, id: row.id, bytes }, allowance);
      if (whole[column] === null) throw new Error(`${column} of ${table} ${row.id} is not JSON`);
    } else if (text !== null && text.length > allowance.longBytes) {
      const reason = findRefusal(text.length, allowance);
      if (reason === null) allowance.largeBytes -= text.length;
      else {
        whole ??= { ...row };
        whole[column] = showsMembers(column, allowance)
          ? shortenMembers(text, allowance)
          : JSON.stringify(MARKS[column](reason, text.length));
      }
    }
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
  const mark = MARKS[column as LargeColumn];
  const isSplit = showsMembers(column, allowance);
  if (reason !== null && !isSplit && (mark !== markObject || allowance.beginningChars === 0))
    return new JsonText(JSON.stringify(mark(reason, bytes)));
  spendInline(allowance, bytes);
  const text = store.largeJson.findText(table, column, id);
  if (text === null) return null;
  if (reason !== null)
    return new JsonText(
      isSplit ? shortenMembers(text, allowance) : JSON.stringify(mark(reason, bytes, beginningOf(text, allowance))),
    );
  allowance.largeBytes -= bytes;
  return new JsonText(text);
}

/** Whether a long column is shown but for its long members: pages show the rules of a type without its data. */
const showsMembers = (column: string, { answerBounds }: Allowance): boolean =>
  answerBounds.isForPage && column === "payload_json";

/** The text of an object, with marks in the place of the members that there is no room for. */
function shortenMembers(text: string, allowance: Allowance): string {
  const members = memberTexts(text).map(([key, member]) => {
    const reason = member.length > allowance.longBytes ? findRefusal(member.length, allowance) : null;
    if (reason === null && member.length > allowance.longBytes) allowance.largeBytes -= member.length;
    const mark = reason && JSON.stringify(markObject(reason, member.length, beginningOf(member, allowance)));
    return `${JSON.stringify(key)}:${mark ?? member}`;
  });
  return `{${members.join(",")}}`;
}

const beginningOf = (text: string, { beginningChars }: Allowance): { beginning: string } | undefined =>
  beginningChars === 0 ? undefined : { beginning: text.slice(0, beginningChars).toWellFormed() };

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
