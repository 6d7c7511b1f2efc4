/**
 * What systemd and a service tell each other: sockets that it bound for the service (sd_listen_fds), and how the
 * service is doing (sd_notify). Node has no datagram sockets of the Unix kind, so messages go through the program
 * systemd-notify, without a shell; the unit therefore says NotifyAccess=all. Watchdog pings are left out: a program
 * started every few seconds would watch itself.
 */
import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import type { Logger } from "../log.ts";

/**
 * Variables that are meant for this process alone; it takes them out of its environment, so that nothing it starts
 * believes in them.
 */
export const SYSTEMD_VARIABLES = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET"] as const;

type Environment = Readonly<Record<string, string | undefined>>;

/** The first descriptor of the sockets that were handed over. */
const FIRST = 3;

/** No unit binds more sockets than this; a larger figure is not one of systemd's. */
const MOST = 64;

/** The sockets that systemd bound for the process `pid`; null when it bound none. */
export function inheritedSockets(env: Environment, pid: number): { fd: number }[] | null {
  const count = /^\d{1,3}$/.test(env["LISTEN_FDS"] ?? "") ? Number(env["LISTEN_FDS"]) : 0;
  if (env["LISTEN_PID"] !== String(pid) || count < 1 || count > MOST) return null;
  return Array.from({ length: count }, (_, index) => ({ fd: FIRST + index }));
}

export type Notifier = {
  /** The service can be used; `status` is the line of `systemctl status`. */
  ready(status: string): void;
  reloading(): void;
  stopping(): void;
  /** Resolves when everything was handed over, or cannot be. Never rejects. */
  told(): Promise<void>;
};

const PROGRAMS = ["/usr/bin/systemd-notify", "/bin/systemd-notify"] as const;

/** Milliseconds: systemd waits for nobody, so a notification that hangs must not hold up a stop. */
const PATIENCE_MS = 5_000;

/**
 * @param socket NOTIFY_SOCKET of the environment; without it nobody is told anything
 * @param programs where systemd-notify may be
 */
export function createSdNotifier({
  socket,
  pid,
  logger,
  programs = PROGRAMS,
}: {
  socket: string | undefined;
  pid: number;
  logger: Logger;
  programs?: readonly string[];
}): Notifier {
  const program = socket ? programs.find(isExecutable) : undefined;
  if (socket && program === undefined)
    logger.warn({ looked_for: programs }, "systemd waits to be told of the start, but systemd-notify is not here");
  let last = Promise.resolve();
  let over = false;
  // One after the other, and nothing after STOPPING=1: a reload may end while the server stops.
  const tell = (...words: string[]): void => {
    if (socket && program && !over) last = last.then(() => send(program, socket, [`--pid=${pid}`, ...words], logger));
  };
  return {
    ready: (status) => tell("READY=1", `STATUS=${status}`),
    // Units of the type notify-reload want the time too; others ignore it.
    reloading: () => tell("RELOADING=1", `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`),
    stopping() {
      tell("STOPPING=1", "STATUS=stopping: running requests may end");
      over = true;
    },
    told: () => last,
  };
}

function send(program: string, socket: string, words: readonly string[], logger: Logger): Promise<void> {
  return new Promise((resolve) => {
    execFile(program, words, { env: { NOTIFY_SOCKET: socket }, timeout: PATIENCE_MS }, (error) => {
      if (error) logger.warn({ err: error }, "systemd could not be told");
      resolve();
    });
  });
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
