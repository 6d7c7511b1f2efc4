/**
 * Composes the messages that actions ask for, from the event that a committed write recorded
 * (store/notifications/triggers.ts). They enter the outbox in the write that ends the job, so each enters it exactly
 * once, whenever the process ends.
 *
 * A WEBHOOK gets one message per event, as its receivers expect; a snapshot that starts ten thousand artifacts takes
 * many short turns. People get one message per trigger and snapshot, with its first events and the number of the
 * others. The change of an environment's verdict is sent before the artifact events that caused it, so it never queues
 * behind them.
 */
import { joinCauses } from "../domain/compliance/cause-words.ts";
import { MAX_LINES } from "../domain/notification/chat-and-mail.ts";
import { deliverySubject, placeOf, snapshotPlace } from "../domain/notification/delivery-subject.ts";
import {
  createAllowedEvent,
  createAllowlistExpiryEvent,
  createArtifactEvent,
  createEnvironmentEvent,
  createFlowEvent,
} from "../domain/notification/event.ts";
import type { EventLinks, ArtifactFailure, NotificationEvent } from "../domain/notification/event.ts";
import {
  renderForPeople,
  renderForTarget,
  composeEventMessage,
  composeSnapshotMessage,
} from "../domain/notification/render.ts";
import type { MessageSender, RenderedMessage } from "../domain/notification/render.ts";
import { isTarget } from "../domain/notification/targets.ts";
import type { Target } from "../domain/notification/targets.ts";
import { ARTIFACT_TRIGGERS, eventTypeOf, findTransition, triggerOf } from "../domain/notification/triggers.ts";
import type { EnvironmentTrigger, FlowTrigger } from "../domain/notification/triggers.ts";
import { buildWebhookPayload } from "../domain/notification/webhook.ts";
import { isListOf, isText, readStoredJsonOrNull } from "../domain/stored-json.ts";
import type { Settlement } from "../jobs/job-runner.ts";
import type { Store } from "../store/index.ts";
import { queueOf } from "../store/notifications/notification-targets.ts";
import type { StoredEvaluation } from "../store/notifications/event-facts.ts";
import type { NotifyPayload } from "../store/notifications/triggers.ts";

/** Messages per turn. Composing one takes a tenth of a millisecond, and the event loop may be blocked for 20 ms. */
const MESSAGES_PER_TURN = 100;

type Trigger = EnvironmentTrigger | FlowTrigger;
/** A target of an action, with the triggers that the action listens to. */
type Recipient = {
  sender: Omit<MessageSender, "org">;
  triggers: ReadonlySet<string>;
  targetId: number;
  target: Target;
};
/** `place`: where it happened, for lists of messages. */
type ComposedMessage = { recipient: Recipient; trigger: Trigger; place: string; message: RenderedMessage };
/** The messages of a turn, and the payload of the next one; null after the last. */
type Turn = { messages: ComposedMessage[]; next: NotifyPayload | null };
type PayloadOf<Type extends NotifyPayload["type"]> = Extract<NotifyPayload, { type: Type }>;

/** `links` returns the addresses of this server, which are known once it listens. */
type Sources = { store: Store; links(): EventLinks };

export function createEventNotifier(sources: Sources) {
  const { store } = sources;
  return {
    /** Handles a job of kind `notify`. */
    async notify(payload: NotifyPayload): Promise<Settlement> {
      const { messages, next } = composeTurn(sources, payload);
      return () => {
        for (const { recipient, trigger, place, message } of messages) {
          // The target was deleted since the message was composed.
          if (!store.notificationTargets.find(recipient.targetId)) continue;
          store.outbox.add({
            organizationId: payload.organization_id,
            queue: queueOf(recipient.targetId),
            targetId: recipient.targetId,
            subject: deliverySubject(recipient.sender.action, eventTypeOf(trigger), [place]),
            message,
          });
        }
        // Due at 0: before all later events, whenever they became due.
        if (next) store.jobs.add("notify", next, 0);
        return null;
      };
    },
  };
}

function composeTurn(sources: Sources, payload: NotifyPayload): Turn {
  const recipients = findRecipients(sources.store, payload);
  if (recipients.length === 0) return { messages: [], next: null };
  if (payload.type === "snapshot") return composeSnapshotTurn(sources, payload, recipients);
  return { messages: composeEvent(sources, recipients, readEvent(sources.store, payload)), next: null };
}

/** The event of any payload but that of a snapshot, which has many. */
function readEvent({ eventFacts }: Store, payload: Exclude<NotifyPayload, { type: "snapshot" }>): NotificationEvent {
  const { at } = payload;
  switch (payload.type) {
    case "allowed": {
      const { environment_id, index, allowlist_id } = payload;
      const { moment, artifact, ...why } = eventFacts.getAllowlisted(environment_id, index, allowlist_id);
      return createAllowedEvent(artifact, { at, snapshot: moment, ...why });
    }
    case "allowlist_expiry": {
      const { environment_id, index, allowlist_id } = payload;
      const { moment, artifact, id, reason, until } = eventFacts.getAllowlisted(environment_id, index, allowlist_id);
      const entry = { id, reason, expiresAt: until ?? at };
      return createAllowlistExpiryEvent(artifact, { at, snapshot: moment, entry });
    }
    case "trail":
      return createFlowEvent("ON_STARTED_TRAIL", eventFacts.getTrail(payload.flow_id, payload.trail_id), {
        at,
        by: payload.by,
      });
    case "artifact": {
      const facts = eventFacts.getArtifact(payload.flow_id, payload.artifact_id);
      return createFlowEvent("ON_ATTESTED_PROVENANCE", facts, { at, by: payload.by });
    }
    case "attestation": {
      const { by, ...facts } = eventFacts.getAttestation(payload.flow_id, payload.attestation_id);
      return createFlowEvent("ON_ATTESTATION", facts, { at, by });
    }
  }
}

