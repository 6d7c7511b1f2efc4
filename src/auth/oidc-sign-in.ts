/** Signing in a person for whom the OpenID provider vouches, with the roles that their groups give. */
import { keepsAdmin } from "../domain/access.ts";
import type { Role } from "../domain/access.ts";
import { chooseLoginName, resolveRoles } from "../domain/login/identity.ts";
import type { Person } from "../domain/login/identity.ts";
import { createAccountChanges, createUserWithOrganization } from "./account-changes.ts";
import type { AccountChanges, UserRef } from "./account-changes.ts";
import { startSession } from "./login-context.ts";
import type { LoginDependencies, StartedSession, Visitor } from "./login-context.ts";

/** An organization of the mapping, and the role that the person's groups give there; null for none. */
type MappedRole = { id: number; name: string; role: Role | null };

/**
 * Signs in a person and gives them the roles of their groups; creates the user at the first login. A person is
 * identified by issuer and subject alone, never by an e-mail address, which may pass to someone else.
 * @returns null for a person without a role in any organization, and for one whom the operator disabled
 */
export function signInWithProvider(
  login: LoginDependencies,
  person: Person,
  visitor: Visitor,
): Promise<StartedSession | null> {
  const { store, write } = login;
  return write(() => {
    const identity = store.identities.find(person.issuer, person.subject);
    if (identity && identity.blocked_at !== null) return null;
    const roles = findMappedRoles(login, person);
    if (!identity && roles.every(({ role }) => role === null)) return null;
    const known = identity && store.users.get(identity.user_id);
    const name =
      known?.name ??
      chooseLoginName(person.names, (one) => store.users.find(one) !== null || store.organizations.find(one) !== null);
    const changesBy = (publicId: string): AccountChanges =>
      createAccountChanges(store, {
        operation: "login",
        requestId: visitor.requestId,
        displayName: name,
        source: "oidc",
        actor: { kind: "user", publicId, name, keyPublicId: "" },
      });
    const user = known ?? createUserOf(login, changesBy(""), { person, name });
    const changes = changesBy(store.users.get(user.id).public_id);
    if (!identity) changes.linkIdentity(user, person.issuer, person.subject);
    applyRoles(login, changes, { user, roles });
    if (store.users.listMemberships(user.id).some(({ kind }) => kind === "shared"))
      return startSession(login, changes, { user, method: "oidc", visitor });
    // Sessions from a time when the user still had a role end with it.
    changes.endSessions(user);
    return null;
  });
}

/** An e-mail address that another user has is not taken over. */
function createUserOf(
  { store }: LoginDependencies,
  changes: AccountChanges,
  { person, name }: { person: Person; name: string },
): UserRef {
  const isFree = person.email !== null && store.users.findByEmail(person.email) === null;
  const email = isFree ? person.email : null;
  return createUserWithOrganization(changes, { name, displayName: person.displayName, email });
}

/** The organizations of the mapping that exist, with the role of the person in each. */
function findMappedRoles({ store, mapping, warn }: LoginDependencies, person: Person): MappedRole[] {
  return [...resolveRoles(person.groups, mapping)].flatMap(([name, role]) => {
    const organization = store.organizations.find(name);
    if (organization?.kind === "shared") return [{ id: organization.id, name, role }];
    warn(
      { organization: name },
      "oidc-roles names an organization that does not exist or is personal; its groups give no role",
    );
    return [];
  });
}

function applyRoles(
  { store, warn }: LoginDependencies,
  changes: AccountChanges,
  { user, roles }: { user: UserRef; roles: readonly MappedRole[] },
): void {
  for (const { id, name, role } of roles) {
    const previous = store.organizations.findRole(id, user.id);
    if (previous === role) continue;
    // Without an admin, only the operator could give anyone access again.
    if (previous === "admin" && !keepsAdmin(store.organizations.listMembers(id), new Map([[user.name, role]]))) {
      warn(
        { user: user.name, organization: name },
        "the groups of an organization's last admin no longer give that role; the user remains admin",
      );
      changes.audit(id, "member.kept_as_last_admin", user.name, { role_by_groups: role });
    } else if (role !== null) changes.setRole(id, user, { role, previous });
    else if (previous !== null) changes.removeMember(id, user, previous);
  }
}
