/**
 * Evaluates trails and legacy artifacts on write.
 *
 * Invariant: whatever changes a trail calls `evaluate` in the same transaction. So every read finds the verdict and its
 * reasons stored beside the facts, and the two never disagree.
 */
import { evaluateLegacyArtifact, buildLegacyAttestationStatuses } from "../../domain/compliance/artifact.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import { evaluateTrail } from "../../domain/compliance/trail.ts";
import type { TrailFacts, TrailStatus } from "../../domain/compliance/trail.ts";
import { findTrailSizeProblem } from "../../domain/compliance/trail-size.ts";
import type { AttestationFact } from "../../domain/compliance/attestation.ts";
import type { Template, TemplateAttestation } from "../../domain/flow-template/template.ts";
import type { ArtifactInTrailRow, artifactStore } from "./artifacts.ts";
import type { attestationStore } from "../attestations/attestations.ts";
import type { FlowChanges } from "./changes.ts";
import type { flowStore } from "./flows.ts";
import type { TrailRow } from "./trails.ts";
import type { templateStore } from "./templates.ts";
import { badRequest } from "../../errors.ts";
import type { Db } from "../db/types.ts";

type EvaluationParts = Pick<FlowChanges, "onTrailChanged" | "onArtifactChanged"> & {
  artifacts: ReturnType<typeof artifactStore>;
  attestations: ReturnType<typeof attestationStore>;
  templates: ReturnType<typeof templateStore>;
  flows: ReturnType<typeof flowStore>;
};

/**
 * A trail as it is stored, with everything that its evaluation needs. `facts`: the latest record of every name in the
 * order of their reports, by artifact; the trail's own under null.
 */
export type LoadedTrail = {
  readonly id: number;
  readonly organizationId: number;
  readonly flowId: number;
  readonly state: State;
  readonly templatePublicId: string;
  readonly template: Template;
  /** Oldest first. */
  readonly artifacts: readonly ArtifactInTrailRow[];
  readonly facts: ReadonlyMap<number | null, readonly AttestationFact[]>;
};

/**
 * An override: the trail (null) and artifacts by their keys to which it belongs. `type`: the stored label that it names
 * for what it overrides, which counts where nothing was reported.
 */
export type OverrideFact = {
  name: string;
  targets: readonly (number | null)[];
  isCompliant: boolean;
  type: string;
};

/** `grows`: the name of the trail if it may have more than before, which has its limits; else null. */
type Growth = { grows: string | null };

/** The id of a record that does not exist yet. */
export const NOT_RECORDED = "";

/** The trail with another latest record of a name on each target. @param factOf gets the one before it */
function withFact(
  trail: LoadedTrail,
  { name, targets }: { name: string; targets: readonly (number | null)[] },
  factOf: (previous: AttestationFact | undefined) => AttestationFact,
): LoadedTrail {
  const facts = new Map(trail.facts);
  for (const target of targets) {
    const all = facts.get(target) ?? [];
    const others = all.filter((fact) => fact.name !== name);
    facts.set(target, [...others, factOf(all.find((fact) => fact.name === name))]);
  }
  return { ...trail, facts };
}

const toFacts = (trail: LoadedTrail, at: number): TrailFacts => ({
  template: trail.template,
  flowTemplateId: trail.templatePublicId,
  evaluatedAt: at,
  trailAttestations: trail.facts.get(null) ?? [],
  artifacts: trail.artifacts.map((row) => ({
    artifactId: row.public_id,
    fingerprint: row.fingerprint,
    referenceName: row.reference_name,
    attestations: trail.facts.get(row.id) ?? [],
  })),
});

/** As toFacts. @throws AppError 400 for a trail that grew beyond its limits (domain/compliance/trail-size.ts) */
function toBoundedFacts(trail: LoadedTrail, at: number, { grows }: Growth): TrailFacts {
  const facts = toFacts(trail, at);
  const problem = grows === null ? null : findTrailSizeProblem(grows, facts);
  if (problem !== null) throw badRequest(problem);
  return facts;
}

/** A trail without its artifacts and facts. */
type SubjectRow = {
  id: number;
  organization_id: number;
  flow_id: number;
  template_id: number;
  template_public_id: string;
  state: State;
};

