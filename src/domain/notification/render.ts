/** Notices as the messages that targets get. */
import { chatBody, renderMessage, mail } from "./chat-and-mail.ts";
import type { NotificationMessage } from "./chat-and-mail.ts";
import { headingOf, linkOf, momentLink, describeArtifactEvent } from "./event.ts";
import type { ArtifactEvent, EventLinks, SnapshotRef, NotificationEvent } from "./event.ts";
import type { Target } from "./targets.ts";
import type { ArtifactTrigger } from "./triggers.ts";

/** What is sent, in the form that its kind of target wants. `body` becomes the JSON text of a POST. */
export type RenderedMessage =
  | { type: "WEBHOOK"; webhook: string; body: Readonly<Record<string, unknown>> }
  | { type: "SLACK"; webhook: string; body: Readonly<Record<string, unknown>> }
  | { type: "EMAIL"; emails: readonly string[]; subject: string; text: string; html: string };

/** Targets where people read. */
export type People = Exclude<Target, { type: "WEBHOOK" }>;

/** A letter in the form that its target wants. */
export const letterTo = (target: People, told: NotificationMessage): RenderedMessage =>
  target.type === "SLACK"
    ? { type: "SLACK", webhook: target.webhook, body: chatBody(told) }
    : { type: "EMAIL", emails: target.emails, ...mail(told) };

/** The message about something to a target: `payload` to machines, `told` to people. */
export const messageTo = (
  target: Target,
  payload: () => Readonly<Record<string, unknown>>,
  told: () => NotificationMessage,
): RenderedMessage =>
  target.type === "WEBHOOK" ? { type: "WEBHOOK", webhook: target.webhook, body: payload() } : letterTo(target, told());

/** Who asked for a message: an action of an organization. */
export type MessageSender = { org: string; action: string; number: number };

const footerOf = ({ org, action, number }: MessageSender): string =>
  `Sent by action ${action} (number ${number}) of organization ${org}.`;

/** One notice as a letter. */
export const noticeLetter = (
  notice: NotificationEvent,
  sender: MessageSender,
  links: EventLinks,
): NotificationMessage =>
  renderMessage({
    heading: headingOf(notice.trigger, notice.subject === "flow" ? notice.flow : notice.moment.environment),
    lines: [notice.description],
    link: linkOf(notice, links),
    footer: footerOf(sender),
  });

/**
 * All that one snapshot raises of one trigger as one letter: people do not read ten thousand of them.
 * @param events the first of them; @param total how many there are.
 */
export const snapshotLetter = (
  trigger: ArtifactTrigger,
  events: readonly ArtifactEvent[],
  total: number,
  moment: SnapshotRef,
  sender: MessageSender,
  links: EventLinks,
): NotificationMessage =>
  renderMessage(
    {
      heading: headingOf(trigger, moment.environment) + (total > 1 ? ` (${total})` : ""),
      lines: events.map(
        (event) =>
          `${event.name}${event.member === null ? "" : ` in ${event.member}`} ${describeArtifactEvent(event)}${originOf(event)}`,
      ),
      link: momentLink(moment, links),
      footer: footerOf(sender),
    },
    total,
  );

const originOf = ({ provenance }: ArtifactEvent): string =>
  provenance === null ? "" : `, built by ${provenance.flow}`;
