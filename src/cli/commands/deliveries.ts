/**
 * `assay deliveries`: lists, retries and deletes messages to webhooks, Slack and e-mail. Works with and without a
 * running server, which notices a change within a second. Never prints the path of a webhook URL, because it is a
 * credential.
 */
import type { AttemptRow, DeliveryRow, DeliveryState } from "../../store/notifications/delivery-log.ts";
import { isObject, readStoredJson } from "../../domain/stored-json.ts";
import type { Store } from "../../store/index.ts";
import { purgeDeliveries, retryDeliveries } from "../../api/operator/deliveries.ts";
import { joinAlternatives } from "../args.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { withData } from "../data-directory.ts";
import { CommandError, escapeLine } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { withOperator } from "../operator.ts";
import { printResult } from "../output.ts";
import { renderTable } from "../table.ts";
import { requireOrganization, formatTimestamp } from "../lookup.ts";
import { describeTarget } from "../../domain/notification/targets.ts";

const FILTER_OPTIONS: Readonly<Record<string, CommandOption>> = {
  org: { kind: "text", placeholder: "NAME", description: "Only messages of this organization" },
  action: { kind: "text", placeholder: "NAME", description: "Only messages of this action; needs --org" },
};

const STATES: readonly DeliveryState[] = ["waiting", "delivered", "dead"];
const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1000;
/** Messages per read. */
const PAGE_SIZE = 100;

export const deliveriesList: Command = {
  name: "deliveries list",
  summary: "List messages to webhooks, Slack and e-mail",
  usage: "[OPTIONS] [--data DIRECTORY]",
  details: [
    "Newest first. A waiting message becomes delivered, or dead (a dead letter) after ten attempts, after a day, " +
      "or when its receiver rejects it. Delivered messages are kept for 30 days, dead letters until they are " +
      "retried or purged.",
  ],
  options: {
    ...FILTER_OPTIONS,
    state: {
      kind: "text",
      placeholder: "STATE",
      description: "Only messages in this state: waiting, delivered or dead",
    },
    limit: {
      kind: "text",
      placeholder: "NUMBER",
      description: `Maximum number of messages, up to ${MAX_LIMIT} (default ${DEFAULT_LIMIT})`,
    },
    before: {
      kind: "text",
      placeholder: "ID",
      description: "Only messages older than this one, to continue a long list",
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const { state, limit } = parseListArguments(args);
    const problems: string[] = [];
    if (state !== null && !isState(state)) problems.push(`--state: give ${joinAlternatives(STATES)}`);
    if (limit < 1 || limit > MAX_LIMIT) problems.push(`--limit: give a number from 1 to ${MAX_LIMIT}`);
    return [...problems, ...findFilterProblems(args)];
  },
  async run(args, io) {
    const { state, limit } = parseListArguments(args);
    const within = parseFilter(args);
    const directory = await resolveDataDirectory(args, io);
    const rows = withData(directory, ({ store }) => {
      const beforeId = args.texts.get("before")?.[0];
      const before = beforeId === undefined ? null : requireDelivery(store, beforeId).id;
      return store.deliveryLog.list({ ...within(store), state: state as DeliveryState | null, before }, limit);
    });
    return printResult(io, args, {
      json: { deliveries: rows.map(present) },
      text: renderTable(COLUMNS, rows.map(deliveryCells), "no messages"),
    });
  },
};

/** `limit` is 0 unless it is a number of up to four digits. */
function parseListArguments({ texts }: Args): { state: string | null; limit: number } {
  const limit = texts.get("limit")?.[0] ?? String(DEFAULT_LIMIT);
  return { state: texts.get("state")?.[0] ?? null, limit: /^\d{1,4}$/.test(limit) ? Number(limit) : 0 };
}

export const deliveriesShow: Command = {
  name: "deliveries show",
  summary: "Show a message and its delivery attempts",
  usage: "ID [--data DIRECTORY]",
  details: ["assay deliveries list shows the ID; the log and the receiver also refer to the message by it."],
  options: DATA_OPTIONS,
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["ID"] },
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io);
    const { row, attempts } = withData(directory, ({ store }) => {
      const found = requireDelivery(store, args.positionals[0] ?? "");
      return { row: found, attempts: store.deliveryLog.listAttempts(found.id) };
    });
    const message = readStoredJson(row.message_json, isObject);
    return printResult(io, args, {
      json: { ...present(row), message, log: attempts.map(presentAttempt) },
      text: renderDelivery(row, attempts),
    });
  },
};

