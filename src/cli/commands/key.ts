/** `assay key`: manages API keys of users and service accounts. Works with and without a running server. */
import { createApiKey, listApiKeys, revokeApiKey } from "../../api/accounts/api-keys.ts";
import { createApiKeyOfUser, listApiKeysOfUser, revokeApiKeyOfUser } from "../../api/operator/user-api-keys.ts";
import { parseDuration } from "../../domain/text/units.ts";
import { MAX_EXPIRY_S } from "../../domain/time.ts";
import type { Store } from "../../store/index.ts";
import { isKeyDescription } from "../apply/apply-file.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { CommandError, escapeLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { changeAsOperator, withOperator } from "../operator.ts";
import type { AnswerOf } from "../operator.ts";
import { printResult, optionOf } from "../output.ts";
import { renderTable } from "../table.ts";
import { requireOrganization, requireServiceAccount, requireUser, formatTimestamp } from "../lookup.ts";
import { systemSources } from "../../clock.ts";

const OWNER_OPTIONS: Readonly<Record<string, CommandOption>> = {
  user: {
    kind: "text",
    placeholder: "NAME",
    description: "User who owns the key; it gives access to all organizations of the user",
  },
  org: { kind: "text", placeholder: "NAME", description: "Organization of the service account" },
  "service-account": { kind: "text", placeholder: "NAME", description: "Service account that owns the key" },
};
const OWNER_USAGE = "(--user NAME | --org NAME --service-account NAME)";

