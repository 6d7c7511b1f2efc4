/** The log of changes to memberships and privileges (semantics 8.5). For admins only (semantics 13.109). */
import { Type } from "typebox";
import { ROLES } from "../../domain/access.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Nullable, OneOf, Repeated, named } from "../../http/schema.ts";
import {
  MEMBERSHIP_CHANGES,
  MEMBERSHIP_ORDERS,
  MEMBERSHIP_SOURCES,
} from "../../store/accounts/membership-audit-log.ts";
import type { MembershipEventRow } from "../../store/accounts/membership-audit-log.ts";
import { largeRead } from "../context.ts";
import { PageCounts, pageCounts, definePaging } from "../paging.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { OrgPath } from "../paths.ts";

const PAGING = definePaging({ perPage: 15, maxPerPage: 100 });

const MembershipAuditEvent = named(
  "MembershipAuditEvent",
  Closed({
    timestamp: Type.Number({ description: "Epoch seconds" }),
    event_type: OneOf(MEMBERSHIP_CHANGES),
    user: Type.String({
      description: "Display name of the member at the time, or name of the service account",
    }),
    user_name: Type.String({ description: "Login name; `organization/name` for a service account" }),
    role: Nullable(Type.String({ description: "New role; null after a removal" })),
    previous_role: Nullable(Type.String({ description: "null if the user was not a member before" })),
    changed_by: Type.String({
      description:
        "Author of the change: the display name of a user at the time, a service account, the login name of an " +
        "OpenID Connect login, or `operator (NAME)` with the operating system user who ran the command on the server",
    }),
    source: OneOf(MEMBERSHIP_SOURCES, {
      description: "Origin of the change; `script` is the server's command line, `oidc` an OpenID Connect login",
    }),
  }),
);
const MembershipAuditLogPage = named(
  "MembershipAuditLogPage",
  Closed({ ...PageCounts, events: Type.Array(MembershipAuditEvent) }),
);

const presentEvent = ({
  timestamp,
  event_type,
  user_shown,
  user_name,
  role,
  previous_role,
  changed_by,
  source,
}: MembershipEventRow) => ({
  timestamp,
  event_type,
  user: user_shown,
  user_name,
  role,
  previous_role,
  changed_by,
  source,
});

export const listAuditLog = largeRead({
  id: "list_audit_log",
  method: "GET",
  path: "/membership-audit-log/{org}",
  tag: "Audit Log",
  summary: "List changes of memberships and roles",
  description:
    "Every change of a member's role or a service account's privilege since the organization was created. Entries " +
    "are never removed.",
  permission: "membership_audit:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGING.query,
    search: Type.Optional(
      Type.String({
        maxLength: MAX_NAME_CHARS,
        description: "Part of a name of the member or of the author, case-insensitive",
      }),
    ),
    event_type: Type.Optional(OneOf(MEMBERSHIP_CHANGES)),
    role: Repeated(OneOf(ROLES), { description: "New role; any of several may match" }),
    source: Repeated(OneOf(MEMBERSHIP_SOURCES), { description: "Any of several may match" }),
    from_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds, inclusive" })),
    to_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds, inclusive" })),
    sort_by: Type.Optional(OneOf(MEMBERSHIP_ORDERS, { default: "when" })),
    sort_dir: Type.Optional(OneOf(["asc", "desc"], { default: "desc" })),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page of the changes", schema: MembershipAuditLogPage } },
  example: { params: { org: "acme" }, query: { role: "admin", sort_by: "user", sort_dir: "asc" } },
  handle({ store, organization }, { query }) {
    const window = PAGING.window(query);
    const filter = {
      search: query.search ?? "",
      eventType: query.event_type ?? null,
      roles: query.role ?? null,
      sources: query.source ?? null,
      from: query.from_timestamp ?? null,
      to: query.to_timestamp ?? null,
    };
    const order = { by: query.sort_by ?? "when", direction: query.sort_dir ?? "desc" };
    const events = store.membershipAuditLog.list(organization.id, filter, { order, window }).map(presentEvent);
    return {
      status: 200,
      body: {
        ...pageCounts(store.membershipAuditLog.count(organization.id, filter), window.page, window.perPage),
        events,
      },
    };
  },
});
