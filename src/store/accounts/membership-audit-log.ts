/**
 * The history of memberships: who changed the role of which user or service account, when and from what to what.
 * Append-only, written in the transaction of the change; read with filters, in one of five orders.
 */
import type { Db } from "../db/types.ts";

export const MEMBERSHIP_CHANGES = ["added", "changed", "removed"] as const;
export const MEMBERSHIP_SOURCES = ["app", "scim", "invitation", "script", "oidc"] as const;

export type MembershipEventRow = {
  /** Epoch seconds. */
  timestamp: number;
  event_type: (typeof MEMBERSHIP_CHANGES)[number];
  /** The login name; for a service account `organization/name`, which no login name can be. */
  user_name: string;
  user_shown: string;
  role: string | null;
  previous_role: string | null;
  changed_by: string;
  source: (typeof MEMBERSHIP_SOURCES)[number];
};

type MembershipEventFilter = {
  /** Part of a name of the user or of the author, ignoring case; empty matches all. */
  search: string;
  /** null: any. */
  eventType: MembershipEventRow["event_type"] | null;
  /** Any of these new roles; null: any, and none. */
  roles: readonly string[] | null;
  /** Any of these; null: any. */
  sources: readonly string[] | null;
  from: number | null;
  to: number | null;
};

export const MEMBERSHIP_ORDERS = ["when", "user", "role", "changed_by", "source"] as const;
type MembershipOrder = { by: (typeof MEMBERSHIP_ORDERS)[number]; direction: "asc" | "desc" };

/** The text that a search looks in. Names hold no line feed, so a match never spans two of them. */
export const membershipSearchText = (...names: readonly string[]): string => names.join("\n").toLowerCase();

/** Returns a function that appends to the history. Call it in the write of the change. */
export function membershipEventWriter(db: Db): (organizationId: number, event: MembershipEventRow) => void {
  const insert = db.prepare(
    `INSERT INTO membership_events (organization_id, timestamp, event_type, user_name, user_shown, role, previous_role,
                                    changed_by, source, search_text)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  return (organizationId, event) => {
    const search = membershipSearchText(event.user_name, event.user_shown, event.changed_by);
    insert.run(
      organizationId,
      event.timestamp,
      event.event_type,
      event.user_name,
      event.user_shown,
      event.role,
      event.previous_role,
      event.changed_by,
      event.source,
      search,
    );
  };
}

type Parameters = {
  organization: number;
  search: string;
  type: string | null;
  roles: string | null;
  sources: string | null;
  from: number;
  to: number;
};

// A unary plus on the time keeps its index from being used where the order has an index of its own.
const matching = (timestamp: string): string =>
  `organization_id = @organization AND ${timestamp} >= @from AND ${timestamp} <= @to
   AND (@type IS NULL OR event_type = @type)
   AND (@roles IS NULL OR role IN (SELECT value FROM json_each(@roles)))
   AND (@sources IS NULL OR source IN (SELECT value FROM json_each(@sources)))
   AND instr(search_text, @search) > 0`;

const COLUMNS = {
  when: "timestamp",
  user: "user_shown COLLATE NOCASE",
  role: "role",
  changed_by: "changed_by COLLATE NOCASE",
  source: "source",
} as const;

export function membershipAuditLogStore(db: Db) {
  const listing = (by: MembershipOrder["by"], direction: "ASC" | "DESC") =>
    db.prepare<[Parameters & { limit: number; offset: number }], MembershipEventRow>(
      `SELECT timestamp, event_type, user_name, user_shown, role, previous_role, changed_by, source
       FROM membership_events WHERE ${matching(by === "when" ? "timestamp" : "+timestamp")}
       ORDER BY ${COLUMNS[by]} ${direction}, id ${direction} LIMIT @limit OFFSET @offset`,
    );
  const lists = Object.fromEntries(
    MEMBERSHIP_ORDERS.map((by) => [by, { asc: listing(by, "ASC"), desc: listing(by, "DESC") }]),
  ) as Record<MembershipOrder["by"], Record<MembershipOrder["direction"], ReturnType<typeof listing>>>;
  const counting = db.prepare<[Parameters], { total: number }>(
    `SELECT count(*) AS total FROM membership_events WHERE ${matching("timestamp")}`,
  );

  const parameters = (organization: number, filter: MembershipEventFilter): Parameters => ({
    organization,
    search: membershipSearchText(filter.search),
    type: filter.eventType,
    roles: filter.roles && JSON.stringify(filter.roles),
    sources: filter.sources && JSON.stringify(filter.sources),
    from: filter.from ?? -Number.MAX_VALUE,
    to: filter.to ?? Number.MAX_VALUE,
  });

  return {
    /** One page of the events of an organization. Events that compare equal keep their order in time. */
    list: (
      organizationId: number,
      filter: MembershipEventFilter,
      { order: { by, direction }, window }: { order: MembershipOrder; window: { limit: number; offset: number } },
    ): MembershipEventRow[] =>
      lists[by][direction].all({ ...parameters(organizationId, filter), limit: window.limit, offset: window.offset }),
    /** How many events match. */
    count: (organizationId: number, filter: MembershipEventFilter): number =>
      counting.get(parameters(organizationId, filter))?.total ?? 0,
  };
}
