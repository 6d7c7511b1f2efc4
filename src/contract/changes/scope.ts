/** What is gathered of a period: its scope, how much of it, and a change as it is gathered. */
import type { PolicyChange } from "../../domain/snapshot/comparison.ts";
import type { ChangeKind, SnapshotChange, SnapshotChanges } from "../../domain/snapshot/period-changes.ts";
import type { MembershipEventRow } from "../../store/accounts/membership-audit-log.ts";
import type {
  AllowedRow,
  ChangedEnvironmentRow,
  PolicyChangeRow,
} from "../../store/environments/history/period-changes.ts";
import type { RecordChange } from "./gather-records.ts";
import type { PresenterContext } from "../presenter-context.ts";

/** Changes of each other kind. */
const MAX_OTHERS = 5_000;

/**
 * How much an answer is made from. `moments`: snapshots; `events`: artifacts that they changed; `auditEntries`: those
 * that tell of a change.
 */
export type GatherBounds = { moments: number; events: number; auditEntries: number };

/** Half a second in the reader thread. */
export const WHOLE: GatherBounds = { moments: 2_000, events: 20_000, auditEntries: MAX_OTHERS };
/** Of years, without the artifacts of snapshots: some seconds in the reader thread. */
export const LONG: GatherBounds = { moments: 0, events: 0, auditEntries: MAX_OTHERS };
/** What the main thread reads itself: some 20 milliseconds. */
export const INLINE: GatherBounds = { moments: 100, events: 500, auditEntries: 1_000 };

/** What is asked for. Times in epoch seconds, both inclusive. */
export type ChangeScope = {
  from: number;
  /** May be later than `now`, for a clock that ran ahead. */
  to: number;
  now: number;
  /** Name of an environment; null for the whole organization. */
  environment: string | null;
  /** Whether changes of members and keys may be read. */
  seesPeople: boolean;
};

export type KeyChange = { event: string; account: string; keyId: string; by: string };

/** `key`: identifies the change for good. `environment`: null for a change of the whole organization. */
export type GatheredChange = {
  key: string;
  kind: ChangeKind;
  at: number;
  environment: ChangedEnvironmentRow | null;
} & (
  | { of: "snapshot"; environment: ChangedEnvironmentRow; by: string; change: SnapshotChange }
  | { of: "attachment"; environment: ChangedEnvironmentRow; by: string; index: number; shift: PolicyChange }
  | { of: "policy"; row: PolicyChangeRow }
  | { of: "allowed"; environment: ChangedEnvironmentRow; row: AllowedRow }
  | { of: "member"; row: MembershipEventRow }
  | { of: "key"; row: KeyChange }
  | { of: "record"; row: RecordChange }
  | { of: "reporter"; environment: ChangedEnvironmentRow; reportedAt: number }
);

/** Changes of one kind that one snapshot made of artifacts, which are read where they are shown (artifacts.ts). */
export type ArtifactChanges = {
  of: "artifacts";
  key: string;
  kind: ChangeKind;
  at: number;
  environment: ChangedEnvironmentRow;
  by: string;
  changes: SnapshotChanges;
};
export type FoundChange = GatheredChange | ArtifactChanges;

export type GatherContext = Pick<PresenterContext, "store" | "organization">;
/** What was read reaches back to `since`, which a list that is cut off raises. */
export type Limits = ChangeScope & { since: number; bounds: GatherBounds };

export const rowWindow = ({ since, to }: Limits, most = MAX_OTHERS) => ({ from: since, to, limit: most + 1 });

/**
 * The rows of a list, newest first, that count: of one that is cut off, nothing before its last row is complete.
 * @param most as in the window that they were read with
 */
export function cutOff<Row extends { timestamp: number }>(
  limits: Limits,
  rows: readonly Row[],
  most = MAX_OTHERS,
): readonly Row[] {
  const last = rows[most - 1];
  if (rows.length > most && last) limits.since = Math.max(limits.since, last.timestamp);
  return rows.slice(0, most);
}
