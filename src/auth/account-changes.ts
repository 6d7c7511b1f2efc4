/**
 * Changes of organizations, users and their logins that do not come through the API: from the command line and the
 * login pages. Each appends its audit entry here, in the transaction of the change.
 */
import type { Role } from "../domain/access.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { Store } from "../store/index.ts";
import type { MembershipEventRow } from "../store/accounts/membership-audit-log.ts";
import type { PasswordHash } from "../store/accounts/passwords.ts";
import type { NewSession } from "../store/accounts/sessions.ts";

/**
 * Who makes a change. `displayName` and `source` go into the membership audit log; `operation` names the command or the
 * page.
 */
export type ChangeAuthor = Pick<AuditEntry, "actor" | "operation" | "requestId"> & {
  displayName: string;
  source: MembershipEventRow["source"];
};

/** What changes need to know of a user. */
export type UserRef = { id: number; name: string };

export type AccountChanges = ReturnType<typeof createAccountChanges>;

/** Call all methods within a transaction. */
export function createAccountChanges(
  store: Store,
  { actor, operation, requestId, displayName: shown, source }: ChangeAuthor,
) {
  const audit = (
    organizationId: number | null,
    event: string,
    target: string,
    detail: Readonly<Record<string, unknown>>,
  ): void => store.auditLog.append({ organizationId, operation, event, target, requestId, detail, actor });

  return {
    audit: audit,
    /** The name must be free. @returns the row id */
    createOrganization(fields: {
      name: string;
      kind: "personal" | "shared";
      isPublic: boolean;
      controlsEnabled: boolean;
    }): number {
      const id = store.organizations.create(fields);
      audit(id, "organization.created", fields.name, {
        kind: fields.kind,
        public: fields.isPublic,
        controls: fields.controlsEnabled,
      });
      return id;
    },
    /** Name and e-mail address must be free. @returns the row id */
    createUser(fields: { name: string; displayName: string; email: string | null }): number {
      const id = store.users.create(fields);
      audit(null, "user.created", fields.name, { display_name: fields.displayName, email: fields.email });
      return id;
    },
    /** Gives a user another role; `previous` is null for a user who is not a member yet. */
    setRole(organizationId: number, user: UserRef, { role, previous }: { role: Role; previous: Role | null }): void {
      store.organizations.setRole(organizationId, user, { role, changedBy: shown, source });
      const event = previous === null ? "member.added" : "member.role_changed";
      audit(organizationId, event, user.name, previous === null ? { role } : { role, previous_role: previous });
    },
    /** Ends a membership; `previous` is the role that the user had. */
    removeMember(organizationId: number, user: UserRef, previous: Role): void {
      store.organizations.removeMember(organizationId, user, { changedBy: shown, source });
      audit(organizationId, "member.removed", user.name, { previous_role: previous });
    },
    /** Sets a password and ends all sessions. @returns how many were ended */
    setPassword(user: UserRef, hash: PasswordHash): number {
      store.passwords.set(user.id, hash);
      const ended = store.sessions.endByUser(user.id);
      audit(null, "password.set", user.name, { ended_sessions: ended });
      return ended;
    },
    /**
     * Removes the password and ends all sessions. @returns whether there was a password, and how many sessions ended
     */
    removePassword(user: UserRef): { had: boolean; sessions: number } {
      const had = store.passwords.delete(user.id);
      const sessions = store.sessions.endByUser(user.id);
      if (had) audit(null, "password.removed", user.name, { ended_sessions: sessions });
      else if (sessions > 0) audit(null, "session.all_ended", user.name, { ended_sessions: sessions });
      return { had, sessions };
    },
    /** @returns the public id */
    startSession(user: UserRef, fields: Omit<NewSession, "userId">): string {
      const id = store.sessions.create({ ...fields, userId: user.id });
      audit(null, "session.started", user.name, { session: id, method: fields.method, address: fields.address });
      return id;
    },
    /** @returns whether the session was active */
    endSession(user: UserRef, id: string): boolean {
      const wasOpen = store.sessions.end(id);
      if (wasOpen) audit(null, "session.ended", user.name, { session: id });
      return wasOpen;
    },
    /** Ends all sessions of a user, except one if given. @returns how many */
    endSessions(user: UserRef, except = ""): number {
      const ended = store.sessions.endByUser(user.id, except);
      if (ended > 0) audit(null, "session.all_ended", user.name, { ended_sessions: ended });
      return ended;
    },
    linkIdentity(user: UserRef, issuer: string, subject: string): void {
      store.identities.create(issuer, subject, user.id);
      audit(null, "identity.linked", user.name, { issuer, subject });
    },
    /** Refuses further logins through OpenID providers. @returns whether that changed anything */
    blockIdentities(user: UserRef): boolean {
      const identities = store.identities.block(user.id);
      if (identities > 0) audit(null, "identity.blocked", user.name, { identities });
      return identities > 0;
    },
    /** Accepts logins through OpenID providers again. @returns whether that changed anything */
    unblockIdentities(user: UserRef): boolean {
      const identities = store.identities.unblock(user.id);
      if (identities > 0) audit(null, "identity.admitted", user.name, { identities });
      return identities > 0;
    },
  };
}

/** Creates a user with the personal organization of the same name (semantics 1.2). Both names must be free. */
export function createUserWithOrganization(
  changes: AccountChanges,
  fields: { name: string; displayName: string; email: string | null },
): UserRef {
  const user = { id: changes.createUser(fields), name: fields.name };
  const own = changes.createOrganization({
    name: fields.name,
    kind: "personal",
    isPublic: false,
    controlsEnabled: true,
  });
  changes.setRole(own, user, { role: "admin", previous: null });
  return user;
}
