/** The principal of a request: who it acts as, and the API key or session that says so. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { unauthenticated } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Nullable, OneOf, named } from "../../http/schema.ts";
import type { ApiKeyRow } from "../../store/accounts/api-keys.ts";
import { parseSessionActorId } from "../../store/accounts/sessions.ts";
import type { SessionRow } from "../../store/accounts/sessions.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { NoQuery } from "../paths.ts";
import { toWholeSeconds } from "../../domain/time.ts";

const PrincipalResponse = named(
  "PrincipalResponse",
  Closed({
    kind: OneOf(["user", "service_account"]),
    name: Type.String({ description: "Login name of a user, name of a service account" }),
    display_name: Type.String({ description: "The name that people see" }),
    credential: Closed({
      kind: OneOf(["api_key", "session"]),
      id: Type.String({ description: "Id of the key or session, not its secret" }),
      description: Nullable(Type.String({ description: "What the key is for; null for a session" })),
      created_at: Type.Number({ description: "Epoch seconds" }),
      expires_at: Nullable(
        Type.Integer({ description: "Epoch seconds: from then on the credential is refused; null: never" }),
      ),
    }),
  }),
);
type Credential = Static<typeof PrincipalResponse>["credential"];

/** A rotated key ends with its grace period, which is never later than its own expiry. */
const presentKey = (row: ApiKeyRow): Credential => ({
  kind: "api_key",
  id: row.public_id,
  description: row.description,
  created_at: row.created_at,
  expires_at: toWholeSeconds(row.grace_period_expires_at ?? row.expires_at) || null,
});

const presentSession = (row: SessionRow): Credential => ({
  kind: "session",
  id: row.public_id,
  description: null,
  created_at: row.created_at,
  expires_at: toWholeSeconds(row.expires_at) || null,
});

/** @throws AppError 401 when the credential ended after it was authenticated: a command may have revoked it. */
function requireCredential({ store, principal }: ReadingContext): Credential {
  const sessionId = parseSessionActorId(principal.keyPublicId);
  if (sessionId === null) {
    const key = store.apiKeys.findUnrevoked(principal.keyPublicId);
    if (key) return presentKey(key);
  } else {
    const session = store.sessions.find(sessionId);
    if (session) return presentSession(session);
  }
  throw unauthenticated();
}

export const getPrincipal = operation({
  id: "get_principal",
  origin: "assay",
  method: "GET",
  path: "/principal",
  tag: "User",
  summary: "Read who this request acts as",
  description:
    "The user or service account of the request, and the API key or session that it came with. A rotated key expires " +
    "at the end of its grace period. A session may end before `expires_at`: when it is idle for too long.",
  permission: "authenticated",
  audit: null,
  params: Closed({}),
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The principal", schema: PrincipalResponse } },
  example: {},
  handle(context) {
    const { kind, name, displayName } = context.account;
    return { status: 200, body: { kind, name, display_name: displayName, credential: requireCredential(context) } };
  },
});
