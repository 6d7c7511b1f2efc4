/**
 * Restoring a data directory from a backup.
 *
 * Everything is unpacked and checked in a work directory that no program takes for a data directory, because it
 * contains UNFINISHED_RESTORE; the last step gives it its name. The work directory is beside the requested directory,
 * or inside it where that exists (a mount point, or a parent that is not writable); then the database is moved last. A
 * killed restore leaves the work directory, which the next restore removes first; a failed one leaves nothing.
 */
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { onPath } from "../domain/text/system-errors.ts";
import { MB } from "../domain/text/units.ts";
import { openCopy } from "../store/db/connection.ts";
import { checkCopy } from "../store/db/database-copy.ts";
import { clearLocation } from "../store/attestations/evidence-location.ts";
import { NewerDatabaseError, UNFINISHED_RESTORE, schemaVersion } from "../store/db/database.ts";
import { freeBytes } from "../store/db/disk-space.ts";
import { lockDirectory } from "../store/db/data-directory-lock.ts";
import { findPrivateDirectory, refuseMissingTarget } from "../store/db/state-directory.ts";
import type { Lock } from "../store/db/data-directory-lock.ts";
import { openLocalStore } from "../evidence/local-store.ts";
import type { EvidenceStore, Staged } from "../evidence/local-store.ts";
import { countReleasedBytes } from "../workers/memory-reclaim.ts";
import { syncPath } from "./durable.ts";
import { compareEvidence } from "./evidence.ts";
import { DamagedBackupError } from "./format.ts";
import type { Head, Manifest } from "./format.ts";
import type { ProgressListener } from "./make.ts";
import { readBackup, decompress } from "./read.ts";

export type RestoreOptions = {
  /** The data directory to create, an absolute path: it does not exist or is empty. */
  directory: string;
  /** The stored bytes, compressed or not, and their number; null when it is unknown. */
  source: AsyncIterable<Uint8Array>;
  size: number | null;
  /** Whether the operator accepts a backup without any evidence, or one that lacks evidence that was missing. */
  withoutEvidence: boolean;
  allowMissing: boolean;
  signal: AbortSignal;
  progress: ProgressListener;
};

/** A restore is refused; the message is for the operator. */
export class RestoreError extends Error {
  override readonly name = "RestoreError";
}

/** Evidence files are published in batches of at most this many files and bytes. */
const BATCH_FILES = 64;
const BATCH_BYTES = 64 * MB;

/**
 * Nothing is left of a restore that fails.
 * @throws RestoreError, DanglingLinkError, DamagedBackupError, DamagedDatabaseError, NewerBackupError,
 * NewerDatabaseError, DataDirectoryInUseError, the abort reason of the signal, errors of the operating system
 */
export async function restoreBackup(options: RestoreOptions): Promise<Manifest> {
  const target = await prepareTarget(options.directory);
  try {
    await requireSpace(options, target.work);
    const manifest = await unpack(options, target.work);
    options.signal.throwIfAborted();
    await target.finish();
    return manifest;
  } catch (error) {
    // A work directory that cannot be removed is recognized by its mark; the operator needs the first error.
    await target.abandon().catch(() => undefined);
    throw error;
  }
}

type RestoreTarget = { work: string; finish(): Promise<void>; abandon(): Promise<void> };

/**
 * The mark of a work directory that is complete and has not got its name yet: a restore that is killed here must not
 * keep the next one from starting over. It means nothing in a data directory, where a kill may leave it.
 */
const FINISHED_RESTORE = "restore-finished";
const MARKS: readonly string[] = [UNFINISHED_RESTORE, FINISHED_RESTORE];

/** The entries that a restore moves, the database last: only with it is the directory a data directory. */
const RESTORED_ENTRIES = ["evidence", "assay.db"] as const;

/** `inside`: the directory exists, and `work` is in it; otherwise `work` is beside it. `parent` holds the result. */
type RestorePaths = { directory: string; inside: boolean; parent: string; work: string };

async function prepareTarget(directory: string): Promise<RestoreTarget> {
  const paths = await locateWork(directory);
  const { inside, work } = paths;
  const mark = join(work, UNFINISHED_RESTORE);
  await removeLeftovers(paths);

  // An empty directory may just have been created for this restore by a program that did not sync its entry.
  if (inside) await syncParent(directory);
  await mkdir(work, { mode: 0o700 });
  let lock: Lock;
  try {
    await onPath(mark, writeFile(mark, "A restore that did not finish left this directory.\n", { mode: 0o600 }));
    lock = lockDirectory(work);
  } catch (error) {
    await removeRestored(paths);
    throw error;
  }
  return {
    work,
    async finish() {
      await syncPath(work);
      if (inside) await moveInside(paths, lock);
      else {
        await rename(mark, join(work, FINISHED_RESTORE));
        await syncPath(work);
        // Released before the rename, because it removes its journal by the name that it knows.
        lock.release();
        await rename(work, directory);
      }
      await syncPath(paths.parent);
      if (!inside) await rm(join(directory, FINISHED_RESTORE));
    },
    async abandon() {
      lock.release();
      await removeRestored(paths);
    },
  };
}

