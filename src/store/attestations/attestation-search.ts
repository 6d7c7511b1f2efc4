/**
 * The search for attestations of an organization with any combination of filters, newest first.
 *
 * Records of one flow, name, type and verdict form a series (attestation_series), written with each record. A search
 * looks at the newest records first; only if these do not fill the page, it walks the few series that match. So its
 * cost does not grow with the number of records that do not match.
 */
import type { Db } from "../db/types.ts";
import { LISTED_ATTESTATIONS } from "./attestation-rows.ts";
import type { NewAttestation, PlacedAttestationRow } from "./attestation-rows.ts";

export type AttestationFilter = {
  organizationId: number;
  /** Only records after the one with this id in the order of the result: the cursor. */
  before: number | null;
  publicId: string | null;
  /** A whole commit id. */
  commit: string | null;
  /** Any of these names. */
  names: readonly string[] | null;
  /** Any of these flows. */
  flowIds: readonly number[] | null;
  /** Any of these stored types. An override counts as the type it overrides, and as `override`. */
  types: readonly string[] | null;
  isCompliant: boolean | null;
  /** Epoch seconds, inclusive. */
  from: number | null;
  to: number | null;
};

/** A position in the order of the result. */
type Position = { created_at: number; id: number };
type Head = Position & { series_id: number };
type Value = string | number;
type Clause = { sql: string; values: Value[] };
/** A search in progress: at most `limit` records that match, before the position `end`. */
type Query = { filter: AttestationFilter; end: Position; limit: number };

/** The newest records that are examined before the series are: a few milliseconds. They satisfy most searches. */
const MAX_NEWEST = 2_000;
const LAST: Position = { created_at: Number.MAX_SAFE_INTEGER, id: Number.MAX_SAFE_INTEGER };
/** Before every `created_at`. */
const FIRST_TIME = -1;

/** Returns a function that adds a record to its series. Every insert of an attestation calls it. */
export function attestationSeriesWriter(db: Db) {
  const append = db.prepare(
    `INSERT INTO attestation_series_records (series_id, created_at, attestation_id)
     SELECT id, ?, ? FROM attestation_series
     WHERE flow_id = ? AND name = ? AND type = ? AND overridden_type = ? AND is_compliant = ?`,
  );
  const insert = db.prepare(
    `INSERT INTO attestation_series (organization_id, flow_id, name, type, overridden_type, is_compliant)
     VALUES (?, ?, ?, ?, ?, ?)`,
  );
  return (
    id: number,
    { organization_id, flow_id, name, type, overridden_type, is_compliant, created_at }: NewAttestation,
  ): void => {
    const series = [flow_id, name, type, overridden_type ?? "", is_compliant];
    if (append.run([created_at, id, ...series]).changes > 0) return;
    insert.run([organization_id, ...series]);
    append.run([created_at, id, ...series]);
  };
}

