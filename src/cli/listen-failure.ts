/** What the operator can do about a place that cannot be listened on. */
import { listenText } from "../config/resolve.ts";
import { OPTIONS } from "../config/options.ts";
import type { Config } from "../config/options.ts";
import { commandFailure } from "./framework.ts";

/** @param handedOver whether sockets were used in place of `listen`. @returns null for an error of another kind. */
export function listenFailure(error: unknown, config: Config, handedOver: boolean): Error | null {
  const {
    code,
    syscall,
    option = "listen",
  } = error as { code?: string; syscall?: string; option?: "listen" | "metricsListen" };
  const said = error instanceof Error ? error.message : String(code);
  if (handedOver && option === "listen") {
    const ours = syscall === "listen" || syscall === "bind" || syscall === "open" || code === "ERR_INVALID_FD_TYPE";
    return ours
      ? commandFailure(
          `cannot listen on a socket that was handed over (${said}): its unit needs ListenStream= and Accept=no`,
        )
      : null;
  }
  if (syscall !== "listen" && syscall !== "bind" && syscall !== "getaddrinfo") return null;
  const listen = config[option] ?? config.listen;
  const { flag, placeholder, variable } = OPTIONS[option];
  const isPath = "path" in listen;
  const why = (isPath ? problemOfPath : problemOfAddress)(
    code,
    syscall,
    `--${flag} ${isPath ? "unix:/PATH" : placeholder} or ${variable}`,
  );
  return commandFailure(`cannot listen on ${listenText(listen)}: ${why ?? said}`);
}

function problemOfAddress(code: string | undefined, syscall: string, flag: string): string | null {
  if (syscall === "getaddrinfo") return `the host name is not known; give another one with ${flag}`;
  if (code === "EADDRINUSE") return `another program listens there; choose another port with ${flag}`;
  if (code === "EACCES") return `this user may not use that port; choose one from 1024 with ${flag}`;
  if (code === "EADDRNOTAVAIL") return `this machine does not have that address; give another one with ${flag}`;
  return null;
}

function problemOfPath(code: string | undefined, _: string, flag: string): string | null {
  if (code === "EADDRINUSE") return `another program answers there; stop it, or choose another path with ${flag}`;
  if (code === "ENOTSOCK") return `there is a file that is no socket; remove it, or choose another path with ${flag}`;
  // The library says so for a missing directory too.
  if (code === "EACCES")
    return `its directory is missing, or this user may not write there; make it, or choose another path with ${flag}`;
  return null;
}
