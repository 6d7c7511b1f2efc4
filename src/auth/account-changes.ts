/**
 * Changes of organizations, people and their logins that do not come through the API: from the command line, and from
 * the pages of logins. Each gets its audit entry here, in the transaction of the change.
 */
import type { Role } from "../domain/access.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { Store } from "../store/index.ts";
import type { MembershipEventRow } from "../store/accounts/membership-audit-log.ts";
import type { PasswordHash } from "../store/accounts/passwords.ts";
import type { NewSession } from "../store/accounts/sessions.ts";

/** Who does it. `shown` and `source` are for the history of memberships, `operation` names the command or the page. */
export type Author = Pick<AuditEntry, "actor" | "operation" | "requestId"> & {
  shown: string;
  source: MembershipEventRow["source"];
};

/** Somebody, by what changes need to know. */
export type Somebody = { id: number; name: string };

export type Changes = ReturnType<typeof changesBy>;

/** All methods belong inside a transaction. */
export function changesBy(store: Store, { actor, operation, requestId, shown, source }: Author) {
  const note = (
    organizationId: number | null,
    event: string,
    target: string,
    detail: Readonly<Record<string, unknown>>,
  ): void => store.auditLog.append({ organizationId, operation, event, target, requestId, detail, actor });

  return {
    note,
    /** The name must be free. @returns its key. */
    createOrganization(fields: {
      name: string;
      kind: "personal" | "shared";
      isPublic: boolean;
      controlsEnabled: boolean;
    }): number {
      const id = store.organizations.create(fields);
      note(id, "organization.created", fields.name, {
        kind: fields.kind,
        public: fields.isPublic,
        controls: fields.controlsEnabled,
      });
      return id;
    },
    /** Name and address must be free. @returns its key. */
    createUser(fields: { name: string; displayName: string; email: string | null }): number {
      const id = store.users.create(fields);
      note(null, "user.created", fields.name, { display_name: fields.displayName, email: fields.email });
      return id;
    },
    /** Gives a role that the user does not hold yet; `previous` is null for somebody who is no member. */
    setRole(organizationId: number, user: Somebody, role: Role, previous: Role | null): void {
      store.organizations.setRole(organizationId, user, { role, changedBy: shown, source });
      const event = previous === null ? "member.added" : "member.role_changed";
      note(organizationId, event, user.name, previous === null ? { role } : { role, previous_role: previous });
    },
    /** Ends a membership; `previous` is the role that the user held. */
    removeMember(organizationId: number, user: Somebody, previous: Role): void {
      store.organizations.removeMember(organizationId, user, { changedBy: shown, source });
      note(organizationId, "member.removed", user.name, { previous_role: previous });
    },
    /** Gives a password, and ends what was begun with the one before. @returns how many sessions that were. */
    setPassword(user: Somebody, hash: PasswordHash): number {
      store.passwords.set(user.id, hash);
      const ended = store.sessions.endByUser(user.id);
      note(null, "password.set", user.name, { ended_sessions: ended });
      return ended;
    },
    /** Takes the password and all sessions away. @returns whether there was a password, and how many sessions. */
    removePassword(user: Somebody): { had: boolean; sessions: number } {
      const had = store.passwords.delete(user.id);
      const sessions = store.sessions.endByUser(user.id);
      if (had) note(null, "password.removed", user.name, { ended_sessions: sessions });
      else if (sessions > 0) note(null, "session.all_ended", user.name, { ended_sessions: sessions });
      return { had, sessions };
    },
    /** @returns its public id. */
    startSession(user: Somebody, fields: Omit<NewSession, "userId">): string {
      const id = store.sessions.create({ ...fields, userId: user.id });
      note(null, "session.started", user.name, { session: id, method: fields.method, address: fields.address });
      return id;
    },
    /** @returns whether it was open. */
    endSession(user: Somebody, id: string): boolean {
      const wasOpen = store.sessions.end(id);
      if (wasOpen) note(null, "session.ended", user.name, { session: id });
      return wasOpen;
    },
    /** Ends all sessions of a user, but for one where that is said. @returns how many. */
    endSessions(user: Somebody, except = ""): number {
      const ended = store.sessions.endByUser(user.id, except);
      if (ended > 0) note(null, "session.all_ended", user.name, { ended_sessions: ended });
      return ended;
    },
    linkIdentity(user: Somebody, issuer: string, subject: string): void {
      store.identities.create(issuer, subject, user.id);
      note(null, "identity.linked", user.name, { issuer, subject });
    },
    /** Refuses what OpenID providers say of the user, or takes it again. @returns whether that changed anything. */
    admitIdentities(user: Somebody, isAdmitted: boolean): boolean {
      const changed = isAdmitted ? store.identities.unblock(user.id) : store.identities.block(user.id);
      if (changed > 0)
        note(null, isAdmitted ? "identity.admitted" : "identity.blocked", user.name, { identities: changed });
      return changed > 0;
    },
  };
}

/** Makes a user with the personal organization that bears their name (semantics 1.2); both must be free. */
export function createPerson(
  changes: Changes,
  fields: { name: string; displayName: string; email: string | null },
): Somebody {
  const user = { id: changes.createUser(fields), name: fields.name };
  const own = changes.createOrganization({
    name: fields.name,
    kind: "personal",
    isPublic: false,
    controlsEnabled: true,
  });
  changes.setRole(own, user, "admin", null);
  return user;
}
