/**
 * The audit entries of what the operator does without an operation: moving the evidence, accepting a loss, deleting
 * under a retention plan. Everything else in cli/ calls operations (operator.ts).
 */
import { createAccountChanges } from "../auth/account-changes.ts";
import type { Store } from "../store/index.ts";
import { newPublicId } from "../clock.ts";

/** The actor's name in the audit log. The history of memberships also records the operating system user. */
const OPERATOR = "operator";

/** `operation` names the command in the audit log. Call every method inside a transaction. */
export function createOperatorChanges(store: Store, operation: string) {
  const { audit } = createAccountChanges(store, {
    operation,
    requestId: newPublicId(),
    displayName: store.operatorName(),
    source: "script",
    actor: { kind: "operator", publicId: "", name: OPERATOR, keyPublicId: "" },
  });
  return {
    audit,
    /** Records another evidence location, where all evidence has arrived. */
    moveEvidence(from: string, to: string): void {
      store.evidenceLocation.set(to);
      audit(null, "evidence.moved", to, { from });
    },
    /** Records that the operator goes on without that many commits. `logCopy`: the name of the copy of their log. */
    acceptLoss(missingCommits: number, logCopy: string | null): void {
      audit(null, "loss.accepted", "assay.db", { missing_commits: missingCommits, log_copy: logCopy });
    },
  };
}
