/**
 * The artifacts of an organization as of a moment: those that had been reported by then and are still stored, with the
 * verdicts that the snapshots in force had stored for them. Read-only.
 */
import type { PastState } from "../../../domain/compliance/past-states.ts";
import type { DbReader } from "../../db/types.ts";
import { artifactNames } from "../../flows/artifact-lists.ts";
import { IN_SNAPSHOT } from "../snapshots.ts";
import { idsByTime } from "./ids-by-time.ts";

/** An artifact as it was reported. */
export type PastArtifactRow = {
  id: number;
  public_id: string;
  filename: string;
  fingerprint: string;
  flow_name: string;
  trail_name: string | null;
  git_commit: string | null;
  commit_url: string;
  created_at: number;
};

/** The fingerprints that ran in any environment, by the worst of their verdicts there. */
type RanThen = ReadonlyMap<Exclude<PastState, "NOT-RUNNING">, ReadonlySet<string>>;

type PastArtifactFilter = {
  organizationId: number;
  /** Epoch seconds. */
  at: number;
  /** Part of the name, in any case (ASCII); empty matches all. */
  search: string;
  state: PastState | null;
  ran: RanThen;
};

type Condition = { sql: string; values: (string | number)[] };

const IS_ACTIVE = "(f.archived_at IS NULL OR f.archived_at > @at)";

export function pastArtifactStore(db: DbReader) {
  const ids = idsByTime(db, "artifacts");
  const names = artifactNames(db);
  const verdicts = db.prepare<
    [{ environment: number; index: number }],
    { fingerprint: string; has_failing: 0 | 1; has_unknown: 0 | 1 }
  >(
    `SELECT sa.fingerprint, max(sa.compliant IS 0) AS has_failing, max(sa.compliant IS NULL) AS has_unknown
     FROM snapshot_artifacts sa WHERE ${IN_SNAPSHOT} AND sa.now > 0 AND sa.fingerprint <> '' GROUP BY sa.fingerprint`,
  );
  // The records before the hour in which a clock may have been set back are counted in an index.
  const counted = db
    .prepare<[{ organization: number; at: number; first: number; last: number }], number>(
      `SELECT coalesce(sum(
         (SELECT count(*) FROM artifacts a WHERE a.flow_id = f.id AND a.id < @first)
         + (SELECT count(*) FROM artifacts a
            WHERE a.flow_id = f.id AND a.id BETWEEN @first AND @last AND a.created_at <= @at)), 0)
       FROM flows f WHERE f.organization_id = @organization AND ${IS_ACTIVE}`,
    )
    .pluck();

  function conditionOf(filter: PastArtifactFilter): Condition {
    const { organizationId, at, search, state, ran } = filter;
    const name = names.conditionOf({ organizationId, search });
    const parts = [
      "a.organization_id = ? AND a.id <= ? AND a.created_at <= ?",
      "a.flow_id IN (SELECT id FROM flows WHERE organization_id = ? AND (archived_at IS NULL OR archived_at > ?))",
    ];
    const values = [organizationId, ids.findRange(organizationId, { from: at, to: at }).last, at, organizationId, at];
    if (state !== null) {
      const isRunning = state !== "NOT-RUNNING";
      const prints = isRunning ? [...(ran.get(state) ?? [])] : [...ran.values()].flatMap((set) => [...set]);
      parts.push(`a.fingerprint ${isRunning ? "" : "NOT "}IN (SELECT value FROM json_each(?))`);
      return withName({ sql: parts.join(" AND "), values: [...values, JSON.stringify(prints)] }, name);
    }
    return withName({ sql: parts.join(" AND "), values }, name);
  }

  const count = ({ sql, values }: Condition): number =>
    db.prepare<[(string | number)[]], number>(`SELECT count(*) FROM artifacts a WHERE ${sql}`).pluck().get(values) ?? 0;

  return {
    /**
     * What ran in snapshots of physical environments. A fingerprint that fails anywhere fails.
     * @param places the environments and the snapshots in force there
     */
    readRunning(places: readonly { id: number; idx: number }[]): RanThen {
      const worst = new Map<string, 0 | 1 | 2>();
      for (const { id, idx } of places)
        for (const row of verdicts.iterate({ environment: id, index: idx })) {
          const rank = row.has_failing === 1 ? 0 : row.has_unknown === 1 ? 1 : 2;
          worst.set(row.fingerprint, Math.min(rank, worst.get(row.fingerprint) ?? 2) as 0 | 1 | 2);
        }
      const of = (rank: number): Set<string> =>
        new Set([...worst].flatMap(([fingerprint, one]) => (one === rank ? fingerprint : [])));
      return new Map([
        ["NON-COMPLIANT", of(0)],
        ["UNKNOWN", of(1)],
        ["COMPLIANT", of(2)],
      ]);
    },
    /**
     * At most `limit` artifacts that had been reported by a moment, newest first.
     * @param before the id of the last one of the previous page; null for the first page
     */
    list(filter: PastArtifactFilter, { before, limit }: { before: number | null; limit: number }): PastArtifactRow[] {
      const { sql, values } = conditionOf(filter);
      return db
        .prepare<[(string | number)[]], PastArtifactRow>(
          `SELECT a.id, a.public_id, a.filename, a.fingerprint, f.name AS flow_name, t.name AS trail_name, a.git_commit,
             a.commit_url, a.created_at
           FROM artifacts a CROSS JOIN flows f ON f.id = a.flow_id LEFT JOIN trails t ON t.id = a.trail_id
           WHERE ${sql} AND a.id < ? ORDER BY a.id DESC LIMIT ?`,
        )
        .all([...values, before ?? Number.MAX_SAFE_INTEGER, limit]);
    },
    /** How many match in each state, whatever state the filter names. */
    countStates(filter: PastArtifactFilter): Record<PastState, number> {
      const { organizationId, at } = filter;
      const range = ids.findRange(organizationId, { from: at, to: at });
      const all =
        filter.search === ""
          ? (counted.get({ organization: organizationId, at, ...range }) ?? 0)
          : count(conditionOf({ ...filter, state: null }));
      const of = (state: PastState): number =>
        filter.ran.get(state as never)?.size === 0 ? 0 : count(conditionOf({ ...filter, state }));
      const [failing, unknown, compliant] = [of("NON-COMPLIANT"), of("UNKNOWN"), of("COMPLIANT")];
      return {
        "NON-COMPLIANT": failing,
        UNKNOWN: unknown,
        COMPLIANT: compliant,
        "NOT-RUNNING": all - failing - unknown - compliant,
      };
    },
  };
}

const withName = ({ sql, values }: Condition, name: Condition | null): Condition =>
  name === null ? { sql, values } : { sql: `${sql} AND ${name.sql}`, values: [...values, ...name.values] };
