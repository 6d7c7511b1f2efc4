/**
 * What one trail may have. Each report to a trail evaluates all of it and stores the verdict, on the thread that serves
 * everybody: with artifacts and attestations at their limits some 35 ms.
 */
import type { TrailFacts } from "./trail.ts";

export const MAX_TRAIL_ARTIFACTS = 2_000;
/**
 * Expected and other attestations, by name: those of the trail, and those of each of its artifacts. A template of an
 * earlier version may expect more (flow-template/template.ts): its trails may have what it expects, and no others.
 */
export const MAX_TRAIL_CHECKS = 10_000;
/** Earlier attestations that a new artifact gets at once. Binding as many and the evaluation take some 15 ms. */
export const MAX_WAITING_ATTESTATIONS = 1_000;

const REMEDY = "which is the most that it may have. Report to another trail";

/**
 * Why a trail is too large; null if it is not. Evaluates nothing: artifacts with one long template multiply.
 * @param name of the trail, for the text
 */
export function findTrailSizeProblem(
  name: string,
  { template, trailAttestations, artifacts }: Pick<TrailFacts, "template" | "trailAttestations" | "artifacts">,
): string | null {
  if (artifacts.length > MAX_TRAIL_ARTIFACTS) return `Trail '${name}' has ${MAX_TRAIL_ARTIFACTS} artifacts, ${REMEDY}`;
  const expected = new Map(template.trail.artifacts.map((artifact) => [artifact.name, namesOf(artifact.attestations)]));
  const ofTrail = namesOf(template.trail.attestations);
  const most = Math.max(MAX_TRAIL_CHECKS, sumSizes([ofTrail, ...expected.values()]));
  let checks = countNames(ofTrail, trailAttestations);
  const missing = new Set(expected.keys());
  for (const { referenceName, attestations } of artifacts) {
    checks += countNames(expected.get(referenceName ?? "") ?? NONE, attestations);
    missing.delete(referenceName ?? "");
  }
  checks += sumSizes([...missing].map((each) => expected.get(each) ?? NONE));
  return checks > most
    ? `Trail '${name}' and its artifacts would have more than ${most} attestations of different names, ` +
        `expected or reported, ${REMEDY}`
    : null;
}

/** Why an artifact cannot be recorded that more than MAX_WAITING_ATTESTATIONS are for. @param name of the trail */
export const tooManyWaiting = (name: string): string =>
  `More than ${MAX_WAITING_ATTESTATIONS} earlier attestations of trail '${name}' would be bound to this artifact. ` +
  "Report it to another trail";

const NONE: ReadonlySet<string> = new Set();
const namesOf = (attestations: readonly { name: string }[]): Set<string> =>
  new Set(attestations.map(({ name }) => name));

const sumSizes = (sets: readonly ReadonlySet<string>[]): number => sets.reduce((sum, { size }) => sum + size, 0);

const countNames = (expected: ReadonlySet<string>, reported: readonly { name: string }[]): number =>
  reported.reduce((count, { name }) => (expected.has(name) ? count : count + 1), expected.size);
