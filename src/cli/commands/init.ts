/** `assay init`: creates the first organization with its admin and an API key, on unused data. */
import { removeSetupToken } from "../../auth/first-admin.ts";
import { matches, ORGANIZATION_NAME, USER_NAME } from "../../domain/names.ts";
import { isDisplayName, isEmail, NAME_RULE } from "../apply/apply-file.ts";
import type { ApplyPlan } from "../apply/apply-file.ts";
import { applyPlan } from "../apply/apply-plan.ts";
import type { Change } from "../apply/apply-plan.ts";
import type { Args } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { NEW_DATABASE, NEW_DATABASE_OPTION } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";
import { changeAsOperator } from "../operator.ts";
import type { Operator } from "../operator.ts";

export const init: Command = {
  name: "init",
  summary: "Set up the first organization, its admin and an API key",
  usage: "--org NAME --user NAME [--data DIRECTORY]",
  details: [
    "Prints the key to stdout, once; the server stores only its hash. A missing data directory is created. " +
      "Refuses data that already has users or organizations.",
  ],
  options: {
    org: { kind: "text", placeholder: "NAME", description: "Name of the organization" },
    user: { kind: "text", placeholder: "NAME", description: "Login name of its admin" },
    email: { kind: "text", placeholder: "ADDRESS", description: "E-mail address of the admin (default none)" },
    "display-name": {
      kind: "text",
      placeholder: "TEXT",
      description: "Display name of the admin (default the login name)",
    },
    ...NEW_DATABASE_OPTION,
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check: (args) => findAdminProblems(adminOf(args)),
  async run(args, io) {
    const admin = adminOf(args);
    const directory = await resolveDataDirectory(args, io);
    const opening = { create: true, mayBeginAnew: args.switches.has(NEW_DATABASE) };
    const changes = await changeAsOperator(directory, { command: "init", opening }, (operator) =>
      setUp(operator, directory, admin),
    );
    removeSetupToken(directory);
    const key = findMintedKey(changes);
    if (args.switches.has("json")) {
      io.stdout(`${JSON.stringify({ organization: admin.org, user: admin.user, key })}\n`);
    } else {
      const summary = `created organization ${admin.org} with admin ${admin.user} in ${directory}`;
      io.stderr(`${summary}; this API key is not shown again:\n`);
      io.stdout(`${key}\n`);
    }
    return EXIT.done;
  },
};

/** @throws CommandError when the data is already in use */
async function setUp(operator: Operator, directory: string, admin: Admin): Promise<readonly Change[]> {
  const { store } = operator;
  if (store.users.count() > 0 || store.organizations.list().length > 0) {
    throw new CommandError(`${directory} is already set up; see assay help apply and assay help key`);
  }
  const result = await applyPlan(operator, createFirstPlan(admin));
  if (result.changes === null) throw new CommandError(result.problems);
  return result.changes;
}

type Admin = { org: string; user: string; email: string | null; displayName: string };

function adminOf({ texts }: Args): Admin {
  const option = (name: string): string | null => texts.get(name)?.[0] ?? null;
  return {
    org: option("org") ?? "",
    user: option("user") ?? "",
    email: option("email"),
    displayName: option("display-name") ?? "",
  };
}

function findAdminProblems({ org, user, email, displayName }: Admin): string[] {
  const problems: string[] = [];
  if (!matches(ORGANIZATION_NAME, org)) problems.push(`--org: give ${NAME_RULE}`);
  if (!matches(USER_NAME, user)) problems.push(`--user: give ${NAME_RULE}`);
  if (org !== "" && org === user)
    problems.push("--org: the name is reserved for the personal organization of the user, give another one");
  if (email !== null && !isEmail(email)) problems.push("--email: give an e-mail address");
  if (!isDisplayName(displayName)) problems.push("--display-name: give one line of at most 256 characters");
  return problems;
}

/** Plans a shared organization with an admin who has one key; the key is generated if `key.text` is null. */
export function createFirstPlan(
  admin: Admin,
  key: { description: string; text: string | null } = { description: "first key", text: null },
): ApplyPlan {
  const place = { line: 1, column: 1 };
  return {
    organizations: [
      {
        name: admin.org,
        kind: "shared",
        public: false,
        features: { controls: true },
        serviceAccounts: [],
        place,
        members: [{ user: admin.user, role: "admin", place }],
      },
    ],
    users: [
      {
        name: admin.user,
        displayName: admin.displayName,
        email: admin.email,
        place,
        apiKeys: [{ description: key.description, key: key.text, expiresAt: 0, place }],
      },
    ],
  };
}

function findMintedKey(changes: readonly Change[]): string {
  const minted = changes.find((change) => change.key !== null);
  if (!minted?.key) throw new Error("the first plan has generated no key");
  return minted.key;
}
