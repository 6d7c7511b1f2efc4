/** `assay serve`, and what it shares with `assay dev`: a server from its configuration to its end. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { prepareDirectory, systemSources } from "../../server/app.ts";
import type { Machine } from "../../diagnostics/doctor/check.ts";
import { refuseNetworkFileSystem } from "../../diagnostics/doctor/file-system.ts";
import { listenText } from "../../config/resolve.ts";
import type { ConfigSources } from "../../config/resolve.ts";
import { noteDirectory } from "../fresh-directory.ts";
import { ROWS } from "../../config/options.ts";
import type { Option } from "../../config/options.ts";
import { bufferedDestination, createLogger } from "../../log.ts";
import { startInstance } from "../../server/instance.ts";
import type { Instance } from "../../server/instance.ts";
import { logStart } from "../../server/startup-log.ts";
import { createSdNotifier, inheritedSockets, SYSTEMD_VARIABLES } from "../../server/sd-notify.ts";
import { parseApplyFile } from "../apply/apply-file.ts";
import type { ApplyPlan } from "../apply/apply-file.ts";
import { applyPlan, describeChanges } from "../apply/apply-plan.ts";
import type { Change } from "../apply/apply-plan.ts";
import type { Args } from "../args.ts";
import type { ConfigurationRules } from "../command.ts";
import { configure, evidenceAccess, readAuthorities, readText } from "../command-config.ts";
import { change, loadLibrary } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command, ExitCode, Io } from "../framework.ts";
import { listenFailure } from "../listen-failure.ts";
import { reloadOnHangup, statusOf, tellCertificate } from "../reload.ts";
import { readPair } from "../tls.ts";

/** What a server prints, as lines for people and as the fields of --json. */
export type Announcement = { text: string; fields: Readonly<Record<string, unknown>> };

export const serve: Command = {
  name: "serve",
  summary: "Run the server on a data directory",
  usage: "--data DIRECTORY [OPTIONS]",
  details: [
    "Stdout gets the addresses, and what the bootstrap file changed, with the keys it minted. The log, one JSON object",
    "per line, goes to stderr. SIGTERM and SIGINT stop the server: running requests may end within 10 seconds, a second",
    "signal cuts them off. SIGHUP reads the certificate and its key again, SIGUSR1 makes a backup, see assay help backup. The",
    "data directory is created where it is missing; only one server can use it at a time, while assay apply, assay key and",
    "assay deliveries work beside it.",
  ],
  options: {},
  takesConfig: true,
  configuration: { required: ["data"], complete: true },
  run: (args, io) => runServer(args, io, { configuration: serve.configuration, checkResponses: false }),
};

/** The secret options that were given as flags. */
const secretFlags = (sources: ConfigSources): Option[] =>
  ROWS.filter(({ name, flag, secret }) => secret && sources[name] === `flag --${flag}`);

/** The addresses of a server that listens. */
export const addresses = (instance: Instance): Announcement => {
  const { urls, baseUrl, metricsUrl } = instance;
  const reference = `${baseUrl}/api/v2/doc/`;
  const [listening, ...others] = urls;
  const invitation = invitationOf(instance);
  return {
    text: `${urls.map((url) => `listening on ${url}\n`).join("")}API reference: ${reference}\n${metricsUrl === null ? "" : `metrics: ${metricsUrl}\n`}${invitation.text}`,
    fields: {
      listening,
      ...(others.length > 0 ? { also_listening: others } : {}),
      base_url: baseUrl,
      reference,
      ...(metricsUrl === null ? {} : { metrics: metricsUrl }),
      ...invitation.fields,
    },
  };
};

/** How the first administrator is claimed. The token itself is told by the start that made it, and by no later one. */
function invitationOf({ setup, baseUrl }: Instance): Announcement {
  if (setup === null) return { text: "", fields: {} };
  const url = `${baseUrl}/setup`;
  const token =
    setup.fresh === null
      ? `the one-time token in ${setup.file}`
      : `this one-time token, which is also in ${setup.file}`;
  return {
    text: `nobody has an account yet: claim the first administrator at ${url} with ${token}\n${setup.fresh === null ? "" : `${setup.fresh}\n`}`,
    fields: { setup: url, setup_token_file: setup.file, ...(setup.fresh === null ? {} : { setup_token: setup.fresh }) },
  };
}

/**
 * Runs a server until it is asked to stop. `setUp` runs on the opened store before the bootstrap file and before
 * anybody can connect; `announce` makes what is printed once the server listens, `addresses` unless given.
 * @throws NetworkFileSystemError; what ends the start, see `startInstance`; an address that cannot be had as a command
 * failure.
 */
