/** Explains why a server cannot listen on an address, and what the operator can do. */
import { formatListenAddress } from "../config/resolve.ts";
import { OPTIONS } from "../config/options.ts";
import type { Config } from "../config/options.ts";
import { causeOf } from "../domain/text/system-errors.ts";
import { CommandError } from "./framework.ts";

type ListenError = { code?: string; syscall?: string; option?: "listen" | "metricsListen" };

/**
 * Maps an error of listening to a CommandError with a remedy; null for any other error. `inherited`: systemd passed the
 * sockets, so the option `listen` was not used.
 */
export function explainListenError(
  error: unknown,
  config: Config,
  { inherited }: { inherited: boolean },
): CommandError | null {
  const { code, syscall, option = "listen" } = error as ListenError;
  const message = error instanceof Error ? error.message : String(code);
  if (inherited && option === "listen") {
    const isListenError =
      syscall === "listen" || syscall === "bind" || syscall === "open" || code === "ERR_INVALID_FD_TYPE";
    return isListenError
      ? new CommandError(
          `cannot listen on a socket passed by systemd (${message}): its unit needs ListenStream= and Accept=no`,
        )
      : null;
  }
  if (syscall !== "listen" && syscall !== "bind" && syscall !== "getaddrinfo") return null;
  const listen = config[option] ?? config.listen;
  const { flag, placeholder, variable } = OPTIONS[option];
  const isPath = "path" in listen;
  const setting = `--${flag} ${isPath ? "unix:/PATH" : placeholder} or ${variable}`;
  const why = isPath ? explainSocketPathError(code, setting) : explainAddressError(code, syscall, setting);
  return new CommandError(`cannot listen on ${formatListenAddress(listen)}: ${why ?? causeOf(error)}`);
}

function explainAddressError(code: string | undefined, syscall: string, setting: string): string | null {
  if (syscall === "getaddrinfo") return `the host name cannot be resolved; choose another with ${setting}`;
  if (code === "EADDRINUSE") return `another program is using the port; choose another with ${setting}`;
  if (code === "EACCES") return `this user may not use that port; choose one from 1024 with ${setting}`;
  if (code === "EADDRNOTAVAIL") return `this machine does not have that address; choose another with ${setting}`;
  return null;
}

function explainSocketPathError(code: string | undefined, setting: string): string | null {
  if (code === "EADDRINUSE")
    return `another program is listening there; stop it, or choose another path with ${setting}`;
  if (code === "ENOTSOCK") return `the path is a file, not a socket; remove it, or choose another path with ${setting}`;
  // libuv reports EACCES for a missing directory too.
  if (code === "EACCES")
    return (
      "its directory is missing, or this user may not write to it; " +
      `create the directory, or choose another path with ${setting}`
    );
  return null;
}
