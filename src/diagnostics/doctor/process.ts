/** The machine around the server: its clock, memory, limits, the process itself, its address and its certificate. */
import { createServer } from "node:net";
import { accessSync, constants, lstatSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { classifyClock } from "../../domain/clock.ts";
import type { Config } from "../../config/options.ts";
import type { Check, Machine } from "./check.ts";
import { fail, ok, fileSizeText, warn } from "./check.ts";
import type { DatabaseContents } from "./database.ts";
import { ageText } from "./directory.ts";

/** Seconds that times may lie ahead: file systems and clocks of containers are coarse. */
const MAX_AHEAD_S = 5;

const SYNCHRONIZE = "let the machine synchronize its clock (systemd-timesyncd, chrony), and restart the server";
const SEE_TROUBLESHOOTING = "see assay help troubleshooting";

/**
 * The clock against what the database knows of it and against the file.
 * @param known `newest`: time of the latest change, in epoch seconds, null where it was not asked; `backwards`: by how
 * much the
 *   latest changes go back in time at most, in seconds; `clock`: null where nothing is known.
 */
export function checkClock(
  directory: string,
  { newest, backwards, clock }: Pick<DatabaseContents, "newest" | "backwards" | "clock">,
  { now, readText: text }: Pick<Machine, "now" | "readText">,
): Check {
  const name = "clock";
  const at = now();
  const file = statSync(join(directory, "assay.db"), { throwIfNoEntry: false });
  const told = new Date(at * 1000).toISOString();
  if (clock?.isOpen && classifyClock(at, clock.goodAt) === "ahead") {
    const found = `it is ${told}, ${ageText(at - clock.goodAt)} past the last known good time, and changes were recorded under this clock`;
    return fail(
      name,
      found,
      `set it right, if it is wrong: ${SEE_TROUBLESHOOTING}; a server that runs with it for a day takes it for right`,
    );
  }
  if (newest !== null && newest > at + MAX_AHEAD_S) {
    const found = `it is ${told}, and the latest change in the database is ${ageText(newest - at)} in the future`;
    // The change was made by a clock that ran ahead, or this one is wrong now.
    const isKnown = clock !== null && clock.jumpTo !== null && newest >= clock.jumpTo && at < clock.jumpTo;
    return isKnown
      ? warn(
          name,
          `${found}: it was made by a clock that ran ahead`,
          `if it is right now, nothing has to be done: ${SEE_TROUBLESHOOTING}`,
        )
      : fail(name, `${found}: the clock was set back`, SYNCHRONIZE);
  }
  if (file && file.mtimeMs / 1000 > at + MAX_AHEAD_S)
    return warn(
      name,
      `it is ${told}, and assay.db was written ${ageText(file.mtimeMs / 1000 - at)} in the future: the clock was set back`,
      SYNCHRONIZE,
    );
  if (backwards > MAX_AHEAD_S)
    return warn(
      name,
      `it is ${told}; among the latest changes are some that go back in time by ${ageText(backwards)}`,
      SYNCHRONIZE,
    );
  const synchronized = text("/run/systemd/timesync/synchronized") !== null;
  return ok(name, synchronized ? `${told}, synchronized by systemd-timesyncd` : told);
}

/** The process that holds the lock of the directory. `uid` is its user. */
export type ServerProcess = { pid: number | null; uid: number | null };

/** Who holds a lock on `file`, as /proc/locks tells it; null where it does not. */
export function findLockHolder(file: string, { readText: text }: Pick<Machine, "readText">): ServerProcess {
  const inode = statSync(file, { throwIfNoEntry: false })?.ino;
  for (const line of (text("/proc/locks") ?? "").split("\n")) {
    const [, , , kind, pid, place = ""] = line.trim().split(/\s+/);
    if (kind !== "WRITE" || place.split(":")[2] !== String(inode)) continue;
    const uid = /^Uid:\s+(\d+)/m.exec(text(`/proc/${pid}/status`) ?? "")?.[1];
    return { pid: Number(pid), uid: uid === undefined ? null : Number(uid) };
  }
  return { pid: null, uid: null };
}

export const checkServer = (server: ServerProcess | null): Check =>
  ok(
    "server",
    server === null
      ? "does not run"
      : `runs${server.pid === null ? "" : ` as process ${server.pid}`}${server.uid === null ? "" : ` of user ${server.uid}`}`,
  );

/** Each connection, file and thread of a server takes one; below this a busy one runs out. */
const MIN_OPEN_FILES = 4_096;

/** Of the server if it runs, else of this process, which was started in the same way as one would be. */
export function checkOpenFiles(server: ServerProcess | null, { readText: text }: Pick<Machine, "readText">): Check {
  const name = "open files";
  const limits = (server?.pid == null ? null : text(`/proc/${server.pid}/limits`)) ?? text("/proc/self/limits");
  const limit = /^Max open files\s+(\S+)/m.exec(limits ?? "")?.[1];
  if (limit === undefined) return ok(name, "the limit is not known");
  if (limit !== "unlimited" && Number(limit) < MIN_OPEN_FILES)
    return warn(
      name,
      `at most ${limit} at a time`,
      `let it have ${MIN_OPEN_FILES} or more: LimitNOFILE= of the unit, or ulimit -n`,
    );
  return ok(name, `at most ${limit} at a time`);
}

const MIN_MEMORY_BYTES = 512 * 1024 * 1024;
const MIN_AVAILABLE_BYTES = 128 * 1024 * 1024;

export function checkMemory({ readText: text }: Pick<Machine, "readText">): Check {
  const name = "memory";
  const field = (label: string): number | null => {
    const found = new RegExp(`^${label}:\\s+(\\d+) kB`, "m").exec(text("/proc/meminfo") ?? "")?.[1];
    return found === undefined ? null : Number(found) * 1024;
  };
  const [total, available] = [field("MemTotal"), field("MemAvailable")];
  if (total === null) return ok(name, "its size is not known");
  const limit = Number((text("/sys/fs/cgroup/memory.max") ?? "max").trim());
  const most = Number.isFinite(limit) ? Math.min(limit, total) : total;
  const told = `${fileSizeText(most)}${most < total ? " for this container or service" : ""}${available === null ? "" : `, ${fileSizeText(available)} of the machine available`}`;
  if (most < MIN_MEMORY_BYTES) return warn(name, told, `give it ${fileSizeText(MIN_MEMORY_BYTES)} or more`);
  if (available !== null && available < MIN_AVAILABLE_BYTES)
    return warn(
      name,
      told,
      "something on this machine takes nearly all of it: find out what, before the kernel ends a process",
    );
  return ok(name, told);
}

/** Whether a server could listen, where none does. Binds the address for a moment. */
export async function checkAddress(listen: Config["listen"], server: ServerProcess | null): Promise<Check> {
  const name = "address";
  if ("path" in listen) return checkSocket(listen.path, server);
  const { host, port } = listen;
  const shown = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  if (server !== null) return ok(name, `${shown} is configured; the server runs`);
  const code = await new Promise<string | null>((resolve) => {
    const probe = createServer();
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(null)));
  });
  if (code === null) return ok(name, `${shown} is free`);
  if (code === "EADDRINUSE")
    return fail(
      name,
      `${shown} is taken by another process`,
      "stop that process, or give --listen another port; ss -ltnp tells which it is",
    );
  if (code === "EACCES")
    return fail(
      name,
      `${shown} may not be bound by this user`,
      "give --listen a port of 1024 or more, or let the service bind it (AmbientCapabilities=CAP_NET_BIND_SERVICE)",
    );
  if (code === "EADDRNOTAVAIL")
    return fail(name, `${shown} is no address of this machine`, "give --listen one that it has");
  return fail(name, `${shown} cannot be bound: ${code}`, "give --listen another address");
}

/** A Unix socket is not bound on trial, because that would make its file. */
function checkSocket(path: string, server: ServerProcess | null): Check {
  const name = "address";
  if (server !== null) return ok(name, `unix:${path} is configured; the server runs`);
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found && !found.isSocket())
    return fail(name, `unix:${path} is a file that is no socket`, "remove it, or give --listen another path");
  try {
    accessSync(dirname(path), constants.W_OK);
  } catch {
    return fail(
      name,
      `${dirname(path)} cannot be written, and a socket is made there`,
      "make the directory, writable for the user of the server, or give --listen another path",
    );
  }
  return ok(
    name,
    found
      ? `unix:${path} was left by a server, and the next one replaces it if nobody answers there`
      : `unix:${path} can be made`,
  );
}
