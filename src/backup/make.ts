/**
 * Making a backup, beside a server that writes or without one.
 *
 * The database is copied first, then comes all evidence that the copy names. It is there: a row never names a file that
 * is not, and for as long as the backup lasts it holds the lock without which nobody removes evidence. So the archive
 * is the state of one moment, the beginning of the copy, and everything that was acknowledged before is in it.
 *
 * Under its name there is never anything but a whole archive: it is written as NAME.partial, synced, and renamed. The
 * copy of the database loses its name as soon as it is complete. What a process that was killed left is removed by the
 * next backup to that name.
 */
import { createHash } from "node:crypto";
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout as pause } from "node:timers/promises";
import { createGzip } from "node:zlib";
import { MB } from "../domain/text/units.ts";
import {
  checkCopy,
  copyDatabase,
  countEvidenceReferences,
  listEvidenceReferences,
  sizeOf,
} from "../store/db/database-copy.ts";
import type { CopyContents } from "../store/db/database-copy.ts";
import {
  openUnmigrated,
  openCopy,
  refuseUnfinishedRestore,
  refuseUnknownSchema,
  schemaVersion,
} from "../store/db/database.ts";
import { freeBytes } from "../store/db/disk-space.ts";
import { findRecordedLocation } from "../store/flows/evidence-location.ts";
import { DataDirectoryInUseError, lockEvidence } from "../store/db/data-directory-lock.ts";
import type { Lock } from "../store/db/data-directory-lock.ts";
import { DamagedEvidenceError, EvidenceUnavailableError, MissingEvidenceError } from "../evidence/errors.ts";
import type { EvidenceStore } from "../evidence/local-store.ts";
import { countReleasedBytes } from "../workers/memory-reclaim.ts";
import { syncPath } from "./durable.ts";
import { compareEvidence } from "./evidence.ts";
import type { Head, Manifest } from "./format.ts";
import { generateArchive } from "./write.ts";
import type { Db } from "../store/db/types.ts";

/** Told of the parts of the work, in bytes or files. */
export type ProgressListener = {
  begin(what: string, total: number, unit?: "bytes" | "files"): void;
  reach(done: number): void;
};

type FileTarget = { file: string; partial?: string; overwrite: boolean };

export type BackupEvidence = Pick<EvidenceStore, "list" | "read" | "verify" | "close">;

export type BackupOptions = {
  /** The data directory. */
  directory: string;
  /**
   * An absolute path, compressed if it ends in .gz or .tgz, and what it is called as long as it is not complete,
   * FILE.partial unless given; or who takes the bytes.
   */
  target: FileTarget | { write(bytes: Uint8Array): Promise<void> };
  /**
   * Opens the evidence that goes into it, at the place that the database records (`recordedPlaceIn`); it is closed at
   * the end. Null: the database alone.
   */
  evidence: ((recorded: string | null) => Promise<BackupEvidence>) | null;
  /** Whether evidence that is missing or damaged is left out; otherwise it is the end of the backup. */
  allowMissing: boolean;
  /** Bytes that stay free where the data directory is. */
  reserve: number;
  program: Head["program"];
  /** Epoch seconds. */
  now(): number;
  signal: AbortSignal;
  progress: ProgressListener;
  /** Runs on the complete archive before it gets its name; what it throws ends the backup. */
  check?: (partial: string) => Promise<void>;
};

/** `bytes` and `sha256` of the archive as it was written. */
export type BackupResult = { manifest: Manifest; bytes: number; sha256: string };

/** A backup that cannot be made, in words for the operator. */
export class BackupError extends Error {
  override readonly name = "BackupError";
}

/**
 * Evidence that the database names and nobody can read as it was; one line for each, some of them if there are many.
 */
export class IncompleteEvidenceError extends Error {
  override readonly name = "IncompleteEvidenceError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`evidence is missing or damaged: ${problems.join("; ")}`);
    this.problems = problems;
  }
}

/** Milliseconds that a backup waits for another one or a sweep to end, and between two looks. */
const LOCK_TIMEOUT_MS = 60_000;
const LOCK_POLL_INTERVAL_MS = 250;
/** How many problems are told. */
const MAX_LISTED_PROBLEMS = 20;
/** Bytes that are written at once. */
const BLOCK_BYTES = 256 * 1024;
/** Bytes between two syncs: all of them at the end would keep everybody else from the disk. */
const SYNC_INTERVAL_BYTES = 64 * MB;

/**
 * @throws BackupError, IncompleteEvidenceError, DamagedDatabaseError, DataDirectoryInUseError, what openAsIs and
 * `evidence` throw, what the
 *   signal was aborted with, what the operating system refuses. Nothing is left of the backup then.
 */
