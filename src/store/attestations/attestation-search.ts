import type { Db } from "../db/types.ts";
import { LISTED_ATTESTATIONS } from "./attestation-rows.ts";
import type { NewAttestation, PlacedAttestationRow } from "./attestation-rows.ts";

export type AttestationFilter = {
  organizationId: number;
  /** Only records behind the one with this key: the cursor. */
  before: number | null;
  publicId: string | null;
  /** Any of these names. */
  names: readonly string[] | null;
  /** Any of these flows. */
  flowIds: readonly number[] | null;
  /** Any of these stored labels; an override counts as what it overrides, and as `override`. */
  types: readonly string[] | null;
  isCompliant: boolean | null;
  /** Epoch seconds, inclusive. */
  from: number | null;
  to: number | null;
};

/** A place in the order of the answer. */
type Position = { created_at: number; id: number };
type Head = Position & { series_id: number };
type Value = string | number;
type Clause = { sql: string; values: Value[] };

/**
 * So many of the newest records are looked through before series are: a few milliseconds. Most filters fit enough of
 * them.
 */
const NEWEST = 2_000;
const LAST: Position = { created_at: Number.MAX_SAFE_INTEGER, id: Number.MAX_SAFE_INTEGER };
const FIRST_TIME = -1;

/** Keeps the series: every record that is appended goes through here. */
export function attestationSeriesWriter(db: Db) {
  const find = db.prepare<[number, string, string, string, number], { id: number }>(
    "SELECT id FROM attestation_series WHERE flow_id = ? AND name = ? AND type = ? AND overridden_type = ? AND is_compliant = ?",
  );
  const insert = db.prepare(
    "INSERT INTO attestation_series (organization_id, flow_id, name, type, overridden_type, is_compliant) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const append = db.prepare(
    "INSERT INTO attestation_series_records (series_id, created_at, attestation_id) VALUES (?, ?, ?)",
  );
  return (
    id: number,
    { organization_id, flow_id, name, type, overridden_type, is_compliant, created_at }: NewAttestation,
  ): void => {
    const overridden = overridden_type ?? "";
    const series =
      find.get(flow_id, name, type, overridden, is_compliant)?.id ??
      insert.run(organization_id, flow_id, name, type, overridden, is_compliant).lastInsertRowid;
    append.run(series, created_at, id);
  };
}

