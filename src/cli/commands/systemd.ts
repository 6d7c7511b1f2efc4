/** `assay systemd`: units made of the options that the service is to have, printed or written. */
import { chmodSync, writeFileSync } from "node:fs";
import { isIP, isIPv6 } from "node:net";
import { isAbsolute, join, resolve } from "node:path";
import { findPackedExecutable } from "../../assets.ts";
import { truncate } from "../../domain/text/excerpt.ts";
import { OPTIONS, ROWS } from "../../config/options.ts";
import type { OptionName } from "../../config/options.ts";
import { configure } from "../command-config.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { credentialPath, serviceUnit, socketUnit, STATE_DIRECTORY } from "../install/systemd-unit.ts";
import type { Listen } from "../../config/types.ts";

/** Files that the service reads and its user may not: systemd hands over copies. */
const FILES = ["configFile", "tlsCert", "tlsKey", "caFile", "bootstrap"] as const satisfies readonly OptionName[];

/** Of these, what a renewal replaces while the service runs. */
const RENEWED: readonly OptionName[] = ["tlsCert", "tlsKey"];

const USUAL_PATH = "/usr/local/bin/assay";

/** What RuntimeDirectory= makes and takes away. */
const RUNTIME_DIRECTORY = "/run/assay/";

/** What ProtectHome= and PrivateTmp= hide. */
const HIDDEN = /^\/(?:home|root|run\/user|tmp|var\/tmp)\//;

/** The lowest port that a service may have without a capability. */
const FREE_PORTS = 1024;

export const systemd: Command = {
  name: "systemd",
  summary: "Print a hardened systemd unit, made of the options that the service is to have",
  usage: "[OPTIONS]",
  details: [
    `The service runs as a user that exists only while it runs, on ${STATE_DIRECTORY}. Options are those of assay serve, but for`,
    "secrets, which belong in the file that --config names: every user of the machine can read a unit. Files that options",
    "name are handed over by systemd, as copies that it makes at each start; see assay help installing.",
  ],
  options: {
    executable: {
      kind: "text",
      placeholder: "FILE",
      description: "Path of the executable on the server (default: this one)",
    },
    socket: { kind: "switch", description: "Also a socket unit: connections wait while the service restarts" },
    group: {
      kind: "text",
      placeholder: "NAME",
      description:
        "A group that can read the TLS files, which are then read where they are, also by a reload; and may open a Unix socket",
    },
    output: {
      kind: "text",
      placeholder: "DIRECTORY",
      description: "Write the units there, over those that are there, instead of printing them",
    },
  },
  takesConfig: true,
  // The variables of this shell are not the service's.
  configuration: { ignoresVariables: true, complete: true },
  check({ flags, texts }) {
    const problems: string[] = [];
    const readable = ROWS.filter(({ flag, secret }) => secret && flags[flag] !== undefined).map(
      ({ flag }) => `--${flag}`,
    );
    if (readable.length > 0) {
      const instead = "write it into a file and give that with --config FILE";
      problems.push(`${readable.join(", ")}: every user of the machine can read a unit; ${instead}`);
    }
    if (flags[OPTIONS.data.flag] !== undefined) {
      problems.push(
        `--data: the service has its data in ${STATE_DIRECTORY}; for another disk mount that at /var/lib/private/assay`,
      );
    }
    const [group, executable] = [texts.get("group")?.[0], texts.get("executable")?.[0]];
    if (group !== undefined && !/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(group)) {
      problems.push(`--group: ${JSON.stringify(truncate(group, 100))} is no name of a group`);
    }
    if (executable !== undefined && !isExecutablePath(executable)) problems.push(executableProblem(executable));
    return problems;
  },
  async run(args, io) {
    const { config } = await configure(args.flags, io, systemd.configuration);
    const group = args.texts.get("group")?.[0] ?? null;
    const socket = args.switches.has("socket");

    const handedOver = FILES.filter((name) => config[name] !== null && !(group !== null && RENEWED.includes(name)));
    const credentials = handedOver.map((name) => ({
      name: OPTIONS[name].flag,
      path: resolve(io.cwd, config[name] ?? ""),
    }));
    const flags: Record<string, string> = {
      ...args.flags,
      ...Object.fromEntries(
        RENEWED.flatMap((name) =>
          config[name] === null ? [] : [[OPTIONS[name].flag, resolve(io.cwd, String(config[name]))]],
        ),
      ),
      ...Object.fromEntries(handedOver.map((name) => [OPTIONS[name].flag, credentialPath(OPTIONS[name].flag)])),
    };
    const writable = config.backupDirectory === null ? [] : [resolve(io.cwd, config.backupDirectory)];
    if (flags[OPTIONS.backupDirectory.flag] !== undefined) flags[OPTIONS.backupDirectory.flag] = writable[0] ?? "";

    const executable = executablePath(args.texts.get("executable")?.[0] ?? findPackedExecutable() ?? USUAL_PATH);
    if (HIDDEN.test(executable))
      io.stderr(
        `assay: the service does not see ${executable}: copy it to ${USUAL_PATH} and give --executable ${USUAL_PATH}\n`,
      );

    const units: Record<string, string> = {
      "assay.service": serviceUnit({
        executable,
        arguments: ROWS.flatMap(({ flag }) => (flags[flag] === undefined ? [] : [`--${flag}`, flags[flag]])),
        credentials,
        group,
        writable,
        socket,
        ownSocket: !socket && isUnixSocket(config.listen),
        lowPort: (!socket && isLow(config.listen)) || (config.metricsListen !== null && isLow(config.metricsListen)),
      }),
    };
    if (socket) units["assay.socket"] = socketUnit(socketAddress(config.listen), group);
    tell(units, args.texts.get("output")?.[0] ?? null, args.switches.has("json"), io);
    return EXIT.done;
  },
};

