/**
 * The write lock of the database, which one connection of all processes holds at a time. The serving thread never
 * waits inside SQLite for it (connection.ts): the writer makes an attempt, and further ones by a timer, while all else
 * goes on. A write that has waited for the deadline is refused.
 */
import { unavailable } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import { LOCK_TIMEOUT_MS } from "./connection.ts";
import type { LockHolder } from "./wal.ts";

/** Pauses before the next attempts, the last one from then on: most locks are held for a few milliseconds. */
const PAUSES_MS = [1, 2, 5, 10, 25, 50];

/** A lock that is held for so long is logged: our own commands hold it for less. */
const NOTICE_MS = 1_000;
/** How long the holder that was found is taken to be the same. */
const LOOKUP_MS = 1_000;

/** How long another process has held the lock, and which one, as far as the kernel tells. */
export type LockReport = { heldMs: number; holder: LockHolder | null };

export type WriteLockOptions = {
  /** Finds the process that holds the lock; null where it cannot be found. */
  findHolder?: () => LockHolder | null;
  /** Called once when the lock has been held for a second. */
  onHeld?: (report: LockReport) => void;
  /** Called when it is free again after `onHeld`, with the writes that were refused meanwhile. */
  onFree?: (result: { heldMs: number; refused: number }) => void;
};

/** SQLite's error when another connection holds a lock, or recovers the log. */
export const isLockedOut = (error: unknown): boolean =>
  String((error as { code?: unknown } | null)?.code).startsWith("SQLITE_BUSY");

/** The state of the lock for the one writer of a process. All times are milliseconds of its monotonic clock. */
export function createWriteLock({
  findHolder = () => null,
  onHeld = () => undefined,
  onFree = () => undefined,
}: WriteLockOptions = {}) {
  let since: number | null = null;
  let attempts = 0;
  let refused = 0;
  let isNoticed = false;
  let found: { holder: LockHolder | null; at: number } | null = null;

  function reportAt(now: number): LockReport | null {
    if (since === null) return null;
    // A lookup reads the kernel's table of all locks.
    if (!found || now - found.at >= LOOKUP_MS) found = { holder: findHolder(), at: now };
    return { heldMs: now - since, holder: found.holder };
  }

  return {
    /** Whether the latest attempt failed. */
    isHeld: (): boolean => since !== null,
    /** The holder, if the latest attempt failed. */
    report: reportAt,
    /** Milliseconds for which it has been held, 0 if the latest attempt succeeded. */
    heldMs: (now: number): number => (since === null ? 0 : now - since),

    /** An attempt that began at `began` failed. @returns milliseconds until the next one */
    failed(began: number, now: number): number {
      since ??= began;
      const report = isNoticed || now - since < NOTICE_MS ? null : reportAt(now);
      if (report) {
        isNoticed = true;
        onHeld(report);
      }
      const pause = PAUSES_MS[Math.min(attempts, PAUSES_MS.length - 1)] as number;
      attempts += 1;
      return pause;
    },

    /** An attempt succeeded. */
    acquired(now: number): void {
      if (since === null) return;
      const heldMs = now - since;
      const wasNoticed = isNoticed;
      const count = refused;
      [since, found, attempts, refused, isNoticed] = [null, null, 0, 0, false];
      if (wasNoticed) onFree({ heldMs, refused: count });
    },

    /** Whether a write that is queued since `queuedAt` has waited for the lock long enough. */
    isOverdue: (queuedAt: number, now: number): boolean =>
      since !== null && now - Math.max(queuedAt, since) >= LOCK_TIMEOUT_MS,

    /** The refusal of a write, which it counts. `cause` is for the log. */
    refusal(now: number, cause: unknown): AppError {
      refused += 1;
      return lockedError(reportAt(now), cause);
    },
  };
}

/** The end of a sentence about the process that holds the lock. */
export const lockText = ({ heldMs, holder }: LockReport): string =>
  `another process${holder ? ` (${holder.name}, process ${holder.pid})` : ""} has held the write lock of the ` +
  `database for ${Math.floor(heldMs / 1_000)} seconds`;

/** 503: the database cannot be written, or in rare moments read, because of another process. */
export function lockedError(report: LockReport | null, cause: unknown): AppError {
  const text = report ? lockText(report) : "another process has locked the database";
  return unavailable(
    `${text.charAt(0).toUpperCase()}${text.slice(1)}. Nothing was changed. Please try again; if it keeps failing, ` +
      "the operator can end that process (assay help database-files)",
    5,
    cause,
  );
}
