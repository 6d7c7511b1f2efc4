/**
 * Why an artifact or a trail is not compliant, and what would make it compliant, for people and pages. A verdict has
 * symptoms: several rules may fail because of one attestation. Here each cause is named once, with the records and
 * places that it is about. Pure: everything follows from stored facts and verdicts.
 */
import type { AttestationCandidate, PolicyVerdict, Resolution, RuleVerdict } from "../policy/evaluate.ts";
import { describeOutcome } from "../policy/reasons.ts";
import { typeWordOf } from "../attestation/kinds.ts";
import { readCause } from "./attestation.ts";
import type { FlowRecord } from "./environment.ts";

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
type About = {
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
type Cause = About & {
  kind: (typeof CAUSE_KINDS)[number];
  words: string;
  level: "artifact" | "trail" | null;
};

/**
 * - `report_artifact`: report it to the flow and trail.
 * - `report_attestation`: report a missing attestation; `fix_attestation`: report it again after mending what it found;
 *   `override_attestation`: override the record with a reason.
 * - `make_trail_compliant`: everything that its template expects; remedies for each part of it follow.
 * - `correct_policy`: upload a version whose condition can be evaluated.
 * - `allowlist`: allow the artifact in the environment, with a reason.
 */
export const REMEDY_KINDS = [
  "report_artifact",
  "report_attestation",
  "fix_attestation",
  "override_attestation",
  "make_trail_compliant",
  "correct_policy",
  "allowlist",
] as const;

/** `words` is a sentence in the imperative without a full stop. `fingerprint`: the artifact to report or to attest. */
type Remedy = About & { kind: (typeof REMEDY_KINDS)[number]; words: string; fingerprint: string | null };

const NOTHING: About = { flow: null, trail: null, name: null, type: null, control: null, attestation_id: null };

/**
 * The causes of a verdict, each once: first those in the trails, then those that only policies know.
 * @param flows those of the facts that the verdicts rest on, in their order
 */
export function listCauses(verdicts: readonly PolicyVerdict[], flows: readonly FlowRecord[]): Cause[] {
  const failing = verdicts.flatMap(({ rules }) => rules.filter(({ satisfied }) => satisfied === false));
  const ofTrails = failing.filter(({ rule }) => rule.type === "trail-compliance");
  const others = failing.filter(({ rule }) => rule.type !== "trail-compliance");
  return uniqueCauses([...ofTrails, ...others].flatMap((rule) => causesOfRule(rule, flows)));
}

/** What would satisfy a rule that is not satisfied: all of these, where one attestation has alternatives. */
export function listRemedies(
  rule: RuleVerdict,
  { flows, fingerprint }: { flows: readonly FlowRecord[]; fingerprint: string },
): Remedy[] {
  if (rule.satisfied !== false) return [];
  const trails = rule.resolutions.flatMap((resolution, index): Remedy[] => {
    const flow = flows[index];
    return resolution.type === "non_compliant_in_trail" && flow && resolution.context.evaluation_error === undefined
      ? [
          {
            ...NOTHING,
            kind: "make_trail_compliant",
            words: `Make the artifact COMPLIANT in trail '${flow.trail ?? ""}' of flow '${flow.flow}'`,
            flow: flow.flow,
            trail: flow.trail,
            fingerprint,
          },
        ]
      : [];
  });
  const causes = uniqueCauses(causesOfRule(rule, flows));
  return [...trails, ...causes.flatMap((cause) => remediesFor(cause, fingerprint)), allowlisting(fingerprint)];
}

/** The remedy that works for an artifact whatever its policies are. */
const allowlisting = (fingerprint: string): Remedy => ({
  ...NOTHING,
  kind: "allowlist",
  words: "Or add the artifact to the allowlist of the environment, with a reason",
  fingerprint,
});

/** The causes of an unsatisfied rule in all flows, with repetitions. */
function causesOfRule(verdict: RuleVerdict, flows: readonly FlowRecord[]): Cause[] {
  return verdict.resolutions.flatMap((resolution, index) => causesOfResolution(verdict, resolution, flows[index]));
}

function causesOfResolution(
  { rule }: RuleVerdict,
  resolution: Resolution,
  flow: FlowRecord | undefined,
): readonly Cause[] {
  const { type, context, attestationIds } = resolution;
  if (type === "rule_satisfied" || type === "rule_not_applicable") return [];
  const control = rule.type === "attestation" ? rule.definition.for_control : null;
  const cause: Cause = {
    ...NOTHING,
    kind: "no_provenance",
    words: capitalized(describeOutcome(rule, resolution)),
    flow: context.flow_name,
    trail: context.trail_name,
    control,
    level: null,
  };
  if (context.evaluation_error !== undefined) return [{ ...cause, kind: "failed_condition" }];
  if (!flow) return [{ ...cause, control: null }];
  if (rule.type === "trail-compliance") return causesInTrail(flow);
  if (type === "legacy_flow") return [{ ...cause, control: null, kind: "no_trail" }];
  if (rule.type !== "attestation") return [cause];
  const { name, type: expected } = rule.definition;
  const place = `trail '${flow.trail ?? ""}' of flow '${flow.flow}'`;
  const about = { ...cause, name: name === "*" ? null : name, type: expected === "*" ? null : expected };
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
const causesInTrail = ({ flow, trail, reasons, candidates }: FlowRecord): Cause[] =>
  reasons.map((reason) =>
    causeOfReason(reason, {
      flow,
      trail,
      findRecord: (name, level) =>
        candidates.filter((candidate) => candidate.name === name && candidate.level === level).at(-1),
    }),
  );

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
): Cause {
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

/** What would remove a cause. @param fingerprint the artifact that is to be compliant, null for a trail as a whole */
export function remediesFor(cause: Cause, fingerprint: string | null): Remedy[] {
  const { kind, flow, trail, name } = cause;
  const about = { ...NOTHING, flow, trail, name, type: cause.type, control: cause.control };
  const of = cause.level === "trail" ? null : fingerprint;
  const target = of === null ? "" : " for the artifact";
  const place = flow === null ? "" : ` ${trail === null ? "in" : `in trail '${trail}' of`} flow '${flow}'`;
  const one = (remedy: Remedy["kind"], words: string): Remedy => ({ ...about, kind: remedy, words, fingerprint: of });
  switch (kind) {
    case "no_provenance":
      return [one("report_artifact", "Report the artifact to a trail of the flow that builds it")];
    case "no_trail":
      return [one("report_artifact", `Report the artifact to a trail of flow '${flow ?? ""}'`)];
    case "reported_non_compliant":
      return [one("report_artifact", `Report the artifact to a trail of flow '${flow ?? ""}' as compliant`)];
    case "missing_artifact":
      return [{ ...one("report_artifact", `Report artifact '${name ?? ""}'${place}`), fingerprint: null }];
    case "failed_condition":
      return [one("correct_policy", `Correct the condition of the policy: ${cause.words}`)];
    case "missing_attestation":
      return [one("report_attestation", `Report a compliant ${describeKind(cause)}${target}${place}`)];
    case "non_compliant_attestation": {
      const { attestation_id } = cause;
      const what = describeKind(cause);
      return [
        {
          ...one("fix_attestation", `Mend what the ${what} found, and report it again${target}${place}`),
          attestation_id,
        },
        { ...one("override_attestation", `Or override the ${what}${place}, with a reason`), attestation_id },
      ];
    }
  }
}

/** `junit attestation 'tests'`, as far as type and name are known. */
function describeKind({ type, name, control }: Pick<About, "type" | "name" | "control">): string {
  const isKnown = type !== null && type !== "*";
  const words = [isKnown ? (type === "decision" ? "decision" : `${type} attestation`) : "attestation"];
  if (name !== null) words.push(`'${name}'`);
  if (control !== null) words.push(`for control '${control}'`);
  return words.join(" ");
}

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const describeAttestation = (about: Pick<About, "type" | "name" | "control">): string =>
  about.name !== null || about.control !== null ? `The ${describeKind(about)}` : `A ${describeKind(about)}`;

/** Causes without repetitions. A record is one cause, and so is an attestation that is missing in one trail. */
function uniqueCauses(causes: readonly Cause[]): Cause[] {
  const found = new Map<string, Cause[]>();
  for (const cause of causes) {
    const { kind, flow, trail, attestation_id } = cause;
    const key = JSON.stringify([kind, flow, trail, attestation_id]);
    const similar = found.get(key) ?? [];
    if (similar.some((other) => isSameCause(other, cause))) continue;
    found.set(key, [...similar, cause]);
  }
  return [...found.values()].flat();
}

/** For causes of one kind in one place, about the same record or none. */
function isSameCause(known: Cause, { kind, attestation_id, name, type, control, words }: Cause): boolean {
  if (kind === "failed_condition" || kind === "reported_non_compliant") return known.words === words;
  if (kind === "no_provenance" || kind === "no_trail" || attestation_id !== null) return true;
  if (kind === "missing_artifact") return known.name === name;
  if (known.control !== control) return false;
  const isAny = (one: string | null): boolean => one === null || one === "*";
  const hasSameType = known.type === type || isAny(known.type) || isAny(type);
  // The template names what is missing, and a rule may accept any name of that type.
  return name === null ? known.type === type : known.name === name && hasSameType;
}
