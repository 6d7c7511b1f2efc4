/** How making and restoring backups fails, in words and exit codes. */
import { DamagedBackupError, NewerBackupError } from "../backup/format.ts";
import { BackupError } from "../backup/make.ts";
import { RestoreError } from "../backup/restore.ts";
import { DamagedDatabaseError } from "../store/db/database-copy.ts";
import { commandFailure, EXIT } from "./framework.ts";

/** What the operator is told of an error. `archive`: the name of the file, or `-`. */
export function backupFailure(error: unknown, archive: string): unknown {
  const shown = archive === "-" ? "the backup" : archive;
  if (error instanceof BackupError || error instanceof RestoreError) return commandFailure(error.message);
  if (error instanceof DamagedBackupError)
    return commandFailure(`${shown} is damaged, or no backup: ${error.message}`, EXIT.damaged);
  if (error instanceof DamagedDatabaseError)
    return commandFailure(
      error.problems.map((problem) => `the database is damaged: ${problem}`),
      EXIT.damaged,
    );
  if (error instanceof NewerBackupError) return commandFailure(error.message, EXIT.newerDatabase);
  return error;
}
