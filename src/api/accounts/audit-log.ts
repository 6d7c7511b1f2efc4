/**
 * The audit log of an organization, for admins: each change with its author. It is by far the longest list, and few of
 * its entries match a filter, so it is read in slices between which the server serves other requests.
 */
import { nextTurn } from "../../http/next-turn.ts";
import { Type } from "typebox";
import type { Static } from "typebox";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { isObject, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { formatCsvLine } from "../../domain/text/csv.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Matching, Nullable, OneOf, named } from "../../http/schema.ts";
import { parseSessionActorId } from "../../store/accounts/sessions.ts";
import type { AuditFilter, AuditRow, AuditSlice } from "../../store/db/audit-log.ts";
import { operation, largeRead } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { csvStream } from "../csv.ts";
import { parseCursor, toCursor } from "../paging.ts";
import { OrgPath } from "../paths.ts";

/** Entries of a slice: a few milliseconds. */
const SLICE_ENTRIES = 2000;
/** Entries that a page looks through at most. */
const MAX_SCANNED_ENTRIES = 100_000;
const DEFAULT_PER_PAGE = 50;

const FILTERS = {
  actor: Type.Optional(
    Type.String({
      maxLength: MAX_NAME_CHARS,
      description: "Part of the login name, the full name or the name of the actor, case-insensitive",
    }),
  ),
  event: Type.Optional(
    Matching("^[a-z_]+(?:\\.[a-z_]+)?$", {
      maxLength: 100,
      description: "An event such as `member.added`, or all events about something: `member`",
    }),
  ),
  target: Type.Optional(
    Type.String({ maxLength: 1024, description: "Part of the path or the name of what was changed, case-insensitive" }),
  ),
  from_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds, inclusive" })),
  to_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds, inclusive" })),
};
const Filters = Closed(FILTERS);

const AuditLogEntry = named(
  "AuditLogEntry",
  Closed({
    timestamp: Type.Number({ description: "Epoch seconds" }),
    event: Type.String({ description: "What happened, such as `member.added`" }),
    target: Type.String({ description: "Path of the request, or name of what was changed" }),
    actor: Closed({
      kind: OneOf(["user", "service_account", "operator"], {
        description: "`operator`: a command on the server, or the server itself",
      }),
      name: Type.String({ description: "Login name, or name of the service account" }),
      full_name: Nullable(Type.String({ description: "Of a user, as it is now; null without one" })),
      credential: Nullable(
        Closed({
          kind: OneOf(["api_key", "session"]),
          id: Type.String({ description: "Id of the key or session, not its secret" }),
        }),
      ),
    }),
    operation: Type.String({ description: "`operationId` of the request, or name of the command" }),
    request_id: Type.String({ description: "As in the header `X-Request-ID` and in the log of the server" }),
    detail: Nullable(Type.Record(Type.String(), Type.Unknown(), { description: "Facts that depend on the event" })),
  }),
);
const AuditLogPage = named(
  "AuditLogPage",
  Closed({
    entries: Type.Array(AuditLogEntry),
    next: Nullable(Type.String({ description: "Value of `after` for the next page; null at the end of the log" })),
  }),
);

const filterOf = (query: Static<typeof Filters>): AuditFilter => ({
  actor: query.actor ?? null,
  events: query.event === undefined ? null : [query.event],
  target: query.target ?? null,
  from: query.from_timestamp ?? null,
  to: query.to_timestamp ?? null,
});

function credentialOf({ key_id: id }: AuditRow): { kind: "api_key" | "session"; id: string } | null {
  if (id === "") return null;
  const session = parseSessionActorId(id);
  return session === null ? { kind: "api_key", id } : { kind: "session", id: session };
}

const presentEntry = (row: AuditRow, fullName: string | null) => ({
  timestamp: row.timestamp,
  event: row.event,
  target: row.target,
  actor: { kind: row.actor_kind, name: row.actor_name, full_name: fullName, credential: credentialOf(row) },
  operation: row.operation,
  request_id: row.request_id,
  detail: row.detail_json === null ? null : detailOf(row.detail_json),
});

const detailOf = (text: string): Record<string, unknown> =>
  readStoredJsonOrNull(text, isObject) ?? { unreadable: UNREADABLE };

type Page = { rows: AuditRow[]; before: number | null };

/** Reads slices until the page is full, the log ends, or enough entries were looked through. */
async function readPage(
  { store, organization }: ReadingContext,
  filter: AuditFilter,
  { before, perPage }: { before: number | null; perPage: number },
): Promise<Page> {
  const page: Page = { rows: [], before };
  for (let scanned = 0; scanned < MAX_SCANNED_ENTRIES; scanned += SLICE_ENTRIES) {
    if (scanned > 0) await nextTurn();
    const limit = perPage - page.rows.length;
    const slice = store.auditLog.listSlice(organization.id, filter, {
      before: page.before,
      scanned: SLICE_ENTRIES,
      limit,
    });
    for (const row of slice.rows) page.rows.push(row);
    page.before = slice.before;
    if (page.before === null || page.rows.length === perPage) break;
  }
  return page;
}

export const listAuditLogEntries = largeRead({
  id: "list_audit_log_entries",
  origin: "assay",
  method: "GET",
  path: "/audit-log/{org}",
  tag: "Audit Log",
  summary: "List what was changed, by whom",
  description:
    "Every change in the organization, newest first, in pages: request the next one with `after`. Entries are never " +
    `changed or removed. All filters must match. A request looks through ${MAX_SCANNED_ENTRIES} entries at most, so ` +
    "a page may have fewer entries than requested, or none, although `next` is not null.",
  permission: "membership_audit:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...FILTERS,
    after: Type.Optional(Type.String({ maxLength: 100, description: "`next` of the previous page" })),
    per_page: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: DEFAULT_PER_PAGE })),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: AuditLogPage } },
  example: { params: { org: "acme" }, query: { event: "member", per_page: "20" } },
  prepare: (context, { query }) =>
    readPage(context, filterOf(query), {
      before: query.after === undefined ? null : parseCursor("after", query.after),
      perPage: query.per_page ?? DEFAULT_PER_PAGE,
    }),
  handle({ store }, _input, { rows, before }) {
    const names = store.users.findFullNames(rows.map(({ actor_id: id }) => id));
    const entries = rows.map((row) => presentEntry(row, names.get(row.actor_id) ?? null));
    return { status: 200, body: { entries, next: before === null ? null : toCursor(before) } };
  },
});

