/**
 * Targets of messages in a form: a field for each type, with one address a line. The operations know them as one list
 * with errors such as `targets.2.webhook`, which are shown at the field that the target comes from.
 */
import { TARGET_TYPES } from "../../../domain/notification/targets.ts";
import type { TargetType } from "../../../domain/notification/targets.ts";
import { AppError, invalid } from "../../../errors.ts";
import { textArea } from "../../components/forms.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { inWords } from "../../page/field-words.ts";
import type { Fields } from "../../page/fields.ts";
import type { Visit } from "../../page/page.ts";

/** A target as the operations answer it. */
export type ShownTarget = Readonly<Record<string, unknown>>;
export type SentTarget =
  | { type: "WEBHOOK"; webhook: string; payload_version: "1.0" }
  | { type: "SLACK"; webhook: string }
  | { type: "EMAIL"; emails: string[] };

/** The fields, by the type of their targets. */
const FIELD_OF = { WEBHOOK: "webhooks", SLACK: "slack", EMAIL: "emails" } as const;

const textOf = (target: ShownTarget, key: string): string => (typeof target[key] === "string" ? target[key] : "");
const emailsOf = ({ emails }: ShownTarget): string[] =>
  Array.isArray(emails) ? emails.filter((one): one is string => typeof one === "string") : [];

export const isKnownTarget = ({ type }: ShownTarget): boolean => TARGET_TYPES.some((known) => known === type);

/** The word for a type of targets. */
export const targetWord = (type: unknown): string =>
  type === "WEBHOOK" ? "Webhook" : type === "SLACK" ? "Slack" : type === "EMAIL" ? "E-mail" : "Other";

/** The address of a target, or its addresses, in one line. */
export const targetAddress = (target: ShownTarget): string =>
  target["type"] === "EMAIL" ? emailsOf(target).join(", ") : textOf(target, "webhook") || JSON.stringify(target);

/** @param targets what the fields contain before anything is typed */
export function targetFields(visit: Visit, form: string, targets: readonly ShownTarget[]): Html {
  const linesOf = (type: TargetType): string =>
    targets
      .filter((target) => target["type"] === type)
      .flatMap((target) => (type === "EMAIL" ? emailsOf(target) : [textOf(target, "webhook")]))
      .join("\n");
  return html`${textArea(visit, {
    form,
    name: FIELD_OF.WEBHOOK,
    label: "Webhooks",
    value: linesOf("WEBHOOK"),
    rows: 2,
    isMono: true,
    hint: "One address a line. Each gets a POST with JSON.",
  })}${textArea(visit, {
    form,
    name: FIELD_OF.SLACK,
    label: "Slack",
    value: linesOf("SLACK"),
    rows: 2,
    isMono: true,
    hint: "Incoming webhooks of Slack, or of a chat that accepts the same messages, one a line.",
  })}${textArea(visit, {
    form,
    name: FIELD_OF.EMAIL,
    label: "E-mail",
    value: linesOf("EMAIL"),
    rows: 2,
    isMono: true,
    hint: "One address a line.",
  })}`;
}

/** The targets that the fields name, all mail addresses as one. */
export function readTargetFields(fields: Fields): SentTarget[] {
  const webhooks = linesIn(fields, FIELD_OF.WEBHOOK).map(
    (webhook): SentTarget => ({ type: "WEBHOOK", webhook, payload_version: "1.0" }),
  );
  const slack = linesIn(fields, FIELD_OF.SLACK).map((webhook): SentTarget => ({ type: "SLACK", webhook }));
  const emails = fields.lines(FIELD_OF.EMAIL);
  return [...webhooks, ...slack, ...(emails.length > 0 ? [{ type: "EMAIL" as const, emails }] : [])];
}

/** A URL may contain a comma, so only lines separate them. */
const linesIn = (fields: Fields, name: string): string[] =>
  fields
    .text(name)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

/** Sends the targets, and moves the errors of a refusal to the fields. @throws AppError */
export async function withTargetErrors<T>(targets: readonly { type?: unknown }[], answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof AppError) || error.fields === null) throw error;
    const moved: Record<string, string> = {};
    for (const [name, problem] of Object.entries(error.fields)) {
      const text = inWords(problem);
      const index = /^targets\.(\d+)\b/.exec(name)?.[1];
      const type = index === undefined ? undefined : targets[Number(index)]?.type;
      const field = TARGET_TYPES.find((known) => known === type);
      const place = field ? FIELD_OF[field] : name === "targets" ? FIELD_OF.WEBHOOK : name;
      moved[place] = moved[place] === undefined ? text : `${moved[place]} ${text}`;
    }
    throw invalid(moved);
  }
}
