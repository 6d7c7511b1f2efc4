/**
 * Versions of what is stored, so that what was read before can be used until something that it depends on changes.
 *
 * SQLite itself reports the changes of this connection, through temporary triggers: whatever statement changes a row, a
 * cascade included, moves a version. Commits of other connections are found by `PRAGMA data_version`, and move every
 * version. A write that is rolled back moves versions too, which costs a read and is never wrong.
 *
 * Invariant: versions only rise, and one rises before any value of the change can be read.
 */
import type { Db } from "./types.ts";

/** What an answer may depend on: a trail by its row id, or all records of an artifact by their fingerprint. */
export type Dependency = number | string;

export type Versions = {
  /**
   * The version of the tables that authentication reads: keys, sessions, users, organizations, memberships and service
   * accounts. Also notices other processes: outside a transaction at most once a turn of the event loop, inside one
   * every time.
   */
  access(): number;
  /** The latest version of anything that an answer may depend on; notices other processes as `access` does. */
  latest(): number;
  /**
   * Whether nothing changed since that version (of `latest`) but trails and artifacts other than these. Does not look
   * for other processes: call `latest` before it, in the same turn of the event loop.
   */
  isCurrent(subjects: readonly Dependency[], since: number): boolean;
  /** A number that is another one after any change of any row by any connection. Looks at the database every time. */
  state(): number;
};

/** What the triggers call. Each but the last takes the id of what changed. */
type Event = "trail" | "artifact" | "access" | "anything";

/**
 * How a change of a table counts.
 * - `events`: by the name of the function, an expression over the changed row, `ROW`. None: no answer and no
 *   authentication reads the table.
 * - `unread`: columns that neither reads, and that many writes change.
 */
type Watch = { events: Partial<Record<Event, string>>; unread?: readonly string[] };

const UNREAD: Watch = { events: {} };
const OF_TRAIL: Watch = { events: { trail: "ROW.trail_id" } };
const RIGHTS: Watch = { events: { access: "", anything: "" } };

/**
 * The tables that need more or less than the rule for all others: a change of any row is a change of anything. A new
 * table that is written all the time has to be listed here; until then answers are kept less long, and never too long.
 * A test finds answers that read a table without events.
 */
const TABLES: Readonly<Record<string, Watch>> = {
  memberships: RIGHTS,
  organizations: RIGHTS,
  service_accounts: RIGHTS,
  users: RIGHTS,
  // Written at intervals, for all keys in use.
  api_keys: { events: { access: "" }, unread: ["last_used_at"] },
  // Includes the latest use, which decides whether a session has expired.
  sessions: { events: { access: "" } },

  artifacts: { events: { artifact: "ROW.fingerprint", trail: "ROW.trail_id" } },
  attestations: OF_TRAIL,
  // Both sides of a binding are of one trail.
  attestation_bindings: { events: { trail: "(SELECT trail_id FROM main.artifacts WHERE id = ROW.artifact_id)" } },
  current_attestations: OF_TRAIL,
  trails: { events: { trail: "ROW.id" } },
  flows: { events: { anything: "" }, unread: ["latest_activity_at", "latest_state", "trail_count"] },
  environments: {
    events: { anything: "" },
    unread: ["last_reported_at", "last_changed_at", "state", "running_digest", "revision", "checked_revision"],
  },

  ...Object.fromEntries(
    [
      "api_key_warnings",
      "attestation_series",
      "attestation_series_records",
      "audit_log",
      "builds",
      "clock",
      "commit_number",
      "deliveries",
      "delivery_attempts",
      "delivery_queues",
      "deployments",
      "environment_event_repos",
      "evaluations",
      "evidence_totals",
      "identities",
      "inbound_webhook_receipts",
      "inbound_webhooks",
      "jobs",
      "notification_targets",
      "passwords",
      "pending_bindings",
      "rego_documents",
      "rego_evaluation_trails",
      "rego_evaluations",
      "repos",
      "small_evidence",
      "sonar_flows",
      "stale_artifacts",
      "templates",
      "trail_events",
      "trail_repos",
      "unknown_inputs",
      "views",
    ].map((table) => [table, UNREAD]),
  ),
};
const ANYTHING: Watch = { events: { anything: "" } };

