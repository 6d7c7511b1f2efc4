/**
 * API keys of service accounts (semantics 1.6). Keys are never updated, only replaced. The text of a key is in the
 * response that creates it and nowhere else; only its hash is stored. Expired keys are unknown here, as revoked ones
 * are.
 */
import { Type } from "typebox";
import { DAY_S, MAX_EXPIRY_S, toWholeSeconds } from "../../domain/time.ts";
import { forbidden, notFound } from "../../errors.ts";
import { NO_BODY, json, optionalJson } from "../../http/operation.ts";
import { Closed, Message, named } from "../../http/schema.ts";
import type { ApiKeyRow } from "../../store/accounts/api-keys.ts";
import type { ServiceAccountRow } from "../../store/accounts/service-accounts.ts";
import {
  ApiKeyCreatedResponse,
  ApiKeyListItemResponse,
  ApiKeyPostInput,
  ApiKeyRotateInput,
  ApiKeyRotatedResponse,
  createKey,
  presentItem,
  rotateKey,
} from "./api-key-records.ts";
import { operation, largeRead } from "../context.ts";
import type { ReadingContext, LargeReadContext } from "../context.ts";
import { canGrantPrivilege, requireAccount, requireManagedAccount } from "./service-accounts.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const KeysPath = Closed({
  org: OrgPath.properties.org,
  name: Type.String({ description: "Name of the service account" }),
});
const KeyPath = Closed({
  ...KeysPath.properties,
  key_id: Type.String({ description: "Id of the key, not the key itself" }),
});

function requireKey({ store }: LargeReadContext, account: ServiceAccountRow, id: string): ApiKeyRow {
  const key = store.apiKeys.findActive({ serviceAccountId: account.id }, id);
  if (!key) throw notFound("API key not found");
  return key;
}

/**
 * The account that a new key is for. A key is as powerful as its account. An admin may have raised the account above
 * the role of its creator, or lowered the creator; then the creator cannot create keys for it.
 * @throws AppError 404, 403
 */
function requireIssuableAccount(context: ReadingContext, name: string): ServiceAccountRow {
  const account = requireManagedAccount(context, name);
  if (!canGrantPrivilege(context, account.privilege)) throw forbidden();
  return account;
}

const FORBIDDEN = {
  description: "The caller's role is not sufficient, or someone else created the account",
  schema: Message,
};
const FORBIDDEN_TO_ISSUE = {
  description:
    "The caller's role is not sufficient or below the account's privilege, or someone else created the account",
  schema: Message,
};
const NO_ACCOUNT = { description: "No such service account", schema: Message };
const NO_KEY = { description: "No such service account, or no such valid key", schema: Message };
const EXAMPLE_PATH = { org: "acme", name: "ci-bot" };
const EXAMPLE_KEY_PATH = { ...EXAMPLE_PATH, key_id: "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f" };

export const listApiKeys = largeRead({
  id: "list_service_account_api_keys",
  method: "GET",
  path: "/service-accounts/{org}/{name}/api-keys",
  tag: "Service Accounts",
  summary: "List the keys of a service account",
  description: "The valid keys, oldest first, without the keys themselves.",
  permission: "service_account:read",
  audit: null,
  params: KeysPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The keys", schema: Type.Array(ApiKeyListItemResponse) }, 404: NO_ACCOUNT },
  example: { params: EXAMPLE_PATH },
  handle: (context, { params }) => ({
    status: 200,
    body: context.store.apiKeys.listActive(requireAccount(context, params.name).id).map(presentItem),
  }),
});

export const createApiKey = operation({
  id: "create_service_account_api_key",
  method: "POST",
  path: "/service-accounts/{org}/{name}/api-keys",
  tag: "Service Accounts",
  summary: "Create a key of a service account",
  description: "This response contains the key itself, which is never shown again.",
  permission: "service_account:write",
  audit: "api_key.created",
  params: KeysPath,
  query: NoQuery,
  body: json(ApiKeyPostInput),
  responses: {
    201: { description: "Created", schema: ApiKeyCreatedResponse },
    403: FORBIDDEN_TO_ISSUE,
    404: NO_ACCOUNT,
  },
  example: { params: EXAMPLE_PATH, body: { description: "build pipeline", expires_at: MAX_EXPIRY_S } },
  handle(context, { params, body }) {
    const account = requireIssuableAccount(context, params.name);
    context.note({ account: account.name });
    return { status: 201, body: createKey(context, { serviceAccountId: account.id }, { body }) };
  },
});

