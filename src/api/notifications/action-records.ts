/** Actions as records: their bodies, how they are shown, and how they are created, replaced and deleted. */
import { Type } from "typebox";
import type { Role } from "../../domain/access.ts";
import type { Static } from "typebox";
import { ACTION_NAME } from "../../domain/names.ts";
import { DEFAULT_DAILY_TIME, isTimeZone } from "../../domain/notification/daily-time.ts";
import type { DailyTime } from "../../domain/notification/daily-time.ts";
import { ENVIRONMENT_TRIGGERS, FLOW_TRIGGERS } from "../../domain/notification/triggers.ts";
import { isListOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import { invalid } from "../../errors.ts";
import { json } from "../../http/operation.ts";
import { Closed, Matching, Message, Nullable, Ok, OneOf, named } from "../../http/schema.ts";
import type { ActionFields, ActionKind, ActionRow } from "../../store/notifications/actions.ts";
import type { ReadingContext, LargeReadContext, OperationContext } from "../context.ts";
import { resolveNames } from "../names.ts";
import { MAX_LIST_ITEMS, Name } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { ActionTargets, TargetResponses, summarizeDeliveries, presentTarget, readTargets } from "./targets.ts";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const ActionName = Name(ACTION_NAME, {
  description: "Name of the action, unique in the organization; an existing action with this name is replaced",
});
const Names = (what: string) =>
  Type.Array(Type.String({ maxLength: MAX_NAME_CHARS }), {
    maxItems: MAX_LIST_ITEMS,
    description: `Names of ${what}; their order is kept`,
  });
/** More than all triggers; a repeated trigger counts once. */
const MAX_TRIGGERS = 100;
const Triggers = <const T extends readonly string[]>(words: T) =>
  Type.Array(OneOf(words), { maxItems: MAX_TRIGGERS, description: "Events that send a message; their order is kept" });

const MAX_TIME_ZONE_CHARS = 64;
const TIME_ZONE = "^[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*$";
const DailyAt = named(
  "DailyAt",
  Closed(
    {
      hour: Type.Integer({ minimum: 0, maximum: 23, description: "On the clocks of the time zone" }),
      time_zone: Type.Optional(
        Matching(TIME_ZONE, {
          maxLength: MAX_TIME_ZONE_CHARS,
          default: DEFAULT_DAILY_TIME.timeZone,
          description: "A name of the IANA database, such as `Europe/Berlin`",
        }),
      ),
    },
    {
      description:
        "When the message of `ON_DAILY_CHANGES` is sent; by default at 06:00 UTC. An hour that the clocks leave out " +
        "is an hour later, one that they show twice is the first",
    },
  ),
);

const EnvActionPutInput = named(
  "EnvActionPutInput",
  Closed({
    name: ActionName,
    type: Type.Optional(OneOf(["env"], { default: "env" })),
    environments: Names("environments, physical or logical"),
    triggers: Triggers(ENVIRONMENT_TRIGGERS),
    daily_at: Type.Optional(DailyAt),
    targets: ActionTargets,
  }),
);

export const FlowActionPutInput = named(
  "FlowActionPutInput",
  Closed({
    name: ActionName,
    type: Type.Optional(OneOf(["flow"], { default: "flow" })),
    flows: Names("flows"),
    triggers: Triggers(FLOW_TRIGGERS),
    targets: ActionTargets,
  }),
);

type EnvInput = Static<typeof EnvActionPutInput>;
type FlowInput = Static<typeof FlowActionPutInput>;

/** The properties that actions and environment notifications have in common. */
export const actionProperties = {
  name: Type.String(),
  type: Type.String({ description: "`env` or `flow`" }),
  number: Type.Integer({ description: "Increasing number in the organization; never reused" }),
  triggers: Type.Array(Type.String()),
  daily_at: Type.Optional(
    Closed(
      { hour: Type.Integer(), time_zone: Type.String() },
      { description: "With `ON_DAILY_CHANGES`: when its message is sent" },
    ),
  ),
  targets: TargetResponses,
  created_by: Type.String(),
  is_created_from_slack_app: Type.Boolean({ description: "Whether it was created with a chat channel as its target" }),
  is_failing: Type.Boolean({ description: "Whether the latest message to any of the targets failed" }),
  last_success_timestamp: Nullable(Type.Number({ description: "Epoch seconds" })),
  last_failure_timestamp: Nullable(Type.Number({ description: "Epoch seconds" })),
  created_at: Type.Number(),
  last_modified_at: Type.Number(),
};

/** A target is an object of any shape, so the mark of a damaged one needs no field of its own. */
const UNREADABLE_TARGET = { unreadable: UNREADABLE };
const isTriggerList = isListOf(isText);

/** @param role of the reader: null for one without membership @throws StoredJsonError for a damaged record */
export function presentProperties({ store }: LargeReadContext, row: ActionRow, role: Role | null) {
  const targets = store.actions.listTargets(row);
  return {
    ...presentFrame(row),
    triggers: readStoredJson(row.triggers_json, isTriggerList),
    ...presentDaily(store.dailyChanges.find(row.id)),
    // Anyone who knows the address of a target can write to it, so only members see them (semantics 13.108).
    targets: role === null ? [] : presentEach(targets, presentTarget, () => UNREADABLE_TARGET),
    ...summarizeDeliveries(targets),
  };
}

const presentDaily = (row: { hour: number; time_zone: string } | null) =>
  row === null ? {} : { daily_at: { hour: row.hour, time_zone: row.time_zone } };

/** Takes the place of a damaged record. */
export const placeholderProperties = (row: ActionRow) => ({
  ...presentFrame(row),
  triggers: [UNREADABLE],
  targets: [],
  is_failing: false,
  last_success_timestamp: null,
  last_failure_timestamp: null,
});

const presentFrame = ({ name, kind, number, created_by, from_chat, created_at, last_modified_at }: ActionRow) => ({
  name,
  type: kind,
  number,
  created_by,
  is_created_from_slack_app: from_chat === 1,
  created_at,
  last_modified_at,
});

/** @throws AppError invalid on the time zone */
function readDaily(sent: Static<typeof DailyAt> | undefined): DailyTime {
  if (sent === undefined) return DEFAULT_DAILY_TIME;
  const { hour, time_zone: timeZone = DEFAULT_DAILY_TIME.timeZone } = sent;
  if (isTimeZone(timeZone)) return { hour, timeZone };
  throw invalid({
    "daily_at.time_zone": `Input should be a time zone such as 'Europe/Berlin' or 'UTC' [input: ${timeZone}]`,
  });
}

/** @throws AppError invalid, with all environments or flows that do not exist and all invalid targets */
function readFields(context: ReadingContext, input: EnvInput | FlowInput): ActionFields {
  const { store, organization } = context;
  const places =
    "environments" in input
      ? resolveNames(
          "environments",
          input.environments,
          (name) => store.environments.requireWritable(organization, name).id,
        )
      : resolveNames("flows", input.flows, (name) => store.flows.requireWritable(organization, name).id);
  return {
    name: input.name,
    triggers: [...new Set<string>(input.triggers)],
    daily: readDaily("environments" in input ? input.daily_at : undefined),
    places,
    targets: readTargets(context, input.targets),
    newSecret: context.newSecret,
  };
}

const describeTaken = (name: string, kind: ActionKind): string =>
  `${kind === "env" ? "An environment" : "A flow"} action with this name already exists [input: ${name}]`;

/**
 * Creates an action, or replaces the one with its name.
 * @throws AppError invalid, also for the name of an action of the other kind
 */
export function putAction(context: OperationContext, input: EnvInput | FlowInput): { status: 200 | 201; body: "OK" } {
  const { store, organization, principal, note } = context;
  const kind = "environments" in input ? "env" : "flow";
  const existing = store.actions.findByName(organization.id, input.name);
  if (existing && existing.kind !== kind) throw invalid({ name: describeTaken(input.name, existing.kind) });
  const fields = readFields(context, input);
  if (existing) return updateAction(context, existing, fields);
  const fromChat = fields.targets.some(
    ({ type, target }) => type === "SLACK" && "context" in target && target.context != null,
  );
  const { number } = store.actions.create(
    organization.id,
    { ...fields, kind },
    { user: principal.displayName, fromChat },
  );
  note({ action: input.name, number, created: true, targets: targetTypes(fields) });
  return { status: 201, body: "OK" };
}

/** Replaces an environment action. @throws AppError invalid, also for a name that another action has */
export function replaceAction(context: OperationContext, row: ActionRow, input: EnvInput): { status: 200; body: "OK" } {
  const holder = context.store.actions.findByName(context.organization.id, input.name);
  if (holder && holder.id !== row.id) throw invalid({ name: describeTaken(input.name, holder.kind) });
  return updateAction(context, row, readFields(context, input));
}

function updateAction(
  { store, note }: OperationContext,
  row: ActionRow,
  fields: ActionFields,
): { status: 200; body: "OK" } {
  const changed = store.actions.update(row, fields);
  note({ action: fields.name, number: row.number, created: false, changed, targets: targetTypes(fields) });
  return { status: 200, body: "OK" };
}

const targetTypes = ({ targets }: ActionFields): string[] => targets.map(({ type }) => type ?? "other");

export function deleteActionRecord({ store, note }: OperationContext, row: ActionRow): { status: 200; body: "OK" } {
  store.actions.delete(row);
  note({ action: row.name, number: row.number });
  return { status: 200, body: "OK" };
}

const EXAMPLE: EnvInput = {
  name: "production-alerts",
  type: "env",
  environments: ["production"],
  triggers: ["ON_NON_COMPLIANT_ENV", "ON_COMPLIANT_ENV"],
  targets: [{ type: "WEBHOOK", webhook: "https://hooks.example.com/assay", payload_version: "1.0" }],
};

/** A request that writes an environment action, whatever the path names. */
export const ENVIRONMENT_ACTION_BODY = { body: json(EnvActionPutInput), example: EXAMPLE };

/** The parts that both operations which write environment actions by name have in common. */
export const PUT_ENVIRONMENT_ACTION = {
  permission: "action:write",
  audit: "action.put",
  params: OrgPath,
  query: NoQuery,
  body: ENVIRONMENT_ACTION_BODY.body,
  responses: { 200: { description: "Replaced", schema: Ok }, 201: { description: "Created", schema: Ok } },
  example: { params: { org: "acme" }, body: EXAMPLE },
} as const;

/** The parts that both operations which delete an action have in common. */
export const DELETE_ACTION = {
  permission: "action:write",
  audit: "action.deleted",
  query: NoQuery,
} as const;

export const ACTION_NOT_FOUND = { description: "No such action", schema: Message };
export const ENVIRONMENT_ACTION_NOT_FOUND = { description: "No such environment action", schema: Message };
