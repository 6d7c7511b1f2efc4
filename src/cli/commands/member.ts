/**
 * `assay member`: manages the members of an organization and their roles. Works with and without a running server,
 * which applies a change from the next request on. Every change is recorded in the history of memberships and in the
 * audit log.
 */
import { ROLES, keepsAdmin } from "../../domain/access.ts";
import type { Role } from "../../domain/access.ts";
import type { Store } from "../../store/index.ts";
import type { OrganizationRow } from "../../store/accounts/organizations.ts";
import type { UserRow } from "../../store/accounts/users.ts";
import { joinAlternatives } from "../args.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { runTransaction, withData } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { listLiveAccounts } from "../../changes/members.ts";
import { createOperatorChanges } from "../operator-changes.ts";
import { renderTable } from "../table.ts";
import { requireOrganization, requireUser, formatTimestamp } from "../lookup.ts";

const ORG: CommandOption = { kind: "text", placeholder: "NAME", description: "The organization" };
const ROLE: CommandOption = { kind: "text", placeholder: "ROLE", description: ROLES.join(", ") };
const FORCE: CommandOption = {
  kind: "switch",
  description: "Proceed even if this leaves the organization without an admin",
};
const USER_WORD = "USER is a login name or an e-mail address.";
const LAST_ADMIN = "Refuses to remove the last admin of an organization, unless --force is given.";

/** The outcome of a command. `role` is null if the membership ended, `previous` is null if there was none. */
type MembershipChange = {
  outcome: "added" | "changed" | "removed" | "unchanged";
  user: UserRow;
  role: Role | null;
  previous: Role | null;
};

export const memberAdd: Command = {
  name: "member add",
  summary: "Add a user to an organization",
  usage: "USER --org NAME --role ROLE [--data DIRECTORY]",
  details: [USER_WORD, "Does not change the role of an existing member: use assay member set-role."],
  options: { org: ORG, role: ROLE, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["USER"] },
  check: (args) => findOrgAndRoleProblems(args),
  async run(args, io) {
    const role = roleOf(args);
    return changeMember(args, io, ({ store, organization, user, previous }) => {
      if (previous !== null && previous !== role) {
        throw new CommandError(
          `${user.name} is already a member of ${organization.name}, with role ${previous}; ` +
            "change it with assay member set-role",
        );
      }
      if (previous === null)
        createOperatorChanges(store, "member add").setRole(organization.id, user, { role, previous: null });
      return { outcome: previous === null ? "added" : "unchanged", user, role, previous };
    });
  },
};

export const memberSetRole: Command = {
  name: "member set-role",
  summary: "Change the role of a member",
  usage: "USER --org NAME --role ROLE [--data DIRECTORY]",
  details: [USER_WORD, LAST_ADMIN],
  options: { org: ORG, role: ROLE, force: FORCE, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["USER"] },
  check: (args) => findOrgAndRoleProblems(args),
  async run(args, io) {
    const role = roleOf(args);
    return changeMember(args, io, (membership) => {
      const { store, organization, user, previous } = membership;
      if (previous === null) throw notAMember(user, organization);
      if (previous === role) return { outcome: "unchanged", user, role, previous };
      refuseLastAdmin(membership, role, args);
      createOperatorChanges(store, "member set-role").setRole(organization.id, user, { role, previous });
      return { outcome: "changed", user, role, previous };
    });
  },
};

export const memberRemove: Command = {
  name: "member remove",
  summary: "Remove a user from an organization",
  usage: "USER --org NAME [--data DIRECTORY]",
  details: [
    USER_WORD,
    "The user loses access at once, also on a running server. Everything that the user reported stays. Service " +
      "accounts that the user created keep working; the command lists them, so that an admin can revoke their keys.",
    LAST_ADMIN,
  ],
  options: { org: ORG, force: FORCE, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["USER"] },
  check: (args) => findOrgProblems(args),
  async run(args, io) {
    return changeMember(args, io, (membership) => {
      const { store, organization, user, previous } = membership;
      if (previous === null) throw notAMember(user, organization);
      refuseLastAdmin(membership, null, args);
      createOperatorChanges(store, "member remove").removeMember(organization.id, user, previous);
      return { outcome: "removed", user, role: null, previous };
    });
  },
};