/** @param newest how many of the newest records are looked through first; tests take few. */
export function attestationSearchStore(db: Db, newest = NEWEST) {
  // A loose index scan: one look-up for each distinct name, however many series there are.
  const names = db.prepare<[number, number], { name: string }>(
    `WITH RECURSIVE n (name) AS (
       SELECT min(name) FROM attestation_series WHERE organization_id = ?
       UNION ALL
       SELECT (SELECT min(name) FROM attestation_series WHERE organization_id = ? AND name > n.name) FROM n WHERE n.name IS NOT NULL
     ) SELECT name FROM n WHERE name IS NOT NULL`,
  );
  // The record may be one of another organization, or none: a token says a number, and what lies behind it has an order
  // all the same.
  const positionOf = db.prepare<[number], Position>(
    "SELECT created_at, id FROM attestations WHERE id <= ? ORDER BY id DESC LIMIT 1",
  );
  const ofSeries = db.prepare<[number, number, number, number, number, number], Position>(
    `SELECT created_at, attestation_id AS id FROM attestation_series_records
     WHERE series_id = ? AND created_at >= ? AND created_at <= ? AND (created_at, attestation_id) < (?, ?)
     ORDER BY created_at DESC, attestation_id DESC LIMIT ?`,
  );
  const byId = db.prepare<[number], PlacedAttestationRow>(`${LISTED_ATTESTATIONS} WHERE a.id = ?`);

  /** The first place that is too new for the filter. */
  function endOf({ before, to }: AttestationFilter): Position | null {
    const limit = to === null ? LAST : { created_at: to, id: LAST.id };
    if (before === null) return limit;
    const found = positionOf.get(before);
    if (!found) return null;
    const cursor = { created_at: found.created_at, id: before };
    return isNewer(cursor, limit) ? limit : cursor;
  }

  /** At most `limit` records among the `newest`; null when these do not settle it. */
  function among(filter: AttestationFilter, fits: Clause, end: Position, limit: number): PlacedAttestationRow[] | null {
    const only = filter.flowIds?.length === 1 ? filter.flowIds[0] : undefined;
    // One lower bound at a time: of two SQLite takes one for the range of the index, and walks through the rest.
    const region = (from: number): Clause => ({
      sql: `${only === undefined ? "a.organization_id = ?" : "a.flow_id = ?"} AND a.created_at >= ? AND a.created_at <= ? AND (a.created_at, a.id) < (?, ?)`,
      values: [only ?? filter.organizationId, from, end.created_at, end.created_at, end.id],
    });
    const order = "ORDER BY a.created_at DESC, a.id DESC";
    const whole = region(filter.from ?? FIRST_TIME);
    const edge =
      fits.sql === ""
        ? undefined
        : db
            .prepare<[Value[]], Position>(
              `SELECT a.created_at, a.id FROM attestations a WHERE ${whole.sql} ${order} LIMIT 1 OFFSET ?`,
            )
            .get([...whole.values, newest - 1]);
    const parts = [edge ? region(edge.created_at) : whole, ...(fits.sql === "" ? [] : [fits])];
    const rows = db
      .prepare<[Value[]], PlacedAttestationRow>(
        `${LISTED_ATTESTATIONS} WHERE ${parts.map(({ sql }) => sql).join(" AND ")} ${order} LIMIT ?`,
      )
      .all([...parts.flatMap(({ values }) => values), limit]);
    return edge === undefined || rows.length === limit ? rows : null;
  }

  /**
   * At most `limit` records through the series that fit. The newest records of all of them lie in the series whose own
   * newest are the newest.
   */
  function throughSeries(
    filter: AttestationFilter,
    fits: Clause,
    end: Position,
    limit: number,
  ): PlacedAttestationRow[] {
    const from = filter.from ?? FIRST_TIME;
    const heads = db
      .prepare<[Value[]], Head>(
        `SELECT r.series_id, r.created_at, r.attestation_id AS id FROM attestation_series a CROSS JOIN attestation_series_records r
         WHERE a.organization_id = ? AND ${fits.sql} AND r.series_id = a.id AND (r.created_at, r.attestation_id) = (
           SELECT x.created_at, x.attestation_id FROM attestation_series_records x
           WHERE x.series_id = a.id AND x.created_at >= ? AND x.created_at <= ? AND (x.created_at, x.attestation_id) < (?, ?)
           ORDER BY x.created_at DESC, x.attestation_id DESC LIMIT 1)
         ORDER BY 2 DESC, 3 DESC LIMIT ?`,
      )
      .all([filter.organizationId, ...fits.values, from, end.created_at, end.created_at, end.id, limit]);
    const least = heads.length === limit ? (heads.at(-1) as Head).created_at : from;
    const positions = heads.flatMap(({ series_id }) =>
      ofSeries.all(series_id, least, end.created_at, end.created_at, end.id, limit),
    );
    positions.sort((a, b) => (isNewer(a, b) ? -1 : 1));
    return positions.slice(0, limit).map(({ id }) => byId.get(id) as PlacedAttestationRow);
  }

  return {
    /** At most `limit` records that fit every given filter. */
    search(filter: AttestationFilter, limit: number): PlacedAttestationRow[] {
      if ([filter.names, filter.flowIds, filter.types].some((list) => list?.length === 0)) return [];
      const end = endOf(filter);
      if (end === null) return [];
      const fits = fitting(filter);
      if (filter.publicId !== null) {
        const sql = [
          "a.public_id = ? AND a.organization_id = ? AND a.created_at >= ? AND (a.created_at, a.id) < (?, ?)",
          ...(fits.sql === "" ? [] : [fits.sql]),
        ].join(" AND ");
        return db
          .prepare<[Value[]], PlacedAttestationRow>(`${LISTED_ATTESTATIONS} WHERE ${sql} LIMIT ?`)
          .all([
            filter.publicId,
            filter.organizationId,
            filter.from ?? FIRST_TIME,
            end.created_at,
            end.id,
            ...fits.values,
            limit,
          ]);
      }
      return among(filter, fits, end, limit) ?? throughSeries(filter, fits, end, limit);
    },
    /** Every name in use in an organization, in code point order. */
    listNames: (organizationId: number): string[] => names.all(organizationId, organizationId).map((row) => row.name),
  };
}

const isNewer = (a: Position, b: Position): boolean =>
  a.created_at > b.created_at || (a.created_at === b.created_at && a.id > b.id);

/** What a filter asks of a series, and in the same words of a record; empty when it takes all. */
function fitting({ names, flowIds, types, isCompliant }: AttestationFilter): Clause {
  const parts: Clause[] = [];
  const anyOf = (column: string, list: readonly Value[] | null): void => {
    if (list?.length === 1) parts.push({ sql: `${column} = ?`, values: [list[0] as Value] });
    else if (list) parts.push({ sql: `${column} IN (SELECT value FROM json_each(?))`, values: [JSON.stringify(list)] });
  };
  anyOf("a.name", names);
  anyOf("a.flow_id", flowIds);
  if (types !== null) {
    const list = JSON.stringify(types);
    parts.push({
      sql: "(a.type IN (SELECT value FROM json_each(?)) OR a.overridden_type IN (SELECT value FROM json_each(?)))",
      values: [list, list],
    });
  }
  if (isCompliant !== null) parts.push({ sql: "a.is_compliant = ?", values: [isCompliant ? 1 : 0] });
  return { sql: parts.map(({ sql }) => sql).join(" AND "), values: parts.flatMap(({ values }) => values) };
}
