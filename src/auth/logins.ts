/**
 * Signing in and out: what the pages of ui/ ask for, and what becomes of it in the database. A password is checked
 * before the write, because that takes its time; the write asks again whether what was checked still counts.
 */
import { randomBytes } from "node:crypto";
import { keepsAdmin } from "../domain/access.ts";
import type { Role } from "../domain/access.ts";
import { freeName, rolesOf } from "../domain/login/identity.ts";
import type { Person } from "../domain/login/identity.ts";
import { networkOf } from "../domain/network/client-network.ts";
import { tooManyRequests, unauthenticated } from "../errors.ts";
import type { Store } from "../store/index.ts";
import type { LoginMethod, SessionHolder } from "../store/accounts/sessions.ts";
import { cookieDigest, sessionActorId } from "../store/accounts/sessions.ts";
import { changesBy, createPerson } from "./account-changes.ts";
import type { Author, Changes, Somebody } from "./account-changes.ts";
import type { Passwords } from "./password-hashing.ts";
import type { Provider } from "./oidc-provider.ts";
import type { Setup } from "./first-admin.ts";

/** How often something may be tried; see http/limits.ts. */
export type Tries = { take(key: string): number; peek(key: string): number; reset(key: string): void };

export type LoginParts = {
  store: Store;
  write<T>(work: () => T): Promise<T>;
  passwords: Passwords;
  /** null without OpenID Connect. */
  provider: Provider | null;
  mapping: readonly { group: string; organization: string; role: Role }[];
  /** null once there are users at the start. */
  setup: Setup | null;
  tries: Tries;
  /** Seconds. */
  idle: number;
  lifetime: number;
  /** Tells the operator what a person is not told. */
  warn(facts: Readonly<Record<string, unknown>>, text: string): void;
};

/** From where somebody comes. */
export type Visitor = { address: string; userAgent: string; requestId: string };

/** What a browser gets: the value of its cookie. It is nowhere else. */
export type Started = { cookie: string };

export type Logins = ReturnType<typeof createLogins>;

/** 256 random bits in 43 characters. */
const newToken = (): string => randomBytes(32).toString("base64url");

/** Characters of a login name that count for its tries: what comes from outside is bounded. */
const NAME_CHARACTERS = 100;

