/**
 * Where the evidence of a data directory is kept, and how it is opened there: in the directory itself, or on
 * S3-compatible storage. The database records the place, because its rows name files that are in that one and in no
 * other.
 */
import { join } from "node:path";
import { getCACertificates } from "node:tls";
import { IN_DIRECTORY } from "../store/flows/evidence-location.ts";
import type { Store } from "../store/index.ts";
import type { S3Store } from "./s3-store.ts";
import type { Hasher } from "./hashing.ts";
import { openLocalStore } from "./local-store.ts";
import type { EvidenceStore } from "./local-store.ts";

/** What it takes to reach evidence that is kept elsewhere. */
export type EvidenceAccess = {
  /** The configured storage, s3://BUCKET/PREFIX; null where none is. */
  configured: string | null;
  endpoint: string | null;
  region: string;
  accessKey: string | null;
  secretKey: string | null;
  sessionToken: string | null;
  /** Certificates of authorities to trust beside the usual ones; null: only those. */
  caCertificates: readonly string[] | null;
};

/** The configuration and the database do not agree on where the evidence is, or keys are missing. For the operator. */
export class EvidenceLocationError extends Error {
  override readonly name = "EvidencePlaceError";
  readonly code = "EVIDENCE_PLACE";
}

/**
 * `remote` is the same vault where it is on storage elsewhere, with what only that one can do; null for the directory.
 */
export type OpenedEvidence = { store: EvidenceStore; remote: S3Store | null };

/** Where the evidence is, and what it takes to open it there; can be handed to a thread. */
export type EvidenceStoreConfig = {
  location: string;
  paths: { evidence: string; staging: string };
  access: EvidenceAccess;
};

/**
 * Opens the evidence at `place` (`directory` or an s3:// URL) of a data directory with these `parts`. Nothing is asked
 * of the storage yet.
 * @param ids gives names that are unique over restarts
 * @param hashing of what is received; here where it is not given
 * @throws EvidencePlaceError without keys
 */
export async function openEvidenceStore(
  { location: place, paths: { evidence, staging }, access }: EvidenceStoreConfig,
  ids: () => string,
  hashing?: Hasher,
): Promise<OpenedEvidence> {
  if (place === IN_DIRECTORY)
    return { store: openLocalStore({ directory: evidence, staging, ids, hashing }), remote: null };
  const { accessKey, secretKey, caCertificates: authorities } = access;
  if (accessKey === null || secretKey === null) {
    throw new EvidenceLocationError(
      `no keys for the evidence on ${place}: give --s3-access-key and --s3-secret-key, their ASSAY_ variables, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`,
    );
  }
  // The client library is large: whoever does not need it does not load it.
  const { openS3Store: openS3Vault, parseS3Url: s3Place } = await import("./s3-store.ts");
  const { bucket, prefix } = s3Place(place);
  const trusted = authorities && [...getCACertificates("default"), ...authorities];
  const remote = openS3Vault({
    settings: {
      bucket,
      endpoint: access.endpoint,
      region: access.region,
      accessKey,
      secretKey,
      sessionToken: access.sessionToken,
      caCertificates: trusted,
    },
    prefix,
    staging,
    ids,
    hashing,
  });
  return { store: remote, remote };
}

/**
 * The parts with which evidence at `place` is opened to be read or swept: nothing will be staged, so nothing is made in
 * the data directory, which may lie where nobody can write.
 */
export function readOnlyPaths(directory: string, place: string): EvidenceStoreConfig["paths"] {
  const evidence = join(directory, "evidence");
  return { evidence, staging: place === IN_DIRECTORY ? evidence : directory };
}

/**
 * The place that both the database and the configuration mean; `configured` null is the directory.
 * @throws EvidencePlaceError where they differ
 */
export function resolveEvidenceLocation(recorded: string | null, configured: string | null): string {
  const location = configured ?? IN_DIRECTORY;
  if (recorded === null || recorded === location) return location;
  const told = (one: string): string => (one === IN_DIRECTORY ? "the data directory" : one);
  const option = recorded === IN_DIRECTORY ? "leave out --evidence-store" : `give --evidence-store ${recorded}`;
  throw new EvidenceLocationError(
    `the evidence is kept in ${told(recorded)}, but ${configured === null ? "no --evidence-store is given" : `--evidence-store is ${configured}`}: ` +
      `${option} (or set ASSAY_EVIDENCE_STORE, or evidence_store in the configuration file, accordingly), or move it to ${told(location)} with assay vault migrate --to ${location}`,
  );
}

/**
 * The place for a server to use, which the database knows from now on. As long as no attestation names a file any place
 * will do.
 * @throws EvidencePlaceError where the database records another one
 */
export function bindEvidenceLocation({ evidenceLocation }: Store, configured: string | null): string {
  const recorded = evidenceLocation.findCurrent();
  const location = resolveEvidenceLocation(evidenceLocation.hasEvidence() ? recorded : null, configured);
  // Nothing recorded means the directory: a server that keeps evidence there starts on a full disk too.
  if (location !== (recorded ?? IN_DIRECTORY)) evidenceLocation.set(location);
  return location;
}