export const getApiKey = largeRead({
  id: "get_service_account_api_key",
  method: "GET",
  path: "/service-accounts/{org}/{name}/api-keys/{key_id}",
  tag: "Service Accounts",
  summary: "Read a key of a service account",
  description: "A valid key, without the key itself.",
  permission: "service_account:read",
  audit: null,
  params: KeyPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The key", schema: ApiKeyListItemResponse }, 404: NO_KEY },
  example: { params: EXAMPLE_KEY_PATH },
  handle: (context, { params }) => ({
    status: 200,
    body: presentItem(requireKey(context, requireAccount(context, params.name), params.key_id)),
  }),
});

export const revokeApiKey = operation({
  id: "delete_service_account_api_key",
  method: "DELETE",
  path: "/service-accounts/{org}/{name}/api-keys/{key_id}",
  tag: "Service Accounts",
  summary: "Revoke a key of a service account",
  description: "Takes effect with the next request. A revoked key cannot be restored.",
  permission: "service_account:write",
  audit: "api_key.revoked",
  params: KeyPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "Revoked", schema: Type.Literal("revoked") }, 403: FORBIDDEN, 404: NO_KEY },
  example: { params: EXAMPLE_KEY_PATH },
  handle(context, { params }) {
    const account = requireManagedAccount(context, params.name);
    const key = requireKey(context, account, params.key_id);
    context.store.apiKeys.revoke(key.public_id);
    context.note({ account: account.name, key_id: key.public_id, description: key.description });
    return { status: 200, body: "revoked" };
  },
});

export const rotateApiKey = operation({
  id: "rotate_service_account_api_key",
  method: "POST",
  path: "/service-accounts/{org}/{name}/api-keys/{key_id}/rotate",
  tag: "Service Accounts",
  summary: "Replace a key of a service account",
  description:
    "Creates a new key with the description of the old one. The old key remains valid until its grace period ends " +
    "and is then revoked. A key that has been rotated is refused while its replacement is valid: rotate the " +
    "replacement.",
  permission: "service_account:write",
  audit: "api_key.rotated",
  params: KeyPath,
  query: NoQuery,
  body: optionalJson(ApiKeyRotateInput),
  responses: { 201: { description: "Rotated", schema: ApiKeyRotatedResponse }, 403: FORBIDDEN_TO_ISSUE, 404: NO_KEY },
  example: { params: EXAMPLE_KEY_PATH, body: { grace_period_hours: 48 } },
  handle(context, { params, body }) {
    const account = requireIssuableAccount(context, params.name);
    const old = requireKey(context, account, params.key_id);
    context.note({ account: account.name });
    return { status: 201, body: rotateKey(context, { serviceAccountId: account.id }, { old, body }) };
  },
});

/** As early as the first warning of an expiry is sent (domain/notification/key-expiry.ts). */
const DEFAULT_WITHIN_DAYS = 14;
const MAX_EXPIRING_KEYS = 1000;

const ExpiringApiKey = named(
  "ExpiringApiKey",
  Closed({
    id: Type.String(),
    service_account: Type.String({ description: "Name of the service account" }),
    description: Type.String(),
    created_at: Type.Number({ description: "Epoch seconds" }),
    expires_at: Type.Integer({ description: "Epoch seconds" }),
  }),
);

// Not below /service-accounts/{org}: a service account may have any name.
export const listExpiringApiKeys = largeRead({
  id: "list_expiring_api_keys",
  origin: "assay",
  method: "GET",
  path: "/expiring-api-keys/{org}",
  tag: "Service Accounts",
  summary: "List keys of service accounts that expire soon",
  description:
    `The valid keys of all service accounts of the organization, the next one to expire first, at most ` +
    `${MAX_EXPIRING_KEYS}. Keys that were rotated are not listed: they expire on purpose.`,
  permission: "expiring_key:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    within_days: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 366, default: DEFAULT_WITHIN_DAYS, description: "Days from now" }),
    ),
  }),
  body: NO_BODY,
  responses: { 200: { description: "The keys", schema: Type.Array(ExpiringApiKey) } },
  example: { params: { org: "acme" }, query: { within_days: "30" } },
  handle({ store, organization }, { query }) {
    const seconds = (query.within_days ?? DEFAULT_WITHIN_DAYS) * DAY_S;
    const rows = store.keyExpiry.listExpiring(organization.id, { seconds, limit: MAX_EXPIRING_KEYS });
    return {
      status: 200,
      body: rows.map(({ public_id: id, account, description, created_at, expires_at }) => ({
        id,
        service_account: account,
        description,
        created_at,
        expires_at: toWholeSeconds(expires_at),
      })),
    };
  },
});
