/**
 * What a change would alter of the things that an evaluation rests on: policies, facts, allowlist. A preview evaluates
 * with these in the place of the present ones (change-previews.ts). Reads only.
 */
import { withDraft } from "../../domain/compliance/preview.ts";
import type { PolicyDraft } from "../../domain/compliance/preview.ts";
import type { AppliedPolicy, Facts, FlowRecord } from "../../domain/compliance/environment.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import type { AttestationCandidate } from "../../domain/policy/evaluate.ts";
import type { TagChange, Tags } from "../db/tags.ts";
import type { Db } from "../db/types.ts";
import type { flowStore } from "../flows/flows.ts";
import { NOT_RECORDED } from "../flows/trail-evaluation.ts";
import type { OverrideFact, trailEvaluationStore } from "../flows/trail-evaluation.ts";
import type { policyStore } from "../policies/policies.ts";
import { OPEN } from "./snapshots.ts";

/**
 * A change to preview, with row keys: of active environments, a flow, a trail.
 * - `draft`: another text of a policy, or with `policyId` null a policy more, in these physical environments.
 * - `policies`: policies by name that an environment attaches behind its own, or detaches.
 * - `allowlist`: whether an environment allows an artifact.
 * - `override`: the verdict of an attestation.
 * - `flow`: another name, null for the present one, and other tags.
 * - `members`: all members of a logical environment, in their order.
 * - `archive`: an environment leaves the logical environments that include it.
 */
export type PreviewedChange =
  | { kind: "draft"; draft: PolicyDraft; policyId: number | null; environmentIds: readonly number[] }
  | {
      kind: "policies";
      organization: { id: number; name: string };
      environmentId: number;
      attach: readonly string[];
      detach: readonly string[];
    }
  | { kind: "allowlist"; environmentId: number; fingerprint: string; isAllowed: boolean }
  | { kind: "override"; trailId: number; override: OverrideFact }
  | { kind: "flow"; flowId: number; name: string | null; tags: TagChange }
  | LogicalChange;

/** A change after which nothing is evaluated: logical environments follow from the stored verdicts of their members. */
export type LogicalChange =
  | { kind: "members"; logicalId: number; memberIds: readonly number[] }
  | { kind: "archive"; environmentId: number };

/** What an evaluation would rest on after a change. */
export type Hypothesis = {
  /** The text that is not stored; null where all policies are. */
  draft: PolicyDraft | null;
  /** The policies of an environment, null where they stay as they are. */
  policiesOf(environmentId: number, inForce: readonly AppliedPolicy[]): readonly AppliedPolicy[] | null;
  /** Whether the change has a running artifact re-evaluated. */
  concerns(environmentId: number, fingerprint: string): boolean;
  /** The facts about an artifact. */
  factsOf(present: Facts): Facts;
  /** Whether an environment allows an artifact; null for as it is. */
  isAllowed(environmentId: number, fingerprint: string): boolean | null;
};

export type TrailFlip = { flow: string; trail: string; before: State; after: State };

/** The environments to evaluate, in the order of the answer. */
type Read = { hypothesis: Hypothesis; environmentIds: readonly number[]; trail: TrailFlip | null };

export type HypothesisParts = {
  flows: Pick<ReturnType<typeof flowStore>, "get" | "getTags">;
  policies: Pick<ReturnType<typeof policyStore>, "getDocument" | "requireLatestVersion">;
  trailEvaluation: Pick<ReturnType<typeof trailEvaluationStore>, "computeOverridden">;
};

const AS_IT_IS: Hypothesis = {
  draft: null,
  policiesOf: () => null,
  concerns: () => false,
  factsOf: (present) => present,
  isAllowed: () => null,
};

type RunningKey = { environment_id: number; fingerprint: string };

