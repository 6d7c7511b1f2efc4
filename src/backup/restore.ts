/**
 * Making a data directory of a backup.
 *
 * All of it is unpacked and checked in a place that nobody takes for a data directory, because UNFINISHED_RESTORE is in
 * it; the last step gives it its name. That place is beside the directory that is wanted, or in it where it is a mount
 * point or its parent may not be written to; then the database is moved last. A restore that is killed leaves such a
 * place, and the next one begins by removing it; one that fails leaves nothing.
 */
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, rm, rmdir, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { MB } from "../domain/text/units.ts";
import { checkCopy } from "../store/db/database-copy.ts";
import { clearLocation } from "../store/flows/evidence-location.ts";
import { NewerDatabaseError, UNFINISHED_RESTORE, openCopy, schemaVersion } from "../store/db/database.ts";
import { freeBytes } from "../store/db/disk-space.ts";
import { lockDirectory } from "../store/db/data-directory-lock.ts";
import type { Lock } from "../store/db/data-directory-lock.ts";
import { openLocalStore } from "../evidence/local-store.ts";
import type { Staged, EvidenceStore } from "../evidence/local-store.ts";
import { countReleasedBytes } from "../workers/memory-reclaim.ts";
import { syncPath } from "./durable.ts";
import { compareEvidence } from "./evidence.ts";
import { DamagedBackupError } from "./format.ts";
import type { Head, Manifest } from "./format.ts";
import type { ProgressListener } from "./make.ts";
import { readBackup, decompress } from "./read.ts";

export type RestoreOptions = {
  /** The data directory to make, an absolute path: it is missing or empty. */
  directory: string;
  /** The stored bytes, compressed or not, and how many they are; null where nobody knows. */
  source: AsyncIterable<Uint8Array>;
  size: number | null;
  /** Whether it is known that the backup was made without evidence, or without some that was missing. */
  withoutEvidence: boolean;
  allowMissing: boolean;
  signal: AbortSignal;
  progress: ProgressListener;
};

/** A restore that cannot be done, in words for the operator. */
export class RestoreError extends Error {
  override readonly name = "RestoreError";
}

/** Evidence that is made durable at a time: files and bytes. */
const BATCH_FILES = 64;
const BATCH_BYTES = 64 * MB;

/**
 * @throws RestoreError, DamagedBackupError, DamagedDatabaseError, NewerBackupError, NewerDatabaseError,
 * DataDirectoryInUseError, what
 *   the signal was aborted with, what the operating system refuses. Nothing is left of it then.
 */
export async function restoreBackup(order: RestoreOptions): Promise<Manifest> {
  const place = await preparePlace(order.directory);
  try {
    await requireRoom(order, place.work);
    const manifest = await unpack(order, place.work);
    order.signal.throwIfAborted();
    await place.finish();
    return manifest;
  } catch (error) {
    // What cannot be removed is refused by its mark; why it came to that is what the operator must hear.
    await place.abandon().catch(() => undefined);
    throw error;
  }
}

type RestoreTarget = { work: string; finish(): Promise<void>; abandon(): Promise<void> };

/** What a restore puts into a directory, the database last: with it the directory is one of data. */
const RESTORED_ENTRIES = ["evidence", "assay.db"] as const;

async function preparePlace(directory: string): Promise<RestoreTarget> {
  const found = await stat(directory).catch(() => null);
  if (found && !found.isDirectory()) throw new RestoreError(`${directory} is no directory`);
  const inside = found !== null;
  const parent = inside ? directory : dirname(directory);
  if (!inside && !(await stat(parent).catch(() => null))?.isDirectory())
    throw new RestoreError(`there is no directory ${parent}; make it first`);
  const work = inside ? join(directory, UNFINISHED_RESTORE) : `${directory}.${UNFINISHED_RESTORE}`;
  const mark = join(work, UNFINISHED_RESTORE);
  // Only with the mark it is what a restore left. An empty one was left before the first step, or after the last.
  const left = await readdir(work).catch(() => null);
  const unfinished = left?.includes(UNFINISHED_RESTORE) ?? false;
  if (left && left.length > 0 && !unfinished) throw new RestoreError(`${work} is in the way, and no restore made it`);
  if (inside) {
    const names = (await readdir(directory)).filter(
      (name) =>
        name !== "lost+found" &&
        name !== UNFINISHED_RESTORE &&
        !(unfinished && RESTORED_ENTRIES.some((part) => part === name)),
    );
    if (names.length > 0)
      throw new RestoreError(
        `${directory} is not empty: it holds ${names.slice(0, 3).join(", ")}; restore into an empty directory, or one that does not exist`,
      );
  }
  const remove = async (): Promise<void> => {
    // What is not empty was refused above: whatever is there comes from a restore.
    if (inside)
      for (const part of [...RESTORED_ENTRIES].reverse())
        await rm(join(directory, part), { recursive: true, force: true });
    await rm(work, { recursive: true, force: true });
  };
  if (unfinished) lockDirectory(work).release();
  if (left) await remove();

  // An empty directory may just have been made for this restore, by a program that did not sync its entry.
  if (inside) await syncParent(directory);
  await mkdir(work, { mode: 0o700 });
  let lock: Lock;
  try {
    await writeFile(mark, "A restore that did not end left this directory.\n", { mode: 0o600 });
    lock = lockDirectory(work);
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    work,
    async finish() {
      await syncPath(work);
      if (inside) {
        for (const part of RESTORED_ENTRIES) await rename(join(work, part), join(directory, part));
        await syncPath(directory);
        lock.release();
        // The mark last: as long as it is there, the directory is refused, and the next restore begins anew.
        for (const name of await readdir(work))
          if (name !== UNFINISHED_RESTORE) await rm(join(work, name), { recursive: true });
        await rm(mark);
        await rmdir(work);
      } else {
        await rm(mark);
        await syncPath(work);
        // Before the rename, because it removes its journal by the name that it knows.
        lock.release();
        await rename(work, directory);
      }
      await syncPath(parent);
    },
    async abandon() {
      lock.release();
      await remove();
    },
  };
}

