/** The append-only history of a trail. */
import { createEventComposer } from "../../domain/attestation/event.ts";
import type { AttestationEventDetail, EventRecord } from "../../domain/attestation/event.ts";
import { columnOrStub, stubBytes } from "../db/large-json.ts";
import type { LargeJsonPlace } from "../db/large-json.ts";
import type { Db } from "../db/types.ts";

/** `event_json`: the members of the event, which depend on its type. */
export type TrailEventRow = { id: number; type: string; timestamp: number; event_json: string };
/** `event_json` is valid JSON of an object; null for a damaged event. */
export type TrailEventText = { id: number; type: string; timestamp: number; event_json: string | null };

/** An event, with the columns of the record that it names. They are null where no such record exists. */
type StoredEvent = TrailEventRow & { attestation_id: number | null } & EventRecord;

const eventsWith = (text: (column: string) => string): string =>
  `SELECT te.id, te.type, te.timestamp, ${text("te.event_json")}, te.attestation_id, att.public_id, att.name,
    att.type AS attestation_type, att.is_compliant, att.artifact_fingerprint, ${text("att.git_commit_info_json")},
    ${text("att.repo_info_json")}
  FROM trail_events te LEFT JOIN attestations att ON att.id = te.attestation_id`;
const EVENTS = eventsWith((column) => column);
/** The same for responses: long texts are stubs (db/large-json.ts). */
const LISTED_EVENTS = eventsWith((column) => `${columnOrStub(column)} AS ${column.split(".")[1]}`);
/** What a response shows for a stub in a row of LISTED_EVENTS: JSON, or an empty text for one that is damaged. */
type ReadLarge = (place: LargeJsonPlace) => string;
/** What readers get of an event whose record is damaged or gone: a text that is not JSON. */
const DAMAGED_EVENT = "";

export function trailEventStore(db: Db) {
  const insertEvent = db.prepare(
    "INSERT INTO trail_events (trail_id, type, timestamp, event_json, attestation_id) VALUES (?, ?, ?, ?, ?)",
  );
  const events = db.prepare<[number], StoredEvent>(`${EVENTS} WHERE te.trail_id = ? ORDER BY te.id`);
  // The events before the window are skipped in the index: they and their records are not read.
  const eventWindow = db.prepare<[number, number, number], StoredEvent>(
    `${LISTED_EVENTS} WHERE te.id IN (SELECT id FROM trail_events WHERE trail_id = ? ORDER BY id LIMIT ? OFFSET ?)
    ORDER BY te.id`,
  );
  const eventCount = db.prepare<[number], number>("SELECT count(*) FROM trail_events WHERE trail_id = ?").pluck();
  const eventSlice = db.prepare<[number, number, number], StoredEvent>(
    `${LISTED_EVENTS} WHERE te.trail_id = ? AND te.id > ? ORDER BY te.id LIMIT ?`,
  );

  return {
    /** Appends to the history. @param at epoch seconds. @param event the members that depend on the type. */
    addEvent: (
      trailId: number,
      { type, at, event }: { type: string; at: number; event: Readonly<Record<string, unknown>> },
    ): void => void insertEvent.run(trailId, type, at, JSON.stringify(event), null),
    /** As `addEvent`, for the record of an attestation with that key. */
    addAttestationEvent: (
      trailId: number,
      { type, at, detail }: { type: string; at: number; detail: AttestationEventDetail },
      attestationId: number,
    ): void => void insertEvent.run(trailId, type, at, JSON.stringify(detail), attestationId),
    /** A part of the history, oldest first. */
    listEventWindow: (
      trailId: number,
      { limit, offset }: { limit: number; offset: number },
      readLarge: ReadLarge,
    ): TrailEventRow[] => eventWindow.all(trailId, limit, offset).map(createEventReader(readLarge)),
    /** How many events the history has. */
    countEvents: (trailId: number): number => eventCount.get(trailId) ?? 0,
    /** Events of a trail as texts to pass on, oldest first: at most `limit` with ids above `after`. */
    *listEventTexts(
      trailId: number,
      { after, limit }: { after: number; limit: number },
      readLarge: ReadLarge,
    ): Generator<TrailEventText> {
      const read = createEventReader(readLarge);
      for (const row of eventSlice.all(trailId, after, limit)) {
        const { id, type, timestamp, event_json } = read(row);
        const isShort = row.attestation_id === null && stubBytes(row.event_json) === null;
        const isValid = isShort ? isJson(event_json) : event_json !== DAMAGED_EVENT;
        yield { id, type, timestamp, event_json: isValid ? event_json : null };
      }
    },
    /** The whole history, oldest first, row by row: it may exceed the memory. */
    *iterateEvents(trailId: number): IterableIterator<TrailEventRow> {
      const read = createEventReader(({ table, column }) => {
        throw new Error(`${column} of ${table} was not read`);
      });
      for (const row of events.iterate(trailId)) yield read(row);
    },
  };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** @returns a function that gives the events of one history the members of the records that they name */
function createEventReader(readLarge: ReadLarge): (row: StoredEvent) => TrailEventRow {
  const compose = createEventComposer();
  /** The text of a column, that of a stub included. */
  const whole = <Text extends string | null>(text: Text, place: Omit<LargeJsonPlace, "bytes">): Text | string => {
    const bytes = stubBytes(text);
    return bytes === null ? text : readLarge({ ...place, bytes });
  };
  return (row) => {
    const { id, type, timestamp, attestation_id: record } = row;
    const event_json = whole(row.event_json, { table: "trail_events", column: "event_json", id });
    if (record === null) return { id, type, timestamp, event_json };
    if (row.public_id === null) return { id, type, timestamp, event_json: DAMAGED_EVENT };
    const [git_commit_info_json, repo_info_json] = (["git_commit_info_json", "repo_info_json"] as const).map((column) =>
      whole(row[column], { table: "attestations", column, id: record }),
    ) as [string | null, string | null];
    try {
      const composed = compose({ ...row, git_commit_info_json, repo_info_json }, event_json);
      return { id, type, timestamp, event_json: composed };
    } catch {
      return { id, type, timestamp, event_json: DAMAGED_EVENT };
    }
  };
}
