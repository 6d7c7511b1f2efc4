/**
 * Where the evidence of a data directory is stored, and how it is opened there: in the directory itself, or on
 * S3-compatible storage. The database records the location, because its rows name files that exist there and nowhere
 * else.
 */
import { dirname, join } from "node:path";
import { getCACertificates } from "node:tls";
import { IN_DIRECTORY } from "../store/attestations/evidence-location.ts";
import { findOwner } from "../store/db/state-directory.ts";
import type { Store } from "../store/index.ts";
import { diskOf } from "./disk.ts";
import type { Hasher } from "./hashing.ts";
import { openLocalStore } from "./local-store.ts";
import type { EvidenceStore, OnRepair } from "./local-store.ts";
import type { S3Store } from "./s3-store.ts";

/** The options with which remote evidence is reached. */
export type EvidenceAccess = {
  /** The configured storage, s3://BUCKET/PREFIX; null where none is. */
  configured: string | null;
  endpoint: string | null;
  region: string;
  accessKey: string | null;
  secretKey: string | null;
  sessionToken: string | null;
  /** PEM certificates of CAs to trust in addition to the default ones; null: none. */
  caCertificates: readonly string[] | null;
};

/** Configuration and database disagree on where the evidence is, or credentials are missing. For the operator. */
export class EvidenceLocationError extends Error {
  override readonly name = "EvidenceLocationError";
  readonly code = "EVIDENCE_PLACE";
}

/** `remote` is the same store where it is on S3-compatible storage, with its extra methods; null for the directory. */
export type OpenedEvidence = { store: EvidenceStore; remote: S3Store | null };

/** What it takes to open a store; can be posted to a thread. `location` is `directory` or an s3:// URL. */
export type EvidenceStoreConfig = {
  location: string;
  paths: { evidence: string; staging: string };
  access: EvidenceAccess;
};

/**
 * Opens the evidence store at `location`. Sends no request to the storage.
 * @param ids returns names that are unique across restarts
 * @param options `hasher` hashes received content, in this thread by default; `onRepair` is called after damaged
 *   content was replaced
 * @throws EvidenceLocationError without credentials
 */
export async function openEvidenceStore(
  { location, paths: { evidence, staging }, access }: EvidenceStoreConfig,
  ids: () => string,
  { hasher, onRepair }: { hasher?: Hasher; onRepair?: OnRepair } = {},
): Promise<OpenedEvidence> {
  if (location === IN_DIRECTORY) {
    const owner = findOwner(dirname(evidence));
    const disk = owner === null ? undefined : diskOf(owner);
    return { store: openLocalStore({ directory: evidence, staging, ids, disk, hasher, onRepair }), remote: null };
  }
  const { accessKey, secretKey, caCertificates } = access;
  if (accessKey === null || secretKey === null) {
    throw new EvidenceLocationError(
      `no keys for the evidence on ${location}: give --s3-access-key and --s3-secret-key, their ASSAY_ variables, ` +
        "or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    );
  }
  // The client library is large, so it is loaded only where it is needed.
  const { openS3Store, parseS3Url } = await import("./s3-store.ts");
  const { bucket, prefix } = parseS3Url(location);
  const trusted = caCertificates && [...getCACertificates("default"), ...caCertificates];
  const remote = openS3Store({
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
    hasher,
    onRepair,
  });
  return { store: remote, remote };
}

/**
 * The paths with which evidence is opened for reading and sweeping only: nothing will be staged, so nothing is created
 * in the data directory, which may be read-only.
 */
export function readOnlyPaths(directory: string, location: string): EvidenceStoreConfig["paths"] {
  const evidence = join(directory, "evidence");
  return { evidence, staging: location === IN_DIRECTORY ? evidence : directory };
}

/**
 * The location on which database and configuration agree.
 * @param recorded the location that the database requires; null: any
 * @param configured the configured s3:// URL; null: the data directory
 * @throws EvidenceLocationError where they differ
 */
export function resolveEvidenceLocation(recorded: string | null, configured: string | null): string {
  const location = configured ?? IN_DIRECTORY;
  if (recorded === null || recorded === location) return location;
  const given = configured === null ? "no --evidence-store is given" : `--evidence-store is ${configured}`;
  const option = recorded === IN_DIRECTORY ? "leave out --evidence-store" : `give --evidence-store ${recorded}`;
  throw new EvidenceLocationError(
    `the evidence is kept in ${locationText(recorded)}, but ${given}: ` +
      `${option} (or set ASSAY_EVIDENCE_STORE, or evidence_store in the configuration file, accordingly), ` +
      `or move it to ${locationText(location)} with assay vault migrate --to ${location}`,
  );
}

const locationText = (location: string): string => (location === IN_DIRECTORY ? "the data directory" : location);

/**
 * The location that a server uses, which the database records from now on. Any location will do as long as no
 * attestation names a file.
 * @throws EvidenceLocationError where the database records another location
 */
export function bindEvidenceLocation({ evidenceLocation }: Store, configured: string | null): string {
  const recorded = evidenceLocation.findCurrent();
  const location = resolveEvidenceLocation(evidenceLocation.hasEvidence() ? recorded : null, configured);
  // No record means the directory, so a server that stores evidence there starts on a full disk too.
  if (location !== (recorded ?? IN_DIRECTORY)) evidenceLocation.set(location);
  return location;
}
