/**
 * `assay member`: who belongs to an organization, in which role. Works with and without a running server, which refuses
 * from the next request on what somebody may not do any more. Every change is in the history of memberships and in the
 * audit log.
 */
import { ROLES, keepsAdmin } from "../../domain/access.ts";
import type { Role } from "../../domain/access.ts";
import type { Store } from "../../store/index.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import type { UserRow } from "../../store/accounts/users.ts";
import { listed } from "../args.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import { tableText } from "../table.ts";
import { requireOrganization, requireUser, shownTime } from "../lookup.ts";

const ORG: CommandOption = { kind: "text", placeholder: "NAME", description: "The organization" };
const ROLE: CommandOption = { kind: "text", placeholder: "ROLE", description: ROLES.join(", ") };
const FORCE: CommandOption = { kind: "switch", description: "Also where the organization is left without an admin" };
const USER_WORD = "USER is a login name or an e-mail address.";
const LAST_ADMIN = "The last admin of an organization is kept, unless --force is given.";

/** What became of a membership. `role` null: it ended; `previous` null: there was none. */
type Outcome = {
  outcome: "added" | "changed" | "removed" | "unchanged";
  user: UserRow;
  role: Role | null;
  previous: Role | null;
};

export const memberAdd: Command = {
  name: "member add",
  summary: "Make a user a member of an organization",
  usage: "USER --org NAME --role ROLE --data DIRECTORY",
  details: [USER_WORD, "Somebody who is a member already keeps their role: assay member set-role changes it."],
  options: { org: ORG, role: ROLE, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["USER"] },
  check: (args) => orgAndRoleProblems(args),
  async run(args, io) {
    const role = roleOf(args);
    return changeMember(args, io, (store, organization, user, previous) => {
      if (previous !== null && previous !== role) {
        throw commandFailure(
          `${user.name} is a member of ${organization.name} already, as ${previous}; assay member set-role changes the role`,
        );
      }
      if (previous === null) operatorOf(store, "member add").setRole(organization.id, user, role, null);
      return { outcome: previous === null ? "added" : "unchanged", user, role, previous };
    });
  },
};

export const memberSetRole: Command = {
  name: "member set-role",
  summary: "Change the role of a member",
  usage: "USER --org NAME --role ROLE --data DIRECTORY",
  details: [USER_WORD, LAST_ADMIN],
  options: { org: ORG, role: ROLE, force: FORCE, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["USER"] },
  check: (args) => orgAndRoleProblems(args),
  async run(args, io) {
    const role = roleOf(args);
    return changeMember(args, io, (store, organization, user, previous) => {
      if (previous === null) throw noMember(user, organization);
      if (previous === role) return { outcome: "unchanged", user, role, previous };
      refuseLastAdmin(store, organization, user, role, args);
      operatorOf(store, "member set-role").setRole(organization.id, user, role, previous);
      return { outcome: "changed", user, role, previous };
    });
  },
};

export const memberRemove: Command = {
  name: "member remove",
  summary: "End the membership of a user",
  usage: "USER --org NAME --data DIRECTORY",
  details: [
    USER_WORD,
    "Their rights end at once, also on a running server. What they reported stays, and so do the service accounts that they",
    "created, which are named: an admin may want to revoke their keys.",
    LAST_ADMIN,
  ],
  options: { org: ORG, force: FORCE, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["USER"] },
  check: (args) => orgProblems(args),
  async run(args, io) {
    return changeMember(args, io, (store, organization, user, previous) => {
      if (previous === null) throw noMember(user, organization);
      refuseLastAdmin(store, organization, user, null, args);
      operatorOf(store, "member remove").removeMember(organization.id, user, previous);
      return { outcome: "removed", user, role: null, previous };
    });
  },
};

