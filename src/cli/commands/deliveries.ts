/**
 * `assay deliveries`: the messages to webhooks, Slack and mailboxes, why one did not arrive, and what to do then. Works
 * with and without a running server, which notices within a second. The path of a webhook is its password and is never
 * shown.
 */
import { shownTarget } from "../../notifications/deliver.ts";
import type { AttemptRow, DeliveryRow, DeliveryState } from "../../store/notifications/delivery-log.ts";
import type { Store } from "../../store/index.ts";
import { listed } from "../args.ts";
import type { Args, CommandOption } from "../args.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { change, withData } from "../data-directory.ts";
import { commandFailure, EXIT, oneLine } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import type { Operator } from "../operator-changes.ts";
import { tableText } from "../table.ts";
import { requireOrganization, shownTime } from "../lookup.ts";

const FILTER_OPTIONS: Readonly<Record<string, CommandOption>> = {
  org: { kind: "text", placeholder: "NAME", description: "Only messages of this organization" },
  action: { kind: "text", placeholder: "NAME", description: "Only messages of this action; needs --org" },
};

const STATES: readonly DeliveryState[] = ["waiting", "delivered", "dead"];
const DEFAULT_LIMIT = 100;
const MOST = 1000;
/** Messages that are read at a time. */
const PART = 100;

