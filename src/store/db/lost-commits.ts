/**
 * Looks for missing commits (commit-number.ts) before a database is opened for writing, and keeps what is left of the
 * log.
 *
 * SQLite overwrites a log that it cannot read to its end with the next commit, and removes it when it closes the
 * database. A read-only connection does neither: it shows what SQLite makes of the log and leaves its bytes alone.
 */
import { constants, copyFileSync, existsSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { MB } from "../../domain/text/units.ts";
import { acknowledgedNumber, readCommitFile } from "./commit-file.ts";
import type { CommitMark } from "./commit-file.ts";
import { LostCommitsError, readCommitMark } from "./commit-number.ts";
import { openReadOnly } from "./connection.ts";
import { freeBytesSync } from "./disk-space.ts";
import { giveToOwner } from "./state-directory.ts";
import { syncToDisk } from "./directories.ts";
import { walBytes } from "./wal.ts";

/** What is known about a loss when a server starts. */
export type LostCommits = {
  /** How many acknowledged commits the database lacks; 0: the log was damaged, and the database had all of it. */
  missing: number;
  /** The copy of the log; null where there was none left. */
  copy: string | null;
};

/** There is not enough space for the copy of a damaged log, so the database was not opened. */
class NoSpaceForLogError extends Error {
  /** Marks an expected error: the message alone is shown, without a stack. */
  readonly code = "NO_ROOM_FOR_COPY";

  constructor(directory: string, needed: number, free: number) {
    const megabytes = (bytes: number): string => `${Math.ceil(bytes / MB)} MB`;
    super(
      `the write-ahead log in ${directory} is damaged and must be copied before the database is opened: ` +
        `that needs ${megabytes(needed)}, and ${megabytes(free)} are free. ` +
        "Nothing was changed; make room and start again",
    );
    this.name = "NoSpaceForLogError";
  }
}

/** `stored`: the database with its log. `acknowledged`: the number of the latest commit in the file. */
type Comparison = { stored: CommitMark; acknowledged: number };

/** The database and the file of a directory; null where they cannot be compared. */
function compare(directory: string): Comparison | null {
  // The file first, because a commit raises the database first: a server may be writing.
  const contents = existsSync(join(directory, "assay.db")) ? readCommitFile(directory) : null;
  if (contents === null) return null;
  const stored = readMark(directory, { withLog: walBytes(directory) > 0 });
  return stored && { stored, acknowledged: acknowledgedNumber(contents, stored.databaseId) };
}

function readMark(directory: string, { withLog }: { withLog: boolean }): CommitMark | null {
  const db = openReadOnly(directory, { immutable: !withLog });
  try {
    return readCommitMark(db);
  } finally {
    db.close();
  }
}

/** The mark in the database file without its log; null where the file alone cannot be read. */
function readCheckpointed(directory: string): CommitMark | null {
  try {
    return readMark(directory, { withLog: false });
  } catch {
    // The process was killed while it copied the log. What SQLite makes of both is checked before it is accepted.
    return null;
  }
}

/** How many acknowledged commits the database of a directory lacks. Changes nothing, and works beside a server. */
export function countMissingCommits(directory: string): number {
  const compared = compare(directory);
  return compared ? Math.max(0, compared.acknowledged - compared.stored.number) : 0;
}

/** @throws LostCommitsError; SQLite's errors */
export function refuseLostCommits(directory: string): void {
  const missing = countMissingCommits(directory);
  if (missing > 0) throw new LostCommitsError(missing);
}

/**
 * Copies the log of a database that lacks commits, durably, before anything else opens the database. The copy of one
 * loss is made once, however often the server starts.
 *
 * A checkpoint may have copied more of the log into the database file than SQLite can read of it now. The pages of the
 * log would then take the file back, in part. So the log is set aside, and the file counts alone.
 * @param directory the data directory, locked by this process
 * @returns null where nothing is missing
 * @throws NoSpaceForLogError, SQLite's and the system's errors
 */
export function keepDamagedLog(directory: string): LostCommits | null {
  const compared = compare(directory);
  if (!compared || compared.acknowledged <= compared.stored.number) return null;
  const { stored, acknowledged } = compared;
  const copy = copyLog(directory, copyName(compared));
  const checkpointed = copy === null ? null : readCheckpointed(directory);
  if (checkpointed === null || checkpointed.number <= stored.number)
    return { missing: acknowledged - stored.number, copy };
  for (const suffix of ["-wal", "-shm"]) rmSync(join(directory, `assay.db${suffix}`), { force: true });
  syncToDisk(directory);
  return { missing: acknowledged - checkpointed.number, copy };
}

/** One name for each loss: the number rises with every commit. */
const copyName = ({ stored, acknowledged }: Comparison): string =>
  `assay.lost-${stored.databaseId.slice(0, 8)}-${acknowledged}.wal`;

/** The path of the copy of the log that belongs to the loss of a directory; null where there is none. */
export function findLogCopy(directory: string): string | null {
  const compared = compare(directory);
  const copy = compared && join(directory, copyName(compared));
  return copy !== null && existsSync(copy) ? copy : null;
}

/** @returns the path of the copy, also of one that exists; null where there is no log and no copy */
function copyLog(directory: string, name: string): string | null {
  const [log, copy, partial] = ["assay.db-wal", name, `${name}.partial`].map((one) => join(directory, one)) as [
    string,
    string,
    string,
  ];
  if (existsSync(copy)) return copy;
  const needed = statSync(log, { throwIfNoEntry: false })?.size ?? 0;
  if (needed === 0) return null;
  const free = freeBytesSync(directory);
  if (needed > free) throw new NoSpaceForLogError(directory, needed, free);
  copyFileSync(log, partial, constants.COPYFILE_FICLONE);
  giveToOwner(partial, directory);
  syncToDisk(partial);
  renameSync(partial, copy);
  syncToDisk(directory);
  return copy;
}