/**
 * The targets of the actions that listened and still exist. A damaged record is skipped, so that the other recipients
 * get their messages.
 */
function findRecipients(store: Store, { organization_id, actions }: NotifyPayload): Recipient[] {
  return actions.flatMap((number) => {
    const action = store.actions.find(organization_id, number);
    if (!action) return [];
    const triggers = new Set(readStoredJsonOrNull(action.triggers_json, isListOf(isText)) ?? []);
    return store.actions.listTargets(action).flatMap(({ id, type, target_json }): Recipient[] => {
      const target = type === null ? null : readStoredJsonOrNull(target_json, isTarget);
      return target === null ? [] : [{ sender: { action: action.name, number }, triggers, targetId: id, target }];
    });
  });
}

const listenersOf = (recipients: readonly Recipient[], ...triggers: Trigger[]): Recipient[] =>
  recipients.filter((recipient) => triggers.some((trigger) => recipient.triggers.has(trigger)));

/** The messages about one event to all recipients that listen to it. */
const composeEvent = (
  sources: Sources,
  recipients: readonly Recipient[],
  event: NotificationEvent,
): ComposedMessage[] =>
  listenersOf(recipients, event.trigger).map((recipient) => composeMessage(sources, recipient, event));

function composeMessage({ links }: Sources, recipient: Recipient, event: NotificationEvent): ComposedMessage {
  const org = event.subject === "flow" ? event.org : event.snapshot.org;
  const message = renderForTarget(
    recipient.target,
    () => buildWebhookPayload(event, links()),
    () => composeEventMessage(event, { ...recipient.sender, org }, links()),
  );
  return { recipient, trigger: event.trigger, place: placeOf(event), message };
}

/**
 * The first turn composes what concerns the whole snapshot and people; every turn composes some events for webhooks.
 */
function composeSnapshotTurn(sources: Sources, payload: PayloadOf<"snapshot">, recipients: readonly Recipient[]): Turn {
  const { environment_id, index, at, after } = payload;
  const facts = sources.store.eventFacts.getSnapshot(environment_id, index);
  const { moment, lastKnown, nonCompliant } = facts;
  const messages: ComposedMessage[] = [];
  if (after === null) {
    const transition = findTransition({ lastKnown, verdict: moment.compliant });
    if (transition) {
      const isFailing = transition === "ON_NON_COMPLIANT_ENV";
      const failing = isFailing ? listFailing(sources.store, payload.organization_id, facts.source) : [];
      const event = createEnvironmentEvent(transition, { at, snapshot: moment, nonCompliant, failing });
      for (const message of composeEvent(sources, recipients, event)) messages.push(message);
    }
    for (const message of composeSummaries(sources, facts, { recipients, organizationId: payload.organization_id }))
      messages.push(message);
  }
  const webhooks = listenersOf(recipients, ...ARTIFACT_TRIGGERS).filter(({ target }) => target.type === "WEBHOOK");
  if (webhooks.length === 0) return { messages, next: null };
  const limit = Math.max(1, Math.floor(MESSAGES_PER_TURN / webhooks.length));
  const events = sources.store.eventFacts.listEvents(facts.source, after ?? 0, limit);
  for (const event of events) {
    const notice = createArtifactEvent(event, at, moment);
    for (const recipient of listenersOf(webhooks, triggerOf(event.annotation)))
      messages.push(composeMessage(sources, recipient, notice));
  }
  const last = events.length === limit ? events.at(-1) : undefined;
  return { messages, next: last ? { ...payload, after: last.id } : null };
}

/** The artifacts of a snapshot that a message about its verdict names. */
const listFailing = (
  store: Store,
  organizationId: number,
  source: ReturnType<Store["eventFacts"]["getSnapshot"]>["source"],
): ArtifactFailure[] =>
  store.eventFacts
    .listFailing(source, MAX_LINES)
    .map(({ name, ...evaluation }) => ({ name, why: whyOf(store, organizationId, evaluation) }));

/** Why an artifact is not compliant, in a few words; empty where its evaluation is damaged. */
function whyOf(store: Store, organizationId: number, evaluation: StoredEvaluation): string {
  try {
    const { causes, further_causes: further } = store.verdictCauses.explainEvaluation(
      organizationId,
      store.snapshots.parseEvaluation(evaluation),
    );
    return joinCauses(causes, further);
  } catch {
    return "";
  }
}

/** The messages to people about a snapshot: one per trigger, with its first events. */
function composeSummaries(
  { store, links }: Sources,
  { moment, source }: ReturnType<Store["eventFacts"]["getSnapshot"]>,
  { recipients, organizationId }: { recipients: readonly Recipient[]; organizationId: number },
): ComposedMessage[] {
  return ARTIFACT_TRIGGERS.flatMap((trigger) => {
    const people = listenersOf(recipients, trigger).flatMap((recipient) =>
      recipient.target.type === "WEBHOOK" ? [] : [{ recipient, target: recipient.target }],
    );
    if (people.length === 0) return [];
    const { events: found, total } = store.eventFacts.listEventsByTrigger(source, trigger, MAX_LINES);
    if (total === 0) return [];
    const events = found.map((event) =>
      event.compliant === false && event.now > 0
        ? { ...event, why: whyOf(store, organizationId, event.evaluation) }
        : event,
    );
    return people.map(({ recipient, target }) => {
      const sender = { ...recipient.sender, org: moment.org };
      const message = renderForPeople(
        target,
        composeSnapshotMessage({ trigger, events, total, snapshot: moment }, sender, links()),
      );
      return { recipient, trigger, place: snapshotPlace(moment), message };
    });
  });
}
