/** API keys as records: their bodies, how they are shown, created and rotated, for users and service accounts. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { toWholeSeconds, MAX_EXPIRY_S } from "../../domain/time.ts";
import { badRequest, invalid } from "../../errors.ts";
import { CheckedByHandler, Closed, Maybe, Open, named } from "../../http/schema.ts";
import { keyDigest } from "../../store/accounts/api-keys.ts";
import type { ApiKeyRow, KeyOwner } from "../../store/accounts/api-keys.ts";
import type { ReadingContext, OperationContext } from "../context.ts";

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

export const ApiKeyPostInput = named(
  "ApiKeyPostInput",
  Open({
    description: Type.String({ minLength: 1, maxLength: 256, description: "Purpose of the key" }),
    expires_at: expiresAt("By default the key never expires"),
  }),
);

const DEFAULT_GRACE_HOURS = 24;

export const ApiKeyRotateInput = named(
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

export const ApiKeyListItemResponse = named(
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
export const ApiKeyCreatedResponse = named("ApiKeyCreatedResponse", Closed({ ...SHARED_FIELDS, key: Secret }));
export const ApiKeyRotatedResponse = named(
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
export function presentItem(row: ApiKeyRow): Static<typeof ApiKeyListItemResponse> {
  const item = { ...presentKey(row), last_used_at: row.last_used_at };
  return row.grace_period_expires_at === null
    ? item
    : { ...item, grace_period_expires_at: row.grace_period_expires_at };
}

function requireFuture(context: ReadingContext, expiresAt: number): void {
  if (expiresAt !== 0 && expiresAt <= context.now())
    throw invalid({ expires_at: `Expiry must be in the future [input: ${expiresAt}]` });
}

/** The user who is warned before the key expires, besides the admins; null for a service account, which has no mail. */
const creatorIdOf = ({ principal }: ReadingContext): string | null =>
  principal.kind === "user" ? principal.publicId : null;

/**
 * Creates a key, and notes it for the audit log. @param checkExpiry refuses an expiry that the caller may not give
 * @param key its text; a new secret unless given
 * @throws AppError 400
 */
export function createKey(
  context: OperationContext,
  owner: KeyOwner,
  {
    body,
    checkExpiry,
    key: given,
  }: { body: Static<typeof ApiKeyPostInput>; checkExpiry?: ((expiresAt: number) => void) | undefined; key?: string },
): Static<typeof ApiKeyCreatedResponse> {
  const { store, note } = context;
  const expiresAt = body.expires_at ?? 0;
  requireFuture(context, expiresAt);
  checkExpiry?.(expiresAt);
  const key = given ?? context.newSecret();
  const id = store.apiKeys.create(owner, {
    digest: keyDigest(key),
    description: body.description,
    expiresAt,
    creatingUserId: creatorIdOf(context),
  });
  note({ key_id: id, description: body.description, expires_at: expiresAt });
  return { ...presentKey(store.apiKeys.get(id)), key };
}

/** Replaces a valid key, and notes it for the audit log. @param checkExpiry as for createKey @throws AppError 400 */
export function rotateKey(
  context: OperationContext,
  owner: KeyOwner,
  {
    old,
    body,
    checkExpiry,
  }: {
    old: ApiKeyRow;
    body: Static<typeof ApiKeyRotateInput> | null;
    checkExpiry?: ((expiresAt: number) => void) | undefined;
  },
): Static<typeof ApiKeyRotatedResponse> {
  const { store, note } = context;
  // A key has one replacement at a time: a repeated or concurrent request gets its id.
  if (old.replaced_by !== null && store.apiKeys.findActive(owner, old.replaced_by))
    throw badRequest(`API key '${old.public_id}' has already been rotated: its replacement is '${old.replaced_by}'`);
  // null could mean "never"; keeping the old expiry is the safe reading.
  const expiresAt = body?.expires_at ?? old.expires_at;
  if (expiresAt !== old.expires_at) requireFuture(context, expiresAt);
  checkExpiry?.(expiresAt);
  const secret = context.newSecret();
  note({ key_id: old.public_id });
  const { id, graceEnds } = store.apiKeys.rotate(owner, old, {
    digest: keyDigest(secret),
    expiresAt,
    creatingUserId: creatorIdOf(context),
    graceEnds: context.now() + (body?.grace_period_hours ?? DEFAULT_GRACE_HOURS) * 3600,
    lapsed: { ...context.auditEntry(), event: "api_key.lapsed" },
  });
  note({ new_key_id: id, expires_at: expiresAt, grace_period_expires_at: graceEnds });
  return {
    ...presentKey(store.apiKeys.get(id)),
    key: secret,
    api_key: secret,
    grace_period_expires_at: graceEnds,
  };
}
