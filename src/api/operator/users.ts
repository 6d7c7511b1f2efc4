/** Users of the server, whom only the operator creates, changes and disables. */
import { Type } from "typebox";
import { createUserWithOrganization } from "../../auth/account-changes.ts";
import { MAX_NAME_CHARS, USER_DISPLAY_NAME, USER_EMAIL } from "../../domain/names.ts";
import { findPasswordProblem } from "../../domain/login/password.ts";
import { badRequest, invalid, notFound } from "../../errors.ts";
import { NO_BODY, json, optionalJson } from "../../http/operation.ts";
import { Closed, Matching, Message, Nullable, named } from "../../http/schema.ts";
import type { UserRow } from "../../store/accounts/users.ts";
import {
  MemberRole,
  USER_FIELDS,
  findTakenEmail,
  listLiveAccounts,
  requireFree,
  requireRemainingAdmin,
  requireShared,
} from "../accounts/members.ts";
import { changesOf } from "../changes.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { NoQuery } from "../paths.ts";
import { OPERATOR } from "./operator.ts";

export const UserPath = Closed({ user: Type.String({ description: "Login name of the user" }) });
export const USER_EXAMPLE = { user: "ada" };
export const NO_USER = { description: "No such user", schema: Message };

const FIELDS = {
  name: Type.String({ description: "Login name" }),
  display_name: Type.String({ description: "The login name if the user has no other" }),
  email: Nullable(Type.String()),
  created_at: Type.Number({ description: "Epoch seconds" }),
};
const ServerUser = named("ServerUser", Closed(FIELDS));
const ServerUserChange = named("ServerUserChange", Closed({ ...FIELDS, changed: Type.Boolean() }));

const present = ({ name, display_name, email, created_at }: UserRow) => ({
  name,
  display_name: display_name || name,
  email,
  created_at,
});

/** @throws AppError 404 */
export function requireServerUser({ store }: ReadingContext, name: string): UserRow {
  const user = store.users.find(name);
  if (!user) throw notFound(`There is no user '${name}'`);
  return user;
}

export const listUsers = operation({
  ...OPERATOR,
  id: "list_users",
  method: "GET",
  path: "/operator/users",
  summary: "List all users of the server",
  description: "By login name.",
  audit: null,
  params: Closed({}),
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The users", schema: Type.Array(ServerUser) } },
  example: {},
  handle: ({ store }) => ({ status: 200, body: store.users.list().map(present) }),
});

export const createUser = operation({
  ...OPERATOR,
  id: "create_user",
  method: "POST",
  path: "/operator/users",
  summary: "Create a user with their personal organization",
  description: "The user has no key, password or membership yet.",
  audit: "user.created",
  params: Closed({}),
  query: NoQuery,
  body: json(Closed(USER_FIELDS)),
  responses: { 201: { description: "Created", schema: ServerUser } },
  example: { body: { name: "grace", display_name: "Grace Hopper", email: "grace@example.com" } },
  handle(context, { body }) {
    requireFree(context, body);
    const { name, display_name: displayName = "", email = null } = body;
    createUserWithOrganization(changesOf(context), { name, displayName, email });
    return { status: 201, body: present(requireServerUser(context, name)), unaudited: true };
  },
});

export const updateUser = operation({
  ...OPERATOR,
  id: "update_user",
  method: "PATCH",
  path: "/operator/users/{user}",
  summary: "Change the display name or e-mail address of a user",
  description: "Absent fields stay unchanged; an e-mail address of null removes it. The login name is permanent.",
  audit: "user.updated",
  params: UserPath,
  query: NoQuery,
  body: json(
    Closed({
      display_name: Type.Optional(Matching(USER_DISPLAY_NAME, { maxLength: MAX_NAME_CHARS })),
      email: Type.Optional(Nullable(Matching(USER_EMAIL, { maxLength: 254 }))),
    }),
  ),
  responses: { 200: { description: "The user as it is now", schema: ServerUserChange }, 404: NO_USER },
  example: { params: USER_EXAMPLE, body: { display_name: "Ada King" } },
  handle(context, { params, body }) {
    const { store } = context;
    const user = requireServerUser(context, params.user);
    const { display_name: displayName = user.display_name, email = user.email } = body;
    const taken = findTakenEmail(context, email, user);
    if (Object.keys(taken).length > 0) throw invalid(taken);
    const changed = displayName !== user.display_name || email !== user.email;
    if (changed) changesOf(context).describeUser(user, { displayName, email });
    return { status: 200, body: { ...present(store.users.get(user.id)), changed }, unaudited: true };
  },
});

const DisabledUser = named(
  "DisabledUser",
  Closed({
    user: FIELDS.name,
    removed_from: Type.Array(Type.String(), { description: "Names of the organizations" }),
    revoked_api_keys: Type.Integer(),
    ended_sessions: Type.Integer(),
    service_accounts: Type.Array(Type.String(), {
      description: "Service accounts that the user created and whose keys keep working, each below its organization",
    }),
  }),
);