export function createLogins(parts: LoginParts) {
  const { store, write, passwords, tries } = parts;

  /** The user themselves, before there is a session or in one. */
  const author = (user: Somebody, operation: string, requestId: string, session = ""): Author => ({
    operation,
    requestId,
    shown: user.name,
    source: "app",
    actor: {
      kind: "user",
      publicId: store.users.get(user.id).public_id,
      name: user.name,
      keyPublicId: session && sessionActorId(session),
    },
  });

  function start(changes: Changes, user: Somebody, method: LoginMethod, { address, userAgent }: Visitor): Started {
    const cookie = newToken();
    changes.startSession(user, {
      digest: cookieDigest(cookie),
      csrfToken: newToken(),
      method,
      address,
      userAgent,
      idle: parts.idle,
      lifetime: parts.lifetime,
    });
    return { cookie };
  }

  /**
   * Runs a check that may fail a limited number of times, for an address and for an account. An account's try counts
   * from its beginning, so that many requests at once are no way around the limit; what an address failed at stays,
   * whatever it succeeds with.
   * @param account null where nobody could guess what is checked: then the failures of one address must not lock out
   * the others
   * @throws AppError 429.
   */
  async function tried(address: string, account: string | null, check: () => Promise<boolean>): Promise<boolean> {
    const ofAddress = `address ${networkOf(address)}`;
    const ofAccount = account === null ? null : `account ${account.slice(0, NAME_CHARACTERS)}`;
    const wait = tries.peek(ofAddress) || (ofAccount === null ? 0 : tries.take(ofAccount));
    if (wait > 0) throw tooManyRequests("There were too many failed logins", wait);
    const isRight = await check();
    if (!isRight) tries.take(ofAddress);
    else if (ofAccount !== null) tries.reset(ofAccount);
    return isRight;
  }

  /** @returns null for a wrong name or password, whichever it is. @throws AppError 429, 503. */
  async function signIn(name: string, password: string, visitor: Visitor): Promise<Started | null> {
    const user = store.users.find(name);
    const stored = user && store.passwords.find(user.id);
    const isRight = await tried(visitor.address, user?.name ?? name, () => passwords.verify(password, stored));
    if (!isRight || !user || !stored) {
      // A name that nobody has may be a password in the wrong field.
      parts.warn({ user: user?.name ?? null, address: visitor.address, request_id: visitor.requestId }, "failed login");
      return null;
    }
    const renewed = passwords.isCurrent(stored) ? null : await passwords.hash(password);
    return write(() => {
      if (!store.passwords.isCurrent(user.id, stored)) return null;
      if (renewed) store.passwords.set(user.id, renewed);
      return start(changesBy(store, author(user, "login", visitor.requestId)), user, "password", visitor);
    });
  }

  /**
   * Gives the user of a session another password; all sessions end, and one begins. @returns null for a wrong present
   * password. @throws AppError 401, 429, 503.
   */
  async function changePassword(
    holder: SessionHolder,
    present: string,
    wanted: string,
    visitor: Visitor,
  ): Promise<Started | null> {
    const user = { id: holder.user_id, name: holder.name };
    const stored = store.passwords.find(user.id);
    if (!(await tried(visitor.address, user.name, () => passwords.verify(present, stored))) || !stored) return null;
    const hash = await passwords.hash(wanted);
    return write(() => {
      if (!store.sessions.isOpen(holder.public_id)) throw unauthenticated();
      if (!store.passwords.isCurrent(user.id, stored)) return null;
      const changes = changesBy(store, author(user, "change_password", visitor.requestId, holder.public_id));
      changes.setPassword(user, hash);
      return start(changes, user, "password", visitor);
    });
  }

  /** Ends one session of the user of `holder`: that one, or another of theirs. @returns whether there was one. */
  const end = (holder: SessionHolder, id: string, operation: string, requestId: string): Promise<boolean> =>
    write(() => {
      const user = { id: holder.user_id, name: holder.name };
      const session = store.sessions.find(id);
      return (
        session?.user_id === user.id &&
        changesBy(store, author(user, operation, requestId, holder.public_id)).endSession(user, id)
      );
    });

  const endOthers = (holder: SessionHolder, requestId: string): Promise<number> =>
    write(() => {
      const user = { id: holder.user_id, name: holder.name };
      return changesBy(store, author(user, "end_sessions", requestId, holder.public_id)).endSessions(
        user,
        holder.public_id,
      );
    });

  /** Whether the first administrator can be claimed. */
  const isOpen = (): boolean => parts.setup !== null && store.users.count() === 0;

  /**
   * Makes the first organization with its admin. The password must be one, the names well formed and different.
   * @returns null where somebody was first, or the organization is there already. @throws AppError 429, 503.
   */
  async function claim(
    fields: { token: string; organization: string; name: string; password: string },
    visitor: Visitor,
  ): Promise<Started | "wrong token" | "taken"> {
    const { setup } = parts;
    if (setup === null || !isOpen()) return "taken";
    // The token has 256 bits. A limit over all addresses would only let anybody keep its owner out.
    if (!(await tried(visitor.address, null, async () => setup.isToken(fields.token)))) return "wrong token";
    const hash = await passwords.hash(fields.password);
    const started = await write(() => {
      if (!isOpen() || store.organizations.find(fields.organization) || store.organizations.find(fields.name))
        return "taken";
      const { name } = fields;
      // Whoever has the token has the data directory, and is the operator until the user is there.
      const changes = changesBy(store, {
        operation: "setup",
        requestId: visitor.requestId,
        shown: name,
        source: "app",
        actor: { kind: "operator", publicId: "", name: "setup", keyPublicId: "" },
      });
      const user = createPerson(changes, { name, displayName: "", email: null });
      const organization = changes.createOrganization({
        name: fields.organization,
        kind: "shared",
        isPublic: false,
        controlsEnabled: true,
      });
      changes.setRole(organization, user, "admin", null);
      changes.setPassword(user, hash);
      return start(changes, user, "setup", visitor);
    });
    if (started === "taken") return started;
    try {
      setup.claimed();
    } catch (error) {
      // It is worth nothing any more, and the next start removes it.
      parts.warn({ err: error, file: setup.file }, "the setup token was claimed, but its file could not be removed");
    }
    return started;
  }

  /** The organizations of the mapping that are there, with what the person is in them now. */
  function rolesHere(person: Person): { id: number; name: string; role: Role | null }[] {
    return [...rolesOf(person.groups, parts.mapping)].flatMap(([name, role]) => {
      const organization = store.organizations.find(name);
      if (organization?.kind === "shared") return [{ id: organization.id, name, role }];
      parts.warn(
        { organization: name },
        "oidc-roles names an organization that is not there, or is personal; its groups give nothing",
      );
      return [];
    });
  }

  function follow(
    changes: Changes,
    user: Somebody,
    roles: readonly { id: number; name: string; role: Role | null }[],
  ): void {
    for (const { id, name, role } of roles) {
      const previous = store.organizations.findRole(id, user.id);
      if (previous === role) continue;
      // Nobody could let anybody in again but the operator.
      if (previous === "admin" && !keepsAdmin(store.organizations.listMembers(id), new Map([[user.name, role]]))) {
        parts.warn(
          { user: user.name, organization: name },
          "the groups of the last admin no longer say so; the role was kept",
        );
        changes.note(id, "member.kept_as_last_admin", user.name, { role_by_groups: role });
      } else if (role !== null) changes.setRole(id, user, role, previous);
      else if (previous !== null) changes.removeMember(id, user, previous);
    }
  }

  /**
   * Lets in somebody whom the provider vouches for, and gives them the roles of their groups. A person is known by
   * issuer and subject alone: never by an address, which others may come to own. @returns null for somebody who has no
   * role in any organization, or whom the operator disabled.
   */
  const admit = (person: Person, visitor: Visitor): Promise<Started | null> =>
    write(() => {
      const identity = store.identities.find(person.issuer, person.subject);
      if (identity && identity.blocked_at !== null) return null;
      const roles = rolesHere(person);
      if (!identity && roles.every(({ role }) => role === null)) return null;
      const { requestId } = visitor;
      const known = identity && store.users.get(identity.user_id);
      const name =
        known?.name ??
        freeName(person.names, (one) => store.users.find(one) !== null || store.organizations.find(one) !== null);
      const by = (publicId: string): Changes =>
        changesBy(store, {
          operation: "login",
          requestId,
          shown: name,
          source: "oidc",
          actor: { kind: "user", publicId, name, keyPublicId: "" },
        });
      const isFree = person.email !== null && store.users.findByEmail(person.email) === null;
      const user =
        known ?? createPerson(by(""), { name, displayName: person.displayName, email: isFree ? person.email : null });
      const changes = by(store.users.get(user.id).public_id);
      if (!identity) changes.linkIdentity(user, person.issuer, person.subject);
      follow(changes, user, roles);
      if (store.users.listMemberships(user.id).some(({ kind }) => kind === "shared"))
        return start(changes, user, "oidc", visitor);
      // What was begun while there still was a role must not outlive it.
      changes.endSessions(user);
      return null;
    });

  /**
   * Looks after a cookie that came in: gives it another value once in a while, and ends the session of one that was
   * given another value long ago, because then two have it. @returns the new value; null where it stays.
   */
  async function renew(cookie: string, now: number, requestId: string): Promise<string | null> {
    const digest = cookieDigest(cookie);
    const holder = store.sessions.findHolder(digest);
    if (!holder) return null;
    if (holder.is_previous) {
      if (store.sessions.isStale(holder, now)) {
        const user = { id: holder.user_id, name: holder.name };
        await write(() =>
          changesBy(store, author(user, "reused_cookie", requestId, holder.public_id)).endSession(
            user,
            holder.public_id,
          ),
        );
        parts.warn(
          { user: user.name, session: holder.public_id },
          "a session was ended: a cookie that it had before was used again",
        );
      }
      return null;
    }
    if (holder.rotated_at + ROTATE_EVERY > now || !store.sessions.isOpen(holder.public_id)) return null;
    const next = newToken();
    // Of two requests at once one gets the new cookie; the other was let in with the old one, which goes on for a
    // moment.
    return (await write(() => store.sessions.rotate(holder.public_id, digest, cookieDigest(next)))) ? next : null;
  }

  return {
    provider: parts.provider,
    hasProvider: parts.provider !== null,
    signIn,
    changePassword,
    end,
    endOthers,
    isOpen,
    claim,
    admit,
    renew,
  };
}

/** Seconds after which a cookie gets another value: a stolen one is noticed soon, and hardly a request pays for it. */
const ROTATE_EVERY = 3600;
