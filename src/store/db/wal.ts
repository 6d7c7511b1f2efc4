/** The write-ahead log as a file, and the processes that keep it from being truncated. */
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
const [FIRST_LOCK, LAST_LOCK] = [124, 127];

/**
 * The processes that read from the log now, according to the kernel's lock table. Empty where it is not available (not
 * Linux, or a container with its own pid namespace), and for readers that have ended.
 */
export function listWalReaders(
  directory: string,
  locks: () => string = () => readFileSync("/proc/locks", "utf8"),
): WalReader[] {
  const index = statSync(join(directory, "assay.db-shm"), { throwIfNoEntry: false });
  if (!index) return [];
  try {
    return readerPids(locks(), index.ino).map((pid) => ({ pid, command: readCommand(pid) }));
  } catch {
    return [];
  }
}

/** Parses lines such as `1: POSIX  ADVISORY  READ 1234 08:02:131090 123 123`: pid, inode, first and last byte. */
function readerPids(locks: string, inode: number): number[] {
  const pids = [...locks.matchAll(/^\d+: POSIX +\S+ +READ +(\d+) +\S+:\S+:(\d+) +(\d+) +(\d+)$/gm)].flatMap(
    ([, pid, ino, from, to]) =>
      Number(ino) === inode && Number(to) >= FIRST_LOCK && Number(from) <= LAST_LOCK ? [Number(pid)] : [],
  );
  return [...new Set(pids)];
}

function readCommand(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").join(" ").trim().slice(0, 200) || null;
  } catch {
    return null;
  }
}
