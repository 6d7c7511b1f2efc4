/** Targets of messages in bodies: their shapes, and how they are read. */
import { Type } from "typebox";
import type { Static, TSchema } from "typebox";
import { excerpt } from "../../domain/text/excerpt.ts";
import { PAYLOAD_VERSION, TARGET_TYPES } from "../../domain/notification/targets.ts";
import type { KeptTarget, OtherTarget, Target, TargetType } from "../../domain/notification/targets.ts";
import { MAIL_ADDRESS_PATTERN, isMailAddress } from "../../domain/network/mail-address.ts";
import { TARGET_PATTERN } from "../../domain/network/webhook-url.ts";
import { invalid } from "../../errors.ts";
import type { FieldErrors } from "../../errors.ts";
import {
  CheckedByHandler,
  Closed,
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
import type { OperationContext } from "../context.ts";
import { MAX_DETAIL_BYTES, NAME_LENGTH, Url } from "../../contract/shapes.ts";

/** Far above the size of a team, and few enough to be one message. */
const MOST_ADDRESSES = 100;
/** Targets of one action, or of one kind of notification. */
export const MAX_TARGETS = 50;

export const Webhook = CheckedByHandler(
  { pattern: TARGET_PATTERN, format: "iri" },
  { ...Url, minLength: 1, description: "Address that takes a POST with JSON" },
);
const MailAddress = CheckedByHandler(
  { pattern: MAIL_ADDRESS_PATTERN, format: "idn-email" },
  Type.String({ maxLength: NAME_LENGTH + 64, description: "E-mail address" }),
);
export const Emails = Type.Array(MailAddress, { minItems: 1, maxItems: MOST_ADDRESSES });
export const PayloadVersion = OneOf([PAYLOAD_VERSION], { description: "Version of the payload" });

const ContextPart = Type.String({ maxLength: NAME_LENGTH });
const ChannelProperties = { channel_id: ContextPart, channel_name: ContextPart, team_id: ContextPart };
const SlackAppContext = named("SlackAppContext", Closed(ChannelProperties));
/** Clients may send a target as they read it: its times are the server's own, and are not taken from them. */
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

const OtherTargetInput = Type.Object(
  { type: Type.Optional(Type.Unsafe<unknown>({ not: { enum: [...TARGET_TYPES] } })) },
  { additionalProperties: true, description: "Any other object: kept as it is, and nothing is sent to it" },
);

/** An object whose `type` is none of the three words is kept, and nothing is sent to it (decision 94). */
export const ActionTargets = Type.Array(
  Type.Union([
    PublishedAs(
      WithinBytes(MAX_DETAIL_BYTES, OtherTargetInput),
      WithinBytes(MAX_DETAIL_BYTES, Type.Record(Type.String(), Type.Unknown())),
    ),
    INPUTS.SLACK,
    INPUTS.WEBHOOK,
    INPUTS.EMAIL,
  ]),
  { maxItems: MAX_TARGETS },
);

const isTargetType = (type: unknown): type is TargetType => (TARGET_TYPES as readonly unknown[]).includes(type);

/**
 * The targets of an action. @throws AppError invalid with one text for each field of a target that is none, such as
 * `targets.0.webhook`.
 */
export function readTargets(
  context: Pick<OperationContext, "targetProblem">,
  sent: Static<typeof ActionTargets>,
): KeptTarget[] {
  const problems: Record<string, string> = {};
  const targets = sent.map((target, place): KeptTarget => {
    const other = target as OtherTarget;
    const type = other["type"];
    if (!isTargetType(type)) return { type: null, target: other };
    // The published shape lets every object pass: it begins with the free form.
    const mistakes = validate(INPUTS[type], { ...other }, { mode: "plain", root: "" });
    for (const [field, text] of Object.entries(mistakes ?? {})) problems[`targets.${place}.${field}`] = text;
    const kept = keptForm(other as Target);
    if (!mistakes) Object.assign(problems, addressProblems(context, kept, `targets.${place}`));
    return { type, target: kept };
  });
  if (Object.keys(problems).length > 0) throw invalid(problems);
  return targets;
}

/** A target without what is not the sender's to say, in one form for all spellings. */
function keptForm(target: Target): Target {
  switch (target.type) {
    case "WEBHOOK":
      return { type: "WEBHOOK", webhook: target.webhook, payload_version: PAYLOAD_VERSION };
    case "SLACK":
      return { type: "SLACK", webhook: target.webhook, context: target.context ?? null };
    case "EMAIL":
      return { type: "EMAIL", emails: target.emails };
  }
}

/**
 * What is wrong with the addresses of a target, as far as that can be said without asking for what a name stands for
 * (semantics 8.4).
 */
export function addressProblems(
  { targetProblem }: Pick<OperationContext, "targetProblem">,
  target: Target,
  field: string,
): FieldErrors {
  if (target.type === "EMAIL") {
    const wrong = target.emails.flatMap((email, place) =>
      isMailAddress(email)
        ? []
        : [[`${field}.emails.${place}`, `Input should be an e-mail address [input: ${excerpt(email, SHOWN)}]`]],
    );
    return Object.fromEntries(wrong) as FieldErrors;
  }
  const problem = targetProblem(target.webhook);
  return problem === null ? {} : { [`${field}.webhook`]: `${problem} [input: ${excerpt(target.webhook, SHOWN)}]` };
}

/** Characters of an address that are told: people know it by its beginning. */
const SHOWN = 200;

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
    context: Nullable(named("SlackAppContextResponse", Type.Object(ChannelProperties))),
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
  Type.Union([
    SlackTargetResponse,
    WebhookTargetResponse,
    EmailTargetResponse,
    Type.Record(Type.String(), Type.Unknown()),
  ]),
  { description: "In the order given. Empty for callers who are no members of the organization" },
);

/** A target as answers show it. @throws Error for a damaged record. */
export function presentTarget({
  type,
  target_json,
  last_success_at,
  last_failure_at,
}: TargetRow): Record<string, unknown> {
  const target = JSON.parse(target_json) as Record<string, unknown>;
  return type === null ? target : { ...target, last_success_at, last_failure_at };
}

/** What became of the messages to several targets. Times in epoch seconds, null before the first. */
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
