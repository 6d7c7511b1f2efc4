/** Problems of a user's file, each with its position. Not specific to policies: any YAML grammar can use them. */
import { compareByPosition } from "../text/source-position.ts";
import type { SourcePosition } from "../text/source-position.ts";

/**
 * One problem. `line` and `column` start at 1, columns in UTF-16 code units as in editors; `path` is the dotted path of
 * the value (`artifacts.attestations.0.type`), "" for the document as a whole; `problem` is one line without a full
 * stop.
 */
export type Diagnostic = SourcePosition & { path: string; problem: string };

/** A problem as callers get it; `message` is `problem` without control characters. */
export type FileProblem = SourcePosition & { path: string; message: string };

/** More problems do not help, and a response must stay readable. */
export const MAX_DIAGNOSTICS = 100;

/** Sorts by position and keeps the first 100; problems at one position stay in the order in which they were found. */
export function sortDiagnostics<T extends SourcePosition>(diagnostics: readonly T[]): T[] {
  return [...diagnostics].sort(compareByPosition).slice(0, MAX_DIAGNOSTICS);
}

/**
 * All problems in one line, because a field error has one line (messages 13), for instance
 * `line 3, column 7: artifacts.attestations.0.type: Field required; line 9, column 3: ...`.
 * Expects a sorted list. Mentions the limit if the list reached it.
 */
export function renderDiagnostics(diagnostics: readonly Diagnostic[]): string {
  const texts = diagnostics.slice(0, MAX_DIAGNOSTICS).map(({ line, column, path, problem }) => {
    const position = `line ${line}, column ${column}`;
    return flatten(path === "" ? `${position}: ${problem}` : `${position}: ${path}: ${problem}`);
  });
  if (diagnostics.length >= MAX_DIAGNOSTICS) texts.push(`only the first ${MAX_DIAGNOSTICS} problems are listed`);
  return texts.join("; ");
}

/** The problems one by one, for callers that show each at its place; texts as in `renderDiagnostics`. */
export const listDiagnostics = (diagnostics: readonly Diagnostic[]): FileProblem[] =>
  diagnostics
    .slice(0, MAX_DIAGNOSTICS)
    .map(({ line, column, path, problem }) => ({ line, column, path: flatten(path), message: flatten(problem) }));

/** A text without line breaks, other control characters and lone surrogates. */
function flatten(text: string): string {
  return text
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .replace(/\p{Surrogate}/gu, "\ufffd")
    .trim();
}
