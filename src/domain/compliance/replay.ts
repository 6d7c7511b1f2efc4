/**
 * Replays stored verdicts: an evaluation from its own facts and the policy versions it names, a snapshot from the
 * artifacts that run in it. A difference means that the stored data was altered, or that this program evaluates
 * differently from the one that wrote it; either way the stored verdict needs review.
 */
import type { PolicyDocument } from "../policy/ast.ts";
import {
  computeEnvironmentVerdict,
  evaluateInEnvironment,
  computeLogicalVerdict,
  rulesVersionOf,
} from "./environment.ts";
import type { Facts, Evaluation, StoredVerdict } from "./environment.ts";

/** A stored evaluation with its artifact. */
type StoredEvaluation = {
  artifact: { name: string; fingerprint: string };
  facts: Facts;
  allowlisted: boolean;
  stored: Evaluation;
};

/**
 * The result of a replay. `differences` are in plain English, of verdicts with their resolutions and attestations,
 * compliance and reasons; empty when all are the same.
 */
type Replay = { evaluation: Evaluation; same: boolean; differences: string[] };

/**
 * Evaluates again, each verdict under the evaluation rules that produced it.
 * @param documentOf the document of a policy version by its key; its errors propagate
 */
export function replay(
  { artifact, facts, allowlisted, stored }: StoredEvaluation,
  documentOf: (versionId: number) => PolicyDocument,
): Replay {
  const policies = stored.verdicts.map((verdict) => ({
    policyName: verdict.policy,
    versionId: verdict.version_id,
    version: verdict.version,
    document: documentOf(verdict.version_id),
    rules: rulesVersionOf(verdict),
  }));
  const evaluation = evaluateInEnvironment({ policies, artifact, facts, isAllowlisted: allowlisted });
  const differences = stored.verdicts.flatMap((verdict, index) =>
    compareVerdicts(verdict, evaluation.verdicts[index] as StoredVerdict),
  );
  if (evaluation.compliant !== stored.compliant) {
    const [was, is] = [formatVerdict(stored.compliant), formatVerdict(evaluation.compliant)];
    differences.push(`the artifact is stored as ${was}, but re-evaluates to ${is}`);
  }
  if (!haveSameTexts(evaluation.reasons, stored.reasons)) {
    const [was, is] = [quoteAll(stored.reasons), quoteAll(evaluation.reasons)];
    differences.push(`the stored reasons are ${was}, but re-evaluation gives ${is}`);
  }
  return { evaluation, same: differences.length === 0, differences };
}

function compareVerdicts(stored: StoredVerdict, actual: StoredVerdict): string[] {
  const policy = `policy '${stored.policy}' version ${stored.version}`;
  const differences: string[] = [];
  if (stored.status !== actual.status)
    differences.push(`${policy} is stored as ${stored.status}, but re-evaluates to ${actual.status}`);
  if (stored.rules.length !== actual.rules.length)
    return [...differences, `${policy} is stored with ${stored.rules.length} rules, but has ${actual.rules.length}`];
  for (const [index, rule] of stored.rules.entries()) {
    const [was, is] = [formatRule(rule), formatRule(actual.rules[index] as StoredVerdict["rules"][number])];
    if (was !== is) differences.push(`rule ${index + 1} of ${policy} is stored as ${was}, but re-evaluates to ${is}`);
  }
  return differences;
}

/** Everything stored of a rule as one text, independent of the order of JSON keys. */
function formatRule({ satisfied, resolutions }: StoredVerdict["rules"][number]): string {
  const state = satisfied === null ? "not applicable" : satisfied ? "satisfied" : "not satisfied";
  const texts = resolutions.map(({ type, flow, attestations = [], error }) =>
    [
      type,
      flow === null ? "without provenance" : `in flow ${flow + 1}`,
      ...attestations.map((id) => `by ${id}`),
      ...(error === undefined ? [] : [`failing: ${error}`]),
    ].join(" "),
  );
  return `${state} (${texts.join("; ")})`;
}

/** Number of running artifacts by verdict. */
export type ReplayCounts = { compliant: number; nonCompliant: number; unknown: number };
export type SnapshotVerdict = ReplayCounts & { verdict: boolean | null };

