/**
 * The backup format: one tar archive that any tar program unpacks to a data directory.
 *
 *     assay-backup.json   format version, program, schema version, time
 *     assay.db            the database at one moment
 *     evidence/ab/cd...   each file that the database names, in the order of their digests
 *     SHA256SUMS          a line for each member above, as `sha256sum --check` reads it
 *     manifest.json       counts, sizes and hashes, the hash of SHA256SUMS, and finally its own checksum
 *
 * Every byte is covered: contents by their hashes; names, sizes, times and padding because they must be exactly what
 * the writer writes. Only reading the archive to its end proves that it is complete and unchanged.
 */
import { createHash } from "node:crypto";
import { splitDigest } from "../evidence/layout.ts";

/** Archives of this format and earlier ones are read; later ones are refused. */
export const FORMAT_VERSION = 1;

export const MEMBER = {
  head: "assay-backup.json",
  database: "assay.db",
  sums: "SHA256SUMS",
  manifest: "manifest.json",
} as const;

/** Bounds the head and the manifest. */
export const MAX_TEXT_BYTES = 64 * 1_048_576;

/** The first member. `created_at` is in UTC, in whole seconds. `evidence`: whether the archive contains evidence. */
export type Head = {
  format: "assay-backup";
  format_version: number;
  created_at: string;
  program: { version: string; commit: string | null };
  schema_version: number;
  evidence: boolean;
};

/** The last member. `missing`: digests of evidence that the database names and the archive deliberately lacks. */
export type Manifest = Head & {
  database: { bytes: number; sha256: string; rows: Record<string, number> };
  files: { count: number; bytes: number; missing: readonly string[] };
  sums_sha256: string;
};

/** The archive is not as it was written: truncated, changed, or put together by another program. */
export class DamagedBackupError extends Error {
  override readonly name = "DamagedBackupError";
}

/** The archive has a later format than this program reads. */
export class NewerBackupError extends Error {
  override readonly name = "NewerBackupError";
}

/** The name of the member with this evidence. */
export function evidenceMemberName(digest: string): string {
  const { shard, name } = splitDigest(digest);
  return `evidence/${shard}/${name}`;
}

/** The digest in the name of an evidence member; null for every other name. */
export function digestOfMember(member: string): string | null {
  const match = /^evidence\/([0-9a-f]{2})\/([0-9a-f]{62})$/.exec(member);
  return match ? `${match[1]}${match[2]}` : null;
}

export const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");

/** A line of SHA256SUMS. */
export const sumsLine = (digest: string, member: string): string => `${digest}  ${member}\n`;

/** The time of all members, in epoch seconds. */
export const creationTimeOf = ({ created_at }: Head): number => Date.parse(created_at) / 1000;

/** A time in epoch seconds as archives state it: "2026-01-31T12:00:00Z". */
export const formatCreationTime = (seconds: number): string =>
  new Date(Math.floor(seconds) * 1000).toISOString().replace(".000Z", "Z");

const toText = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;

export const headText = (head: Head): string => toText(head);

export const manifestText = (manifest: Manifest): string => toText({ ...manifest, checksum: sha256(toText(manifest)) });

/** @throws DamagedBackupError, NewerBackupError */
export function parseHead(bytes: Buffer): Head {
  const head = parse(MEMBER.head, bytes) as Partial<Head>;
  if (head.format !== "assay-backup" || !Number.isInteger(head.format_version))
    throw new DamagedBackupError("it is not a backup of Assay: its first member does not identify it as one");
  if ((head.format_version as number) > FORMAT_VERSION) {
    throw new NewerBackupError(
      `the backup has format ${head.format_version}, but this program knows formats up to ${FORMAT_VERSION}: ` +
        "restore it with the version of Assay that made it, or a later one",
    );
  }
  const isComplete =
    typeof head.created_at === "string" &&
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(head.created_at) &&
    Number.isInteger(head.schema_version) &&
    typeof head.evidence === "boolean";
  if (!isComplete || headText(head as Head) !== bytes.toString())
    throw new DamagedBackupError(`${MEMBER.head} was changed`);
  return head as Head;
}

/** @throws DamagedBackupError */
export function parseManifest(bytes: Buffer): Manifest {
  const { checksum: _, ...manifest } = parse(MEMBER.manifest, bytes) as Manifest & { checksum: string };
  if (manifestText(manifest) !== bytes.toString())
    throw new DamagedBackupError(`${MEMBER.manifest} was changed: its checksum does not match`);
  return manifest;
}

function parse(member: string, bytes: Buffer): object {
  try {
    const value: unknown = JSON.parse(bytes.toString());
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Reported below.
  }
  throw new DamagedBackupError(`${member} is not valid JSON`);
}