export const disableUser = operation({
  ...OPERATOR,
  id: "disable_user",
  method: "POST",
  path: "/operator/users/{user}/disable",
  summary: "Disable a user: revoke keys, end sessions, remove memberships and logins",
  description:
    "Ends the memberships of shared organizations and blocks logins with OpenID Connect. The user itself stays, " +
    "because history refers to it. Refused for the last admin of an organization, unless `force` is true.",
  audit: "user.disabled",
  params: UserPath,
  query: NoQuery,
  body: optionalJson(
    Closed({
      force: Type.Optional(Type.Boolean({ description: "Also if this leaves an organization without an admin" })),
    }),
  ),
  responses: { 200: { description: "Disabled", schema: DisabledUser }, 404: NO_USER },
  example: { params: USER_EXAMPLE, body: { force: false } },
  handle(context, { params, body }) {
    const { store } = context;
    const user = requireServerUser(context, params.user);
    const shared = store.users
      .listMemberships(user.id)
      .filter(({ kind }) => kind === "shared")
      .map(({ organization: name, organization_id: id, role }) => ({ id, name, role }));
    if (body?.force !== true) requireRemainingAdmin(context, shared, { user, role: null });
    const changes = changesOf(context);
    const accounts = shared.flatMap(({ id, name }) =>
      listLiveAccounts(store, { id }, user).map((account) => `${name}/${account}`),
    );
    for (const { id, role } of shared) changes.removeMember(id, user, role);
    const keys = store.apiKeys.listByOwner({ userId: user.id }).filter(({ revoked_at }) => revoked_at === null);
    for (const key of keys) changes.revokeKey({ userId: user.id, name: user.name }, key);
    const { sessions } = changes.removePassword(user);
    changes.blockIdentities(user);
    // Those in shared organizations went with the memberships.
    store.views.deleteByUser(user.id);
    return {
      status: 200,
      body: {
        user: user.name,
        removed_from: shared.map(({ name }) => name),
        revoked_api_keys: keys.length,
        ended_sessions: sessions,
        service_accounts: accounts,
      },
      unaudited: true,
    };
  },
});

export const enableUser = operation({
  ...OPERATOR,
  id: "enable_user",
  method: "POST",
  path: "/operator/users/{user}/enable",
  summary: "Allow a disabled user to sign in with OpenID Connect again",
  description: "The next login grants the roles of the user's groups. Keys, password and memberships stay as they are.",
  audit: "identity.admitted",
  params: UserPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Enabled, if it was not", schema: Closed({ user: FIELDS.name, changed: Type.Boolean() }) },
    404: NO_USER,
  },
  example: { params: USER_EXAMPLE },
  handle(context, { params }) {
    const user = requireServerUser(context, params.user);
    const changed = changesOf(context).unblockIdentities(user);
    return { status: 200, body: { user: user.name, changed }, unaudited: true };
  },
});

export const setUserPassword = operation({
  ...OPERATOR,
  id: "set_user_password",
  method: "PUT",
  path: "/operator/users/{user}/password",
  summary: "Set the password of a user",
  description: "Ends all sessions of the user.",
  audit: "password.set",
  params: UserPath,
  query: NoQuery,
  // No limit in the shape, whose refusal would quote the password.
  body: json(Closed({ password: Type.String({ description: "12 characters to 1024 bytes", "x-secret": true }) })),
  responses: {
    200: { description: "Set", schema: Closed({ user: FIELDS.name, ended_sessions: Type.Integer() }) },
    404: NO_USER,
  },
  example: { params: USER_EXAMPLE, body: { password: "correct horse battery" } },
  async prepare(context, { params, body }) {
    const { name } = requireServerUser(context, params.user);
    const problem = findPasswordProblem(body.password, name);
    if (problem !== null) throw badRequest(`nothing was changed: ${problem}`);
    return context.passwords.hashOfMember(body.password);
  },
  handle(context, { params }, hash) {
    const user = requireServerUser(context, params.user);
    const ended = changesOf(context).setPassword(user, hash);
    return { status: 200, body: { user: user.name, ended_sessions: ended }, unaudited: true };
  },
});

export const removeUserPassword = operation({
  ...OPERATOR,
  id: "delete_user_password",
  method: "DELETE",
  path: "/operator/users/{user}/password",
  summary: "Remove the password of a user",
  description: "The user cannot sign in with a password afterwards. Ends all sessions of the user.",
  audit: "password.removed",
  params: UserPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: {
      description: "There is no password",
      schema: Closed({
        user: FIELDS.name,
        changed: Type.Boolean({ description: "Whether there was one" }),
        ended_sessions: Type.Integer(),
      }),
    },
    404: NO_USER,
  },
  example: { params: USER_EXAMPLE },
  handle(context, { params }) {
    const user = requireServerUser(context, params.user);
    const { had, sessions } = changesOf(context).removePassword(user);
    return { status: 200, body: { user: user.name, changed: had, ended_sessions: sessions }, unaudited: true };
  },
});

export const forceMember = operation({
  ...OPERATOR,
  id: "force_member",
  method: "PUT",
  path: "/operator/users/{user}/memberships/{org}",
  summary: "Change or end the membership of a user, also of the last admin",
  description: "As `put_member` and `delete_member`, without the rule that an organization keeps an admin.",
  audit: "member.role_changed",
  params: Closed({ ...UserPath.properties, org: Type.String({ description: "Name of the organization" }) }),
  query: NoQuery,
  body: json(Closed({ role: Nullable({ ...MemberRole, description: "null ends the membership" }) })),
  responses: {
    200: {
      description: "Changed",
      schema: Closed({
        user: FIELDS.name,
        service_accounts: DisabledUser.properties.service_accounts,
      }),
    },
    404: NO_USER,
  },
  example: { params: { ...USER_EXAMPLE, org: "acme" }, body: { role: "member" } },
  handle(context, { params, body }) {
    const { store, organization } = context;
    requireShared(context);
    const user = requireServerUser(context, params.user);
    const previous = store.organizations.findRole(organization.id, user.id);
    if (previous === null) throw notFound(`'${user.name}' is not a member of '${organization.name}'`);
    const changes = changesOf(context);
    const { role } = body;
    if (role === null) changes.removeMember(organization.id, user, previous);
    else if (role !== previous) changes.setRole(organization.id, user, { role, previous });
    const accounts = role === null ? listLiveAccounts(store, organization, user) : [];
    return { status: 200, body: { user: user.name, service_accounts: accounts }, unaudited: true };
  },
});