export const deliveriesList: Command = {
  name: "deliveries list",
  summary: "List messages to webhooks, Slack and mailboxes",
  usage: "[OPTIONS] --data DIRECTORY",
  details: [
    "Newest first. A message waits until it is delivered, or dead: given up after ten attempts or a day, or because its",
    "receiver refused it. What was delivered is kept for 30 days, what is dead until it is retried or purged.",
  ],
  options: {
    ...FILTER_OPTIONS,
    state: { kind: "text", placeholder: "STATE", description: "Only messages that are waiting, delivered or dead" },
    limit: {
      kind: "text",
      placeholder: "NUMBER",
      description: `At most so many, up to ${MOST} (default ${DEFAULT_LIMIT})`,
    },
    before: {
      kind: "text",
      placeholder: "ID",
      description: "Only messages older than this one, for the next part of a long list",
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  check(args) {
    const { state, limit } = listWish(args);
    const problems: string[] = [];
    if (state !== null && !isState(state)) problems.push(`--state: give ${listed(STATES)}`);
    if (limit < 1 || limit > MOST) problems.push(`--limit: give a number from 1 to ${MOST}`);
    return [...problems, ...filterProblems(args)];
  },
  async run(args, io) {
    const { state, limit } = listWish(args);
    const within = filterOf(args);
    const directory = await dataDirectory(args, io);
    const rows = withData(directory, ({ store }) => {
      const beforeId = args.texts.get("before")?.[0];
      const before = beforeId === undefined ? null : findRow(store, beforeId).id;
      return store.deliveryLog.list({ ...within(store), state: state as DeliveryState | null, before }, limit);
    });
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ deliveries: rows.map(present) })}\n`);
    else io.stdout(tableText(COLUMNS, rows.map(cellsOf), "no messages"));
    return EXIT.done;
  },
};

/** `limit` is 0 for what is not a number of up to four digits. */
function listWish({ texts }: Args): { state: string | null; limit: number } {
  const limit = texts.get("limit")?.[0] ?? String(DEFAULT_LIMIT);
  return { state: texts.get("state")?.[0] ?? null, limit: /^\d{1,4}$/.test(limit) ? Number(limit) : 0 };
}

export const deliveriesShow: Command = {
  name: "deliveries show",
  summary: "Show a message with all attempts to deliver it",
  usage: "ID --data DIRECTORY",
  details: ["ID is what assay deliveries list shows, and what the log and the receiver know as the delivery."],
  options: DATA_OPTIONS,
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["ID"] },
  async run(args, io) {
    const directory = await dataDirectory(args, io);
    const { row, attempts } = withData(directory, ({ store }) => {
      const found = findRow(store, args.positionals[0] ?? "");
      return { row: found, attempts: store.deliveryLog.listAttempts(found.id) };
    });
    if (args.switches.has("json"))
      io.stdout(
        `${JSON.stringify({ ...present(row), message: JSON.parse(row.message_json) as unknown, log: attempts.map(presentAttempt) })}\n`,
      );
    else io.stdout(textOf(row, attempts));
    return EXIT.done;
  },
};

const SELECTION_USAGE = "(ID... | --org NAME [--action NAME]) --data DIRECTORY";

export const deliveriesRetry: Command = {
  name: "deliveries retry",
  summary: "Have messages tried again that are dead, or tried at once that wait",
  usage: SELECTION_USAGE,
  details: [
    "With IDs these messages; with --org all dead ones of an organization or of one of its actions. Each gets all its",
    "attempts anew and its old place in the order of its target.",
  ],
  options: { ...FILTER_OPTIONS, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 0, most: MOST, names: ["ID"] },
  check: selectionProblems,
  run: (args, io) =>
    changeSelected(args, io, {
      command: "deliveries retry",
      done: "retried",
      change: (operator, row) => operator.retryDelivery(row),
      refusal: (row) => `${row.public_id} is ${row.state}: only what is dead or waits can be retried`,
    }),
};

export const deliveriesPurge: Command = {
  name: "deliveries purge",
  summary: "Delete messages that are dead",
  usage: SELECTION_USAGE,
  details: [
    "With IDs these messages; with --org all dead ones of an organization or of one of its actions. Nothing brings them back.",
  ],
  options: { ...FILTER_OPTIONS, ...DATA_OPTIONS },
  takesConfig: false,
  positionals: { least: 0, most: MOST, names: ["ID"] },
  check: selectionProblems,
  run: (args, io) =>
    changeSelected(args, io, {
      command: "deliveries purge",
      done: "purged",
      change: (operator, row) => operator.purgeDelivery(row),
      refusal: (row) => `${row.public_id} is ${row.state}: only what is dead can be purged`,
    }),
};

type Selected = {
  command: string;
  done: string;
  change(operator: Operator, row: DeliveryRow): boolean;
  refusal(row: DeliveryRow): string;
};

/** Changes the messages that the words name: all of them or, when one cannot be changed, none. */
async function changeSelected(
  args: Args,
  io: Io,
  { command, done, change: apply, refusal }: Selected,
): Promise<number> {
  const ids = [...new Set(args.positionals)];
  const within = filterOf(args);
  const directory = await dataDirectory(args, io);
  const changed = withData(directory, (data) =>
    change(data, () => {
      const operator = operatorOf(data.store, command);
      const rows = ids.length > 0 ? ids.map((id) => findRow(data.store, id)) : allDead(data.store, within(data.store));
      const names: string[] = [];
      for (const row of rows) {
        if (!apply(operator, row)) throw commandFailure(`${refusal(row)}; nothing was changed`);
        names.push(row.public_id);
      }
      return names;
    }),
  );
  if (args.switches.has("json")) io.stdout(`${JSON.stringify({ [done]: changed })}\n`);
  else io.stdout(changed.length > 0 ? changed.map((id) => `${done} ${id}\n`).join("") : "no message is dead\n");
  return EXIT.done;
}

type Within = { organizationId: number | null; action: string | null };

/** A part at a time: there may be very many, each with its message. */
function* allDead(store: Store, within: Within): Generator<DeliveryRow> {
  let rows: DeliveryRow[] = [];
  do {
    rows = store.deliveryLog.list({ ...within, state: "dead", before: rows.at(-1)?.id ?? null }, PART);
    yield* rows;
  } while (rows.length === PART);
}

function selectionProblems(args: Args): string[] {
  const isChosenOnce = args.positionals.length > 0 !== args.texts.has("org");
  const choose = "say which messages: give their IDs, or --org for all dead ones";
  return [...filterProblems(args), ...(isChosenOnce ? [] : [choose])];
}

const filterProblems = ({ texts }: Args): string[] =>
  texts.has("action") && !texts.has("org")
    ? ["--action: give --org too, names of actions are those of an organization"]
    : [];

/**
 * Reads --org and --action. @returns what finds them in a store, and throws a command failure where they are not there.
 */
function filterOf(args: Args): (store: Store) => Within {
  const [org, action] = ["org", "action"].map((name) => args.texts.get(name)?.[0] ?? null);
  return (store) => {
    if (typeof org !== "string") return { organizationId: null, action: null };
    const organization = requireOrganization(store, org);
    if (typeof action === "string" && !store.deliveryLog.hasAction(organization.id, action))
      throw commandFailure(`${org} has no action ${JSON.stringify(action.slice(0, 100))}`);
    return { organizationId: organization.id, action: action ?? null };
  };
}

function findRow(store: Store, id: string): DeliveryRow {
  const row = store.deliveryLog.find(id);
  if (!row) throw commandFailure(`there is no message ${JSON.stringify(id.slice(0, 100))}`);
  return row;
}

const isState = (text: string): boolean => STATES.some((state) => state === text);

/** A message for --json; times in epoch seconds. */
const present = (row: DeliveryRow) => ({
  id: row.public_id,
  organization: row.organization_name,
  action: row.action_name,
  subject: row.subject,
  type: row.type,
  to: shownTarget(row.target_json),
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

function cellsOf(row: DeliveryRow): string[] {
  const next = row.state === "waiting" && row.attempts > 0 ? shownTime(row.due_at) : "-";
  const to = `${row.type} ${shownTarget(row.target_json)}`;
  const { public_id, created_at, state, organization_name, subject, attempts, last_error } = row;
  return [
    public_id,
    shownTime(created_at),
    state,
    organization_name,
    subject,
    to,
    String(attempts),
    next,
    last_error ?? "-",
  ];
}

function textOf(row: DeliveryRow, attempts: readonly AttemptRow[]): string {
  const facts: readonly (readonly [string, string | null])[] = [
    ["delivery", row.public_id],
    ["organization", row.organization_name],
    ["action", row.action_name],
    ["subject", row.subject],
    ["to", `${row.type} ${shownTarget(row.target_json)}`],
    ["queue", row.queue],
    ["state", row.state],
    ["created", shownTime(row.created_at)],
    [
      "next attempt",
      row.state === "waiting" ? `${shownTime(row.due_at)}, or after those before it in its queue` : null,
    ],
    ["finished", row.finished_at === null ? null : shownTime(row.finished_at)],
    ["last error", row.last_error],
    ["message", row.message_json],
  ];
  const shown = facts.flatMap(([name, value]) =>
    value === null ? [] : [`${`${name}:`.padEnd(14)}${oneLine(value)}\n`],
  );
  const log = attempts.map(({ started_at, seconds, address, status, error }) => {
    const answer = [
      address ?? "no address",
      status === null ? "no answer" : `status ${status}`,
      `${seconds.toFixed(1)} s`,
    ].join(", ");
    return `${oneLine(`  ${shownTime(started_at)}  ${answer}: ${error ?? "accepted"}`)}\n`;
  });
  return `${shown.join("")}${log.length > 0 ? `attempts:\n${log.join("")}` : "attempts:     none\n"}`;
}