/** Subjects whose version is known; above it all of them count as changed. A megabyte. */
const MAX_SUBJECTS = 10_000;

type WatchOptions = {
  /** Calls back when this turn of the event loop is over. */
  endTurn?: (done: () => void) => void;
};

/** Starts to watch a connection. Call it once for each. */
export function watchVersions(db: Db, { endTurn = (done) => void setImmediate(done) }: WatchOptions = {}): Versions {
  let [latest, access, anything] = [1, 1, 1];
  /** The version of each subject that changed after `floor`. */
  const subjects = new Map<Dependency, number>();
  let floor = 1;
  function moveSubject(subject: Dependency | null): void {
    latest += 1;
    if (subject === null) return;
    if (subjects.size >= MAX_SUBJECTS) {
      subjects.clear();
      floor = latest;
    }
    subjects.set(subject, latest);
  }
  const moves: Record<Event, (subject: Dependency | null) => void> = {
    trail: moveSubject,
    artifact: moveSubject,
    access: () => (access = latest += 1),
    anything: () => (anything = latest += 1),
  };
  for (const [event, move] of Object.entries(moves))
    db.function(functionOf(event), (subject: unknown) => {
      move(subject as Dependency | null);
      return null;
    });
  for (const table of tablesOf(db)) watchTable(db, table, TABLES[table] ?? ANYTHING);

  const dataVersion = db.prepare<[], number>("PRAGMA data_version").pluck();
  const totalChanges = db.prepare<[], number>("SELECT total_changes()").pluck();
  let lastDataVersion = dataVersion.get();
  let wasChecked = false;
  const forget = (): void => void (wasChecked = false);
  function noticeOthers(): void {
    if (!db.inTransaction) {
      if (wasChecked) return;
      wasChecked = true;
      endTurn(forget);
    }
    readDataVersion();
  }
  function readDataVersion(): void {
    const current = dataVersion.get();
    if (current === lastDataVersion) return;
    lastDataVersion = current;
    access = anything = latest += 1;
  }

  let [lastChanges, lastOthers, state] = [-1, -1, 0];
  return {
    access() {
      noticeOthers();
      return access;
    },
    latest() {
      noticeOthers();
      return latest;
    },
    isCurrent: (of, since) =>
      since === latest || (anything <= since && of.every((subject) => (subjects.get(subject) ?? floor) <= since)),
    state() {
      const [changes, others] = [totalChanges.get() as number, dataVersion.get() as number];
      if (changes !== lastChanges || others !== lastOthers) state += 1;
      [lastChanges, lastOthers] = [changes, others];
      return state;
    },
  };
}

const functionOf = (event: string): string => `assay_${event}_changed`;

const tablesOf = (db: Db): string[] =>
  db
    .prepare<[], string>("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .pluck()
    .all();

/** Creates the triggers of one table. */
function watchTable(db: Db, table: string, { events, unread = [] }: Watch): void {
  const columns = db.prepare<[string], string>("SELECT name FROM pragma_table_info(?)").pluck().all(table);
  const read = columns.filter((column) => !unread.includes(column)).join(", ");
  const watch = (suffix: string, on: string, row: "NEW" | "OLD"): void => {
    const calls = Object.entries(events).map(
      ([event, subject]) => `SELECT ${functionOf(event)}(${subject === "" ? "NULL" : subject.replaceAll("ROW", row)});`,
    );
    if (calls.length > 0)
      db.exec(`CREATE TEMP TRIGGER ${table}_${suffix} AFTER ${on} ON main.${table} BEGIN ${calls.join(" ")} END`);
  };
  watch("added", "INSERT", "NEW");
  watch("removed", "DELETE", "OLD");
  watch("changed", `UPDATE OF ${read}`, "NEW");
  // A row that goes from one subject to another is a change of both.
  const identity = columns.filter((column) => IDENTITY.includes(column));
  if (identity.length > 0) watch("moved", `UPDATE OF ${identity.join(", ")}`, "OLD");
}

/** The columns by which rows belong to a subject. */
const IDENTITY: readonly string[] = ["id", "trail_id", "artifact_id", "fingerprint"];
