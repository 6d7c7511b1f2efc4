/** Kinds and descriptions of environment events: one event per artifact that changes in a snapshot (semantics 6.8). */

/** The kinds by which the audit log filters events. */
export const EVENT_KINDS = ["started", "exited", "changed"] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

/** The kind of an annotation. Everything but starts and exits is a change, including the old `scaled` and `changed`. */
export function kindOf(annotation: string): EventKind {
  if (annotation === "exited") return "exited";
  return annotation === "started" || annotation.startsWith("started-") ? "started" : "changed";
}

/** Describes an event with the number of instances before and after (semantics 6.8). */
export function describeEvent({ annotation, was, now }: { annotation: string; was: number; now: number }): string {
  const kind = kindOf(annotation);
  if (kind === "started") return `${formatInstances(now)} started running (from ${was} to ${now})`;
  if (kind === "exited") return `${formatInstances(was)} stopped running (from ${was} to ${now})`;
  return `${formatInstances(now)} changed`;
}

const formatInstances = (count: number): string => `${count} ${count === 1 ? "instance" : "instances"}`;
