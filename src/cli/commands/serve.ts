/** `assay serve`, and the code it shares with `assay dev`: runs a server from its configuration to its stop. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Machine } from "../../diagnostics/doctor/check.ts";
import { refuseNetworkFileSystem } from "../../diagnostics/doctor/file-system.ts";
import { formatListenAddress } from "../../config/resolve.ts";
import type { ConfigSources } from "../../config/resolve.ts";
import { recordDirectoryState } from "../fresh-directory.ts";
import type { DirectoryState } from "../fresh-directory.ts";
import { OPTION_ROWS } from "../../config/options.ts";
import { bufferedDestination, createLogger } from "../../log.ts";
import type { Logger } from "../../log.ts";
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
import { loadConfig, evidenceAccessOf, readCaBundle, readText } from "../command-config.ts";
import { loadSqlite, NEW_DATABASE, NEW_DATABASE_OPTION } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, ExitCode, Io } from "../framework.ts";
import { withOperator } from "../operator.ts";
import type { Operator } from "../operator.ts";
import { explainListenError } from "../listen-failure.ts";
import { reloadOnHangup, statusOf, logCertificate } from "../reload.ts";
import { readKeyPair } from "../tls.ts";
import { prepareDirectory } from "../../server/prepare-directory.ts";
import { refuseIncompleteData } from "../../store/db/database.ts";
import { LostCommitsError } from "../../store/db/commit-number.ts";

/** Start-up output, as lines for people and as the fields of --json. */
export type Announcement = { text: string; fields: Readonly<Record<string, unknown>> };

export const serve: Command = {
  name: "serve",
  summary: "Run the server on a data directory",
  usage: "[--data DIRECTORY] [OPTIONS]",
  details: [
    "Without --data the data directory is the first of $STATE_DIRECTORY, $XDG_STATE_HOME/assay and " +
      "~/.local/state/assay whose variable is set, and is printed. Other commands look there too, but for those that " +
      "could do harm in a wrong directory: assay apply, restore, retention run and accept-loss want --data.",
    "Prints the addresses to stdout, and the changes that the bootstrap file made, including new keys. Writes the " +
      "log to stderr, one JSON object per line.",
    "SIGTERM and SIGINT stop the server: requests in progress have 10 seconds to finish, and a second signal cuts " +
      "them off. SIGHUP reloads the TLS certificate and its key. SIGUSR1 starts a backup, see assay help backup.",
    "A missing data directory is created. Only one server can use it at a time; assay apply, assay key and assay " +
      "deliveries work beside the server.",
  ],
  options: NEW_DATABASE_OPTION,
  takesConfig: true,
  configuration: { required: ["data"], defaultData: true, complete: true },
  run: (args, io) => runServer(args, io, { configuration: serve.configuration, checkResponses: false }),
};

/** Renders the addresses of a listening server. */
export const announceAddresses = (instance: Instance): Announcement => {
  const { urls, baseUrl, metricsUrl } = instance;
  const reference = `${baseUrl}/api/v2/doc/`;
  const [listening, ...others] = urls;
  const setup = announceSetup(instance);
  const lines = [
    ...urls.map((url) => `listening on ${url}`),
    `API reference: ${reference}`,
    ...(metricsUrl === null ? [] : [`metrics: ${metricsUrl}`]),
  ];
  return {
    text: `${lines.join("\n")}\n${setup.text}`,
    fields: {
      listening,
      ...(others.length > 0 ? { also_listening: others } : {}),
      base_url: baseUrl,
      reference,
      ...(metricsUrl === null ? {} : { metrics: metricsUrl }),
      ...setup.fields,
    },
  };
};

/** Names the data directory where the operator did not. */
function announceDirectory(
  { directory, sources }: ServerSettings,
  { defaultData = false }: ConfigurationRules = {},
): Announcement {
  if (!defaultData || sources.data !== "default") return { text: "", fields: {} };
  return { text: `data directory: ${directory} (the default; --data names another)\n`, fields: { data: directory } };
}

/** Explains how to claim the first administrator. Only the start that created the token prints it. */
function announceSetup({ setup, baseUrl }: Instance): Announcement {
  if (setup === null) return { text: "", fields: {} };
  const url = `${baseUrl}/setup`;
  const { newToken, file } = setup;
  const token = newToken === null ? `the one-time token in ${file}` : `this one-time token, which is also in ${file}`;
  const invitation = `there are no accounts yet: create the first administrator at ${url} with ${token}\n`;
  return {
    text: `${invitation}${newToken === null ? "" : `${newToken}\n`}`,
    fields: { setup: url, setup_token_file: file, ...(newToken === null ? {} : { setup_token: newToken }) },
  };
}

