// Acknowledged writes to environments, and looking for them in the database and over HTTP.
import { runningDigest } from "../../src/diagnostics/verify/environments.ts";
import { ORG } from "./ledger.ts";
import type { Api, Entry } from "./ledger.ts";
import { TRANSIENT, CLOCK_ROUNDING_S } from "./load-environments.ts";
import type { World } from "./load-environments.ts";
import type { DbReader } from "../../src/store/db/types.ts";

/** When a request was sent and its response had arrived, in epoch seconds of the clock that the server uses too. */
type During = { sent: number; answered: number };

/** One acknowledged write. `environment` is the name that was used; `set` is the runningDigest of the report. */
export type EnvironmentEntry =
  | ({
      kind: "report";
      environment: string;
      set: string;
      /** Whether the response announced a new snapshot. */
      made: boolean;
    } & During)
  | ({ kind: "attached"; environment: string; policy: string; attached: boolean } & During)
  | ({ kind: "allowed"; environment: string; fingerprint: string; n: number } & During)
  | { kind: "tagged"; flow: string; key: string; n: number }
  | ({ kind: "archived"; environment: string } & During);

export const isOfEnvironments = (entry: Entry | EnvironmentEntry): entry is EnvironmentEntry =>
  ["report", "attached", "allowed", "tagged", "archived"].includes(entry.kind);

/** A snapshot of an environment, the latest one until `until`; `policies` are the names of its policies. */
type Made = { timestamp: number; until: number; cause: string; set: string; policies: string[] };

/** The acknowledged writes that are missing, one text each. */
export function missingEnvironmentEntries(db: DbReader, entries: readonly EnvironmentEntry[]): string[] {
  const sentFirst = Math.min(...entries.flatMap((entry) => ("sent" in entry ? [entry.sent] : [])));
  const names = [
    ...new Set(
      entries.flatMap((entry) => ("environment" in entry && entry.kind !== "archived" ? [entry.environment] : [])),
    ),
  ];
  const problems: string[] = [];
  for (const name of names) {
    const own = entries.filter((entry) => "environment" in entry && entry.environment === name);
    problems.push(...missingIn(db, name, madeSince(db, name, sentFirst), own).map((problem) => `${name}: ${problem}`));
  }
  const tag = db
    .prepare("SELECT t.value FROM flow_tags t JOIN flows f ON f.id = t.flow_id WHERE f.name = ? AND t.key = ?")
    .pluck();
  const archived = db
    .prepare("SELECT count(*) FROM environments WHERE archived_name = ? AND archived_at BETWEEN ? AND ?")
    .pluck();
  for (const entry of entries) {
    if (entry.kind === "tagged") {
      const value = tag.get(entry.flow, entry.key) as string | undefined;
      if (!(Number(value) >= entry.n))
        problems.push(`tag ${entry.key} of ${entry.flow} is ${value}, and ${entry.n} was acknowledged`);
    }
    if (
      entry.kind === "archived" &&
      archived.get(entry.environment, entry.sent - CLOCK_ROUNDING_S, entry.answered + CLOCK_ROUNDING_S) !== 1
    )
      problems.push(`${entry.environment} was not archived`);
  }
  return problems;
}

/** All environments that ever had the name; the transient one is recreated under many names. */
const ids = (db: DbReader, name: string): number[] =>
  db
    .prepare(
      "SELECT id FROM environments WHERE name = @name OR (@name = @transient AND name LIKE @name || '%') ORDER BY id",
    )
    .pluck()
    .all({ name, transient: TRANSIENT }) as number[];

/** The snapshots of an environment since a time, and the latest one before it, each with what ran. */
function madeSince(db: DbReader, name: string, since: number): Made[] {
  const snapshots = db.prepare(
    `SELECT idx, timestamp, cause, policy_versions_json FROM snapshots
     WHERE environment_id = @id AND timestamp >= coalesce(
       (SELECT max(timestamp) FROM snapshots WHERE environment_id = @id AND timestamp < @since), 0)
     ORDER BY idx`,
  );
  const running = db.prepare(
    `SELECT name, fingerprint FROM snapshot_artifacts WHERE environment_id = @id AND last_index >= @index
      AND first_index <= @index AND annotation <> 'exited'`,
  );
  const policies = new Map(
    (
      db.prepare("SELECT v.id, p.name FROM policy_versions v JOIN policies p ON p.id = v.policy_id").all() as {
        id: number;
        name: string;
      }[]
    ).map((row) => [row.id, row.name]),
  );
  return ids(db, name).flatMap((id) => {
    const rows = snapshots.all({ id, since }) as {
      idx: number;
      timestamp: number;
      cause: string;
      policy_versions_json: string;
    }[];
    return rows.map(({ idx, timestamp, cause, policy_versions_json }, place) => ({
      timestamp,
      until: rows[place + 1]?.timestamp ?? Infinity,
      cause,
      set: runningDigest(running.all({ id, index: idx }) as { name: string; fingerprint: string }[]),
      policies: (JSON.parse(policy_versions_json) as number[]).map((version) => policies.get(version) ?? "?"),
    }));
  });
}

