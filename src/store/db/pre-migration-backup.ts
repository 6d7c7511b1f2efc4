/** The copy of a database that is made before a migration touches it. */
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { MB } from "../../domain/text/units.ts";
import { freeBytesSync } from "./disk-space.ts";
import type { Db } from "./types.ts";

/** There is no room for the copy, so nothing was begun. */
export class NoSpaceForBackupError extends Error {
  /** For whoever shows errors: the message says it all. */
  readonly code = "NO_ROOM_FOR_COPY";

  constructor(directory: string, needed: number, free: number) {
    const megabytes = (bytes: number): string => `${Math.ceil(bytes / MB)} MB`;
    super(
      `the database must be brought up to date, and before that it is copied to ${directory}: that needs ${megabytes(needed)}, and ${megabytes(free)} are free. ` +
        "Nothing was changed; make room and start again",
    );
    this.name = "NoRoomForCopyError";
  }
}

/** Copies of so many upgrades are kept. */
const MAX_UPGRADES_KEPT = 3;

const COPY = /^assay-schema-(\d+)-before-(\d+)-(\d{8}T\d{6}Z)\.db$/;

/**
 * Writes a complete copy, what is in the write-ahead log included, which is on the disk when this returns; its name is
 * that of a whole file from the first moment. Then removes earlier copies of the same upgrade, which ended without it:
 * a server that starts again and again would fill the disk; and those of long ago.
 * @param now epoch seconds, for the name.
 * @returns the path and the size of the copy.
 * @throws NoRoomForCopyError, the driver's and the system's errors; nothing of the copy is left then.
 */
export function backUpBeforeMigration(
  db: Db,
  directory: string,
  from: number,
  to: number,
  now: number,
): { file: string; bytes: number } {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const needed =
    (db.pragma("page_count", { simple: true }) as number) * (db.pragma("page_size", { simple: true }) as number);
  const free = freeBytesSync(directory);
  if (needed > free) throw new NoSpaceForBackupError(directory, needed, free);

  const stamp = new Date(now * 1000).toISOString().replace(/[-:]/g, "").replace(/\.\d+/, "");
  const name = `assay-schema-${from}-before-${to}-${stamp}.db`;
  const partial = join(directory, "assay-schema.partial");
  try {
    rmSync(partial, { force: true });
    // SQLite writes into an empty file, which has our mode from the beginning.
    closeSync(openSync(partial, "wx", 0o600));
    db.prepare("VACUUM INTO ?").run(partial);
    sync(partial);
    renameSync(partial, join(directory, name));
    sync(directory);
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  }
  for (const old of listSuperseded(readdirSync(directory), name)) rmSync(join(directory, old), { force: true });
  const file = join(directory, name);
  return { file, bytes: statSync(file).size };
}

/** Which of the files in a directory are copies that `newest` makes superfluous. */
export function listSuperseded(names: readonly string[], newest: string): string[] {
  const upgradeOf = (name: string): string => /^assay-schema-\d+-before-\d+/.exec(name)?.[0] ?? "";
  const stampOf = (name: string): string => COPY.exec(name)?.[3] ?? "";
  const copies = names.filter((name) => COPY.test(name) && name !== newest);
  const superseded = copies.filter((name) => upgradeOf(name) === upgradeOf(newest));
  const others = copies
    .filter((name) => upgradeOf(name) !== upgradeOf(newest))
    .sort((a, b) => (stampOf(a) < stampOf(b) ? 1 : -1));
  return [...superseded, ...others.slice(MAX_UPGRADES_KEPT - 1)];
}

function sync(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
