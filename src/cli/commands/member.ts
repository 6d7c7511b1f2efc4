/**
 * `assay member`: manages the members of an organization and their roles. Works with and without a running server,
 * which applies a change from the next request on. Every change is recorded in the history of memberships and in the
 * audit log.
 */
import { forceMember } from "../../api/operator/users.ts";
import { putMember, removeMember } from "../../api/accounts/members.ts";
import { ROLES } from "../../domain/access.ts";
import type { Role } from "../../domain/access.ts";
import { joinAlternatives } from "../args.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { withData } from "../data-directory.ts";
import { CommandError } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { changeAsOperator } from "../operator.ts";
import type { AnswerOf, Operator } from "../operator.ts";
import { printResult, optionOf } from "../output.ts";
import { renderTable } from "../table.ts";
import { findOrgProblems, requireOrganization, requireUser, formatTimestamp } from "../lookup.ts";

const ORG: CommandOption = { kind: "text", placeholder: "NAME", description: "The organization" };
const ROLE: CommandOption = { kind: "text", placeholder: "ROLE", description: ROLES.join(", ") };
const FORCE: CommandOption = {
  kind: "switch",
  description: "Proceed even if this leaves the organization without an admin",
};
const USER_WORD = "USER is a login name or an e-mail address.";
const LAST_ADMIN = "Refuses to remove the last admin of an organization, unless --force is given.";

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
    return changeMember(args, io, {
      command: "member add",
      role,
      async change({ call, params, previous }) {
        if (previous !== null && previous !== role) {
          throw new CommandError(
            `${params.user} is already a member of ${params.org}, with role ${previous}; ` +
              "change it with assay member set-role",
          );
        }
        await call(putMember, { params, body: { role } });
      },
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
    return changeMember(args, io, {
      command: "member set-role",
      role,
      async change({ call, params, previous }) {
        if (previous === null) throw notAMember(params);
        await call(args.switches.has("force") ? forceMember : putMember, { params, body: { role } });
      },
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
    return changeMember(args, io, {
      command: "member remove",
      role: null,
      async change({ call, params, previous }) {
        if (previous === null) throw notAMember(params);
        return args.switches.has("force")
          ? call(forceMember, { params, body: { role: null } })
          : call(removeMember, { params });
      },
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
    const items = members.map(({ name, display_name, email, role, created_at }) => ({
      user: name,
      display_name: display_name || name,
      email,
      role,
      since: created_at,
    }));
    const rows = items.map(({ user, role, since, display_name }) => [user, role, formatTimestamp(since), display_name]);
    return printResult(io, args, {
      json: { organization: org, members: items },
      text: renderTable(["USER", "ROLE", "SINCE", "NAME"], rows, `${org} has no members`),
    });
  },
};

/** `previous` is the user's role in the organization, null without one. */
type Membership = Pick<Operator, "call"> & { params: { org: string; user: string }; previous: Role | null };

/** Changes the membership that the command line names; `role` is the wanted one, null to end it. Prints the outcome. */
async function changeMember(
  args: Args,
  io: Io,
  {
    command,
    role,
    change,
  }: {
    command: string;
    role: Role | null;
    change(membership: Membership): Promise<void | AnswerOf<typeof removeMember>>;
  },
): Promise<number> {
  const directory = await resolveDataDirectory(args, io);
  const { user, org, previous, accounts } = await changeAsOperator(directory, { command }, async ({ call, store }) => {
    const organization = requireOrganization(store, orgOf(args));
    const { id, name } = requireUser(store, args.positionals[0] ?? "");
    const membership = {
      org: organization.name,
      user: name,
      previous: store.organizations.findRole(organization.id, id),
    };
    const answer = await change({
      call,
      params: { org: organization.name, user: name },
      previous: membership.previous,
    });
    return { ...membership, accounts: answer?.service_accounts ?? [] };
  });
  const outcome = role === previous ? "unchanged" : role === null ? "removed" : previous === null ? "added" : "changed";
  const roles = previous === role ? role : `${previous ?? "not a member"} -> ${role ?? "not a member"}`;
  return printResult(io, args, {
    json: { organization: org, user, outcome, role, previous_role: previous, service_accounts: accounts },
    text: `${outcome} ${org}/${user}: ${roles}\n`,
    notice: accounts.length > 0 ? `service accounts that ${user} created keep working: ${accounts.join(", ")}\n` : "",
  });
}

const notAMember = ({ user, org }: Membership["params"]): CommandError =>
  new CommandError(`${user} is not a member of ${org}; assay member add adds a user`);

const orgOf = (args: Args): string => optionOf(args, "org") ?? "";

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
