/**
 * Why an artifact or a trail is not compliant. A verdict has symptoms: several rules may fail because of one
 * attestation. Here each cause is named once, with the records and places that it is about; cause-words.ts says it to
 * people. Pure: everything follows from stored facts and verdicts.
 */
import type { AttestationCandidate, PolicyVerdict, Resolution, RuleVerdict } from "../policy/evaluate.ts";
import { describeOutcome } from "../policy/reasons.ts";
import { typeWordOf } from "../attestation/kinds.ts";
import { readCause } from "./attestation.ts";
import type { AttestationStatus } from "./attestation.ts";
import type { FlowRecord } from "./environment.ts";
import type { TrailStatus } from "./trail.ts";

/**
 * - `no_provenance`: the artifact was reported to no flow; `no_trail`: to a flow, but to no trail in it.
 * - `missing_attestation`, `non_compliant_attestation`: of the artifact or its trail.
 * - `missing_artifact`: the template expects it.
 * - `reported_non_compliant`: the report of the artifact itself claimed so.
 * - `failed_condition`: the policy has an expression that could not be evaluated.
 */
export const CAUSE_KINDS = [
  "no_provenance",
  "no_trail",
  "missing_attestation",
  "non_compliant_attestation",
  "missing_artifact",
  "reported_non_compliant",
  "failed_condition",
] as const;

/** What a cause or remedy is about; null where it is about none, or any. */
export type CauseSubject = {
  flow: string | null;
  trail: string | null;
  /** Name of the attestation, or of the missing artifact. */
  name: string | null;
  /** Type of the attestation, as templates and policies name it. */
  type: string | null;
  /** Control that the decision is for. */
  control: string | null;
  /** The record in force: the attestation, or the override of it. */
  attestation_id: string | null;
};

/** `words` is a sentence without a full stop. `level`: whether the attestation belongs to the artifact or the trail. */
export type VerdictCause = CauseSubject & {
  kind: (typeof CAUSE_KINDS)[number];
  words: string;
  level: "artifact" | "trail" | null;
};

export const NOTHING: CauseSubject = {
  flow: null,
  trail: null,
  name: null,
  type: null,
  control: null,
  attestation_id: null,
};

/** What causes are read from. */
export type CauseFacts = Pick<FlowRecord, "flow" | "trail" | "reasons" | "candidates">;

/**
 * The causes of a verdict, each once: first those in the trails, then those that only policies know.
 * @param flows those of the facts that the verdicts rest on, in their order
 */
export function listCauses(verdicts: readonly PolicyVerdict[], flows: readonly CauseFacts[]): VerdictCause[] {
  const failing = verdicts.flatMap(({ rules }) => rules.filter(({ satisfied }) => satisfied === false));
  const ofTrails = failing.filter(({ rule }) => rule.type === "trail-compliance");
  const others = failing.filter(({ rule }) => rule.type !== "trail-compliance");
  return uniqueCauses([...ofTrails, ...others].flatMap((rule) => causesOfRule(rule, flows)));
}

/** The causes of an unsatisfied rule in all flows, with repetitions. */
export function causesOfRule(verdict: RuleVerdict, flows: readonly CauseFacts[]): VerdictCause[] {
  return verdict.resolutions.flatMap((resolution, index) => causesOfResolution(verdict, resolution, flows[index]));
}

