/**
 * Ends of allowlist entries that are still to come: one row and one job for each entry that has an end and counts. The
 * job warns before the end and records it (jobs/end-allowlist-entries.ts). Evaluations compare with the end themselves
 * and do not wait for the job.
 *
 * All times are epoch seconds. Call every method that changes something inside a write.
 */
import { findWarningTime } from "../../domain/notification/allowlist-expiry.ts";
import type { jobStore } from "../db/jobs.ts";
import type { Db } from "../db/types.ts";

/** The end of an entry. */
type AllowlistEnd = {
  entry_id: number;
  environment_id: number;
  fingerprint: string;
  expires_at: number;
  /** When a warning was sent; null: not yet. */
  warned_at: number | null;
  /** When the entry was added. */
  timestamp: number;
};

/** An entry whose end was recorded, for the audit log. */
export type EndedEntry = { public_id: string; fingerprint: string; expires_at: number };

/** Payload of the jobs of kind `allowlist_end`. */
export type AllowlistEndPayload = { entry_id: number };

type NewEntry = Pick<AllowlistEnd, "environment_id" | "fingerprint" | "timestamp"> & {
  id: number;
  expires_at: number | null;
};

export function allowlistEndStore(db: Db, jobs: Pick<ReturnType<typeof jobStore>, "add">) {
  const byEntry = db.prepare<[number], AllowlistEnd>(
    `SELECT ae.entry_id, ae.environment_id, ae.fingerprint, ae.expires_at, ae.warned_at, al.timestamp
     FROM allowlist_ends ae JOIN allowlist_entries al ON al.id = ae.entry_id WHERE ae.entry_id = ?`,
  );
  const isOpen = db.prepare<[number], { one: 1 }>("SELECT 1 AS one FROM allowlist_ends WHERE entry_id = ?");
  const nextAfter = db.prepare<[number, number], { at: number | null }>(
    "SELECT min(expires_at) AS at FROM allowlist_ends WHERE environment_id = ? AND expires_at > ?",
  );
  const reached = db.prepare<[number, number], { fingerprint: string }>(
    "SELECT fingerprint FROM allowlist_ends WHERE environment_id = ? AND expires_at <= ?",
  );
  const remove = db.prepare("DELETE FROM allowlist_ends WHERE environment_id = ? AND fingerprint = ?");
  const insert = db.prepare(
    "INSERT INTO allowlist_ends (entry_id, environment_id, fingerprint, expires_at) VALUES (?, ?, ?, ?)",
  );
  const setWarned = db.prepare("UPDATE allowlist_ends SET warned_at = ? WHERE entry_id = ?");
  const due = db.prepare<[number, number, number], EndedEntry & { entry_id: number }>(
    `SELECT ae.entry_id, al.public_id, ae.fingerprint, ae.expires_at
     FROM allowlist_ends ae JOIN allowlist_entries al ON al.id = ae.entry_id
     WHERE ae.environment_id = ? AND ae.expires_at <= ? ORDER BY ae.expires_at, ae.entry_id LIMIT ?`,
  );

  const findNext = (environmentId: number, after: number): number | null =>
    nextAfter.get(environmentId, after)?.at ?? null;

  return {
    /** The end of an entry that counts; null when the entry has none, has ended, or has a newer one in its place. */
    find: (entryId: number): AllowlistEnd | null => byEntry.get(entryId) ?? null,
    /** Whether an entry that has an end still counts, apart from the time. */
    isOpen: (entryId: number): boolean => isOpen.get(entryId) !== undefined,
    /** Whether any entry of an environment that counts will end or has ended. Reads one entry of an index. */
    hasAny: (environmentId: number): boolean => findNext(environmentId, -1) !== null,
    /**
     * Whether an entry of an environment ended after `after` without a record of it.
     * @param at not called for an environment in which nothing ends
     */
    hasReached(environmentId: number, at: () => number, after = -1): boolean {
      const next = findNext(environmentId, after);
      return next !== null && next <= at();
    },
    /** The fingerprints whose entry had ended at `at` without a record of it. */
    listReached: (environmentId: number, at: number): string[] =>
      reached.all(environmentId, at).map(({ fingerprint }) => fingerprint),
    /** A new entry takes the place of earlier ones for its fingerprint: their end is void, and its own counts. */
    replace({ id, environment_id, fingerprint, expires_at, timestamp }: NewEntry): void {
      remove.run(environment_id, fingerprint);
      if (expires_at === null) return;
      insert.run(id, environment_id, fingerprint, expires_at);
      const dueAt = findWarningTime({ timestamp, expires_at }) ?? expires_at;
      jobs.add("allowlist_end", { entry_id: id } satisfies AllowlistEndPayload, dueAt);
    },
    /** Records that the warning before the end of an entry was sent, or that no action watches. */
    markWarned: (entryId: number, at: number): void => void setWarned.run(at, entryId),
    /** Records the end of at most `limit` entries of an environment that had ended at `at`; first to end first. */
    close(environmentId: number, at: number, limit: number): EndedEntry[] {
      return due.all(environmentId, at, limit).map(({ entry_id: _, ...entry }) => {
        remove.run(environmentId, entry.fingerprint);
        return entry;
      });
    },
  };
}
