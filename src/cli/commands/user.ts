/** `assay user`: manages users. Works with and without a running server. */
import { keepsAdmin } from "../../domain/access.ts";
import { matches, USER_NAME } from "../../domain/names.ts";
import type { IdentityRow } from "../../store/accounts/oidc-identities.ts";
import type { Store } from "../../store/index.ts";
import type { UserMembership, UserRow } from "../../store/accounts/users.ts";
import { isDisplayName, isEmail, NAME_RULE } from "../apply/apply-file.ts";
import { applyPlan } from "../apply/apply-plan.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { runTransaction, withData } from "../data-directory.ts";
import { CommandError, EXIT, escapeLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { listLiveAccounts } from "../../changes/members.ts";
import { createOperatorChanges } from "../operator-changes.ts";
import { renderTable } from "../table.ts";
import { requireUser, formatTimestamp } from "../lookup.ts";
import { systemSources } from "../../clock.ts";

const USER_WORD = "USER is a login name or an e-mail address.";
const DISPLAY_NAME: CommandOption = {
  kind: "text",
  placeholder: "TEXT",
  description: "Display name of the user; empty for the login name",
};
const EMAIL: CommandOption = { kind: "text", placeholder: "ADDRESS", description: "E-mail address" };

export const userCreate: Command = {
  name: "user create",
  summary: "Create a user with their personal organization",
  usage: "NAME [--data DIRECTORY]",
  details: [
    "The user has no key, password or membership yet: see assay help key create, assay help user passwd and assay " +
      "help member add.",
  ],
  options: { "display-name": DISPLAY_NAME, email: EMAIL, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["NAME"] },
  check(args) {
    const [name] = args.positionals;
    return [
      ...(name === undefined || matches(USER_NAME, name) ? [] : [`NAME: give ${NAME_RULE}`]),
      ...findProfileProblems(args),
    ];
  },
  async run(args, io) {
    const name = args.positionals[0] ?? "";
    const displayName = args.texts.get("display-name")?.[0] ?? "";
    const email = args.texts.get("email")?.[0] ?? null;
    const directory = await resolveDataDirectory(args, io);
    const user = withData(directory, (data) =>
      runTransaction(data, () => {
        if (data.store.users.find(name)) throw new CommandError(`user ${name} already exists`);
        refuseTakenEmail(data.store, email, null);
        const place = { line: 1, column: 1 };
        const plan = { organizations: [], users: [{ name, displayName, email, apiKeys: [], place }] };
        const result = applyPlan(data.store, plan, { operation: "user create", now: systemSources.now() });
        // A plan of a single user can only fail because of its name.
        if (result.changes === null)
          throw new CommandError(
            `there is an organization ${name}, but the user's personal organization needs that name; choose another`,
          );
        return requireUser(data.store, name);
      }),
    );
    io.stdout(args.switches.has("json") ? `${JSON.stringify({ user: present(user) })}\n` : `created ${userLine(user)}`);
    return EXIT.done;
  },
};

export const userList: Command = {
  name: "user list",
  summary: "List users",
  usage: "[--data DIRECTORY]",
  options: DATA_OPTIONS,
  takesConfig: false,
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const users = withData(directory, ({ store }) => store.users.list());
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ users: users.map(present) })}\n`);
    else {
      const row = (user: UserRow): string[] => [
        user.name,
        formatTimestamp(user.created_at),
        user.email ?? "-",
        user.display_name || user.name,
      ];
      io.stdout(renderTable(["USER", "CREATED", "E-MAIL", "NAME"], users.map(row), "no users"));
    }
    return EXIT.done;
  },
};

export const userShow: Command = {
  name: "user show",
  summary: "Show a user's logins, keys and memberships",
  usage: "USER [--data DIRECTORY]",
  details: [USER_WORD],
  options: DATA_OPTIONS,
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["USER"] },
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const shown = withData(directory, ({ store }) => {
      const user = requireUser(store, args.positionals[0] ?? "");
      const keys = store.apiKeys.listByOwner({ userId: user.id }).filter(store.apiKeys.isActive);
      const defaultOrg =
        user.default_organization_id === null ? "" : store.organizations.get(user.default_organization_id).name;
      const logins = {
        hasPassword: store.passwords.find(user.id) !== null,
        identities: store.identities.listByUser(user.id),
        sessions: store.sessions.list(user.id).length,
      };
      return { user, logins, keys: keys.length, defaultOrg, memberships: store.users.listMemberships(user.id) };
    });
    if (args.switches.has("json")) {
      const memberships = shown.memberships.map(({ organization, kind, role, created_at }) => ({
        organization,
        kind,
        role,
        since: created_at,
      }));
      const user = {
        ...present(shown.user),
        default_org_name: shown.defaultOrg,
        active_api_keys: shown.keys,
        ...presentLogins(shown.logins),
        memberships,
      };
      io.stdout(`${JSON.stringify({ user })}\n`);
      return EXIT.done;
    }
    io.stdout(userLine(shown.user));
    const keys = `${shown.keys} API ${shown.keys === 1 ? "key" : "keys"}`;
    const defaultOrg = `default organization ${shown.defaultOrg || "none"}`;
    io.stdout(`created ${formatTimestamp(shown.user.created_at)}, ${keys}, ${defaultOrg}\n`);
    const { hasPassword, identities, sessions } = shown.logins;
    io.stdout(`${hasPassword ? "a" : "no"} password, ${sessions} open ${sessions === 1 ? "session" : "sessions"}\n`);
    for (const { issuer, subject, blocked_at } of identities)
      io.stdout(`${escapeLine(subject)} at ${escapeLine(issuer)}${blocked_at === null ? "" : ": blocked"}\n`);
    for (const { organization, kind, role, created_at } of shown.memberships) {
      const name = `${organization}${kind === "personal" ? " (personal)" : ""}`;
      io.stdout(`member of ${name}: ${role} since ${formatTimestamp(created_at)}\n`);
    }
    return EXIT.done;
  },
};

export const userSet: Command = {
  name: "user set",
  summary: "Change the display name or e-mail address of a user",
  usage: "USER [--display-name TEXT] [--email ADDRESS | --no-email] [--data DIRECTORY]",
  details: [USER_WORD, "The login name is permanent. History keeps showing the display name of its time."],
  options: {
    "display-name": DISPLAY_NAME,
    email: EMAIL,
    "no-email": { kind: "switch", description: "Remove the e-mail address" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["USER"] },
  check(args) {
    const [setsName, setsEmail, forgets] = [
      args.texts.has("display-name"),
      args.texts.has("email"),
      args.switches.has("no-email"),
    ];
    const problems = findProfileProblems(args);
    if (forgets && setsEmail) problems.push("--no-email: give it or --email, not both");
    if (!forgets && !setsEmail && !setsName) problems.push("give --display-name, --email or --no-email");
    return problems;
  },
  async run(args, io) {
    const displayName = args.texts.get("display-name")?.[0];
    const address = args.texts.get("email")?.[0];
    const forgets = args.switches.has("no-email");
    const directory = await resolveDataDirectory(args, io);
    const { user, changed } = withData(directory, (data) =>
      runTransaction(data, () => {
        const { store } = data;
        const before = requireUser(store, args.positionals[0] ?? "");
        const wanted = {
          displayName: displayName ?? before.display_name,
          email: forgets ? null : (address ?? before.email),
        };
        refuseTakenEmail(store, wanted.email, before);
        const differs = wanted.displayName !== before.display_name || wanted.email !== before.email;
        if (differs) createOperatorChanges(store, "user set").describeUser(before, wanted);
        return { user: store.users.get(before.id), changed: differs };
      }),
    );
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ user: present(user), outcome: changed ? "changed" : "unchanged" })}\n`);
    else io.stdout(`${changed ? "changed" : "unchanged"} ${userLine(user)}`);
    return EXIT.done;
  },
};

