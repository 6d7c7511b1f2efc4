/** What all ways of signing in share: their dependencies, and starting a session. */
import type { Role } from "../domain/access.ts";
import { cookieDigest, sessionActorId } from "../store/accounts/sessions.ts";
import type { LoginMethod, SessionHolder, SessionRow } from "../store/accounts/sessions.ts";
import type { Store } from "../store/index.ts";
import type { AccountChanges, ChangeAuthor, UserRef } from "./account-changes.ts";
import type { SetupToken } from "./first-admin.ts";
import type { OidcProvider } from "./oidc-provider.ts";
import type { PasswordHasher } from "./password-hashing.ts";

/**
 * Limits failed attempts by key; see http/rate-limiter.ts. `take` and `peek` return seconds to wait, 0 when allowed.
 */
type AttemptLimiter = { take(key: string): number; peek(key: string): number; reset(key: string): void };

export type { SessionHolder, SessionRow };

export type LoginDependencies = {
  store: Store;
  /** Runs `work` in a write transaction. */
  write<T>(work: () => T): Promise<T>;
  passwords: PasswordHasher;
  /** Creates a credential: 256 random bits in 43 characters. */
  newSecret(): string;
  /** null without OpenID Connect. */
  provider: OidcProvider | null;
  /** Which group gives which role in which organization (oidc-roles). */
  mapping: readonly { group: string; organization: string; role: Role }[];
  /** null when there were users at the start. */
  setup: SetupToken | null;
  attempts: AttemptLimiter;
  /** After this time without a request, a session expires. */
  idleTimeoutS: number;
  /** A session expires this long after its start in any case. */
  lifetimeS: number;
  /** Logs for the operator what the person is not told. */
  warn(facts: Readonly<Record<string, unknown>>, text: string): void;
};

/** The client of a login. */
export type Visitor = { address: string; userAgent: string; requestId: string };

/** The cookie value for the browser. It is stored nowhere else. */
export type StartedSession = { cookie: string };

/** A user who acts for themselves. @param session public id of their session; null before there is one */
export const userAuthor = (
  { store }: Pick<LoginDependencies, "store">,
  user: UserRef,
  { operation, requestId, session }: { operation: string; requestId: string; session: string | null },
): ChangeAuthor => ({
  operation,
  requestId,
  displayName: user.name,
  source: "app",
  actor: {
    kind: "user",
    publicId: store.users.get(user.id).public_id,
    name: user.name,
    keyPublicId: session === null ? "" : sessionActorId(session),
  },
});

/** Starts a session. Call it in a write. */
export function startSession(
  { idleTimeoutS, lifetimeS, newSecret }: Pick<LoginDependencies, "idleTimeoutS" | "lifetimeS" | "newSecret">,
  changes: AccountChanges,
  { user, method, visitor }: { user: UserRef; method: LoginMethod; visitor: Visitor },
): StartedSession {
  const cookie = newSecret();
  changes.startSession(user, {
    digest: cookieDigest(cookie),
    csrfToken: newSecret(),
    method,
    address: visitor.address,
    userAgent: visitor.userAgent,
    idleTimeoutS,
    lifetimeS,
  });
  return { cookie };
}
