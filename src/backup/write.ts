/** The bytes of a backup, made while somebody takes them: nothing is kept but what is being written. */
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { END_OF_ARCHIVE_BYTES, memberHeader, memberPadding } from "../archive/tar.ts";
import type { CopyContents, EvidenceReference } from "../store/db/database-copy.ts";
import { DamagedEvidenceError } from "../evidence/errors.ts";
import type { EvidenceStore } from "../evidence/local-store.ts";
import {
  FORMAT_VERSION,
  MEMBER,
  evidenceMemberName,
  headText,
  manifestText,
  sha256,
  formatCreationTime,
  sumsLine,
  creationTimeOf,
} from "./format.ts";
import type { Head, Manifest } from "./format.ts";

/** `at`: epoch seconds. */
export type ArchiveSources = {
  at: number;
  program: Head["program"];
  database: { copy: FileHandle; bytes: number; contents: CopyContents };
  /**
   * Where it comes from; `references` gives the same evidence in the same order each time, `missing` is left out. Null:
   * none goes in.
   */
  evidence: {
    references(): Iterable<EvidenceReference>;
    missing: ReadonlySet<string>;
    vault: Pick<EvidenceStore, "read">;
  } | null;
};

/** Bytes that are read of the database at once. */
const BLOCK_BYTES = 256 * 1024;

/**
 * Gives the archive piece by piece and returns its manifest. A piece is good until the next one is asked for.
 * @throws MissingEvidenceError, DamagedEvidenceError, what the operating system refuses.
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
  const begin = (name: string, size: number): Iterable<Uint8Array> => memberHeader({ name, size, mtime, mode: 0o600 });
  const text = function* (name: string, content: string): Generator<Uint8Array> {
    const bytes = Buffer.from(content);
    yield* begin(name, bytes.length);
    yield bytes;
    yield memberPadding(bytes.length);
  };

  const opening = [sumsLine(sha256(headText(head)), MEMBER.head)];
  yield* text(MEMBER.head, headText(head));

  yield* begin(MEMBER.database, database.bytes);
  const digest = yield* contentOf(database.copy, database.bytes);
  yield memberPadding(database.bytes);
  opening.push(sumsLine(digest, MEMBER.database));

  const given = function* (): Generator<EvidenceReference> {
    for (const reference of evidence?.references() ?? []) if (!evidence?.missing.has(reference.digest)) yield reference;
  };
  const files = { count: 0, bytes: 0, missing: [...(evidence?.missing ?? [])].sort() };
  let sumsBytes = Buffer.byteLength(opening.join(""));
  if (evidence)
    for (const { digest, size } of given()) {
      yield* begin(evidenceMemberName(digest), size);
      let read = 0;
      for await (const block of evidence.vault.read(digest)) {
        read += block.length;
        if (read <= size) yield block;
      }
      if (read !== size) throw new DamagedEvidenceError(digest, `it has ${read} bytes, and the database says ${size}`);
      yield memberPadding(size);
      files.count += 1;
      files.bytes += size;
      sumsBytes += sumsLine(digest, evidenceMemberName(digest)).length;
    }

  yield* begin(MEMBER.sums, sumsBytes);
  const sums = createHash("sha256");
  for (const lines of batches(opening, given())) {
    sums.update(lines);
    yield lines;
  }
  yield memberPadding(sumsBytes);

  const manifest: Manifest = {
    ...head,
    database: { bytes: database.bytes, sha256: digest, rows },
    files,
    sums_sha256: sums.digest("hex"),
  };
  yield* text(MEMBER.manifest, manifestText(manifest));
  yield new Uint8Array(END_OF_ARCHIVE_BYTES);
  return manifest;
}

/** The bytes of an open file from its beginning; returns their SHA-256. @throws Error when it is shorter. */
async function* contentOf(file: FileHandle, bytes: number): AsyncGenerator<Uint8Array, string, undefined> {
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

/** Lines of SHA256SUMS in pieces of some hundred kilobytes. */
function* batches(opening: readonly string[], evidence: Iterable<EvidenceReference>): Generator<Buffer> {
  let lines = opening.join("");
  for (const { digest } of evidence) {
    lines += sumsLine(digest, evidenceMemberName(digest));
    if (lines.length < BLOCK_BYTES) continue;
    yield Buffer.from(lines);
    lines = "";
  }
  if (lines !== "") yield Buffer.from(lines);
}
