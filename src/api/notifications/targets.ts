/** Targets of messages: their shapes in requests and responses, and their validation. */
import { Type } from "typebox";
import type { Static, TSchema } from "typebox";
import { excerpt } from "../../domain/text/excerpt.ts";
import { isObject, readStoredJson } from "../../domain/stored-json.ts";
import { PAYLOAD_VERSION, TARGET_TYPES } from "../../domain/notification/targets.ts";
import type { StoredTarget, OtherTarget, Target, TargetType } from "../../domain/notification/targets.ts";
import { MAIL_ADDRESS_PATTERN, isMailAddress } from "../../domain/network/mail-address.ts";
import { TARGET_PATTERN } from "../../domain/network/webhook-url.ts";
import { invalid } from "../../errors.ts";
import type { FieldErrors } from "../../errors.ts";
import {
  CheckedByHandler,
  Closed,
  ExactlyOne,
  Maybe,
  Nullable,
  OneOf,
  PublishedAs,
  WithinBytes,
  named,
} from "../../http/schema.ts";
import { validate } from "../../http/validate.ts";
import { isTargetFailing } from "../../store/notifications/notification-targets.ts";
import type { TargetRow } from "../../store/notifications/notification-targets.ts";
import type { ReadingContext } from "../context.ts";
import { MAX_DETAIL_BYTES, Url } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";

/** Far more than a team needs, and few enough for one message. */
const MAX_ADDRESSES = 100;
/** Targets of one action, or of one notification type. */
export const MAX_TARGETS = 50;

export const Webhook = CheckedByHandler(
  { pattern: TARGET_PATTERN, format: "iri" },
  { ...Url, minLength: 1, description: "URL that accepts a POST with JSON" },
);
const MailAddress = CheckedByHandler(
  { pattern: MAIL_ADDRESS_PATTERN, format: "idn-email" },
  Type.String({ maxLength: MAX_NAME_CHARS + 64, description: "E-mail address" }),
);
export const Emails = Type.Array(MailAddress, { minItems: 1, maxItems: MAX_ADDRESSES });
export const PayloadVersion = OneOf([PAYLOAD_VERSION], { description: "Version of the payload" });

const ChannelField = Type.String({ maxLength: MAX_NAME_CHARS });
const channelProperties = { channel_id: ChannelField, channel_name: ChannelField, team_id: ChannelField };
const SlackAppContext = named("SlackAppContext", Closed(channelProperties));
/** Clients may send back a target as they read it; its times are set by the server and ignored in requests. */
const READ_ONLY = {
  last_success_at: Maybe(Type.Number({ description: "Ignored" })),
  last_failure_at: Maybe(Type.Number({ description: "Ignored" })),
};

const INPUTS = {
  SLACK: named(
    "SlackActionTarget",
    Closed({
      type: OneOf(["SLACK"], { default: "SLACK" }),
      ...READ_ONLY,
      webhook: Webhook,
      context: Maybe(SlackAppContext),
    }),
  ),
  WEBHOOK: named(
    "WebhookActionTarget",
    Closed({
      type: OneOf(["WEBHOOK"], { default: "WEBHOOK" }),
      ...READ_ONLY,
      webhook: Webhook,
      payload_version: Type.Optional({ ...PayloadVersion, default: PAYLOAD_VERSION }),
    }),
  ),
  EMAIL: named(
    "EmailActionTarget",
    Closed({ type: OneOf(["EMAIL"], { default: "EMAIL" }), ...READ_ONLY, emails: Emails }),
  ),
} satisfies Record<TargetType, TSchema>;

const UnusedTarget = named(
  "UnusedActionTarget",
  Type.Object(
    { type: Type.Optional(Type.Unsafe<unknown>({ not: { enum: [...TARGET_TYPES] } })) },
    { additionalProperties: true, description: "Any other object: stored as sent, but never used" },
  ),
);

/** A target of any other `type` is stored, but nothing is sent to it (semantics 13.94). */
export const ActionTargets = Type.Array(
  named(
    "ActionTarget",
    ExactlyOne([
      PublishedAs(
        WithinBytes(MAX_DETAIL_BYTES, UnusedTarget),
        WithinBytes(MAX_DETAIL_BYTES, Type.Record(Type.String(), Type.Unknown())),
      ),
      INPUTS.SLACK,
      INPUTS.WEBHOOK,
      INPUTS.EMAIL,
    ]),
  ),
  { maxItems: MAX_TARGETS },
);

const isTargetType = (type: unknown): type is TargetType => (TARGET_TYPES as readonly unknown[]).includes(type);

/**
 * Validates the targets of an action.
 * @throws AppError invalid, with a text for each invalid field, such as `targets.0.webhook`
 */
