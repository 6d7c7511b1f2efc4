/**
 * Problems of a file a user wrote, each with its place. Nothing here knows policies: any YAML grammar of
 * ours can report with these.
 */
import { compareByPosition } from "../text/yaml.ts";
import type { SourcePosition } from "../text/yaml.ts";

/**
 * One problem: `line` and `column` count from 1, columns in UTF-16 code units as editors do; `path` is the
 * dotted path of the value (`artifacts.attestations.0.type`), empty for the document as a whole; `problem`
 * is one line without a full stop.
 */
export type Diagnostic = SourcePosition & { path: string; problem: string };

/** More problems than this help nobody, and an answer must stay readable. */
export const MAX_DIAGNOSTICS = 100;

/** Sorts by position, problems of one place in the order they were found, and keeps the first 100. */
export function sortDiagnostics(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  return [...diagnostics].sort(compareByPosition).slice(0, MAX_DIAGNOSTICS);
}

/**
 * All problems as the one line that a field error may be (messages 13), for instance
 * `line 3, column 7: artifacts.attestations.0.type: Field required; line 9, column 3: ...`.
 * Expects a sorted list; says so when the list was cut at 100.
 */
export function renderDiagnostics(diagnostics: readonly Diagnostic[]): string {
  const shownOnes = diagnostics.slice(0, MAX_DIAGNOSTICS).map(({ line, column, path, problem }) => {
    const place = `line ${line}, column ${column}`;
    return oneLine(path === "" ? `${place}: ${problem}` : `${place}: ${path}: ${problem}`);
  });
  if (diagnostics.length >= MAX_DIAGNOSTICS) shownOnes.push(`only the first ${MAX_DIAGNOSTICS} problems are listed`);
  return shownOnes.join("; ");
}

function oneLine(text: string): string {
  return text
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .replace(/\p{Surrogate}/gu, "\ufffd")
    .trim();
}