export const userDisable: Command = {
  name: "user disable",
  summary: "Disable a user: revoke keys, end sessions, remove memberships and logins",
  usage: "USER [--data DIRECTORY]",
  details: [
    USER_WORD,
    "Revokes all keys of the user, ends all sessions, ends the memberships of shared organizations, removes the " +
      "password and blocks logins with OpenID Connect: at once, also on a running server. The user itself stays, " +
      "because history refers to it. Refuses to disable the last admin of an organization, unless --force is given. " +
      "assay user enable unblocks the logins.",
  ],
  options: {
    force: { kind: "switch", description: "Proceed even if this leaves an organization without an admin" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["USER"] },
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const { name, organizations, keys, sessions, accounts } = withData(directory, (data) =>
      runTransaction(data, () => disableUser(data.store, args)),
    );
    if (args.switches.has("json")) {
      const ended = { removed_from: organizations, revoked_api_keys: keys, ended_sessions: sessions };
      io.stdout(`${JSON.stringify({ user: name, ...ended, service_accounts: accounts })}\n`);
    } else {
      const revoked = `${keys} API ${keys === 1 ? "key" : "keys"} revoked`;
      io.stdout(`disabled ${name}: ${revoked}, removed from ${organizations.join(", ") || "no organization"}\n`);
      if (accounts.length > 0)
        io.stderr(`service accounts that ${name} created keep working: ${accounts.join(", ")}\n`);
    }
    return EXIT.done;
  },
};

