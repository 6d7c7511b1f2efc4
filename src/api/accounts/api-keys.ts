/**
 * API keys of service accounts (semantics 1.6). A key has no update: a change is a new one. Its text is in the answer
 * that makes it and nowhere else; only the hash is stored. Keys whose time is over are unknown here, as revoked ones
 * are.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { LATEST_EXPIRY } from "../../domain/time.ts";
import { badRequest, forbidden, invalid, notFound } from "../../errors.ts";
import { NO_BODY, json, optionalJson } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Maybe, Message, named } from "../../http/schema.ts";
import { keyDigest } from "../../store/accounts/api-keys.ts";
import type { ApiKeyRow } from "../../store/accounts/api-keys.ts";
import type { ServiceAccountRow } from "../../store/accounts/service-accounts.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { holdsAtLeast, requireAccount, requireManaged } from "./service-accounts.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const KeysPath = Closed({
  org: OrgPath.properties.org,
  name: Type.String({ description: "Name of the service account" }),
});
const KeyPath = Closed({ ...KeysPath.properties, key_id: Type.String({ description: "Id of the key, not its text" }) });

const expiresAt = (absent: string) =>
  Maybe(
    CheckedByHandler(
      { minimum: 0 },
      Type.Integer({
        maximum: LATEST_EXPIRY,
        description: `When the key ends, whole epoch seconds in the future; 0 is never. ${absent}`,
      }),
    ),
  );

const ApiKeyPostInput = named(
  "ApiKeyPostInput",
  Closed({
    description: Type.String({ minLength: 1, maxLength: 256, description: "What the key is for" }),
    expires_at: expiresAt("Unless given it never ends"),
  }),
);

const GRACE_HOURS = 24;

const ApiKeyRotateInput = named(
  "ApiKeyRotateInput",
  Closed({
    grace_period_hours: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 720,
        default: GRACE_HOURS,
        description: "How long the old key goes on working",
      }),
    ),
    expires_at: expiresAt("Unless given the new key ends when the old one would have"),
  }),
);

const SHOWN = {
  id: Type.String(),
  description: Type.String(),
  created_at: Type.Number({ description: "Epoch seconds" }),
  expires_at: Type.Integer({ description: "Epoch seconds; 0: never" }),
};
const GraceEnd = Type.Number({ description: "Epoch seconds: from then on the old key is refused" });

const ApiKeyListItemResponse = named(
  "ApiKeyListItemResponse",
  Closed({
    ...SHOWN,
    last_used_at: Type.Number({ description: "Epoch seconds; 0: not yet" }),
    grace_period_expires_at: Type.Optional({
      ...GraceEnd,
      description: "Only of a rotated key: from then on it is refused",
    }),
  }),
);
const Secret = Type.String({ description: "The key itself; it is not shown again" });
const ApiKeyCreatedResponse = named("ApiKeyCreatedResponse", Closed({ ...SHOWN, key: Secret }));
const ApiKeyRotatedResponse = named(
  "ApiKeyRotatedResponse",
  Closed({
    ...SHOWN,
    key: Secret,
    api_key: { ...Secret, description: "The same as key" },
    grace_period_expires_at: GraceEnd,
  }),
);

/** Whole seconds: clients read nothing else. An old record may hold any figure; one that no clock reaches is none. */
const wholeSeconds = (seconds: number): number => (Number.isSafeInteger(Math.floor(seconds)) ? Math.floor(seconds) : 0);

