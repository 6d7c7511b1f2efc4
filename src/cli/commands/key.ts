/** `assay key`: the API keys of a user or of a service account. Works with and without a running server. */
import { newSecret, systemSources } from "../../server/app.ts";
import { parseDuration } from "../../domain/text/units.ts";
import { LATEST_EXPIRY } from "../../domain/time.ts";
import type { ApiKeyRow } from "../../store/accounts/api-keys.ts";
import type { Store } from "../../store/index.ts";
import { isKeyDescription } from "../apply/apply-file.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import { commandFailure, EXIT, oneLine } from "../framework.ts";
import type { Command } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import type { Owner } from "../operator-changes.ts";
import { tableText } from "../table.ts";
import { requireOrganization, requireServiceAccount, requireUser, shownTime } from "../lookup.ts";

const OWNER_OPTIONS: Readonly<Record<string, CommandOption>> = {
  user: {
    kind: "text",
    placeholder: "NAME",
    description: "User who holds the key; it acts in all organizations of the user",
  },
  org: { kind: "text", placeholder: "NAME", description: "Organization of the service account" },
  "service-account": { kind: "text", placeholder: "NAME", description: "Service account that holds the key" },
};
const OWNER_USAGE = "(--user NAME | --org NAME --service-account NAME)";

export const keyCreate: Command = {
  name: "key create",
  summary: "Create an API key",
  usage: `${OWNER_USAGE} --description TEXT --data DIRECTORY`,
  details: [
    "Prints the key on stdout, once; the server keeps only its hash. It works at once, also on a running server.",
  ],
  options: {
    ...OWNER_OPTIONS,
    description: { kind: "text", placeholder: "TEXT", description: "What the key is for, 1 to 256 characters" },
    "expires-at": {
      kind: "text",
      placeholder: "TIME",
      description: "When it ends: epoch seconds, or like 2030-12-31T23:59:59Z (default never)",
    },
    "expires-in": {
      kind: "text",
      placeholder: "DURATION",
      description: "After how long it ends, like 90d, 24h or 1h30m",
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const problems: string[] = [];
    ownerOption(args, problems);
    if (!isKeyDescription(descriptionOption(args))) problems.push("--description: give a text of 1 to 256 characters");
    expiryOption(args, systemSources.now(), problems);
    return problems;
  },
  async run(args, io) {
    const find = ownerOption(args);
    const description = descriptionOption(args);
    const expiresAt = expiryOption(args, systemSources.now());
    const directory = await dataDirectory(args, io);
    const key = newSecret();
    const made = withData(directory, (data) =>
      change(data, () => {
        const owner = find(data.store);
        const id = operatorOf(data.store, "key create").createKey(owner, { key, description, expiresAt });
        return { owner, row: data.store.apiKeys.get(id) };
      }),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ ...present(made.row), key })}\n`);
    else {
      io.stderr(`API key ${made.row.public_id} of ${made.owner.name}, ${ending(made.row)}; it is not shown again\n`);
      io.stdout(`${key}\n`);
    }
    return EXIT.done;
  },
};

export const keyList: Command = {
  name: "key list",
  summary: "List API keys",
  usage: `${OWNER_USAGE} --data DIRECTORY`,
  details: ["Lists the keys that work, oldest first. When a key was last used is known within a minute."],
  options: { ...OWNER_OPTIONS, ...DATA_OPTIONS },
  takesConfig: false,
  check: ownerProblems,
  async run(args, io) {
    const find = ownerOption(args);
    const directory = await dataDirectory(args, io);
    const keys = withData(directory, ({ store }) =>
      store.apiKeys.listByOwner(find(store)).filter((key) => store.apiKeys.isActive(key)),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ keys: keys.map(present) })}\n`);
    else {
      const row = (key: ApiKeyRow): string[] => [
        key.public_id,
        shownTime(key.created_at),
        endOf(key),
        lastUse(key),
        key.description,
      ];
      io.stdout(
        tableText(["ID", "CREATED", "EXPIRES", "LAST USED", "DESCRIPTION"], keys.map(row), "no keys that work"),
      );
    }
    return EXIT.done;
  },
};

