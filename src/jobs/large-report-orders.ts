/** What the main thread orders from the recording thread (large-reports-thread.ts), and what that returns. */
import type { Cause } from "../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../domain/snapshot/normalize.ts";
import type { ErrorCode, FieldErrors } from "../errors.ts";
import type { Actor } from "../store/actor.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { PhysicalType } from "../store/environments/environments.ts";

export type RecordingOrder =
  /** The text of a report on an environment of that type. `sequence` identifies the task. */
  | { type: "read"; sequence: number; report: PhysicalType; bytes: Uint8Array }
  /** `artifacts` null: those of the latest snapshot; "read": those that the order before read. */
  | {
      type: "plan";
      sequence: number;
      /** Epoch seconds. */
      now: number;
      environmentId: number;
      cause: Cause;
      artifacts: readonly ReportedArtifact[] | "read" | null;
    }
  /**
   * Copies the write-ahead log into the database file, as far as its readers permit. With a `busyTimeoutMs` above 0 it
   * waits that long for readers and then empties the log, which needs exclusive write access.
   */
  | { type: "checkpoint"; busyTimeoutMs: number }
  /**
   * `now`: epoch seconds; `newestJob`: the highest job id in use; `entry`: appended to the audit log when a snapshot is
   * made.
   */
  | { type: "apply"; sequence: number; now: number; newestJob: number; actor: Actor; entry: AuditEntry | null };

/**
 * `planned`: whether there is anything to apply; not so in an archived environment. `index`: of the new snapshot, null
 * when none was made.
 */
export type RecordingResult = { planned: boolean; index: number | null };
/**
 * Of `read`: the number of artifacts, their digest and the top-level keys that were ignored, or why the text is not a
 * valid report.
 */
export type ReadResult =
  | { count: number; digest: string; ignored: readonly string[] }
  | { refusal: { code: ErrorCode; message: string; fields: FieldErrors | null } };
