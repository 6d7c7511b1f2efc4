/**
 * Members of an organization and their roles, for admins.
 *
 * Users belong to the whole server, which only the operator administers. So an admin of a shared organization may add
 * any user by login name, and may create a user, who gets a generated password that is in the response and nowhere
 * else. The admin cannot change anything about an existing user: password, name and address also matter to other
 * organizations. The admin of a personal organization cannot create users, because every user is one.
 */
import { Type } from "typebox";
import { keepsAdmin, ROLES } from "../../domain/access.ts";
import type { Role } from "../../domain/access.ts";
import { createUserWithOrganization } from "../../auth/account-changes.ts";
import { Name } from "../../contract/shapes.ts";
import { USER_DISPLAY_NAME, MAX_NAME_CHARS, USER_EMAIL, USER_NAME } from "../../domain/names.ts";
import { badRequest, invalid, notFound } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Matching, Maybe, Message, Nullable, OneOf, named } from "../../http/schema.ts";
import type { MemberRow, OrganizationRow } from "../../store/accounts/organizations.ts";
import type { UserRow } from "../../store/accounts/users.ts";
import type { StoreReader } from "../../store/reader.ts";
import { changesOf } from "../changes.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { PageOf, definePaging } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const PAGING = definePaging({ perPage: 100, maxPerPage: 1000 });

const MemberPath = Closed({
  org: OrgPath.properties.org,
  user: Type.String({ description: "Login name of the user" }),
});

export const MemberRole = OneOf(ROLES, { description: "Role in the organization" });
const MEMBER_FIELDS = {
  user: Type.String({ description: "Login name" }),
  display_name: Type.String({ description: "The login name if the user has no other" }),
  email: Nullable(Type.String()),
  role: MemberRole,
  since: Type.Number({
    description: "Start of the membership in epoch seconds; a change of the role does not move it",
  }),
  role_from_login: Type.Boolean({
    description: "Whether each login sets the role from the groups of the login provider; then only these change it",
  }),
};
const MemberResponse = named("MemberResponse", Closed(MEMBER_FIELDS));
const MemberListItem = named(
  "MemberListItem",
  Closed({
    ...MEMBER_FIELDS,
    last_login_at: Nullable(
      Type.Number({ description: "Latest login in epoch seconds; null without one whose session is still known" }),
    ),
  }),
);
const MemberPage = PageOf("MemberPage", MemberListItem);
const MemberCreated = named(
  "MemberCreated",
  Closed({
    ...MEMBER_FIELDS,
    initial_password: Type.String({ description: "Password for the first login; it is not shown again" }),
  }),
);
const MemberRemoved = named(
  "MemberRemoved",
  Closed({
    user: Type.String({ description: "Login name" }),
    service_accounts: Type.Array(Type.String(), {
      description: "Service accounts that the user created and whose keys keep working",
    }),
  }),
);

const MemberPutInput = named("MemberPutInput", Closed({ role: MemberRole }));
/** What a user is created with. */
export const USER_FIELDS = {
  name: Name(USER_NAME, {
    description: "Login name, also of the personal organization of the user; it cannot be changed",
  }),
  display_name: Type.Optional(
    Matching(USER_DISPLAY_NAME, { maxLength: MAX_NAME_CHARS, default: "", description: "One line; empty for none" }),
  ),
  email: Maybe(Matching(USER_EMAIL, { maxLength: 254, description: "E-mail address that no other user has" })),
};
const MemberPostInput = named("MemberPostInput", Closed({ ...USER_FIELDS, role: MemberRole }));

/** Lists the names of an organization's service accounts that the user created and that have live keys. */
export const listLiveAccounts = (
  store: StoreReader,
  organization: { id: number },
  user: { public_id: string },
): string[] =>
  store.serviceAccounts
    .list(organization.id)
    .filter((account) => account.creating_user_id === user.public_id && store.apiKeys.listActive(account.id).length > 0)
    .map(({ name }) => name);

/**
 * Whether each login decides the user's role in the organization anew: groups of the login provider give roles there,
 * and the user signs in with the provider. Another role would last until the next login only.
 * @param mapped names of the organizations in which groups give roles (oidc-roles)
 */
const isRoleMapped = (
  store: StoreReader,
  mapped: ReadonlySet<string>,
  { organization, userId }: { organization: string; userId: number },
): boolean =>
  mapped.has(organization) && store.identities.listByUser(userId).some(({ blocked_at }) => blocked_at === null);

