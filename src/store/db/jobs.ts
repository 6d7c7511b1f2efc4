/**
 * Jobs: work that a committed change asks for, inserted in the transaction of the change (outbox).
 *
 * Invariants: a row exists exactly until its work is done; a job is leased to one worker at a time, and only the holder
 * of the latest lease (the row's current number of attempts) can fail or reschedule it.
 *
 * All times are epoch seconds. Call every method that changes something inside a write.
 */
import { number, orNull, selectList, string } from "./columns.ts";
import type { RowOf } from "./columns.ts";
import type { Db, SchemaSources } from "./types.ts";

const JOB = {
  id: number,
  kind: string,
  payload_json: string,
  created_at: number,
  due_at: number,
  /** 0 without a lease. */
  leased_until: number,
  /** How often it was leased. */
  attempts: number,
  /** Why the latest attempt failed; null before the first failure. */
  last_error: orNull(string),
};
export type JobRow = RowOf<typeof JOB>;

/** A lease of a job. Each lease raises the number of attempts, which identifies it. */
type Lease = Pick<JobRow, "id" | "attempts">;

const COLUMNS = selectList(JOB);

export function jobStore(db: Db, { now }: Pick<SchemaSources, "now">) {
  const byId = db.prepare<[number], JobRow>(`SELECT ${COLUMNS} FROM jobs WHERE id = ?`);
  const maxId = db.prepare<[], { id: number | null }>("SELECT max(id) AS id FROM jobs");
  const insert = db.prepare("INSERT INTO jobs (id, kind, payload_json, created_at, due_at) VALUES (?, ?, ?, ?, ?)");
  const ready = db.prepare<[string, number, number, number], JobRow>(
    `SELECT ${COLUMNS} FROM jobs WHERE kind = ? AND due_at <= ? AND leased_until <= ? ORDER BY due_at, id LIMIT ?`,
  );
  const minLeasedUntil = db.prepare<[string, number], { at: number | null }>(
    "SELECT min(leased_until) AS at FROM jobs WHERE kind = ? AND due_at <= ?",
  );
  const nextDueAt = db.prepare<[string, number], { at: number }>(
    "SELECT due_at AS at FROM jobs WHERE kind = ? AND due_at > ? ORDER BY due_at LIMIT 1",
  );
  const kindAfter = db.prepare<[string], { kind: string }>(
    "SELECT kind FROM jobs WHERE kind > ? ORDER BY kind LIMIT 1",
  );
  const setLease = db.prepare("UPDATE jobs SET leased_until = ?, attempts = attempts + 1 WHERE id = ?");
  const extend = db.prepare("UPDATE jobs SET leased_until = ? WHERE id = ? AND attempts = ?");
  const remove = db.prepare("DELETE FROM jobs WHERE id = ?");
  const reschedule = db.prepare(
    "UPDATE jobs SET due_at = ?, leased_until = 0, last_error = NULL WHERE id = ? AND attempts = ?",
  );
  const advance = db.prepare("UPDATE jobs SET due_at = ? WHERE id = ? AND due_at > ?");
  const recordFailure = db.prepare(
    "UPDATE jobs SET due_at = ?, leased_until = 0, last_error = ? WHERE id = ? AND attempts = ?",
  );
  const pull = db.prepare<[number, string, number]>("UPDATE jobs SET due_at = ? WHERE kind = ? AND due_at >= ?");
  // Scans the whole table, but only once at each start: an index would cost every job two more writes.
  const release = db.prepare("UPDATE jobs SET leased_until = 0 WHERE leased_until > 0");

  let newest = 0;
  let wereAdded = false;

  /** The kinds of all jobs, ordered by name. */
  function listKinds(): string[] {
    const kinds: string[] = [];
    // A loose index scan: as many steps as there are kinds, however many jobs there are.
    for (let row = kindAfter.get(""); row; row = kindAfter.get(row.kind)) kinds.push(row.kind);
    return kinds;
  }

  return {
    /** The largest id that this store ever assigned or saw. */
    newestId: (): number => newest,
    /** Marks ids up to `id` as used, perhaps by jobs already done, which a second connection cannot know of. */
    reserveIds: (id: number): void => void (newest = Math.max(newest, id)),
    /**
     * Adds a job. `payload` is any JSON value; it is stored in plain text, so it must hold no secrets.
     * @param dueAt now unless given.
     * @returns its id, which no other job gets while this program runs, not even after this one is done.
     */
    add(kind: string, payload: unknown, dueAt?: number): number {
      const at = now();
      newest = Math.max(newest, maxId.get()?.id ?? 0) + 1;
      insert.run(newest, kind, JSON.stringify(payload), at, dueAt ?? at);
      wereAdded = true;
      return newest;
    },
    /**
     * Whether a job was added or expedited since the last call. Also true when that write was rolled back: the runner
     * then simply finds no job.
     */
    takeAddedFlag(): boolean {
      const flag = wereAdded;
      wereAdded = false;
      return flag;
    },
    /** The job; null when it is done. */
    find: (id: number): JobRow | null => byId.get(id) ?? null,
    listKinds,
    /**
     * The earliest time at which a job of that kind can be leased: not after `at` when one can be leased at once, null
     * when there is none.
     */
    findNextDue(kind: string, at: number): number | null {
      const [first] = ready.all(kind, at, at, 1);
      if (first) return first.due_at;
      // Every due job is leased here, so these are few rows.
      const times = [minLeasedUntil.get(kind, at)?.at, nextDueAt.get(kind, at)?.at].filter(
        (time) => typeof time === "number",
      );
      return times.length > 0 ? Math.min(...times) : null;
    },
    /**
     * Leases at most `limit` jobs of a kind that are due and not leased at `at`, for `seconds` from then; oldest due
     * first.
     */
    lease(kind: string, { at, seconds, limit }: { at: number; seconds: number; limit: number }): JobRow[] {
      const until = at + seconds;
      return ready.all(kind, at, at, limit).map((row) => {
        setLease.run(until, row.id);
        newest = Math.max(newest, row.id);
        return { ...row, leased_until: until, attempts: row.attempts + 1 };
      });
    },
    /** Extends a lease. @returns false when the job is done or leased to another worker. */
    renew: ({ id, attempts }: Lease, until: number): boolean => extend.run(until, id, attempts).changes > 0,
    /** Deletes a job whose work is done, also under the lease of another worker. */
    complete: (id: number): void => void remove.run(id),
    /**
     * Records a failed attempt; the job is due again at `dueAt`. No effect when it is done or leased to another worker.
     */
    fail: ({ id, attempts }: Lease, error: string, dueAt: number): void =>
      void recordFailure.run(dueAt, error, id, attempts),
    /**
     * Ends a successful attempt that leaves more to do; the job is due again at `dueAt`. No effect when it is done or
     * leased to another worker.
     */
    reschedule: ({ id, attempts }: Lease, dueAt: number): void => void reschedule.run(dueAt, id, attempts),
    /** Makes a job due at `dueAt` if it is due later; a lease stays. The caller wakes the runner. */
    expedite(id: number, dueAt: number): void {
      if (advance.run(dueAt, id, dueAt).changes > 0) wereAdded = true;
    },
    /**
     * Makes all jobs that are due at `from` or later due at `at`: those that a clock running ahead postponed. Every
     * kind of job must tolerate running too early.
     */
    pullForward(from: number, at: number): void {
      for (const kind of listKinds()) if (pull.run(at, kind, from).changes > 0) wereAdded = true;
    },
    /**
     * Ends all leases. Only for the process that just locked the data directory, because then no worker runs.
     * @returns how many leases there were.
     */
    releaseAllLeases: (): number => release.run().changes,
  };
}
