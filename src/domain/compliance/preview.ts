/**
 * Compares the verdict on a running artifact with the one that it would get under another text of a policy. Facts in,
 * difference and reasons out; the evaluation is the same as for a snapshot (environment.ts).
 */
import type { PolicyDocument } from "../policy/ast.ts";
import type { AttestationCandidate } from "../policy/evaluate.ts";
import { explainVerdict } from "../policy/reasons.ts";
import { hasMembers, isListOf, isObject } from "../stored-json.ts";
import type { SourcePosition } from "../text/source-position.ts";
import { evaluateInEnvironment, expandStoredVerdict, rewordReasons } from "./environment.ts";
import type { AppliedPolicy, Evaluation, Facts, FlowRecord, StoredVerdict } from "./environment.ts";

/** A policy text that is valid but not stored. `positions`: of its rules, as findRulePositions returns them. */
export type PolicyDraft = {
  /** Its name in reasons. */
  name: string;
  document: PolicyDocument;
  positions: readonly (SourcePosition | null)[];
};

export type VerdictWord = "COMPLIANT" | "NON-COMPLIANT" | "UNKNOWN";

/** Why an artifact would not be compliant. Only a rule of the previewed text has a position, which is in that text. */
export type PreviewReason = { policy: string; line: number | null; column: number | null; text: string };

/**
 * - `unchanged`: the same verdict.
 * - `would_fail`, `would_pass`: another one; from unknown, the one that it would get.
 * - `kept_by_allowlist`: the artifact satisfied its policies and would not any more, but it is on the allowlist.
 */
type PreviewOutcome = "unchanged" | "would_fail" | "would_pass" | "kept_by_allowlist";

export type PreviewedVerdict = {
  outcome: PreviewOutcome;
  before: boolean | null;
  after: boolean | null;
  /** Why it does not satisfy the policies, before and after; empty for an unchanged verdict. */
  reasonsBefore: readonly string[];
  reasons: readonly PreviewReason[];
};

/** The version id of a draft, which no stored version has. */
const DRAFT_ID = 0;

/**
 * The policies of an environment with the draft in the place of the policy that it would replace, or behind the others
 * where the environment does not have that policy.
 * @param replaced the name of that policy; null for none
 */
export function withDraft(
  policies: readonly AppliedPolicy[],
  draft: PolicyDraft,
  replaced: string | null,
): AppliedPolicy[] {
  const previous = policies.find(({ policyName }) => policyName === replaced);
  const applied: AppliedPolicy = {
    policyName: draft.name,
    versionId: DRAFT_ID,
    version: (previous?.version ?? 0) + 1,
    document: draft.document,
  };
  return previous ? policies.map((policy) => (policy === previous ? applied : policy)) : [...policies, applied];
}

/**
 * Evaluates an artifact as it would be with the draft.
 * @param input.policies the result of withDraft
 * @param input.before the present evaluation
 * @param input.withPresentNames the facts as reasons show them, with the present names of flows; called for a changed
 *   verdict only
 * @param input.documentOf the document of a stored policy version by its key, null when it cannot be read
 */
export function previewArtifact({
  policies,
  draft,
  before,
  withPresentNames,
  documentOf,
  ...subject
}: {
  policies: readonly AppliedPolicy[];
  draft: PolicyDraft;
  before: Evaluation;
  withPresentNames: (facts: Facts) => Facts;
  documentOf: (versionId: number) => PolicyDocument | null;
  artifact: { fingerprint: string; name: string };
  facts: Facts;
  isAllowlisted: boolean;
}): PreviewedVerdict {
  const after = evaluateInEnvironment({ policies, ...subject });
  const outcome = outcomeOf(before, after);
  const verdicts = { outcome, before: before.compliant, after: after.compliant };
  if (outcome === "unchanged") return { ...verdicts, reasonsBefore: [], reasons: [] };
  const facts = withPresentNames(subject.facts);
  const reasons = after.verdicts.flatMap((verdict, index) => {
    const { document } = policies[index] as AppliedPolicy;
    return reasonsOf(verdict, { document, facts, draft });
  });
  const reworded = facts === subject.facts ? null : rewordReasons(facts, before.verdicts, documentOf);
  return { ...verdicts, reasonsBefore: reworded ?? before.reasons, reasons };
}

const isSatisfied = ({ verdicts }: Evaluation): boolean => verdicts.every(({ status }) => status === "COMPLIANT");

function outcomeOf(before: Evaluation, after: Evaluation): PreviewOutcome {
  if (before.compliant !== after.compliant) return after.compliant ? "would_pass" : "would_fail";
  return after.compliant && isSatisfied(before) && !isSatisfied(after) ? "kept_by_allowlist" : "unchanged";
}

function reasonsOf(
  stored: StoredVerdict,
  { document, facts, draft }: { document: PolicyDocument; facts: Facts; draft: PolicyDraft },
): PreviewReason[] {
  const { status, rules } = expandStoredVerdict(stored, document, facts);
  const isDraft = stored.version_id === DRAFT_ID;
  return rules.flatMap((rule, index) => {
    const position = isDraft ? (draft.positions[index] ?? null) : null;
    return explainVerdict({ status, rules: [rule] }, stored.policy).map((text) => ({
      policy: stored.policy,
      line: position?.line ?? null,
      column: position?.column ?? null,
      text,
    }));
  });
}

const isCandidate = hasMembers<AttestationCandidate>(
  "name",
  "type",
  "isCompliant",
  "control",
  "attestationId",
  "level",
  "sequence",
);

/** Whether stored facts have everything that any policy may ask for. */
export const isEvaluable = (value: unknown): value is Facts =>
  isObject(value) &&
  isListOf(
    (flow): flow is FlowRecord =>
      hasMembers<FlowRecord>("flow_id", "flow", "tags", "filename", "state", "trail", "candidates")(flow) &&
      isListOf(isCandidate)(flow.candidates),
  )(value["flows"]);

export const verdictWord = (compliant: boolean | null): VerdictWord =>
  compliant === null ? "UNKNOWN" : compliant ? "COMPLIANT" : "NON-COMPLIANT";
