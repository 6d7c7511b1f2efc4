/**
 * The checklist of a trail as one list: what the template expects of the trail and of each artifact, and what else was
 * reported. It may have thousands of checks, of which people read a page.
 */
import { isFailing } from "./attestation.ts";
import type { AttestationStatus } from "./attestation.ts";
import type { TrailStatus } from "./trail.ts";

/** In the order of a large checklist: what fails comes first. */
export const CHECK_STATES = ["NON-COMPLIANT", "MISSING", "COMPLIANT"] as const;
export type CheckState = (typeof CHECK_STATES)[number];

type Statuses = Pick<TrailStatus, "attestations_statuses" | "artifacts_statuses">;
type ArtifactStatus = TrailStatus["artifacts_statuses"][string];
/** The artifact that a check is about, by its name in the template. */
type CheckedArtifact = { name: string; status: ArtifactStatus };

/** `artifact` null: the check is about the trail itself. */
export type ListedCheck = { artifact: CheckedArtifact | null; entry: AttestationStatus; state: CheckState };

/** Which checks are asked for. */
export type CheckFilter = { search: string; state: CheckState | null };

/**
 * In the order of the template; what is not in it follows in its group.
 * @param artifactId only the checks of this artifact and of the trail; null: all
 */
export function listChecks(
  { attestations_statuses: own, artifacts_statuses: artifacts }: Statuses,
  artifactId: string | null = null,
): ListedCheck[] {
  const checks: ListedCheck[] = own.map((entry) => toCheck(null, entry));
  for (const [name, status] of Object.entries(artifacts)) {
    if (artifactId !== null && status.artifact_id !== artifactId) continue;
    const artifact = { name, status };
    for (const entry of status.attestations_statuses) checks.push(toCheck(artifact, entry));
  }
  return checks;
}

const toCheck = (artifact: CheckedArtifact | null, entry: AttestationStatus): ListedCheck => ({
  artifact,
  entry,
  state: entry.status === "MISSING" ? "MISSING" : isFailing(entry) ? "NON-COMPLIANT" : "COMPLIANT",
});

/** The record that counts: the override in force, or the latest report; null for a missing one. */
export const countingId = ({
  overridden_attestation_id: override,
  attestation_id: id,
}: Pick<AttestationStatus, "overridden_attestation_id" | "attestation_id">): string | null => override ?? id;

/** Whether the entry is about the record: the one that counts, or the one that an override replaced. */
export const isAbout = (
  entry: Pick<AttestationStatus, "overridden_attestation_id" | "attestation_id">,
  id: string,
): boolean => entry.attestation_id === id || entry.overridden_attestation_id === id;

/** Characters of a fingerprint that are not found by chance. */
const MIN_FINGERPRINT_CHARS = 5;

/** A function that says whether the name of a check or of its artifact has the text, or its fingerprint begins so. */
function createSearch(search: string): (check: ListedCheck) => boolean {
  const text = search.trim().toLowerCase();
  const has = (name: string): boolean => name.toLowerCase().includes(text);
  return ({ entry, artifact }) => {
    if (text === "" || has(entry.attestation_name)) return true;
    if (artifact === null) return false;
    const print = artifact.status.artifact_fingerprint ?? "";
    return has(artifact.name) || (text.length >= MIN_FINGERPRINT_CHARS && print.startsWith(text));
  };
}

export const countStates = (checks: readonly ListedCheck[]): Record<CheckState, number> => {
  const counts = { "NON-COMPLIANT": 0, MISSING: 0, COMPLIANT: 0 };
  for (const { state } of checks) counts[state] += 1;
  return counts;
};

/**
 * The checks that are asked for, and how many have each state whatever state is asked for.
 * @param order `failing_first`: by state, in each as in the template. `artifact_first`: what fails comes first, in it
 *   and in the rest the checks of artifacts before those of the trail
 */
export function selectChecks(
  checks: readonly ListedCheck[],
  { search, state }: CheckFilter,
  order: "failing_first" | "template" | "artifact_first",
): { selected: ListedCheck[]; states: Record<CheckState, number> } {
  const found = checks.filter(createSearch(search));
  const selected = state === null ? found : found.filter((check) => check.state === state);
  const states = countStates(found);
  if (order === "artifact_first") return { selected: selected.sort(ofArtifactFirst), states };
  if (order === "template") return { selected, states };
  return { selected: CHECK_STATES.flatMap((one) => selected.filter((check) => check.state === one)), states };
}

const ofArtifactFirst = (a: ListedCheck, b: ListedCheck): number =>
  Number(b.state === "NON-COMPLIANT") - Number(a.state === "NON-COMPLIANT") ||
  Number(a.artifact === null) - Number(b.artifact === null);

/** Why a trail is not compliant: how many checks and artifacts, and the first of them. */
type ChecklistReasons = {
  failing: ListedCheck[];
  /** Of the trail and of reported artifacts; of one that was not, the artifact says it. */
  missing: ListedCheck[];
  missingArtifacts: string[];
};

export function findReasons(status: Statuses, checks: readonly ListedCheck[]): ChecklistReasons {
  return {
    failing: checks.filter(({ state }) => state === "NON-COMPLIANT"),
    missing: checks.filter(({ state, artifact }) => state === "MISSING" && artifact?.status.status !== "MISSING"),
    missingArtifacts: Object.entries(status.artifacts_statuses).flatMap(([name, artifact]) =>
      artifact.status === "MISSING" ? [name] : [],
    ),
  };
}

/** A function that says as which type a missing check was reported instead; null where nothing of its name was. */
export function createReportedTypes(checks: readonly ListedCheck[]): (check: ListedCheck) => string | null {
  const ofName = (): Map<string, ListedCheck[]> =>
    Map.groupBy(
      checks.filter(({ entry }) => entry.unexpected),
      ({ entry }) => entry.attestation_name,
    );
  let reported: Map<string, ListedCheck[]> | null = null;
  return ({ state, artifact, entry }) => {
    if (state !== "MISSING") return null;
    const same = (reported ??= ofName()).get(entry.attestation_name) ?? [];
    return same.findLast((one) => one.artifact?.name === artifact?.name)?.entry.attestation_type ?? null;
  };
}
