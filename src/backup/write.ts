/** Generates the bytes of a backup on demand, without buffering more than the piece that is being written. */
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { END_OF_ARCHIVE_BYTES, memberHeader, memberPadding } from "../archive/tar.ts";
import { DamagedEvidenceError } from "../evidence/errors.ts";
import type { EvidenceStore } from "../evidence/local-store.ts";
import type { NamedFile } from "../store/attestations/evidence-location.ts";
import type { CopyContents } from "../store/db/database-copy.ts";
import {
  FORMAT_VERSION,
  MEMBER,
  creationTimeOf,
  evidenceMemberName,
  formatCreationTime,
  headText,
  manifestText,
  sha256,
  sumsLine,
} from "./format.ts";
import type { Head, Manifest } from "./format.ts";

type ArchiveSources = {
  /** Epoch seconds. */
  at: number;
  program: Head["program"];
  database: { copy: FileHandle; bytes: number; contents: CopyContents };
  /** Null: the archive contains no evidence. */
  evidence: ArchiveEvidence | null;
};

type ArchiveEvidence = {
  /** Yields the same references in the same order each time. */
  references(): Iterable<NamedFile>;
  /** Digests that are left out. */
  missing: ReadonlySet<string>;
  store: Pick<EvidenceStore, "read">;
};

/** Bytes of the database that are read at a time. */
const BLOCK_BYTES = 256 * 1024;

/**
 * Yields the archive piece by piece and returns its manifest. A piece is valid until the next one is requested.
 * @throws MissingEvidenceError, DamagedEvidenceError, errors of the operating system
 */
export async function* generateArchive({
  at,
  program,
  database,
  evidence,
}: ArchiveSources): AsyncGenerator<Uint8Array, Manifest, undefined> {
  const { schemaVersion, rows } = database.contents;
  const head: Head = {
    format: "assay-backup",
    format_version: FORMAT_VERSION,
    created_at: formatCreationTime(at),
    program,
    schema_version: schemaVersion,
    evidence: evidence !== null,
  };
  const mtime = creationTimeOf(head);
  yield* textMember({ name: MEMBER.head, content: headText(head), mtime });
  yield* memberHead({ name: MEMBER.database, size: database.bytes, mtime });
  const databaseDigest = yield* fileContent(database.copy, database.bytes);
  yield memberPadding(database.bytes);

  const opening = sumsLine(sha256(headText(head)), MEMBER.head) + sumsLine(databaseDigest, MEMBER.database);
  const files = { count: 0, bytes: 0, missing: [...(evidence?.missing ?? [])].sort() };
  let sumsBytes = Buffer.byteLength(opening);
  for (const { digest, size } of included(evidence)) {
    if (evidence) yield* evidenceMember(evidence.store, { digest, size }, mtime);
    files.count += 1;
    files.bytes += size;
    sumsBytes += sumsLine(digest, evidenceMemberName(digest)).length;
  }

  yield* memberHead({ name: MEMBER.sums, size: sumsBytes, mtime });
  const sums = createHash("sha256");
  for (const lines of sumsBlocks(opening, included(evidence))) {
    sums.update(lines);
    yield lines;
  }
  yield memberPadding(sumsBytes);

  const manifest: Manifest = {
    ...head,
    database: { bytes: database.bytes, sha256: databaseDigest, rows },
    files,
    sums_sha256: sums.digest("hex"),
  };
  yield* textMember({ name: MEMBER.manifest, content: manifestText(manifest), mtime });
  yield new Uint8Array(END_OF_ARCHIVE_BYTES);
  return manifest;
}

/** The evidence that the archive contains. */
function* included(evidence: ArchiveEvidence | null): Generator<NamedFile> {
  if (evidence === null) return;
  for (const reference of evidence.references()) if (!evidence.missing.has(reference.digest)) yield reference;
}

type MemberHead = { name: string; size: number; mtime: number };

const memberHead = (member: MemberHead): Iterable<Uint8Array> => memberHeader({ ...member, mode: 0o600 });

function* textMember({
  name,
  content,
  mtime,
}: {
  name: string;
  content: string;
  mtime: number;
}): Generator<Uint8Array> {
  const bytes = Buffer.from(content);
  yield* memberHead({ name, size: bytes.length, mtime });
  yield bytes;
  yield memberPadding(bytes.length);
}

/** @throws MissingEvidenceError, DamagedEvidenceError */
async function* evidenceMember(
  store: Pick<EvidenceStore, "read">,
  { digest, size }: NamedFile,
  mtime: number,
): AsyncGenerator<Uint8Array> {
  yield* memberHead({ name: evidenceMemberName(digest), size, mtime });
  let read = 0;
  for await (const block of store.read(digest)) {
    read += block.length;
    if (read <= size) yield block;
  }
  if (read !== size) throw new DamagedEvidenceError(digest, `it has ${read} bytes, and the database says ${size}`);
  yield memberPadding(size);
}

/** The bytes of an open file from its beginning; returns their SHA-256. @throws Error when the file is shorter */
async function* fileContent(file: FileHandle, bytes: number): AsyncGenerator<Uint8Array, string, undefined> {
  const hash = createHash("sha256");
  const block = Buffer.alloc(BLOCK_BYTES);
  for (let position = 0; position < bytes; ) {
    const { bytesRead } = await file.read(block, 0, Math.min(BLOCK_BYTES, bytes - position), position);
    if (bytesRead === 0) throw new Error(`the copy of the database ends after ${position} bytes instead of ${bytes}`);
    position += bytesRead;
    hash.update(block.subarray(0, bytesRead));
    yield block.subarray(0, bytesRead);
  }
  return hash.digest("hex");
}

/** The lines of SHA256SUMS in blocks of a few hundred kilobytes. */
function* sumsBlocks(opening: string, evidence: Iterable<NamedFile>): Generator<Buffer> {
  let lines = opening;
  for (const { digest } of evidence) {
    lines += sumsLine(digest, evidenceMemberName(digest));
    if (lines.length < BLOCK_BYTES) continue;
    yield Buffer.from(lines);
    lines = "";
  }
  if (lines !== "") yield Buffer.from(lines);
}