const COLUMNS = [
  "timestamp",
  "time",
  "event",
  "target",
  "actor_kind",
  "actor",
  "credential",
  "operation",
  "request_id",
  "detail",
];

const renderLine = (row: AuditRow): string =>
  formatCsvLine([
    row.timestamp,
    new Date(row.timestamp * 1000).toISOString(),
    row.event,
    row.target,
    row.actor_kind,
    row.actor_name,
    row.key_id,
    row.operation,
    row.request_id,
    row.detail_json === null || readStoredJsonOrNull(row.detail_json, isObject) ? row.detail_json : UNREADABLE,
  ]);

function* generateLines(read: (before: number | null) => AuditSlice, newest: AuditSlice): Generator<string> {
  for (let slice = newest; ; slice = read(slice.before)) {
    yield slice.rows.map(renderLine).join("");
    if (slice.before === null) return;
  }
}

export const downloadAuditLog = operation({
  id: "download_audit_log",
  origin: "assay",
  method: "GET",
  path: "/audit-log/{org}/csv",
  tag: "Audit Log",
  summary: "Download what was changed, by whom",
  description:
    "Every change in the organization as `text/csv` in UTF-8, newest first, after a line with the column names. All " +
    "filters must match. A value that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.",
  permission: "membership_audit:read",
  audit: null,
  params: OrgPath,
  query: Filters,
  body: NO_BODY,
  responses: { 200: { description: "The changes", schema: Type.String(), contentType: "text/csv", isStream: true } },
  example: { params: { org: "acme" }, query: { event: "member" } },
  handle({ store, organization }, { query }) {
    const filter = filterOf(query);
    const read = (before: number | null): AuditSlice =>
      store.auditLog.listSlice(organization.id, filter, { before, scanned: SLICE_ENTRIES, limit: SLICE_ENTRIES });
    // Here, so that the answer shows nothing newer than this read: it is sent once that is durable.
    const newest = read(null);
    return {
      status: 200,
      stream: csvStream({
        filename: `${organization.name}-audit-log.csv`,
        columns: COLUMNS,
        slices: () => generateLines(read, newest),
      }),
    };
  },
});