/** @param maxNewest how many of the newest records are examined first; tests use few. */
export function attestationSearchStore(db: Db, maxNewest = MAX_NEWEST) {
  // A loose index scan: one lookup for each distinct name, however many series there are.
  const names = db.prepare<[number, number], { name: string }>(
    `WITH RECURSIVE n (name) AS (
       SELECT min(name) FROM attestation_series WHERE organization_id = ?
       UNION ALL
       SELECT (SELECT min(name) FROM attestation_series WHERE organization_id = ? AND name > n.name)
       FROM n WHERE n.name IS NOT NULL
     ) SELECT name FROM n WHERE name IS NOT NULL`,
  );
  // Few series have one name, and an override also counts as a record of the type that it overrides.
  const seriesOfName = db
    .prepare<[{ organization: number; name: string; type: string }], number>(
      `SELECT 1 FROM attestation_series WHERE organization_id = @organization AND name = @name
         AND (@type = '*' OR type = @type OR overridden_type = @type) LIMIT 1`,
    )
    .pluck();
  // The cursor may name a record of another organization, or one that is gone: its position is defined all the same.
  const positionOf = db.prepare<[number], Position>(
    "SELECT created_at, id FROM attestations WHERE id <= ? ORDER BY id DESC LIMIT 1",
  );
  const bySeries = db.prepare<[number, number, number, number, number, number], Position>(
    `SELECT created_at, attestation_id AS id FROM attestation_series_records
     WHERE series_id = ? AND created_at >= ? AND created_at <= ? AND (created_at, attestation_id) < (?, ?)
     ORDER BY created_at DESC, attestation_id DESC LIMIT ?`,
  );
  const byId = db.prepare<[number], PlacedAttestationRow>(`${LISTED_ATTESTATIONS} WHERE att.id = ?`);

  /** The first position that is too new for the filter; null when no record can match. */
  function endOf({ before, to }: AttestationFilter): Position | null {
    const limit = to === null ? LAST : { created_at: to, id: LAST.id };
    if (before === null) return limit;
    const found = positionOf.get(before);
    if (!found) return null;
    const cursor = { created_at: found.created_at, id: before };
    return isNewer(cursor, limit) ? limit : cursor;
  }

  /** The newest records over all matching series lie in the series whose own newest records are the newest. */
  function searchSeries({ filter, end, limit }: Query): PlacedAttestationRow[] {
    const from = filter.from ?? FIRST_TIME;
    const heads = listSeriesHeads(db, { filter, end, limit });
    const oldest = heads.length === limit ? (heads.at(-1) as Head).created_at : from;
    const positions = heads.flatMap(({ series_id }) =>
      bySeries.all(series_id, oldest, end.created_at, end.created_at, end.id, limit),
    );
    positions.sort((a, b) => (isNewer(a, b) ? -1 : 1));
    return positions.slice(0, limit).map(({ id }) => byId.get(id) as PlacedAttestationRow);
  }

  return {
    /** At most `limit` records that match every given filter, newest first. */
    search(filter: AttestationFilter, limit: number): PlacedAttestationRow[] {
      if ([filter.names, filter.flowIds, filter.types].some((list) => list?.length === 0)) return [];
      const end = endOf(filter);
      if (end === null) return [];
      const query = { filter, end, limit };
      if (filter.publicId !== null) return searchByPublicId(db, filter.publicId, query);
      if (filter.commit !== null) return searchByCommit(db, filter.commit, query);
      return searchNewest(db, maxNewest, query) ?? searchSeries(query);
    },
    /** Every name in use in an organization, in code point order. */
    listNames: (organizationId: number): string[] => names.all(organizationId, organizationId).map((row) => row.name),
    /** Whether an attestation of that name and stored type was ever reported. @param type `*` for any */
    isReported: (organization: number, { name, type }: { name: string; type: string }): boolean =>
      seriesOfName.get({ organization, name, type }) !== undefined,
  };
}

function searchByPublicId(db: Db, publicId: string, { filter, end, limit }: Query): PlacedAttestationRow[] {
  const matching = matchingClause(filter, "att");
  const sql = [
    "att.public_id = ? AND att.organization_id = ? AND att.created_at >= ? AND (att.created_at, att.id) < (?, ?)",
    ...(matching.sql === "" ? [] : [matching.sql]),
  ].join(" AND ");
  const from = filter.from ?? FIRST_TIME;
  return db
    .prepare<[Value[]], PlacedAttestationRow>(`${LISTED_ATTESTATIONS} WHERE ${sql} LIMIT ?`)
    .all([publicId, filter.organizationId, from, end.created_at, end.id, ...matching.values, limit]);
}

/**
 * The records of a commit by descending id, which is how the index has them: their times follow the same order, unless
 * the clock of the server was set back.
 */
function searchByCommit(db: Db, commit: string, { filter, limit }: Query): PlacedAttestationRow[] {
  const matching = matchingClause(filter, "att");
  const sql = [
    "att.organization_id = ? AND att.git_commit = ? AND att.id < ? AND +att.created_at >= ? AND +att.created_at <= ?",
    ...(matching.sql === "" ? [] : [matching.sql]),
  ].join(" AND ");
  const { organizationId, before, from, to } = filter;
  const span = [before ?? LAST.id, from ?? FIRST_TIME, to ?? LAST.created_at];
  return db
    .prepare<[Value[]], PlacedAttestationRow>(`${LISTED_ATTESTATIONS} WHERE ${sql} ORDER BY att.id DESC LIMIT ?`)
    .all([organizationId, commit, ...span, ...matching.values, limit]);
}

