/** The write-ahead log as a file, and the processes that hold locks on it. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** A process that reads the database. `command` is its command line, null where that cannot be read. */
export type WalReader = { pid: number; command: string | null };

/** The size of the write-ahead log of a data directory in bytes; 0 without one. */
export const walBytes = (directory: string): number =>
  statSync(join(directory, "assay.db-wal"), { throwIfNoEntry: false })?.size ?? 0;

/**
 * The bytes of the WAL index that readers lock: WAL_READ_LOCK(1) to (4) in SQLite's wal.c. Readers with
 * WAL_READ_LOCK(0) do not use the log.
 */
const READ_LOCKS = { mode: "READ", from: 124, to: 127 } as const;

/** WAL_WRITE_LOCK, which one connection at a time holds. */
const WRITE_LOCK = { mode: "WRITE", from: 120, to: 120 } as const;

/** Locks of that mode that cover any of these bytes. */
type LockRange = typeof READ_LOCKS | typeof WRITE_LOCK;

/**
 * The processes that read from the log now, according to the kernel's lock table. Empty where it is not available (not
 * Linux, or a container with its own pid namespace), and for readers that have ended.
 */
export const listWalReaders = (directory: string, locks: () => string = readLocks): WalReader[] =>
  listHolders(directory, READ_LOCKS, locks).map((pid) => ({ pid, command: readCommand(pid) }));

/** A process that holds the write lock. `name` is that of its program; `command` as in `WalReader`. */
export type LockHolder = WalReader & { name: string };

/** The process that holds the write lock now; null if it is free or the kernel does not tell (see listWalReaders). */
export function findWriteLockHolder(directory: string, locks: () => string = readLocks): LockHolder | null {
  const [pid] = listHolders(directory, WRITE_LOCK, locks);
  return pid === undefined ? null : { pid, name: readName(pid), command: readCommand(pid) };
}

function readLocks(): string {
  return readFileSync("/proc/locks", "utf8");
}

function listHolders(directory: string, range: LockRange, locks: () => string): number[] {
  const index = statSync(join(directory, "assay.db-shm"), { throwIfNoEntry: false });
  if (!index) return [];
  try {
    return holderPids(locks(), index.ino, range);
  } catch {
    return [];
  }
}

/** Parses lines such as `1: POSIX  ADVISORY  READ 1234 08:02:131090 123 123`: pid, inode, first and last byte. */
function holderPids(locks: string, inode: number, { mode, from, to }: LockRange): number[] {
  const pids = [...locks.matchAll(/^\d+: POSIX +\S+ +(READ|WRITE) +(\d+) +\S+:\S+:(\d+) +(\d+) +(\d+)$/gm)].flatMap(
    ([, held, pid, ino, first, last]) =>
      held === mode && Number(ino) === inode && Number(last) >= from && Number(first) <= to ? [Number(pid)] : [],
  );
  return [...new Set(pids)];
}

function readName(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return "unknown";
  }
}

function readCommand(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").join(" ").trim().slice(0, 200) || null;
  } catch {
    return null;
  }
}
