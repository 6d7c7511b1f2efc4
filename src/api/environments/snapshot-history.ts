/** The history of an environment: its snapshots without what ran in them, as a list and as a strip. */
import { Type } from "typebox";
import { runsOf } from "../../domain/snapshot/history.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, OneOf, named } from "../../http/schema.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { SnapshotOutlineRow } from "../../store/environments/snapshot-pages.ts";
import { operation } from "../context.ts";
import { PageOf, definePaging } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { EnvironmentPath } from "../paths.ts";

const Verdict = Nullable(Type.Boolean({ description: "null: unknown" }));
const Counts = Closed(
  { true: Type.Integer(), false: Type.Integer(), null: Type.Integer() },
  { description: "Running artifacts by verdict" },
);

const SnapshotOutline = named(
  "SnapshotOutline",
  Closed({
    index: Type.Integer(),
    timestamp: Type.Number({ description: "Epoch seconds" }),
    next_timestamp: Nullable(Type.Number({ description: "Time of the next snapshot; null for the latest" })),
    compliant: Verdict,
    artifact_compliance_count: Counts,
    cause: OneOf(["report", "policies", "policy_version", "allowlist", "member"], {
      description: "What made the snapshot: a report, a change of policies or of the allowlist, or a member",
    }),
    user_id: Type.String(),
    user_name: Type.String({ description: "Who sent the report or made the change" }),
    member: Nullable(
      Closed(
        { name: Type.String(), index: Type.Integer() },
        { description: "Of a logical environment: the snapshot of the member that made this one" },
      ),
    ),
  }),
);

const PAGES = definePaging({ perPage: 25, maxPerPage: 100 });

export const listSnapshotOutlines = operation({
  id: "list_snapshot_outlines",
  method: "GET",
  path: "/snapshot_log/{org}/{env_name}",
  tag: "Snapshots",
  summary: "List the snapshots of an environment with their causes",
  description: "Newest first, in pages: who or what made each snapshot, its verdict and its counts.",
  permission: "environment:read",
  audit: null,
  origin: "assay",
  params: EnvironmentPath,
  query: Closed({
    ...PAGES.query,
    until: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        description:
          "Index of the newest snapshot that is listed, as if it were the latest: with the one in force at a moment, " +
          "the list is as of then",
      }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: PageOf("SnapshotOutlineList", SnapshotOutline) },
    404: { description: "No such environment, or it has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" } },
  handle({ store, organization }, { params, query }) {
    const { id, snapshot_count: count } = store.environments.require(organization, params.env_name);
    const total = Math.min(count, query.until ?? count);
    const { page, perPage, offset, limit } = PAGES.window(query);
    const last = total - offset;
    const first = Math.max(1, last - limit + 1);
    // With the snapshot after the page, whose time ends the newest one.
    const rows = last < 1 ? [] : store.snapshotPages.listOutlines(id, first, Math.min(last + 1, total));
    const data = rows.flatMap((row, at) => (row.idx > last ? [] : presentOutline(row, rows[at - 1] ?? null)));
    return { status: 200, body: { data, pagination: presentPagination(total, page, perPage) } };
  },
});

const presentOutline = (row: SnapshotOutlineRow, next: SnapshotOutlineRow | null) => ({
  index: row.idx,
  timestamp: row.timestamp,
  next_timestamp: next?.timestamp ?? null,
  compliant: fromSqlBoolean(row.compliant),
  artifact_compliance_count: { true: row.compliant_count, false: row.non_compliant_count, null: row.unknown_count },
  cause: row.cause,
  user_id: row.user_id,
  user_name: row.user_name,
  member: row.member_name === null ? null : { name: row.member_name, index: row.member_index ?? 0 },
});

/** Snapshots that one strip covers: they are read in some milliseconds. */
const MAX_COVERED = 5_000;

const SnapshotHistory = named(
  "SnapshotHistory",
  Closed({
    total: Type.Integer({ description: "Snapshots of the environment" }),
    end: Type.Number({
      description: "Epoch seconds: now, or the time of the snapshot after the last one that is covered",
    }),
    runs: Type.Array(
      Closed({
        first_index: Type.Integer(),
        last_index: Type.Integer(),
        from: Type.Number({ description: "Epoch seconds" }),
        to: Type.Number({ description: "Time of the next run, or `end`" }),
        compliant: Verdict,
      }),
      { description: "Oldest first, without gaps" },
    ),
  }),
);

export const getSnapshotHistory = operation({
  id: "get_snapshot_history",
  method: "GET",
  path: "/snapshot_history/{org}/{env_name}",
  tag: "Snapshots",
  summary: "Read the verdicts of an environment over time",
  description:
    `At most \`limit\` runs that cover up to ${MAX_COVERED} snapshots: single snapshots if there are not more, ` +
    "otherwise runs of snapshots with the same verdict, otherwise runs that also join what is too short to be shown " +
    "and have the worst verdict in them.",
  permission: "environment:read",
  audit: null,
  origin: "assay",
  params: EnvironmentPath,
  query: Closed({
    around: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        description: "Index of a snapshot that must be covered; the latest by default",
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 2, maximum: 500, default: 100 })),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The history", schema: SnapshotHistory },
    404: { description: "No such environment, or it has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" }, query: { limit: "100" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const { id, snapshot_count: total } = store.environments.require(organization, params.env_name);
    const around = Math.min(query.around ?? total, total);
    const last = around > total - MAX_COVERED ? total : Math.min(total, around + MAX_COVERED / 2);
    const rows = store.snapshotPages.listPoints(id, Math.max(1, last - MAX_COVERED + 1), last + 1);
    const after = rows.at(-1)?.idx === last + 1 ? rows.pop() : undefined;
    const end = after?.timestamp ?? context.now();
    const points = rows.map(({ idx, timestamp, compliant }) => ({
      index: idx,
      timestamp,
      compliant: fromSqlBoolean(compliant),
    }));
    return { status: 200, body: { total, end, runs: runsOf(points, { limit: query.limit ?? 100, end }) } };
  },
});
