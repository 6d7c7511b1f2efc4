/** `assay key`: manages API keys of users and service accounts. Works with and without a running server. */
import { parseDuration } from "../../domain/text/units.ts";
import { MAX_EXPIRY_S } from "../../domain/time.ts";
import type { ApiKeyRow } from "../../store/accounts/api-keys.ts";
import type { Store } from "../../store/index.ts";
import { isKeyDescription } from "../apply/apply-file.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { runTransaction, withData } from "../data-directory.ts";
import { CommandError, EXIT, escapeLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { createOperatorChanges } from "../operator-changes.ts";
import type { NamedKeyOwner } from "../../changes/changes.ts";
import { renderTable } from "../table.ts";
import { requireOrganization, requireServiceAccount, requireUser, formatTimestamp } from "../lookup.ts";
import { newSecret, systemSources } from "../../clock.ts";

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
    const description = descriptionOption(args);
    const expiresAt = parseExpiry(args, systemSources.now());
    const directory = await resolveDataDirectory(args, io);
    const key = newSecret();
    const made = withData(directory, (data) =>
      runTransaction(data, () => {
        const owner = find(data.store);
        const id = createOperatorChanges(data.store, "key create").createKey(owner, { key, description, expiresAt });
        return { owner, row: data.store.apiKeys.get(id) };
      }),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ ...present(made.row), key })}\n`);
    else {
      const { row, owner } = made;
      io.stderr(`API key ${row.public_id} of ${owner.name}, ${describeExpiry(row)}; it is not shown again\n`);
      io.stdout(`${key}\n`);
    }
    return EXIT.done;
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
    const keys = withData(directory, ({ store }) =>
      store.apiKeys.listByOwner(find(store)).filter((key) => store.apiKeys.isActive(key)),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ keys: keys.map(present) })}\n`);
    else {
      const row = (key: ApiKeyRow): string[] => [
        key.public_id,
        formatTimestamp(key.created_at),
        formatExpiry(key),
        formatLastUse(key),
        key.description,
      ];
      io.stdout(renderTable(["ID", "CREATED", "EXPIRES", "LAST USED", "DESCRIPTION"], keys.map(row), "no valid keys"));
    }
    return EXIT.done;
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
    const row = withData(directory, (data) =>
      runTransaction(data, () => {
        const owner = find(data.store);
        const key = data.store.apiKeys
          .listByOwner(owner)
          .find((candidate) => candidate.public_id === id && data.store.apiKeys.isActive(candidate));
        if (!key)
          throw new CommandError(
            `API key not found: ${owner.name} has no valid key ${JSON.stringify(id.slice(0, 100))}; see assay key list`,
          );
        createOperatorChanges(data.store, "key revoke").revokeKey(owner, key);
        return key;
      }),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ revoked: row.public_id })}\n`);
    else io.stdout(`revoked ${row.public_id}: ${escapeLine(row.description)}\n`);
    return EXIT.done;
  },
};

/**
 * Reads the options that name the owner, and adds a mistake in them to `problems`.
 * @returns a function that looks the owner up in a store, and throws a CommandError if there is none
 */
function parseOwner(args: Args, problems: string[] = []): (store: Store) => NamedKeyOwner {
  const [user, org, account] = ["user", "org", "service-account"].map((name) => args.texts.get(name)?.[0] ?? null);
  if (typeof user === "string" && org === null && account === null) {
    return (store) => {
      const row = requireUser(store, user);
      return { userId: row.id, name: row.name };
    };
  }
  if (typeof org === "string" && typeof account === "string" && user === null) {
    return (store) => {
      const organization = requireOrganization(store, org);
      const row = requireServiceAccount(store, organization, account);
      return { serviceAccountId: row.id, organizationId: organization.id, name: `${org}/${row.name}` };
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

const descriptionOption = (args: Args): string => args.texts.get("description")?.[0] ?? "";

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

/** Renders a key as the API does (semantics 1.6). */
const present = (row: ApiKeyRow) => ({
  id: row.public_id,
  description: row.description,
  created_at: row.created_at,
  expires_at: row.expires_at,
  last_used_at: row.last_used_at,
  ...(row.grace_period_expires_at === null ? {} : { grace_period_expires_at: row.grace_period_expires_at }),
});

/** Formats the time when a key becomes invalid, or "never". */
function formatExpiry(row: ApiKeyRow): string {
  const ends = [row.expires_at, row.grace_period_expires_at ?? 0].filter((end) => end > 0);
  return ends.length > 0 ? formatTimestamp(Math.min(...ends)) : "never";
}

const describeExpiry = (row: ApiKeyRow): string =>
  formatExpiry(row) === "never" ? "never expires" : `expires ${formatExpiry(row)}`;

const formatLastUse = (row: ApiKeyRow): string =>
  row.last_used_at === 0 ? "never" : formatTimestamp(row.last_used_at);