export async function makeBackup(order: BackupOptions): Promise<BackupResult> {
  const { directory, target } = order;
  if ("file" in target) await refuseTarget(target);
  // Before anything is made beside a database that is not ours to touch.
  refuseUnfinishedRestore(directory);
  refuseUnknownSchema(join(directory, "assay.db"), schemaVersion());
  const lock = await waitFor(order);
  try {
    const partial = "file" in target ? partialOf(target) : join(directory, "backups", "assay-backup-stream.partial");
    if (!("file" in target)) await mkdir(dirname(partial), { recursive: true, mode: 0o700 });
    const copy = await copyOf(order, partial);
    try {
      // Asked of the copy, under the lock: nobody moves evidence away between the rows and the files.
      const vault = order.evidence && (await order.evidence(findRecordedLocation(copy.lines)));
      try {
        return await writeArchive(order, copy, vault);
      } finally {
        await vault?.close();
      }
    } catch (error) {
      throw error instanceof EvidenceUnavailableError
        ? new BackupError(`the storage of the evidence gives no answer: ${error.why}`)
        : error;
    } finally {
      copy.lines.close();
      await copy.file.close();
    }
  } finally {
    lock.release();
  }
}

/** The right to rely on evidence. @throws DataDirectoryInUseError after a minute. */
async function waitFor({ directory, signal }: BackupOptions): Promise<Lock> {
  for (let waited = 0; ; waited += LOCK_POLL_INTERVAL_MS) {
    const lock = lockEvidence(directory);
    if (lock) return lock;
    if (waited >= LOCK_TIMEOUT_MS)
      throw new DataDirectoryInUseError(
        `another backup of ${directory} is being made, or evidence is being removed; try again when that is done`,
      );
    await pause(LOCK_POLL_INTERVAL_MS, undefined, { signal });
  }
}

const partialOf = ({ file, partial = `${file}.partial` }: FileTarget): string => partial;

async function refuseTarget({ file, overwrite }: FileTarget): Promise<void> {
  const parent = await stat(dirname(file)).catch(() => null);
  if (!parent?.isDirectory()) throw new BackupError(`there is no directory ${dirname(file)}; make it first`);
  const found = await stat(file).catch(() => null);
  if (found && !found.isFile()) throw new BackupError(`${file} is no file; give the name of one`);
  if (found && !overwrite)
    throw new BackupError(`${file} is there already; give another name, or --overwrite to replace it`);
}

/**
 * Room for the copy and, beside it, the archive, whose size is known unless it is compressed.
 * @throws BackupError
 */
async function requireRoom(
  { directory, target, evidence, reserve }: BackupOptions,
  db: Db,
  parent: string,
): Promise<void> {
  const size = sizeOf(db);
  const plain = "file" in target && !isCompressed(target.file);
  const needed = size + (plain ? size + (evidence === null ? 0 : countEvidenceReferences(db).bytes) : 0);
  const [place, data] = await Promise.all([stat(parent), stat(directory)]);
  const free = (await freeBytes(parent)) - (place.dev === data.dev ? reserve : 0);
  if (needed > free) {
    const kept = place.dev === data.dev ? `, the ${megabytes(reserve)} that stay free for the server not counted` : "";
    throw new BackupError(
      `the backup needs up to ${megabytes(needed)} in ${parent}, where ${megabytes(Math.max(0, free))} are free${kept}; give a place with more room`,
    );
  }
}

const isCompressed = (file: string): boolean => /\.(gz|tgz)$/.test(file);
const megabytes = (bytes: number): string => `${Math.ceil(bytes / MB)} MB`;

/** A complete copy of the database of the moment `at`: a file without a name, and a connection to it. */
type Copy = { at: number; file: FileHandle; bytes: number; contents: CopyContents; lines: Db };

async function copyOf(order: BackupOptions, partial: string): Promise<Copy> {
  const { directory, signal, progress: watch, now } = order;
  const name = `${partial}-db`;
  const db = openUnmigrated(directory);
  try {
    await requireRoom(order, db, dirname(partial));
    await removeCopy(name);
    await (await open(name, "wx", 0o600)).close();
    watch.begin("copying the database", sizeOf(db));
    const at = now();
    await copyDatabase(db, name, { onProgress: watch.reach, signal });
    const contents = checkCopy(name, { thorough: false });
    const file = await open(name, "r");
    try {
      return { at, file, bytes: (await file.stat()).size, contents, lines: openCopy(name) };
    } catch (error) {
      await file.close();
      throw error;
    }
  } finally {
    db.close();
    await removeCopy(name);
  }
}

async function removeCopy(name: string): Promise<void> {
  for (const suffix of ["", "-journal", "-wal", "-shm"]) await rm(name + suffix, { force: true });
}