function missingIn(db: DbReader, name: string, made: readonly Made[], entries: readonly EnvironmentEntry[]): string[] {
  const problems: string[] = [];
  const allowed = db
    .prepare("SELECT count(*) FROM allowlist_entries WHERE fingerprint = ? AND description = ?")
    .pluck();
  const reported = db
    .prepare(`SELECT max(last_reported_at) FROM environments WHERE id IN (${ids(db, name).join(", ")})`)
    .pluck()
    .get() as number | null;
  const taken = new Set<Made>();
  // Each response, the earliest first, takes the earliest snapshot that fits: if any assignment works, this one does.
  const inOrder = [...entries].sort((a, b) => ("answered" in a ? a.answered : 0) - ("answered" in b ? b.answered : 0));
  for (const entry of inOrder) {
    if (entry.kind === "tagged") continue;
    const sent = entry.sent - CLOCK_ROUNDING_S;
    const answered = entry.answered + CLOCK_ROUNDING_S;
    if (entry.kind === "report") {
      if (!(reported !== null && reported >= sent))
        problems.push(`last_reported_at is ${reported}, a report at ${entry.sent} was acknowledged`);
      const same = made.filter(({ set, timestamp }) => set === entry.set && timestamp <= answered);
      const found = entry.made
        ? same
            .filter((one) => one.cause === "report" && one.timestamp >= sent && !taken.has(one))
            .sort((a, b) => a.timestamp - b.timestamp)[0]
        : same.find(({ until }) => until >= sent);
      if (!found) problems.push(`no snapshot for the report of ${entry.sent}, answered ${entry.made ? 201 : 200}`);
      else if (entry.made) taken.add(found);
    }
    if (entry.kind === "attached") {
      const done = made.some(
        ({ timestamp, policies }) =>
          timestamp >= sent && timestamp <= answered && policies.includes(entry.policy) === entry.attached,
      );
      if (!done)
        problems.push(
          `no snapshot after ${entry.policy} was ${entry.attached ? "attached" : "detached"} at ${entry.sent}`,
        );
    }
    if (entry.kind === "allowed" && allowed.get(entry.fingerprint, `${entry.n}`) !== 1)
      problems.push(`${entry.fingerprint} is not allowed with the reason ${entry.n}`);
  }
  return problems;
}

type Stored = {
  id: number;
  state: 0 | 1 | null;
  snapshot_count: number;
  last_changed_at: number;
  last_reported_at: number;
  compliant_count: number;
  non_compliant_count: number;
  unknown_count: number;
};

/** Compares what the server shows with the database and the acknowledged policies; updates `world` accordingly. */
export async function differencesShown(api: Api, db: DbReader, world: World): Promise<string[]> {
  const problems: string[] = [];
  for (const [name, attachments] of world.attachments) {
    if (name === TRANSIENT) continue;
    const row = db
      .prepare(
        `SELECT env.id, env.state, env.snapshot_count, env.last_changed_at, env.last_reported_at, s.compliant_count,
                s.non_compliant_count, s.unknown_count
         FROM environments env JOIN snapshots s ON s.environment_id = env.id AND s.idx = env.snapshot_count
         WHERE env.name = ?`,
      )
      .get(name) as Stored;
    const { body: shown } = await api.call("GET", `/environments/${ORG}/${name}`);
    const { body: snapshot } = await api.call("GET", `/snapshots/${ORG}/${name}/-1`);
    const running = db
      .prepare(
        "SELECT name, fingerprint FROM snapshot_artifacts WHERE environment_id = ? AND last_index = 9007199254740991",
      )
      .all(row.id);
    const present = (snapshot.artifacts as { name: string; fingerprint: string; annotation: { now: number } }[]).filter(
      ({ annotation }) => annotation.now > 0,
    );
    const state = row.state === null ? null : row.state === 1;
    const stored = [row.compliant_count, row.non_compliant_count, row.unknown_count];
    const expected = [
      state,
      row.last_changed_at,
      row.last_reported_at,
      row.snapshot_count,
      row.last_changed_at,
      ...stored,
    ];
    const counts = snapshot.artifact_compliance_count;
    const actual = [
      shown.state,
      shown.last_changed_at,
      shown.last_reported_at,
      snapshot.index,
      snapshot.timestamp,
      counts.true,
      counts.false,
      counts.null,
    ];
    if (JSON.stringify(actual) !== JSON.stringify(expected))
      problems.push(`${name} is shown as ${JSON.stringify(actual)}, stored is ${JSON.stringify(expected)}`);
    if (
      runningDigest(present.map(({ name: artifact, fingerprint }) => ({ name: artifact, fingerprint }))) !==
      runningDigest(running as { name: string; fingerprint: string }[])
    )
      problems.push(
        `${name}: its latest snapshot shows ${present.length} artifacts, ${running.length} are stored, or others`,
      );

    const current = new Set(shown.policies as string[]);
    const text = (policies: ReadonlySet<string>): string => [...policies].sort().join(" ");
    const { pending } = attachments;
    const either = new Set(attachments.confirmed);
    if (pending) either[pending.attached ? "add" : "delete"](pending.policy);
    if (text(current) !== text(attachments.confirmed) && text(current) !== text(either))
      problems.push(`${name} has the policies "${text(current)}", acknowledged were "${text(attachments.confirmed)}"`);
    world.attachments.set(name, { confirmed: current, pending: null });
  }
  return problems;
}
