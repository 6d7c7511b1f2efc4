/** Who changed whose membership or privilege, when and how (semantics 8.5). For admins only (decision 109). */
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
import { operation } from "../context.ts";
import { Counts, counts, pages } from "../paging.ts";
import { NAME_LENGTH } from "../../contract/shapes.ts";
import { OrgPath } from "../paths.ts";

const paging = pages({ perPage: 15, most: 100 });

const MembershipAuditEvent = named(
  "MembershipAuditEvent",
  Closed({
    timestamp: Type.Number({ description: "Epoch seconds" }),
    event_type: OneOf(MEMBERSHIP_CHANGES),
    user: Type.String({
      description: "Whose membership it is, as people saw their name then; or the name of a service account",
    }),
    user_name: Type.String({ description: "Their login name; of a service account `organization/name`" }),
    role: Nullable(Type.String({ description: "The new role; null for somebody who was removed" })),
    previous_role: Nullable(Type.String({ description: "null for somebody who was no member" })),
    changed_by: Type.String({
      description:
        "Who did it: a user as people saw their name then, a service account, the login name of an OpenID Connect" +
        " login, or `operator (NAME)` with the user of the operating system who ran the command on the server",
    }),
    source: OneOf(MEMBERSHIP_SOURCES, {
      description: "Where it was done; `script` is the command line of the server, `oidc` a login with OpenID Connect",
    }),
  }),
);
const MembershipAuditLogPage = named(
  "MembershipAuditLogPage",
  Closed({ ...Counts, events: Type.Array(MembershipAuditEvent) }),
);

const present = ({
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

export const listAuditLog = operation({
  id: "list_audit_log",
  method: "GET",
  path: "/membership-audit-log/{org}",
  tag: "Audit Log",
  summary: "List changes of memberships and roles",
  description:
    "Every change of a member's role and of a service account's privilege since the organization exists; nothing is " +
    "ever removed from it.",
  permission: "membership_audit:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...paging.query,
    search: Type.Optional(
      Type.String({
        maxLength: NAME_LENGTH,
        description: "Part of a name of the user or of who changed it, in any case",
      }),
    ),
    event_type: Type.Optional(OneOf(MEMBERSHIP_CHANGES)),
    role: Repeated(OneOf(ROLES), { description: "The new role; of several, any may match" }),
    source: Repeated(OneOf(MEMBERSHIP_SOURCES), { description: "Of several, any may match" }),
    from_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds, included" })),
    to_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds, included" })),
    sort_by: Type.Optional(OneOf(MEMBERSHIP_ORDERS, { default: "when" })),
    sort_dir: Type.Optional(OneOf(["asc", "desc"], { default: "desc" })),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page of the changes", schema: MembershipAuditLogPage } },
  example: { params: { org: "acme" }, query: { role: "admin", sort_by: "user", sort_dir: "asc" } },
  handle({ store, organization }, { query }) {
    const window = paging.window(query);
    const filter = {
      search: query.search ?? "",
      eventType: query.event_type ?? null,
      roles: query.role ?? null,
      sources: query.source ?? null,
      from: query.from_timestamp ?? null,
      to: query.to_timestamp ?? null,
    };
    const order = { by: query.sort_by ?? "when", direction: query.sort_dir ?? "desc" };
    const events = store.membershipAuditLog.list(organization.id, filter, order, window).map(present);
    return {
      status: 200,
      body: { ...counts(store.membershipAuditLog.count(organization.id, filter), window.page, window.perPage), events },
    };
  },
});