async function writeArchive(
  order: BackupOptions,
  { at, file: copy, bytes, contents, lines }: Copy,
  vault: BackupEvidence | null,
): Promise<BackupResult> {
  const { target, program, progress: watch, signal } = order;
  const missing = vault ? await missingOf(order, lines, vault) : new Set<string>();
  let manifest: Manifest | null = null;
  const evidence = vault && { references: () => listEvidenceReferences(lines), missing, vault };
  const parts = { at, program, database: { copy, bytes, contents }, evidence };
  let done = 0;
  const archive = async function* (): AsyncGenerator<Uint8Array> {
    const pieces = generateArchive(parts);
    for (let step = await pieces.next(); ; step = await pieces.next()) {
      signal.throwIfAborted();
      if (step.done) return void (manifest = step.value);
      watch.reach((done += step.value.length));
      yield step.value;
    }
  };
  watch.begin("writing the backup", bytes + (evidence ? countEvidenceReferences(lines).bytes : 0));
  try {
    const blocks = gathered(archive());
    const written = "file" in target ? await writeFile(order, target, blocks) : await hashed(blocks, target.write);
    return { manifest: manifest as unknown as Manifest, ...written };
  } catch (error) {
    throw error instanceof DamagedEvidenceError || error instanceof MissingEvidenceError
      ? new IncompleteEvidenceError([error.message])
      : error;
  }
}

/**
 * Evidence that the database names and the vault does not have as it was. Where it may be left out each file is read
 * for that, because an archive that has begun with one cannot go back.
 * @throws IncompleteEvidenceError unless it may be left out.
 */
async function missingOf(
  { allowMissing, progress: watch, signal }: BackupOptions,
  lines: Db,
  vault: BackupEvidence,
): Promise<Set<string>> {
  const missing = new Set<string>();
  const problems: string[] = [];
  watch.begin("looking for evidence", countEvidenceReferences(lines).files, "files");
  await compareEvidence(
    lines,
    vault,
    ({ digest, problem }) => {
      missing.add(digest);
      if (problems.length < MAX_LISTED_PROBLEMS) problems.push(problem);
    },
    (count) => {
      signal.throwIfAborted();
      watch.reach(count);
    },
  );
  if (missing.size > MAX_LISTED_PROBLEMS) problems.push(`and ${missing.size - MAX_LISTED_PROBLEMS} more`);
  if (missing.size > 0 && !allowMissing) throw new IncompleteEvidenceError(problems);
  if (!allowMissing) return missing;
  for (const { digest } of listEvidenceReferences(lines)) {
    signal.throwIfAborted();
    if (!missing.has(digest) && (await vault.verify(digest)) !== "ok") missing.add(digest);
  }
  return missing;
}

/** Puts pieces together to blocks, each in memory of its own: members of a few bytes would be three writes each. */
async function* gathered(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let block = Buffer.allocUnsafe(BLOCK_BYTES);
  let filled = 0;
  for await (const piece of pieces) {
    for (let taken = 0; taken < piece.length; ) {
      const part = piece.subarray(taken, taken + BLOCK_BYTES - filled);
      block.set(part, filled);
      filled += part.length;
      taken += part.length;
      if (filled < BLOCK_BYTES) continue;
      yield block;
      block = Buffer.allocUnsafe(BLOCK_BYTES);
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}

type Written = { bytes: number; sha256: string };

/** Hands all bytes to `take`, and tells what they were. */
async function hashed(pieces: AsyncIterable<Uint8Array>, take: (piece: Uint8Array) => Promise<void>): Promise<Written> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const piece of pieces) {
    hash.update(piece);
    bytes += piece.length;
    await take(piece);
    countReleasedBytes(piece.length);
  }
  return { bytes, sha256: hash.digest("hex") };
}

async function writeFile(
  { check }: BackupOptions,
  target: FileTarget,
  archive: AsyncIterable<Uint8Array>,
): Promise<Written> {
  const { file: name } = target;
  const partial = partialOf(target);
  // What is there was left by a process that was killed: nobody else makes a backup of this directory.
  await rm(partial, { force: true });
  const file = await open(partial, "wx", 0o600);
  try {
    let unsynced = 0;
    const take = async (piece: Uint8Array): Promise<void> => {
      for (let done = 0; done < piece.length; ) done += (await file.write(piece, done)).bytesWritten;
      if ((unsynced += piece.length) < SYNC_INTERVAL_BYTES) return;
      unsynced = 0;
      await file.datasync();
    };
    let written: Written = { bytes: 0, sha256: "" };
    if (isCompressed(name))
      await pipeline(
        archive,
        createGzip(),
        async (source: AsyncIterable<Uint8Array>) => void (written = await hashed(source, take)),
      );
    else written = await hashed(archive, take);
    await file.sync();
    await check?.(partial);
    await refuseTarget(target);
    const [mine, named] = await Promise.all([file.stat(), stat(partial)]);
    if (mine.ino !== named.ino)
      throw new BackupError(`somebody else writes to ${partial}; give every data directory backups of its own`);
    await rename(partial, name);
    await syncPath(dirname(name));
    return written;
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

/** What was made: sizes in bytes, and how many rows, files, and files that are missing in it. */
export type BackupSummary = { bytes: number; sha256: string; rows: number; files: number; missing: number };
