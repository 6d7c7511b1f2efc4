/**
 * Compares the verdict on a running artifact with the one that it would get after a change. Facts in, difference and
 * reasons out; the evaluation is the same as for a snapshot (environment.ts).
 */
import type { PolicyDocument } from "../policy/ast.ts";
import { explainVerdict } from "../policy/reasons.ts";
import type { PolicyVerdict } from "../policy/evaluate.ts";
import type { SourcePosition } from "../text/source-position.ts";
import { evaluateInEnvironment, expandStoredVerdict } from "./environment.ts";
import type { AppliedPolicy, Evaluation, Facts, StoredVerdict } from "./environment.ts";
import { listCauses } from "./causes.ts";

/** A policy text that is valid but not stored. `positions`: of its rules, as findRulePositions returns them. */
export type PolicyDraft = {
  /** Its name in reasons. */
  name: string;
  document: PolicyDocument;
  positions: readonly (SourcePosition | null)[];
};

export type VerdictWord = "COMPLIANT" | "NON-COMPLIANT" | "UNKNOWN";

/**
 * Where a rule stands: `line` and `column` are null where the text does not have it, or is not looked at. `version` is
 * null where no single rule demands it; a draft has the number that it would get.
 */
type RulePlace = { policy: string; version: number | null; line: number | null; column: number | null };

/** Why an artifact would not satisfy its policies: a sentence for each rule and flow. */
export type PreviewReason = RulePlace & { text: string };

type Cause = ReturnType<typeof listCauses>[number];

/** What would have to be mended, each once, with the first rule that demands it. */
export type PreviewCause = RulePlace & Cause;

/**
 * - `unchanged`: the same verdict.
 * - `would_fail`, `would_pass`: another one; from unknown, the one that it would get.
 * - `would_be_unknown`: no policy would be left.
 * - `kept_by_allowlist`: the artifact satisfied its policies and would not any more, but it is on the allowlist.
 */
type PreviewOutcome = "unchanged" | "would_fail" | "would_pass" | "would_be_unknown" | "kept_by_allowlist";

export type PreviewedVerdict = {
  outcome: PreviewOutcome;
  before: boolean | null;
  after: boolean | null;
  /** Why it does not satisfy the policies, before and after; empty for an unchanged verdict. */
  reasonsBefore: readonly string[];
  reasons: readonly PreviewReason[];
  causes: readonly PreviewCause[];
};

/** The version id of a draft, which no stored version has. */
export const DRAFT_ID = 0;

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

/** The verdict that an artifact has. `read` gives what it rests on, and is called where the verdict would change. */
export type PresentVerdict = { compliant: boolean | null; read(): Pick<Evaluation, "verdicts" | "reasons"> };

/**
 * Evaluates an artifact as it would be after a change.
 * @param input.policies those that it would have to satisfy
 * @param input.withPresentNames the facts as reasons show them, with the present names of flows
 * @param input.positionOf where a rule stands in the text of a policy version, by its number from 0
 */
export function previewArtifact({
  policies,
  before,
  withPresentNames,
  positionOf,
  ...subject
}: {
  policies: readonly AppliedPolicy[];
  before: PresentVerdict;
  withPresentNames: (facts: Facts) => Facts;
  positionOf: (versionId: number, rule: number) => { line: number; column: number | null } | null;
  artifact: { fingerprint: string; name: string };
  facts: Facts;
  isAllowlisted: boolean;
}): PreviewedVerdict {
  const after = evaluateInEnvironment({ policies, ...subject });
  const outcome = outcomeOf(before, after);
  const verdicts = { outcome, before: before.compliant, after: after.compliant };
  if (outcome === "unchanged") return { ...verdicts, reasonsBefore: [], reasons: [], causes: [] };
  const facts = withPresentNames(subject.facts);
  const expanded = after.verdicts.map((verdict, index) =>
    expandVerdict(verdict, { policy: policies[index] as AppliedPolicy, facts, positionOf }),
  );
  return {
    ...verdicts,
    reasonsBefore: before.read().reasons,
    reasons: expanded.flatMap(({ reasons }) => reasons),
    causes: causesOf(expanded, facts),
  };
}

const isSatisfied = ({ verdicts }: Pick<Evaluation, "verdicts">): boolean =>
  verdicts.every(({ status }) => status === "COMPLIANT");

function outcomeOf(before: PresentVerdict, after: Evaluation): PreviewOutcome {
  if (before.compliant !== after.compliant)
    return after.compliant === null ? "would_be_unknown" : after.compliant ? "would_pass" : "would_fail";
  return after.compliant && !isSatisfied(after) && isSatisfied(before.read()) ? "kept_by_allowlist" : "unchanged";
}

type Expanded = { verdict: PolicyVerdict; places: readonly RulePlace[]; reasons: readonly PreviewReason[] };

function expandVerdict(
  stored: StoredVerdict,
  {
    policy,
    facts,
    positionOf,
  }: { policy: AppliedPolicy; facts: Facts } & Pick<Parameters<typeof previewArtifact>[0], "positionOf">,
): Expanded {
  const verdict = expandStoredVerdict(stored, policy.document, facts);
  const places = verdict.rules.map(({ satisfied }, index): RulePlace => {
    const position = satisfied === false ? positionOf(stored.version_id, index) : null;
    const { line = null, column = null } = position ?? {};
    return { policy: stored.policy, version: policy.version, line, column };
  });
  const reasons = verdict.rules.flatMap((rule, index) =>
    explainVerdict({ status: verdict.status, rules: [rule] }, stored.policy).map((text) => ({
      ...(places[index] as RulePlace),
      text,
    })),
  );
  return { verdict, places, reasons };
}

function causesOf(expanded: readonly Expanded[], { flows }: Facts): PreviewCause[] {
  const causes = listCauses(
    expanded.map(({ verdict }) => verdict),
    flows,
  );
  const rules = expanded.flatMap(({ verdict, places }) =>
    verdict.rules.flatMap((rule, index) =>
      rule.satisfied === false
        ? [{ place: places[index], words: listCauses([{ ...verdict, rules: [rule] }], flows).map(wordsOf) }]
        : [],
    ),
  );
  return causes.map((cause) => {
    const demanded = rules.find(({ words }) => words.includes(cause.words));
    return { policy: "", version: null, line: null, column: null, ...demanded?.place, ...cause };
  });
}

const wordsOf = ({ words }: Cause): string => words;

export const verdictWord = (compliant: boolean | null): VerdictWord =>
  compliant === null ? "UNKNOWN" : compliant ? "COMPLIANT" : "NON-COMPLIANT";