const refusal = (problem: string): Error => commandFailure(problem, EXIT.usage);

type Place = Listen | { path: string };

const isUnixSocket = (listen: Place): boolean => "path" in listen;

const isLow = (listen: Place): boolean => "port" in listen && listen.port > 0 && listen.port < FREE_PORTS;

/** Where the socket unit listens, as ListenStream= takes it. */
function socketAddress(listen: Place): string {
  if ("path" in listen) {
    if (listen.path.startsWith(RUNTIME_DIRECTORY))
      throw refusal(
        `--listen: what lies in ${RUNTIME_DIRECTORY} goes when the service stops, its socket too: take /run/assay.sock`,
      );
    return listen.path;
  }
  const { host, port } = listen;
  if (isIP(host) === 0)
    throw refusal(`--listen: systemd takes no host names for a socket: give an address in place of ${host}`);
  if (port === 0) throw refusal("--listen: a socket unit needs a port");
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/** Whether systemd takes it as the first word of a command line: nothing in it is expanded or split. */
const isExecutablePath = (path: string): boolean => isAbsolute(path) && !/[\u0000-\u0020$"'\\\u007f]/.test(path);

const executableProblem = (path: string): string =>
  `--executable: ${JSON.stringify(truncate(path, 100))} is not accepted, give an absolute path without blanks, quotes, $ and backslashes`;

/** @throws a command failure: the path of this executable may be one that systemd does not take. */
function executablePath(path: string): string {
  if (!isExecutablePath(path)) throw refusal(executableProblem(path));
  return path;
}

function tell(units: Readonly<Record<string, string>>, directory: string | null, json: boolean, io: Io): void {
  if (directory !== null) {
    const places = Object.entries(units).map(([name, text]) => {
      const path = join(resolve(io.cwd, directory), name);
      writeFileSync(path, text);
      // The program keeps what it writes to itself; a unit holds no secret, and people expect to read it.
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
