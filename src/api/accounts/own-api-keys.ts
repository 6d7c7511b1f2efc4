/**
 * API keys of the user who asks, with the shapes of those of service accounts (api-keys.ts).
 *
 * A session may create keys of any life. A key may create keys too, but none that outlives it: who finds a key that
 * expires tomorrow must not be able to keep its rights.
 */
import { Type } from "typebox";
import { MAX_EXPIRY_S } from "../../domain/time.ts";
import { badRequest, forbidden, invalid, notFound, unauthenticated } from "../../errors.ts";
import { NO_BODY, json, optionalJson } from "../../http/operation.ts";
import { Closed, Message } from "../../http/schema.ts";
import type { ApiKeyRow } from "../../store/accounts/api-keys.ts";
import { parseSessionActorId } from "../../store/accounts/sessions.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { NoQuery } from "../paths.ts";
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

/** Far more than a person needs; a script that creates a key in each run must not fill the list. */
const MAX_KEYS = 100;

const KeyPath = Closed({ key_id: Type.String({ description: "Id of the key, not the key itself" }) });

/** The user who asks. @throws AppError 403 for a service account */
function requireUser({ account }: ReadingContext): { userId: number } {
  if (account.kind === "user") return { userId: account.id };
  throw forbidden(null, "A service account has no keys of its own here: use /service-accounts/{org}/{name}/api-keys");
}

function requireKey({ store }: ReadingContext, owner: { userId: number }, id: string): ApiKeyRow {
  const key = store.apiKeys.findActive(owner, id);
  if (!key) throw notFound("API key not found");
  return key;
}

function requireRoom({ store }: ReadingContext, { userId }: { userId: number }): void {
  if (store.apiKeys.listActiveOfUser(userId).length >= MAX_KEYS)
    throw badRequest(`You have ${MAX_KEYS} valid API keys, which is the maximum: revoke one first`);
}

/** Refuses an expiry after the end of the key of the request. @throws AppError 400, 401 */
const expiryCheck =
  ({ store, principal }: ReadingContext) =>
  (expiresAt: number): void => {
    if (parseSessionActorId(principal.keyPublicId) !== null) return;
    const key = store.apiKeys.findUnrevoked(principal.keyPublicId);
    // The key was valid at the beginning of this write.
    if (!key) throw unauthenticated();
    const end = key.grace_period_expires_at ?? key.expires_at;
    if (end === 0 || (expiresAt !== 0 && expiresAt <= end)) return;
    throw invalid({
      expires_at:
        `Expiry must not be later than that of the key of this request (${Math.floor(end)}), ` +
        `unless you sign in [input: ${expiresAt}]`,
    });
  };

const SERVICE_ACCOUNT = { description: "The caller is a service account", schema: Message };
const NO_KEY = { description: "No such valid key of the caller", schema: Message };
const EXAMPLE_PATH = { key_id: "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f" };

export const listOwnApiKeys = operation({
  id: "list_user_api_keys",
  origin: "assay",
  method: "GET",
  path: "/user/api-keys",
  tag: "User",
  summary: "List the caller's API keys",
  description: "The valid keys of the user, oldest first, without the keys themselves.",
  permission: "authenticated",
  audit: null,
  params: Closed({}),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The keys", schema: Type.Array(ApiKeyListItemResponse) },
    403: SERVICE_ACCOUNT,
  },
  example: {},
  handle: (context) => ({
    status: 200,
    body: context.store.apiKeys.listActiveOfUser(requireUser(context).userId).map(presentItem),
  }),
});

export const createOwnApiKey = operation({
  id: "create_user_api_key",
  origin: "assay",
  method: "POST",
  path: "/user/api-keys",
  tag: "User",
  summary: "Create an API key of the caller",
  description:
    "This response contains the key itself, which is never shown again. It has the rights of the user in all " +
    `organizations. A user has at most ${MAX_KEYS} valid keys. A request with an API key, not a session, creates no ` +
    "key that expires later than its own.",
  permission: "authenticated",
  audit: "api_key.created",
  params: Closed({}),
  query: NoQuery,
  body: json(ApiKeyPostInput),
  responses: { 201: { description: "Created", schema: ApiKeyCreatedResponse }, 403: SERVICE_ACCOUNT },
  example: { body: { description: "laptop", expires_at: MAX_EXPIRY_S } },
  handle(context, { body }) {
    const owner = requireUser(context);
    requireRoom(context, owner);
    return { status: 201, body: createKey(context, owner, { body, checkExpiry: expiryCheck(context) }) };
  },
});

export const revokeOwnApiKey = operation({
  id: "delete_user_api_key",
  origin: "assay",
  method: "DELETE",
  path: "/user/api-keys/{key_id}",
  tag: "User",
  summary: "Revoke an API key of the caller",
  description: "Takes effect with the next request. A revoked key cannot be restored. A key may revoke itself.",
  permission: "authenticated",
  audit: "api_key.revoked",
  params: KeyPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Revoked", schema: Type.Literal("revoked") },
    403: SERVICE_ACCOUNT,
    404: NO_KEY,
  },
  example: { params: EXAMPLE_PATH },
  handle(context, { params }) {
    const key = requireKey(context, requireUser(context), params.key_id);
    context.store.apiKeys.revoke(key.public_id);
    context.note({ key_id: key.public_id, description: key.description });
    return { status: 200, body: "revoked" };
  },
});

export const rotateOwnApiKey = operation({
  id: "rotate_user_api_key",
  origin: "assay",
  method: "POST",
  path: "/user/api-keys/{key_id}/rotate",
  tag: "User",
  summary: "Replace an API key of the caller",
  description:
    "Creates a new key with the description of the old one. The old key remains valid until its grace period ends " +
    "and is then revoked. A key that has been rotated is refused while its replacement is valid: rotate the " +
    "replacement. A request with an API key, not a session, gives the new key no later expiry than its own.",
  permission: "authenticated",
  audit: "api_key.rotated",
  params: KeyPath,
  query: NoQuery,
  body: optionalJson(ApiKeyRotateInput),
  responses: {
    201: { description: "Rotated", schema: ApiKeyRotatedResponse },
    403: SERVICE_ACCOUNT,
    404: NO_KEY,
  },
  example: { params: EXAMPLE_PATH, body: { grace_period_hours: 48 } },
  handle(context, { params, body }) {
    const owner = requireUser(context);
    const old = requireKey(context, owner, params.key_id);
    requireRoom(context, owner);
    return { status: 201, body: rotateKey(context, owner, { old, body, checkExpiry: expiryCheck(context) }) };
  },
});
