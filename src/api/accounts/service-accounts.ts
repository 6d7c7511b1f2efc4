/**
 * Service accounts (semantics 1.5). All roles above reader see all accounts of the organization. Admins manage all of
 * them, members and snapshotters the ones that they created (semantics 13.36, 13.110). No role can grant more than
 * itself.
 */
import { Type } from "typebox";
import { canGrant, ROLES } from "../../domain/access.ts";
import type { Role } from "../../domain/access.ts";
import { SERVICE_ACCOUNT_NAME } from "../../domain/names.ts";
import { badRequest, forbidden, invalid, notFound } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Matching, Maybe, Message, Nullable, Ok, OneOf, Open, named } from "../../http/schema.ts";
import type { ServiceAccountRow } from "../../store/accounts/service-accounts.ts";
import { sourceOf } from "../changes.ts";
import { operation, largeRead } from "../context.ts";
import type { ReadingContext, LargeReadContext } from "../context.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const AccountName = Matching(SERVICE_ACCOUNT_NAME, {
  minLength: 1,
  maxLength: 64,
  description: "Letters, digits and hyphens",
});
const Description = Type.String({ maxLength: 512 });

const AccountPath = Closed({ org: OrgPath.properties.org, name: AccountName });

const ServiceAccountPrivilege = named("ServiceAccountPrivilege", OneOf(ROLES));

const ServiceAccountPostInput = named(
  "ServiceAccountPostInput",
  Open({
    name: AccountName,
    description: Maybe(Description),
    privilege: Type.Optional(OneOf(ROLES, { default: "reader", description: "At most the caller's own role" })),
  }),
);

const ServiceAccountPatchInput = named(
  "ServiceAccountPatchInput",
  Closed({
    description: Type.Optional(Nullable({ ...Description, description: "null clears it; absent keeps it" })),
    privilege: Type.Optional(Nullable(OneOf(ROLES, { description: "Changed by admins only; null keeps it" }))),
  }),
);

const SHARED_FIELDS = {
  name: Type.String(),
  display_name: Type.String(),
  description: Nullable(Type.String()),
  privilege: ServiceAccountPrivilege,
  creating_user_id: Type.String({
    description: "Id of the user or service account that created it; empty if the operator did",
  }),
  created_at: Type.Number({ description: "Epoch seconds" }),
};
const ServiceAccountListItem = named("ServiceAccountListItem", Closed(SHARED_FIELDS));
const ServiceAccountResponse = named(
  "ServiceAccountResponse",
  Closed({
    ...SHARED_FIELDS,
    for_webhook: Type.Boolean({ description: "Whether an incoming webhook acts as this account" }),
  }),
);

const presentItem = ({ name, description, privilege, creating_user_id, created_at }: ServiceAccountRow) => ({
  name,
  display_name: name,
  description,
  privilege,
  creating_user_id,
  created_at,
});
const presentAccount = (row: ServiceAccountRow) => ({ ...presentItem(row), for_webhook: row.for_webhook === 1 });

/** The account of that name in the organization of the path. @throws AppError 404 */
export function requireAccount({ store, organization }: LargeReadContext, name: string): ServiceAccountRow {
  const account = store.serviceAccounts.find(organization.id, name);
  if (!account) throw notFound("Service account not found");
  return account;
}

/** An account that the principal may manage: any for admins, otherwise their own. @throws AppError 404, 403 */
export function requireManagedAccount(context: ReadingContext, name: string): ServiceAccountRow {
  const account = requireAccount(context, name);
  if (context.role !== "admin" && account.creating_user_id !== context.principal.publicId) throw forbidden();
  return account;
}

/** Whether the principal may grant that privilege: at most their own role (semantics 1.4). */
export const canGrantPrivilege = ({ role }: ReadingContext, privilege: Role): boolean =>
  role !== null && canGrant(role, privilege);

const FORBIDDEN = {
  description: "The caller's role is not sufficient, or someone else created the account",
  schema: Message,
};
const NO_ACCOUNT = { description: "No such service account", schema: Message };
const EXAMPLE_PATH = { org: "acme", name: "ci-bot" };

export const listServiceAccounts = largeRead({
  id: "list_service_accounts",
  method: "GET",
  path: "/service-accounts/{org}",
  tag: "Service Accounts",
  summary: "List service accounts",
  description: "All service accounts of the organization by name, without secrets.",
  permission: "service_account:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The accounts", schema: Type.Array(ServiceAccountListItem) } },
  example: { params: { org: "acme" } },
  handle: ({ store, organization }) => ({
    status: 200,
    body: store.serviceAccounts.list(organization.id).map(presentItem),
  }),
});

