/** The data directory as the operating system sees it: whether it is there, who may read it, whether there is room. */
import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Check, Machine } from "./check.ts";
import { nearestExisting, fail, ok, fileSizeText, warn } from "./check.ts";

const OURS = ["assay.db", "assay.db-wal", "assay.db-shm", "assay.lock", "evidence", "staging", "backups"];

export function checkDirectory(directory: string): Check {
  const name = "data directory";
  if (!existsSync(directory))
    return fail(
      name,
      `there is no ${directory}`,
      "give --data the right one; assay serve, assay dev and assay init create a new one",
    );
  if (!statSync(directory).isDirectory())
    return fail(name, `${directory} is no directory`, "give --data the right one");
  if (!may(directory, constants.R_OK | constants.X_OK))
    return fail(name, `${directory} may not be looked into by this user`, "run this command as the user of the server");
  if (!existsSync(join(directory, "assay.db")))
    return fail(
      name,
      `${directory} holds no assay.db`,
      "give --data the right one; assay serve, assay dev and assay init begin with an empty directory",
    );
  return ok(name, directory);
}

/** Owner and rights; the rights of the directory keep others from everything in it. */
export function checkPermissions(directory: string, { uid }: Pick<Machine, "uid">): Check {
  const name = "permissions";
  const top = statSync(directory);
  const mode = (top.mode & 0o777).toString(8).padStart(4, "0");
  const strangers = OURS.flatMap((entry) => {
    const found = statSync(join(directory, entry), { throwIfNoEntry: false });
    return found && found.uid !== top.uid ? [`${entry} (user ${found.uid})`] : [];
  });
  if (strangers.length > 0) {
    return fail(
      name,
      `the directory belongs to user ${top.uid}, and ${strangers.join(", ")} to others: a command was run as another user`,
      `chown -R ${top.uid} ${directory}, and run commands as that user`,
    );
  }
  if ((top.mode & 0o007) !== 0)
    return fail(
      name,
      `${directory} has mode ${mode}: everybody on this machine may look into it`,
      `chmod 700 ${directory}`,
    );
  if ((top.mode & 0o070) !== 0)
    return warn(
      name,
      `${directory} has mode ${mode}: its group may look into it`,
      `chmod 700 ${directory}, unless the group is meant to`,
    );
  if (uid !== null && uid !== 0 && uid !== top.uid)
    return warn(
      name,
      `${directory} belongs to user ${top.uid}, and this is user ${uid}`,
      "run this command as the user of the server",
    );
  if (!may(directory, constants.W_OK) || !may(join(directory, "assay.db"), constants.W_OK))
    return fail(name, `${directory} cannot be written to`, "give its owner the right to, or mount it to be written to");
  return ok(name, `mode ${mode}, user ${top.uid}`);
}

function may(path: string, rights: number): boolean {
  try {
    accessSync(path, rights);
    return true;
  } catch {
    return false;
  }
}

/** @param reserve of --disk-reserve, in bytes */
export function checkSpace(
  directory: string,
  reserve: number,
  { fileSystemSpace: space }: Pick<Machine, "fileSystemSpace">,
): Check {
  const name = "disk space";
  const found = space(nearestExisting(directory));
  if (!found) return warn(name, "cannot be asked for", "look at it with df");
  const told = `${fileSizeText(found.free)} free of ${fileSizeText(found.size)}`;
  if (found.free < reserve)
    return fail(
      name,
      `${told}: less than the ${fileSizeText(reserve)} of --disk-reserve, the server takes no changes`,
      "make room; the server goes on by itself when there is",
    );
  if (found.files > 0 && found.freeFiles < 1000)
    return fail(
      name,
      `${told}, and room for ${found.freeFiles} more files`,
      "the file system is out of inodes: remove files, or move the data to another one",
    );
  if (found.free < 4 * reserve)
    return warn(
      name,
      `${told}; below ${fileSizeText(reserve)} the server takes no changes`,
      "make room before it does",
    );
  return ok(name, told);
}

/**
 * Room for one more backup, and the backups that are there.
 * @param place where backups go @param needed bytes of one, null when they cannot be told @param every how often the
 * server makes one, in seconds; null: it does not
 */
export function checkBackups(
  place: string,
  needed: number | null,
  every: number | null,
  { fileSystemSpace: space, now }: Pick<Machine, "fileSystemSpace" | "now">,
): Check {
  const name = "backup";
  const found = entriesOf(place, /^assay-backup-.*\.tar/);
  const newest = found.at(-1);
  const free = space(nearestExisting(place))?.free ?? null;
  const told = newest
    ? `the latest of ${found.length} in ${place} is ${ageText(now() - newest.modifiedAt)} old, ${fileSizeText(newest.size)}`
    : `none in ${place}`;
  if (needed !== null && free !== null && free < needed)
    return warn(
      name,
      `${told}; one more needs up to ${fileSizeText(needed)}, and ${fileSizeText(free)} are free`,
      "make room, or give --backup-directory a larger disk",
    );
  if (!newest)
    return warn(
      name,
      told,
      every === null
        ? "set --backup-every, or make backups in another way, to another disk"
        : "the first comes by itself; if it does not, see the log of the server",
    );
  if (every !== null && now() - newest.modifiedAt > 2 * every)
    return fail(
      name,
      `${told}, although one is made every ${ageText(every)}`,
      "see the log of the server for why they failed",
    );
  return ok(name, told);
}

/** Copies that were made before migrations; those of the last upgrades stay until the operator deletes them. */
export function checkCopies(directory: string): Check {
  const found = entriesOf(join(directory, "backups"), /^assay-schema-\d+-before-\d+-.*\.db$/);
  const bytes = found.reduce((sum, { size }) => sum + size, 0);
  return ok(
    "copies before upgrades",
    found.length === 0
      ? "none"
      : `${found.length} in backups/, ${fileSizeText(bytes)}; delete those of upgrades that proved themselves`,
  );
}

/** Files whose names match, oldest first. `modifiedAt` in epoch seconds. */
function entriesOf(place: string, names: RegExp): { size: number; modifiedAt: number }[] {
  try {
    return readdirSync(place)
      .filter((entry) => names.test(entry))
      .flatMap((entry) => statSync(join(place, entry), { throwIfNoEntry: false }) ?? [])
      .map(({ size, mtimeMs }) => ({ size, modifiedAt: mtimeMs / 1000 }))
      .sort((a, b) => a.modifiedAt - b.modifiedAt);
  } catch {
    return [];
  }
}

/** Seconds as people say them. */
export function ageText(seconds: number): string {
  const whole = Math.max(0, seconds);
  if (whole < 120) return `${Math.round(whole)} seconds`;
  if (whole < 7_200) return `${Math.round(whole / 60)} minutes`;
  if (whole < 172_800) return `${Math.round(whole / 3_600)} hours`;
  return `${Math.round(whole / 86_400)} days`;
}