export function readTargets(
  context: Pick<ReadingContext, "targetProblem">,
  sent: Static<typeof ActionTargets>,
): StoredTarget[] {
  const problems: Record<string, string> = {};
  const targets = sent.map((target, index): StoredTarget => {
    const other = target as OtherTarget;
    const type = other["type"];
    if (!isTargetType(type)) return { type: null, target: other };
    // The published schema accepts every object, because its first alternative is the free form.
    const mistakes = validate(INPUTS[type], { ...other }, { mode: "plain", root: "" });
    for (const [field, text] of Object.entries(mistakes ?? {})) problems[`targets.${index}.${field}`] = text;
    const stored = toStoredTarget(other as Target);
    if (!mistakes) Object.assign(problems, findAddressProblems(context, stored, `targets.${index}`));
    return { type, target: stored };
  });
  if (Object.keys(problems).length > 0) throw invalid(problems);
  return targets;
}

/** A target without read-only fields, and with its defaults. */
function toStoredTarget(target: Target): Target {
  switch (target.type) {
    case "WEBHOOK":
      return { type: "WEBHOOK", webhook: target.webhook, payload_version: PAYLOAD_VERSION };
    case "SLACK":
      return { type: "SLACK", webhook: target.webhook, context: target.context ?? null };
    case "EMAIL":
      return { type: "EMAIL", emails: target.emails };
  }
}

/** Characters of an address in an error text; the start identifies it. */
const MAX_SHOWN_ADDRESS_CHARS = 200;

/**
 * Problems of the addresses of a target that can be found without resolving names (semantics 8.4).
 * @param field path of the target in the request, such as `targets.0`
 */
export function findAddressProblems(
  { targetProblem }: Pick<ReadingContext, "targetProblem">,
  target: Target,
  field: string,
): FieldErrors {
  if (target.type === "EMAIL") {
    const problems: Record<string, string> = {};
    for (const [index, email] of target.emails.entries())
      if (!isMailAddress(email))
        problems[`${field}.emails.${index}`] = `Input should be an e-mail address ${inputText(email)}`;
    return problems;
  }
  const problem = targetProblem(target.webhook);
  return problem === null ? {} : { [`${field}.webhook`]: `${problem} ${inputText(target.webhook)}` };
}

/** The end of an error text that quotes an address. */
export const inputText = (address: string): string => `[input: ${excerpt(address, MAX_SHOWN_ADDRESS_CHARS)}]`;

const times = {
  last_success_at: Nullable(Type.Number({ description: "Epoch seconds" })),
  last_failure_at: Nullable(Type.Number({ description: "Epoch seconds" })),
};
const SlackTargetResponse = named(
  "SlackTargetResponse",
  Type.Object({
    type: OneOf(["SLACK"]),
    webhook: Type.String(),
    ...times,
    context: Nullable(named("SlackAppContextResponse", Type.Object(channelProperties))),
  }),
);
const WebhookTargetResponse = named(
  "WebhookTargetResponse",
  Type.Object({ type: OneOf(["WEBHOOK"]), webhook: Type.String(), payload_version: Type.String(), ...times }),
);
const EmailTargetResponse = named(
  "EmailTargetResponse",
  Type.Object({ type: OneOf(["EMAIL"]), emails: Type.Array(Type.String()), ...times }),
);

export const TargetResponses = Type.Array(
  named(
    "TargetResponse",
    Type.Union([
      SlackTargetResponse,
      WebhookTargetResponse,
      EmailTargetResponse,
      named("UnusedTargetResponse", Type.Record(Type.String(), Type.Unknown())),
    ]),
  ),
  { description: "In the given order. Empty for callers who are not members of the organization" },
);

/** @throws StoredJsonError for a damaged record */
export function presentTarget({
  type,
  target_json,
  last_success_at,
  last_failure_at,
}: TargetRow): Record<string, unknown> {
  const target = readStoredJson(target_json, isObject);
  return type === null ? target : { ...target, last_success_at, last_failure_at };
}

/** The outcome of the messages to all targets. Times in epoch seconds, null before the first. */
export function summarizeDeliveries(rows: readonly TargetRow[]): {
  is_failing: boolean;
  last_success_timestamp: number | null;
  last_failure_timestamp: number | null;
} {
  const latest = (times: (number | null)[]): number | null =>
    times.reduce((last, time) => (last === null || (time ?? 0) > last ? time : last), null);
  return {
    is_failing: rows.some(isTargetFailing),
    last_success_timestamp: latest(rows.map(({ last_success_at }) => last_success_at)),
    last_failure_timestamp: latest(rows.map(({ last_failure_at }) => last_failure_at)),
  };
}