type DisabledUser = { name: string; organizations: string[]; keys: number; sessions: number; accounts: string[] };

/** @throws CommandError when an organization would lose its last admin and --force is not given */
function disableUser(store: Store, { positionals, switches }: Args): DisabledUser {
  const user = requireUser(store, positionals[0] ?? "");
  const shared = store.users.listMemberships(user.id).filter(({ kind }) => kind === "shared");
  const orphaned = switches.has("force") ? [] : shared.filter((membership) => isLastAdmin(store, membership, user));
  if (orphaned.length > 0) {
    const names = orphaned.map(({ organization }) => organization).join(", ");
    throw new CommandError(
      `${user.name} is the last admin of ${names}; give another member the role admin first, or use --force`,
    );
  }
  const operator = createOperatorChanges(store, "user disable");
  const accounts = shared.flatMap(({ organization, organization_id }) =>
    listLiveAccounts(store, { id: organization_id }, user).map((account) => `${organization}/${account}`),
  );
  for (const { organization_id, role } of shared) operator.removeMember(organization_id, user, role);
  const keys = store.apiKeys.listByOwner({ userId: user.id }).filter(({ revoked_at }) => revoked_at === null);
  for (const key of keys) operator.revokeKey({ userId: user.id, name: user.name }, key);
  const { sessions } = operator.removePassword(user);
  operator.blockIdentities(user);
  return {
    name: user.name,
    organizations: shared.map(({ organization }) => organization),
    keys: keys.length,
    sessions,
    accounts,
  };
}

export const userEnable: Command = {
  name: "user enable",
  summary: "Allow a disabled user to sign in with OpenID Connect again",
  usage: "USER [--data DIRECTORY]",
  details: [
    USER_WORD,
    "The next login grants the roles of the user's groups. Keys, password and other memberships are not restored.",
  ],
  options: DATA_OPTIONS,
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["USER"] },
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const { name, changed } = withData(directory, (data) =>
      runTransaction(data, () => {
        const user = requireUser(data.store, args.positionals[0] ?? "");
        return {
          name: user.name,
          changed: createOperatorChanges(data.store, "user enable").unblockIdentities(user),
        };
      }),
    );
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ user: name, outcome: changed ? "changed" : "unchanged" })}\n`);
    else io.stdout(`${changed ? "enabled" : "unchanged"} ${name}\n`);
    return EXIT.done;
  },
};

const isLastAdmin = (store: Store, membership: UserMembership, user: UserRow): boolean =>
  !keepsAdmin(store.organizations.listMembers(membership.organization_id), new Map([[user.name, null]]));

function findProfileProblems({ texts }: Args): string[] {
  const displayName = texts.get("display-name")?.[0] ?? "";
  const email = texts.get("email")?.[0] ?? null;
  const problems: string[] = [];
  if (!isDisplayName(displayName)) problems.push("--display-name: give one line of at most 256 characters");
  if (email !== null && !isEmail(email)) problems.push("--email: give an e-mail address");
  return problems;
}

/** `owner` may already have the address. @throws CommandError */
function refuseTakenEmail(store: Store, email: string | null, owner: UserRow | null): void {
  const holder = email === null ? null : store.users.findByEmail(email);
  if (holder && holder.id !== owner?.id)
    throw new CommandError(`the e-mail address ${JSON.stringify(email)} already belongs to user ${holder.name}`);
}

const presentLogins = ({
  hasPassword,
  identities,
  sessions,
}: {
  hasPassword: boolean;
  identities: readonly IdentityRow[];
  sessions: number;
}) => ({
  has_password: hasPassword,
  open_sessions: sessions,
  identities: identities.map(({ issuer, subject, blocked_at }) => ({ issuer, subject, refused: blocked_at !== null })),
});

const present = ({ name, display_name, email, created_at }: UserRow) => ({
  name,
  display_name: display_name || name,
  email,
  created_at,
});

const userLine = ({ name, display_name, email }: UserRow): string =>
  `${name}${email === null ? "" : ` <${escapeLine(email)}>`}: ${escapeLine(display_name || name)}\n`;
