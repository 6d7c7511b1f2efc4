/** Renders events as the messages that targets receive. */
import { truncate } from "../text/excerpt.ts";
import { renderChangesMail } from "./changes-mail.ts";
import type { DayMessage } from "./changes-mail.ts";
import { renderChatBody, renderMessage, renderMail } from "./chat-and-mail.ts";
import type { NotificationMessage } from "./chat-and-mail.ts";
import { formatHeading, buildEventLink, buildSnapshotLink, describeArtifactEvent } from "./event.ts";
import type { ArtifactEvent, EventLinks, SnapshotRef, NotificationEvent } from "./event.ts";
import { PAYLOAD_VERSION } from "./targets.ts";
import type { Target } from "./targets.ts";
import { eventTypeOf } from "./triggers.ts";
import type { ArtifactTrigger } from "./triggers.ts";

/** A message in the form of its target type. `body` is the JSON body of a POST. */
export type RenderedMessage =
  | { type: "WEBHOOK"; webhook: string; body: Readonly<Record<string, unknown>> }
  | { type: "SLACK"; webhook: string; body: Readonly<Record<string, unknown>> }
  | { type: "EMAIL"; emails: readonly string[]; subject: string; text: string; html: string };

/** Targets that people read. */
type PeopleTarget = Exclude<Target, { type: "WEBHOOK" }>;

/** Renders a message for a target that people read. */
export const renderForPeople = (target: PeopleTarget, message: NotificationMessage): RenderedMessage =>
  target.type === "SLACK"
    ? { type: "SLACK", webhook: target.webhook, body: renderChatBody(message) }
    : { type: "EMAIL", emails: target.emails, ...renderMail(message) };

/**
 * Renders a message for any target.
 * @param buildPayload the payload for a WEBHOOK; called only for one
 * @param composeMessage the message for people; called only for the other targets
 */
export const renderForTarget = (
  target: Target,
  buildPayload: () => Readonly<Record<string, unknown>>,
  composeMessage: () => NotificationMessage,
): RenderedMessage =>
  target.type === "WEBHOOK"
    ? { type: "WEBHOOK", webhook: target.webhook, body: buildPayload() }
    : renderForPeople(target, composeMessage());

/** Renders what changed in a day. Chats get one line a change, below the verdict. */
export function renderForDay(target: Target, { mail, facts }: DayMessage): RenderedMessage {
  if (target.type === "WEBHOOK") {
    const head = { version: PAYLOAD_VERSION, event_type: eventTypeOf("ON_DAILY_CHANGES") };
    return { type: "WEBHOOK", webhook: target.webhook, body: { ...head, ...facts } };
  }
  if (target.type === "EMAIL") return { type: "EMAIL", emails: target.emails, ...renderChangesMail(mail) };
  const { subject: heading, sections, button: link, footer } = mail;
  const lines = sections.flatMap(({ title, rows }) =>
    rows.map((row) => [...row.why.map(({ text }) => text), `${row.title} (${title}, ${row.when})`].join(" - ")),
  );
  const omitted = sections.reduce((sum, section) => sum + section.omitted, 0);
  return renderForPeople(target, renderMessage({ heading, lines, link, footer }, lines.length + omitted));
}

/** The action that sends a message. */
export type MessageSender = { org: string; action: string; number: number };

const footerOf = ({ org, action, number }: MessageSender): string =>
  `Sent by action ${action} (number ${number}) of organization ${org}.`;

/** The heading of a mail stays readable behind this much of the cause. */
const MAX_WHY_CHARS = 90;

/** A text behind the cause, because a phone shows the first 40 characters only. */
const afterCause = (why: string | undefined, text: string): string =>
  why === undefined || why === "" ? text : `${truncate(why, MAX_WHY_CHARS)} - ${text}`;

/** Composes the message about one event. */
export function composeEventMessage(
  event: NotificationEvent,
  sender: MessageSender,
  links: EventLinks,
): NotificationMessage {
  const heading = formatHeading(event.trigger, event.subject === "flow" ? event.flow : event.snapshot.environment);
  const shared = { link: buildEventLink(event, links), footer: footerOf(sender) };
  if (event.subject !== "environment" || event.failing.length === 0)
    return renderMessage({ heading, lines: [event.description], ...shared });
  const { failing, nonCompliant } = event;
  return renderMessage(
    {
      heading: afterCause(failing[0]?.why, heading),
      lines: failing.map(({ name, why }) => (why === "" ? name : `${why} - ${name}`)),
      ...shared,
    },
    Math.max(nonCompliant, failing.length),
  );
}

/** The events of one trigger in a snapshot: the first of them, and their total number. */
type SnapshotEvents = {
  trigger: ArtifactTrigger;
  events: readonly ArtifactEvent[];
  total: number;
  snapshot: SnapshotRef;
};

/** Composes one message about all events of a trigger in a snapshot, because no one reads ten thousand messages. */
export function composeSnapshotMessage(
  { trigger, events, total, snapshot }: SnapshotEvents,
  sender: MessageSender,
  links: EventLinks,
): NotificationMessage {
  const message = {
    heading: afterCause(
      events.find(({ why }) => why !== undefined)?.why,
      formatHeading(trigger, snapshot.environment) + (total > 1 ? ` (${total})` : ""),
    ),
    lines: events.map(describeLine),
    link: buildSnapshotLink(snapshot, links),
    footer: footerOf(sender),
  };
  return renderMessage(message, total);
}

function describeLine(event: ArtifactEvent): string {
  const place = event.member === null ? "" : ` in ${event.member}`;
  const origin = event.provenance === null ? "" : `, built by ${event.provenance.flow}`;
  const text = `${event.name}${place} ${describeArtifactEvent(event)}${origin}`;
  return event.why === undefined || event.why === "" ? text : `${event.why} - ${text}`;
}