const presentKey = ({ public_id: id, description, created_at, expires_at }: ApiKeyRow) => ({
  id,
  description,
  created_at,
  expires_at: wholeSeconds(expires_at),
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
 * The account, for somebody who is about to get a key of it. A key is as powerful as its account, which an admin may
 * have raised above the one who created it, who may also have been lowered: then it is out of their reach. @throws
 * AppError 404, 403.
 */
function requireMintable(context: OperationContext, name: string): ServiceAccountRow {
  const account = requireManaged(context, name);
  if (!holdsAtLeast(context, account.privilege)) throw forbidden();
  return account;
}

function refusePast(context: OperationContext, expiresAt: number): void {
  if (expiresAt !== 0 && expiresAt <= context.now())
    throw invalid({ expires_at: `Expiry must be in the future [input: ${expiresAt}]` });
}

const NOT_YOURS = {
  description: "The caller's role does not allow it, or somebody else created the account",
  schema: Message,
};
const NOT_MINTABLE = {
  description:
    "The caller's role does not allow it or is below the account's privilege, or somebody else created the account",
  schema: Message,
};
const NO_ACCOUNT = { description: "No such service account", schema: Message };
const NO_KEY = { description: "No such service account, or no such key that works", schema: Message };
const EXAMPLE_PATH = { org: "acme", name: "ci-bot" };
const EXAMPLE_KEY_PATH = { ...EXAMPLE_PATH, key_id: "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f" };

export const listApiKeys = operation({
  id: "list_service_account_api_keys",
  method: "GET",
  path: "/service-accounts/{org}/{name}/api-keys",
  tag: "Service Accounts",
  summary: "List the keys of a service account",
  description: "The keys that work, oldest first, without their texts.",
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

/** Who is told of the key's end beside the admins; null for a machine, which reads no mail. */
const makerOf = ({ principal }: OperationContext): string | null =>
  principal.kind === "user" ? principal.publicId : null;

export const createApiKey = operation({
  id: "create_service_account_api_key",
  method: "POST",
  path: "/service-accounts/{org}/{name}/api-keys",
  tag: "Service Accounts",
  summary: "Create a key of a service account",
  description: "The text of the key is in this answer and never shown again.",
  permission: "service_account:write",
  audit: "api_key.created",
  params: KeysPath,
  query: NoQuery,
  body: json(ApiKeyPostInput),
  responses: { 201: { description: "Created", schema: ApiKeyCreatedResponse }, 403: NOT_MINTABLE, 404: NO_ACCOUNT },
  example: { params: EXAMPLE_PATH, body: { description: "build pipeline", expires_at: LATEST_EXPIRY } },
  handle(context, { params, body }) {
    const { store, note } = context;
    const account = requireMintable(context, params.name);
    const expiresAt = body.expires_at ?? 0;
    refusePast(context, expiresAt);
    const key = context.newSecret();
    const id = store.apiKeys.create(
      { serviceAccountId: account.id },
      { digest: keyDigest(key), description: body.description, expiresAt, creatingUserId: makerOf(context) },
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
  description: "A key that works, without its text.",
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
  description: "The next request with the key is refused. It cannot be brought back.",
  permission: "service_account:write",
  audit: "api_key.revoked",
  params: KeyPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "Revoked", schema: Type.Literal("revoked") }, 403: NOT_YOURS, 404: NO_KEY },
  example: { params: EXAMPLE_KEY_PATH },
  handle(context, { params }) {
    const account = requireManaged(context, params.name);
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
    "Makes a new key with the description of the old one, which works until its grace period is over and is then revoked. A key that was rotated already is refused for as long as its replacement works: rotate that one.",
  permission: "service_account:write",
  audit: "api_key.rotated",
  params: KeyPath,
  query: NoQuery,
  body: optionalJson(ApiKeyRotateInput),
  responses: { 201: { description: "Rotated", schema: ApiKeyRotatedResponse }, 403: NOT_MINTABLE, 404: NO_KEY },
  example: { params: EXAMPLE_KEY_PATH, body: { grace_period_hours: 48 } },
  handle(context, { params, body }) {
    const { store, note } = context;
    const account = requireMintable(context, params.name);
    const old = requireKey(context, account, params.key_id);
    // Only one key takes the place of another: whoever asks again, or at the same time, is told which.
    if (old.replaced_by !== null && store.apiKeys.findActive(account.id, old.replaced_by))
      throw badRequest(`API key '${old.public_id}' has been rotated already: its replacement is '${old.replaced_by}'`);
    // Of null nobody can tell whether it means "never": the shorter life is the safe one.
    const expiresAt = body?.expires_at ?? old.expires_at;
    if (expiresAt !== old.expires_at) refusePast(context, expiresAt);
    const secret = context.newSecret();
    note({ account: account.name, key_id: old.public_id });
    const { id, graceEnds } = store.apiKeys.rotate(account.id, old, {
      digest: keyDigest(secret),
      expiresAt,
      creatingUserId: makerOf(context),
      graceEnds: context.now() + (body?.grace_period_hours ?? GRACE_HOURS) * 3600,
      lapsed: { ...context.auditEntry(), event: "api_key.lapsed" },
    });
    note({ new_key_id: id, expires_at: expiresAt, grace_period_expires_at: graceEnds });
    return {
      status: 201,
      body: { ...presentKey(store.apiKeys.get(id)), key: secret, api_key: secret, grace_period_expires_at: graceEnds },
    };
  },
});
