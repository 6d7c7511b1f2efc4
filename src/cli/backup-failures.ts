/** How making and restoring backups fails, and stops, in words and exit codes. */
import { DamagedBackupError, NewerBackupError } from "../backup/format.ts";
import { BackupError } from "../backup/make.ts";
import { RestoreError } from "../backup/restore.ts";
import { DamagedDatabaseError } from "../store/copy.ts";
import { commandFailure, EXIT } from "./frame.ts";
import type { Io } from "./frame.ts";

class StoppedError extends Error {
  override readonly name = "StoppedError";
}

/** Is aborted when the operator, or the system, wants the command to stop. */
export function stopSignal(io: Io): AbortSignal {
  const stop = new AbortController();
  void io.stopRequested().then((signal) => stop.abort(new StoppedError(`stopped by ${signal}; nothing is left of it`)));
  return stop.signal;
}

/** What the operator is told of an error. `archive`: the name of the file, or `-`. */
export function backupFailure(error: unknown, archive: string): unknown {
  const shown = archive === "-" ? "the backup" : archive;
  if (error instanceof BackupError || error instanceof RestoreError || error instanceof StoppedError) return commandFailure(error.message);
  if (error instanceof DamagedBackupError) return commandFailure(`${shown} is damaged, or no backup: ${error.message}`, EXIT.damaged);
  if (error instanceof DamagedDatabaseError) return commandFailure(error.problems.map((problem) => `the database is damaged: ${problem}`), EXIT.damaged);
  if (error instanceof NewerBackupError) return commandFailure(error.message, EXIT.newerDatabase);
  return error;
}