/** Syncs the directory that holds `directory`, where this user may open it. */
async function syncParent(directory: string): Promise<void> {
  try {
    await syncPath(dirname(directory));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
  }
}

/** @throws RestoreError where the backup does not fit; what is compressed is known to fit when it did. */
async function requireRoom({ size }: RestoreOptions, work: string): Promise<void> {
  const free = await freeBytes(work);
  if (size !== null && size > free)
    throw new RestoreError(
      `the backup needs ${Math.ceil(size / MB)} MB, and ${Math.floor(free / MB)} MB are free in ${dirname(work)}`,
    );
}

async function unpack(order: RestoreOptions, work: string): Promise<Manifest> {
  const { source, size, signal, progress: watch } = order;
  const file = join(work, "assay.db");
  const vault = openLocalStore({ directory: join(work, "evidence"), staging: join(work, "staging"), ids: randomUUID });
  try {
    let read = 0;
    const watched = async function* (): AsyncGenerator<Uint8Array> {
      for await (const chunk of source) {
        signal.throwIfAborted();
        countReleasedBytes(chunk.length);
        watch.reach((read += chunk.length));
        yield chunk;
      }
    };
    watch.begin("unpacking the backup", size ?? 0);
    const publisher = publishing(vault);
    const manifest = await readBackup(decompress(watched()), {
      head: (head) => refuseHead(head, order),
      database: (content) => writeDatabase(file, content),
      evidence: (_, content, bytes) => publisher.add(content, bytes),
    });
    await publisher.flush();
    watch.begin("checking the database", 0);
    await checkWhole(order, manifest, file, vault);
    return manifest;
  } finally {
    await vault.close();
  }
}

/** Whether it may be restored, told before the first gigabyte. @throws RestoreError, NewerDatabaseError */
function refuseHead({ schema_version, evidence }: Head, { withoutEvidence }: RestoreOptions): void {
  if (schema_version > schemaVersion()) throw new NewerDatabaseError("of the backup", schema_version, schemaVersion());
  if (!evidence && !withoutEvidence)
    throw new RestoreError(
      "the backup was made without evidence; where the evidence is kept elsewhere, restore it with --without-evidence",
    );
  if (evidence && withoutEvidence) throw new RestoreError("the backup has its evidence; leave --without-evidence away");
}

async function writeDatabase(path: string, content: AsyncIterable<Buffer>): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    for await (const block of content)
      for (let done = 0; done < block.length; ) done += (await file.write(block, done)).bytesWritten;
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Puts evidence into the vault, some files at a time: making each durable alone would take as long as the disk turns.
 */
function publishing(vault: EvidenceStore): {
  add(content: AsyncIterable<Buffer>, size: number): Promise<void>;
  flush(): Promise<void>;
} {
  let staged: Staged[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    const taken = staged;
    [staged, bytes] = [[], 0];
    await vault.publish(taken);
  };
  return {
    flush,
    async add(content, size) {
      staged.push(await vault.stage(content, { limit: size }));
      bytes += size;
      if (staged.length >= BATCH_FILES || bytes >= BATCH_BYTES) await flush();
    },
  };
}

/** No record of a place means the directory. */
async function settleInDirectory(file: string): Promise<void> {
  const db = openCopy(file, { readonly: false });
  try {
    clearLocation(db);
  } finally {
    db.close();
  }
  await syncPath(file);
}

/** The last word: what the database is, and that it names no file that is not there. */
async function checkWhole(
  { allowMissing, signal }: RestoreOptions,
  manifest: Manifest,
  file: string,
  vault: EvidenceStore,
): Promise<void> {
  const { schemaVersion: version, rows } = checkCopy(file, { thorough: true });
  if (version !== manifest.schema_version)
    throw new DamagedBackupError(`its database has schema version ${version} instead of ${manifest.schema_version}`);
  const tables = new Set([...Object.keys(rows), ...Object.keys(manifest.database.rows)]);
  const other = [...tables].filter((table) => rows[table] !== manifest.database.rows[table]);
  if (other.length > 0)
    throw new DamagedBackupError(
      `the table ${other[0]} has ${rows[other[0] ?? ""] ?? "no"} rows instead of ${manifest.database.rows[other[0] ?? ""] ?? "none"}`,
    );
  if (!manifest.evidence) return;
  // The files of the archive are in the directory now, wherever they came from.
  await settleInDirectory(file);

  const known = new Set(manifest.files.missing);
  const db = openCopy(file);
  try {
    let absent = 0;
    const named = await compareEvidence(db, vault, ({ digest, problem }) => {
      signal.throwIfAborted();
      if (!known.has(digest)) throw new DamagedBackupError(problem);
      absent += 1;
    });
    if (absent !== known.size || named - absent !== manifest.files.count)
      throw new DamagedBackupError("it holds other evidence than its database names");
  } finally {
    db.close();
  }
  if (known.size > 0 && !allowMissing) {
    throw new RestoreError(
      `the backup lacks ${known.size} evidence files that were missing or damaged when it was made, such as ${manifest.files.missing[0]}; restore it without them with --allow-missing`,
    );
  }
}
