/** The organizations of a user or service account, and the default one. */
import { Type } from "typebox";
import { ROLES } from "../../domain/access.ts";
import { forbidden } from "../../errors.ts";
import { Closed, Message, Ok, OneOf, named } from "../../http/schema.ts";
import { NO_BODY } from "../../http/operation.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { PageOf, definePaging } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import type { PageWindow } from "../paging.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const DefaultOrgResponse = named(
  "DefaultOrgResponse",
  Closed({ default_org_name: Type.String({ description: "Name of the organization; empty if none was chosen" }) }),
);

export const getDefaultOrg = operation({
  id: "get_user_default_org",
  method: "GET",
  path: "/user/default-org",
  tag: "User",
  summary: "Read the caller's default organization",
  description:
    "The organization that the web pages open first. It never restricts API calls. For a service account, the " +
    "organization that it belongs to.",
  permission: "authenticated",
  audit: null,
  params: Closed({}),
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The default organization", schema: DefaultOrgResponse } },
  example: {},
  handle({ store, account }) {
    const id =
      account.kind === "user"
        ? store.users.get(account.id).default_organization_id
        : store.serviceAccounts.get(account.id).organization_id;
    return { status: 200, body: { default_org_name: id === null ? "" : store.organizations.get(id).name } };
  },
});

export const putDefaultOrg = operation({
  id: "put_user_default_org",
  method: "PUT",
  path: "/user/{org}",
  tag: "User",
  summary: "Choose the caller's default organization",
  description:
    "Requires no body. The response for an unknown organization is the same as for one that the caller is not a " +
    "member of.",
  permission: "authenticated",
  audit: "user.default_organization_set",
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Chosen", schema: Ok },
    403: { description: "No such organization, or the caller is not a member of it", schema: Message },
  },
  example: { params: { org: "acme" } },
  handle({ store, account, note }, { params }) {
    const organization = store.organizations.find(params.org);
    // The message names the path of the request (messages 3).
    const denied = () => forbidden(null, `Access denied to /api/v2/user/${params.org}`);
    if (!organization) throw denied();
    if (account.kind === "service_account") {
      // A service account has one organization and no profile: choosing its own changes nothing, any other is refused.
      if (store.serviceAccounts.get(account.id).organization_id !== organization.id) throw denied();
      return { status: 200, body: "OK" };
    }
    if (store.organizations.findRole(organization.id, account.id) === null) throw denied();
    store.users.setDefaultOrganization(account.id, organization.id);
    note({ organization: organization.name });
    return { status: 200, body: "OK" };
  },
});

const PAGING = definePaging({ perPage: 100, maxPerPage: 1000 });

const OwnOrganization = named(
  "OwnOrganization",
  Closed({
    name: Type.String(),
    kind: OneOf(["personal", "shared"]),
    role: OneOf(ROLES, { description: "Role of the caller" }),
    is_public: Type.Boolean({ description: "Whether every user of the server may read the organization" }),
    is_default: Type.Boolean({ description: "Whether it is the caller's default organization" }),
  }),
);

/** A service account belongs to one organization, with its privilege as role. */
function listOwn({ store, account }: ReadingContext, { limit, offset }: PageWindow) {
  if (account.kind === "user") {
    const defaultId = store.users.get(account.id).default_organization_id;
    const data = store.users
      .listMembershipPage(account.id, { limit, offset })
      .map(({ organization, organization_id, kind, role, is_public }) => ({
        name: organization,
        kind,
        role,
        is_public: is_public === 1,
        is_default: organization_id === defaultId,
      }));
    return { data, total: store.users.countMemberships(account.id) };
  }
  const { organization_id, privilege } = store.serviceAccounts.get(account.id);
  const { name, kind, is_public } = store.organizations.get(organization_id);
  const only = { name, kind, role: privilege, is_public: is_public === 1, is_default: true };
  return { data: [only].slice(offset, offset + limit), total: 1 };
}

export const listOwnOrganizations = operation({
  id: "list_user_organizations",
  origin: "assay",
  method: "GET",
  path: "/user/organizations",
  tag: "User",
  summary: "List the caller's organizations",
  description: "The organizations that the caller is a member of, by name. Public ones of others are not listed.",
  permission: "authenticated",
  audit: null,
  params: Closed({}),
  query: Closed(PAGING.query),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: PageOf("OwnOrganizationPage", OwnOrganization) } },
  example: {},
  handle(context, { query }) {
    const window = PAGING.window(query);
    const { data, total } = listOwn(context, window);
    return { status: 200, body: { data, pagination: presentPagination(total, window.page, window.perPage) } };
  },
});
