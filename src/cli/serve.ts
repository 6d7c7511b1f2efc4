/** `assay serve`, and what it shares with `assay dev`: a server from its configuration to its end. */
import { X509Certificate } from "node:crypto";
import { resolve } from "node:path";
import { prepareDirectory, systemSources } from "../assay.ts";
import { missingOptions } from "../config.ts";
import type { Machine } from "../doctor/check.ts";
import { refuseNetworkFileSystem } from "../doctor/file-system.ts";
import { OPTIONS } from "../options.ts";
import type { Config, OptionName } from "../options.ts";
import { bufferedDestination, createLogger } from "../log.ts";
import { startInstance } from "../serve.ts";
import type { Instance } from "../serve.ts";
import { parseApplyFile } from "./apply-file.ts";
import type { ApplyPlan } from "./apply-file.ts";
import { applyPlan, describeChanges } from "./apply-plan.ts";
import type { Change } from "./apply-plan.ts";
import type { Args } from "./args.ts";
import { configure, readText } from "./configuration.ts";
import { change, loadLibrary } from "./data.ts";
import type { Data } from "./data.ts";
import { commandFailure, EXIT } from "./frame.ts";
import type { Command, ExitCode, Io } from "./frame.ts";

/** What a server prints, as lines for people and as the fields of --json. */
export type Announcement = { text: string; fields: Readonly<Record<string, unknown>> };

export const serve: Command = {
  name: "serve",
  summary: "Run the server on a data directory",
  usage: "--data DIRECTORY [OPTIONS]",
  details: [
    "Stdout gets the addresses, and what the bootstrap file changed, with the keys it minted. The log, one JSON object",
    "per line, goes to stderr. SIGTERM and SIGINT stop the server: running requests may end within 10 seconds, a second",
    "signal cuts them off. The data directory is created where it is missing; only one server can use it at a time, while",
    "assay apply, assay key and assay deliveries work beside it. SIGUSR1 makes a backup, see assay help backup.",
  ],
  options: {},
  takesConfig: true,
  run: (args, io) => runServer(args, io, { required: ["data"], checkResponses: false }),
};

/** The addresses of a server that listens. */
export const addresses = (instance: Instance): Announcement => {
  const reference = `${instance.baseUrl}/api/v2/doc/`;
  const metrics = instance.metricsUrl;
  const invitation = invitationOf(instance);
  return {
    text: `listening on ${instance.url}\nAPI reference: ${reference}\n${metrics === null ? "" : `metrics: ${metrics}\n`}${invitation.text}`,
    fields: { listening: instance.url, base_url: instance.baseUrl, reference, ...(metrics === null ? {} : { metrics }), ...invitation.fields },
  };
};

/** How the first administrator is claimed. The token itself is told by the start that made it, and by no later one. */
function invitationOf({ setup, baseUrl }: Instance): Announcement {
  if (setup === null) return { text: "", fields: {} };
  const url = `${baseUrl}/setup`;
  const token = setup.fresh === null ? `the one-time token in ${setup.file}` : `this one-time token, which is also in ${setup.file}`;
  return {
    text: `nobody has an account yet: claim the first administrator at ${url} with ${token}\n${setup.fresh === null ? "" : `${setup.fresh}\n`}`,
    fields: { setup: url, setup_token_file: setup.file, ...(setup.fresh === null ? {} : { setup_token: setup.fresh }) },
  };
}

/**
 * Runs a server until it is asked to stop. `setUp` runs on the opened store before the bootstrap file and before anybody
 * can connect; `announce` makes what is printed once the server listens, `addresses` unless given.
 * @throws NetworkFileSystemError; what ends the start, see `startInstance`; an address that cannot be had as a command failure.
 */