/** Matching records among the newest ones; null when these do not fill the page and older records may match. */
function searchNewest(db: Db, maxNewest: number, { filter, end, limit }: Query): PlacedAttestationRow[] | null {
  const matching = matchingClause(filter, "att");
  const onlyFlow = filter.flowIds?.length === 1 ? filter.flowIds[0] : undefined;
  // One lower bound at a time: of two, SQLite uses one for the range of the index and filters by the other row by row.
  const region = (from: number): Clause => ({
    sql: `${onlyFlow === undefined ? "att.organization_id = ?" : "att.flow_id = ?"}
      AND att.created_at >= ? AND att.created_at <= ? AND (att.created_at, att.id) < (?, ?)`,
    values: [onlyFlow ?? filter.organizationId, from, end.created_at, end.created_at, end.id],
  });
  const order = "ORDER BY att.created_at DESC, att.id DESC";
  const whole = region(filter.from ?? FIRST_TIME);
  /** The oldest record to examine, if there are more. */
  const edge =
    matching.sql === ""
      ? undefined
      : db
          .prepare<[Value[]], Position>(
            `SELECT att.created_at, att.id FROM attestations att WHERE ${whole.sql} ${order} LIMIT 1 OFFSET ?`,
          )
          .get([...whole.values, maxNewest - 1]);
  const parts = [edge ? region(edge.created_at) : whole, ...(matching.sql === "" ? [] : [matching])];
  const rows = db
    .prepare<[Value[]], PlacedAttestationRow>(
      `${LISTED_ATTESTATIONS} WHERE ${parts.map(({ sql }) => sql).join(" AND ")} ${order} LIMIT ?`,
    )
    .all([...parts.flatMap(({ values }) => values), limit]);
  return edge === undefined || rows.length === limit ? rows : null;
}

/** The newest record of each matching series; of the `limit` series whose newest record is the newest. */
function listSeriesHeads(db: Db, { filter, end, limit }: Query): Head[] {
  const matching = matchingClause(filter, "ser");
  const from = filter.from ?? FIRST_TIME;
  return db
    .prepare<[Value[]], Head>(
      `SELECT sr.series_id, sr.created_at, sr.attestation_id AS id
       FROM attestation_series ser CROSS JOIN attestation_series_records sr
       WHERE ser.organization_id = ? AND ${matching.sql} AND sr.series_id = ser.id
         AND (sr.created_at, sr.attestation_id) = (
           SELECT newest.created_at, newest.attestation_id FROM attestation_series_records newest
           WHERE newest.series_id = ser.id AND newest.created_at >= ? AND newest.created_at <= ?
             AND (newest.created_at, newest.attestation_id) < (?, ?)
           ORDER BY newest.created_at DESC, newest.attestation_id DESC LIMIT 1)
       ORDER BY 2 DESC, 3 DESC LIMIT ?`,
    )
    .all([filter.organizationId, ...matching.values, from, end.created_at, end.created_at, end.id, limit]);
}

const isNewer = (a: Position, b: Position): boolean =>
  a.created_at > b.created_at || (a.created_at === b.created_at && a.id > b.id);

/**
 * The conditions of a filter that a series and its records share, on either of them; empty when every record matches.
 */
function matchingClause({ names, flowIds, types, isCompliant }: AttestationFilter, alias: "att" | "ser"): Clause {
  const parts: Clause[] = [];
  const addAnyOf = (column: string, list: readonly Value[] | null): void => {
    if (list?.length === 1) parts.push({ sql: `${alias}.${column} = ?`, values: [list[0] as Value] });
    else if (list)
      parts.push({ sql: `${alias}.${column} IN (SELECT value FROM json_each(?))`, values: [JSON.stringify(list)] });
  };
  addAnyOf("name", names);
  addAnyOf("flow_id", flowIds);
  if (types !== null) {
    const list = JSON.stringify(types);
    const isOneOf = "IN (SELECT value FROM json_each(?))";
    parts.push({ sql: `(${alias}.type ${isOneOf} OR ${alias}.overridden_type ${isOneOf})`, values: [list, list] });
  }
  if (isCompliant !== null) parts.push({ sql: `${alias}.is_compliant = ?`, values: [isCompliant ? 1 : 0] });
  return { sql: parts.map(({ sql }) => sql).join(" AND "), values: parts.flatMap(({ values }) => values) };
}
