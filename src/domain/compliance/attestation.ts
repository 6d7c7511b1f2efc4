// Status entries: the expected attestations of one level (a trail, or one artifact in it) against the reported ones.
import { ANY_TYPE, SYSTEM_LABELS, storedLabelOf } from "../attestation/kinds.ts";
import type { TemplateAttestation } from "../flow-template/template.ts";

/**
 * The latest record of one name on one level, with overrides applied (semantics 3.5, 3.6). `type` is the stored label
 * of the original, or the type that an override gave it if there was none; `attestationId` is the id of the original or
 * null, `overriddenAttestationId` the id of the override in force or null, `isCompliant` the effective verdict.
 */
export type AttestationFact = {
  name: string;
  type: string;
  attestationId: string | null;
  overriddenAttestationId: string | null;
  isCompliant: boolean;
};

/** One entry of a checklist, in the API's shape (semantics 4.1). A MISSING one has null ids and a null verdict. */
export type AttestationStatus = {
  attestation_name: string;
  attestation_type: string;
  attestation_id: string | null;
  overridden_attestation_id: string | null;
  status: "COMPLETE" | "MISSING";
  is_compliant: boolean | null;
  unexpected: boolean;
};

/**
 * Whether a record of type `reported` may fill a slot that expects `expected` (semantics 4.1). `reported` is a stored
 * label, or the type given by an override whose original is unknown: there `custom` and `custom:*` mean any custom
 * type, and `system:*` any type that the server defines (semantics 3.6).
 */
export function isTypeAccepted(expected: string, reported: string): boolean {
  if (expected === ANY_TYPE || expected === reported) return true;
  const label = storedLabelOf(expected);
  if (SYSTEM_LABELS.includes(label)) return storedLabelOf(reported) === label || reported === "system:*";
  return expected.startsWith("custom:") && (reported === "custom" || reported === "custom:*");
}

/**
 * The entries of one level (semantics 4.1): the expected ones in template order, then the unexpected ones in the order
 * of `facts`. A record of the wrong type leaves its slot MISSING and is listed as unexpected.
 * @param facts at most one per name
 */
export function buildAttestationStatuses(
  expected: readonly TemplateAttestation[],
  facts: readonly AttestationFact[],
): AttestationStatus[] {
  const byName = new Map(facts.map((fact) => [fact.name, fact]));
  const placed = new Set<AttestationFact>();
  const slots = expected.map(({ name, type }): AttestationStatus => {
    const fact = byName.get(name);
    if (fact === undefined || !isTypeAccepted(type, fact.type)) return missingEntry(name, type);
    placed.add(fact);
    return completeEntry(fact, EXPECTED);
  });
  const others = facts.filter((fact) => !placed.has(fact)).map((fact) => completeEntry(fact, UNEXPECTED));
  return [...slots, ...others];
}

/** Why entries are not compliant: one sentence in plain English per entry that fails or is missing. */
export type Causes = { failing: string[]; missing: string[] };

/**
 * Collects the causes in the entries of one level.
 * @param owner how the sentences refer to the level, such as `the trail` or `artifact 'backend'`
 */
export function collectCauses(entries: readonly AttestationStatus[], owner: string): Causes {
  const causes: Causes = { failing: [], missing: [] };
  const unexpectedTypes = new Map(
    entries.filter(({ unexpected }) => unexpected).map((entry) => [entry.attestation_name, entry.attestation_type]),
  );
  for (const entry of entries) {
    const name = `Attestation '${entry.attestation_name}' of ${owner}`;
    if (isFailing(entry)) {
      const overridden =
        entry.overridden_attestation_id === null ? "is not compliant" : "was overridden as not compliant";
      causes.failing.push(`${name} ${overridden}${entry.unexpected ? ", and is not in the template" : ""}`);
    } else if (entry.status === "MISSING") {
      const reported = unexpectedTypes.get(entry.attestation_name);
      const problem = reported === undefined ? "is missing" : `was reported as '${reported}'`;
      causes.missing.push(`${name} ${problem}; the template expects type '${entry.attestation_type}'`);
    }
  }
  return causes;
}

/** A sentence of `collectCauses`, taken apart. */
type AttestationCause = {
  name: string;
  /** The artifact in the sentence: a reference name, or a fingerprint; null for the trail. */
  artifact: string | null;
  /** `mistyped`: reported, but as another type than the template expects. */
  problem: "missing" | "mistyped" | "non_compliant" | "overridden";
  /** The type that the template expects; null for a failure, whose sentence does not name it. */
  expectedType: string | null;
  unexpected: boolean;
};

// Names and types have no quotation marks, so the pattern is exact.
const CAUSE = new RegExp(
  "^Attestation '(?<name>[^']+)' of (?:(?<trail>the trail)|the artifact|artifact '(?<artifact>[^']+)') " +
    "(?:(?<failure>is not compliant|was overridden as not compliant)(?<unexpected>, and is not in the template)?|" +
    "(?:(?<missing>is missing)|was reported as '[^']*'); the template expects type '(?<type>[^']+)')$",
);

/**
 * Reads a sentence of `collectCauses`; null for any other sentence. Evaluations store the sentences only, so this is
 * how an explanation of an old verdict knows what they are about.
 */
export function readCause(sentence: string): AttestationCause | null {
  const parts = CAUSE.exec(sentence)?.groups;
  if (!parts) return null;
  const { name = "", trail, artifact = "", failure, unexpected, missing, type = null } = parts;
  const missingOrMistyped = missing === undefined ? "mistyped" : "missing";
  const failing = failure === "is not compliant" ? "non_compliant" : "overridden";
  return {
    name,
    artifact: trail === undefined ? artifact : null,
    problem: failure === undefined ? missingOrMistyped : failing,
    expectedType: type,
    unexpected: unexpected !== undefined,
  };
}

/** Whether the entry counts as a failure, expected or not (semantics 4.1, 4.2). */
export function isFailing(entry: AttestationStatus): boolean {
  return entry.status === "COMPLETE" && entry.is_compliant !== true;
}

function missingEntry(name: string, type: string): AttestationStatus {
  return {
    attestation_name: name,
    attestation_type: type,
    attestation_id: null,
    overridden_attestation_id: null,
    status: "MISSING",
    is_compliant: null,
    unexpected: false,
  };
}

const EXPECTED = { unexpected: false };
const UNEXPECTED = { unexpected: true };

function completeEntry(fact: AttestationFact, { unexpected }: { unexpected: boolean }): AttestationStatus {
  return {
    attestation_name: fact.name,
    attestation_type: fact.type,
    attestation_id: fact.attestationId,
    overridden_attestation_id: fact.overriddenAttestationId,
    status: "COMPLETE",
    is_compliant: fact.isCompliant,
    unexpected,
  };
}
