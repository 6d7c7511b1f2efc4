/**
 * Makes the messages that actions ask for, from the happening that a committed write named (store/triggers.ts). They
 * are put into the outbox in the write that ends the job, so each is put there once, whenever the process ends.
 *
 * A WEBHOOK gets one message for each event, as its receivers expect; a snapshot with which ten thousand artifacts
 * start takes many short turns. People get one message for each trigger and snapshot, with the first events and the
 * number of the others. What turns an environment over is told before the events that did it, so that it waits for none
 * of them.
 */
import { letterTo, messageTo, noticeLetter, snapshotLetter } from "../domain/notification/render.ts";
import type { RenderedMessage, MessageSender } from "../domain/notification/render.ts";
import { MOST_LINES } from "../domain/notification/chat-and-mail.ts";
import { allowedNotice, artifactNotice, environmentNotice, flowNotice } from "../domain/notification/event.ts";
import type { EventLinks, NotificationEvent } from "../domain/notification/event.ts";
import type { Target } from "../domain/notification/targets.ts";
import { ARTIFACT_TRIGGERS, eventTypeOf, transitionOf, triggerOf } from "../domain/notification/triggers.ts";
import type { EnvironmentTrigger, FlowTrigger } from "../domain/notification/triggers.ts";
import { webhookPayload } from "../domain/notification/webhook.ts";
import type { Store } from "../store/index.ts";
import { queueOf } from "../store/notifications/notification-targets.ts";
import type { NotifyPayload } from "../store/notifications/triggers.ts";
import type { Settlement } from "../jobs/job-runner.ts";

/** Messages of a turn. Making one takes a tenth of a millisecond, and the loop may be held for 20 ms. */
const PER_TURN = 100;

type Trigger = EnvironmentTrigger | FlowTrigger;
/** Somebody to tell: a target of an action, with what the action listens to. */
type Recipient = {
  sender: Omit<MessageSender, "org">;
  triggers: ReadonlySet<string>;
  targetId: number;
  target: Target;
};
type Composed = { recipient: Recipient; trigger: Trigger; message: RenderedMessage };
/** The messages of a turn, and the payload of the next one, null after the last. */
type Turn = { messages: Composed[]; next: NotifyPayload | null };
type Of<Type extends NotifyPayload["type"]> = Extract<NotifyPayload, { type: Type }>;

