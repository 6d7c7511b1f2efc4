/** What the recorder (recorder.ts) orders from the recording thread (recording-thread.ts), and what that returns. */
import type { Cause } from "../domain/snapshot/diff.ts";
import type { ErrorCode, FieldErrors } from "../errors.ts";
import type { Actor } from "../store/actor.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { PhysicalType } from "../store/environments/environments.ts";
import type { StorableReport } from "../store/environments/snapshot-survey.ts";

/** A snapshot to be recorded, if anything changed. */
export type Recording = {
  environmentId: number;
  cause: Cause;
  /** null: what ran still runs; "read": what the thread has read for this task. */
  report: StorableReport | "read" | null;
  actor: Actor;
  /** Appended to the audit log when a snapshot is made. */
  entry: AuditEntry | null;
};

export type RecordingOrder =
  /** The text of a report on an environment of that type. `sequence` identifies the task. */
  | { type: "read"; sequence: number; report: PhysicalType; bytes: Uint8Array }
  /** `now`: epoch seconds. */
  | ({ type: "plan"; sequence: number; now: number } & Pick<Recording, "environmentId" | "cause" | "report">)
  /** `now`: epoch seconds; `newestJob`: the highest job id in use. */
  | ({ type: "apply"; sequence: number; now: number; newestJob: number } & Pick<Recording, "actor" | "entry">)
  /** Drops what the thread has of a task, and returns its memory. */
  | { type: "forget" }
  /**
   * Copies the write-ahead log into the database file, as far as its readers permit. With a `busyTimeoutMs` above 0 it
   * waits that long for readers and then empties the log, which needs exclusive write access.
   */
  | { type: "checkpoint"; busyTimeoutMs: number };

/**
 * `planned`: whether there is anything to apply; not so in an archived environment. `index`: of the new snapshot, null
 * when none was made.
 */
export type RecordingResult = { planned: boolean; index: number | null };
/** The number of artifacts in a valid text, their digest, and the top-level keys that the shape of the report lacks. */
export type FoundText = { count: number; digest: string; ignored: readonly string[] };
/** Of `read`: what it found, or why the text is not a valid report. */
export type ReadResult = FoundText | { refusal: { code: ErrorCode; message: string; fields: FieldErrors | null } };
