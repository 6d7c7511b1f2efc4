/**
 * Signing in and out: what the pages of web/ ask for, and what it changes in the database. A password is checked before
 * the write, because hashing takes a while; the write then checks that what was verified is still current.
 */
import type { Person } from "../domain/login/identity.ts";
import { networkOf } from "../domain/network/client-network.ts";
import { tooManyRequests, unauthenticated } from "../errors.ts";
import { cookieDigest } from "../store/accounts/sessions.ts";
import type { SessionHolder } from "../store/accounts/sessions.ts";
import { createAccountChanges, createUserWithOrganization } from "./account-changes.ts";
import type { AccountChanges, UserRef } from "./account-changes.ts";
import { startSession, userAuthor } from "./login-context.ts";
import type { LoginDependencies, StartedSession, Visitor } from "./login-context.ts";
import { signInWithProvider } from "./oidc-sign-in.ts";

export type Logins = ReturnType<typeof createLogins>;

/** Characters of a login name that count for its attempts: input from outside must be bounded. */
const MAX_LIMITER_KEY_CHARS = 100;

/** A cookie gets a new value after this time: a stolen one is noticed soon, and few requests pay for the write. */
const COOKIE_ROTATION_S = 3600;

export type FirstAdmin = { token: string; organization: string; name: string; password: string };

export function createLogins(login: LoginDependencies) {
  return {
    provider: login.provider,
    hasProvider: login.provider !== null,
    /** @returns null for a wrong name or password, without telling which @throws AppError 429, 503 */
    signIn: (name: string, password: string, visitor: Visitor): Promise<StartedSession | null> =>
      signIn(login, { name, password }, visitor),
    signInWithProvider: (person: Person, visitor: Visitor): Promise<StartedSession | null> =>
      signInWithProvider(login, person, visitor),
    /**
     * Changes the password of a session's user. Ends all their sessions and starts a new one.
     * @returns null for a wrong current password
     * @throws AppError 401, 429, 503
     */
    changePassword: (
      holder: SessionHolder,
      passwords: { current: string; wanted: string },
      visitor: Visitor,
    ): Promise<StartedSession | null> => changePassword(login, { holder, ...passwords }, visitor),
    /** Ends a session of the holder's user: this one or another. @returns whether there was one */
    endSession: (
      holder: SessionHolder,
      { id, ...request }: { id: string; operation: string; requestId: string },
    ): Promise<boolean> =>
      login.write(() => {
        const user = userOf(holder);
        return (
          login.store.sessions.find(id)?.user_id === user.id && changesOf(login, holder, request).endSession(user, id)
        );
      }),
    /** Ends all other sessions of the holder's user. @returns how many */
    endOtherSessions: (holder: SessionHolder, requestId: string): Promise<number> =>
      login.write(() =>
        changesOf(login, holder, { operation: "end_sessions", requestId }).endSessions(
          userOf(holder),
          holder.public_id,
        ),
      ),
    /** What users see of their own account besides what the API tells. @throws AppError 401 for an unknown name */
    accountOf(name: string) {
      const { users, passwords, sessions } = login.store;
      const user = users.find(name);
      if (!user) throw unauthenticated();
      return { user, hasPassword: passwords.find(user.id) !== null, sessions: sessions.list(user.id) };
    },
    /** Whether the first administrator can be claimed. */
    isSetupOpen: (): boolean => isSetupOpen(login),
    claimFirstAdmin: (fields: FirstAdmin, visitor: Visitor) => claimFirstAdmin(login, fields, visitor),
    renewCookie: (cookie: string, request: { now: number; requestId: string }) => renewCookie(login, cookie, request),
  };
}

const userOf = ({ user_id: id, name }: SessionHolder): UserRef => ({ id, name });

/** Changes by the user of a session. */
const changesOf = (
  login: LoginDependencies,
  holder: SessionHolder,
  { operation, requestId }: { operation: string; requestId: string },
): AccountChanges =>
  createAccountChanges(
    login.store,
    userAuthor(login, userOf(holder), { operation, requestId, session: holder.public_id }),
  );

/**
 * Runs a check that may fail a limited number of times, per address and per account. An attempt on an account counts
 * from its start, so that parallel requests do not get around the limit. Failures of an address stay counted, whatever
 * succeeds later.
 * @param attempt `account` null where nothing can be guessed: failures of one address must not lock out the others
 * @throws AppError 429
 */
async function checkLimited(
  { attempts }: LoginDependencies,
  { address, account }: { address: string; account: string | null },
  check: () => Promise<boolean>,
): Promise<boolean> {
  const addressKey = `address ${networkOf(address)}`;
  const accountKey = account === null ? null : `account ${account.slice(0, MAX_LIMITER_KEY_CHARS)}`;
  const waitS = attempts.peek(addressKey) || (accountKey === null ? 0 : attempts.take(accountKey));
  if (waitS > 0) throw tooManyRequests("There were too many failed logins", waitS);
  const isRight = await check();
  if (!isRight) attempts.take(addressKey);
  else if (accountKey !== null) attempts.reset(accountKey);
  return isRight;
}

