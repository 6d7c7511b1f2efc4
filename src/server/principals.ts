/**
 * Who calls, and what they are in an organization: what the kit (http/mount.ts) authenticates and authorizes against.
 */
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

/**
 * Who calls, and what they are where, read once for as long as nothing is written. Whether a key's time is over is
 * asked every time.
 */
export function createAuthenticator(
  store: Store,
  unchanged: ReadCache,
): Pick<
  ServerContext<OperationContext, OrgMembership>,
  "authenticate" | "findMembership" | "isCredentialValid" | "readMembership"
> & {
  /** The session that has this cookie; null when there is none, or its time is over. */
  bySession(cookie: string): { holder: SessionHolder; principal: Principal } | null;
} {
  let state = 0;
  function kept<T>(key: string, read: () => T): T {
    const known = unchanged.get(key) as T | undefined;
    if (known !== undefined) return known;
    const value = read();
    unchanged.set(key, value, { chars: PERSON_CHARACTERS, state });
    return value;
  }
  return {
    authenticate(digest) {
      state = unchanged.refresh();
      const known = kept(`key ${digest}`, () => {
        const holder = store.apiKeys.findHolder(Buffer.from(digest, "hex"));
        return holder && { holder, principal: principalOf(holder) };
      });
      return known && store.apiKeys.recordUse(known.holder) ? known.principal : null;
    },
    bySession(cookie) {
      state = unchanged.refresh();
      const digest = cookieDigest(cookie);
      const known = kept(`session ${digest.toString("hex")}`, () => {
        const holder = store.sessions.findHolder(digest);
        return holder && { holder, principal: userOf(holder) };
      });
      return known && store.sessions.recordUse(known.holder) ? known : null;
    },
    // Right after authenticate or bySession, in the same turn.
    findMembership: (principal, name) =>
      kept(`member ${principal.kind} ${principal.id} ${name}`, () => membershipOf(store, principal, name)),
    // What is read inside a write may be undone yet, so none of it is kept.
    isCredentialValid({ keyPublicId }) {
      const session = parseSessionActorId(keyPublicId);
      return session === null ? store.apiKeys.isUnrevoked(keyPublicId) : store.sessions.isOpen(session);
    },
    readMembership: (principal, name) => membershipOf(store, principal, name),
  };
}

const PERSON_CHARACTERS = 500;

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
  let role = null;
  if (principal.kind === "user") role = store.organizations.findRole(organization.id, principal.id);
  else {
    const account = store.serviceAccounts.get(principal.id);
    role = account.organization_id === organization.id ? account.privilege : null;
  }
  return {
    organizationId: organization.id,
    role,
    isPublic: organization.is_public === 1,
    features: featuresOf(organization),
    organization,
  };
}

const featuresOf = ({ controls_enabled }: OrganizationRow): Feature[] => (controls_enabled === 1 ? ["controls"] : []);

/** The door of an inbound webhook. SonarQube and LaunchDarkly both sign with HMAC-SHA256 of the body, in hex. */
export function inboundWebhookEndpoint(
  store: Store,
  kind: string,
  publicId: string,
): SignedEndpoint<OrgMembership> | null {
  const known = WEBHOOK_KINDS.find((one) => one === kind);
  const hook = known && store.inboundWebhooks.find(known, publicId);
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
      const due = createHmac("sha256", hook.secret).update(body).digest();
      return /^[0-9a-f]{64}$/i.test(signature) && timingSafeEqual(Buffer.from(signature, "hex"), due);
    },
  };
}
