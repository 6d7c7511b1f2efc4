/**
 * What the user of the server may do with the files that it needs, found by trying as that user: root becomes it, for
 * good, once nothing else is left to do. Modes alone would not show access control lists, and root may do anything.
 */
import { accessSync, constants, lstatSync, readdirSync, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { dirname, join } from "node:path";
import { causeOf, messageOf } from "../../domain/text/system-errors.ts";
import { deviceAndInode, fail, ok, warn } from "./check.ts";
import type { Check } from "./check.ts";
import { userText } from "./server-user.ts";
import type { ServerUser, Unit } from "./server-user.ts";

const { R_OK, W_OK, X_OK } = constants;

/** Makes this process that of another user, in a directory that it could not reach by its name. Not to be undone. */
export type Become = (user: Pick<ServerUser, "uid" | "gid" | "groups">, directory: string) => void;

/**
 * `base` is a name of the data directory that works for this process. `problem`: why it cannot check for the user; null
 * where it can.
 */
type Standing = { user: ServerUser; base: string; problem: string | null };

/** Where systemd keeps the directories of dynamic users: only root and the service itself get through. */
const PRIVATE_DIRECTORIES = "/var/lib/private/";

/**
 * Takes the place of the server's user, if this process is root.
 * @param directory the real path of the data directory
 * @param uid the user of this process; null where there are none
 */
export function standInFor(
  user: ServerUser,
  directory: string,
  { uid, become }: { uid: number | null; become: Become },
): Standing {
  const here = { user, base: directory, problem: null };
  if (uid === null || uid === user.uid) return here;
  if (uid !== 0) return { ...here, problem: `this is user ${uid}` };
  try {
    become(user, directory);
    return { ...here, base: "." };
  } catch (error) {
    return { ...here, problem: `this process may not become that user (${messageOf(error)})` };
  }
}

export function checkServerUser({ user, problem }: Standing): Check {
  const name = "server user";
  const found = `${userText(user)}, ${user.source}`;
  return problem === null
    ? ok(name, `${found}: files are checked as this user`)
    : warn(
        name,
        `${found}, and ${problem}: permissions are not checked`,
        `run this command as root or as user ${user.uid}`,
      );
}

/** An entry of the data directory that the server cannot use. */
type Offence = { path: string; stats: Stats | null };

/** Most entries that are looked at: a second of work. */
const MAX_ENTRIES = 100_000;
const MAX_NAMED = 4;

/** Checks owner, mode and access of everything in the data directory. @param directory its real path */
export function checkPermissions(directory: string, { user, base, problem }: Standing): Check | null {
  const name = "permissions";
  if (problem !== null) return null;
  const who = `user ${userText(user)}`;
  const blocked = directory.startsWith(PRIVATE_DIRECTORIES) ? null : findBlocked(directory);
  if (blocked !== null)
    return fail(name, `${who} cannot reach ${directory}: ${blocked}`, "let it pass that directory, or move the data");
  const { uid: owner, mode: bits } = statSync(base);
  const { foreign, denied, count } = inspect(base, user);
  const whose = owner === user.uid ? `--reference=${directory}` : `${user.uid}:${user.gid}`;
  const todo = `stop the server, and run chown -R ${whose} ${directory}`;
  // The server changes modes and times, which only the owner may; root may do that, too.
  if (foreign.length > 0 && user.uid !== 0)
    return fail(
      name,
      `these entries do not belong to ${who}: ${listOffences(foreign)}; a command was run as another user`,
      todo,
    );
  if (denied.length > 0)
    return fail(
      name,
      `${who} has no access to these entries: ${listOffences(denied)}`,
      `${todo}, and chmod -R u+rwX ${directory}`,
    );
  const mode = modeText(bits);
  if ((bits & 0o007) !== 0)
    return fail(
      name,
      `${directory} has mode ${mode}: every user of this machine can read it`,
      `chmod 700 ${directory}`,
    );
  if ((bits & 0o070) !== 0)
    return warn(
      name,
      `${directory} has mode ${mode}: its group can read it`,
      `chmod 700 ${directory}, unless the group is meant to have access`,
    );
  const all = count < MAX_ENTRIES ? `all ${count}` : `the first ${count}`;
  return ok(name, `mode ${mode}, ${who} owns and may use ${all} entries`);
}

function inspect(base: string, user: ServerUser): { foreign: Offence[]; denied: Offence[]; count: number } {
  const foreign: Offence[] = [];
  const denied: Offence[] = [];
  let count = 0;
  for (const { path, stats, need } of walk(base)) {
    if (stats !== null && stats.uid !== user.uid) foreign.push({ path, stats });
    if (denialOf(join(base, path), need) !== null) denied.push({ path, stats });
    count += 1;
    if (count === MAX_ENTRIES) break;
  }
  return { foreign, denied, count };
}

type Entry = Offence & { need: number };

/**
 * The data directory, what is in it, and the content of its directories, with the access that the server needs. What
 * cannot be listed has no content here, and is denied.
 */
function* walk(base: string): Generator<Entry> {
  yield { path: ".", stats: statsOf(base), need: R_OK | W_OK | X_OK };
  for (const name of listNames(base)) {
    if (name === "lost+found") continue;
    const stats = statsOf(join(base, name));
    if (stats?.isDirectory()) yield* walkDirectory(base, name, stats);
    else if (stats?.isFile()) yield { path: name, stats, need: R_OK | W_OK };
  }
}

function* walkDirectory(base: string, path: string, stats: Stats): Generator<Entry> {
  yield { path, stats, need: R_OK | W_OK | X_OK };
  for (const name of listNames(join(base, path))) {
    const inner = join(path, name);
    const found = statsOf(join(base, inner));
    // Evidence is two levels deep, and its files are read-only; other files are only ever replaced or removed.
    if (found?.isDirectory() && path === "evidence") yield* walkDirectory(base, inner, found);
    else if (found?.isFile()) yield { path: inner, stats: found, need: R_OK };
  }
}

const statsOf = (path: string): Stats | null => {
  try {
    return lstatSync(path);
  } catch {
    return null;
  }
};

function listNames(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

const modeText = (bits: number): string => (bits & 0o777).toString(8).padStart(4, "0");

const ownerText = (stats: Stats | null): string =>
  stats === null ? "" : ` (user ${stats.uid}, mode ${modeText(stats.mode)})`;

function listOffences(offences: readonly Offence[]): string {
  const named = offences.slice(0, MAX_NAMED).map(({ path, stats }) => `${path}${ownerText(stats)}`);
  const more = offences.length - named.length;
  return `${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** Why this process has no such access to a path; null where it has. */
function denialOf(path: string, need: number): string | null {
  try {
    accessSync(path, need);
    return null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EACCES" && code !== "EPERM") return causeOf(error).replace(/;[^;]*$/, "");
    const stats = statsOf(path);
    return findBlocked(path) ?? (stats ? `it has mode ${modeText(stats.mode)} and belongs to user ${stats.uid}` : code);
  }
}

/** The first directory on the way to a path that this process may not pass, in words; null where it gets there. */
function findBlocked(path: string): string | null {
  const above: string[] = [];
  for (let at = dirname(path); !above.includes(at); at = dirname(at)) above.unshift(at);
  for (const directory of above) {
    try {
      accessSync(directory, X_OK);
    } catch {
      const stats = statsOf(directory);
      return stats && `${directory} has mode ${modeText(stats.mode)} and belongs to user ${stats.uid}`;
    }
  }
  return null;
}

/** A file that an option names, or a directory that the server writes to; absolute paths. */
export type OptionFile = { option: string; path: string; isWritten: boolean };

/** The files that the service reads itself: systemd passes it copies of the others. Ask before `standInFor`. */
export function withoutCredentials(files: readonly OptionFile[], unit: Unit | null): OptionFile[] {
  const identityOf = (path: string): string => {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
    return stats ? deviceAndInode(stats) : path;
  };
  const passed = new Set(unit?.credentials.map(identityOf));
  return files.filter(({ path }) => !passed.has(identityOf(path)));
}

/** Whether the server's user can use the files of the options; null where there are none, or this is not known. */
export function checkOptionFiles(files: readonly OptionFile[], { user, problem }: Standing): Check | null {
  const name = "files of options";
  if (files.length === 0 || problem !== null) return null;
  const who = `user ${userText(user)}`;
  const denials = files.flatMap(({ option, path, isWritten }) => {
    const denial = denialOf(path, isWritten ? R_OK | W_OK | X_OK : R_OK);
    return denial === null ? [] : [`${isWritten ? "write to" : "read"} ${path} (--${option}): ${denial}`];
  });
  if (denials.length > 0)
    return fail(
      name,
      `${who} cannot ${denials.join("; cannot ")}`,
      "give that user or one of its groups access (chgrp, chmod), or let systemd pass copies of files, as the unit " +
        "of assay systemd does",
    );
  return ok(name, `${who} can use those of ${files.map(({ option }) => `--${option}`).join(", ")}`);
}

/**
 * Why a socket cannot be created; null where it can, where this is not known, or where systemd creates it or its
 * directory. @param standing null: for the user of this process
 */
export function findSocketDenial(path: string, standing: Standing | null, unit: Unit | null): string | null {
  const directory = dirname(path);
  if (standing?.problem || unit?.hasSocket || unit?.runtimeDirectories.includes(directory)) return null;
  return denialOf(directory, W_OK | X_OK);
}
