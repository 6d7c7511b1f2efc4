/** `assay user`: manages users. Works with and without a running server. */
import { createUser, disableUser, enableUser, listUsers, updateUser } from "../../api/operator/users.ts";
import { matches, USER_NAME } from "../../domain/names.ts";
import type { IdentityRow } from "../../store/accounts/oidc-identities.ts";
import type { UserRow } from "../../store/accounts/users.ts";
import { isDisplayName, isEmail, NAME_RULE } from "../apply/apply-file.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { withData } from "../data-directory.ts";
import { EXIT, escapeLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { changeAsOperator, withOperator } from "../operator.ts";
import type { AnswerOf } from "../operator.ts";
import { countOf, printResult, optionOf } from "../output.ts";
import { renderTable } from "../table.ts";
import { requireUser, formatTimestamp } from "../lookup.ts";

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
    const user = await changeAsOperator(directory, { command: "user create" }, ({ call }) =>
      call(createUser, { body: { name, display_name: displayName, email } }),
    );
    return printResult(io, args, { json: { user }, text: `created ${userLine(user)}` });
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
    const users = await withOperator(directory, { command: "user list" }, ({ call }) => call(listUsers));
    const rows = users.map(({ name, created_at, email, display_name }) => [
      name,
      formatTimestamp(created_at),
      email ?? "-",
      display_name,
    ]);
    return printResult(io, args, {
      json: { users },
      text: renderTable(["USER", "CREATED", "E-MAIL", "NAME"], rows, "no users"),
    });
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
    io.stdout(userLine(present(shown.user)));
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
    const displayName = optionOf(args, "display-name");
    const address = optionOf(args, "email");
    const forgets = args.switches.has("no-email");
    const directory = await resolveDataDirectory(args, io);
    const { changed, ...user } = await changeAsOperator(directory, { command: "user set" }, ({ call, store }) =>
      call(updateUser, {
        params: { user: requireUser(store, args.positionals[0] ?? "").name },
        body: {
          ...(displayName === null ? {} : { display_name: displayName }),
          ...(forgets ? { email: null } : address === null ? {} : { email: address }),
        },
      }),
    );
    const outcome = changed ? "changed" : "unchanged";
    return printResult(io, args, { json: { user, outcome }, text: `${outcome} ${userLine(user)}` });
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
    const ended = await changeAsOperator(directory, { command: "user disable" }, ({ call, store }) =>
      call(disableUser, {
        params: { user: requireUser(store, args.positionals[0] ?? "").name },
        body: { force: args.switches.has("force") },
      }),
    );
    const { user, removed_from, revoked_api_keys, service_accounts: accounts } = ended;
    const revoked = `${countOf(revoked_api_keys, "API key")} revoked`;
    return printResult(io, args, {
      json: ended,
      text: `disabled ${user}: ${revoked}, removed from ${removed_from.join(", ") || "no organization"}\n`,
      notice: accounts.length > 0 ? `service accounts that ${user} created keep working: ${accounts.join(", ")}\n` : "",
    });
  },
};

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
    const { user, changed } = await changeAsOperator(directory, { command: "user enable" }, ({ call, store }) =>
      call(enableUser, { params: { user: requireUser(store, args.positionals[0] ?? "").name } }),
    );
    return printResult(io, args, {
      json: { user, outcome: changed ? "changed" : "unchanged" },
      text: `${changed ? "enabled" : "unchanged"} ${user}\n`,
    });
  },
};

function findProfileProblems({ texts }: Args): string[] {
  const displayName = texts.get("display-name")?.[0] ?? "";
  const email = texts.get("email")?.[0] ?? null;
  const problems: string[] = [];
  if (!isDisplayName(displayName)) problems.push("--display-name: give one line of at most 256 characters");
  if (email !== null && !isEmail(email)) problems.push("--email: give an e-mail address");
  return problems;
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

/** A user as operations answer it. */
const userLine = ({ name, display_name, email }: AnswerOf<typeof createUser>): string =>
  `${name}${email === null ? "" : ` <${escapeLine(email)}>`}: ${escapeLine(display_name)}\n`;