const isMapped = ({ store, organization, mappedOrganizations }: ReadingContext, userId: number): boolean =>
  isRoleMapped(store, mappedOrganizations, { organization: organization.name, userId });

const presentMember = (context: ReadingContext, row: MemberRow) => ({
  user: row.name,
  display_name: row.display_name || row.name,
  email: row.email,
  role: row.role,
  since: row.created_at,
  role_from_login: isMapped(context, row.user_id),
});

/** @throws AppError 400 */
export function requireShared({ organization }: ReadingContext): void {
  if (organization.kind === "personal")
    throw badRequest(`'${organization.name}' is a personal organization: its user is its only member and always admin`);
}

/** The user of that login name, with the role in the organization; null for a user who is not a member. */
function requireUser({ store, organization }: ReadingContext, name: string): { user: UserRow; role: Role | null } {
  const user = store.users.find(name);
  if (!user) throw notFound(`User '${name}' not found`);
  return { user, role: store.organizations.findRole(organization.id, user.id) };
}

/**
 * An organization that has an admin keeps one.
 * @param role of the user in these organizations from now on; null: the memberships end
 * @throws AppError 400 that names those that would have none
 */
export function requireRemainingAdmin(
  { store, principal }: ReadingContext,
  organizations: readonly Pick<OrganizationRow, "id" | "name">[],
  { user, role }: { user: { name: string }; role: Role | null },
): void {
  const orphaned = organizations.filter(
    ({ id }) => !keepsAdmin(store.organizations.listMembers(id), new Map([[user.name, role]])),
  );
  if (orphaned.length === 0) return;
  const names = orphaned.map(({ name }) => `'${name}'`).join(", ");
  const force = principal.kind === "operator" ? ", or use assay member with --force" : "";
  throw badRequest(`'${user.name}' is the last admin of ${names}: give another member the role admin first${force}`);
}

const EXAMPLE_PATH = { org: "acme", user: "ada" };
const NO_USER = { description: "No such user", schema: Message };

export const listMembers = operation({
  id: "list_members",
  origin: "assay",
  method: "GET",
  path: "/members/{org}",
  tag: "Members",
  summary: "List the members of an organization",
  description: "By login name.",
  permission: "org:settings",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGING.query,
    search: Type.Optional(
      Type.String({
        maxLength: MAX_NAME_CHARS,
        description: "Part of the login name, display name or e-mail address; ASCII letters in any case",
      }),
    ),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page of the members", schema: MemberPage } },
  example: { params: { org: "acme" } },
  handle(context, { query }) {
    const { store, organization } = context;
    const window = PAGING.window(query);
    const logins = store.sessions.listLastLogins(organization.id);
    const search = query.search?.trim() ?? "";
    const data = store.organizations.listMemberPage(organization.id, search, window).map((row) => ({
      ...presentMember(context, row),
      last_login_at: logins.get(row.user_id) ?? null,
    }));
    const total = store.organizations.countMembers(organization.id, search);
    return { status: 200, body: { data, pagination: presentPagination(total, window.page, window.perPage) } };
  },
});

export const createMember = operation({
  id: "create_member",
  origin: "assay",
  method: "POST",
  path: "/members/{org}",
  tag: "Members",
  summary: "Create a user as a member of an organization",
  description:
    "Creates a user who can sign in with the generated password of the response, and should replace it on the page " +
    "`/account`. A user who exists is added by login name instead: `PUT /members/{org}/{user}`.",
  permission: "org:settings",
  audit: "user.created",
  params: OrgPath,
  query: NoQuery,
  body: json(MemberPostInput),
  responses: { 201: { description: "Created", schema: MemberCreated } },
  example: {
    params: { org: "acme" },
    body: { name: "grace", display_name: "Grace Hopper", email: "grace@example.com", role: "member" },
  },
  async prepare(context, { body }) {
    // Hashing takes a while, so what can be refused is refused before.
    requireShared(context);
    requireFree(context, body);
    const password = context.newSecret();
    return { password, hash: await context.passwords.hashOfMember(password) };
  },
  handle(context, { body }, { password, hash }) {
    const { store, organization } = context;
    requireFree(context, body);
    const changes = changesOf(context);
    const { name, display_name: displayName = "", email = null, role } = body;
    const user = createUserWithOrganization(changes, { name, displayName, email });
    changes.setPassword(user, hash);
    changes.setRole(organization.id, user, { role, previous: null });
    const member = presentMember(context, store.organizations.getMember(organization.id, user.id));
    return { status: 201, body: { ...member, initial_password: password }, unaudited: true };
  },
});

