/** Notices as the messages that targets get. */
import { renderChatBody, renderMessage, renderMail } from "./chat-and-mail.ts";
import type { NotificationMessage } from "./chat-and-mail.ts";
import { formatHeading, buildEventLink, buildSnapshotLink, describeArtifactEvent } from "./event.ts";
import type { ArtifactEvent, EventLinks, SnapshotRef, NotificationEvent } from "./event.ts";
import type { Target } from "./targets.ts";
import type { ArtifactTrigger } from "./triggers.ts";

/** What is sent, in the form that its kind of target wants. `body` becomes the JSON text of a POST. */
export type RenderedMessage =
  | { type: "WEBHOOK"; webhook: string; body: Readonly<Record<string, unknown>> }
  | { type: "SLACK"; webhook: string; body: Readonly<Record<string, unknown>> }
  | { type: "EMAIL"; emails: readonly string[]; subject: string; text: string; html: string };

/** Targets where people read. */
export type PeopleTarget = Exclude<Target, { type: "WEBHOOK" }>;

/** A letter in the form that its target wants. */
export const renderForPeople = (target: PeopleTarget, told: NotificationMessage): RenderedMessage =>
  target.type === "SLACK"
    ? { type: "SLACK", webhook: target.webhook, body: renderChatBody(told) }
    : { type: "EMAIL", emails: target.emails, ...renderMail(told) };

/** The message about something to a target: `payload` to machines, `told` to people. */
export const renderForTarget = (
  target: Target,
  payload: () => Readonly<Record<string, unknown>>,
  told: () => NotificationMessage,
): RenderedMessage =>
  target.type === "WEBHOOK"
    ? { type: "WEBHOOK", webhook: target.webhook, body: payload() }
    : renderForPeople(target, told());

/** Who asked for a message: an action of an organization. */
export type MessageSender = { org: string; action: string; number: number };

const footerOf = ({ org, action, number }: MessageSender): string =>
  `Sent by action ${action} (number ${number}) of organization ${org}.`;

/** One notice as a letter. */
export const composeEventMessage = (
  notice: NotificationEvent,
  sender: MessageSender,
  links: EventLinks,
): NotificationMessage =>
  renderMessage({
    heading: formatHeading(notice.trigger, notice.subject === "flow" ? notice.flow : notice.snapshot.environment),
    lines: [notice.description],
    link: buildEventLink(notice, links),
    footer: footerOf(sender),
  });

/**
 * All that one snapshot raises of one trigger as one letter: people do not read ten thousand of them.
 * @param events the first of them; @param total how many there are.
 */
export const composeSnapshotMessage = (
  trigger: ArtifactTrigger,
  events: readonly ArtifactEvent[],
  total: number,
  moment: SnapshotRef,
  sender: MessageSender,
  links: EventLinks,
): NotificationMessage =>
  renderMessage(
    {
      heading: formatHeading(trigger, moment.environment) + (total > 1 ? ` (${total})` : ""),
      lines: events.map(
        (event) =>
          `${event.name}${event.member === null ? "" : ` in ${event.member}`} ${describeArtifactEvent(event)}${originOf(event)}`,
      ),
      link: buildSnapshotLink(moment, links),
      footer: footerOf(sender),
    },
    total,
  );

const originOf = ({ provenance }: ArtifactEvent): string =>
  provenance === null ? "" : `, built by ${provenance.flow}`;
