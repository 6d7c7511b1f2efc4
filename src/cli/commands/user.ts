/** `assay user`: the people that the server knows. Works with and without a running server. */
import { systemSources } from "../../server/app.ts";
import { keepsAdmin } from "../../domain/access.ts";
import { matches, USER_NAME } from "../../domain/names.ts";
import type { IdentityRow } from "../../store/accounts/oidc-identities.ts";
import type { Store } from "../../store/index.ts";
import type { UserMembership, UserRow } from "../../store/accounts/users.ts";
import { isDisplayName, isEmail, NAME_RULE } from "../apply/apply-file.ts";
import { applyPlan } from "../apply/apply-plan.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import { commandFailure, EXIT, oneLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { accountsOf } from "./member.ts";
import { operatorOf } from "../operator-changes.ts";
import { tableText } from "../table.ts";
import { requireUser, shownTime } from "../lookup.ts";

const USER_WORD = "USER is a login name or an e-mail address.";
const DISPLAY_NAME: CommandOption = {
  kind: "text",
  placeholder: "TEXT",
  description: "What people see of the user; empty for the login name",
};
const EMAIL: CommandOption = { kind: "text", placeholder: "ADDRESS", description: "E-mail address" };

export const userCreate: Command = {
  name: "user create",
  summary: "Create a user with their personal organization",
  usage: "NAME --data DIRECTORY",
  details: [
    "The user has no key, password or membership yet: see assay help key create, assay help user passwd and assay help member add.",
  ],
  options: { "display-name": DISPLAY_NAME, email: EMAIL, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["NAME"] },
  check(args) {
    const [name] = args.positionals;
    return [
      ...(name === undefined || matches(USER_NAME, name) ? [] : [`NAME: give ${NAME_RULE}`]),
      ...profileProblems(args),
    ];
  },
  async run(args, io) {
    const name = args.positionals[0] ?? "";
    const displayName = args.texts.get("display-name")?.[0] ?? "";
    const email = args.texts.get("email")?.[0] ?? null;
    const directory = await dataDirectory(args, io);
    const user = withData(directory, (data) =>
      change(data, () => {
        if (data.store.users.find(name)) throw commandFailure(`there is a user ${name} already`);
        refuseTakenEmail(data.store, email, null);
        const place = { line: 1, column: 1 };
        const plan = { organizations: [], users: [{ name, displayName, email, apiKeys: [], place }] };
        const result = applyPlan(data.store, plan, "user create", systemSources.now());
        // Of a plan of one user only its name is left to be wrong.
        if (result.changes === null)
          throw commandFailure(
            `there is an organization ${name} already, and a user's personal organization bears their name`,
          );
        return requireUser(data.store, name);
      }),
    );
    io.stdout(args.switches.has("json") ? `${JSON.stringify({ user: present(user) })}\n` : `created ${line(user)}`);
    return EXIT.done;
  },
};

export const userList: Command = {
  name: "user list",
  summary: "List users",
  usage: "--data DIRECTORY",
  options: DATA_OPTIONS,
  takesConfig: false,
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const users = withData(directory, ({ store }) => store.users.list());
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ users: users.map(present) })}\n`);
    else {
      const row = (user: UserRow): string[] => [
        user.name,
        shownTime(user.created_at),
        user.email ?? "-",
        user.display_name || user.name,
      ];
      io.stdout(tableText(["USER", "CREATED", "E-MAIL", "NAME"], users.map(row), "no users"));
    }
    return EXIT.done;
  },
};

export const userShow: Command = {
  name: "user show",
  summary: "Show a user with memberships and keys",
  usage: "USER --data DIRECTORY",
  details: [USER_WORD],
  options: DATA_OPTIONS,
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["USER"] },
  async run(args, io) {
    const directory = await dataDirectory(args, io);
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
      io.stdout(
        `${JSON.stringify({ user: { ...present(shown.user), default_org_name: shown.defaultOrg, active_api_keys: shown.keys, ...presentLogins(shown.logins), memberships } })}\n`,
      );
      return EXIT.done;
    }
    io.stdout(line(shown.user));
    io.stdout(
      `created ${shownTime(shown.user.created_at)}, ${shown.keys} API ${shown.keys === 1 ? "key" : "keys"}, default organization ${shown.defaultOrg || "none"}\n`,
    );
    const { hasPassword, identities, sessions } = shown.logins;
    io.stdout(`${hasPassword ? "a" : "no"} password, ${sessions} open ${sessions === 1 ? "session" : "sessions"}\n`);
    for (const { issuer, subject, blocked_at } of identities)
      io.stdout(`${oneLine(subject)} at ${oneLine(issuer)}${blocked_at === null ? "" : ": refused"}\n`);
    for (const { organization, kind, role, created_at } of shown.memberships) {
      io.stdout(
        `member of ${organization}${kind === "personal" ? " (personal)" : ""}: ${role} since ${shownTime(created_at)}\n`,
      );
    }
    return EXIT.done;
  },
};

export const userSet: Command = {
  name: "user set",
  summary: "Change what people see of a user",
  usage: "USER [--display-name TEXT] [--email ADDRESS | --no-email] --data DIRECTORY",
  details: [USER_WORD, "The login name never changes. History goes on showing the name that people saw then."],
  options: {
    "display-name": DISPLAY_NAME,
    email: EMAIL,
    "no-email": { kind: "switch", description: "Forget the e-mail address" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["USER"] },
  check(args) {
    const [setsName, setsEmail, forgets] = [
      args.texts.has("display-name"),
      args.texts.has("email"),
      args.switches.has("no-email"),
    ];
    const problems = profileProblems(args);
    if (forgets && setsEmail) problems.push("--no-email: give it or --email, not both");
    if (!forgets && !setsEmail && !setsName) problems.push("give --display-name, --email or --no-email");
    return problems;
  },
  async run(args, io) {
    const displayName = args.texts.get("display-name")?.[0];
    const address = args.texts.get("email")?.[0];
    const forgets = args.switches.has("no-email");
    const directory = await dataDirectory(args, io);
    const { user, changed } = withData(directory, (data) =>
      change(data, () => {
        const { store } = data;
        const before = requireUser(store, args.positionals[0] ?? "");
        const wanted = {
          displayName: displayName ?? before.display_name,
          email: forgets ? null : (address ?? before.email),
        };
        refuseTakenEmail(store, wanted.email, before);
        const differs = wanted.displayName !== before.display_name || wanted.email !== before.email;
        if (differs) operatorOf(store, "user set").describeUser(before, wanted);
        return { user: store.users.get(before.id), changed: differs };
      }),
    );
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ user: present(user), outcome: changed ? "changed" : "unchanged" })}\n`);
    else io.stdout(`${changed ? "changed" : "unchanged"} ${line(user)}`);
    return EXIT.done;
  },
};

