/**
 * Versions of what is stored, so that an answer read before can be used until something that it depends on changes.
 *
 * SQLite itself reports the changes of this connection, through temporary triggers: whatever statement changes a row, a
 * cascade included, moves the version of its table. Commits of other connections are found by `PRAGMA data_version`,
 * and move every version. A write that is rolled back moves versions too, which costs a read and is never wrong.
 *
 * Invariant: versions only rise, and one rises before any value of the change can be read.
 */
import type { Db } from "./types.ts";

export type Versions = {
  /**
   * The version of the tables that authentication reads: keys, sessions, users, organizations, memberships and service
   * accounts. Also notices other processes: outside a transaction at most once a turn of the event loop, inside one
   * every time, because there it takes no lock and no other process can commit.
   */
  access(): number;
};

/** The tables that authentication reads, with the columns that it does not. */
const ACCESS_TABLES: Readonly<Record<string, readonly string[]>> = {
  // Written at intervals for all keys in use.
  api_keys: ["last_used_at"],
  memberships: [],
  organizations: [],
  service_accounts: [],
  // Includes the latest use, which decides whether a session has expired.
  sessions: [],
  users: [],
};

/**
 * Starts to watch a connection. Call it once for each.
 * @param endTurn calls back when this turn of the event loop is over
 */
export function watchVersions(
  db: Db,
  endTurn: (done: () => void) => void = (done) => void setImmediate(done),
): Versions {
  let [latest, access] = [1, 1];
  db.function("assay_access_changed", () => {
    access = latest += 1;
    return null;
  });
  for (const [table, unread] of Object.entries(ACCESS_TABLES)) watchTable(db, table, unread);

  const dataVersion = db.prepare<[], number>("PRAGMA data_version").pluck();
  let lastDataVersion = dataVersion.get();
  let wasChecked = false;
  const forget = (): void => void (wasChecked = false);
  function noticeOthers(): void {
    if (!db.inTransaction) {
      if (wasChecked) return;
      wasChecked = true;
      endTurn(forget);
    }
    const current = dataVersion.get();
    if (current === lastDataVersion) return;
    lastDataVersion = current;
    access = latest += 1;
  }

  return {
    access() {
      noticeOthers();
      return access;
    },
  };
}

/** Creates the triggers of one table. @param unread columns whose change does not count */
function watchTable(db: Db, table: string, unread: readonly string[]): void {
  const columns = db.prepare<[string], string>("SELECT name FROM pragma_table_info(?)").pluck().all(table);
  const read = columns.filter((column) => !unread.includes(column));
  for (const [name, event] of [
    ["added", "INSERT"],
    ["changed", `UPDATE OF ${read.join(", ")}`],
    ["removed", "DELETE"],
  ] as const)
    db.exec(
      `CREATE TEMP TRIGGER ${table}_${name} AFTER ${event} ON main.${table} BEGIN SELECT assay_access_changed(); END`,
    );
}