export function trailEvaluationStore(
  db: Db,
  { artifacts, attestations, templates, flows, onTrailChanged, onArtifactChanged }: EvaluationParts,
) {
  // Without the text of the template, which may be long and is cached in parsed form.
  const subjectBy = <Key extends unknown[]>(condition: string) =>
    db.prepare<Key, SubjectRow>(
      `SELECT t.id, t.organization_id, t.flow_id, t.template_id, tpl.public_id AS template_public_id, t.state
       FROM trails t JOIN templates tpl ON tpl.id = t.template_id WHERE ${condition}`,
    );
  const byId = subjectBy<[number]>("t.id = ?");
  const byName = subjectBy<[number, string]>("t.flow_id = ? AND t.name = ?");
  const namesOf = db.prepare<[number], { trail: string; flow: string }>(
    "SELECT t.name AS trail, f.name AS flow FROM trails t JOIN flows f ON f.id = t.flow_id WHERE t.id = ?",
  );
  // Most records do not change the state. An UPDATE without it writes no page of the index over states.
  const setStatus = db.prepare(
    "UPDATE trails SET compliance_json = ?, reasons_json = ?, last_modified_at = ? WHERE id = ?",
  );
  const setState = db.prepare("UPDATE trails SET state = ? WHERE id = ?");

  /** Reads what is stored of a trail. */
  const read = (row: SubjectRow): LoadedTrail => ({
    id: row.id,
    organizationId: row.organization_id,
    flowId: row.flow_id,
    state: row.state,
    templatePublicId: row.template_public_id,
    template: templates.getParsed(row.template_id, row.template_public_id),
    artifacts: artifacts.listByTrail(row.id),
    facts: attestations.readFacts(row.id),
  });

  function load(trailId: number): LoadedTrail {
    const row = byId.get(trailId);
    if (!row) throw new Error(`trail ${trailId} is gone`);
    return read(row);
  }

  /** The verdicts that follow from the facts of a trail. Stores nothing. */
  const evaluateFacts = (trail: LoadedTrail, at: number) => ({
    rows: trail.artifacts,
    result: evaluateTrail(toFacts(trail, at)),
  });

  function store(trail: LoadedTrail, at: number, growth: Growth): TrailStatus {
    const rows = trail.artifacts;
    const result = evaluateTrail(toBoundedFacts(trail, at, growth));
    const status = result.compliance_status;
    setStatus.run(JSON.stringify(status), JSON.stringify(result.reasons), at, trail.id);
    if (trail.state !== status.status) setState.run(status.status, trail.id);
    for (const [index, verdict] of result.artifacts.entries()) {
      const row = rows[index];
      if (!row) continue;
      const reasons_json = JSON.stringify(verdict.reasons);
      const attestations_json = JSON.stringify(verdict.attestationsStatuses);
      const { state } = verdict;
      if (row.state === state && row.reasons_json === reasons_json && row.attestations_json === attestations_json)
        continue;
      artifacts.setReasons(row.id, { reasons: reasons_json, attestations: attestations_json }, at);
      if (row.state !== state) artifacts.setState(row.id, state);
    }
    flows.touch(trail.flowId, at, status.status);
    if (rows.length > 0) onTrailChanged(trail.organizationId, trail.id);
    return status;
  }

  return {
    /** The verdicts that follow from what is stored now, and the rows they are about. Stores nothing. */
    computeVerdicts: (trailId: number, at: number) => evaluateFacts(load(trailId), at),

    /** The trail that reports name, with everything that its evaluation needs; null when there is none. */
    find(flowId: number, name: string): LoadedTrail | null {
      const row = byName.get(flowId, name);
      return row ? read(row) : null;
    },

    /** As `find`, for a trail that exists. */
    get: load,

    /**
     * Evaluates a trail and everything in it, and stores the verdicts.
     * @param at epoch seconds of the event that caused it (semantics 4.3, evaluated_at).
     * @throws AppError 400 for one that grew beyond its limits (domain/compliance/trail-size.ts)
     */
    evaluate(trailId: number, at: number, growth: Growth = { grows: null }): TrailStatus {
      return store(load(trailId), at, growth);
    },

    /**
     * As `evaluate`, after an ordinary record (not an override) was bound to the trail (null) or to artifacts of it and
     * nothing else changed since `find` or `get`: the facts follow from those before.
     */
    evaluateRecorded(
      trail: LoadedTrail,
      { fact, targets, grows }: { fact: AttestationFact; targets: readonly (number | null)[] } & Growth,
      at: number,
    ): TrailStatus {
      return store(
        withFact(trail, { name: fact.name, targets }, () => fact),
        at,
        { grows },
      );
    },

    /**
     * The verdicts as they would be with an override that is not recorded. Stores nothing.
     * @returns the names of the flow and the trail, the state of the trail, and that of its artifacts by their keys;
     *   null for a trail that is gone
     */
    computeOverridden(trailId: number, override: OverrideFact, at: number) {
      const names = namesOf.get(trailId);
      if (!names) return null;
      const trail = load(trailId);
      const overridden = withFact(trail, override, (previous) => ({
        name: override.name,
        type: previous?.type ?? override.type,
        attestationId: previous?.attestationId ?? null,
        overriddenAttestationId: NOT_RECORDED,
        isCompliant: override.isCompliant,
      }));
      const { rows, result } = evaluateFacts(overridden, at);
      return {
        ...names,
        before: trail.state,
        after: result.compliance_status.status,
        artifacts: new Map(
          rows.map(({ id }, index) => {
            const { state, reasons } = result.artifacts[index] as (typeof result.artifacts)[number];
            return [id, { state, reasons }];
          }),
        ),
      };
    },

    /**
     * The verdict as it would be if the trail were begun again with another template. Stores nothing.
     * @throws AppError 400 as `evaluate`
     */
    computeBegun: (trail: LoadedTrail, { template, at, grows }: { template: Template; at: number } & Growth) =>
      evaluateTrail(toBoundedFacts({ ...trail, template }, at, { grows })),

    /**
     * Evaluates an artifact that was reported without a trail, and stores the verdict and the activity of its flow.
     * @param report the expected attestations, and the compliance that the report claimed; null when it claimed none.
     * @param at epoch seconds of the report.
     */
    evaluateLegacy(
      { artifactId, flowId }: { artifactId: number; flowId: number },
      { expected, isCompliant }: { expected: readonly TemplateAttestation[]; isCompliant: boolean | null },
      at: number,
    ): State {
      const { state, reasons } = evaluateLegacyArtifact({ template: expected.map(({ name }) => name), isCompliant });
      const attestations = JSON.stringify(buildLegacyAttestationStatuses(expected));
      artifacts.setReasons(artifactId, { reasons: JSON.stringify(reasons), attestations }, at);
      artifacts.setState(artifactId, state);
      flows.touch(flowId, at, state);
      onArtifactChanged(artifactId);
      return state;
    },
  };
}