export const userDisable: Command = {
  name: "user disable",
  summary: "Take all keys and memberships of a user away",
  usage: "USER --data DIRECTORY",
  details: [
    USER_WORD,
    "Revokes all keys of the user, ends their sessions and their memberships of shared organizations, takes their password away and",
    "refuses what an OpenID provider says of them: at once, also on a running server. The user stays known, because history names",
    "them. The last admin of an organization is kept, unless --force is given. assay user enable lets the provider's logins in again.",
  ],
  options: {
    force: { kind: "switch", description: "Also where an organization is left without an admin" },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["USER"] },
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const done = withData(directory, (data) =>
      change(data, () => {
        const { store } = data;
        const user = requireUser(store, args.positionals[0] ?? "");
        const shared = store.users.listMemberships(user.id).filter(({ kind }) => kind === "shared");
        const lost = args.switches.has("force")
          ? []
          : shared.filter((membership) => isLastAdmin(store, membership, user));
        if (lost.length > 0) {
          const names = lost.map(({ organization }) => organization).join(", ");
          throw commandFailure(
            `${user.name} is the last admin of ${names}; make somebody else admin first, or give --force`,
          );
        }
        const operator = operatorOf(store, "user disable");
        const accounts = shared.flatMap(({ organization, organization_id }) =>
          accountsOf(store, { id: organization_id }, user).map((name) => `${organization}/${name}`),
        );
        for (const { organization_id, role } of shared) operator.removeMember(organization_id, user, role);
        const keys = store.apiKeys.listByOwner({ userId: user.id }).filter(({ revoked_at }) => revoked_at === null);
        for (const key of keys) operator.revokeKey({ userId: user.id, name: user.name }, key);
        const { sessions } = operator.removePassword(user);
        operator.admitIdentities(user, false);
        return {
          name: user.name,
          organizations: shared.map(({ organization }) => organization),
          keys: keys.length,
          sessions,
          accounts,
        };
      }),
    );
    const { name, organizations, keys, sessions, accounts } = done;
    if (args.switches.has("json")) {
      io.stdout(
        `${JSON.stringify({ user: name, removed_from: organizations, revoked_api_keys: keys, ended_sessions: sessions, service_accounts: accounts })}\n`,
      );
    } else {
      io.stdout(
        `disabled ${name}: ${keys} API ${keys === 1 ? "key" : "keys"} revoked, removed from ${organizations.join(", ") || "no organization"}\n`,
      );
      if (accounts.length > 0)
        io.stderr(`service accounts that ${name} created go on working: ${accounts.join(", ")}\n`);
    }
    return EXIT.done;
  },
};

export const userEnable: Command = {
  name: "user enable",
  summary: "Let a disabled user log in with OpenID Connect again",
  usage: "USER --data DIRECTORY",
  details: [
    USER_WORD,
    "The next login gives the roles of their groups. Keys, passwords and other memberships do not come back by themselves.",
  ],
  options: DATA_OPTIONS,
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["USER"] },
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const { name, changed } = withData(directory, (data) =>
      change(data, () => {
        const user = requireUser(data.store, args.positionals[0] ?? "");
        return { name: user.name, changed: operatorOf(data.store, "user enable").admitIdentities(user, true) };
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

function profileProblems({ texts }: Args): string[] {
  const displayName = texts.get("display-name")?.[0] ?? "";
  const email = texts.get("email")?.[0] ?? null;
  const problems: string[] = [];
  if (!isDisplayName(displayName)) problems.push("--display-name: give a text of at most 256 characters on one line");
  if (email !== null && !isEmail(email)) problems.push("--email: give an e-mail address");
  return problems;
}

/** `owner` is who may have the address already. */
function refuseTakenEmail(store: Store, email: string | null, owner: UserRow | null): void {
  const holder = email === null ? null : store.users.findByEmail(email);
  if (holder && holder.id !== owner?.id)
    throw commandFailure(`${JSON.stringify(email)} is the e-mail address of user ${holder.name} already`);
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

const line = ({ name, display_name, email }: UserRow): string =>
  `${name}${email === null ? "" : ` <${oneLine(email)}>`}: ${oneLine(display_name || name)}\n`;
