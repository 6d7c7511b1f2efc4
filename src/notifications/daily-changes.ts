/**
 * What changed in the environments of an action since the message of the day before, for people as a mail or a chat
 * message, for a WEBHOOK as the address of all changes. Nothing is sent when nothing changed.
 *
 * The messages enter the outbox in the write that notes the end of their period and when the job is due again, so each
 * day is in one message, whenever the process ends. After days without a server one message is about all of them.
 *
 * A message says what every reader of the environments may read. Members and keys, which only admins may read, are
 * never in it: its recipients may be anyone.
 */
import { gatherChanges } from "../contract/changes/gather.ts";
import { sizeOfChanges, readChanges, withRows } from "../contract/changes/artifacts.ts";
import { countKinds, presentEntries } from "../contract/changes/present.ts";
import { INLINE } from "../contract/changes/scope.ts";
import type { ChangeScope, FoundChange } from "../contract/changes/scope.ts";
import type { Urls } from "../contract/urls.ts";
import { isFailingRow } from "../domain/snapshot/period-changes.ts";
import { findDailyEnd, nextDailyTime } from "../domain/notification/daily-time.ts";
import type { DailyTime } from "../domain/notification/daily-time.ts";
import { deliverySubject } from "../domain/notification/delivery-subject.ts";
import { renderForDay } from "../domain/notification/render.ts";
import { isTarget } from "../domain/notification/targets.ts";
import { eventTypeOf } from "../domain/notification/triggers.ts";
import { isListOf, isText, readStoredJsonOrNull } from "../domain/stored-json.ts";
import { nextTurn } from "../http/next-turn.ts";
import type { Settlement } from "../jobs/job-runner.ts";
import type { OrganizationRow } from "../store/accounts/organizations.ts";
import type { DailyChangesPayload } from "../store/notifications/daily-changes.ts";
import type { ActionRow } from "../store/notifications/actions.ts";
import type { Store } from "../store/index.ts";
import { queueOf } from "../store/notifications/notification-targets.ts";
import { composeDay } from "./describe-day.ts";
import type { ChangedPlace } from "./describe-day.ts";

/** Pause of a job that came too early, because a wrong clock put it forward. */
const TOO_EARLY_RETRY_S = 60;
/** Changes of one environment that a message is made from; it counts the others. */
const MAX_READ = 60;

const TRIGGER = "ON_DAILY_CHANGES";

type Parts = {
  store: Store;
  /** The addresses of this server, which are known once it listens. */
  urls(): Urls;
  /** Epoch seconds by which jobs are due. */
  now(): number;
  /** Epoch seconds. Not of a clock that runs ahead: a change is in one message only. */
  trustedNow(): number;
};
type Period = { from: number; to: number };

export const createDailyChanges = (parts: Parts) => ({
  /** Handles a job of kind `daily_changes`. */
  async sendDailyChanges(payload: DailyChangesPayload): Promise<Settlement> {
    const { store, now, trustedNow } = parts;
    const findAction = (): { action: ActionRow; covered: number; daily: DailyTime } | null => {
      const action = store.actions.find(payload.organization_id, payload.action);
      const row = action && store.dailyChanges.find(action.id);
      if (!action || row?.started_at !== payload.started_at) return null;
      return { action, covered: row.covered_until, daily: { hour: row.hour, timeZone: row.time_zone } };
    };
    const found = findAction();
    if (!found) return () => null;
    const at = trustedNow();
    const { daily } = found;
    const again = (): number => Math.max(nextDailyTime(at, daily), now() + TOO_EARLY_RETRY_S);
    const to = findDailyEnd(at, daily);
    // Later than now only after a clock that ran ahead: then the time since is not known.
    const isAhead = found.covered > at;
    if (!isAhead && found.covered >= to) return again;
    const messages = isAhead ? [] : await compose(parts, found, { from: found.covered, to });
    return () => {
      const present = findAction();
      if (!present) return null;
      store.dailyChanges.cover(present.action, to);
      for (const { targetId, places, message } of messages) {
        // The target was deleted since the message was composed.
        if (!store.notificationTargets.find(targetId)) continue;
        store.outbox.add({
          organizationId: payload.organization_id,
          queue: queueOf(targetId),
          targetId,
          subject: deliverySubject(present.action.name, eventTypeOf(TRIGGER), places),
          message,
        });
      }
      return again();
    };
  },
});

