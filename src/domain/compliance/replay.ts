/**
 * Kept verdicts, found again: an evaluation from its own facts and the policy versions it names, a snapshot from what
 * it says runs. A difference means that the stored data was changed, or that this program judges otherwise than the one
 * that wrote it; either way nobody may rely on the verdict unseen.
 */
import type { PolicyDocument } from "../policy/ast.ts";
import {
  computeEnvironmentVerdict,
  evaluateInEnvironment,
  computeLogicalVerdict,
  rulesVersionOf,
} from "./environment.ts";
import type { Facts, Evaluation, StoredVerdict } from "./environment.ts";

/** An evaluation as it is kept, with the artifact that it is about. */
export type StoredEvaluation = {
  artifact: { name: string; fingerprint: string };
  facts: Facts;
  allowlisted: boolean;
  stored: Evaluation;
};

/**
 * `differences` in words, empty when the answer is the same: verdicts with their resolutions and attestations,
 * compliance, reasons.
 */
export type Replay = { evaluation: Evaluation; same: boolean; differences: string[] };

/**
 * Judges again, each verdict under the evaluation rules that produced it.
 * @param documentOf the rules of a policy version by its key; what it throws comes through.
 */
export function replay(
  { artifact, facts, allowlisted, stored: kept }: StoredEvaluation,
  documentOf: (versionId: number) => PolicyDocument,
): Replay {
  const policies = kept.verdicts.map((verdict) => ({
    policyName: verdict.policy,
    versionId: verdict.version_id,
    version: verdict.version,
    document: documentOf(verdict.version_id),
    rules: rulesVersionOf(verdict),
  }));
  const evaluation = evaluateInEnvironment(policies, artifact, facts, allowlisted);
  const differences = kept.verdicts.flatMap((verdict, place) =>
    differencesOf(verdict, evaluation.verdicts[place] as StoredVerdict),
  );
  if (evaluation.compliant !== kept.compliant)
    differences.push(
      `the artifact is stored as ${formatVerdict(kept.compliant)}, and is ${formatVerdict(evaluation.compliant)} when judged again`,
    );
  if (!sameTexts(evaluation.reasons, kept.reasons))
    differences.push(
      `the stored reasons are ${quoted(kept.reasons)}, and those found again are ${quoted(evaluation.reasons)}`,
    );
  return { evaluation: evaluation, same: differences.length === 0, differences };
}

function differencesOf(stored: StoredVerdict, found: StoredVerdict): string[] {
  const policy = `policy '${stored.policy}' version ${stored.version}`;
  const differences: string[] = [];
  if (stored.status !== found.status)
    differences.push(`${policy} is stored as ${stored.status}, and is ${found.status} when judged again`);
  if (stored.rules.length !== found.rules.length)
    return [...differences, `${policy} is stored with ${stored.rules.length} rules, and has ${found.rules.length}`];
  for (const [place, rule] of stored.rules.entries()) {
    const [was, is] = [ruleText(rule), ruleText(found.rules[place] as StoredVerdict["rules"][number])];
    if (was !== is)
      differences.push(`rule ${place + 1} of ${policy} is stored as ${was}, and is ${is} when judged again`);
  }
  return differences;
}

/** All that is kept of a rule as one text, which does not depend on the order of the keys in JSON. */
function ruleText({ satisfied, resolutions }: StoredVerdict["rules"][number]): string {
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

/** How many of what runs are what. */
export type ReplayCounts = { compliant: number; nonCompliant: number; unknown: number };
export type SnapshotVerdict = ReplayCounts & { verdict: boolean | null };

/** What runs in a snapshot; `versionIds` are the policy versions it was judged under, null when that cannot be read. */
export type RunningVerdict = {
  name: string;
  fingerprint: string;
  compliant: boolean | null;
  versionIds: readonly number[] | null;
};

/**
 * Compares a snapshot of a physical environment with the artifacts that run in it.
 * @param versionIds the policy versions that were in force
 * @returns what differs, in words
 */
export function checkSnapshot(
  stored: SnapshotVerdict,
  versionIds: readonly number[],
  running: readonly RunningVerdict[],
): string[] {
  const count = (wanted: boolean | null): number => running.filter(({ compliant }) => compliant === wanted).length;
  const found = { compliant: count(true), nonCompliant: count(false), unknown: count(null) };
  const verdict = computeEnvironmentVerdict(
    running.map(({ compliant }) => compliant),
    versionIds.length,
  );
  const differences = compareCounts(stored, found);
  if (stored.verdict !== verdict) differences.push(stateText(stored.verdict, verdict));
  for (const { name, fingerprint, versionIds: judgedUnder } of running) {
    if (judgedUnder === null || sameTexts(judgedUnder.map(String), versionIds.map(String))) continue;
    differences.push(
      `'${name}' (${fingerprint}) was judged under the policy versions [${judgedUnder.join(", ")}], and [${versionIds.join(", ")}] were in force`,
    );
  }
  return differences;
}

/**
 * Compares a snapshot of a logical environment with the snapshots of its members that it shows. A member without a
 * snapshot is not shown, and makes unknown what would be compliant, so that either is right then.
 * @returns what differs, in words
 */
export function checkLogicalSnapshot(stored: SnapshotVerdict, members: readonly SnapshotVerdict[]): string[] {
  const sum = (column: keyof ReplayCounts): number => members.reduce((total, member) => total + member[column], 0);
  const verdict = computeLogicalVerdict(members.map((member) => member.verdict));
  const differences = compareCounts(stored, {
    compliant: sum("compliant"),
    nonCompliant: sum("nonCompliant"),
    unknown: sum("unknown"),
  });
  const unseen = stored.verdict === null && verdict === true;
  if (stored.verdict !== verdict && !unseen) differences.push(stateText(stored.verdict, verdict));
  return differences;
}

function compareCounts(stored: ReplayCounts, found: ReplayCounts): string[] {
  const words = [
    ["compliant", "compliant"],
    ["nonCompliant", "non-compliant"],
    ["unknown", "unknown"],
  ] as const;
  return words
    .filter(([column]) => stored[column] !== found[column])
    .map(
      ([column, word]) => `${stored[column]} ${word} artifacts are stored as the count, and ${found[column]} are there`,
    );
}

const stateText = (stored: boolean | null, found: boolean | null): string =>
  `the snapshot is stored as ${formatVerdict(stored)}, and follows as ${formatVerdict(found)} from what ran`;

/** A verdict on an artifact or an environment as people read it. */
export const formatVerdict = (compliant: boolean | null): "COMPLIANT" | "NON-COMPLIANT" | "UNKNOWN" =>
  compliant === null ? "UNKNOWN" : compliant ? "COMPLIANT" : "NON-COMPLIANT";

const sameTexts = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((text, place) => text === b[place]);
const quoted = (texts: readonly string[]): string =>
  texts.length === 0 ? "none" : texts.map((text) => `"${text}"`).join(" ");