export function hypothesisStore(db: Db, { flows, policies, trailEvaluation }: HypothesisParts) {
  const runningOfTrail = db.prepare<[number], RunningKey>(
    `SELECT DISTINCT sa.environment_id, sa.fingerprint
     FROM artifacts a
       JOIN snapshot_artifacts sa
         ON sa.organization_id = a.organization_id AND sa.fingerprint = a.fingerprint AND sa.last_index = ${OPEN}
       JOIN environments env ON env.id = sa.environment_id AND env.archived_at IS NULL
     WHERE a.trail_id = ? ORDER BY env.name`,
  );
  // Starts from what runs, not from what the flow ever built, which grows without limit.
  const runningOfFlow = db.prepare<{ organization: number; flow: number }, RunningKey>(
    `SELECT DISTINCT sa.environment_id, sa.fingerprint
     FROM snapshot_artifacts sa JOIN environments env ON env.id = sa.environment_id AND env.archived_at IS NULL
     WHERE sa.organization_id = @organization AND sa.last_index = ${OPEN}
       AND EXISTS (SELECT 1 FROM artifacts a WHERE a.flow_id = @flow AND a.fingerprint = sa.fingerprint)
     ORDER BY env.name`,
  );

  function readPolicies(change: Extract<PreviewedChange, { kind: "policies" }>): Read {
    const { organization, environmentId, attach, detach } = change;
    const attached = [...new Set(attach)].flatMap((name): AppliedPolicy[] => {
      const { policy_name, version_id, version } = policies.requireLatestVersion(organization, name);
      return version_id === null
        ? []
        : [{ policyName: policy_name, versionId: version_id, version, document: policies.getDocument(version_id) }];
    });
    const policiesOf: Hypothesis["policiesOf"] = (_id, inForce) => {
      const kept = inForce.filter(({ policyName }) => !detach.includes(policyName));
      const known = new Set(inForce.map(({ policyName }) => policyName));
      const added = attached.filter(({ policyName }) => !known.has(policyName));
      return kept.length === inForce.length && added.length === 0 ? null : [...kept, ...added];
    };
    return { hypothesis: { ...AS_IT_IS, policiesOf }, environmentIds: [environmentId], trail: null };
  }

  function readOverride({ trailId, override }: Extract<PreviewedChange, { kind: "override" }>, at: number): Read {
    const computed = trailEvaluation.computeOverridden(trailId, override, at);
    if (!computed) return { hypothesis: AS_IT_IS, environmentIds: [], trail: null };
    const { artifacts, ...trail } = computed;
    const overridden = (record: FlowRecord): FlowRecord => {
      const verdict = artifacts.get(record.artifact_id);
      if (record.trail_id !== trailId || !verdict) return record;
      const levels = [record.artifact_id, null].filter((target) => override.targets.includes(target));
      const candidates = levels.reduce(
        (list, target) => withOverride(list, { override, level: target === null ? "trail" : "artifact" }),
        record.candidates,
      );
      return { ...record, ...verdict, candidates };
    };
    const about = byEnvironment(runningOfTrail.all(trailId));
    const hypothesis: Hypothesis = {
      ...AS_IT_IS,
      concerns: (environmentId, fingerprint) => about.get(environmentId)?.has(fingerprint) === true,
      factsOf: (present) => ({ flows: present.flows.map(overridden) }),
    };
    return { hypothesis, environmentIds: [...about.keys()], trail };
  }

  function readFlow({ flowId, name, tags }: Extract<PreviewedChange, { kind: "flow" }>): Read {
    const { organization_id } = flows.get(flowId);
    const about = byEnvironment(runningOfFlow.all({ organization: organization_id, flow: flowId }));
    const changed = patched(flows.getTags(flowId), tags);
    const hypothesis: Hypothesis = {
      ...AS_IT_IS,
      concerns: (environmentId, fingerprint) => about.get(environmentId)?.has(fingerprint) === true,
      factsOf: (present) => ({
        flows: present.flows.map((record) =>
          record.flow_id === flowId ? { ...record, flow: name ?? record.flow, tags: changed } : record,
        ),
      }),
    };
    return { hypothesis, environmentIds: [...about.keys()], trail: null };
  }

  return {
    /** @param at epoch seconds @throws AppError not_found for a policy that does not exist; Error for other keys */
    read(change: Exclude<PreviewedChange, LogicalChange>, at: number): Read {
      switch (change.kind) {
        case "draft": {
          const { draft, policyId, environmentIds } = change;
          const policiesOf: Hypothesis["policiesOf"] = (_id, inForce) =>
            withDraft(inForce, draft, policyId === null ? null : draft.name);
          return { hypothesis: { ...AS_IT_IS, draft, policiesOf }, environmentIds, trail: null };
        }
        case "policies":
          return readPolicies(change);
        case "allowlist": {
          const { environmentId, fingerprint, isAllowed } = change;
          const isAbout = (id: number, one: string): boolean => id === environmentId && one === fingerprint;
          return {
            hypothesis: {
              ...AS_IT_IS,
              concerns: isAbout,
              isAllowed: (id, one) => (isAbout(id, one) ? isAllowed : null),
            },
            environmentIds: [environmentId],
            trail: null,
          };
        }
        case "override":
          return readOverride(change, at);
        case "flow":
          return readFlow(change);
      }
    },
  };
}

function byEnvironment(keys: readonly RunningKey[]): Map<number, Set<string>> {
  const found = new Map<number, Set<string>>();
  for (const { environment_id, fingerprint } of keys)
    found.set(environment_id, (found.get(environment_id) ?? new Set()).add(fingerprint));
  return found;
}

function patched(tags: Tags, { set, remove }: TagChange): Tags {
  const kept = Object.entries(tags).filter(([key]) => !remove.includes(key));
  return Object.fromEntries([...kept, ...Object.entries(set)]);
}

/** The records that a policy sees, with the override as the latest one of its name on its level. */
function withOverride(
  candidates: readonly AttestationCandidate[],
  { override, level }: { override: OverrideFact; level: AttestationCandidate["level"] },
): AttestationCandidate[] {
  const isReplaced = (one: AttestationCandidate): boolean => one.level === level && one.name === override.name;
  const previous = candidates.find(isReplaced);
  const record: AttestationCandidate = {
    name: override.name,
    type: previous?.type ?? override.type,
    isCompliant: override.isCompliant,
    control: previous?.control ?? null,
    attestationId: NOT_RECORDED,
    level,
    sequence: Number.MAX_SAFE_INTEGER,
  };
  const others = candidates.filter((one) => !isReplaced(one));
  const ofLevel = (wanted: AttestationCandidate["level"]): AttestationCandidate[] => [
    ...others.filter((one) => one.level === wanted),
    ...(wanted === level ? [record] : []),
  ];
  return [...ofLevel("artifact"), ...ofLevel("trail")];
}
