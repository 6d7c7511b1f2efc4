/** Maps errors of making and restoring backups to messages and exit codes. */
import { DamagedBackupError, NewerBackupError } from "../backup/format.ts";
import { BackupError } from "../backup/errors.ts";
import { RestoreError } from "../backup/restore.ts";
import { CommandError, EXIT } from "./framework.ts";

/** Maps a known error to a CommandError and returns any other error unchanged. `archive`: the file name, or `-`. */
export function mapBackupError(error: unknown, archive: string): unknown {
  const label = archive === "-" ? "the backup" : archive;
  if (error instanceof BackupError || error instanceof RestoreError) return new CommandError(error.message);
  if (error instanceof DamagedBackupError)
    return new CommandError(`${label} is damaged or is not a backup: ${error.message}`, EXIT.damaged);
  if (error instanceof NewerBackupError) return new CommandError(error.message, EXIT.newerDatabase);
  return error;
}
