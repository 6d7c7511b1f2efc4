/**
 * What a change would turn if it were made: evaluates the artifacts of the latest snapshots as the next snapshot after
 * the change would (snapshot-plan.ts), on the present facts, policies and allowlist, with those of the change in their
 * place. Writes nothing.
 *
 * An artifact is evaluated if the change is about it, or if its evaluation is stale, because the next snapshot
 * evaluates it anyway. Every other one keeps its verdict (snapshot-survey.ts). The verdict of a logical environment
 * follows from those of its members: as they would be, or as they are stored (semantics 6.3).
 */
import { computeEnvironmentVerdict, computeLogicalVerdict } from "../../domain/compliance/environment.ts";
import { evaluateInEnvironment, rewordReasons, withFlowNames } from "../../domain/compliance/environment.ts";
import type { AppliedPolicy, Evaluation, Facts, StoredVerdict } from "../../domain/compliance/environment.ts";
import { DRAFT_ID, previewArtifact, verdictWord } from "../../domain/compliance/preview.ts";
import type { PresentVerdict } from "../../domain/compliance/preview.ts";
import type { PolicyDocument } from "../../domain/policy/ast.ts";
import { hasMembers, isListOf, isObject, isText } from "../../domain/stored-json.ts";
import { readStoredJson, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { fromSqlBoolean } from "../db/database.ts";
import type { Db } from "../db/types.ts";
import type { allowlistEndStore } from "./allowlist-ends.ts";
import type { allowlistStore } from "./allowlists.ts";
import type { complianceFactStore } from "./compliance-facts.ts";
import type { EnvironmentRow, environmentStore } from "./environments.ts";
import { hypothesisStore } from "./preview-hypotheses.ts";
import type { LogicalChange, PreviewedChange, Hypothesis, HypothesisParts } from "./preview-hypotheses.ts";
import { addArtifact, emptyPreview, rankOf } from "./preview-results.ts";
import type { Attempt, ChangePreview, DecidingMember, EnvironmentPreview, LogicalPreview } from "./preview-results.ts";
import type { PreviewBounds, Previewed, Rest } from "./preview-results.ts";
import { OPEN } from "./snapshots.ts";
import type { snapshotStore } from "./snapshots.ts";
import type { flowStore } from "../flows/flows.ts";
import type { policyStore } from "../policies/policies.ts";

/** @property at epoch seconds, at which an allowlist entry with an end has to be in force */
export type PreviewQuestion = { change: PreviewedChange; at: number };

type DraftChange = Omit<Extract<PreviewedChange, { kind: "draft" }>, "kind">;
export type DraftPreview = Pick<ChangePreview, "stopped"> & {
  environments: (EnvironmentPreview & { attached: boolean })[];
};

type RunningRow = { name: string; fingerprint: string; compliant: 0 | 1 | null; evaluation_id: number };
type EvaluationRow = { facts_json: string; verdicts_json: string; reasons_json: string };

type Environments = Pick<ReturnType<typeof environmentStore>, "get" | "listMemberIds" | "listGroupIds">;
type PreviewParts = {
  allowlists: Pick<ReturnType<typeof allowlistStore>, "findInForce">;
  allowlistEnds: Pick<ReturnType<typeof allowlistEndStore>, "listReached">;
  environments: Environments;
  facts: Pick<ReturnType<typeof complianceFactStore>, "read">;
  flows: Pick<ReturnType<typeof flowStore>, "findPresentNames" | "get" | "getTags">;
  policies: Pick<
    ReturnType<typeof policyStore>,
    "listApplied" | "listConsumingEnvironments" | "getDocument" | "findLines" | "requireLatestVersion"
  >;
  snapshots: Pick<ReturnType<typeof snapshotStore>, "find" | "countRunning">;
} & Omit<HypothesisParts, "policies" | "flows">;

/** An environment with everything that does not depend on the artifact. */
type Place = {
  environment: EnvironmentRow;
  hypothesis: Hypothesis;
  at: number;
  /** The policies in force, null if they are those of the snapshot, whose verdicts hold then. */
  inForce: readonly AppliedPolicy[] | null;
  policies: readonly AppliedPolicy[];
  stale: ReadonlySet<string>;
  /** Whether the next snapshot evaluates everything, because the policies change. */
  isWhole: boolean;
};

export function changePreviewStore(db: Db, parts: PreviewParts) {
  const { allowlists, allowlistEnds, environments, facts, flows, policies, snapshots } = parts;
  const hypotheses = hypothesisStore(db, parts);
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

  function placeOf(environment: EnvironmentRow, hypothesis: Hypothesis, at: number): Place {
    const { id, snapshot_count } = environment;
    const inForce = policies.listApplied(id);
    const snapshot = snapshots.find(id, snapshot_count);
    const isCurrent = snapshot?.policy_versions_json === JSON.stringify(inForce.map(({ versionId }) => versionId));
    const changed = hypothesis.policiesOf(id, inForce);
    return {
      environment,
      hypothesis,
      at,
      inForce: isCurrent ? null : inForce,
      policies: changed ?? inForce,
      stale: new Set([...staleIn.all(id), ...allowlistEnds.listReached(id, at)]),
      isWhole: changed !== null || !isCurrent,
    };
  }

  function withPresentNames(shown: Facts): Facts {
    const names = flows.findPresentNames(shown.flows.map(({ flow_id }) => flow_id));
    return withFlowNames(shown, (id) => names.get(id));
  }

  function documentOf(versionId: number): PolicyDocument | null {
    const document = attempt(() => policies.getDocument(versionId));
    return "failed" in document ? null : document.value;
  }

  /** The stored evaluation of an artifact, with the present names of flows in its reasons. */
  function readStored({ evaluation_id }: RunningRow): Pick<Evaluation, "verdicts" | "reasons"> {
    const stored = evaluationById.get(evaluation_id);
    if (!stored) throw new Error("its evaluation is gone");
    const verdicts = readStoredJson(stored.verdicts_json, isListOf(hasMembers<StoredVerdict>("status", "policy")));
    const reasons = readStoredJsonOrNull(stored.reasons_json, isListOf(isText)) ?? [];
    const before = readStoredJsonOrNull(stored.facts_json, isFacts);
    const named = before && withPresentNames(before);
    const reworded =
      before === named || named === null ? null : attempt(() => rewordReasons(named, verdicts, documentOf));
    return { verdicts, reasons: (reworded && "value" in reworded ? reworded.value : null) ?? reasons };
  }

  /** @throws Error when a policy, or stored data that a changed verdict is compared with, cannot be read */
  function previewRow(row: RunningRow, { environment, hypothesis, at, inForce, policies: after }: Place): Previewed {
    const { id, organization_id } = environment;
    const artifact = { name: row.name, fingerprint: row.fingerprint };
    const present = facts.read(organization_id, row.fingerprint);
    const isAllowlisted = allowlists.findInForce(id, row.fingerprint, () => at) !== null;
    const due = inForce && evaluateInEnvironment({ policies: inForce, artifact, facts: present, isAllowlisted });
    const before: PresentVerdict = due
      ? { compliant: due.compliant, read: () => due }
      : { compliant: fromSqlBoolean(row.compliant), read: () => readStored(row) };
    const isAllowed = hypothesis.isAllowed(id, row.fingerprint) ?? isAllowlisted;
    const verdict = previewArtifact({
      policies: after,
      before,
      artifact,
      facts: hypothesis.factsOf(present),
      isAllowlisted: isAllowed,
      withPresentNames,
      positionOf: (versionId, rule) =>
        hypothesis.draft === null
          ? lineOf(versionId, rule)
          : versionId === DRAFT_ID
            ? (hypothesis.draft.positions[rule] ?? null)
            : null,
    });
    const [first] = present.flows;
    return { ...verdict, isAllowed, flow: first?.flow ?? null, trail: first?.trail ?? null };
  }

  /** The line of a rule of a stored version; null where its text does not have it, or takes long to read. */
  function lineOf(versionId: number, rule: number): { line: number; column: null } | null {
    const range = policies.findLines(versionId)?.[rule]?.rule;
    return range ? { line: range.from, column: null } : null;
  }

  function previewEnvironment(
    environment: EnvironmentRow,
    { hypothesis, at }: { hypothesis: Hypothesis; at: number },
    rest: Rest,
  ): EnvironmentPreview {
    const { id, name, snapshot_count, state } = environment;
    const rows = running.all(id);
    const preview = emptyPreview({ environment: name, snapshot: snapshot_count, artifacts: rows.length });
    const tally: Tally = { before: [], after: [] };
    const place = attempt(() => placeOf(environment, hypothesis, at));
    for (const row of rows) {
      const isStale = !("failed" in place) && place.value.stale.has(row.fingerprint);
      if (isStale) preview.stale += 1;
      const isAbout = "failed" in place || place.value.isWhole || hypothesis.concerns(id, row.fingerprint);
      if (!isAbout && !isStale) {
        preview.unchanged += 1;
        keep(tally, fromSqlBoolean(row.compliant));
        continue;
      }
      rest.stop = rest.artifacts === 0 ? "artifacts" : rest.isOver() ? "time" : null;
      if (rest.stop) break;
      rest.artifacts -= 1;
      const previewed = "failed" in place ? place : attempt(() => previewRow(row, place.value));
      addArtifact(preview, { row, previewed, isStale }, rest);
      tally.before.push("failed" in previewed ? fromSqlBoolean(row.compliant) : previewed.value.before);
      tally.after.push("failed" in previewed ? null : previewed.value.after);
    }
    preview.flips.sort((a, b) => rankOf(a) - rankOf(b));
    if (snapshot_count === 0) return preview;
    const isStored = "failed" in place || place.value.inForce === null;
    const count = "failed" in place ? 1 : place.value.policies.length;
    return {
      ...preview,
      before: verdictWord(isStored ? fromSqlBoolean(state) : environmentVerdict(tally.before, rows.length, 1)),
      after: verdictWord(environmentVerdict(tally.after, rows.length, count)),
    };
  }

  function preview({ change, at }: PreviewQuestion, bounds: PreviewBounds): ChangePreview {
    if (change.kind === "members" || change.kind === "archive")
      return {
        trail: null,
        environments: [],
        ...previewLogical(environments, questionOf(environments, change), bounds),
      };
    const rest: Rest = { ...bounds, stop: null };
    const { hypothesis, environmentIds, trail } = hypotheses.read(change, at);
    const done: EnvironmentPreview[] = [];
    for (const id of environmentIds) {
      if (!rest.stop && done.length >= bounds.environments) rest.stop = "environments";
      if (rest.stop) break;
      done.push(previewEnvironment(environments.get(id), { hypothesis, at }, rest));
    }
    const missing = environmentIds.slice(done.length);
    const last = rest.stop ? done.at(-1) : undefined;
    const left = last
      ? last.artifacts - last.unchanged - last.would_fail - last.would_pass - last.would_be_unknown - last.unknown
      : 0;
    const whole = left > 0 ? done.slice(0, -1) : done;
    const turns = new Map(whole.map((one, index) => [environmentIds[index] as number, one]));
    const ids = change.kind === "draft" ? [] : groupsOf(environments, environmentIds, turns);
    const groups = previewLogical(environments, { ids, membersAfter: (_id, present) => present, turns }, rest);
    const stopped = rest.stop && {
      reason: rest.stop,
      environments_left: missing.length + (left > 0 ? 1 : 0),
      artifacts_left: missing.reduce((sum, id) => sum + snapshots.countRunning(id), left),
    };
    return { trail, environments: done, ...groups, stopped: stopped ?? groups.stopped };
  }

  return {
    /** The active environments that the policy is attached to, by name. */
    listConsumerIds: (policyId: number): number[] => consumerIds.all(policyId),
    /**
     * Evaluates as after the change, at one moment. Takes long for many artifacts: not for the main thread.
     * @returns the environments in the order of the change, as many as the bounds allow; the last one may be partial
     */
    preview: (question: PreviewQuestion, bounds: PreviewBounds): ChangePreview =>
      db.transaction(() => preview(question, bounds))(),
    /** As `preview`, for a text of a policy, with whether each environment uses the policy that it would replace. */
    previewDraft: ({ draft, at }: { draft: DraftChange; at: number }, bounds: PreviewBounds): DraftPreview =>
      db.transaction(() => {
        const { environments: shown, stopped } = preview({ change: { kind: "draft", ...draft }, at }, bounds);
        const users = new Set(draft.policyId === null ? [] : policies.listConsumingEnvironments(draft.policyId));
        return { environments: shown.map((one) => ({ attached: users.has(one.environment), ...one })), stopped };
      })(),
  };
}

type Tally = { before: (boolean | null)[]; after: (boolean | null)[] };

function attempt<T>(work: () => T): Attempt<T> {
  try {
    return { value: work() };
  } catch (error) {
    return { failed: error instanceof Error ? error.message : String(error) };
  }
}

function keep(tally: Tally, compliant: boolean | null): void {
  tally.before.push(compliant);
  tally.after.push(compliant);
}

const isFacts = (value: unknown): value is Facts => isObject(value) && isListOf(isObject)(value["flows"]);

/** As the next snapshot has it; unknown also while an artifact that decides it is unknown or left. */
function environmentVerdict(
  verdicts: readonly (boolean | null)[],
  artifacts: number,
  policies: number,
): boolean | null {
  if (verdicts.includes(false)) return false;
  const isOpen = verdicts.length < artifacts || verdicts.includes(null);
  return isOpen ? null : computeEnvironmentVerdict(verdicts, policies);
}

/** Deciding members that are listed of each side of one logical environment. */
const MAX_DECIDING = 20;

/**
 * Logical environments, by name, and their members after the change. `turns` has the members that were evaluated; the
 * others keep their stored verdicts.
 */
type GroupQuestion = {
  ids: readonly number[];
  membersAfter(id: number, present: readonly number[]): readonly number[];
  turns: ReadonlyMap<number, Pick<EnvironmentPreview, "before" | "after">>;
};

function questionOf(environments: Environments, change: LogicalChange): GroupQuestion {
  const turns: GroupQuestion["turns"] = new Map();
  if (change.kind === "members") return { ids: [change.logicalId], membersAfter: () => change.memberIds, turns };
  const { environmentId } = change;
  const membersAfter: GroupQuestion["membersAfter"] = (_id, present) => present.filter((one) => one !== environmentId);
  return { ids: environments.listGroupIds(environmentId), membersAfter, turns };
}

/** The logical environments that include environments of a change, without those of which one was not evaluated. */
function groupsOf(
  environments: Environments,
  environmentIds: readonly number[],
  turns: GroupQuestion["turns"],
): number[] {
  const listOf = (ids: readonly number[]): number[] => ids.flatMap((id) => environments.listGroupIds(id));
  const open = new Set(listOf(environmentIds.filter((id) => !turns.has(id))));
  const named = [...new Set(listOf(environmentIds))]
    .filter((id) => !open.has(id))
    .map((id) => ({ id, name: environments.get(id).name }));
  return named.sort((a, b) => (a.name < b.name ? -1 : 1)).map(({ id }) => id);
}

/** The logical environments in their order, as many as the bounds allow. */
function previewLogical(
  environments: Environments,
  { ids, membersAfter, turns }: GroupQuestion,
  bounds: PreviewBounds,
): Pick<ChangePreview, "logical_environments" | "stopped"> {
  const rest = { listed: bounds.listed };
  const done: LogicalPreview[] = [];
  for (const id of ids) {
    const reason = done.length >= bounds.environments ? "environments" : bounds.isOver() ? "time" : null;
    if (reason !== null) {
      const stopped = { reason, environments_left: ids.length - done.length, artifacts_left: 0 } as const;
      return { logical_environments: done, stopped };
    }
    const present = environments.listMemberIds(id);
    const memberIds = membersAfter(id, present);
    const read = (one: number, side: "before" | "after"): Member => {
      const member = environments.get(one);
      const turn = turns.get(one);
      const verdict = turn ? turn[side] : verdictWord(fromSqlBoolean(member.state));
      return { ...member, verdict, isEvaluated: turn !== undefined };
    };
    const before = decide(
      present.map((one) => read(one, "before")),
      rest,
    );
    const after = decide(
      memberIds.map((one) => read(one, "after")),
      rest,
    );
    done.push({
      environment: environments.get(id).name,
      before: before.verdict,
      after: after.verdict,
      members: memberIds.length,
      deciding_before: before.listed,
      further_deciding_before: before.further,
      deciding: after.listed,
      further_deciding: after.further,
    });
  }
  return { logical_environments: done, stopped: null };
}

type Member = EnvironmentRow & Pick<DecidingMember, "verdict" | "isEvaluated">;

const STATE_OF = { COMPLIANT: true, "NON-COMPLIANT": false, UNKNOWN: null } as const;

/** The verdict on members, and those that have it: it is theirs. */
function decide(members: readonly Member[], rest: Pick<Rest, "listed">) {
  const verdict = verdictWord(computeLogicalVerdict(members.map((member) => STATE_OF[member.verdict])));
  const deciding = members.filter((member) => member.verdict === verdict);
  const listed = deciding
    .slice(0, Math.min(MAX_DECIDING, rest.listed))
    .map(({ id, name, snapshot_count: snapshot, isEvaluated }) => ({
      id,
      environment: name,
      snapshot,
      verdict,
      isEvaluated,
    }));
  rest.listed -= listed.length;
  return { verdict, listed, further: deciding.length - listed.length };
}
