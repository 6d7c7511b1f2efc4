/** The pages of the contract, `src/docs/contract/`: their headings, and the citations of them in code and in pages. */
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import { readDocument } from "./documentation.ts";

export const PAGES = ["http-api-v2", "semantics", "messages", "wire-contract", "newer-clients", "operations"] as const;
export type Page = (typeof PAGES)[number];

export const pathOf = (page: Page): string => `src/docs/contract/${page}.md`;

/** Citations of one heading, and where they are. */
export type Citation = { page: Page; number: string; place: string };

/** The numbers of the headings of a page, in order. */
export const numbersOf = (text: string): string[] =>
  [...text.matchAll(/^#{2,4} (\d+(?:\.\d+)*)\.? \S/gm)].map((match) => match[1] as string);

/** The headings of all pages, as `PAGE NUMBER`. */
export const headings = (): Set<string> =>
  new Set(PAGES.flatMap((page) => numbersOf(readDocument(pathOf(page))).map((number) => `${page} ${number}`)));

const PAGE = `http-api-v2|${PAGES.slice(1)
  .map((page) => `[${page[0]?.toUpperCase()}${page[0]}]${page.slice(1)}`)
  .join("|")}`;
const NUMBER = String.raw`\d+(?:\.\d+)*(?![\w%])`;
const NUMBERS = String.raw`${NUMBER}(?:(?:,|,?\s+and|\s+to)\s+${NUMBER})*`;

/** Joins what the lines of a comment say, in as many characters as before, so that positions stay the same. */
const withoutCommentSigns = (text: string): string =>
  text.replace(/\n[ \t]*(?:\*(?!\/)|\/\/|--|#(?!#)) ?/g, (signs) => " ".repeat(signs.length));

const placesIn = (path: string, text: string): ((index: number) => string) => {
  return (index) => `${path}:${text.slice(0, index).split("\n").length}`;
};

/** The citations in a source file or page: `semantics 5.1, 5.2`, `wire-contract 9 to 13 and 25`. */
export function citationsIn(path: string, text: string): Citation[] {
  const place = placesIn(path, text);
  return [...withoutCommentSigns(text).matchAll(new RegExp(String.raw`\b(${PAGE})\s+(${NUMBERS})`, "g"))].flatMap(
    ({ index, 1: page, 2: numbers }) =>
      [...(numbers as string).matchAll(new RegExp(NUMBER, "g"))].map(([number]) => ({
        page: (page as string).toLowerCase() as Page,
        number,
        place: place(index),
      })),
  );
}

/** The headings that a page cites of itself: `section 5.4`, `sections 2, 4`, `(5.4)`. */
export function ownCitationsIn(page: Page, text: string): Citation[] {
  const place = placesIn(pathOf(page), text);
  const pattern = new RegExp(String.raw`\bsections?\s+(${NUMBERS})|\((\d+\.\d+(?:,\s+\d+\.\d+)*)\)`, "g");
  return [...text.matchAll(pattern)].flatMap(({ index, 1: named, 2: bare }) =>
    [...((named ?? bare) as string).matchAll(new RegExp(NUMBER, "g"))].map(([number]) => ({
      page,
      number,
      place: place(index),
    })),
  );
}

/** Other spellings of a citation, which `citationsIn` would miss or read in part. */
const MISSPELT: readonly RegExp[] = [
  // A page by its file.
  String.raw`\b(?:${PAGE})(?:\.md)?[\`)]*,?\s+(?:sections?|rows?|numbers?|decisions?|choices?)\s+\d`,
  String.raw`\b(?:${PAGE})\.md[\`)]*\s+\d`,
  // A page by words.
  String.raw`\b(?:[Ww]ire contract|[Nn]ewer clients|HTTP API v2),?\s+\d`,
  // A heading by its title, or none; `operations` and `messages` are words of sentences, too.
  String.raw`[(;]\s?(?:${PAGE}),\s+[A-Z]`,
  String.raw`[(;]\s?(?:semantics|wire-contract|newer-clients|http-api-v2)(?:,\s+[a-z]|[);])`,
  // A choice by its number alone.
  String.raw`\b(?:${PAGE})\s+${NUMBERS},\s+(?:rows?|numbers?)\s`,
  String.raw`\b[Dd]ecisions?\s+\d+\b`,
].map((pattern) => new RegExp(pattern, "g"));

/** What looks like a citation and is not spelled as one, with its place. */
export function misspeltIn(path: string, text: string): string[] {
  const place = placesIn(path, text);
  const joined = withoutCommentSigns(text);
  return MISSPELT.flatMap((pattern) =>
    [...joined.matchAll(pattern)].map(({ index, 0: found }) => `${place(index)}: ${found.replace(/\s+/g, " ")}`),
  );
}

/** `METHOD PATH ID` of an operation; names of parameters do not matter. */
const lineOf = (method: string, path: string, id: string): string =>
  `${method} ${path.replace(/\{\w+\*?\}/g, "{}")} ${id}`;

/** The rows of operations.md, as `lineOf` writes them. */
export const operationRows = (text: string): string[] =>
  [...text.matchAll(/^\|(?: [\w ]+ \|)? (GET|PUT|POST|PATCH|DELETE) \| `([^`]+)` \| `(\w+)` \|/gm)].map(
    ([, method, path, id]) => lineOf(method as string, (path as string).replace("(host root) ", ""), id as string),
  );

/** The operations of the code, as `lineOf` writes them. */
export const operationLines = (): string[] => operations.map(({ method, path, id }) => lineOf(method, path, id));

const statusesOf = ({ responses }: AssayOperation): string =>
  Object.keys(responses)
    .filter((status) => status.startsWith("2"))
    .join(" ");

/** The operations that the HTTP API v2 does not have, by tag and path: the table of operations 29. */
export function tableOfOwnOperations(): string {
  const rows = operations
    .filter(({ origin }) => origin === "assay")
    .map((operation) => ({ ...operation, ok: statusesOf(operation) }))
    .sort((a, b) => a.tag.localeCompare(b.tag) || a.path.localeCompare(b.path) || a.method.localeCompare(b.method))
    .map(
      ({ tag, method, path, id, body, ok, summary }) =>
        `| ${tag} | ${method} | \`${path}\` | \`${id}\` ` +
        `| ${body.kind === "none" ? "" : body.kind} | ${ok} | ${summary} |`,
    );
  return [
    "",
    "| Tag | Method | Path | operationId | Body | OK | Purpose |",
    "|---|---|---|---|---|---|---|",
    ...rows,
    "",
  ].join("\n");
}
