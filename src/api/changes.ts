/** Changes by the principal of a request. */
import { createChanges } from "../changes/changes.ts";
import type { Changes } from "../changes/changes.ts";
import type { OperationContext } from "./context.ts";

/** What the history of memberships names as the source of a change. */
export const sourceOf = ({ principal }: OperationContext): "app" | "script" =>
  principal.kind === "operator" ? "script" : "app";

/**
 * The changes that operations share with the command line. They append their own audit entries, with the events of the
 * command line, so the operation replies with `unaudited`. Call them inside the write.
 */
export function changesOf(context: OperationContext): Changes {
  const { actor, operation, requestId } = context.auditEntry();
  const { displayName } = context.principal;
  return createChanges(context.store, { actor, operation, requestId, displayName, source: sourceOf(context) });
}
