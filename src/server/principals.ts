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
import type { Versions } from "../store/db/versions.ts";
import type { Principal, SignedEndpoint, ServerContext } from "../http/server-context.ts";

/** Keys, sessions and memberships in memory, 1 KB each; above this all are read anew. */
const MAX_CACHED = 10_000;

/** What was read of one key or session, with the memberships of its principal by name of the organization. */
type Known<Holder> = { holder: Holder; principal: Principal; memberships: Map<string, OrgMembership> };

/**
 * Authenticates keys and sessions, and finds memberships. What is found is kept until a table that it was read from
 * changes. Whether a key or session has expired is checked on every use.
 * @param endedBy epoch seconds; what had expired by then is refused, whatever the clock shows (clock-watch.ts)
 */
export function createAuthenticator(
  store: Store,
  versions: Versions,
  endedBy?: () => number,
): Pick<
  ServerContext<OperationContext, OrgMembership>,
  "authenticate" | "findMembership" | "isCredentialValid" | "readMembership" | "accessVersion"
> & {
  /** The session of a cookie; null when there is none, or it has expired. */
  authenticateSession(cookie: string): { holder: SessionHolder; principal: Principal } | null;
} {
  const keys = new Map<string, Known<KeyHolder>>();
  const sessions = new Map<string, Known<SessionHolder>>();
  let byPrincipal = new WeakMap<Principal, Map<string, OrgMembership>>();
  let count = 0;
  let version = -1;

  function clear(): void {
    keys.clear();
    sessions.clear();
    byPrincipal = new WeakMap();
    count = 0;
  }

  function refresh(): void {
    const current = versions.access();
    if (current === version) return;
    version = current;
    clear();
  }

  /** What is not found is not kept: an attacker can invent keys and names without end. */
  function keep<Value>(cache: Map<string, Value>, key: string, value: Value): void {
    if (count >= MAX_CACHED) clear();
    count += 1;
    cache.set(key, value);
  }

  function known<Holder>(
    cache: Map<string, Known<Holder>>,
    key: string,
    read: () => { holder: Holder; principal: Principal } | null,
  ): Known<Holder> | null {
    const hit = cache.get(key);
    if (hit) return hit;
    const found = read();
    if (!found) return null;
    const entry = { ...found, memberships: new Map<string, OrgMembership>() };
    keep(cache, key, entry);
    byPrincipal.set(entry.principal, entry.memberships);
    return entry;
  }

  return {
    accessVersion: () => versions.access(),
    authenticate(digest) {
      refresh();
      const found = known(keys, digest, () => {
        const holder = store.apiKeys.findHolder(Buffer.from(digest, "hex"));
        return holder && { holder, principal: principalOf(holder) };
      });
      return found && store.apiKeys.recordUse(found.holder, endedBy?.()) ? found.principal : null;
    },
    authenticateSession(cookie) {
      refresh();
      const digest = cookieDigest(cookie);
      const found = known(sessions, digest.toString("hex"), () => {
        const holder = store.sessions.findHolder(digest);
        return holder && { holder, principal: userOf(holder) };
      });
      return found && store.sessions.recordUse(found.holder, endedBy?.()) ? found : null;
    },
    // Called right after `authenticate`, in the same turn of the event loop.
    findMembership(principal, name) {
      const memberships = byPrincipal.get(principal);
      const hit = memberships?.get(name);
      if (hit) return hit;
      const membership = membershipOf(store, principal, name);
      if (membership && memberships) keep(memberships, name, membership);
      return membership;
    },
    // A write may still be rolled back, so nothing that is read inside one is kept.
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

/** The standing of a principal in an organization; null if it does not exist. */
export function membershipOf(store: Store, principal: Principal, name: string): OrgMembership | null {
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
  if (principal.kind === "operator") return "admin";
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
