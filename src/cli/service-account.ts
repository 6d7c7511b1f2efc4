/**
 * `assay service-account`: accounts for machines, each in one organization. Works with and without a running server.
 */
import { createServiceAccount, deleteServiceAccount } from "../api/accounts/service-accounts.ts";
import { ROLES } from "../domain/access.ts";
import type { Role } from "../domain/access.ts";
import type { Store } from "../store/index.ts";
import type { ServiceAccountRow } from "../store/accounts/service-accounts.ts";
import { ACCOUNT_NAME_RULE, isAccountName } from "./apply/apply-file.ts";
import { joinAlternatives } from "./args.ts";
import type { Args, CommandOption } from "./args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "./command-config.ts";
import { withData } from "./data-directory.ts";
import type { Command } from "./framework.ts";
import { changeAsOperator } from "./operator.ts";
import { countOf, printResult, optionOf } from "./output.ts";
import { renderTable } from "./table.ts";
import { findOrgProblems, formatTimestamp, requireOrganization, requireServiceAccount } from "./lookup.ts";

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
    const org = orgOf(args);
    const item = await changeAsOperator(directory, { command: "service-account create" }, async ({ call, store }) => {
      const organization = requireOrganization(store, org);
      await call(createServiceAccount, { params: { org }, body: { name, description, privilege } });
      return present(store, requireServiceAccount(store, organization, name));
    });
    return printResult(io, args, {
      json: { organization: org, service_account: item },
      text: `created ${org}/${name}: ${privilege}\n`,
      notice: `it has no key yet: assay key create --org ${org} --service-account ${name}\n`,
    });
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
    const rows = accounts.map(({ name, privilege, active_api_keys, created_at, description }) => [
      name,
      privilege,
      String(active_api_keys),
      formatTimestamp(created_at),
      description ?? "-",
    ]);
    const headers = ["NAME", "PRIVILEGE", "KEYS", "CREATED", "DESCRIPTION"];
    return printResult(io, args, {
      json: { organization: orgOf(args), service_accounts: accounts },
      text: renderTable(headers, rows, `${orgOf(args)} has no service accounts`),
    });
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
    const org = orgOf(args);
    const { name, keys } = await changeAsOperator(
      directory,
      { command: "service-account delete" },
      async ({ call, store }) => {
        const { id, name } = requireServiceAccount(store, requireOrganization(store, org), args.positionals[0] ?? "");
        const keys = store.apiKeys.listActive(id).length;
        await call(deleteServiceAccount, { params: { org, name } });
        return { name, keys };
      },
    );
    return printResult(io, args, {
      json: { organization: org, deleted: name, revoked_api_keys: keys },
      text: `deleted ${org}/${name}: ${countOf(keys, "API key")} revoked\n`,
    });
  },
};

const orgOf = (args: Args): string => optionOf(args, "org") ?? "";

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
