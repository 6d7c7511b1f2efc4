/**
 * What a backup is: one tar archive that any tar program unpacks to a data directory.
 *
 *     assay-backup.json   what this is: version of the format, program, schema, time
 *     assay.db            the database at one moment
 *     evidence/ab/cd...   each file that the database names, in the order of their digests
 *     SHA256SUMS          a line for each member above, as `sha256sum --check` reads it
 *     manifest.json       counts, sizes and hashes, the hash of SHA256SUMS, and at last its own checksum
 *
 * Every byte is covered: contents by their hashes, and names, sizes and times, and the zeros between, by being exactly
 * those that the writer would have written. Whoever reads it to its end knows that it is whole; nothing before the end
 * proves anything.
 */
import { createHash } from "node:crypto";
import { splitDigest } from "../evidence/layout.ts";

/** Archives of a later format are refused; those of this one and earlier are read. */
export const FORMAT_VERSION = 1;

export const MEMBER = {
  head: "assay-backup.json",
  database: "assay.db",
  sums: "SHA256SUMS",
  manifest: "manifest.json",
} as const;

/** The largest head or manifest that is read, in bytes. */
export const MAX_TEXT_BYTES = 64 * 1_048_576;

/** What an archive begins with. `created_at` is in UTC and has whole seconds. `evidence`: whether evidence is in it. */
export type Head = {
  format: "assay-backup";
  format_version: number;
  created_at: string;
  program: { version: string; commit: string | null };
  schema_version: number;
  evidence: boolean;
};

/**
 * What it ends with. `missing`: digests of evidence that the database names and the archive lacks, because it was made
 * so.
 */
export type Manifest = Head & {
  database: { bytes: number; sha256: string; rows: Record<string, number> };
  files: { count: number; bytes: number; missing: readonly string[] };
  sums_sha256: string;
};

/** An archive that is not what was written: cut, changed or put together by somebody else. */
export class DamagedBackupError extends Error {
  override readonly name = "DamagedBackupError";
}

/** An archive of a later format. */
export class NewerBackupError extends Error {
  override readonly name = "NewerBackupError";
}

/** The name of the member with that evidence. */
export function evidenceMemberName(digest: string): string {
  const { shard, name } = splitDigest(digest);
  return `evidence/${shard}/${name}`;
}

/** The digest that an evidence member is named after; null for every other name. */
export function digestOfMember(member: string): string | null {
  const match = /^evidence\/([0-9a-f]{2})\/([0-9a-f]{62})$/.exec(member);
  return match ? `${match[1]}${match[2]}` : null;
}

export const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");

/** A line of SHA256SUMS. */
export const sumsLine = (digest: string, member: string): string => `${digest}  ${member}\n`;

/** The time of all members, in epoch seconds. */
export const creationTimeOf = ({ created_at }: Head): number => Date.parse(created_at) / 1000;

/** A time in epoch seconds as archives tell it. */
export const formatCreationTime = (seconds: number): string =>
  new Date(Math.floor(seconds) * 1000).toISOString().replace(".000Z", "Z");

const textOf = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;

export const headText = (head: Head): string => textOf(head);

export const manifestText = (manifest: Manifest): string => textOf({ ...manifest, checksum: sha256(textOf(manifest)) });

/** @throws DamagedBackupError, NewerBackupError */
export function parseHead(bytes: Buffer): Head {
  const head = parse(MEMBER.head, bytes) as Partial<Head>;
  if (head.format !== "assay-backup" || !Number.isInteger(head.format_version))
    throw new DamagedBackupError("it is no backup of Assay: its first member does not say so");
  if ((head.format_version as number) > FORMAT_VERSION) {
    throw new NewerBackupError(
      `the backup has format ${head.format_version}, and this program knows formats up to ${FORMAT_VERSION}: restore it with the Assay that made it, or a later one`,
    );
  }
  const whole =
    typeof head.created_at === "string" &&
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(head.created_at) &&
    Number.isInteger(head.schema_version) &&
    typeof head.evidence === "boolean";
  if (!whole || headText(head as Head) !== bytes.toString())
    throw new DamagedBackupError(`${MEMBER.head} is not as it was written`);
  return head as Head;
}

/** @throws DamagedBackupError */
export function parseManifest(bytes: Buffer): Manifest {
  const { checksum: _, ...manifest } = parse(MEMBER.manifest, bytes) as Manifest & { checksum: string };
  if (manifestText(manifest) !== bytes.toString())
    throw new DamagedBackupError(`${MEMBER.manifest} is not as it was written: its checksum is another`);
  return manifest;
}

function parse(member: string, bytes: Buffer): object {
  try {
    const value: unknown = JSON.parse(bytes.toString());
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Told below.
  }
  throw new DamagedBackupError(`${member} is not as it was written`);
}