export const keyRevoke: Command = {
  name: "key revoke",
  summary: "Revoke an API key",
  usage: `ID ${OWNER_USAGE} --data DIRECTORY`,
  details: [
    "ID is what assay key list shows. The key ends at once, also on a running server, and cannot be brought back.",
  ],
  options: { ...OWNER_OPTIONS, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["ID"] },
  check: ownerProblems,
  async run(args, io) {
    const find = ownerOption(args);
    const directory = await dataDirectory(args, io);
    const id = args.positionals[0] ?? "";
    const row = withData(directory, (data) =>
      change(data, () => {
        const owner = find(data.store);
        const key = data.store.apiKeys
          .listByOwner(owner)
          .find((candidate) => candidate.public_id === id && data.store.apiKeys.isActive(candidate));
        if (!key)
          throw commandFailure(
            `API key not found: ${owner.name} has no key ${JSON.stringify(id.slice(0, 100))} that works`,
          );
        operatorOf(data.store, "key revoke").revokeKey(owner, key);
        return key;
      }),
    );
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ revoked: row.public_id })}\n`);
    else io.stdout(`revoked ${row.public_id}: ${oneLine(row.description)}\n`);
    return EXIT.done;
  },
};

/**
 * Reads who holds the key. @returns what finds the owner in a store, and throws a command failure where there is none;
 * a mistake in the options goes to `problems`.
 */
function ownerOption(args: Args, problems: string[] = []): (store: Store) => Owner {
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
  problems.push("say who holds the key: give --user, or both --org and --service-account");
  return () => {
    throw new Error("wrong usage is refused before an owner is looked for");
  };
}

function ownerProblems(args: Args): readonly string[] {
  const problems: string[] = [];
  ownerOption(args, problems);
  return problems;
}

const descriptionOption = (args: Args): string => args.texts.get("description")?.[0] ?? "";

/** The end of the key in whole epoch seconds, 0 for never. */
function expiryOption(args: Args, now: number, problems: string[] = []): number {
  const at = args.texts.get("expires-at")?.[0];
  const after = args.texts.get("expires-in")?.[0];
  if (at !== undefined && after !== undefined) problems.push("--expires-in: give it or --expires-at, not both");
  if (after !== undefined) {
    const begin = Math.floor(now);
    const seconds = parseDuration(after, 1, LATEST_EXPIRY - begin);
    if (seconds === null)
      problems.push("--expires-in: give a duration such as 90d, 24h or 1h30m, ending before the year 2100");
    return begin + (seconds ?? 0);
  }
  if (at === undefined) return 0;
  const seconds = /^\d{1,10}$/.test(at) ? Number(at) : timestampOf(at);
  if (seconds === null || seconds > LATEST_EXPIRY) {
    problems.push(
      "--expires-at: give whole epoch seconds up to 4102444800, where 0 is never, or a time like 2030-12-31T23:59:59Z",
    );
  } else if (seconds !== 0 && seconds <= now) problems.push("--expires-at: this time lies in the past");
  return seconds ?? 0;
}

/** Epoch seconds of an ISO 8601 time with its zone; null for anything else, also for a day that does not exist. */
function timestampOf(text: string): number | null {
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

/** A key as the API shows it (semantics 1.6). */
const present = (row: ApiKeyRow) => ({
  id: row.public_id,
  description: row.description,
  created_at: row.created_at,
  expires_at: row.expires_at,
  last_used_at: row.last_used_at,
  ...(row.grace_period_expires_at === null ? {} : { grace_period_expires_at: row.grace_period_expires_at }),
});

/** When a key stops working; "never" where it does not. */
function endOf(row: ApiKeyRow): string {
  const ends = [row.expires_at, row.grace_period_expires_at ?? 0].filter((end) => end > 0);
  return ends.length > 0 ? shownTime(Math.min(...ends)) : "never";
}

const ending = (row: ApiKeyRow): string => (endOf(row) === "never" ? "never expires" : `expires ${endOf(row)}`);

const lastUse = (row: ApiKeyRow): string => (row.last_used_at === 0 ? "never" : shownTime(row.last_used_at));