type ServerRules = {
  configuration?: ConfigurationRules | undefined;
  checkResponses: boolean;
  /** Fills a new data directory, before its database is opened. `undo` restores what was there. */
  fill?: (place: { directory: string; undo(): void; signal: AbortSignal }) => Promise<void>;
  /** Runs on the opened store before the bootstrap file is applied and before clients can connect. */
  setUp?: (data: Data, directory: string) => void | Promise<void>;
  /** Renders the output once the server listens; `announceAddresses` by default. */
  announce?: (instance: Instance) => Announcement;
  /** Replaces the view of the machine in tests. */
  machine?: Pick<Machine, "readText" | "fileSystemSpace">;
};

/**
 * Runs a server until a stop signal.
 * @throws NetworkFileSystemError; every error of `startInstance`; CommandError when an address is not available
 */
export async function runServer(args: Args, io: Io, rules: ServerRules): Promise<ExitCode> {
  const settings = await loadSettings(args, io, rules.configuration);
  const { config, directory } = settings;
  const destination = bufferedDestination(io.stderr);
  const logger = createLogger({ level: config.logLevel, destination });
  warnOfSecretFlags(logger, settings.sources);
  io.onCrash((error) => logger.fatal({ err: error }, "uncaught error, the process exits"));
  const stop = io.stopRequested();
  const sockets = inheritedSockets(io.env, io.pid);
  const notifier = createSdNotifier({ socket: io.env["NOTIFY_SOCKET"], pid: io.pid, logger });
  io.forget(SYSTEMD_VARIABLES);
  // Signals are accepted from the beginning; those that arrive during the start take effect once the server runs.
  const started = Promise.withResolvers<Instance>();
  io.onSignal("SIGUSR1", () => void started.promise.then((instance) => instance.backUp()));
  reloadOnHangup(io, started.promise, { config, logger, notifier });

  try {
    refuseNetworkFileSystem(directory, config.networkFilesystem, rules.machine);
    if (sockets)
      logger.info(
        { descriptors: sockets.map(({ fd }) => fd), in_place_of: formatListenAddress(config.listen) },
        "listening on sockets passed by systemd",
      );
    if (settings.tls) logCertificate(logger, settings.tls, "serving with this certificate");
    const { instance, heldText } = await start(settings, { io, logger, sockets, rules, stop });
    const { text, fields } = (rules.announce ?? announceAddresses)(instance);
    const place = announceDirectory(settings, rules.configuration);
    const output = settings.json ? `${JSON.stringify({ ...place.fields, ...fields })}\n` : place.text + text;
    io.stdout(heldText + output);
    logStart(logger, { directory, config, sources: settings.sources }, instance);
    notifier.ready(statusOf(instance));
    started.resolve(instance);
    logger.info({ signal: await stop }, "stopping");
    notifier.stopping();
    await instance.stop();
    await notifier.flushed();
    return EXIT.done;
  } finally {
    destination.flushSync();
  }
}

type ServerSettings = Awaited<ReturnType<typeof loadSettings>>;

/** Reads the configuration and every file that it names. @throws CommandError */
async function loadSettings(args: Args, io: Io, rules: ConfigurationRules | undefined) {
  const { config, sources } = await loadConfig(args.flags, io, rules);
  const authorities = await readCaBundle(config, io);
  const tls = await readKeyPair(io, config);
  const { bootstrap: name } = config;
  const bootstrap = name === null ? null : { name, plan: await readApplyFile(io, name) };
  const directory = resolve(io.cwd, config.data ?? "");
  const [json, mayBeginAnew] = [args.switches.has("json"), args.switches.has(NEW_DATABASE)];
  return { config, sources, authorities, tls, bootstrap, directory, json, mayBeginAnew };
}

function warnOfSecretFlags(logger: Logger, sources: ConfigSources): void {
  for (const { name, flag, variable, key, secret } of OPTION_ROWS) {
    if (!secret || sources[name] !== `flag --${flag}`) continue;
    const remedy = key === null ? `set ${variable}` : `set ${variable}, or ${key} in a file`;
    const problem = `the value of --${flag} is visible to every user of this machine in the process list`;
    logger.warn({ option: flag }, `${problem}: ${remedy}`);
  }
}

