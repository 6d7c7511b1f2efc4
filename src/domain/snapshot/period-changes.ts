/**
 * What happened in environments during a period: the rows of snapshots become upgrades, verdicts that turned, starts,
 * exits and scalings. Pure; everything follows from stored rows.
 */
import type { ArtifactEvent } from "../notification/event.ts";
import { findTransition } from "../notification/triggers.ts";
import { kindOf } from "./events.ts";

/**
 * - `verdict`: an environment or an artifact turned compliant, non-compliant or unknown.
 * - `upgraded`: an artifact took the place of another one of its flow and name.
 * - `provenance`: an artifact that ran already was reported to another flow or trail.
 * - `policy`: created, changed, or attached to an environment or detached from it.
 * - `record`: a flow, its template or tags, an environment or a control was changed, or an attestation overridden.
 * - `stale`: a reporter sent nothing for STALE_AFTER_S.
 */
export const CHANGE_KINDS = [
  "verdict",
  "upgraded",
  "started",
  "exited",
  "scaled",
  "provenance",
  "policy",
  "allowlist",
  "member",
  "key",
  "record",
  "stale",
] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

/** Kinds that only those may read who may read the audit log. */
export const PEOPLE_KINDS: readonly ChangeKind[] = ["member", "key", "record"];

/** Seconds without a report after which an environment counts as no longer reported: a job of every day has run. */
export const STALE_AFTER_S = 24 * 3600;

/** A row that a snapshot added for an artifact; "" is the fingerprint of an image that could not be resolved. */
type RunningEvent = Pick<ArtifactEvent, "name" | "fingerprint" | "annotation" | "was" | "now" | "compliant"> & {
  /** Key of the row. */
  id: number;
  /** The verdict in the snapshot before; of a start, that of what it replaced. */
  before: boolean | null;
};

/** What an artifact took the place of, with the verdict that this had. */
export type Replaced = { fingerprint: string; name: string; compliant: boolean | null };

/** A snapshot, with what it changed. */
export type ChangedSnapshot = {
  environmentId: number;
  index: number;
  /** Epoch seconds. */
  at: number;
  compliant: boolean | null;
  events: readonly RunningEvent[];
  /** By the keys of the events that started an artifact. */
  replaced: ReadonlyMap<number, Replaced>;
};

type Place = Pick<ChangedSnapshot, "environmentId" | "index" | "at">;
/** A change of an artifact; or, with `event` null, of the verdict on the environment. */
export type SnapshotChange = Place & {
  kind: Extract<ChangeKind, "verdict" | "upgraded" | "started" | "exited" | "scaled" | "provenance">;
  before: boolean | null;
  after: boolean | null;
  event: RunningEvent | null;
  replaced: Replaced | null;
};

/**
 * The changes of snapshots, in their order. The exit of an artifact belongs to the upgrade that replaced it, if that is
 * among the snapshots.
 * @param moments oldest first
 * @param lastVerdicts the last known verdict of each environment before its first moment; none: it had none
 */
export function listSnapshotChanges(
  moments: readonly ChangedSnapshot[],
  lastVerdicts: ReadonlyMap<number, boolean | null>,
): SnapshotChange[] {
  const verdicts = new Map(lastVerdicts);
  /** What was replaced, and has not exited yet. */
  const leaving = new Set<string>();
  const changes: SnapshotChange[] = [];
  for (const moment of moments) {
    const { environmentId, index, at, compliant } = moment;
    const place = { environmentId, index, at };
    const keyOf = (fingerprint: string): string => `${environmentId} ${fingerprint}`;
    const lastKnown = verdicts.get(environmentId) ?? null;
    if (findTransition({ lastKnown, verdict: compliant }) !== null)
      changes.push({ ...place, kind: "verdict", before: lastKnown, after: compliant, event: null, replaced: null });
    if (compliant !== null) verdicts.set(environmentId, compliant);
    const starts = moment.events.filter(({ annotation }) => kindOf(annotation) === "started");
    if (leaving.size > 0) for (const { fingerprint } of starts) leaving.delete(keyOf(fingerprint));
    for (const event of starts) {
      const replaced = moment.replaced.get(event.id) ?? null;
      if (replaced) leaving.add(keyOf(replaced.fingerprint));
      pushStart(changes, place, { event, replaced });
    }
    for (const event of moment.events) {
      if (kindOf(event.annotation) === "started") continue;
      if (event.annotation === "exited" && leaving.size > 0 && leaving.delete(keyOf(event.fingerprint))) continue;
      pushRunning(changes, place, event);
    }
  }
  return changes;
}

function pushStart(
  changes: SnapshotChange[],
  { environmentId, index, at }: Place,
  { event, replaced }: Pick<SnapshotChange, "replaced"> & { event: RunningEvent },
): void {
  const before = replaced?.compliant ?? null;
  const after = event.compliant;
  const push = (kind: SnapshotChange["kind"]): void =>
    void changes.push({ environmentId, index, at, kind, before, after, event, replaced });
  if (replaced !== null && before !== null && after !== null && before !== after) push("verdict");
  push(replaced === null ? "started" : "upgraded");
}

function pushRunning(changes: SnapshotChange[], { environmentId, index, at }: Place, event: RunningEvent): void {
  const { annotation, was, now, before, compliant: after } = event;
  const push = (kind: SnapshotChange["kind"]): void =>
    void changes.push({ environmentId, index, at, kind, before, after, event, replaced: null });
  if (annotation.startsWith("became-") || (annotation === "unchanged" && before !== after)) push("verdict");
  if (annotation === "updated-provenance") push("provenance");
  if (annotation === "exited") push("exited");
  else if (was !== now) push("scaled");
}