/** A running artifact. `versionIds` are the policy versions of its evaluation, null when they cannot be read. */
type EvaluatedUnder = { name: string; fingerprint: string; versionIds: readonly number[] | null };

export const countVerdicts = (verdicts: readonly (boolean | null)[]): ReplayCounts => {
  const count = (verdict: boolean | null): number => verdicts.filter((one) => one === verdict).length;
  return { compliant: count(true), nonCompliant: count(false), unknown: count(null) };
};

/**
 * Compares a snapshot of a physical environment with the artifacts that run in it.
 * @param versionIds the policy versions that were in force
 * @param running `counts`: of all of them; `evaluated`: those whose evaluations are looked at
 * @returns the differences, in plain English
 */
export function checkSnapshot(
  stored: SnapshotVerdict,
  versionIds: readonly number[],
  running: { counts: ReplayCounts; evaluated: readonly EvaluatedUnder[] },
): string[] {
  const { compliant, nonCompliant, unknown } = running.counts;
  const verdicts = [compliant > 0 && [true], nonCompliant > 0 && [false], unknown > 0 && [null]];
  const verdict = computeEnvironmentVerdict(
    verdicts.flatMap((one) => one || []),
    versionIds.length,
  );
  const differences = compareCounts(stored, running.counts);
  if (stored.verdict !== verdict) differences.push(describeVerdictDifference({ stored: stored.verdict, verdict }));
  const inForce = versionIds.join(", ");
  for (const { name, fingerprint, versionIds: evaluatedUnder } of running.evaluated) {
    if (evaluatedUnder === null || haveSameTexts(evaluatedUnder.map(String), versionIds.map(String))) continue;
    const artifact = `'${name}' (${fingerprint})`;
    const under = evaluatedUnder.join(", ");
    differences.push(`${artifact} was evaluated under the policy versions [${under}], but [${inForce}] were in force`);
  }
  return differences;
}

/**
 * Compares a snapshot of a logical environment with the snapshots of its members that it shows. A member without a
 * snapshot is not shown and turns a compliant verdict into an unknown one, so both are accepted in that case.
 * @returns the differences, in plain English
 */
export function checkLogicalSnapshot(stored: SnapshotVerdict, members: readonly SnapshotVerdict[]): string[] {
  const sum = (column: keyof ReplayCounts): number => members.reduce((total, member) => total + member[column], 0);
  const verdict = computeLogicalVerdict(members.map((member) => member.verdict));
  const differences = compareCounts(stored, {
    compliant: sum("compliant"),
    nonCompliant: sum("nonCompliant"),
    unknown: sum("unknown"),
  });
  const mayHaveHiddenMember = stored.verdict === null && verdict === true;
  if (stored.verdict !== verdict && !mayHaveHiddenMember)
    differences.push(describeVerdictDifference({ stored: stored.verdict, verdict }));
  return differences;
}

function compareCounts(stored: ReplayCounts, actual: ReplayCounts): string[] {
  const words = [
    ["compliant", "compliant"],
    ["nonCompliant", "non-compliant"],
    ["unknown", "unknown"],
  ] as const;
  return words
    .filter(([column]) => stored[column] !== actual[column])
    .map(([column, word]) => `the stored count of ${word} artifacts is ${stored[column]}, but ${actual[column]} run`);
}

const describeVerdictDifference = ({ stored, verdict }: { stored: boolean | null; verdict: boolean | null }): string =>
  `the snapshot is stored as ${formatVerdict(stored)}, but its artifacts make it ${formatVerdict(verdict)}`;

/** A verdict on an artifact or an environment for people. */
export const formatVerdict = (compliant: boolean | null): "COMPLIANT" | "NON-COMPLIANT" | "UNKNOWN" =>
  compliant === null ? "UNKNOWN" : compliant ? "COMPLIANT" : "NON-COMPLIANT";

const haveSameTexts = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((text, index) => text === b[index]);
const quoteAll = (texts: readonly string[]): string =>
  texts.length === 0 ? "none" : texts.map((text) => `"${text}"`).join(" ");
