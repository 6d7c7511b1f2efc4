/** `assay systemd`: prints or writes systemd units for a service with the given options. */
import { chmodSync, writeFileSync } from "node:fs";
import { isIP, isIPv6 } from "node:net";
import { isAbsolute, join, resolve } from "node:path";
import { findPackedExecutable } from "../../assets.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { onPathSync } from "../../domain/text/system-errors.ts";
import { OPTIONS, OPTION_ROWS } from "../../config/options.ts";
import type { OptionName } from "../../config/options.ts";
import { loadConfig } from "../command-config.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { credentialPathOf, renderServiceUnit, renderSocketUnit, STATE_DIRECTORY } from "../install/systemd-unit.ts";
import type { Listen } from "../../config/types.ts";

/** Files that the service user may not be able to read: systemd passes copies as credentials. */
const CREDENTIAL_OPTIONS = [
  "configFile",
  "tlsCert",
  "tlsKey",
  "caFile",
  "bootstrap",
] as const satisfies readonly OptionName[];

/** The credential files that a certificate renewal replaces while the service runs. */
const RENEWED_OPTIONS: readonly OptionName[] = ["tlsCert", "tlsKey"];

const DEFAULT_EXECUTABLE = "/usr/local/bin/assay";

/** Created and removed by RuntimeDirectory=. */
const RUNTIME_DIRECTORY = "/run/assay/";

/** Paths hidden by ProtectHome= and PrivateTmp=. */
const HIDDEN_PATHS = /^\/(?:home|root|run\/user|tmp|var\/tmp)\//;

/** Lower ports need a capability. */
const MIN_UNPRIVILEGED_PORT = 1024;

export const systemd: Command = {
  name: "systemd",
  summary: "Print a hardened systemd unit for a service with the given options",
  usage: "[OPTIONS]",
  details: [
    `The service runs on ${STATE_DIRECTORY} as a dynamic user, which exists only while the service runs. Takes ` +
      "the options of assay serve except secrets: every user of the machine can read a unit, so secrets belong in " +
      "the file that --config names. systemd copies the files that options name at every start and passes the " +
      "copies to the service; see assay help installing.",
  ],
  options: {
    executable: {
      kind: "text",
      placeholder: "FILE",
      description: "Path of the executable on the server (default this executable)",
    },
    socket: {
      kind: "switch",
      description: "Also print a socket unit, so that connections wait while the service restarts",
    },
    group: {
      kind: "text",
      placeholder: "NAME",
      description:
        "Group that can read the TLS files, which the service then reads in place, and that may open a Unix socket",
    },
    output: {
      kind: "text",
      placeholder: "DIRECTORY",
      description: "Write the units to this directory, replacing existing ones, instead of printing them",
    },
  },
  takesConfig: true,
  // The service does not have the environment of this shell.
  configuration: { ignoresVariables: true, complete: true },
  check({ flags, texts }) {
    const problems: string[] = [];
    const readable = OPTION_ROWS.filter(({ flag, secret }) => secret && flags[flag] !== undefined).map(
      ({ flag }) => `--${flag}`,
    );
    if (readable.length > 0) {
      const remedy = "write the secret to a file and name that with --config FILE";
      problems.push(`${readable.join(", ")}: every user of the machine can read a unit; ${remedy}`);
    }
    if (flags[OPTIONS.data.flag] !== undefined) {
      problems.push(
        `--data: the service always uses ${STATE_DIRECTORY}; to use another disk, mount it at /var/lib/private/assay`,
      );
    }
    const [group, executable] = [texts.get("group")?.[0], texts.get("executable")?.[0]];
    if (group !== undefined && !/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(group)) {
      problems.push(`--group: ${JSON.stringify(truncate(group, 100))} is not a valid group name`);
    }
    if (executable !== undefined && !isExecutablePath(executable)) problems.push(describeExecutableProblem(executable));
    return problems;
  },
  async run(args, io) {
    const { config } = await loadConfig(args.flags, io, systemd.configuration);
    const group = args.texts.get("group")?.[0] ?? null;
    const socket = args.switches.has("socket");

    const passedOptions = CREDENTIAL_OPTIONS.filter(
      (name) => config[name] !== null && !(group !== null && RENEWED_OPTIONS.includes(name)),
    );
    const credentials = passedOptions.map((name) => ({
      name: OPTIONS[name].flag,
      path: resolve(io.cwd, config[name] ?? ""),
    }));
    const flags: Record<string, string> = {
      ...args.flags,
      ...Object.fromEntries(
        RENEWED_OPTIONS.flatMap((name) =>
          config[name] === null ? [] : [[OPTIONS[name].flag, resolve(io.cwd, String(config[name]))]],
        ),
      ),
      ...Object.fromEntries(passedOptions.map((name) => [OPTIONS[name].flag, credentialPathOf(OPTIONS[name].flag)])),
    };
    const writable = config.backupDirectory === null ? [] : [resolve(io.cwd, config.backupDirectory)];
    if (flags[OPTIONS.backupDirectory.flag] !== undefined) flags[OPTIONS.backupDirectory.flag] = writable[0] ?? "";

    const executable = requireExecutablePath(
      args.texts.get("executable")?.[0] ?? findPackedExecutable() ?? DEFAULT_EXECUTABLE,
    );
    if (HIDDEN_PATHS.test(executable))
      io.stderr(
        `assay: the service cannot access ${executable}: ` +
          `copy it to ${DEFAULT_EXECUTABLE} and give --executable ${DEFAULT_EXECUTABLE}\n`,
      );

    if (writable[0] !== undefined && group === null)
      io.stderr(
        `assay: the service has a user of its own, which may not write to ${writable[0]}: give --group NAME, and let ` +
          `that group write there (chgrp NAME ${writable[0]}; chmod g+rwx ${writable[0]})\n`,
      );

    const units: Record<string, string> = {
      "assay.service": renderServiceUnit({
        executable,
        arguments: OPTION_ROWS.flatMap(({ flag }) => (flags[flag] === undefined ? [] : [`--${flag}`, flags[flag]])),
        credentials,
        group,
        writable,
        socket,
        ownSocket: !socket && isUnixSocket(config.listen),
        lowPort:
          (!socket && isPrivilegedPort(config.listen)) ||
          (config.metricsListen !== null && isPrivilegedPort(config.metricsListen)),
      }),
    };
    if (socket) units["assay.socket"] = renderSocketUnit(socketAddressOf(config.listen), group);
    printUnits(io, units, { directory: args.texts.get("output")?.[0] ?? null, json: args.switches.has("json") });
    return EXIT.done;
  },
};

