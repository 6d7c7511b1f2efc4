import type { Db } from "../db/types.ts";

export const MEMBERSHIP_CHANGES = ["added", "changed", "removed"] as const;
export const MEMBERSHIP_SOURCES = ["app", "scim", "invitation", "script", "oidc"] as const;

export type MembershipEventRow = {
  /** Epoch seconds. */
  timestamp: number;
  event_type: (typeof MEMBERSHIP_CHANGES)[number];
  /** The login name; of a service account `organization/name`, which no login name can be. */
  user_name: string;
  user_shown: string;
  role: string | null;
  previous_role: string | null;
  changed_by: string;
  source: (typeof MEMBERSHIP_SOURCES)[number];
};

export type MembershipEventFilter = {
  /** A part of a name of the user or of who did it, in any case; empty: everybody. */
  search: string;
  /** null: any. */
  eventType: MembershipEventRow["event_type"] | null;
  /** Any of these new roles; null: any, and none. */
  roles: readonly string[] | null;
  /** Any of these; null: any. */
  sources: readonly string[] | null;
  /** Epoch seconds, inclusive; null: no bound. */
  from: number | null;
  to: number | null;
};

export const MEMBERSHIP_ORDERS = ["when", "user", "role", "changed_by", "source"] as const;
export type MembershipOrder = { by: (typeof MEMBERSHIP_ORDERS)[number]; direction: "asc" | "desc" };

/** What a text is searched by. Names hold no line feed, so nothing is found across two of them. */
export const membershipSearchText = (...names: readonly string[]): string => names.join("\n").toLowerCase();

/** Appends to the history. To be called in the write of the change. */
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

// The unary plus keeps the index over the time out of the orders that have one of their own.
const fitting = (
  timestamp: string,
): string => `organization_id = @organization AND ${timestamp} >= @from AND ${timestamp} <= @to
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
      `SELECT timestamp, event_type, user_name, user_shown, role, previous_role, changed_by, source FROM membership_events
       WHERE ${fitting(by === "when" ? "timestamp" : "+timestamp")} ORDER BY ${COLUMNS[by]} ${direction}, id ${direction} LIMIT @limit OFFSET @offset`,
    );
  const lists = Object.fromEntries(
    MEMBERSHIP_ORDERS.map((by) => [by, { asc: listing(by, "ASC"), desc: listing(by, "DESC") }]),
  ) as Record<MembershipOrder["by"], Record<MembershipOrder["direction"], ReturnType<typeof listing>>>;
  const counting = db.prepare<[Parameters], { total: number }>(
    `SELECT count(*) AS total FROM membership_events WHERE ${fitting("timestamp")}`,
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
    /**
     * One page of the events of an organization; what happened later comes later among equals, in the direction asked
     * for.
     */
    list: (
      organizationId: number,
      filter: MembershipEventFilter,
      { by, direction }: MembershipOrder,
      window: { limit: number; offset: number },
    ): MembershipEventRow[] =>
      lists[by][direction].all({ ...parameters(organizationId, filter), limit: window.limit, offset: window.offset }),
    /** How many events fit. */
    count: (organizationId: number, filter: MembershipEventFilter): number =>
      counting.get(parameters(organizationId, filter))?.total ?? 0,
  };
}
