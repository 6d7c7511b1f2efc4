/**
 * What lists of messages call a message: `ACTION: EVENT in PLACE`. Tests and messages of version 0.1 have no
 * place. No name of an action, environment, flow or trail has a colon or a space.
 */
import type { NotificationEvent, SnapshotRef } from "./event.ts";

/** Places that a subject names; of more it says how many. */
const MAX_PLACES = 3;

/** @param places where it happened; none for a test */
export function deliverySubject(action: string, event: string, places: readonly string[]): string {
  const more = places.length - MAX_PLACES;
  const named = places.slice(0, MAX_PLACES).join(", ") + (more > 0 ? ` and ${more} more` : "");
  return `${action}: ${event}${named === "" ? "" : ` in ${named}`}`;
}

/** The event, and the places as text; null without any. */
export function readDeliverySubject(subject: string): { event: string; place: string | null } {
  const what = subject.slice(subject.lastIndexOf(": ") + 1).trim();
  const [event = "", ...places] = what.split(" in ");
  return { event, place: places.length === 0 ? null : places.join(" in ") };
}

/** `production #7`; of an environment without a snapshot, its name. */
export const snapshotPlace = ({ environment, index }: SnapshotRef): string =>
  index === 0 ? environment : `${environment} #${index}`;

/** The environment and snapshot, or the flow and trail, of an event. */
export function placeOf(event: NotificationEvent): string {
  if (event.subject !== "flow") return snapshotPlace(event.snapshot);
  return event.trail === null ? event.flow : `${event.flow}/${event.trail.name}`;
}
