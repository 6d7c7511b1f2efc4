/** API keys of any user. Users manage their own with other operations. */
import { Type } from "typebox";
import { notFound } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Message } from "../../http/schema.ts";
import {
  ApiKeyCreatedResponse,
  ApiKeyListItemResponse,
  ApiKeyPostInput,
  createKey,
  presentItem,
} from "../accounts/api-key-records.ts";
import { operation } from "../context.ts";
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
