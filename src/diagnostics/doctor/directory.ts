/** Checks of the data directory in the file system: existence, disk space and backups. */
import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { listRemains } from "../../store/db/lost-database.ts";
import { findMissingTarget, findPrivateDirectory } from "../../store/db/state-directory.ts";
import type { Check, Machine } from "./check.ts";
import { ageText, fail, fileSizeText, nearestExisting, ok, warn } from "./check.ts";

export function checkDirectory(directory: string): Check {
  const name = "data directory";
  const target = findMissingTarget(directory);
  if (target !== null)
    return fail(
      name,
      `${directory} is a link to ${target}, which does not exist`,
      `move the data back to ${target}, or restore a backup into it: see assay help restore`,
    );
  const second = findPrivateDirectory(directory);
  if (second !== null)
    return fail(
      name,
      existsSync(directory)
        ? `there are two directories, ${directory} and ${second}: systemd starts no service with both`
        : `there is no ${directory}; the data of the service are in ${second}`,
      existsSync(directory)
        ? `move the one away that is not meant; a service with a dynamic user has its data in ${second}`
        : `start the service, which creates the link, or give --data ${second}`,
    );
  if (!existsSync(directory))
    return fail(
      name,
      `there is no ${directory}`,
      "correct --data; assay serve, assay dev and assay init create a new directory",
    );
  if (!statSync(directory).isDirectory()) return fail(name, `${directory} is not a directory`, "correct --data");
  try {
    accessSync(directory, constants.R_OK | constants.X_OK);
  } catch {
    return fail(name, `this user cannot read ${directory}`, "run this command as root or as the user of the server");
  }
  const remains = listRemains(directory);
  if (remains.length > 0)
    return fail(
      name,
      `${directory} holds ${remains.join(" and ")}, but no database: assay.db is missing or empty`,
      "move assay.db back or restore a backup: see assay help database-files",
    );
  if (!existsSync(join(directory, "assay.db")))
    return fail(
      name,
      `${directory} holds no assay.db`,
      "correct --data; assay serve, assay dev and assay init start with an empty directory",
    );
  return ok(name, directory);
}

/** @param reserve --disk-reserve in bytes */
export function checkSpace(
  directory: string,
  reserve: number,
  { fileSystemSpace }: Pick<Machine, "fileSystemSpace">,
): Check {
  const name = "disk space";
  const space = fileSystemSpace(nearestExisting(directory));
  if (!space) return warn(name, "cannot be determined", "check it with df");
  const found = `${fileSizeText(space.free)} free of ${fileSizeText(space.size)}`;
  if (space.free < reserve)
    return fail(
      name,
      `${found}: below the ${fileSizeText(reserve)} of --disk-reserve, the server is read-only`,
      "free disk space; the server accepts changes again by itself",
    );
  if (space.files > 0 && space.freeFiles < 1000)
    return fail(
      name,
      `${found}, and room for ${space.freeFiles} more files`,
      "the file system is running out of inodes: remove files, or move the data to another one",
    );
  if (space.free < 4 * reserve)
    return warn(
      name,
      `${found}; below ${fileSizeText(reserve)} the server becomes read-only`,
      "free disk space before that happens",
    );
  return ok(name, found);
}

/**
 * Checks the existing backups and the space for one more.
 * @param directory where backups are written @param neededBytes the size of one more, null when it is unknown
 * @param intervalS how often the server makes one, in seconds; null: never
 */
export function checkBackups(
  { directory, neededBytes, intervalS }: { directory: string; neededBytes: number | null; intervalS: number | null },
  { fileSystemSpace, now }: Pick<Machine, "fileSystemSpace" | "now">,
): Check {
  const name = "backup";
  const backups = listFiles(directory, /^assay-backup-.*\.tar/);
  const newest = backups.at(-1);
  const free = fileSystemSpace(nearestExisting(directory))?.free ?? null;
  const age = newest ? now() - newest.modifiedAt : 0;
  const found = newest
    ? `the latest of ${backups.length} in ${directory} is ${ageText(age)} old, ${fileSizeText(newest.size)}`
    : `none in ${directory}`;
  if (neededBytes !== null && free !== null && free < neededBytes)
    return warn(
      name,
      `${found}; one more needs up to ${fileSizeText(neededBytes)}, and ${fileSizeText(free)} are free`,
      "free disk space, or set --backup-directory to a larger disk",
    );
  if (!newest)
    return warn(
      name,
      found,
      intervalS === null
        ? "set --backup-every, or make backups in another way, to another disk"
        : "the server makes the first one by itself; if it does not, see its log",
    );
  if (intervalS !== null && age > 2 * intervalS)
    return fail(
      name,
      `${found}, although one is due every ${ageText(intervalS)}`,
      "see the log of the server for why backups failed",
    );
  return ok(name, found);
}

/** The copies that were made before migrations; they stay until the operator deletes them. */
export function checkCopies(directory: string): Check {
  const copies = listFiles(join(directory, "backups"), /^assay-schema-\d+-before-\d+-.*\.db$/);
  const bytes = copies.reduce((sum, { size }) => sum + size, 0);
  return ok(
    "copies before upgrades",
    copies.length === 0
      ? "none"
      : `${copies.length} in backups/, ${fileSizeText(bytes)}; delete those of upgrades that have proved themselves`,
  );
}

/** Files whose names match, oldest first. `modifiedAt` in epoch seconds. */
function listFiles(directory: string, names: RegExp): { size: number; modifiedAt: number }[] {
  try {
    return readdirSync(directory)
      .filter((entry) => names.test(entry))
      .flatMap((entry) => statSync(join(directory, entry), { throwIfNoEntry: false }) ?? [])
      .map(({ size, mtimeMs }) => ({ size, modifiedAt: mtimeMs / 1000 }))
      .sort((a, b) => a.modifiedAt - b.modifiedAt);
  } catch {
    return [];
  }
}
