/** The controls that a policy refers to and that do not exist: mistakes of its text, although the text is valid. */
import { excerpt } from "../text/excerpt.ts";
import type { ControlReference } from "./ast.ts";
import { sortDiagnostics } from "./diagnostics.ts";
import type { Diagnostic } from "./diagnostics.ts";

/**
 * One problem for each reference to a control that does not exist, by position. An archived control exists: its
 * identifier is never reused, and an unchanged file must not become invalid (semantics 5.1, 13.106).
 * @param organization its name, for the texts
 * @param exists whether the organization has a control with this identifier; called once for each
 */
export function findMissingControls(
  references: readonly ControlReference[],
  organization: string,
  exists: (control: string) => boolean,
): Diagnostic[] {
  const missing = new Set([...new Set(references.map(({ control }) => control))].filter((control) => !exists(control)));
  return sortDiagnostics(
    references
      .filter(({ control }) => missing.has(control))
      .map(({ control, line, column, path }) => ({
        line,
        column,
        path,
        problem: `Control '${excerpt(control)}' does not exist in organization '${organization}'`,
      })),
  );
}