export const memberList: Command = {
  name: "member list",
  summary: "List the members of an organization",
  usage: "--org NAME [--data DIRECTORY]",
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  check: (args) => findOrgProblems(args),
  async run(args, io) {
    const org = orgOf(args);
    const directory = await resolveDataDirectory(args, io);
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
        formatTimestamp(created_at),
        display_name || name,
      ]);
      io.stdout(renderTable(["USER", "ROLE", "SINCE", "NAME"], rows, `${org} has no members`));
    }
    return EXIT.done;
  },
};

/** A user and an organization; `previous` is the user's role there, null if there is none. */
type Membership = { store: Store; organization: OrganizationRow; user: UserRow; previous: Role | null };

/** Runs `work` on the membership that the command line names, in one transaction, and prints its outcome. */
async function changeMember(args: Args, io: Io, work: (membership: Membership) => MembershipChange): Promise<number> {
  const org = orgOf(args);
  const directory = await resolveDataDirectory(args, io);
  const { made, accounts } = withData(directory, (data) =>
    runTransaction(data, () => {
      const { store } = data;
      const organization = requireOrganization(store, org);
      const user = requireUser(store, args.positionals[0] ?? "");
      if (organization.kind === "personal")
        throw new CommandError(`${org} is a personal organization: its user is its only member and always admin`);
      const previous = store.organizations.findRole(organization.id, user.id);
      const outcome = work({ store, organization, user, previous });
      return {
        made: outcome,
        accounts: outcome.outcome === "removed" ? listLiveAccounts(store, organization, user) : [],
      };
    }),
  );
  const { outcome, user, role, previous } = made;
  if (args.switches.has("json")) {
    const shown = { organization: org, user: user.name, outcome, role, previous_role: previous };
    io.stdout(`${JSON.stringify({ ...shown, service_accounts: accounts })}\n`);
  } else {
    const roles = previous === role ? role : `${previous ?? "not a member"} -> ${role ?? "not a member"}`;
    io.stdout(`${outcome} ${org}/${user.name}: ${roles}\n`);
    if (accounts.length > 0)
      io.stderr(`service accounts that ${user.name} created keep working: ${accounts.join(", ")}\n`);
  }
  return EXIT.done;
}

/** @throws CommandError when giving the user `role` leaves no admin and --force is not given */
function refuseLastAdmin({ store, organization, user }: Membership, role: Role | null, args: Args): void {
  if (
    args.switches.has("force") ||
    keepsAdmin(store.organizations.listMembers(organization.id), new Map([[user.name, role]]))
  )
    return;
  throw new CommandError(
    `${user.name} is the last admin of ${organization.name}; give another member the role admin first, or use --force`,
  );
}

const notAMember = (user: UserRow, organization: OrganizationRow): CommandError =>
  new CommandError(`${user.name} is not a member of ${organization.name}; assay member add adds a user`);

const orgOf = ({ texts }: Args): string => texts.get("org")?.[0] ?? "";

const findOrgProblems = (args: Args): string[] =>
  orgOf(args) === "" ? ["--org: give the name of an organization"] : [];

const findRole = ({ texts }: Args): Role | undefined => ROLES.find((word) => word === texts.get("role")?.[0]);

const findOrgAndRoleProblems = (args: Args): string[] => [
  ...findOrgProblems(args),
  ...(findRole(args) ? [] : [`--role: give ${joinAlternatives(ROLES)}`]),
];

function roleOf(args: Args): Role {
  const role = findRole(args);
  if (!role) throw new Error("--role passed the check of the command line but is invalid");
  return role;
}