const usageError = (problem: string): CommandError => new CommandError(problem, EXIT.usage);

type ListenAddress = Listen | { path: string };

const isUnixSocket = (listen: ListenAddress): boolean => "path" in listen;

const isPrivilegedPort = (listen: ListenAddress): boolean =>
  "port" in listen && listen.port > 0 && listen.port < MIN_UNPRIVILEGED_PORT;

/** Returns the address for ListenStream= of the socket unit. @throws CommandError */
function socketAddressOf(listen: ListenAddress): string {
  if ("path" in listen) {
    if (listen.path.startsWith(RUNTIME_DIRECTORY))
      throw usageError(
        `--listen: systemd removes ${RUNTIME_DIRECTORY} when the service stops, and the socket with it: ` +
          "use unix:/run/assay.sock",
      );
    return listen.path;
  }
  const { host, port } = listen;
  if (isIP(host) === 0)
    throw usageError(`--listen: a socket unit accepts no host names: give an IP address instead of ${host}`);
  if (port === 0) throw usageError("--listen: a socket unit needs a port");
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/** Whether systemd accepts the path as the first word of a command line, where it neither expands nor unquotes. */
const isExecutablePath = (path: string): boolean => isAbsolute(path) && !/[\u0000-\u0020$"'\\\u007f]/.test(path);

const describeExecutableProblem = (path: string): string =>
  `--executable: ${JSON.stringify(truncate(path, 100))} is not accepted, ` +
  "give an absolute path without spaces, quotes, $ and backslashes";

/** @throws CommandError when systemd does not accept the path, which may be that of this executable */
function requireExecutablePath(path: string): string {
  if (!isExecutablePath(path)) throw usageError(describeExecutableProblem(path));
  return path;
}

/** Writes the units to `directory`, or prints them if it is null. */
function printUnits(
  io: Io,
  units: Readonly<Record<string, string>>,
  { directory, json }: { directory: string | null; json: boolean },
): void {
  if (directory !== null) {
    const places = Object.entries(units).map(([name, text]) => {
      const path = join(resolve(io.cwd, directory), name);
      onPathSync(path, () => writeFileSync(path, text));
      // The umask of the program hides its files; a unit holds no secret, and people expect to read it.
      chmodSync(path, 0o644);
      return path;
    });
    io.stdout(json ? `${JSON.stringify({ written: places })}\n` : places.map((path) => `${path}\n`).join(""));
  } else if (json) io.stdout(`${JSON.stringify({ units })}\n`);
  else if (Object.keys(units).length === 1) io.stdout(Object.values(units).join(""));
  else
    io.stdout(
      Object.entries(units)
        .map(([name, text]) => `# ${name}\n${text}`)
        .join("\n"),
    );
}