/** @param parts `links` gives the addresses of this server, which are known once it listens. */
export function createEventNotifier({ store, links }: { store: Store; links(): EventLinks }) {
  /**
   * The recipients of the actions that listened and are still there. A damaged record keeps nobody else from being
   * told.
   */
  function recipientsOf({ organization_id, actions }: NotifyPayload): Recipient[] {
    return actions.flatMap((number) => {
      const action = store.actions.find(organization_id, number);
      if (!action) return [];
      const triggers = new Set(readable<string[]>(action.triggers_json) ?? []);
      return store.actions.listTargets(action).flatMap(({ id, type, target_json }): Recipient[] => {
        const target = type === null ? null : readable<Target>(target_json);
        return target === null ? [] : [{ sender: { action: action.name, number }, triggers, targetId: id, target }];
      });
    });
  }

  const wanting = (recipients: readonly Recipient[], ...triggers: Trigger[]): Recipient[] =>
    recipients.filter((recipient) => triggers.some((trigger) => recipient.triggers.has(trigger)));

  const composed = (recipient: Recipient, notice: NotificationEvent): Composed => {
    const org = notice.subject === "flow" ? notice.org : notice.moment.org;
    const message = messageTo(
      recipient.target,
      () => webhookPayload(notice, links()),
      () => noticeLetter(notice, { ...recipient.sender, org }, links()),
    );
    return { recipient, trigger: notice.trigger, message };
  };

  /** One notice to everybody who wants it. */
  const told = (recipients: readonly Recipient[], notice: NotificationEvent): Turn => ({
    messages: wanting(recipients, notice.trigger).map((recipient) => composed(recipient, notice)),
    next: null,
  });

  function snapshotTurn(payload: Of<"snapshot">, recipients: readonly Recipient[]): Turn {
    const { environment_id, index, at, after } = payload;
    const { moment, lastKnown, nonCompliant, source } = store.eventFacts.getSnapshot(environment_id, index);
    const messages: Composed[] = [];
    if (after === null) {
      const transition = transitionOf(lastKnown, moment.compliant);
      if (transition) {
        const notice = environmentNotice(transition, at, moment, nonCompliant);
        for (const message of told(recipients, notice).messages) messages.push(message);
      }
      for (const trigger of ARTIFACT_TRIGGERS) {
        const readers = wanting(recipients, trigger).flatMap((recipient) =>
          recipient.target.type === "WEBHOOK" ? [] : [{ recipient, target: recipient.target }],
        );
        if (readers.length === 0) continue;
        const { events, total } = store.eventFacts.listEventsByTrigger(source, trigger, MOST_LINES);
        if (total === 0) continue;
        for (const { recipient, target } of readers)
          messages.push({
            recipient,
            trigger,
            message: letterTo(
              target,
              snapshotLetter(trigger, events, total, moment, { ...recipient.sender, org: moment.org }, links()),
            ),
          });
      }
    }
    const machines = wanting(recipients, ...ARTIFACT_TRIGGERS).filter(({ target }) => target.type === "WEBHOOK");
    if (machines.length === 0) return { messages, next: null };
    const limit = Math.max(1, Math.floor(PER_TURN / machines.length));
    const events = store.eventFacts.listEvents(source, after ?? 0, limit);
    for (const event of events) {
      const notice = artifactNotice(event, at, moment);
      for (const recipient of wanting(machines, triggerOf(event.annotation)))
        messages.push(composed(recipient, notice));
    }
    const last = events.length === limit ? events.at(-1) : undefined;
    return { messages, next: last ? { ...payload, after: last.id } : null };
  }

  function turnOf(payload: NotifyPayload): Turn {
    const recipients = recipientsOf(payload);
    if (recipients.length === 0) return { messages: [], next: null };
    const { at } = payload;
    switch (payload.type) {
      case "snapshot":
        return snapshotTurn(payload, recipients);
      case "allowed": {
        const { moment, artifact, ...why } = store.eventFacts.getAllowlisted(
          payload.environment_id,
          payload.index,
          payload.allowlist_id,
        );
        return told(recipients, allowedNotice(at, moment, artifact, why));
      }
      case "trail":
        return told(
          recipients,
          flowNotice("ON_STARTED_TRAIL", at, store.eventFacts.getTrail(payload.flow_id, payload.trail_id), payload.by),
        );
      case "artifact":
        return told(
          recipients,
          flowNotice(
            "ON_ATTESTED_PROVENANCE",
            at,
            store.eventFacts.getArtifact(payload.flow_id, payload.artifact_id),
            payload.by,
          ),
        );
      case "attestation": {
        const { by, ...facts } = store.eventFacts.getAttestation(payload.flow_id, payload.attestation_id);
        return told(recipients, flowNotice("ON_ATTESTATION", at, facts, by));
      }
    }
  }

  return {
    /** Does a job of kind `notify`. */
    async notify(payload: NotifyPayload): Promise<Settlement> {
      const { messages, next } = turnOf(payload);
      return () => {
        for (const { recipient, trigger, message } of messages) {
          // Taken away since the message was made.
          if (!store.notificationTargets.find(recipient.targetId)) continue;
          const subject = `${recipient.sender.action}: ${eventTypeOf(trigger)}`;
          store.outbox.add({
            organizationId: payload.organization_id,
            queue: queueOf(recipient.targetId),
            targetId: recipient.targetId,
            subject,
            message,
          });
        }
        // Before everything that happened later, whenever that was asked for.
        if (next) store.jobs.add("notify", next, 0);
        return null;
      };
    },
  };
}

/** What our own stores wrote; null where it was damaged since. */
function readable<T>(text: string): T | null {
  try {
    return JSON.parse(text) as T;
  } catch {
    return null;
  }
}