export async function runServer(
  args: Args,
  io: Io,
  rules: {
    required?: readonly OptionName[];
    defaults?: Readonly<Partial<Record<OptionName, string>>>;
    checkResponses: boolean;
    setUp?: (data: Data, directory: string) => void;
    announce?: (instance: Instance) => Announcement;
    /** How the machine looks, for tests; the real one unless given. */
    machine?: Pick<Machine, "text" | "space">;
  },
): Promise<ExitCode> {
  const json = args.switches.has("json");
  const { config, sources } = await configure(args.flags, io, rules);
  const missing = missingOptions(config);
  if (missing.length > 0) throw commandFailure(missing, EXIT.usage);
  const authorities = config.caFile === null ? null : readAuthorities(await readText(io, config.caFile), config.caFile);
  const bootstrap = config.bootstrap === null ? null : { name: config.bootstrap, plan: await readPlan(io, config.bootstrap) };
  const directory = resolve(io.cwd, config.data ?? "");
  const destination = bufferedDestination(io.stderr);
  const logger = createLogger({ level: config.logLevel, destination });
  io.onCrash((error) => logger.fatal({ err: error }, "an error that nothing caught ends the process"));
  const stop = io.stopRequested();
  // From the beginning: who asks while the server starts gets a backup when it runs.
  const started = Promise.withResolvers<Instance>();
  io.onSignal("SIGUSR1", () => void started.promise.then((instance) => instance.backUp()));

  try {
    refuseNetworkFileSystem(directory, config.networkFilesystem, rules.machine);
    // Before anything else, because the data directory is one of the places from which the library can be loaded.
    prepareDirectory(directory);
    loadLibrary(directory);
    const instance = await startInstance({
      directory, config, authorities, logger,
      derivesBaseUrl: sources.baseUrl === "default",
      checkResponses: rules.checkResponses,
      beforeListening(data) {
        rules.setUp?.(data, directory);
        if (bootstrap === null) return;
        const changes = applyWhole(data, bootstrap.plan, bootstrap.name, "bootstrap").filter(({ outcome }) => outcome !== "unchanged");
        if (!json) io.stdout(describeChanges(changes, false));
        else if (changes.length > 0) io.stdout(`${JSON.stringify({ changes })}\n`);
      },
    }).catch((error: unknown) => {
      throw listenFailure(error, config) ?? error;
    });
    started.resolve(instance);
    const { text, fields } = (rules.announce ?? addresses)(instance);
    io.stdout(json ? `${JSON.stringify(fields)}\n` : text);
    logger.info({ signal: await stop }, "stopping");
    await instance.stop();
    return EXIT.done;
  } finally {
    destination.flushSync();
  }
}

/**
 * The certificates of a PEM file.
 * @throws a command failure when one of them cannot be read, or there is none: a server that trusts less than its operator
 *   believes would tell so at the first message only.
 */
function readAuthorities(text: string, name: string): readonly string[] {
  const certificates = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  if (certificates.length === 0) throw commandFailure(`${name} holds no certificate in PEM form`);
  for (const [index, certificate] of certificates.entries()) {
    try {
      new X509Certificate(certificate);
    } catch {
      throw commandFailure(`${name}: certificate ${index + 1} cannot be read`);
    }
  }
  return certificates;
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

/** What the operator can do about an address that cannot be had; null for every other error. */
function listenFailure(error: unknown, config: Config): Error | null {
  const { code, syscall, option = "listen" } = error as { code?: string; syscall?: string; option?: "listen" | "metricsListen" };
  const listen = config[option] ?? config.listen;
  const { flag: name, placeholder, variable } = OPTIONS[option];
  const flag = `--${name} ${placeholder} or ${variable}`;
  const address = `${listen.host.includes(":") ? `[${listen.host}]` : listen.host}:${listen.port}`;
  const cannot = `cannot listen on ${address}`;
  if (syscall === "getaddrinfo") return commandFailure(`${cannot}: the host name is not known; give another one with ${flag}`);
  if (syscall !== "listen" && syscall !== "bind") return null;
  if (code === "EADDRINUSE") return commandFailure(`${cannot}: another program listens there; choose another port with ${flag}`);
  if (code === "EACCES") return commandFailure(`${cannot}: this user may not use that port; choose one from 1024 with ${flag}`);
  if (code === "EADDRNOTAVAIL") return commandFailure(`${cannot}: this machine does not have that address; give another one with ${flag}`);
  return commandFailure(`${cannot}: ${error instanceof Error ? error.message : String(code)}`);
}
