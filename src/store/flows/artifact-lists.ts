/** Pages of artifact records, newest first, and how many there are in each state. Read-only. */
import type { State } from "../../domain/compliance/artifact.ts";
import type { Db, DbReader } from "../db/types.ts";
import { LISTED_ARTIFACTS } from "./artifacts.ts";
import type { PlacedArtifactRow } from "./artifacts.ts";

export type ArtifactFilter = {
  organizationId: number;
  /** Only records of this flow. */
  flowId?: number | null;
  /** Only records whose reports named one of these repositories. */
  repoIds?: readonly number[] | null;
  state?: State | null;
  /** Part of the name, in any case (ASCII); empty matches all. */
  search?: string;
};

type Bound = (string | number)[];
type Condition = { sql: string; values: Bound };

/**
 * Names that match are looked up once if there are at most so many. Of more, the newest are found among the newest
 * records, and only their number needs all names.
 */
const MAX_LOOKED_UP = 2_000;

/** Finds artifacts by a part of their names, for other conditions on `a`. */
export function artifactNames(db: DbReader) {
  // The names are read from an index; the records of other names are not read at all.
  const named = db
    .prepare<[number, string], number>(
      `SELECT a.id FROM artifacts a INDEXED BY artifacts_by_name
       WHERE a.organization_id = ? AND a.filename LIKE ? ESCAPE '\\' LIMIT ${MAX_LOOKED_UP + 1}`,
    )
    .pluck();

  return {
    /** Null for an empty search, which matches all. */
    conditionOf({ organizationId, search = "" }: Pick<ArtifactFilter, "organizationId" | "search">): Condition | null {
      if (search === "") return null;
      const pattern = `%${search.replace(/[\\%_]/g, String.raw`\$&`)}%`;
      const ids = named.all(organizationId, pattern);
      return ids.length <= MAX_LOOKED_UP
        ? { sql: "a.id IN (SELECT value FROM json_each(?))", values: [JSON.stringify(ids)] }
        : { sql: "a.filename LIKE ? ESCAPE '\\'", values: [pattern] };
    },
  };
}

export function artifactListStore(db: Db) {
  const names = artifactNames(db);

  const countBy = ({ sql, values }: Condition): number =>
    db.prepare<[Bound], number>(`SELECT count(*) FROM artifacts a WHERE ${sql}`).pluck().get(values) ?? 0;

  const after = db
    .prepare<[number, number], number>("SELECT 1 FROM artifacts WHERE organization_id = ? LIMIT 1 OFFSET ?")
    .pluck();

  return {
    /** Whether an organization has more than `count` records. */
    isMoreThan: (organizationId: number, count: number): boolean => after.get(organizationId, count) !== undefined,
    /** The records that match: pages of them, and their number by state. */
    select(filter: ArtifactFilter) {
      const name = names.conditionOf(filter);
      return {
        /** One page, row by row. */
        list({ limit, offset }: { limit: number; offset: number }): IterableIterator<PlacedArtifactRow> {
          const { sql, values } = conditionOf(filter, name);
          return db
            .prepare<[Bound], PlacedArtifactRow>(
              `${LISTED_ARTIFACTS} WHERE a.id IN (
                 SELECT a.id FROM artifacts a WHERE ${sql} ORDER BY a.id DESC LIMIT ? OFFSET ?
               ) ORDER BY a.id DESC`,
            )
            .iterate([...values, limit, offset]);
        },
        /** Whatever state the filter names. Most records are compliant, and counted without being read. */
        countStates(): Record<State, number> {
          const of = (state: State | null): number => countBy(conditionOf({ ...filter, state }, name));
          const [failing, incomplete] = [of("NON-COMPLIANT"), of("INCOMPLETE")];
          return { "NON-COMPLIANT": failing, INCOMPLETE: incomplete, COMPLIANT: of(null) - failing - incomplete };
        },
      };
    },
  };
}

/** Every condition includes a place, so that records of other organizations are never read. The alias is `a`. */
function conditionOf({ organizationId, flowId, repoIds, state }: ArtifactFilter, name: Condition | null): Condition {
  const parts: string[] = [];
  const values: Bound = [];
  const add = (sql: string, bound: Bound = []): void => {
    parts.push(sql);
    for (const value of bound) values.push(value);
  };
  // SQLite uses the index of unfinished artifacts only for a query that repeats its condition. Where that index, or the
  // list of matching names, leaves few records, the place is only compared.
  const isUnfinished = state === "INCOMPLETE" || state === "NON-COMPLIANT";
  const compared = isUnfinished ? "+" : "";
  if (isUnfinished) add(`a.organization_id = ? AND a.state = '${state}' AND a.state <> 'COMPLIANT'`, [organizationId]);
  if (typeof flowId === "number") add(`${compared}a.flow_id = ?`, [flowId]);
  else if (repoIds?.length === 1) add(`${compared}a.repo_id = ?`, [...repoIds]);
  else if (repoIds) add(`${compared}a.repo_id IN (SELECT value FROM json_each(?))`, [JSON.stringify(repoIds)]);
  else if (!isUnfinished) add("a.organization_id = ?", [organizationId]);
  if (state === "COMPLIANT") add("a.state = 'COMPLIANT'");
  if (name) add(name.sql, name.values);
  return { sql: parts.join(" AND "), values };
}
