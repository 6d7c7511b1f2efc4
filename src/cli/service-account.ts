/**
 * `assay service-account`: accounts for machines, each in one organization. Works with and without a running server.
 */
import { ROLES } from "../domain/access.ts";
import type { Role } from "../domain/access.ts";
import type { Store } from "../store/index.ts";
import type { ServiceAccountRow } from "../store/accounts/service-accounts.ts";
import { ACCOUNT_NAME_RULE, isAccountName } from "./apply/apply-file.ts";
import { joinAlternatives } from "./args.ts";
import type { Args, CommandOption } from "./args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "./command-config.ts";
import { runTransaction, withData } from "./data-directory.ts";
import { CommandError, EXIT } from "./framework.ts";
import type { Command } from "./framework.ts";
import { createOperatorChanges } from "./operator-changes.ts";
import { renderTable } from "./table.ts";
import { requireOrganization, requireServiceAccount, formatTimestamp } from "./lookup.ts";

const ORG: CommandOption = { kind: "text", placeholder: "NAME", description: "Organization of the service account" };
const DEFAULT_PRIVILEGE: Role = "reader";
/** semantics 1.5 */
const MAX_DESCRIPTION_CHARS = 512;

export const serviceAccountCreate: Command = {
  name: "service-account create",
  summary: "Create a service account",
  usage: "NAME --org NAME [--privilege ROLE] [--description TEXT] [--data DIRECTORY]",
  details: [
    "The account has no key yet; assay key create --org NAME --service-account NAME creates one. Its name is " +
      "permanent.",
  ],
  options: {
    org: ORG,
    privilege: {
      kind: "text",
      placeholder: "ROLE",
      description: `${joinAlternatives(ROLES)} (default ${DEFAULT_PRIVILEGE})`,
    },
    description: {
      kind: "text",
      placeholder: "TEXT",
      description: `What the account is for, up to ${MAX_DESCRIPTION_CHARS} characters`,
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["NAME"] },
  check(args) {
    const [name] = args.positionals;
    const problems = name === undefined || isAccountName(name) ? [] : [`NAME: give ${ACCOUNT_NAME_RULE}`];
    for (const problem of findOrgProblems(args)) problems.push(problem);
    if (findPrivilege(args) === null) problems.push(`--privilege: give ${joinAlternatives(ROLES)}`);
    const tooLong = Array.from(args.texts.get("description")?.[0] ?? "").length > MAX_DESCRIPTION_CHARS;
    return tooLong ? [...problems, `--description: give at most ${MAX_DESCRIPTION_CHARS} characters`] : problems;
  },
  async run(args, io) {
    const [name = ""] = args.positionals;
    const description = args.texts.get("description")?.[0] || null;
    const privilege = findPrivilege(args) ?? DEFAULT_PRIVILEGE;
    const directory = await resolveDataDirectory(args, io);
    const made = withData(directory, (data) =>
      runTransaction(data, () => {
        const { store } = data;
        const organization = requireOrganization(store, orgOf(args));
        if (organization.kind === "personal") {
          throw new CommandError(
            `${organization.name} is a personal organization; only shared organizations have service accounts`,
          );
        }
        if (store.serviceAccounts.find(organization.id, name))
          throw new CommandError(`${organization.name} already has a service account ${name}`);
        const id = createOperatorChanges(store, "service-account create").createServiceAccount(organization.id, {
          name,
          privilege,
          description,
        });
        return present(store, store.serviceAccounts.get(id));
      }),
    );
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ organization: orgOf(args), service_account: made })}\n`);
    else {
      io.stdout(`created ${orgOf(args)}/${name}: ${privilege}\n`);
      io.stderr(`it has no key yet: assay key create --org ${orgOf(args)} --service-account ${name}\n`);
    }
    return EXIT.done;
  },
};

export const serviceAccountList: Command = {
  name: "service-account list",
  summary: "List service accounts",
  usage: "--org NAME [--data DIRECTORY]",
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  check: (args) => findOrgProblems(args),
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const accounts = withData(directory, ({ store }) => {
      const organization = requireOrganization(store, orgOf(args));
      return store.serviceAccounts.list(organization.id).map((row) => present(store, row));
    });
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ organization: orgOf(args), service_accounts: accounts })}\n`);
    else {
      const rows = accounts.map(({ name, privilege, active_api_keys, created_at, description }) => [
        name,
        privilege,
        String(active_api_keys),
        formatTimestamp(created_at),
        description ?? "-",
      ]);
      io.stdout(
        renderTable(
          ["NAME", "PRIVILEGE", "KEYS", "CREATED", "DESCRIPTION"],
          rows,
          `${orgOf(args)} has no service accounts`,
        ),
      );
    }
    return EXIT.done;
  },
};

export const serviceAccountDelete: Command = {
  name: "service-account delete",
  summary: "Delete a service account and revoke its keys",
  usage: "NAME --org NAME [--data DIRECTORY]",
  details: [
    "Revokes its keys at once, also on a running server; this cannot be undone. Everything that the account " +
      "reported stays. An account that an enabled webhook uses cannot be deleted: see assay help webhook disable.",
  ],
  options: { org: ORG, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["NAME"] },
  check: (args) => findOrgProblems(args),
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const { account, keys } = withData(directory, (data) =>
      runTransaction(data, () => {
        const { store } = data;
        const organization = requireOrganization(store, orgOf(args));
        const found = requireServiceAccount(store, organization, args.positionals[0] ?? "");
        const hooks = store.serviceAccounts.listEnabledWebhookKinds(found.id);
        if (hooks.length > 0) {
          const name = `${organization.name}/${found.name}`;
          throw new CommandError(
            `${name} is in use by the webhook ${hooks.join(" and ")}; disable it first with assay webhook disable`,
          );
        }
        return {
          account: found,
          keys: createOperatorChanges(store, "service-account delete").deleteServiceAccount(found),
        };
      }),
    );
    if (args.switches.has("json"))
      io.stdout(`${JSON.stringify({ organization: orgOf(args), deleted: account.name, revoked_api_keys: keys })}\n`);
    else io.stdout(`deleted ${orgOf(args)}/${account.name}: ${keys} API ${keys === 1 ? "key" : "keys"} revoked\n`);
    return EXIT.done;
  },
};

const orgOf = ({ texts }: Args): string => texts.get("org")?.[0] ?? "";

const findOrgProblems = (args: Args): string[] =>
  orgOf(args) === "" ? ["--org: give the name of an organization"] : [];

/** Null for an unknown role. */
function findPrivilege({ texts }: Args): Role | null {
  const text = texts.get("privilege")?.[0] ?? DEFAULT_PRIVILEGE;
  return ROLES.find((role) => role === text) ?? null;
}

/** Renders an account for --json, with the number of its live keys. */
const present = (store: Store, { id, name, description, privilege, created_at, for_webhook }: ServiceAccountRow) => ({
  name,
  description,
  privilege,
  created_at,
  for_webhook: for_webhook === 1,
  active_api_keys: store.apiKeys.listActive(id).length,
});