type StartParts = {
  io: Io;
  logger: Logger;
  sockets: InheritedSockets;
  rules: ServerRules;
  /** Resolves with the name of the first stop signal. */
  stop: Promise<string>;
};
type InheritedSockets = ReturnType<typeof inheritedSockets>;

/**
 * Starts the instance. A refused start removes the data directory it created, together with the keys it minted, so in a
 * fresh directory the changes of the bootstrap file (`heldText`) are printed only after the start succeeded.
 */
async function start(
  settings: ServerSettings,
  { io, logger, sockets, rules, stop }: StartParts,
): Promise<{ instance: Instance; heldText: string }> {
  const { config, sources, authorities, tls, directory, mayBeginAnew } = settings;
  refuseIncompleteData(directory, { mayBeginAnew });
  const before = recordDirectoryState(directory);
  prepareData(directory, before);
  const filling = new AbortController();
  void stop.then((signal) => filling.abort(new CommandError(`stopped by ${signal}; nothing was kept`)));
  await rules.fill?.({ directory, undo: () => before.undo(), signal: filling.signal });
  let heldText = "";
  try {
    const instance = await startInstance({
      directory,
      config,
      authorities,
      logger,
      sockets,
      tls: tls?.pair ?? null,
      evidence: evidenceAccessOf(config, authorities, io),
      derivesBaseUrl: sources.baseUrl === "default",
      checkResponses: rules.checkResponses,
      mayBeginAnew,
      undoDirectory: () => before.undo(),
      async beforeListening(data) {
        await rules.setUp?.(data, directory);
        const text = await applyBootstrap(settings, logger);
        if (before.isFresh) heldText = text;
        else io.stdout(text);
      },
    });
    return { instance, heldText };
  } catch (error) {
    throw explainListenError(error, config, { inherited: sockets !== null }) ?? error;
  }
}

/** Creates the data directory and loads SQLite, first of all, because the addon may be loaded from that directory. */
function prepareData(directory: string, before: DirectoryState): void {
  try {
    prepareDirectory(directory);
    loadSqlite(directory);
  } catch (error) {
    // The directory is not locked yet: another process may have created its data meanwhile.
    if (!existsSync(join(directory, "assay.db"))) before.undo();
    throw error;
  }
}

/**
 * Applies the bootstrap file, if there is one. A server whose database lacks commits starts without it, because it
 * changes nothing then.
 * @returns the output about its changes
 */
async function applyBootstrap({ directory, bootstrap, json }: ServerSettings, logger: Logger): Promise<string> {
  if (bootstrap === null) return "";
  let changes: readonly Change[];
  try {
    changes = await withOperator(directory, { command: "bootstrap", opening: { locked: true } }, (operator) =>
      applyPlanFile(operator, bootstrap),
    );
  } catch (error) {
    if (!(error instanceof LostCommitsError)) throw error;
    logger.warn({ file: bootstrap.name }, `the bootstrap file was not applied: ${error.message}`);
    return "";
  }
  changes = changes.filter(({ outcome }) => outcome !== "unchanged");
  if (!json) return describeChanges(changes);
  return changes.length > 0 ? `${JSON.stringify({ changes })}\n` : "";
}

/**
 * Reads an apply file, or standard input for `-`.
 * @throws CommandError that lists every mistake with its position
 */
export async function readApplyFile(io: Io, name: string): Promise<ApplyPlan> {
  const { plan, problems } = parseApplyFile(await readText(io, name));
  if (plan === null) throw applyError(name, problems);
  return plan;
}

/** A plan with the name of its file, for messages. */
type NamedPlan = { plan: ApplyPlan; name: string };

/**
 * Applies a plan in one transaction.
 * @throws CommandError that lists everything that prevents the plan from being applied; then nothing has changed
 */
export const applyPlanFile = (operator: Operator, { plan, name }: NamedPlan): Promise<readonly Change[]> =>
  operator.atomically(async () => {
    const { changes, problems } = await applyPlan(operator, plan);
    if (changes === null) throw applyError(name, problems);
    return changes;
  });

function applyError(name: string, problems: readonly string[]): CommandError {
  const file = name === "-" ? "standard input" : name;
  return new CommandError([...problems.map((problem) => `${file} ${problem}`), "nothing was applied"]);
}
