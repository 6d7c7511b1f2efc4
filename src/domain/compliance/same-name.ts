/** What to say of an artifact that was reported to no flow while its name was, with another fingerprint. */

/** The latest record of a name. */
export type SameNameRecord = {
  flow: string;
  /** null if it was reported without a trail. */
  trail: string | null;
  fingerprint: string;
  /** Public id of the record. */
  artifactId: string;
};

/** What it usually means, in sentences: pipelines often report the digest of the index, clusters that of a platform. */
export const SAME_NAME_MEANING =
  "Either another build of it runs, or it is an image for several platforms, which has two digests: that of its " +
  "index and that of the manifest of one platform. Report the fingerprint that the environment reports.";

/** A sentence without a full stop. */
export function describeSameName({ flow, trail, fingerprint }: Omit<SameNameRecord, "artifactId">): string {
  const place = trail === null ? `flow '${flow}'` : `trail '${trail}' of flow '${flow}'`;
  return `An artifact of this name was reported to ${place} with another fingerprint: ${fingerprint}`;
}