/** @throws RestoreError, DanglingLinkError where the directory cannot be created */
async function locateWork(directory: string): Promise<RestorePaths> {
  refuseMissingTarget(directory);
  const second = findPrivateDirectory(directory);
  if (second !== null)
    throw new RestoreError(
      `the data of the service are in ${second}, and systemd starts no service with a second directory ${directory}: ` +
        `move ${second} aside and restore with --data ${second}`,
    );
  const existing = await stat(directory).catch(() => null);
  if (existing && !existing.isDirectory()) throw new RestoreError(`${directory} is not a directory`);
  const inside = existing !== null;
  const parent = inside ? directory : dirname(directory);
  if (!inside && !(await stat(parent).catch(() => null))?.isDirectory())
    throw new RestoreError(`there is no directory ${parent}; create it first`);
  const work = inside ? join(directory, UNFINISHED_RESTORE) : `${directory}.${UNFINISHED_RESTORE}`;
  return { directory, inside, parent, work };
}

/** Removes the leftovers of an earlier restore. @throws RestoreError where anything else is in the way */
async function removeLeftovers(paths: RestorePaths): Promise<void> {
  const { directory, inside, work } = paths;
  // Only a mark identifies the leftovers of a restore. An empty work directory was left before the mark was written, or
  // after it was removed.
  const left = await readdir(work).catch(() => null);
  const isUnfinished = left?.some((name) => MARKS.includes(name)) ?? false;
  if (left && left.length > 0 && !isUnfinished)
    throw new RestoreError(`${work} is in the way, and no restore created it; move it away`);
  const ours = ["lost+found", UNFINISHED_RESTORE, ...(isUnfinished ? RESTORED_ENTRIES : [])];
  const foreign = inside ? (await readdir(directory)).filter((name) => !ours.includes(name)) : [];
  if (foreign.length > 0)
    throw new RestoreError(
      `${directory} is not empty: it holds ${foreign.slice(0, 3).join(", ")}; ` +
        "restore into an empty directory, or one that does not exist",
    );
  if (isUnfinished) lockDirectory(work).release();
  if (left) await removeRestored(paths);
}

/** Removes what a restore created: a directory with other content was refused before. */
async function removeRestored({ directory, inside, work }: RestorePaths): Promise<void> {
  if (inside)
    for (const entry of [...RESTORED_ENTRIES].reverse())
      await rm(join(directory, entry), { recursive: true, force: true });
  await removeWork(work);
}

/** The mark goes last: while it exists, the next restore knows that it may remove what is left. */
async function removeWork(work: string): Promise<void> {
  const names = await readdir(work).catch(() => []);
  for (const name of names.filter((one) => !MARKS.includes(one)))
    await rm(join(work, name), { recursive: true, force: true });
  if (names.length > 0) await syncPath(work);
  await rm(work, { recursive: true, force: true });
}

/** Moves the restored entries from the work directory to the directory around it. */
async function moveInside({ directory, work }: RestorePaths, lock: Lock): Promise<void> {
  for (const entry of RESTORED_ENTRIES) await rename(join(work, entry), join(directory, entry));
  await syncPath(directory);
  lock.release();
  await removeWork(work);
}

/** Syncs the directory that contains `directory`, where this user may open it. */
async function syncParent(directory: string): Promise<void> {
  try {
    await syncPath(dirname(directory));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
  }
}

/** Requires space for the stored size; a compressed backup needs more. @throws RestoreError */
async function requireSpace({ size }: RestoreOptions, work: string): Promise<void> {
  const free = await freeBytes(work);
  if (size !== null && size > free)
    throw new RestoreError(
      `the backup needs ${Math.ceil(size / MB)} MB, and ${Math.floor(free / MB)} MB are free in ${dirname(work)}`,
    );
}

