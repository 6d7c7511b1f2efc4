/** Principals and their memberships: what the request pipeline (http/) authenticates and authorizes against. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { OperationContext, OrgMembership } from "../api/context.ts";
import type { Feature } from "../domain/access.ts";
import type { KeyHolder } from "../store/accounts/api-keys.ts";
import { parseSessionActorId, cookieDigest, sessionActorId } from "../store/accounts/sessions.ts";
import type { SessionHolder } from "../store/accounts/sessions.ts";
import { WEBHOOK_KINDS } from "../store/notifications/inbound-webhooks.ts";
import type { Store } from "../store/index.ts";
import type { OrganizationRow } from "../store/accounts/organizations.ts";
import type { ReadCache } from "../store/db/read-cache.ts";
import type { Principal, SignedEndpoint, ServerContext } from "../http/server-context.ts";

/** About the size of a cached principal or membership, in characters; the read cache is bounded by their sum. */
const CACHED_ENTRY_CHARS = 500;

/**
 * Authenticates keys and sessions, and finds memberships. Results come from the read cache until anything is written.
 * Whether a key or session has expired is checked on every use.
 */
export function createAuthenticator(
  store: Store,
  readCache: ReadCache,
): Pick<
  ServerContext<OperationContext, OrgMembership>,
  "authenticate" | "findMembership" | "isCredentialValid" | "readMembership"
> & {
  /** The session of a cookie; null when there is none, or it has expired. */
  authenticateSession(cookie: string): { holder: SessionHolder; principal: Principal } | null;
} {
  let state = 0;
  function cached<T>(key: string, read: () => T): T {
    const hit = readCache.get(key) as T | undefined;
    if (hit !== undefined) return hit;
    const value = read();
    readCache.set(key, value, { chars: CACHED_ENTRY_CHARS, state });
    return value;
  }
  return {
    authenticate(digest) {
      state = readCache.refresh();
      const found = cached(`key ${digest}`, () => {
        const holder = store.apiKeys.findHolder(Buffer.from(digest, "hex"));
        return holder && { holder, principal: principalOf(holder) };
      });
      return found && store.apiKeys.recordUse(found.holder) ? found.principal : null;
    },
    authenticateSession(cookie) {
      state = readCache.refresh();
      const digest = cookieDigest(cookie);
      const found = cached(`session ${digest.toString("hex")}`, () => {
        const holder = store.sessions.findHolder(digest);
        return holder && { holder, principal: userOf(holder) };
      });
      return found && store.sessions.recordUse(found.holder) ? found : null;
    },
    // Called right after authenticate or authenticateSession, in the same turn of the event loop.
    findMembership: (principal, name) =>
      cached(`member ${principal.kind} ${principal.id} ${name}`, () => membershipOf(store, principal, name)),
    // A write may still be rolled back, so nothing that is read inside one is cached.
    isCredentialValid({ keyPublicId }) {
      const session = parseSessionActorId(keyPublicId);
      return session === null ? store.apiKeys.isUnrevoked(keyPublicId) : store.sessions.isOpen(session);
    },
    readMembership: (principal, name) => membershipOf(store, principal, name),
  };
}

function principalOf(holder: KeyHolder): Principal {
  const isUser = holder.user_id !== null;
  return {
    kind: isUser ? "user" : "service_account",
    id: (isUser ? holder.user_id : holder.service_account_id) as number,
    publicId: holder.holder_public_id,
    name: holder.name,
    displayName: holder.display_name || holder.name,
    keyPublicId: holder.key_public_id,
  };
}

function userOf({ user_id: id, user_public_id: publicId, name, display_name, public_id }: SessionHolder): Principal {
  return {
    kind: "user",
    id,
    publicId,
    name,
    displayName: display_name || name,
    keyPublicId: sessionActorId(public_id),
  };
}

function membershipOf(store: Store, principal: Principal, name: string): OrgMembership | null {
  const organization = store.organizations.find(name);
  if (!organization) return null;
  return {
    organizationId: organization.id,
    role: roleIn(store, principal, organization.id),
    isPublic: organization.is_public === 1,
    features: featuresOf(organization),
    organization,
  };
}

function roleIn(store: Store, principal: Principal, organizationId: number): OrgMembership["role"] {
  if (principal.kind === "user") return store.organizations.findRole(organizationId, principal.id);
  const account = store.serviceAccounts.get(principal.id);
  return account.organization_id === organizationId ? account.privilege : null;
}

const featuresOf = ({ controls_enabled }: OrganizationRow): Feature[] => (controls_enabled === 1 ? ["controls"] : []);

/**
 * The endpoint of an inbound webhook, which acts as its service account; null when there is none. SonarQube and
 * LaunchDarkly both sign with the HMAC-SHA256 of the body, in hex.
 */
export function inboundWebhookEndpoint(
  store: Store,
  kind: string,
  publicId: string,
): SignedEndpoint<OrgMembership> | null {
  const knownKind = WEBHOOK_KINDS.find((one) => one === kind);
  const hook = knownKind && store.inboundWebhooks.find(knownKind, publicId);
  if (!hook || hook.service_account_id === null) return null;
  const organization = store.organizations.get(hook.organization_id);
  const account = store.serviceAccounts.get(hook.service_account_id);
  return {
    principal: {
      kind: "service_account",
      id: account.id,
      publicId: account.public_id,
      name: account.name,
      displayName: account.name,
      keyPublicId: "",
    },
    membership: {
      organizationId: organization.id,
      role: account.privilege,
      isPublic: organization.is_public === 1,
      features: featuresOf(organization),
      organization,
    },
    organization: organization.name,
    verifySignature(signature, body) {
      const expected = createHmac("sha256", hook.secret).update(body).digest();
      return /^[0-9a-f]{64}$/i.test(signature) && timingSafeEqual(Buffer.from(signature, "hex"), expected);
    },
  };
}
