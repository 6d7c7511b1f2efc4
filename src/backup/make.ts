/**
 * Making a backup, beside a server that writes or without one.
 *
 * The database is copied first, then all evidence that the copy names. That evidence exists: a row never names a
 * missing file, and for as long as it runs the backup holds the lock that every removal of evidence needs. So the
 * archive is the state of one moment, the beginning of the copy, and contains everything acknowledged before it.
 *
 * The name of the archive only ever stands for a complete archive: it is written as NAME.partial, synced, and renamed.
 * The copy of the database is unlinked as soon as it is complete. The leftovers of a killed process are removed by the
 * next backup to the same name.
 */
import { open, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DamagedEvidenceError, EvidenceUnavailableError, MissingEvidenceError } from "../evidence/errors.ts";
import type { EvidenceStore } from "../evidence/local-store.ts";
import { DataDirectoryInUseError, lockEvidence } from "../store/db/data-directory-lock.ts";
import type { Lock } from "../store/db/data-directory-lock.ts";
import { checkCopy, copyDatabase } from "../store/db/database-copy.ts";
import { openCopy, sizeOf } from "../store/db/connection.ts";
import { createDirectory } from "../store/db/directories.ts";
import { giveToOwner } from "../store/db/state-directory.ts";
import type { CopyContents } from "../store/db/database-copy.ts";
import { openUnmigrated, refuseUnfinishedRestore, refuseUnknownSchema, schemaVersion } from "../store/db/database.ts";
import type { Db } from "../store/db/types.ts";
import {
  countNamedFiles,
  findRecordedLocation,
  listDamagedContent,
  listNamedFiles,
} from "../store/attestations/evidence-location.ts";
import { BackupError, IncompleteEvidenceError } from "./errors.ts";
import { compareEvidence } from "./evidence.ts";
import type { Head, Manifest } from "./format.ts";
import { assertTarget, partialOf, requireSpace, toBlocks, writeArchiveFile, writeHashed } from "./target.ts";
import type { BackupTarget } from "./target.ts";
import { generateArchive } from "./write.ts";

/** Called for each stage of the work, with its amount in bytes (default) or files, and with the progress made in it. */
export type ProgressListener = {
  begin(stage: string, total: number, unit?: "bytes" | "files"): void;
  reach(done: number): void;
};

type BackupEvidence = Pick<EvidenceStore, "list" | "read" | "verify" | "close">;

export type BackupOptions = {
  /** The data directory. */
  directory: string;
  target: BackupTarget;
  /**
   * Opens the evidence at the location that the database records (`findRecordedLocation`); it is closed at the end.
   * Null: the backup contains the database only.
   */
  evidence: ((recorded: string | null) => Promise<BackupEvidence>) | null;
  /** Whether missing and damaged evidence is left out; otherwise it fails the backup. */
  allowMissing: boolean;
  /** Bytes that stay free where the data directory is. */
  reserve: number;
  program: Head["program"];
  /** Epoch seconds. */
  now(): number;
  signal: AbortSignal;
  progress: ProgressListener;
  /** Checks the complete archive before it gets its name; what it throws fails the backup. */
  check?: (partial: string) => Promise<void>;
};

/** `bytes` and `sha256` are those of the archive as it was written. */
export type BackupResult = { manifest: Manifest; bytes: number; sha256: string };

/** Sizes in bytes, and the numbers of rows, of evidence files, and of files that are missing. */
export type BackupSummary = { bytes: number; sha256: string; rows: number; files: number; missing: number };

/** How long a backup waits for another backup or a sweep to finish. */
const LOCK_TIMEOUT_MS = 60_000;
const LOCK_POLL_INTERVAL_MS = 250;
const MAX_LISTED_PROBLEMS = 20;

/**
 * Nothing is left of a backup that fails.
 * @throws BackupError, IncompleteEvidenceError, DamagedDatabaseError, DataDirectoryInUseError, errors of
 * openUnmigrated, `evidence` and the operating system, the abort reason of the signal
 */
export async function makeBackup(options: BackupOptions): Promise<BackupResult> {
  const { directory, target } = options;
  if ("file" in target) await assertTarget(target);
  // Before anything is created beside a database that this program must not touch.
  refuseUnfinishedRestore(directory);
  refuseUnknownSchema(join(directory, "assay.db"), schemaVersion());
  const lock = await acquireEvidenceLock(options);
  try {
    const partial = "file" in target ? partialOf(target) : join(directory, "backups", "assay-backup-stream.partial");
    if (!("file" in target) && createDirectory(dirname(partial)) !== null) giveToOwner(dirname(partial), directory);
    const copy = await createCopy(options, partial);
    try {
      // Read from the copy, under the lock: evidence cannot be moved between reading the rows and the files.
      const store = options.evidence && (await options.evidence(findRecordedLocation(copy.db)));
      try {
        return await writeArchive(options, copy, store);
      } finally {
        await store?.close();
      }
    } catch (error) {
      throw error instanceof EvidenceUnavailableError
        ? new BackupError(`the evidence store does not respond: ${error.why}`)
        : error;
    } finally {
      copy.db.close();
      await copy.file.close();
    }
  } finally {
    lock.release();
  }
}

