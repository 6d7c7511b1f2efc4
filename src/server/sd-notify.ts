/**
 * systemd's service protocol: sockets that it bound for this process (sd_listen_fds), and state notifications
 * (sd_notify). Node has no Unix datagram sockets, so notifications go through the program systemd-notify, without a
 * shell; the unit therefore sets NotifyAccess=all. There are no watchdog pings: starting a program every few seconds
 * would test that program rather than this server.
 */
import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import type { Logger } from "../log.ts";

/** Variables meant for this process alone. It removes them from its environment so that no child process uses them. */
export const SYSTEMD_VARIABLES = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET"] as const;

type Environment = Readonly<Record<string, string | undefined>>;

/** The descriptor of the first inherited socket. */
const FIRST_DESCRIPTOR = 3;

/** No unit binds more sockets than this; a larger count does not come from systemd. */
const MAX_SOCKETS = 64;

/** The sockets that systemd bound for the process `pid`; null when there are none. */
export function inheritedSockets(env: Environment, pid: number): { fd: number }[] | null {
  const count = /^\d{1,3}$/.test(env["LISTEN_FDS"] ?? "") ? Number(env["LISTEN_FDS"]) : 0;
  if (env["LISTEN_PID"] !== String(pid) || count < 1 || count > MAX_SOCKETS) return null;
  return Array.from({ length: count }, (_, index) => ({ fd: FIRST_DESCRIPTOR + index }));
}

export type SdNotifier = {
  /** The service accepts requests; `status` is the line that `systemctl status` shows. */
  ready(status: string): void;
  reloading(): void;
  stopping(): void;
  /** Resolves when all notifications were sent or failed. Never rejects. */
  flushed(): Promise<void>;
};

const NOTIFY_PROGRAMS = ["/usr/bin/systemd-notify", "/bin/systemd-notify"] as const;

/** A notification that hangs must not delay a stop. */
const NOTIFY_TIMEOUT_MS = 5_000;

type SdNotifierOptions = {
  /** NOTIFY_SOCKET of the environment; undefined: no notification is sent. */
  socket: string | undefined;
  pid: number;
  logger: Logger;
  /** Possible paths of systemd-notify. */
  programs?: readonly string[];
};

export function createSdNotifier({ socket, pid, logger, programs = NOTIFY_PROGRAMS }: SdNotifierOptions): SdNotifier {
  const program = socket ? programs.find(isExecutable) : undefined;
  if (socket && program === undefined)
    logger.warn(
      { looked_for: programs },
      "systemd-notify is not installed: systemd waits for a start notification that cannot be sent",
    );
  let last = Promise.resolve();
  let isStopping = false;
  // At a stop, systemd ends systemd-notify together with the server, and knows of the stop without it.
  const onFailure = (error: Error): void => {
    if (!isStopping) logger.warn({ err: error }, "systemd could not be notified; the server continues");
  };
  // One after another, and none after STOPPING=1: a reload may still be running when the server stops.
  const notify = (...assignments: string[]): void => {
    if (!socket || !program || isStopping) return;
    const args = [`--pid=${pid}`, ...assignments];
    last = last.then(() => runNotify({ program, socket, args, onFailure }));
  };
  return {
    ready: (status) => notify("READY=1", `STATUS=${status}`),
    // Units with Type=notify-reload also need the time; others ignore it.
    reloading: () => notify("RELOADING=1", `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`),
    stopping() {
      notify("STOPPING=1", "STATUS=stopping: waiting for running requests");
      isStopping = true;
    },
    flushed: () => last,
  };
}

function runNotify({
  program,
  socket,
  args,
  onFailure,
}: {
  program: string;
  socket: string;
  args: readonly string[];
  onFailure: (error: Error) => void;
}): Promise<void> {
  return new Promise((resolve) => {
    execFile(program, args, { env: { NOTIFY_SOCKET: socket }, timeout: NOTIFY_TIMEOUT_MS }, (error) => {
      if (error) onFailure(error);
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
