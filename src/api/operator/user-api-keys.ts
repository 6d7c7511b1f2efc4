/** API keys of any user, and keys that are not made here. Users manage their own with other operations. */
import { Type } from "typebox";
import { badRequest, notFound } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Message } from "../../http/schema.ts";
import { isApiKeyText } from "../../domain/names.ts";
import { keyDigest } from "../../store/accounts/api-keys.ts";
import type { KeyOwner } from "../../store/accounts/api-keys.ts";
import {
  ApiKeyCreatedResponse,
  ApiKeyListItemResponse,
  ApiKeyPostInput,
  createKey,
  presentItem,
} from "../accounts/api-key-records.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { NoQuery } from "../paths.ts";
import { OPERATOR } from "./operator.ts";
import { NO_USER, USER_EXAMPLE, UserPath, requireServerUser } from "./users.ts";

export const listApiKeysOfUser = operation({
  ...OPERATOR,
  id: "list_api_keys_of_user",
  method: "GET",
  path: "/operator/users/{user}/api-keys",
  summary: "List the API keys of a user",
  description: "The valid keys, oldest first, without the keys themselves.",
  audit: null,
  params: UserPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The keys", schema: Type.Array(ApiKeyListItemResponse) }, 404: NO_USER },
  example: { params: USER_EXAMPLE },
  handle: (context, { params }) => ({
    status: 200,
    body: context.store.apiKeys.listActiveOfUser(requireServerUser(context, params.user).id).map(presentItem),
  }),
});

export const createApiKeyOfUser = operation({
  ...OPERATOR,
  id: "create_api_key_of_user",
  method: "POST",
  path: "/operator/users/{user}/api-keys",
  summary: "Create an API key of a user",
  description: "This response contains the key itself, which is never shown again.",
  audit: "api_key.created",
  params: UserPath,
  query: NoQuery,
  body: json(Closed(ApiKeyPostInput.properties)),
  responses: { 201: { description: "Created", schema: ApiKeyCreatedResponse }, 404: NO_USER },
  example: { params: USER_EXAMPLE, body: { description: "laptop" } },
  handle(context, { params, body }) {
    const user = requireServerUser(context, params.user);
    context.note({ user: user.name });
    return { status: 201, body: createKey(context, { userId: user.id }, { body }) };
  },
});

export const revokeApiKeyOfUser = operation({
  ...OPERATOR,
  id: "revoke_api_key_of_user",
  method: "DELETE",
  path: "/operator/users/{user}/api-keys/{key_id}",
  summary: "Revoke an API key of a user",
  description: "Takes effect with the next request. A revoked key cannot be restored.",
  audit: "api_key.revoked",
  params: Closed({ ...UserPath.properties, key_id: Type.String({ description: "Id of the key, not the key itself" }) }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Revoked", schema: Type.Literal("revoked") },
    404: { description: "No such user, or no such valid key", schema: Message },
  },
  example: { params: { ...USER_EXAMPLE, key_id: "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f" } },
  handle(context, { params }) {
    const { store } = context;
    const user = requireServerUser(context, params.user);
    const key = store.apiKeys.findActive({ userId: user.id }, params.key_id);
    if (!key) throw notFound("API key not found");
    store.apiKeys.revoke(key.public_id);
    context.note({ user: user.name, key_id: key.public_id, description: key.description });
    return { status: 200, body: "revoked" };
  },
});

const Owner = {
  user: Type.Optional(Type.String({ description: "Login name of the owner" })),
  org: Type.Optional(Type.String({ description: "Organization of the service account that owns it" })),
  service_account: Type.Optional(Type.String({ description: "The service account" })),
};

/** @throws AppError 400, 404 */
function requireOwner(
  context: ReadingContext,
  { user, org, service_account: account }: { user?: string; org?: string; service_account?: string },
): KeyOwner {
  const { store } = context;
  if (user !== undefined && org === undefined && account === undefined)
    return { userId: requireServerUser(context, user).id };
  if (user !== undefined || org === undefined || account === undefined)
    throw badRequest("Name the owner of the key: user, or org and service_account");
  const organization = store.organizations.find(org);
  const row = organization && store.serviceAccounts.find(organization.id, account);
  if (!row) throw notFound(`There is no service account '${org}/${account}'`);
  return { serviceAccountId: row.id };
}

export const importApiKey = operation({
  ...OPERATOR,
  id: "import_api_key",
  method: "POST",
  path: "/operator/api-keys",
  summary: "Accept a key that was made elsewhere",
  description:
    "Changes nothing if the owner has the key already: its description and expiry never change. A new key must not " +
    "begin with a hyphen, because clients would take it for a flag.",
  audit: "api_key.created",
  params: Closed({}),
  query: NoQuery,
  // No limit in the shape, whose refusal would quote the key.
  body: json(
    Closed({
      ...ApiKeyPostInput.properties,
      ...Owner,
      key: Type.String({
        description: "16 to 1024 printable ASCII characters, no spaces and colons",
        "x-secret": true,
      }),
    }),
  ),
  responses: {
    200: {
      description: "The key is valid",
      schema: Closed({ ...ApiKeyListItemResponse.properties, created: Type.Boolean() }),
    },
    404: NO_USER,
  },
  example: { body: { user: "ada", description: "laptop", key: "0123456789abcdef" } },
  handle(context, { body }) {
    const { store } = context;
    const { key, description, expires_at, ...owners } = body;
    const owner = requireOwner(context, owners);
    if (!isApiKeyText(key))
      throw badRequest("A key has 16 to 1024 printable ASCII characters without spaces and colons");
    const known = store.apiKeys.find(keyDigest(key));
    if (!known) {
      if (key.startsWith("-"))
        throw badRequest("this key begins with a hyphen, so that clients take it for a flag: give a different one");
      context.note(owners);
      const item = createKey(context, owner, { key, body: { description, expires_at: expires_at ?? 0 } });
      return { status: 200, body: { ...presentItem(store.apiKeys.get(item.id)), created: true } };
    }
    const isOwn =
      "userId" in owner ? known.user_id === owner.userId : known.service_account_id === owner.serviceAccountId;
    if (!isOwn) throw badRequest("this key belongs to another owner, give a different one");
    if (known.revoked_at !== null && !store.apiKeys.hasLapsed(known))
      throw badRequest("this key was revoked, give a new one");
    if (!store.apiKeys.isActive(known)) throw badRequest("this key has expired, give a new one");
    return { status: 200, body: { ...presentItem(known), created: false }, unaudited: true };
  },
});