const SELECTION_USAGE = "(ID... | --org NAME [--action NAME]) [--data DIRECTORY]";

export const deliveriesRetry: Command = {
  name: "deliveries retry",
  summary: "Retry dead letters, or waiting messages at once",
  usage: SELECTION_USAGE,
  details: [
    "IDs select messages; --org selects all dead letters of an organization or, with --action, of one of its " +
      "actions. Each message gets the full number of attempts again and keeps its place in the queue of its target.",
  ],
  options: { ...FILTER_OPTIONS, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 0, max: MAX_LIMIT, names: ["ID"] },
  check: findSelectionProblems,
  run: (args, io) =>
    changeSelected(args, io, { command: "deliveries retry", done: "retried", operation: retryDeliveries }),
};

export const deliveriesPurge: Command = {
  name: "deliveries purge",
  summary: "Delete dead letters",
  usage: SELECTION_USAGE,
  details: [
    "IDs select messages; --org selects all dead letters of an organization or, with --action, of one of its " +
      "actions. This cannot be undone.",
  ],
  options: { ...FILTER_OPTIONS, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { min: 0, max: MAX_LIMIT, names: ["ID"] },
  check: findSelectionProblems,
  run: (args, io) =>
    changeSelected(args, io, { command: "deliveries purge", done: "purged", operation: purgeDeliveries }),
};

type SelectionChange = {
  command: string;
  done: string;
  operation: typeof retryDeliveries | typeof purgeDeliveries;
};

/** Changes the selected messages: all that the IDs name or none; all dead letters otherwise. */
async function changeSelected(args: Args, io: Io, { command, done, operation }: SelectionChange): Promise<number> {
  const within = parseFilter(args);
  const directory = await resolveDataDirectory(args, io);
  const changed: string[] = [];
  const note = (ids: readonly string[]): void => {
    for (const id of ids) changed.push(id);
  };
  try {
    await withOperator(directory, { command }, async ({ call, store, oneOfMany }) => {
      if (args.positionals.length > 0)
        return note((await call(operation, { body: { ids: [...args.positionals] } })).ids);
      const filter = within(store);
      let rows: DeliveryRow[] = [];
      // A page in each transaction: there may be very many, and the server waits for each.
      do {
        const before = rows.at(-1)?.id ?? null;
        rows = await oneOfMany(async () => {
          const page = store.deliveryLog.list({ ...filter, state: "dead", before }, PAGE_SIZE);
          if (page.length > 0) await call(operation, { body: { ids: page.map(({ public_id }) => public_id) } });
          return page;
        });
        note(rows.map(({ public_id }) => public_id));
      } while (rows.length === PAGE_SIZE);
    });
  } catch (error) {
    if (changed.length === 0 || !(error instanceof CommandError)) throw error;
    const before = `${done} ${changed.length} messages before that; run the same command again for the others`;
    throw new CommandError([...error.problems, before], error.exitCode);
  }
  return printResult(io, args, {
    json: { [done]: changed },
    text: changed.map((id) => `${done} ${id}\n`).join("") || "there are no dead messages\n",
  });
}

type DeliveryFilter = { organizationId: number | null; action: string | null };

function findSelectionProblems(args: Args): string[] {
  const isChosenOnce = args.positionals.length > 0 !== args.texts.has("org");
  const choose = "select messages by their IDs, or all dead letters with --org";
  return [...findFilterProblems(args), ...(isChosenOnce ? [] : [choose])];
}

const findFilterProblems = ({ texts }: Args): string[] =>
  texts.has("action") && !texts.has("org")
    ? ["--action: give --org too, because an action belongs to an organization"]
    : [];

/**
 * Reads --org and --action.
 * @returns a function that looks them up in a store, and throws a CommandError if they do not exist
 */
function parseFilter(args: Args): (store: Store) => DeliveryFilter {
  const [org, action] = ["org", "action"].map((name) => args.texts.get(name)?.[0] ?? null);
  return (store) => {
    if (typeof org !== "string") return { organizationId: null, action: null };
    const organization = requireOrganization(store, org);
    if (typeof action === "string" && !store.deliveryLog.hasAction(organization.id, action))
      throw new CommandError(`${org} has no action ${JSON.stringify(action.slice(0, 100))}`);
    return { organizationId: organization.id, action: action ?? null };
  };
}

function requireDelivery(store: Store, id: string): DeliveryRow {
  const row = store.deliveryLog.find(id);
  if (!row)
    throw new CommandError(`there is no message ${JSON.stringify(id.slice(0, 100))}; see assay deliveries list`);
  return row;
}

const isState = (text: string): boolean => STATES.some((state) => state === text);

/** Renders a message for --json; times in epoch seconds. */
const present = (row: DeliveryRow) => ({
  id: row.public_id,
  organization: row.organization_name,
  action: row.action_name,
  subject: row.subject,
  type: row.type,
  to: describeTarget(row.target_json),
  queue: row.queue,
  state: row.state,
  attempts: row.attempts,
  created_at: row.created_at,
  next_attempt_at: row.state === "waiting" ? row.due_at : null,
  finished_at: row.finished_at,
  last_error: row.last_error,
});

const presentAttempt = ({ started_at, seconds, address, status, error }: AttemptRow) => ({
  started_at,
  seconds,
  address,
  status,
  error,
});

const COLUMNS = ["ID", "CREATED", "STATE", "ORGANIZATION", "SUBJECT", "TO", "ATTEMPTS", "NEXT ATTEMPT", "LAST ERROR"];

function deliveryCells(row: DeliveryRow): string[] {
  const next = row.state === "waiting" && row.attempts > 0 ? formatTimestamp(row.due_at) : "-";
  const to = `${row.type} ${describeTarget(row.target_json)}`;
  const { public_id, created_at, state, organization_name, subject, attempts, last_error } = row;
  return [
    public_id,
    formatTimestamp(created_at),
    state,
    organization_name,
    subject,
    to,
    String(attempts),
    next,
    last_error ?? "-",
  ];
}

function renderDelivery(row: DeliveryRow, attempts: readonly AttemptRow[]): string {
  const facts: readonly (readonly [string, string | null])[] = [
    ["delivery", row.public_id],
    ["organization", row.organization_name],
    ["action", row.action_name],
    ["subject", row.subject],
    ["to", `${row.type} ${describeTarget(row.target_json)}`],
    ["queue", row.queue],
    ["state", row.state],
    ["created", formatTimestamp(row.created_at)],
    [
      "next attempt",
      row.state === "waiting" ? `${formatTimestamp(row.due_at)}, or after the messages before it in its queue` : null,
    ],
    ["finished", row.finished_at === null ? null : formatTimestamp(row.finished_at)],
    ["last error", row.last_error],
    ["message", row.message_json],
  ];
  const lines = facts.flatMap(([name, value]) =>
    value === null ? [] : [`${`${name}:`.padEnd(14)}${escapeLine(value)}\n`],
  );
  const log = attempts.map(({ started_at, seconds, address, status, error }) => {
    const answer = [
      address ?? "no address",
      status === null ? "no response" : `status ${status}`,
      `${seconds.toFixed(1)} s`,
    ].join(", ");
    return `${escapeLine(`  ${formatTimestamp(started_at)}  ${answer}: ${error ?? "accepted"}`)}\n`;
  });
  return `${lines.join("")}${log.length > 0 ? `attempts:\n${log.join("")}` : "attempts:     none\n"}`;
}