export const memberList: Command = {
  name: "member list",
  summary: "List the members of an organization",
  usage: "--org NAME --data DIRECTORY",
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  check: (args) => orgProblems(args),
  async run(args, io) {
    const org = orgOf(args);
    const directory = await dataDirectory(args, io);
    const members = withData(directory, ({ store }) =>
      store.organizations.listMembers(requireOrganization(store, org).id),
    );
    if (args.switches.has("json")) {
      const shown = members.map(({ name, display_name, email, role, created_at }) => ({
        user: name,
        display_name: display_name || name,
        email,
        role,
        since: created_at,
      }));
      io.stdout(`${JSON.stringify({ organization: org, members: shown })}\n`);
    } else {
      const rows = members.map(({ name, display_name, role, created_at }) => [
        name,
        role,
        shownTime(created_at),
        display_name || name,
      ]);
      io.stdout(tableText(["USER", "ROLE", "SINCE", "NAME"], rows, `${org} has no members`));
    }
    return EXIT.done;
  },
};

/** Does one change of a membership in a transaction, and tells what became of it. */
async function changeMember(
  args: Args,
  io: Io,
  work: (store: Store, organization: OrganizationRow, user: UserRow, previous: Role | null) => Outcome,
): Promise<number> {
  const org = orgOf(args);
  const directory = await dataDirectory(args, io);
  const { made, accounts } = withData(directory, (data) =>
    change(data, () => {
      const { store } = data;
      const organization = requireOrganization(store, org);
      const user = requireUser(store, args.positionals[0] ?? "");
      if (organization.kind === "personal")
        throw commandFailure(`${org} is the personal organization of its user, who stays its only member and admin`);
      const outcome = work(store, organization, user, store.organizations.findRole(organization.id, user.id));
      return { made: outcome, accounts: outcome.outcome === "removed" ? accountsOf(store, organization, user) : [] };
    }),
  );
  const { outcome, user, role, previous } = made;
  if (args.switches.has("json")) {
    io.stdout(
      `${JSON.stringify({ organization: org, user: user.name, outcome, role, previous_role: previous, service_accounts: accounts })}\n`,
    );
  } else {
    io.stdout(
      `${outcome} ${org}/${user.name}: ${previous === role ? role : `${previous ?? "no member"} -> ${role ?? "no member"}`}\n`,
    );
    if (accounts.length > 0)
      io.stderr(`service accounts that ${user.name} created go on working: ${accounts.join(", ")}\n`);
  }
  return EXIT.done;
}

/** The names of the service accounts of an organization that a user created and that have keys which work. */
export const accountsOf = (store: Store, organization: { id: number }, user: UserRow): string[] =>
  store.serviceAccounts
    .list(organization.id)
    .filter((account) => account.creating_user_id === user.public_id && store.apiKeys.listActive(account.id).length > 0)
    .map(({ name }) => name);

function refuseLastAdmin(
  store: Store,
  organization: OrganizationRow,
  user: UserRow,
  role: Role | null,
  args: Args,
): void {
  if (
    args.switches.has("force") ||
    keepsAdmin(store.organizations.listMembers(organization.id), new Map([[user.name, role]]))
  )
    return;
  throw commandFailure(
    `${user.name} is the last admin of ${organization.name}; make somebody else admin first, or give --force`,
  );
}

const noMember = (user: UserRow, organization: OrganizationRow): Error =>
  commandFailure(`${user.name} is no member of ${organization.name}`);

const orgOf = ({ texts }: Args): string => texts.get("org")?.[0] ?? "";

const orgProblems = (args: Args): string[] => (orgOf(args) === "" ? ["--org: give the name of an organization"] : []);

const findRole = ({ texts }: Args): Role | undefined => ROLES.find((word) => word === texts.get("role")?.[0]);

const orgAndRoleProblems = (args: Args): string[] => [
  ...orgProblems(args),
  ...(findRole(args) ? [] : [`--role: give ${listed(ROLES)}`]),
];

function roleOf(args: Args): Role {
  const role = findRole(args);
  if (!role) throw new Error("the check of the command line let a role pass that is none");
  return role;
}