/** The messages to all targets of an action; none when nothing changed. */
async function compose(
  { store, urls }: Parts,
  { action, daily }: { action: ActionRow; daily: DailyTime },
  period: Period,
) {
  const triggers = readStoredJsonOrNull(action.triggers_json, isListOf(isText)) ?? [];
  const targets = store.actions.listTargets(action).flatMap(({ id, type, target_json }) => {
    const target = type === null ? null : readStoredJsonOrNull(target_json, isTarget);
    return target === null ? [] : [{ id, target }];
  });
  if (!triggers.includes(TRIGGER) || targets.length === 0) return [];
  const organization = store.organizations.get(action.organization_id);
  const places: ChangedPlace[] = [];
  for (const name of store.actions.listPlaces(action)) {
    const place = readPlace({ store, urls: urls(), organization }, name, period);
    if (place) places.push(place);
    // Each takes as long as a page; requests come in between.
    await nextTurn();
  }
  if (places.length === 0) return [];
  const day = composeDay(
    { urls: urls(), org: organization.name, action: action.name, number: action.number },
    { ...period, daily, places },
  );
  const named = places.map(({ name }) => name);
  return targets.map(({ id, target }) => ({ targetId: id, places: named, message: renderForDay(target, day) }));
}

type ReadContext = { store: Store; urls: Urls; organization: OrganizationRow };

/** What changed in one environment, what fails first; null where nothing did, or where it is archived by now. */
function readPlace(context: ReadContext, name: string, { from, to }: Period): ChangedPlace | null {
  const { store, organization } = context;
  const environment = store.environments.find(organization.id, name);
  if (!environment || environment.archived_at !== null) return null;
  // The change at `from` was in the message of the day before.
  const scope: ChangeScope = { from, to, now: to, environment: name, seesPeople: false };
  const gathered = gatherChanges(context, scope, INLINE);
  const changes = gathered.changes
    .filter(({ at }) => at > from)
    .flatMap(splitFailing)
    .sort(failingFirst);
  if (changes.length === 0) return null;
  const shown = readChanges(context, changes, { offset: 0, limit: MAX_READ });
  const indexAt = (time: number): number => store.snapshots.findIndexAt(environment, time, Number.POSITIVE_INFINITY);
  const [first, last] = [indexAt(from), indexAt(to)];
  const verdictOf = (index: number): boolean | null => {
    const compliant = index === 0 ? null : (store.snapshots.find(environment.id, index)?.compliant ?? null);
    return compliant === null ? null : compliant === 1;
  };
  return {
    name,
    before: verdictOf(first),
    after: verdictOf(last),
    first,
    last,
    counts: countKinds(changes, scope),
    total: sizeOfChanges(changes),
    since: gathered.since > from ? gathered.since : null,
    changes: presentEntries(context, shown, changes),
  };
}

/** Verdicts and starts of artifacts, with those that fail apart from the others. */
function splitFailing(change: FoundChange): FoundChange[] {
  if (change.of !== "artifacts" || (change.kind !== "verdict" && change.kind !== "started")) return [change];
  const { rows } = change.changes;
  const parts = [rows.filter(isFailingRow), rows.filter((row) => !isFailingRow(row))];
  return parts.flatMap((part) => (part.length === 0 ? [] : withRows(change, part)));
}

/** What fails stands first, then what is compliant again, then all others, each newest first. */
const rankOf = (change: FoundChange): number => {
  if (change.of !== "snapshot" && change.of !== "artifacts") return 2;
  const fails = change.of === "snapshot" ? change.change.after === false : change.changes.rows.some(isFailingRow);
  const { kind } = change;
  if (fails && (kind === "verdict" || kind === "started")) return 0;
  return kind === "verdict" ? 1 : 2;
};
const failingFirst = (a: FoundChange, b: FoundChange): number => rankOf(a) - rankOf(b) || b.at - a.at;