async function signIn(
  login: LoginDependencies,
  { name, password }: { name: string; password: string },
  visitor: Visitor,
): Promise<StartedSession | null> {
  const { store, passwords, warn, write } = login;
  const { address, requestId } = visitor;
  const user = store.users.find(name);
  const stored = user && store.passwords.find(user.id);
  const account = user?.name ?? name;
  const isRight = await checkLimited(login, { address, account }, () => passwords.verify(password, stored));
  if (!isRight || !user || !stored) {
    // An unknown name is not logged: it may be a password in the wrong field.
    warn({ user: user?.name ?? null, address, request_id: requestId }, "failed login");
    return null;
  }
  const rehashed = passwords.isCurrent(stored) ? null : await passwords.hash(password);
  return write(() => {
    if (!store.passwords.isCurrent(user.id, stored)) return null;
    if (rehashed) store.passwords.set(user.id, rehashed);
    const author = userAuthor(login, user, { operation: "login", requestId, session: null });
    return startSession(login, createAccountChanges(store, author), { user, method: "password", visitor });
  });
}

async function changePassword(
  login: LoginDependencies,
  { holder, current, wanted }: { holder: SessionHolder; current: string; wanted: string },
  visitor: Visitor,
): Promise<StartedSession | null> {
  const { store, passwords, write } = login;
  const user = userOf(holder);
  const stored = store.passwords.find(user.id);
  const attempt = { address: visitor.address, account: user.name };
  if (!(await checkLimited(login, attempt, () => passwords.verify(current, stored))) || !stored) return null;
  const hash = await passwords.hash(wanted);
  return write(() => {
    if (!store.sessions.isOpen(holder.public_id)) throw unauthenticated();
    if (!store.passwords.isCurrent(user.id, stored)) return null;
    const changes = changesOf(login, holder, { operation: "change_password", requestId: visitor.requestId });
    changes.setPassword(user, hash);
    return startSession(login, changes, { user, method: "password", visitor });
  });
}

const isSetupOpen = ({ setup, store }: LoginDependencies): boolean => setup !== null && store.users.count() === 0;

/**
 * Creates the first user and the first organization with that user as its admin. The password must be valid, and the
 * names valid and different.
 * @returns "taken" when there is a user already, or an organization with one of the names
 * @throws AppError 429, 503
 */
async function claimFirstAdmin(
  login: LoginDependencies,
  fields: FirstAdmin,
  visitor: Visitor,
): Promise<StartedSession | "wrong token" | "taken"> {
  const { setup } = login;
  if (setup === null || !isSetupOpen(login)) return "taken";
  // The token has 256 bits. A limit across all addresses would only let strangers lock out its owner.
  const attempt = { address: visitor.address, account: null };
  if (!(await checkLimited(login, attempt, async () => setup.isToken(fields.token)))) return "wrong token";
  const started = await createFirstAdmin(login, fields, visitor);
  if (started === "taken") return started;
  try {
    setup.remove();
  } catch (error) {
    login.warn(
      { err: error, file: setup.file },
      "the first administrator was created, but the file of the setup token could not be removed; the token is no " +
        "longer valid, and the next start removes the file",
    );
  }
  return started;
}

async function createFirstAdmin(
  login: LoginDependencies,
  { organization, name, password }: FirstAdmin,
  visitor: Visitor,
): Promise<StartedSession | "taken"> {
  const { store, passwords, write } = login;
  const hash = await passwords.hash(password);
  return write(() => {
    if (!isSetupOpen(login) || store.organizations.find(organization) || store.organizations.find(name)) return "taken";
    // The token proves access to the data directory, so until the user exists the operator is the actor.
    const changes = createAccountChanges(store, {
      operation: "setup",
      requestId: visitor.requestId,
      displayName: name,
      source: "app",
      actor: { kind: "operator", publicId: "", name: "setup", keyPublicId: "" },
    });
    const user = createUserWithOrganization(changes, { name, displayName: "", email: null });
    const organizationId = changes.createOrganization({
      name: organization,
      kind: "shared",
      isPublic: false,
      controlsEnabled: true,
    });
    changes.setRole(organizationId, user, { role: "admin", previous: null });
    changes.setPassword(user, hash);
    return startSession(login, changes, { user, method: "setup", visitor });
  });
}

/**
 * Rotates the value of a session's cookie once in a while. Ends the session when a value is used that was replaced long
 * ago, because then two parties have it.
 * @returns the new value; null when it stays
 */
async function renewCookie(
  login: LoginDependencies,
  cookie: string,
  { now, requestId }: { now: number; requestId: string },
): Promise<string | null> {
  const { store, write, warn } = login;
  const digest = cookieDigest(cookie);
  const holder = store.sessions.findHolder(digest);
  if (!holder) return null;
  if (holder.is_previous) {
    if (!store.sessions.isStale(holder, now)) return null;
    await write(() =>
      changesOf(login, holder, { operation: "reused_cookie", requestId }).endSession(userOf(holder), holder.public_id),
    );
    warn(
      { user: holder.name, session: holder.public_id },
      "ended a session because an old value of its cookie was used",
    );
    return null;
  }
  if (holder.rotated_at + COOKIE_ROTATION_S > now || !store.sessions.isOpen(holder.public_id)) return null;
  const next = login.newSecret();
  // Of two parallel requests only one rotates the cookie. The other was authenticated with the old value, which stays
  // valid for a moment.
  return (await write(() => store.sessions.rotate(holder.public_id, digest, cookieDigest(next)))) ? next : null;
}