type ComputedVerdicts = ReturnType<ReturnType<typeof trailEvaluationStore>["computeVerdicts"]>;

/** A verdict in its stored form. */
type StoredTexts = { state: string; statuses: string; reasons: string };

/**
 * Compares the stored verdicts of a trail and of its artifacts with those of `computeVerdicts` for the same time.
 * @returns at most one difference of each, as a predicate; `artifact` is a public id, null for the trail itself
 */
export function findDifferences(
  trail: Pick<TrailRow, "compliance_json" | "reasons_json"> & { state: string },
  { rows, result }: ComputedVerdicts,
): { artifact: string | null; difference: string }[] {
  const { compliance_status, reasons, artifacts } = result;
  const own = describeDifference(
    "its stored compliance status differs",
    { state: trail.state, statuses: trail.compliance_json, reasons: trail.reasons_json },
    {
      state: compliance_status.status,
      statuses: JSON.stringify(compliance_status),
      reasons: JSON.stringify(reasons),
    },
  );
  const ofArtifacts = artifacts.flatMap((verdict, index) => {
    const row = rows[index] as (typeof rows)[number];
    const difference = describeDifference(
      "its stored statuses differ",
      { state: row.state, statuses: row.attestations_json, reasons: row.reasons_json },
      {
        state: verdict.state,
        statuses: JSON.stringify(verdict.attestationsStatuses),
        reasons: JSON.stringify(verdict.reasons),
      },
    );
    return difference === null ? [] : [{ artifact: row.public_id, difference }];
  });
  return [...(own === null ? [] : [{ artifact: null, difference: own }]), ...ofArtifacts];
}

/** @param statusesDiffer how a difference of the checklists is called */
function describeDifference(statusesDiffer: string, stored: StoredTexts, actual: StoredTexts): string | null {
  if (stored.state !== actual.state) return `is stored as ${stored.state}, but re-evaluates to ${actual.state}`;
  if (stored.statuses !== actual.statuses) return `${statusesDiffer} from a re-evaluation`;
  return stored.reasons === actual.reasons ? null : "its stored reasons differ from a re-evaluation";
}
