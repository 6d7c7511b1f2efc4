/**
 * Restoring the data of a systemd service.
 *
 * The backup is unpacked and checked beside the data directory while the service runs. Only then is the service
 * stopped, and the two directories change their names. What is refused before that leaves directory and service as they
 * were; a service that does not start on the restored data gets the earlier directory back.
 */
import { execFileSync } from "node:child_process";
import { existsSync, lstatSync, readdirSync, realpathSync, renameSync, rmSync, statSync } from "node:fs";
import { lchown, readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { syncPath } from "../backup/durable.ts";
import type { Manifest } from "../backup/format.ts";
import { realMachine } from "../diagnostics/doctor/check.ts";
import { findLockHolder } from "../diagnostics/doctor/process.ts";
import { messageOf } from "../domain/text/system-errors.ts";
import { DataDirectoryInUseError, isServed, lockDirectory } from "../store/db/data-directory-lock.ts";
import { openCopy, openReadOnly } from "../store/db/connection.ts";
import { findMissingTarget, findPrivateDirectory } from "../store/db/state-directory.ts";
import { walBytes } from "../store/db/wal.ts";
import { IN_DIRECTORY, findRecordedLocation } from "../store/attestations/evidence-location.ts";
import type { DbReader } from "../store/db/types.ts";
import { CommandError, EXIT } from "./framework.ts";
import { readService, resumeService, startService, stopService } from "./systemd-service.ts";
import type { Service } from "./systemd-service.ts";

/**
 * What is in the earlier directory and not in the backup. `lastChangeAt`: epoch seconds, null where there is no earlier
 * directory. `changes`: their number; null where the earlier database cannot be read, or has another history.
 */
type Loss = { lastChangeAt: number | null; changes: number | null };

/** `aside`: the earlier directory; null where there was none. `downSeconds`: how long the service was stopped. */
export type ServiceRestore = {
  manifest: Manifest;
  directory: string;
  aside: string | null;
  loss: Loss;
  downSeconds: number;
};

type ServiceRestoreOptions = {
  /** The name of the unit, and the data directory that it serves, an absolute path. */
  service: string;
  directory: string;
  /** Epoch seconds. */
  now(): number;
  /** Restores the backup into a directory that does not exist. */
  restoreInto(directory: string): Promise<Manifest>;
};

/** @throws CommandError, DataDirectoryInUseError, errors of `restoreInto` */
export async function restoreService(options: ServiceRestoreOptions): Promise<ServiceRestore> {
  const { service: name, now, restoreInto } = options;
  if (process.geteuid?.() !== 0)
    throw new CommandError("--service needs root, which may stop the service and replace its directory");
  const service = await readService(name);
  const directory = locateData(options.directory, service);
  requireServedBy(service, directory);
  const restored = `${directory}.restored`;
  removeLeftover(restored);
  const manifest = await restoreInto(restored);
  try {
    requireSameEvidence(directory, manifest);
    await giveTo(restored, ownerOf(directory, service));
    const aside = `${directory}.before-restore-${stampOf(now())}`;
    return { manifest, directory, ...(await exchange(service, { directory, restored, aside })) };
  } catch (error) {
    rmSync(restored, { recursive: true, force: true });
    throw error;
  }
}

/** The real path of the data, which may be missing. @throws CommandError where it cannot be moved aside */
function locateData(directory: string, { name, hasDynamicUser }: Service): string {
  const second = findPrivateDirectory(directory);
  if (second !== null && existsSync(directory))
    throw new CommandError(
      `there are two directories, ${directory} and ${second}: systemd starts no service with both; move one away`,
    );
  const realPath = existsSync(directory) ? realpathSync(directory) : (findMissingTarget(directory) ?? second);
  // systemd keeps the directory of a dynamic user there, and makes the link at the start.
  const isBesideLink = hasDynamicUser && basename(dirname(directory)) !== "private";
  const real = realPath ?? (isBesideLink ? join(dirname(directory), "private", basename(directory)) : directory);
  if (!existsSync(dirname(real)))
    throw new CommandError(`there is no directory ${dirname(real)}: start ${name} once, or create it (mode 0700)`);
  const found = lstatSync(real, { throwIfNoEntry: false });
  if (found && !found.isDirectory()) throw new CommandError(`${real} is not a directory`);
  if (found && found.dev !== statSync(dirname(real)).dev)
    throw new CommandError(
      `${real} is a mount point, which cannot be moved aside: stop ${name}, mount an empty disk there, and restore ` +
        "into it without --service",
    );
  return real;
}

/** The process that has the lock of a data directory; null where none does. */
const holderOf = (directory: string): { pid: number | null } | null =>
  isServed(directory) ? findLockHolder(join(directory, "assay.lock"), realMachine) : null;

/** @throws CommandError, DataDirectoryInUseError unless the service, and nothing else, serves the directory */
function requireServedBy({ name, isReady, mainPid }: Service, directory: string): void {
  const holder = holderOf(directory);
  if (holder !== null && (holder.pid !== mainPid || mainPid === null))
    throw new DataDirectoryInUseError(
      `process ${holder.pid ?? "(unknown)"} uses ${directory}, and it is not that of ${name}: stop it first`,
    );
  if (holder === null && isReady)
    throw new CommandError(`${name} runs and does not serve ${directory}: check --service and --data`);
}

/** What a restore leaves in its directory; with anything else, it was used since. */
const RESTORED = ["assay.db", "assay.lock", "evidence", "restore-finished", "staging"];

/** Removes what an earlier run left when it was killed. @throws CommandError */
function removeLeftover(restored: string): void {
  if (lstatSync(restored, { throwIfNoEntry: false }) === undefined) return;
  if (!lstatSync(restored).isDirectory() || readdirSync(restored).some((entry) => !RESTORED.includes(entry)))
    throw new CommandError(`${restored} is in the way, and no restore left it; move it away`);
  rmSync(restored, { recursive: true });
}

/** Runs `read` on the earlier database, where it can be read; null where that fails. */
function readEarlier<T>(directory: string, read: (db: DbReader) => T): T | null {
  try {
    const db = openReadOnly(directory, { immutable: walBytes(directory) === 0 && !isServed(directory) });
    try {
      return read(db);
    } finally {
      db.close();
    }
  } catch {
    return null;
  }
}

/**
 * The options of the service name the place of its evidence, and a restore with evidence has another place.
 * @throws CommandError
 */
function requireSameEvidence(directory: string, { evidence }: Manifest): void {
  const place = readEarlier(directory, findRecordedLocation);
  if (evidence && place !== null && place !== IN_DIRECTORY)
    throw new CommandError(
      `the service keeps its evidence in ${place}, and the backup contains it, which a restore puts into the ` +
        "directory: restore without --service, and move the evidence with assay vault migrate (assay help restore)",
    );
}

type Owner = { uid: number; gid: number };

/** The owner of the earlier directory, or the user of the unit. A dynamic user gets the directory at the start. */
function ownerOf(directory: string, { user, hasDynamicUser }: Service): Owner {
  const earlier = statSync(directory, { throwIfNoEntry: false });
  if (earlier) return earlier;
  if (user === null || hasDynamicUser) return { uid: 0, gid: 0 };
  const idOf = (option: string): number => Number(execFileSync("id", [option, "--", user], { encoding: "utf8" }));
  return { uid: idOf("-u"), gid: idOf("-g") };
}

async function giveTo(path: string, { uid, gid }: Owner): Promise<void> {
  await lchown(path, uid, gid);
  if (lstatSync(path).isDirectory())
    for (const entry of await readdir(path)) await giveTo(join(path, entry), { uid, gid });
}

/** 2026-01-02T03:04:05Z as 20260102T030405Z. */
const stampOf = (seconds: number): string => new Date(seconds * 1000).toISOString().replace(/[-:]|\.\d+/g, "");

type Paths = { directory: string; restored: string; aside: string };

/** Stops the service, exchanges the directories, and starts it. @throws CommandError; everything is as it was then */
async function exchange(
  service: Service,
  { directory, restored, aside }: Paths,
): Promise<Pick<ServiceRestore, "aside" | "loss" | "downSeconds">> {
  const stoppedAt = performance.now();
  await stopService(service);
  let isExchanged = false;
  const hadDirectory = existsSync(directory);
  try {
    const lock = hadDirectory ? lockDirectory(directory) : null;
    let loss: Loss;
    try {
      loss = measureLoss(directory, restored);
    } finally {
      // Before the rename, because it removes its journal by the name that it knows.
      lock?.release();
    }
    isExchanged = true;
    if (hadDirectory) renameSync(directory, aside);
    renameSync(restored, directory);
    await syncPath(dirname(directory));
    await startService(service);
    await requireServing(service, directory);
    return { aside: hadDirectory ? aside : null, loss, downSeconds: (performance.now() - stoppedAt) / 1000 };
  } catch (error) {
    const outcome = await goBack(service, { directory, restored, aside, isExchanged });
    throw new CommandError(
      `${messageOf(error)}; ${outcome} (journalctl -u ${service.name} has more)`,
      error instanceof DataDirectoryInUseError ? EXIT.dataInUse : EXIT.failed,
    );
  }
}

/** Makes everything as it was before the service was stopped, as far as possible; returns what came of it, in words. */
async function goBack(service: Service, { isExchanged, ...paths }: Paths & { isExchanged: boolean }): Promise<string> {
  try {
    if (isExchanged) await takeBack(service, paths);
  } catch (error) {
    return `the earlier directory is ${paths.aside} and could not be moved back: ${messageOf(error)}`;
  }
  try {
    await resumeService(service);
  } catch (error) {
    return `the earlier directory is in place again, and ${service.name} does not start on it: ${messageOf(error)}`;
  }
  return `the earlier directory is in place again${service.isActive ? `, and ${service.name} runs on it` : ""}`;
}

async function takeBack(service: Service, { directory, restored, aside }: Paths): Promise<void> {
  await stopService(service);
  if (existsSync(directory)) renameSync(directory, restored);
  if (existsSync(aside)) renameSync(aside, directory);
  await syncPath(dirname(directory));
}

const SERVING_TIMEOUT_MS = 60_000;
const SERVING_POLL_INTERVAL_MS = 200;

/** Waits until the service has the lock of the directory: it may be of a type that says nothing when it is ready. */
async function requireServing({ name }: Service, directory: string): Promise<void> {
  for (let waited = 0; waited < SERVING_TIMEOUT_MS; waited += SERVING_POLL_INTERVAL_MS) {
    const { isActive, mainPid } = await readService(name);
    const holder = holderOf(directory);
    if (holder !== null && holder.pid === mainPid) return;
    if (!isActive) break;
    await sleep(SERVING_POLL_INTERVAL_MS);
  }
  throw new CommandError(`${name} was started and does not serve ${directory}: check --service and --data`);
}

const LAST_CHANGE = "SELECT id, timestamp FROM audit_log ORDER BY id DESC LIMIT 1";

/** Compares the logs of changes; without a readable database the times of the files say when the last change was. */
function measureLoss(directory: string, restored: string): Loss {
  if (!existsSync(directory)) return { lastChangeAt: null, changes: null };
  const copy = openCopy(join(restored, "assay.db"));
  const lastChange = copy.prepare<[], { id: number; timestamp: number }>(LAST_CHANGE).get();
  copy.close();
  const found = readEarlier(directory, (db) => {
    const last = db.prepare<[], { id: number; timestamp: number }>(LAST_CHANGE).get();
    const shared = db.prepare<[number], number>("SELECT timestamp FROM audit_log WHERE id = ?").pluck();
    const isSameHistory = lastChange === undefined || shared.get(lastChange.id) === lastChange.timestamp;
    const count = db.prepare<[number], number>("SELECT count(*) FROM audit_log WHERE id > ?").pluck();
    return {
      lastChangeAt: last?.timestamp ?? null,
      changes: isSameHistory ? (count.get(lastChange?.id ?? 0) ?? 0) : null,
    };
  });
  return found ?? { lastChangeAt: newestTime(directory), changes: null };
}

/** The time of the latest write to the database's files, in epoch seconds; null without any. */
function newestTime(directory: string): number | null {
  const times = ["assay.db", "assay.db-wal"].flatMap(
    (name) => statSync(join(directory, name), { throwIfNoEntry: false })?.mtimeMs ?? [],
  );
  return times.length === 0 ? null : Math.max(times[0] ?? 0, times[1] ?? 0) / 1000;
}
