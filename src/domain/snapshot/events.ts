/** The events of an environment in words: one for each artifact that a snapshot shows changed (semantics 6.8). */

/** The three groups of events, as the audit log filters them. */
export const EVENT_KINDS = ["started", "exited", "changed"] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

/**
 * The group of an annotation. Everything that neither started nor exited changed, old `scaled` and `changed` included.
 */
export function kindOf(annotation: string): EventKind {
  if (annotation === "exited") return "exited";
  return annotation === "started" || annotation.startsWith("started-") ? "started" : "changed";
}

/** What happened to an artifact, with its instances before and after. */
export function describeEvent({ annotation, was, now }: { annotation: string; was: number; now: number }): string {
  const kind = kindOf(annotation);
  if (kind === "started") return `${instances(now)} started running (from ${was} to ${now})`;
  if (kind === "exited") return `${instances(was)} stopped running (from ${was} to ${now})`;
  return `${instances(now)} changed`;
}

const instances = (count: number): string => `${count} ${count === 1 ? "instance" : "instances"}`;
