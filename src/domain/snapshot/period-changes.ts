/**
 * What happened in environments during a period: the rows of snapshots become upgrades, verdicts that turned, starts,
 * exits and scalings. Pure; everything follows from stored rows.
 */
import type { ArtifactEvent } from "../notification/event.ts";
import { findTransition } from "../notification/triggers.ts";

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

/** What a row says that a snapshot added for an artifact, in bits. */
export const ROW_MARKS = {
  /** The verdict is another one than in the snapshot before. */
  turned: 1,
  provenance: 2,
  started: 4,
  exited: 8,
  /** It ran before and runs still, with another number of instances. */
  scaled: 16,
  compliant: 32,
  nonCompliant: 64,
} as const;

/**
 * A row is one number: its key times this, plus its marks. What ten thousand rows changed is found without reading
 * anything else of them.
 */
export const ROW_FACTOR = 128;
export const keyOfRow = (row: number): number => Math.floor(row / ROW_FACTOR);
const isMarked = (row: number, mark: keyof typeof ROW_MARKS): boolean => ((row % ROW_FACTOR) & ROW_MARKS[mark]) !== 0;

export const hasStarts = (rows: readonly number[]): boolean => rows.some((row) => isMarked(row, "started"));
export const isFailingRow = (row: number): boolean => isMarked(row, "nonCompliant");
const verdictOf = (row: number): boolean | null =>
  isFailingRow(row) ? false : isMarked(row, "compliant") ? true : null;

/** A row that a snapshot added for an artifact; "" is the fingerprint of an image that could not be resolved. */
type RunningEvent = Pick<ArtifactEvent, "name" | "fingerprint" | "annotation" | "was" | "now" | "compliant"> & {
  /** Key of the row. */
  id: number;
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
  /** As ROW_FACTOR says. */
  rows: readonly number[];
  /** By the keys of the rows that started an artifact. */
  replaced: ReadonlyMap<number, Replaced>;
  /** Fingerprints of what started and exited, by the keys of the rows: only called where something is replaced. */
  readFingerprints(): ReadonlyMap<number, string>;
};

type Place = Pick<ChangedSnapshot, "environmentId" | "index" | "at">;
type SnapshotKind = Extract<ChangeKind, "verdict" | "upgraded" | "started" | "exited" | "scaled" | "provenance">;
/** A change of an artifact; or, with `event` null, of the verdict on the environment. */
export type SnapshotChange = Place & {
  kind: SnapshotKind;
  before: boolean | null;
  after: boolean | null;
  event: RunningEvent | null;
  replaced: Replaced | null;
};
/** The changes of one kind that a snapshot made of artifacts, at least one. `rows`: as of ChangedSnapshot, by key. */
export type SnapshotChanges = Place & Pick<ChangedSnapshot, "rows" | "replaced"> & { kind: SnapshotKind };

/**
 * The changes of snapshots: the verdicts on environments, and by kind those of artifacts, both in the order of the
 * snapshots. The exit of an artifact belongs to the upgrade that replaced it, if that is among the snapshots.
 * @param moments oldest first
 * @param lastVerdicts the last known verdict of each environment before its first moment; none: it had none
 */
export function listSnapshotChanges(
  moments: readonly ChangedSnapshot[],
  lastVerdicts: ReadonlyMap<number, boolean | null>,
): { verdicts: SnapshotChange[]; artifacts: SnapshotChanges[] } {
  const lastKnown = new Map(lastVerdicts);
  /** What was replaced in an environment, and has not exited yet. */
  const leaving = new Map<number, Set<string>>();
  const verdicts: SnapshotChange[] = [];
  const artifacts: SnapshotChanges[] = [];
  for (const moment of moments) {
    const { environmentId, index, at, compliant, replaced } = moment;
    const place = { environmentId, index, at };
    const before = lastKnown.get(environmentId) ?? null;
    if (findTransition({ lastKnown: before, verdict: compliant }) !== null)
      verdicts.push({ ...place, kind: "verdict", before, after: compliant, event: null, replaced: null });
    if (compliant !== null) lastKnown.set(environmentId, compliant);
    const ofPlace = leaving.get(environmentId) ?? new Set();
    leaving.set(environmentId, ofPlace);
    const rows = rowsByKind(moment, leave(moment, ofPlace));
    for (const kind of Object.keys(rows) as SnapshotKind[])
      if (rows[kind].length > 0) artifacts.push({ ...place, kind, rows: rows[kind], replaced });
  }
  return { verdicts, artifacts };
}

/**
 * Goes on from snapshot to snapshot with what is replaced and has not exited.
 * @returns the rows of exits that belong to an upgrade
 */
function leave({ rows, replaced, readFingerprints }: ChangedSnapshot, leaving: Set<string>): ReadonlySet<number> {
  const found = new Set<number>();
  if (leaving.size === 0 && replaced.size === 0) return found;
  const fingerprints = readFingerprints();
  const fingerprintOf = (row: number): string => fingerprints.get(keyOfRow(row)) ?? "";
  const starts = rows.filter((row) => isMarked(row, "started"));
  for (const row of starts) leaving.delete(fingerprintOf(row));
  for (const row of starts) {
    const old = replaced.get(keyOfRow(row));
    if (old) leaving.add(old.fingerprint);
  }
  for (const row of rows) if (isMarked(row, "exited") && leaving.delete(fingerprintOf(row))) found.add(row);
  return found;
}

function rowsByKind(
  { rows, replaced }: ChangedSnapshot,
  withUpgrades: ReadonlySet<number>,
): Record<SnapshotKind, number[]> {
  const found: Record<SnapshotKind, number[]> = {
    verdict: [],
    upgraded: [],
    started: [],
    exited: [],
    scaled: [],
    provenance: [],
  };
  for (const row of rows) {
    if (isMarked(row, "started")) {
      const old = replaced.get(keyOfRow(row));
      const [before, after] = [old?.compliant ?? null, verdictOf(row)];
      if (before !== null && after !== null && before !== after) found.verdict.push(row);
      found[old ? "upgraded" : "started"].push(row);
    } else if (isMarked(row, "exited")) {
      if (!withUpgrades.has(row)) found.exited.push(row);
    } else {
      if (isMarked(row, "turned")) found.verdict.push(row);
      if (isMarked(row, "provenance")) found.provenance.push(row);
      if (isMarked(row, "scaled")) found.scaled.push(row);
    }
  }
  return found;
}