function causesOfResolution(
  { rule }: RuleVerdict,
  resolution: Resolution,
  flow: CauseFacts | undefined,
): readonly VerdictCause[] {
  const { type, context, attestationIds } = resolution;
  if (type === "rule_satisfied" || type === "rule_not_applicable") return [];
  const control = rule.type === "attestation" ? rule.definition.for_control : null;
  const own: VerdictCause = {
    ...NOTHING,
    kind: "no_provenance",
    words: capitalized(describeOutcome(rule, resolution)),
    flow: context.flow_name,
    trail: context.trail_name,
    control,
    level: null,
  };
  if (context.evaluation_error !== undefined) return [{ ...own, kind: "failed_condition" }];
  if (!flow) return [{ ...own, control: null }];
  if (rule.type === "trail-compliance") return causesInTrail(flow);
  if (type === "legacy_flow") return [{ ...own, control: null, kind: "no_trail" }];
  if (rule.type !== "attestation") return [own];
  const { name, type: expected } = rule.definition;
  const place = `trail '${flow.trail ?? ""}' of flow '${flow.flow}'`;
  const about = { ...own, name: name === "*" ? null : name, type: expected === "*" ? null : expected };
  if (attestationIds.length === 0)
    return [{ ...about, kind: "missing_attestation", words: `${describeAttestation(about)} is missing in ${place}` }];
  return attestationIds.map((id) => {
    const record = flow.candidates.find(({ attestationId }) => attestationId === id);
    const found = record ? { ...about, ...aboutRecord(record) } : { ...about, attestation_id: id };
    const words = `${describeAttestation(found)} in ${place} is not compliant`;
    return { ...found, kind: "non_compliant_attestation", words };
  });
}

const aboutRecord = ({ attestationId, name, type, control, level }: AttestationCandidate) => ({
  attestation_id: attestationId,
  name,
  type: typeWordOf(type),
  control,
  level,
});

/** The causes in the trail of a record, or in the flow of one without a trail. */
function causesInTrail({ flow, trail, reasons, candidates }: CauseFacts): VerdictCause[] {
  // The latest of a name and level is in force.
  const inForce = new Map(candidates.map((candidate) => [`${candidate.level} ${candidate.name}`, candidate]));
  return reasons.map((reason) =>
    causeOfReason(reason, { flow, trail, findRecord: (name, level) => inForce.get(`${level} ${name}`) }),
  );
}

/**
 * The cause that a reason of a trail, or of an artifact in it, states.
 * @param place `findRecord`: the record in force under a name; for an artifact in the reason, of that artifact
 */
export function causeOfReason(
  reason: string,
  {
    flow,
    trail,
    findRecord,
  }: {
    flow: string;
    trail: string | null;
    findRecord(
      name: string,
      level: "artifact" | "trail",
      artifact: string | null,
    ): Pick<AttestationCandidate, "attestationId" | "type" | "control"> | undefined;
  },
): VerdictCause {
  const about = { ...NOTHING, flow, trail, words: reason, level: null };
  const cause = readCause(reason);
  if (!cause) {
    const missing = /^Artifact '([^']+)' is missing$/.exec(reason)?.[1];
    if (missing !== undefined) return { ...about, kind: "missing_artifact", name: missing };
    const legacy = /^Attestation '([^']+)' of the artifact is missing$/.exec(reason)?.[1];
    // An attestation can only be bound to an artifact in a trail.
    return legacy === undefined ? { ...about, kind: "reported_non_compliant" } : { ...about, kind: "no_trail" };
  }
  const level = cause.artifact === null ? "trail" : "artifact";
  const record = findRecord(cause.name, level, cause.artifact);
  const isMissing = cause.problem === "missing" || cause.problem === "mistyped";
  return {
    ...about,
    kind: isMissing ? "missing_attestation" : "non_compliant_attestation",
    name: cause.name,
    type: isMissing ? cause.expectedType : record ? typeWordOf(record.type) : null,
    control: (isMissing ? null : record?.control) ?? null,
    attestation_id: (isMissing ? null : record?.attestationId) ?? null,
    level,
  };
}

/**
 * The causes that reasons of a trail, or of an artifact in it, state: one for each, in their order.
 * @param place `checklists`: the entries of the trail (null) or of an artifact, by the name in the reasons
 */
