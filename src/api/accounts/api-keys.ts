/**
 * API keys of service accounts (semantics 1.6). Keys are never updated, only replaced. The text of a key is in the
 * response that creates it and nowhere else; only its hash is stored. Expired keys are unknown here, as revoked ones
 * are.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { toWholeSeconds, MAX_EXPIRY_S } from "../../domain/time.ts";
import { badRequest, forbidden, invalid, notFound } from "../../errors.ts";
import { NO_BODY, json, optionalJson } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Maybe, Message, named } from "../../http/schema.ts";
import { keyDigest } from "../../store/accounts/api-keys.ts";
import type { ApiKeyRow } from "../../store/accounts/api-keys.ts";
import type { ServiceAccountRow } from "../../store/accounts/service-accounts.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
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

const expiresAt = (absent: string) =>
  Maybe(
    CheckedByHandler(
      { minimum: 0 },
      Type.Integer({
        maximum: MAX_EXPIRY_S,
        description: `Expiry of the key in whole epoch seconds in the future; 0 for none. ${absent}`,
      }),
    ),
  );

const ApiKeyPostInput = named(
  "ApiKeyPostInput",
  Closed({
    description: Type.String({ minLength: 1, maxLength: 256, description: "Purpose of the key" }),
    expires_at: expiresAt("By default the key never expires"),
  }),
);

const DEFAULT_GRACE_HOURS = 24;

const ApiKeyRotateInput = named(
  "ApiKeyRotateInput",
  Closed({
    grace_period_hours: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 720,
        default: DEFAULT_GRACE_HOURS,
        description: "Hours for which the old key remains valid",
      }),
    ),
    expires_at: expiresAt("By default the expiry of the old key"),
  }),
);

const SHARED_FIELDS = {
  id: Type.String(),
  description: Type.String(),
  created_at: Type.Number({ description: "Epoch seconds" }),
  expires_at: Type.Integer({ description: "Epoch seconds; 0 if it never expires" }),
};
const GraceEnd = Type.Number({ description: "Epoch seconds; from then on the old key is refused" });

const ApiKeyListItemResponse = named(
  "ApiKeyListItemResponse",
  Closed({
    ...SHARED_FIELDS,
    last_used_at: Type.Number({ description: "Epoch seconds; 0 if never used" }),
    grace_period_expires_at: Type.Optional({
      ...GraceEnd,
      description: "Epoch seconds; for rotated keys only: from then on the key is refused",
    }),
  }),
);
const Secret = Type.String({ description: "The key itself; it is not shown again" });
const ApiKeyCreatedResponse = named("ApiKeyCreatedResponse", Closed({ ...SHARED_FIELDS, key: Secret }));
const ApiKeyRotatedResponse = named(
  "ApiKeyRotatedResponse",
  Closed({
    ...SHARED_FIELDS,
    key: Secret,
    api_key: { ...Secret, description: "The same as `key`" },
    grace_period_expires_at: GraceEnd,
  }),
);

const presentKey = ({ public_id: id, description, created_at, expires_at }: ApiKeyRow) => ({
  id,
  description,
  created_at,
  expires_at: toWholeSeconds(expires_at),
});
function presentItem(row: ApiKeyRow): Static<typeof ApiKeyListItemResponse> {
  const item = { ...presentKey(row), last_used_at: row.last_used_at };
  return row.grace_period_expires_at === null
    ? item
    : { ...item, grace_period_expires_at: row.grace_period_expires_at };
}

function requireKey({ store }: OperationContext, account: ServiceAccountRow, id: string): ApiKeyRow {
  const key = store.apiKeys.findActive(account.id, id);
  if (!key) throw notFound("API key not found");
  return key;
}

/**
 * The account that a new key is for. A key is as powerful as its account. An admin may have raised the account above
 * the role of its creator, or lowered the creator; then the creator cannot create keys for it.
 * @throws AppError 404, 403
 */
function requireIssuableAccount(context: OperationContext, name: string): ServiceAccountRow {
  const account = requireManagedAccount(context, name);
  if (!canGrantPrivilege(context, account.privilege)) throw forbidden();
  return account;
}

function requireFuture(context: OperationContext, expiresAt: number): void {
  if (expiresAt !== 0 && expiresAt <= context.now())
    throw invalid({ expires_at: `Expiry must be in the future [input: ${expiresAt}]` });
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

export const listApiKeys = operation({
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

/** The user who is warned before the key expires, besides the admins; null for a service account, which has no mail. */
const creatorIdOf = ({ principal }: OperationContext): string | null =>
  principal.kind === "user" ? principal.publicId : null;

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
    const { store, note } = context;
    const account = requireIssuableAccount(context, params.name);
    const expiresAt = body.expires_at ?? 0;
    requireFuture(context, expiresAt);
    const key = context.newSecret();
    const id = store.apiKeys.create(
      { serviceAccountId: account.id },
      { digest: keyDigest(key), description: body.description, expiresAt, creatingUserId: creatorIdOf(context) },
    );
    note({ account: account.name, key_id: id, description: body.description, expires_at: expiresAt });
    return { status: 201, body: { ...presentKey(store.apiKeys.get(id)), key } };
  },
});

export const getApiKey = operation({
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
    const { store, note } = context;
    const account = requireIssuableAccount(context, params.name);
    const old = requireKey(context, account, params.key_id);
    // A key has one replacement at a time: a repeated or concurrent request gets its id.
    if (old.replaced_by !== null && store.apiKeys.findActive(account.id, old.replaced_by))
      throw badRequest(`API key '${old.public_id}' has already been rotated: its replacement is '${old.replaced_by}'`);
    // null could mean "never"; keeping the old expiry is the safe reading.
    const expiresAt = body?.expires_at ?? old.expires_at;
    if (expiresAt !== old.expires_at) requireFuture(context, expiresAt);
    const secret = context.newSecret();
    note({ account: account.name, key_id: old.public_id });
    const { id, graceEnds } = store.apiKeys.rotate(account.id, old, {
      digest: keyDigest(secret),
      expiresAt,
      creatingUserId: creatorIdOf(context),
      graceEnds: context.now() + (body?.grace_period_hours ?? DEFAULT_GRACE_HOURS) * 3600,
      lapsed: { ...context.auditEntry(), event: "api_key.lapsed" },
    });
    note({ new_key_id: id, expires_at: expiresAt, grace_period_expires_at: graceEnds });
    return {
      status: 201,
      body: { ...presentKey(store.apiKeys.get(id)), key: secret, api_key: secret, grace_period_expires_at: graceEnds },
    };
  },
});
