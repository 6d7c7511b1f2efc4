/** Checks of the server process and the machine around it: clock, memory, limits and address. */
import { createServer } from "node:net";
import { lstatSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { classifyClock } from "../../domain/clock.ts";
import type { Listen } from "../../config/types.ts";
import type { Check, Machine } from "./check.ts";
import { ageText, deviceAndInode, fail, fileSizeText, ok, warn } from "./check.ts";
import type { DatabaseContents } from "./database.ts";

/** Tolerated lead of a time over the clock: timestamps of file systems and containers are coarse. */
const MAX_AHEAD_S = 5;

const SYNCHRONIZE = "synchronize the clock of the machine (systemd-timesyncd, chrony), and restart the server";
const SEE_TROUBLESHOOTING = "see assay help troubleshooting";

/** Compares the clock with the times in the database and of its file. @param directory the data directory */
export function checkClock(
  directory: string,
  { newest, backwards, clock }: Pick<DatabaseContents, "newest" | "backwards" | "clock">,
  { now, readText }: Pick<Machine, "now" | "readText">,
): Check {
  const name = "clock";
  const at = now();
  const file = statSync(join(directory, "assay.db"), { throwIfNoEntry: false });
  const time = new Date(at * 1000).toISOString();
  if (clock?.isOpen && classifyClock(at, clock.goodAt) === "ahead") {
    return fail(
      name,
      `it is ${time}, ${ageText(at - clock.goodAt)} past the last known good time, ` +
        "and changes were recorded under this clock",
      `correct it if it is wrong: ${SEE_TROUBLESHOOTING}; a server that runs with it for a day accepts it as right`,
    );
  }
  if (newest !== null && newest > at + MAX_AHEAD_S) {
    const found = `it is ${time}, and the latest change in the database is ${ageText(newest - at)} in the future`;
    // Either the change was recorded under a clock that ran ahead, or the clock is wrong now.
    const isKnown = clock !== null && clock.jumpTo !== null && newest >= clock.jumpTo && at < clock.jumpTo;
    return isKnown
      ? warn(
          name,
          `${found}: it was recorded under a clock that ran ahead`,
          `if the clock is right now, nothing has to be done: ${SEE_TROUBLESHOOTING}`,
        )
      : fail(name, `${found}: the clock was set back`, SYNCHRONIZE);
  }
  if (file && file.mtimeMs / 1000 > at + MAX_AHEAD_S)
    return warn(
      name,
      `it is ${time}, and assay.db was written ${ageText(file.mtimeMs / 1000 - at)} in the future: ` +
        "the clock was set back",
      SYNCHRONIZE,
    );
  if (backwards > MAX_AHEAD_S)
    return warn(
      name,
      `it is ${time}; the latest changes contain steps back in time of up to ${ageText(backwards)}`,
      SYNCHRONIZE,
    );
  const synchronized = readText("/run/systemd/timesync/synchronized") !== null;
  return ok(name, synchronized ? `${time}, synchronized by systemd-timesyncd` : time);
}

/** The process that holds the lock of the data directory, and its user; null where they are unknown. */
export type ServerProcess = { pid: number | null; uid: number | null };

/** The process that holds a write lock on `file`, from /proc/locks. */
export function findLockHolder(file: string, { readText }: Pick<Machine, "readText">): ServerProcess {
  const inode = statSync(file, { throwIfNoEntry: false })?.ino;
  for (const line of (readText("/proc/locks") ?? "").split("\n")) {
    const [, , , kind, pid, place = ""] = line.trim().split(/\s+/);
    if (kind !== "WRITE" || place.split(":")[2] !== String(inode)) continue;
    const uid = /^Uid:\s+(\d+)/m.exec(readText(`/proc/${pid}/status`) ?? "")?.[1];
    return { pid: Number(pid), uid: uid === undefined ? null : Number(uid) };
  }
  return { pid: null, uid: null };
}

export function checkServer(server: ServerProcess | null): Check {
  const name = "server";
  if (server === null) return ok(name, "does not run");
  const process = server.pid === null ? "" : ` as process ${server.pid}`;
  const user = server.uid === null ? "" : ` of user ${server.uid}`;
  return ok(name, `runs${process}${user}`);
}

const DATABASE_FILES = ["assay.db", "assay.db-wal", "assay.db-shm"];

/** Whether the files of the data directory are those that its server has open; null where that is unknown. */
export function checkDatabaseFiles(
  directory: string,
  server: ServerProcess,
  { openFiles }: Pick<Machine, "openFiles">,
): Check | null {
  const name = "database files";
  const open = server.pid === null ? null : openFiles(server.pid);
  if (open === null) return null;
  const lost = DATABASE_FILES.flatMap((file) => {
    const stats = statSync(join(directory, file), { bigint: true, throwIfNoEntry: false });
    if (!stats) return [`${file} was removed or moved away`];
    return open.has(deviceAndInode(stats)) ? [] : [`${file} was replaced by another file`];
  });
  return lost.length === 0
    ? ok(name, "are those that the server has open")
    : fail(name, `${lost.join(", ")} while the server was running`, "see assay help database-files before you stop it");
}

/** Every connection, file and thread of a server needs a descriptor; a busy server needs more than this. */
const MIN_OPEN_FILES = 4_096;

/** The limit of the running server, or else of this process, which was started as a server would be. */
export function checkOpenFiles(server: ServerProcess | null, { readText }: Pick<Machine, "readText">): Check {
  const name = "open files";
  const limits = (server?.pid == null ? null : readText(`/proc/${server.pid}/limits`)) ?? readText("/proc/self/limits");
  const limit = /^Max open files\s+(\S+)/m.exec(limits ?? "")?.[1];
  if (limit === undefined) return ok(name, "the limit is unknown");
  if (limit !== "unlimited" && Number(limit) < MIN_OPEN_FILES)
    return warn(
      name,
      `at most ${limit} at a time`,
      `raise the limit to ${MIN_OPEN_FILES} or more: LimitNOFILE= of the unit, or ulimit -n`,
    );
  return ok(name, `at most ${limit} at a time`);
}

const MIN_MEMORY_BYTES = 512 * 1024 * 1024;
const MIN_AVAILABLE_BYTES = 128 * 1024 * 1024;

export function checkMemory({ readText }: Pick<Machine, "readText">): Check {
  const name = "memory";
  const field = (label: string): number | null => {
    const kilobytes = new RegExp(`^${label}:\\s+(\\d+) kB`, "m").exec(readText("/proc/meminfo") ?? "")?.[1];
    return kilobytes === undefined ? null : Number(kilobytes) * 1024;
  };
  const [total, available] = [field("MemTotal"), field("MemAvailable")];
  if (total === null) return ok(name, "its size is unknown");
  const limit = Number((readText("/sys/fs/cgroup/memory.max") ?? "max").trim());
  const usable = Number.isFinite(limit) ? Math.min(limit, total) : total;
  const scope = usable < total ? " for this container or service" : "";
  const rest = available === null ? "" : `, ${fileSizeText(available)} of the machine available`;
  const found = `${fileSizeText(usable)}${scope}${rest}`;
  if (usable < MIN_MEMORY_BYTES) return warn(name, found, `give it ${fileSizeText(MIN_MEMORY_BYTES)} or more`);
  if (available !== null && available < MIN_AVAILABLE_BYTES)
    return warn(name, found, "another process uses nearly all memory: find it before the kernel kills a process");
  return ok(name, found);
}

/** Whether a server could listen where none does. Binds the address for a moment. */
export async function checkAddress({ host, port }: Listen, server: ServerProcess | null): Promise<Check> {
  const name = "address";
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  if (server !== null) return ok(name, `${address} is configured; the server runs`);
  const code = await new Promise<string | null>((resolve) => {
    const probe = createServer();
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(null)));
  });
  if (code === null) return ok(name, `${address} is free`);
  if (code === "EADDRINUSE")
    return fail(
      name,
      `${address} is used by another process`,
      "stop that process, or set --listen to another port; ss -ltnp shows which process it is",
    );
  if (code === "EACCES")
    return fail(
      name,
      `this user may not bind ${address}`,
      "set --listen to a port of 1024 or more, or allow the service to bind it " +
        "(AmbientCapabilities=CAP_NET_BIND_SERVICE)",
    );
  if (code === "EADDRNOTAVAIL")
    return fail(name, `${address} is not an address of this machine`, "set --listen to one that it has");
  return fail(name, `${address} cannot be bound: ${code}`, "set --listen to another address");
}

/**
 * Whether a server could listen on a Unix socket. Does not bind it, because that would create its file.
 * @param denial why the server's user cannot create it
 */
export function checkSocket(path: string, server: ServerProcess | null, denial: string | null): Check {
  const name = "address";
  if (server !== null) return ok(name, `unix:${path} is configured; the server runs`);
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found && !found.isSocket())
    return fail(name, `unix:${path} is a file and not a socket`, "remove it, or set --listen to another path");
  if (denial !== null)
    return fail(
      name,
      `the server's user cannot create a socket in ${dirname(path)}: ${denial}`,
      "create the directory, writable for the user of the server, or set --listen to another path",
    );
  return ok(
    name,
    found
      ? `unix:${path} was left by a server; the next one replaces it if no process answers there`
      : `unix:${path} can be created`,
  );
}