export const createServiceAccount = operation({
  id: "create_service_account",
  method: "POST",
  path: "/service-accounts/{org}",
  tag: "Service Accounts",
  summary: "Create a service account",
  description:
    "Creates an account without a key. Its name is unique in the organization and cannot be changed. Personal " +
    "organizations have no service accounts.",
  permission: "service_account:write",
  audit: "service_account.created",
  params: OrgPath,
  query: NoQuery,
  body: json(ServiceAccountPostInput),
  responses: {
    201: { description: "Created", schema: ServiceAccountResponse },
    403: { description: "The caller's role is not sufficient, or below the requested privilege", schema: Message },
  },
  example: { params: { org: "acme" }, body: { name: "ci-bot", description: "Reports builds", privilege: "member" } },
  handle(context, { body }) {
    const { store, organization, principal, note } = context;
    const { name, description = null, privilege = "reader" } = body;
    if (organization.kind === "personal") throw badRequest("Personal organizations cannot have service accounts");
    if (!canGrantPrivilege(context, privilege)) throw forbidden();
    if (store.serviceAccounts.find(organization.id, name))
      throw invalid({ name: `A service account with this name already exists [input: ${name}]` });
    const id = store.serviceAccounts.create({
      organizationId: organization.id,
      name,
      description,
      privilege,
      creatingUserId: principal.publicId,
    });
    note({ account: name, privilege });
    return { status: 201, body: presentAccount(store.serviceAccounts.get(id)) };
  },
});

export const getServiceAccount = largeRead({
  id: "get_service_account",
  method: "GET",
  path: "/service-accounts/{org}/{name}",
  tag: "Service Accounts",
  summary: "Read a service account",
  description: "Includes its privilege and creator. Its keys are listed by another operation.",
  permission: "service_account:read",
  audit: null,
  params: AccountPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The account", schema: ServiceAccountResponse }, 404: NO_ACCOUNT },
  example: { params: EXAMPLE_PATH },
  handle: (context, { params }) => ({ status: 200, body: presentAccount(requireAccount(context, params.name)) }),
});

export const updateServiceAccount = operation({
  id: "update_service_account",
  method: "PATCH",
  path: "/service-accounts/{org}/{name}",
  tag: "Service Accounts",
  summary: "Change the description or privilege of a service account",
  description:
    "Absent fields stay unchanged; a description of null clears it. Only admins can change the privilege, which then " +
    "applies to all keys of the account. The membership audit log records the change.",
  permission: "service_account:write",
  audit: "service_account.updated",
  params: AccountPath,
  query: NoQuery,
  body: json(ServiceAccountPatchInput),
  responses: {
    200: { description: "The account as it is now", schema: ServiceAccountResponse },
    403: FORBIDDEN,
    404: NO_ACCOUNT,
  },
  example: { params: EXAMPLE_PATH, body: { description: null, privilege: "reader" } },
  handle(context, { params, body }) {
    const { store, note, role, principal } = context;
    const account = requireManagedAccount(context, params.name);
    const { description = account.description } = body;
    const privilege = body.privilege ?? account.privilege;
    // Clients send the whole account: repeating its privilege changes nothing.
    if (privilege !== account.privilege && role !== "admin") throw forbidden();
    const isDescribed = description !== account.description;
    if (!isDescribed && privilege === account.privilege)
      return { status: 200, body: presentAccount(account), unaudited: true };
    store.serviceAccounts.setDescription(account.id, description);
    store.serviceAccounts.setPrivilege(account.id, privilege, {
      changedBy: principal.displayName,
      source: sourceOf(context),
    });
    note({ account: account.name, privilege, previous_privilege: account.privilege, description_changed: isDescribed });
    return { status: 200, body: presentAccount(store.serviceAccounts.get(account.id)) };
  },
});

export const deleteServiceAccount = operation({
  id: "delete_service_account",
  method: "DELETE",
  path: "/service-accounts/{org}/{name}",
  tag: "Service Accounts",
  summary: "Delete a service account",
  description:
    "Deletes the account and all its keys immediately and permanently. Its reports stay. Refused for an account that " +
    "an enabled incoming webhook acts as.",
  permission: "service_account:write",
  audit: "service_account.deleted",
  params: AccountPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Deleted", schema: Ok },
    403: FORBIDDEN,
    404: NO_ACCOUNT,
  },
  example: { params: EXAMPLE_PATH },
  handle(context, { params }) {
    const { store, note } = context;
    const account = requireManagedAccount(context, params.name);
    // Events of such a webhook would be lost silently.
    const hooks = store.serviceAccounts.listEnabledWebhookKinds(account.id);
    if (hooks.length > 0)
      throw badRequest(
        `Service account '${account.name}' is in use by incoming webhooks (${hooks.join(", ")}): disable them first`,
      );
    note({
      account: account.name,
      privilege: account.privilege,
      keys: store.apiKeys.listActive(account.id).map((key) => key.public_id),
    });
    store.serviceAccounts.delete(account.id);
    return { status: 200, body: "OK" };
  },
});