async function unpack(options: RestoreOptions, work: string): Promise<Manifest> {
  const { source, size, signal, progress } = options;
  const file = join(work, "assay.db");
  const store = openLocalStore({ directory: join(work, "evidence"), staging: join(work, "staging"), ids: randomUUID });
  try {
    let read = 0;
    const observed = async function* (): AsyncGenerator<Uint8Array> {
      for await (const chunk of source) {
        signal.throwIfAborted();
        countReleasedBytes(chunk.length);
        progress.reach((read += chunk.length));
        yield chunk;
      }
    };
    progress.begin("unpacking the backup", size ?? 0);
    const publisher = createPublisher(store);
    const manifest = await readBackup(decompress(observed()), {
      head: (head) => assertRestorable(head, options),
      database: (content) => writeDatabase(file, content),
      evidence: (_, content, bytes) => publisher.add(content, bytes),
    });
    await publisher.flush();
    progress.begin("checking the database", 0);
    checkRows(file, manifest);
    if (manifest.evidence) {
      // The evidence is in the directory from now on, wherever the backup took it from.
      await recordDirectory(file);
      await checkReferences({ file, manifest, store, options });
    }
    return manifest;
  } finally {
    await store.close();
  }
}

/** Refuses a backup before its first gigabyte is read. @throws RestoreError, NewerDatabaseError */
function assertRestorable({ schema_version, evidence }: Head, { withoutEvidence }: RestoreOptions): void {
  if (schema_version > schemaVersion()) throw new NewerDatabaseError("of the backup", schema_version, schemaVersion());
  if (!evidence && !withoutEvidence)
    throw new RestoreError(
      "the backup was made without evidence; where the evidence is kept elsewhere, restore it with --without-evidence",
    );
  if (evidence && withoutEvidence)
    throw new RestoreError("the backup contains its evidence; leave out --without-evidence");
}

async function writeDatabase(path: string, content: AsyncIterable<Buffer>): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    for await (const block of content)
      for (let done = 0; done < block.length; ) done += (await onPath(path, file.write(block, done))).bytesWritten;
    await onPath(path, file.sync());
  } finally {
    await file.close();
  }
}

/** Publishes evidence in batches, because making each file durable alone would be bound by the latency of syncs. */
function createPublisher(store: EvidenceStore): {
  add(content: AsyncIterable<Buffer>, size: number): Promise<void>;
  flush(): Promise<void>;
} {
  let staged: Staged[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    const batch = staged;
    [staged, bytes] = [[], 0];
    await store.publish(batch);
  };
  return {
    flush,
    async add(content, size) {
      staged.push(await store.stage(content, { limit: size }));
      bytes += size;
      if (staged.length >= BATCH_FILES || bytes >= BATCH_BYTES) await flush();
    },
  };
}

/** Makes the directory the location of the evidence: the absence of a record means the directory. */
async function recordDirectory(file: string): Promise<void> {
  const db = openCopy(file, { readonly: false });
  try {
    clearLocation(db);
  } finally {
    db.close();
  }
  await syncPath(file);
}

/** Compares the restored database with the manifest. @throws DamagedBackupError, DamagedDatabaseError */
function checkRows(file: string, manifest: Manifest): void {
  const { schemaVersion: version, rows } = checkCopy(file, { thorough: true });
  if (version !== manifest.schema_version)
    throw new DamagedBackupError(`its database has schema version ${version} instead of ${manifest.schema_version}`);
  const expected = manifest.database.rows;
  for (const table of new Set([...Object.keys(rows), ...Object.keys(expected)]))
    if (rows[table] !== expected[table])
      throw new DamagedBackupError(
        `the table ${table} has ${rows[table] ?? "no"} rows instead of ${expected[table] ?? "none"}`,
      );
}

/**
 * Requires that every file that the database names was restored, except those that the manifest lists as missing.
 * @throws DamagedBackupError; RestoreError where files are missing and the operator did not accept that
 */
async function checkReferences({
  file,
  manifest,
  store,
  options: { allowMissing, signal },
}: {
  file: string;
  manifest: Manifest;
  store: EvidenceStore;
  options: RestoreOptions;
}): Promise<void> {
  const expectedMissing = new Set(manifest.files.missing);
  const db = openCopy(file);
  try {
    let missing = 0;
    const named = await compareEvidence(db, store, {
      onMismatch({ digest, problem }) {
        signal.throwIfAborted();
        if (!expectedMissing.has(digest)) throw new DamagedBackupError(problem);
        missing += 1;
      },
    });
    if (missing !== expectedMissing.size || named - missing !== manifest.files.count)
      throw new DamagedBackupError("its evidence is not that which its database names");
  } finally {
    db.close();
  }
  if (expectedMissing.size > 0 && !allowMissing)
    throw new RestoreError(
      `the backup lacks ${expectedMissing.size} evidence files that were missing or damaged when it was made, ` +
        `such as ${manifest.files.missing[0]}; restore it without them with --allow-missing`,
    );
}