export function causesOfReasons(
  reasons: readonly string[],
  {
    checklists,
    ...place
  }: { flow: string; trail: string | null; checklists(artifact: string | null): readonly AttestationStatus[] },
): VerdictCause[] {
  const indexes = new Map<string | null, ReadonlyMap<string, AttestationStatus>>();
  const entriesOf = (artifact: string | null): ReadonlyMap<string, AttestationStatus> => {
    const known = indexes.get(artifact);
    if (known) return known;
    // The first of a name counts: expected entries come before the others.
    const complete = checklists(artifact).filter(({ status }) => status === "COMPLETE");
    const index = new Map(complete.toReversed().map((entry) => [entry.attestation_name, entry]));
    indexes.set(artifact, index);
    return index;
  };
  const findRecord = (name: string, _level: "artifact" | "trail", artifact: string | null) => {
    const entry = entriesOf(artifact).get(name);
    const id = entry?.overridden_attestation_id ?? entry?.attestation_id;
    return entry && id ? { attestationId: id, type: entry.attestation_type, control: null } : undefined;
  };
  return reasons.map((reason) => causeOfReason(reason, { ...place, findRecord }));
}

/** The checklists of a trail, for `causesOfReasons`. */
export const checklistsOf =
  (status: Pick<TrailStatus, "attestations_statuses" | "artifacts_statuses">) =>
  (artifact: string | null): readonly AttestationStatus[] =>
    artifact === null
      ? status.attestations_statuses
      : Object.hasOwn(status.artifacts_statuses, artifact)
        ? (status.artifacts_statuses[artifact]?.attestations_statuses ?? [])
        : [];

/** `junit attestation 'tests'`, as far as type and name are known. */
export function describeKind({ type, name, control }: Pick<CauseSubject, "type" | "name" | "control">): string {
  const isKnown = type !== null && type !== "*";
  const words = [isKnown ? (type === "decision" ? "decision" : `${type} attestation`) : "attestation"];
  if (name !== null) words.push(`'${name}'`);
  if (control !== null) words.push(`for control '${control}'`);
  return words.join(" ");
}

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const describeAttestation = (about: Pick<CauseSubject, "type" | "name" | "control">): string =>
  about.name !== null || about.control !== null ? `The ${describeKind(about)}` : `A ${describeKind(about)}`;

/** Causes without repetitions. A record is one cause, and so is an attestation that is missing in one trail. */
export function uniqueCauses(causes: readonly VerdictCause[]): VerdictCause[] {
  /** Types of the causes with a key; a trail may have thousands of causes, so they are not compared one by one. */
  const known = new Map<string, (string | null)[]>();
  const unique = causes.filter((cause) => {
    const { type, name } = cause;
    const [key, ofType] = identityOf(cause);
    const types = known.get(key) ?? [];
    const isAny = (one: string | null): boolean => one === null || one === "*";
    // The template names what is missing, and a rule may accept any name of that type.
    const isKnown =
      ofType === null
        ? types.length > 0
        : name === null
          ? known.has(ofType)
          : types.some((one) => one === type || isAny(one) || isAny(type));
    if (isKnown) return false;
    known.set(key, [...types, type]);
    if (ofType !== null && ofType !== key) known.set(ofType, [type]);
    return true;
  });
  // What is missing in one trail stands together.
  const placeOf = ({ kind, flow, trail, attestation_id: id }: VerdictCause): string =>
    JSON.stringify([kind, flow, trail, id]);
  return [...Map.groupBy(unique, placeOf).values()].flat();
}

/**
 * What makes two causes the same one, as texts to compare: for an attestation without a record, its name, and the type
 * that stands for every name.
 */
function identityOf(cause: VerdictCause): [key: string, ofType: string | null] {
  const { kind, flow, trail, attestation_id: id, name, type, control, words } = cause;
  const textOf = (...parts: readonly (string | null)[]): string => JSON.stringify([kind, flow, trail, id, ...parts]);
  if (kind === "failed_condition" || kind === "reported_non_compliant") return [textOf(words), null];
  if (kind === "no_provenance" || kind === "no_trail" || id !== null) return [textOf(), null];
  if (kind === "missing_artifact") return [textOf(name), null];
  return [textOf(control, "name", name), textOf(control, "type", type)];
}
