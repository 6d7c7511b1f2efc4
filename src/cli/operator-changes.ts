/**
 * Changes made by the operator from the command line. Every change in cli/ goes through this module, which appends its
 * audit entry in the same transaction; the one exception is deletion under a retention plan, which its store makes.
 */
import { createChanges } from "../changes/changes.ts";
import type { Store } from "../store/index.ts";
import { newPublicId } from "../clock.ts";

export type OperatorChanges = ReturnType<typeof createOperatorChanges>;

/** The actor's name in the audit log. The history of memberships also records the operating system user. */
const OPERATOR = "operator";

/** `operation` names the command in the audit log. Call every method inside a transaction. */
export function createOperatorChanges(store: Store, operation: string) {
  const changes = createChanges(store, {
    operation,
    requestId: newPublicId(),
    displayName: store.operatorName(),
    source: "script",
    actor: { kind: "operator", publicId: "", name: OPERATOR, keyPublicId: "" },
  });
  return {
    ...changes,
    /** Records another evidence location, where all evidence has arrived. */
    moveEvidence(from: string, to: string): void {
      store.evidenceLocation.set(to);
      changes.audit(null, "evidence.moved", to, { from });
    },
    /** Records that the operator goes on without that many commits. `logCopy`: the name of the copy of their log. */
    acceptLoss(missingCommits: number, logCopy: string | null): void {
      changes.audit(null, "loss.accepted", "assay.db", { missing_commits: missingCommits, log_copy: logCopy });
    },
  };
}