export async function runServer(
  args: Args,
  io: Io,
  rules: {
    configuration?: ConfigurationRules | undefined;
    checkResponses: boolean;
    setUp?: (data: Data, directory: string) => void;
    announce?: (instance: Instance) => Announcement;
    /** How the machine looks, for tests; the real one unless given. */
    machine?: Pick<Machine, "text" | "space">;
  },
): Promise<ExitCode> {
  const json = args.switches.has("json");
  const { config, sources } = await configure(args.flags, io, rules.configuration);
  const authorities = await readAuthorities(config, io);
  const tls = await readPair(io, config);
  const bootstrap =
    config.bootstrap === null ? null : { name: config.bootstrap, plan: await readPlan(io, config.bootstrap) };
  const directory = resolve(io.cwd, config.data ?? "");
  const destination = bufferedDestination(io.stderr);
  const logger = createLogger({ level: config.logLevel, destination });
  for (const { flag, variable, key } of secretFlags(sources)) {
    const problem = `--${flag} as a flag shows in the process list to every user of this machine`;
    logger.warn({ option: flag }, `${problem}: give ${key === null ? variable : `${variable} or ${key} in a file`}`);
  }
  io.onCrash((error) => logger.fatal({ err: error }, "an error that nothing caught ends the process"));
  const stop = io.stopRequested();
  const sockets = inheritedSockets(io.env, io.pid);
  const notifier = createSdNotifier({ socket: io.env["NOTIFY_SOCKET"], pid: io.pid, logger });
  io.forget(SYSTEMD_VARIABLES);
  // From the beginning: who asks while the server starts gets it when it runs.
  const started = Promise.withResolvers<Instance>();
  io.onSignal("SIGUSR1", () => void started.promise.then((instance) => instance.backUp()));
  reloadOnHangup(io, started.promise, { config, logger, notifier });

  try {
    refuseNetworkFileSystem(directory, config.networkFilesystem, rules.machine);
    if (sockets)
      logger.info(
        { descriptors: sockets.map(({ fd }) => fd), in_place_of: listenText(config.listen) },
        "systemd handed over the sockets to listen on",
      );
    if (tls) tellCertificate(logger, tls, "serving with this certificate");
    const before = noteDirectory(directory);
    try {
      // First of all, because the data directory is one of the places from which the library can be loaded.
      prepareDirectory(directory);
      loadLibrary(directory);
    } catch (error) {
      // Without a lock: another process may have set it up meanwhile.
      if (!existsSync(join(directory, "assay.db"))) before.undo();
      throw error;
    }
    // A start that is refused takes back a directory that it made, and with it the keys that it minted.
    let untold = "";
    const instance = await startInstance({
      directory,
      config,
      authorities,
      logger,
      sockets,
      tls: tls && tls.pair,
      evidence: evidenceAccess(config, authorities, io),
      derivesBaseUrl: sources.baseUrl === "default",
      checkResponses: rules.checkResponses,
      undoDirectory: () => before.undo(),
      beforeListening(data) {
        rules.setUp?.(data, directory);
        if (bootstrap === null) return;
        const changes = applyWhole(data, bootstrap.plan, bootstrap.name, "bootstrap").filter(
          ({ outcome }) => outcome !== "unchanged",
        );
        const text = !json
          ? describeChanges(changes, false)
          : changes.length > 0
            ? `${JSON.stringify({ changes })}\n`
            : "";
        if (before.isFresh) untold = text;
        else io.stdout(text);
      },
    }).catch((error: unknown) => {
      throw listenFailure(error, config, sockets !== null) ?? error;
    });
    const { text, fields } = (rules.announce ?? addresses)(instance);
    io.stdout(untold + (json ? `${JSON.stringify(fields)}\n` : text));
    logStart(logger, { directory, config, sources }, instance);
    notifier.ready(statusOf(instance));
    started.resolve(instance);
    logger.info({ signal: await stop }, "stopping");
    notifier.stopping();
    await instance.stop();
    await notifier.told();
    return EXIT.done;
  } finally {
    destination.flushSync();
  }
}

/**
 * Reads an apply file, or standard input for `-`.
 * @throws a command failure that lists every mistake with its place.
 */
export async function readPlan(io: Io, name: string): Promise<ApplyPlan> {
  const { plan, problems } = parseApplyFile(await readText(io, name));
  if (plan === null) throw misapplied(name, problems);
  return plan;
}

/**
 * Applies a plan in one transaction. `name` is that of its file, for messages.
 * @throws a command failure that lists everything that keeps it from being applied; nothing was changed then.
 */
export function applyWhole(data: Data, plan: ApplyPlan, name: string, operation: string): readonly Change[] {
  const { changes, problems } = change(data, () => applyPlan(data.store, plan, operation, systemSources.now()));
  if (changes === null) throw misapplied(name, problems);
  return changes;
}

function misapplied(name: string, problems: readonly string[]): Error {
  const file = name === "-" ? "standard input" : name;
  return commandFailure([...problems.map((problem) => `${file} ${problem}`), "nothing was applied"]);
}
