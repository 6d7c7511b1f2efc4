/** The copy of the database that is written before a migration changes it. */
import { closeSync, openSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { onPathSync } from "../../domain/text/system-errors.ts";
import { MB } from "../../domain/text/units.ts";
import { forgetCommitNumber } from "./commit-number.ts";
import { openCopy, sizeOf } from "./connection.ts";
import { createDirectory, syncToDisk } from "./directories.ts";
import { freeBytesSync } from "./disk-space.ts";
import { giveToOwner } from "./state-directory.ts";
import type { Db } from "./types.ts";

/** There is not enough space for the copy, so the migration did not start. */
export class NoSpaceForBackupError extends Error {
  /** Marks an expected error: the message alone is shown, without a stack. */
  readonly code = "NO_ROOM_FOR_COPY";

  constructor(directory: string, needed: number, free: number) {
    const megabytes = (bytes: number): string => `${Math.ceil(bytes / MB)} MB`;
    super(
      `the database must be brought up to date, and before that it is copied to ${directory}: ` +
        `that needs ${megabytes(needed)}, and ${megabytes(free)} are free. ` +
        "Nothing was changed; make room and start again",
    );
    this.name = "NoRoomForCopyError";
  }
}

/** Copies of the latest upgrades that are kept. */
const MAX_UPGRADES_KEPT = 3;

const COPY = /^assay-schema-(\d+)-before-(\d+)-(\d{8}T\d{6}Z)\.db$/;

/**
 * Writes a complete copy, including the contents of the write-ahead log. It is synced when this returns and appears
 * under its name only when it is complete. Then deletes copies of earlier failed attempts at the same upgrade, because
 * a server that restarts in a loop would fill the disk, and copies of old upgrades.
 * @param now epoch seconds, for the name.
 * @returns the path and the size of the copy.
 * @throws NoSpaceForBackupError, the driver's and the system's errors; then no part of the copy remains.
 */
export function backUpBeforeMigration(
  db: Db,
  directory: string,
  { from, to, now }: { from: number; to: number; now: number },
): { file: string; bytes: number } {
  if (createDirectory(directory) !== null) giveToOwner(directory, dirname(directory));
  const needed = sizeOf(db);
  const free = freeBytesSync(directory);
  if (needed > free) throw new NoSpaceForBackupError(directory, needed, free);

  const stamp = new Date(now * 1000).toISOString().replace(/[-:]/g, "").replace(/\.\d+/, "");
  const name = `assay-schema-${from}-before-${to}-${stamp}.db`;
  const partial = join(directory, "assay-schema.partial");
  try {
    rmSync(partial, { force: true });
    // SQLite writes into an existing empty file, which has our mode from the start.
    closeSync(openSync(partial, "wx", 0o600));
    giveToOwner(partial, directory);
    onPathSync(partial, () => db.prepare("VACUUM INTO ?").run(partial));
    const copy = openCopy(partial, { readonly: false });
    try {
      forgetCommitNumber(copy);
    } finally {
      copy.close();
    }
    syncToDisk(partial);
    renameSync(partial, join(directory, name));
    syncToDisk(directory);
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  }
  for (const old of listSuperseded(readdirSync(directory), name)) rmSync(join(directory, old), { force: true });
  const file = join(directory, name);
  return { file, bytes: statSync(file).size };
}

/** The files of a directory that are copies superseded by `newest`. */
function listSuperseded(names: readonly string[], newest: string): string[] {
  const upgradeOf = (name: string): string => /^assay-schema-\d+-before-\d+/.exec(name)?.[0] ?? "";
  const stampOf = (name: string): string => COPY.exec(name)?.[3] ?? "";
  const copies = names.filter((name) => COPY.test(name) && name !== newest);
  const superseded = copies.filter((name) => upgradeOf(name) === upgradeOf(newest));
  const others = copies
    .filter((name) => upgradeOf(name) !== upgradeOf(newest))
    .sort((a, b) => (stampOf(a) < stampOf(b) ? 1 : -1));
  return [...superseded, ...others.slice(MAX_UPGRADES_KEPT - 1)];
}