/** @throws AppError 400 naming the fields that another user or an organization has */
export function requireFree(
  context: ReadingContext,
  { name, email = null }: { name: string; email?: string | null },
): void {
  const { store } = context;
  const problems: Record<string, string> = {};
  if (store.users.find(name)) problems["name"] = `A user with this name already exists [input: ${name}]`;
  else if (store.organizations.find(name))
    problems["name"] =
      `An organization with this name already exists, and the user needs a personal one [input: ${name}]`;
  Object.assign(problems, findTakenEmail(context, email, null));
  if (Object.keys(problems).length > 0) throw invalid(problems);
}

/** The problem of an e-mail address that another user has; none for that of `owner`. */
export function findTakenEmail(
  { store, principal }: ReadingContext,
  email: string | null,
  owner: { id: number } | null,
): Record<string, string> {
  const holder = email === null ? null : store.users.findByEmail(email);
  if (!holder || holder.id === owner?.id) return {};
  // Who it is, an admin of one organization need not know.
  const shown = principal.kind === "operator" ? `, '${holder.name}',` : "";
  return { email: `A user${shown} with this e-mail address already exists [input: ${email}]` };
}

export const putMember = operation({
  id: "put_member",
  origin: "assay",
  method: "PUT",
  path: "/members/{org}/{user}",
  tag: "Members",
  summary: "Add a user to an organization, or change the role of a member",
  description:
    "Takes effect with the user's next request. Refused where the groups of the login provider give the user's role: " +
    "the next login would undo it. The last admin keeps the role. The history of memberships records the change.",
  permission: "org:settings",
  audit: "member.role_changed",
  params: MemberPath,
  query: NoQuery,
  body: json(MemberPutInput),
  responses: {
    200: { description: "A member with that role, changed or not", schema: MemberResponse },
    201: { description: "Added", schema: MemberResponse },
    404: NO_USER,
  },
  example: { params: EXAMPLE_PATH, body: { role: "member" } },
  handle(context, { params, body }) {
    const { store, organization } = context;
    requireShared(context);
    const { user, role: previous } = requireUser(context, params.user);
    const { role } = body;
    if (previous !== role) {
      if (isMapped(context, user.id))
        throw badRequest(
          `Groups of the login provider give '${user.name}' the role in '${organization.name}': change the groups`,
        );
      // The change of another member takes no admin away, and the list of members may be long.
      if (previous === "admin") requireRemainingAdmin(context, [organization], { user, role });
      changesOf(context).setRole(organization.id, user, { role, previous });
    }
    const member = presentMember(context, store.organizations.getMember(organization.id, user.id));
    return { status: previous === null ? 201 : 200, body: member, unaudited: true };
  },
});

export const removeMember = operation({
  id: "delete_member",
  origin: "assay",
  method: "DELETE",
  path: "/members/{org}/{user}",
  tag: "Members",
  summary: "Remove a member from an organization",
  description:
    "The last admin cannot be removed. The user loses access with the next request; everything that the user " +
    "reported stays. Service accounts that the user created keep working: the response lists them. A user whose role " +
    "comes from the login provider is added again at the next login, unless the groups there change.",
  permission: "org:settings",
  audit: "member.removed",
  params: MemberPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Removed", schema: MemberRemoved },
    404: { description: "No such member", schema: Message },
  },
  example: { params: EXAMPLE_PATH },
  handle(context, { params }) {
    const { store, organization } = context;
    requireShared(context);
    const user = store.users.find(params.user);
    const previous = user && store.organizations.findRole(organization.id, user.id);
    // The same answer for both: whether the user exists elsewhere is nothing that removing a member has to tell.
    if (!user || !previous) throw notFound(`'${params.user}' is not a member of '${organization.name}'`);
    requireRemainingAdmin(context, [organization], { user, role: null });
    changesOf(context).removeMember(organization.id, user, previous);
    const accounts = listLiveAccounts(store, organization, user);
    return { status: 200, body: { user: user.name, service_accounts: accounts }, unaudited: true };
  },
});
