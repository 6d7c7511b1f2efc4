/**
 * What a policy text would change if it were stored: evaluates the artifacts of the latest snapshots under it, on the
 * facts that are stored with their evaluations, and with the present allowlist. Writes nothing.
 *
 * An artifact whose facts changed since its evaluation is marked stale: storing the text would evaluate it on the
 * present facts, and the result may be another one.
 */
import type { AppliedPolicy, Evaluation, Facts, StoredVerdict } from "../../domain/compliance/environment.ts";
import { evaluateInEnvironment, withFlowNames } from "../../domain/compliance/environment.ts";
import { isEvaluable, previewArtifact, verdictWord, withDraft } from "../../domain/compliance/preview.ts";
import type { PolicyDraft, PreviewedVerdict, PreviewReason, VerdictWord } from "../../domain/compliance/preview.ts";
import type { PolicyDocument } from "../../domain/policy/ast.ts";
import { hasMembers, isListOf, isText, readStoredJson, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { fromSqlBoolean } from "../db/database.ts";
import type { Db } from "../db/types.ts";
import type { allowlistStore } from "./allowlists.ts";
import type { EnvironmentRow, environmentStore } from "./environments.ts";
import { OPEN } from "./snapshots.ts";
import type { snapshotStore } from "./snapshots.ts";
import type { flowStore } from "../flows/flows.ts";
import type { policyStore } from "../policies/policies.ts";

/** `environmentIds`: active physical environments, in the order of the result. */
type PreviewQuestion = { draft: PolicyDraft; policyId: number | null; environmentIds: readonly number[] };

export type PreviewBounds = {
  environments: number;
  /** Artifacts to evaluate, over all environments. */
  artifacts: number;
  /** Changed artifacts to list, over all environments, and reasons to list with each; all are counted. */
  listed: number;
  reasons: number;
  /** UTF-16 code units of all reasons. */
  chars: number;
  /** Whether the time is over; asked before each artifact. */
  isOver(): boolean;
};

type PreviewedArtifact = {
  name: string;
  fingerprint: string;
  before: VerdictWord;
  after: VerdictWord;
  reasons_before: string[];
  reasons: PreviewReason[];
  /** Reasons that are not listed. */
  further_reasons: number;
  stale: boolean;
};

type UnknownArtifact = { name: string; fingerprint: string; reason: string };

/** `before` and `after` are the verdict on the environment; UNKNOWN while artifacts are left that decide it. */
type EnvironmentPreview = {
  environment: string;
  /** Whether the environment has the policy attached now. */
  attached: boolean;
  /** Index of the latest snapshot, 0 before the first. */
  snapshot: number;
  before: VerdictWord;
  after: VerdictWord;
  artifacts: number;
  unchanged: number;
  would_fail: number;
  would_pass: number;
  /** Part of `unchanged`. */
  kept_by_allowlist: number;
  unknown: number;
  stale: number;
  flips: PreviewedArtifact[];
  allowlisted: PreviewedArtifact[];
  unknown_artifacts: UnknownArtifact[];
  /** Artifacts of the three lists that they have no room for. */
  not_listed: number;
};

/** `environments_left` counts those that are missing or not complete. */
type PreviewStop = { reason: "environments" | "artifacts" | "time"; environments_left: number; artifacts_left: number };

export type PolicyPreview = { environments: EnvironmentPreview[]; stopped: PreviewStop | null };

type RunningRow = { name: string; fingerprint: string; compliant: 0 | 1 | null; evaluation_id: number };
type EvaluationRow = { facts_json: string; verdicts_json: string; reasons_json: string };

type PreviewParts = {
  allowlists: Pick<ReturnType<typeof allowlistStore>, "findLatest">;
  environments: Pick<ReturnType<typeof environmentStore>, "get" | "listPolicies">;
  flows: Pick<ReturnType<typeof flowStore>, "findPresentNames">;
  policies: Pick<ReturnType<typeof policyStore>, "listInForce" | "getDocument" | "find">;
  snapshots: Pick<ReturnType<typeof snapshotStore>, "find" | "countRunning">;
};

/** What is left of the bounds while the environments are evaluated. */
type Rest = PreviewBounds & { stop: PreviewStop["reason"] | null };

/** An environment with everything that does not depend on the artifact. */
type Place = {
  /** The policies in force, null if they are those of the snapshot, whose verdicts hold then. */
  inForce: readonly AppliedPolicy[] | null;
  policies: readonly AppliedPolicy[];
  stale: ReadonlySet<string>;
};

export function policyPreviewStore(db: Db, { allowlists, environments, flows, policies, snapshots }: PreviewParts) {
  const running = db.prepare<[number], RunningRow>(
    `SELECT name, fingerprint, compliant, evaluation_id FROM snapshot_artifacts
     WHERE environment_id = ? AND last_index = ${OPEN} ORDER BY name, fingerprint`,
  );
  const evaluationById = db.prepare<[number], EvaluationRow>(
    "SELECT facts_json, verdicts_json, reasons_json FROM evaluations WHERE id = ?",
  );
  const staleIn = db
    .prepare<[number], string>("SELECT fingerprint FROM stale_artifacts WHERE environment_id = ?")
    .pluck();
  const consumerIds = db
    .prepare<[number], number>(
      `SELECT env.id FROM environment_policies ep JOIN environments env ON env.id = ep.environment_id
       WHERE ep.policy_id = ? AND env.archived_at IS NULL ORDER BY env.name`,
    )
    .pluck();

  function placeOf(environment: EnvironmentRow, { draft, policyId }: PreviewQuestion): Place {
    const inForce = policies.listInForce(environment.id).map(
      ({ policy_name, version_id, version }): AppliedPolicy => ({
        policyName: policy_name,
        versionId: version_id,
        version,
        document: policies.getDocument(version_id),
      }),
    );
    const snapshot = snapshots.find(environment.id, environment.snapshot_count);
    const isCurrent = snapshot?.policy_versions_json === JSON.stringify(inForce.map(({ versionId }) => versionId));
    return {
      inForce: isCurrent ? null : inForce,
      policies: withDraft(inForce, draft, policyId === null ? null : draft.name),
      stale: new Set(staleIn.all(environment.id)),
    };
  }

  function withPresentNames(facts: Facts): Facts {
    const names = flows.findPresentNames(facts.flows.map(({ flow_id }) => flow_id));
    return withFlowNames(facts, (id) => names.get(id));
  }

  function documentOf(versionId: number): PolicyDocument | null {
    const document = attempt(() => policies.getDocument(versionId));
    return "failed" in document ? null : document.value;
  }

  /** @throws StoredJsonError when the stored evaluation is damaged */
  function previewRow(
    row: RunningRow,
    place: Place,
    { draft, environmentId }: { draft: PolicyDraft; environmentId: number },
  ): PreviewedVerdict {
    const stored = evaluationById.get(row.evaluation_id);
    if (!stored) throw new Error("its evaluation is gone");
    const facts = readStoredJson(stored.facts_json, isEvaluable);
    const subject = {
      artifact: { name: row.name, fingerprint: row.fingerprint },
      facts,
      isAllowlisted: allowlists.findLatest(environmentId, row.fingerprint) !== null,
    };
    const before: Evaluation = place.inForce
      ? evaluateInEnvironment({ policies: place.inForce, ...subject })
      : {
          compliant: fromSqlBoolean(row.compliant),
          verdicts: readStoredJson(stored.verdicts_json, isListOf(hasMembers<StoredVerdict>("status", "policy"))),
          reasons: readStoredJsonOrNull(stored.reasons_json, isListOf(isText)) ?? [],
        };
    return previewArtifact({ policies: place.policies, draft, before, withPresentNames, documentOf, ...subject });
  }

  function previewEnvironment(environment: EnvironmentRow, question: PreviewQuestion, rest: Rest): EnvironmentPreview {
    const { id, name, snapshot_count } = environment;
    const rows = running.all(id);
    const preview = emptyPreview({
      environment: name,
      attached: environments.listPolicies(id).some((policy) => policy.id === question.policyId),
      snapshot: snapshot_count,
      artifacts: rows.length,
    });
    const tally: Tally = { before: [], after: [] };
    const place = attempt(() => placeOf(environment, question));
    for (const row of rows) {
      rest.stop = rest.artifacts === 0 ? "artifacts" : rest.isOver() ? "time" : null;
      if (rest.stop) break;
      rest.artifacts -= 1;
      const previewed =
        "failed" in place
          ? place
          : attempt(() => previewRow(row, place.value, { draft: question.draft, environmentId: id }));
      const isStale = !("failed" in place) && place.value.stale.has(row.fingerprint);
      if (isStale) preview.stale += 1;
      add(preview, { row, previewed, isStale }, rest);
      tally.before.push("failed" in previewed ? fromSqlBoolean(row.compliant) : previewed.value.before);
      tally.after.push("failed" in previewed ? null : previewed.value.after);
    }
    if (snapshot_count === 0) return preview;
    return {
      ...preview,
      before: verdictWord(environmentVerdict(tally.before, rows.length)),
      after: verdictWord(environmentVerdict(tally.after, rows.length)),
    };
  }

  function preview(question: PreviewQuestion, bounds: PreviewBounds): PolicyPreview {
    const rest: Rest = { ...bounds, stop: null };
    const done: EnvironmentPreview[] = [];
    for (const id of question.environmentIds) {
      if (!rest.stop && done.length >= bounds.environments) rest.stop = "environments";
      if (rest.stop) break;
      done.push(previewEnvironment(environments.get(id), question, rest));
    }
    if (!rest.stop) return { environments: done, stopped: null };
    const missing = question.environmentIds.slice(done.length);
    const last = done.at(-1);
    const left = last ? last.artifacts - last.unchanged - last.would_fail - last.would_pass - last.unknown : 0;
    return {
      environments: done,
      stopped: {
        reason: rest.stop,
        environments_left: missing.length + (left > 0 ? 1 : 0),
        artifacts_left: missing.reduce((sum, id) => sum + snapshots.countRunning(id), left),
      },
    };
  }

  return {
    /** The active environments that the policy is attached to, by name. */
    listConsumerIds: (policyId: number): number[] => consumerIds.all(policyId),
    /**
     * Evaluates under the draft at one moment. Takes long for many artifacts: not for the main thread.
     * @returns the environments in the order of the question, as many as the bounds allow; the last one may be partial
     */
    preview: (question: PreviewQuestion, bounds: PreviewBounds): PolicyPreview =>
      db.transaction(() => preview(question, bounds))(),
  };
}

type Tally = { before: (boolean | null)[]; after: (boolean | null)[] };
type Attempt<T> = { value: T } | { failed: string };

function attempt<T>(work: () => T): Attempt<T> {
  try {
    return { value: work() };
  } catch (error) {
    return { failed: error instanceof Error ? error.message : String(error) };
  }
}

/** Not compliant as soon as one artifact is not; unknown while one is unknown or left. */
function environmentVerdict(verdicts: readonly (boolean | null)[], artifacts: number): boolean | null {
  if (verdicts.includes(false)) return false;
  return verdicts.length < artifacts || verdicts.includes(null) ? null : true;
}

const emptyPreview = (
  place: Pick<EnvironmentPreview, "environment" | "attached" | "snapshot" | "artifacts">,
): EnvironmentPreview => ({
  ...place,
  before: "UNKNOWN",
  after: "UNKNOWN",
  unchanged: 0,
  would_fail: 0,
  would_pass: 0,
  kept_by_allowlist: 0,
  unknown: 0,
  stale: 0,
  flips: [],
  allowlisted: [],
  unknown_artifacts: [],
  not_listed: 0,
});

/** Counts an artifact, and lists it if it changes and the bounds have room. */
function add(
  preview: EnvironmentPreview,
  { row, previewed, isStale }: { row: RunningRow; previewed: Attempt<PreviewedVerdict>; isStale: boolean },
  rest: Rest,
): void {
  const { name, fingerprint } = row;
  if ("failed" in previewed) {
    preview.unknown += 1;
    const reason = `It cannot be evaluated: ${previewed.failed}`;
    if (hasRoom(preview, rest)) preview.unknown_artifacts.push({ name, fingerprint, reason });
    return;
  }
  const { outcome, before, after } = previewed.value;
  if (outcome === "kept_by_allowlist") preview.kept_by_allowlist += 1;
  preview[outcome === "kept_by_allowlist" ? "unchanged" : outcome] += 1;
  if (outcome === "unchanged" || !hasRoom(preview, rest)) return;
  const reasonsBefore = takeReasons(previewed.value.reasonsBefore, rest, (text) => text.length);
  const reasons = takeReasons(previewed.value.reasons, rest, ({ text }) => text.length);
  const total = previewed.value.reasonsBefore.length + previewed.value.reasons.length;
  (outcome === "kept_by_allowlist" ? preview.allowlisted : preview.flips).push({
    name,
    fingerprint,
    before: verdictWord(before),
    after: verdictWord(after),
    reasons_before: reasonsBefore,
    reasons,
    further_reasons: total - reasonsBefore.length - reasons.length,
    stale: isStale,
  });
}

function hasRoom(preview: EnvironmentPreview, rest: Rest): boolean {
  if (rest.listed > 0) {
    rest.listed -= 1;
    return true;
  }
  preview.not_listed += 1;
  return false;
}

function takeReasons<T>(reasons: readonly T[], rest: Rest, lengthOf: (reason: T) => number): T[] {
  const taken: T[] = [];
  for (const reason of reasons.slice(0, rest.reasons)) {
    if (lengthOf(reason) > rest.chars) break;
    rest.chars -= lengthOf(reason);
    taken.push(reason);
  }
  return taken;
}
