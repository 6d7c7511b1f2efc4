import type { Db, SchemaSources } from "./types.ts";

export type JobRow = {
  id: number;
  kind: string;
  payload_json: string;
  /** Epoch seconds. */
  created_at: number;
  /** Epoch seconds. */
  due_at: number;
  /** Epoch seconds, 0 without a lease. */
  leased_until: number;
  /** How often it was leased. */
  attempts: number;
  /** Why the latest attempt failed, null before the first failure. */
  last_error: string | null;
};

/** A lease of a job: a later one has another number of attempts. */
export type Lease = Pick<JobRow, "id" | "attempts">;

const COLUMNS = "id, kind, payload_json, created_at, due_at, leased_until, attempts, last_error";

export function jobStore(db: Db, { now }: Pick<SchemaSources, "now">) {
  const byId = db.prepare<[number], JobRow>(`SELECT ${COLUMNS} FROM jobs WHERE id = ?`);
  const newestId = db.prepare<[], { id: number | null }>("SELECT max(id) AS id FROM jobs");
  const insert = db.prepare("INSERT INTO jobs (id, kind, payload_json, created_at, due_at) VALUES (?, ?, ?, ?, ?)");
  const ready = db.prepare<[string, number, number, number], JobRow>(
    `SELECT ${COLUMNS} FROM jobs WHERE kind = ? AND due_at <= ? AND leased_until <= ? ORDER BY due_at, id LIMIT ?`,
  );
  const leasedUntil = db.prepare<[string, number], { at: number | null }>(
    "SELECT min(leased_until) AS at FROM jobs WHERE kind = ? AND due_at <= ?",
  );
  const later = db.prepare<[string, number], { at: number }>(
    "SELECT due_at AS at FROM jobs WHERE kind = ? AND due_at > ? ORDER BY due_at LIMIT 1",
  );
  const kindAfter = db.prepare<[string], { kind: string }>(
    "SELECT kind FROM jobs WHERE kind > ? ORDER BY kind LIMIT 1",
  );
  const begin = db.prepare("UPDATE jobs SET leased_until = ?, attempts = attempts + 1 WHERE id = ?");
  const extend = db.prepare("UPDATE jobs SET leased_until = ? WHERE id = ? AND attempts = ?");
  const remove = db.prepare("DELETE FROM jobs WHERE id = ?");
  const repeat = db.prepare(
    "UPDATE jobs SET due_at = ?, leased_until = 0, last_error = NULL WHERE id = ? AND attempts = ?",
  );
  const advance = db.prepare("UPDATE jobs SET due_at = ? WHERE id = ? AND due_at > ?");
  const postpone = db.prepare(
    "UPDATE jobs SET due_at = ?, leased_until = 0, last_error = ? WHERE id = ? AND attempts = ?",
  );
  const pull = db.prepare<[number, string, number]>("UPDATE jobs SET due_at = ? WHERE kind = ? AND due_at >= ?");
  // Reads the whole table, once for each start of the program: an index would cost every job two writes more.
  const release = db.prepare("UPDATE jobs SET leased_until = 0 WHERE leased_until > 0");

  let newest = 0;
  let added = false;

  /** The kinds of all jobs that wait, by name. */
  function kinds(): string[] {
    const found: string[] = [];
    // From each to the next one in the index: as many steps as there are kinds, however many jobs there are.
    for (let row = kindAfter.get(""); row; row = kindAfter.get(row.kind)) found.push(row.kind);
    return found;
  }

  return {
    /** The largest id that was ever given or seen here. */
    newestId: (): number => newest,
    /**
     * Ids up to that one are taken, by jobs that are done perhaps: for a second connection, which cannot know of those.
     */
    reserveIds: (id: number): void => void (newest = Math.max(newest, id)),
    /**
     * Adds a job. `payload` is anything that JSON can hold; it is stored as it is, so no secrets.
     * @param dueAt epoch seconds; left out: at once.
     * @returns its id, which no other job gets while this program runs, done ones included.
     */
    add(kind: string, payload: unknown, dueAt?: number): number {
      const at = now();
      newest = Math.max(newest, newestId.get()?.id ?? 0) + 1;
      insert.run(newest, kind, JSON.stringify(payload), at, dueAt ?? at);
      added = true;
      return newest;
    },
    /**
     * Whether `add`, or `hasten` with effect, was called since this was asked last. Also true when the write was
     * undone: whoever looks finds nothing then.
     */
    takeAddedFlag(): boolean {
      const answer = added;
      added = false;
      return answer;
    },
    /** The job, null when it is done. */
    find: (id: number): JobRow | null => byId.get(id) ?? null,
    listKinds: kinds,
    /**
     * The time from which a job of that kind can be leased, epoch seconds: not after `at` when one can be at once, null
     * when there is none.
     */
    findNextDue(kind: string, at: number): number | null {
      const [first] = ready.all(kind, at, at, 1);
      if (first) return first.due_at;
      // Here all that are due are leased, so they are few.
      const times = [leasedUntil.get(kind, at)?.at, later.get(kind, at)?.at].filter((time) => typeof time === "number");
      return times.length > 0 ? Math.min(...times) : null;
    },
    /**
     * Takes at most `limit` jobs of a kind that are due `at` and that nobody has, for `seconds` from then; oldest due
     * first.
     */
    lease(kind: string, at: number, seconds: number, limit: number): JobRow[] {
      const until = at + seconds;
      return ready.all(kind, at, at, limit).map((row) => {
        begin.run(until, row.id);
        newest = Math.max(newest, row.id);
        return { ...row, leased_until: until, attempts: row.attempts + 1 };
      });
    },
    /** Holds a lease until then. @returns false when the job is gone or somebody else has it. */
    renew: ({ id, attempts }: Lease, until: number): boolean => extend.run(until, id, attempts).changes > 0,
    /** Removes a job whose work is done, whoever has its lease now. */
    complete: (id: number): void => void remove.run(id),
    /** The attempt failed: the job is due again at `dueAt`. Changes nothing when it is gone or somebody else has it. */
    fail: ({ id, attempts }: Lease, error: string, dueAt: number): void =>
      void postpone.run(dueAt, error, id, attempts),
    /**
     * The attempt went well and there is more to do: the job is due again at `dueAt`. Changes nothing when it is gone
     * or somebody else has it.
     */
    reschedule: ({ id, attempts }: Lease, dueAt: number): void => void repeat.run(dueAt, id, attempts),
    /**
     * Makes a job due at `dueAt` if it is due later; one that somebody works on keeps its lease. Whoever does so wakes
     * the runner.
     */
    expedite(id: number, dueAt: number): void {
      if (advance.run(dueAt, id, dueAt).changes > 0) added = true;
    },
    /**
     * Makes all jobs that are due at `from` or later due at `at`: what a clock that ran ahead put off. A job that comes
     * too early this way must not mind. Times in epoch seconds.
     */
    pullForward(from: number, at: number): void {
      for (const kind of kinds()) if (pull.run(at, kind, from).changes > 0) added = true;
    },
    /**
     * Ends all leases. Only for who knows that nobody works on a job: the process that took the data directory
     * (lock.ts). @returns how many.
     */
    releaseAllLeases: (): number => release.run().changes,
  };
}
