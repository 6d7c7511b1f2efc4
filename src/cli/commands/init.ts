/** `assay init`: the first organization with its admin and a key, on data that nobody uses yet. */
import { systemSources } from "../../server/app.ts";
import { voidSetup } from "../../auth/first-admin.ts";
import { matches, ORGANIZATION_NAME, USER_NAME } from "../../domain/names.ts";
import { isDisplayName, isEmail, NAME_RULE } from "../apply/apply-file.ts";
import type { ApplyPlan } from "../apply/apply-file.ts";
import { applyPlan } from "../apply/apply-plan.ts";
import type { Change } from "../apply/apply-plan.ts";
import type { Args } from "../args.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

export const init: Command = {
  name: "init",
  summary: "Set up the first organization, its admin and an API key",
  usage: "--org NAME --user NAME --data DIRECTORY",
  details: [
    "Prints the key on stdout, once; the server keeps only its hash. The data directory is created where it is missing.",
    "Refused on data that has users or organizations already.",
  ],
  options: {
    org: { kind: "text", placeholder: "NAME", description: "Name of the organization" },
    user: { kind: "text", placeholder: "NAME", description: "Login name of its admin" },
    email: { kind: "text", placeholder: "ADDRESS", description: "E-mail address of the admin (default none)" },
    "display-name": {
      kind: "text",
      placeholder: "TEXT",
      description: "What people see of the admin (default the login name)",
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check: (args) => adminProblems(adminOf(args)),
  async run(args, io) {
    const admin = adminOf(args);
    const directory = await dataDirectory(args, io);
    const changes = withData(
      directory,
      (data) =>
        change(data, () => {
          if (data.store.users.count() > 0 || data.store.organizations.list().length > 0) {
            throw commandFailure(`${directory} is set up already; see assay help apply and assay help key`);
          }
          const result = applyPlan(data.store, firstPlan(admin), "init", systemSources.now());
          if (result.changes === null) throw commandFailure(result.problems);
          return result.changes;
        }),
      true,
    );
    voidSetup(directory);
    const key = mintedKey(changes);
    if (args.switches.has("json")) {
      io.stdout(`${JSON.stringify({ organization: admin.org, user: admin.user, key })}\n`);
    } else {
      io.stderr(
        `organization ${admin.org} with its admin ${admin.user}, whose API key follows; it is not shown again\n`,
      );
      io.stdout(`${key}\n`);
    }
    return EXIT.done;
  },
};

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

function adminProblems({ org, user, email, displayName }: Admin): string[] {
  const problems: string[] = [];
  if (!matches(ORGANIZATION_NAME, org)) problems.push(`--org: give ${NAME_RULE}`);
  if (!matches(USER_NAME, user)) problems.push(`--user: give ${NAME_RULE}`);
  if (org !== "" && org === user)
    problems.push("--org: the personal organization of the user bears that name, give another one");
  if (email !== null && !isEmail(email)) problems.push("--email: give an e-mail address");
  if (!isDisplayName(displayName)) problems.push("--display-name: give a text of at most 256 characters on one line");
  return problems;
}

/** A shared organization with an admin who has one key; `key` is its text, null to have it minted. */
export function firstPlan(
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

function mintedKey(changes: readonly Change[]): string {
  const minted = changes.find((made) => made.key !== null);
  if (!minted?.key) throw new Error("the first plan mints a key");
  return minted.key;
}
