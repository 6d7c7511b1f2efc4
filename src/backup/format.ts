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
import { Ajv2020 } from "ajv/dist/2020.js";
import type { ErrorObject } from "ajv/dist/2020.js";
import Type from "typebox";
import type { Static, TProperties, TSchema } from "typebox";
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

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Digest = Type.String({ pattern: "^[0-9a-f]{64}$" });
/** Printed to terminals, so it is printable ASCII. */
const ProgramVersion = Type.String({ pattern: "^[ -~]{1,100}$" });
const Closed = <T extends TProperties>(properties: T) => Type.Object(properties, { additionalProperties: false });

const HEAD_PROPERTIES = {
  format: Type.Literal("assay-backup"),
  format_version: Type.Integer({ minimum: 1, maximum: FORMAT_VERSION }),
  created_at: Type.String({ pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$` }),
  program: Closed({ version: ProgramVersion, commit: Type.Union([ProgramVersion, Type.Null()]) }),
  schema_version: Type.Integer({ minimum: 1, maximum: 0x7fff_ffff }),
  evidence: Type.Boolean(),
};
const HEAD_SHAPE = Closed(HEAD_PROPERTIES);

const MANIFEST_SHAPE = Closed({
  ...HEAD_PROPERTIES,
  database: Closed({ bytes: Count, sha256: Digest, rows: Type.Record(Type.String(), Count) }),
  files: Closed({ count: Count, bytes: Count, missing: Type.Array(Digest) }),
  sums_sha256: Digest,
  checksum: Digest,
});

/** The first member. `created_at` is in UTC, in whole seconds. `evidence`: whether the archive contains evidence. */
export type Head = Static<typeof HEAD_SHAPE>;

/** The last member. `missing`: digests of evidence that the database names and the archive deliberately lacks. */
export type Manifest = Omit<Static<typeof MANIFEST_SHAPE>, "checksum">;

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
  const value = parse(MEMBER.head, bytes) as { format?: unknown; format_version?: unknown } | null;
  if (value?.format !== "assay-backup")
    throw new DamagedBackupError("it is not a backup of Assay: its first member does not identify it as one");
  const { format_version: version } = value;
  if (Number.isInteger(version) && (version as number) > FORMAT_VERSION) {
    throw new NewerBackupError(
      `the backup has format ${version}, but this program knows formats up to ${FORMAT_VERSION}: ` +
        "restore it with the version of Assay that made it, or a later one",
    );
  }
  assertShape(MEMBER.head, HEAD_SHAPE, value);
  if (headText(value) !== bytes.toString()) throw new DamagedBackupError(`${MEMBER.head} was changed`);
  return value;
}

/** @throws DamagedBackupError */
export function parseManifest(bytes: Buffer): Manifest {
  const value = parse(MEMBER.manifest, bytes);
  assertShape(MEMBER.manifest, MANIFEST_SHAPE, value);
  const { checksum: _, ...manifest } = value;
  if (manifestText(manifest) !== bytes.toString())
    throw new DamagedBackupError(`${MEMBER.manifest} was changed: its checksum does not match`);
  return manifest;
}

function parse(member: string, bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    throw new DamagedBackupError(`${member} is not valid JSON`);
  }
}

/** Names the first place that differs from the shape. @throws DamagedBackupError */
function assertShape<T extends TSchema>(member: string, shape: T, value: unknown): asserts value is Static<T> {
  const validate = new Ajv2020({ strict: false, ownProperties: true }).compile(shape);
  if (validate(value)) return;
  throw new DamagedBackupError(`${member} does not have the form of a backup: ${describe(validate.errors?.[0])}`);
}

/** "files must be object", "database/rows/users must be >= 0", "it must have required property 'database'". */
function describe(error: ErrorObject | undefined): string {
  if (error === undefined) return "it is not valid";
  const place = error.instancePath.slice(1, 200) || "it";
  const { additionalProperty: extra } = error.params as { additionalProperty?: unknown };
  return extra === undefined
    ? `${place} ${error.message}`
    : `${place} must not contain ${JSON.stringify(String(extra).slice(0, 100))}`;
}