/** Takes the lock that keeps evidence from being removed. @throws DataDirectoryInUseError after LOCK_TIMEOUT_MS */
async function acquireEvidenceLock({ directory, signal }: BackupOptions): Promise<Lock> {
  for (let waited = 0; ; waited += LOCK_POLL_INTERVAL_MS) {
    const lock = lockEvidence(directory);
    if (lock) return lock;
    if (waited >= LOCK_TIMEOUT_MS)
      throw new DataDirectoryInUseError(
        `another backup of ${directory} is running, or evidence is being removed; try again when it has finished`,
      );
    await sleep(LOCK_POLL_INTERVAL_MS, undefined, { signal });
  }
}

/** A complete copy of the database as it was `at` (epoch seconds): an unlinked file, and a connection to it. */
type Copy = { at: number; file: FileHandle; bytes: number; contents: CopyContents; db: Db };

async function createCopy(options: BackupOptions, partial: string): Promise<Copy> {
  const { directory, target, reserve, signal, progress, now } = options;
  const name = `${partial}-db`;
  const db = openUnmigrated(directory);
  try {
    const size = sizeOf(db);
    const evidenceBytes = (): number => (options.evidence === null ? 0 : countNamedFiles(db).bytes);
    await requireSpace({ directory, target, reserve, parent: dirname(partial), size, evidenceBytes });
    await removeCopy(name);
    await (await open(name, "wx", 0o600)).close();
    progress.begin("copying the database", size);
    const at = now();
    await copyDatabase(db, name, { onProgress: progress.reach, signal });
    const contents = checkCopy(name, { thorough: false });
    const file = await open(name, "r");
    try {
      return { at, file, bytes: (await file.stat()).size, contents, db: openCopy(name) };
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
  options: BackupOptions,
  { at, file: copy, bytes, contents, db }: Copy,
  store: BackupEvidence | null,
): Promise<BackupResult> {
  const { target, program, progress, signal, check } = options;
  const missing = store ? await findMissing(options, db, store) : new Set<string>();
  const evidence = store && { references: () => listNamedFiles(db), missing, store };
  let manifest: Manifest | null = null;
  let done = 0;
  const archive = async function* (): AsyncGenerator<Uint8Array> {
    const pieces = generateArchive({ at, program, database: { copy, bytes, contents }, evidence });
    for (let step = await pieces.next(); ; step = await pieces.next()) {
      signal.throwIfAborted();
      if (step.done) {
        manifest = step.value;
        return;
      }
      progress.reach((done += step.value.length));
      yield step.value;
    }
  };
  progress.begin("writing the backup", bytes + (evidence ? countNamedFiles(db).bytes : 0));
  try {
    const blocks = toBlocks(archive());
    const written =
      "file" in target ? await writeArchiveFile(target, blocks, check) : await writeHashed(blocks, target.write);
    return { manifest: manifest as unknown as Manifest, ...written };
  } catch (error) {
    throw error instanceof DamagedEvidenceError || error instanceof MissingEvidenceError
      ? new IncompleteEvidenceError([error.message])
      : error;
  }
}

/** @throws IncompleteEvidenceError where the database holds content that differs from its digest */
function requireIntactContent(db: Db, signal: AbortSignal): void {
  const problems: string[] = [];
  for (const digest of listDamagedContent(db)) {
    signal.throwIfAborted();
    if (problems.length === MAX_LISTED_PROBLEMS) {
      problems.push("and more");
      break;
    }
    problems.push(`evidence ${digest} is damaged: its content in the database differs from its digest`);
  }
  if (problems.length > 0) throw new IncompleteEvidenceError(problems);
}

/**
 * The evidence that the database names and that the store lacks or holds damaged. With `allowMissing` each file is read
 * in advance, because the archive cannot take back a member that it has begun.
 * @throws IncompleteEvidenceError without `allowMissing`
 */
async function findMissing(
  { allowMissing, progress, signal }: BackupOptions,
  db: Db,
  store: BackupEvidence,
): Promise<Set<string>> {
  const missing = new Set<string>();
  const problems: string[] = [];
  progress.begin("looking for evidence", countNamedFiles(db).files, "files");
  await compareEvidence(db, store, {
    onMismatch({ digest, problem }) {
      missing.add(digest);
      if (problems.length < MAX_LISTED_PROBLEMS) problems.push(problem);
    },
    onCompared(count) {
      signal.throwIfAborted();
      progress.reach(count);
    },
  });
  if (missing.size > MAX_LISTED_PROBLEMS) problems.push(`and ${missing.size - MAX_LISTED_PROBLEMS} more`);
  if (missing.size > 0 && !allowMissing) throw new IncompleteEvidenceError(problems);
  if (!allowMissing) {
    requireIntactContent(db, signal);
    return missing;
  }
  for (const { digest } of listNamedFiles(db)) {
    signal.throwIfAborted();
    if (!missing.has(digest) && (await store.verify(digest)) !== "ok") missing.add(digest);
  }
  return missing;
}