export const keyCreate: Command = {
  name: "key create",
  summary: "Create an API key",
  usage: `${OWNER_USAGE} --description TEXT [--data DIRECTORY]`,
  details: [
    "Prints the key to stdout, once; the server stores only its hash. It is valid at once, also on a running " +
      "server.",
  ],
  options: {
    ...OWNER_OPTIONS,
    description: { kind: "text", placeholder: "TEXT", description: "What the key is for, 1 to 256 characters" },
    "expires-at": {
      kind: "text",
      placeholder: "TIME",
      description: "When the key expires: epoch seconds, or a time like 2030-12-31T23:59:59Z (default never)",
    },
    "expires-in": {
      kind: "text",
      placeholder: "DURATION",
      description: "How long until the key expires, like 90d, 24h or 1h30m",
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const problems: string[] = [];
    parseOwner(args, problems);
    if (!isKeyDescription(descriptionOption(args))) problems.push("--description: give a text of 1 to 256 characters");
    parseExpiry(args, systemSources.now(), problems);
    return problems;
  },
  async run(args, io) {
    const find = parseOwner(args);
    const body = { description: descriptionOption(args), expires_at: parseExpiry(args, systemSources.now()) };
    const directory = await resolveDataDirectory(args, io);
    const { owner, made } = await changeAsOperator(directory, { command: "key create" }, async ({ call, store }) => {
      const owner = find(store);
      const made =
        "user" in owner.params
          ? await call(createApiKeyOfUser, { params: owner.params, body })
          : await call(createApiKey, { params: owner.params, body });
      return { owner, made };
    });
    const { key, ...shown } = made;
    return printResult(io, args, {
      json: { ...shown, last_used_at: 0, key },
      text: `${key}\n`,
      notice: `API key ${made.id} of ${owner.name}, ${describeExpiry(made)}; it is not shown again\n`,
    });
  },
};

export const keyList: Command = {
  name: "key list",
  summary: "List API keys",
  usage: `${OWNER_USAGE} [--data DIRECTORY]`,
  details: ["Lists valid keys, oldest first. The time of the last use is up to a minute old while a server runs."],
  options: { ...OWNER_OPTIONS, ...DATA_OPTIONS },
  takesConfig: false,
  check: findOwnerProblems,
  async run(args, io) {
    const find = parseOwner(args);
    const directory = await resolveDataDirectory(args, io);
    const keys = await withOperator(directory, { command: "key list" }, async ({ call, store }) => {
      const { params } = find(store);
      return "user" in params ? call(listApiKeysOfUser, { params }) : call(listApiKeys, { params });
    });
    const row = (key: ApiKey): string[] => [
      key.id,
      formatTimestamp(key.created_at),
      formatExpiry(key),
      key.last_used_at === 0 ? "never" : formatTimestamp(key.last_used_at),
      key.description,
    ];
    return printResult(io, args, {
      json: { keys },
      text: renderTable(["ID", "CREATED", "EXPIRES", "LAST USED", "DESCRIPTION"], keys.map(row), "no valid keys"),
    });
  },
};

export const keyRevoke: Command = {
  name: "key revoke",
  summary: "Revoke an API key",
  usage: `ID ${OWNER_USAGE} [--data DIRECTORY]`,
  details: [
    "assay key list shows the ID. The key becomes invalid at once, also on a running server. This cannot be " +
      "undone.",
  ],
  options: { ...OWNER_OPTIONS, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["ID"] },
  check: findOwnerProblems,
  async run(args, io) {
    const find = parseOwner(args);
    const directory = await resolveDataDirectory(args, io);
    const id = args.positionals[0] ?? "";
    const revoked = await changeAsOperator(directory, { command: "key revoke" }, async ({ call, store }) => {
      const { params, ...owner } = find(store);
      const keys = await ("user" in params ? call(listApiKeysOfUser, { params }) : call(listApiKeys, { params }));
      const key = keys.find((one) => one.id === id);
      if (!key)
        throw new CommandError(
          `API key not found: ${owner.name} has no valid key ${JSON.stringify(id.slice(0, 100))}; see assay key list`,
        );
      const at = { key_id: id };
      await ("user" in params
        ? call(revokeApiKeyOfUser, { params: { ...params, ...at } })
        : call(revokeApiKey, { params: { ...params, ...at } }));
      return key;
    });
    return printResult(io, args, {
      json: { revoked: revoked.id },
      text: `revoked ${revoked.id}: ${escapeLine(revoked.description)}\n`,
    });
  },
};

/** Who has a key: `name` as ops or acme/ci-bot, `params` as operations name them. */
type Owner = { name: string; params: { user: string } | { org: string; name: string } };

/**
 * Reads the options that name the owner, and adds a mistake in them to `problems`.
 * @returns a function that looks the owner up in a store, and throws a CommandError if there is none
 */
function parseOwner(args: Args, problems: string[] = []): (store: Store) => Owner {
  const [user, org, account] = ["user", "org", "service-account"].map((name) => optionOf(args, name));
  if (typeof user === "string" && org === null && account === null) {
    return (store) => {
      const { name } = requireUser(store, user);
      return { name, params: { user: name } };
    };
  }
  if (typeof org === "string" && typeof account === "string" && user === null) {
    return (store) => {
      const { name } = requireServiceAccount(store, requireOrganization(store, org), account);
      return { name: `${org}/${name}`, params: { org, name } };
    };
  }
  problems.push("name the owner of the key with --user, or with both --org and --service-account");
  return () => {
    throw new Error("the options that name the owner passed the check of the command line but are invalid");
  };
}

function findOwnerProblems(args: Args): readonly string[] {
  const problems: string[] = [];
  parseOwner(args, problems);
  return problems;
}

const descriptionOption = (args: Args): string => optionOf(args, "description") ?? "";

/** Returns the expiry in whole epoch seconds, 0 for never. */
function parseExpiry(args: Args, now: number, problems: string[] = []): number {
  const at = args.texts.get("expires-at")?.[0];
  const after = args.texts.get("expires-in")?.[0];
  if (at !== undefined && after !== undefined) problems.push("--expires-in: give it or --expires-at, not both");
  if (after !== undefined) {
    const begin = Math.floor(now);
    const seconds = parseDuration(after, 1, MAX_EXPIRY_S - begin);
    if (seconds === null)
      problems.push("--expires-in: give a duration such as 90d, 24h or 1h30m, ending before the year 2100");
    return begin + (seconds ?? 0);
  }
  if (at === undefined) return 0;
  const seconds = /^\d{1,10}$/.test(at) ? Number(at) : parseTimestamp(at);
  if (seconds === null || seconds > MAX_EXPIRY_S) {
    problems.push(
      "--expires-at: give whole epoch seconds up to 4102444800 (0 is never) or a time like 2030-12-31T23:59:59Z",
    );
  } else if (seconds !== 0 && seconds <= now) problems.push("--expires-at: this time is in the past");
  return seconds ?? 0;
}

/** Parses an ISO 8601 time with a time zone to epoch seconds; null for anything else, also for a nonexistent day. */
function parseTimestamp(text: string): number | null {
  const match = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)$/.exec(text);
  const day = new Date(`${match?.[1]}T00:00:00Z`);
  const seconds = Date.parse(text) / 1000;
  return match &&
    !Number.isNaN(seconds) &&
    !Number.isNaN(day.getTime()) &&
    day.toISOString().startsWith(match[1] ?? "-")
    ? seconds
    : null;
}

type ApiKey = AnswerOf<typeof listApiKeys>[number];
type Expiry = Pick<ApiKey, "expires_at" | "grace_period_expires_at">;

/** Formats the time when a key becomes invalid, or "never". */
function formatExpiry({ expires_at, grace_period_expires_at = 0 }: Expiry): string {
  const ends = [expires_at, grace_period_expires_at].filter((end) => end > 0);
  return ends.length > 0 ? formatTimestamp(Math.min(...ends)) : "never";
}

const describeExpiry = (key: Expiry): string =>
  formatExpiry(key) === "never" ? "never expires" : `expires ${formatExpiry(key)}`;
