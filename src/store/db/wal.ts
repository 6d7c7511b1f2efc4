/** The write-ahead log as a file, and who keeps it from being emptied. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** A process that reads the database. `command` is its name, null where that cannot be known. */
export type WalReader = { pid: number; command: string | null };

/** How long the write-ahead log of a data directory is, in bytes; 0 without one. */
export const walBytes = (directory: string): number =>
  statSync(join(directory, "assay.db-wal"), { throwIfNoEntry: false })?.size ?? 0;

/**
 * The bytes of the index of the log that readers lock: WAL_READ_LOCK(1) to (4) in SQLite's wal.c. The one before is of
 * readers that keep nothing.
 */
const [FIRST_LOCK, LAST_LOCK] = [124, 127];

/**
 * The processes that read from the log at this moment, as the kernel knows their locks. Empty where it does not tell
 * (no Linux, or a container that sees other numbers), and for readers that are gone already.
 */
export function listWalReaders(
  directory: string,
  locks: () => string = () => readFileSync("/proc/locks", "utf8"),
): WalReader[] {
  const index = statSync(join(directory, "assay.db-shm"), { throwIfNoEntry: false });
  if (!index) return [];
  try {
    return readersOf(locks(), index.ino).map((pid) => ({ pid, command: commandOf(pid) }));
  } catch {
    return [];
  }
}

/** Lines such as `1: POSIX  ADVISORY  READ 1234 08:02:131090 123 123`: who, which inode, from which byte to which. */
function readersOf(locks: string, inode: number): number[] {
  const pids = [...locks.matchAll(/^\d+: POSIX +\S+ +READ +(\d+) +\S+:\S+:(\d+) +(\d+) +(\d+)$/gm)].flatMap(
    ([, pid, ino, from, to]) =>
      Number(ino) === inode && Number(to) >= FIRST_LOCK && Number(from) <= LAST_LOCK ? [Number(pid)] : [],
  );
  return [...new Set(pids)];
}

function commandOf(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").join(" ").trim().slice(0, 200) || null;
  } catch {
    return null;
  }
}
