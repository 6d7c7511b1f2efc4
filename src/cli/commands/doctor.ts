/** `assay doctor`: checks an installation without changing it. */
import { accessSync, constants, existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { OPTIONS } from "../../config/options.ts";
import type { Config } from "../../config/options.ts";
import { findConfigFile } from "../../config/resolve.ts";
import { checkCertificate } from "../../diagnostics/doctor/certificate.ts";
import { fail, realMachine, ok, warn } from "../../diagnostics/doctor/check.ts";
import type { Check } from "../../diagnostics/doctor/check.ts";
import {
  resolveEvidenceLocation,
  EvidenceLocationError,
  openEvidenceStore,
  readOnlyPaths,
} from "../../evidence/location.ts";
import { IN_DIRECTORY } from "../../store/attestations/evidence-location.ts";
import type { EvidenceAccess } from "../../evidence/location.ts";
import { EvidenceUnavailableError } from "../../evidence/errors.ts";
import { MB } from "../../domain/text/units.ts";
import { diagnose } from "../../diagnostics/doctor/doctor.ts";
import type { OptionFile } from "../../diagnostics/doctor/rights.ts";
import type { Args } from "../args.ts";
import { loadConfig, evidenceAccessOf, readCaBundle } from "../command-config.ts";
import { EXIT, escapeLine } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { newPublicId } from "../../clock.ts";

export const doctor: Command = {
  name: "doctor",
  summary: "Check the installation: disk, permissions, file system, clock, database, backups, certificate",
  usage: "[--data DIRECTORY] [OPTIONS]",
  details: [
    "Takes the options of assay serve, so that it checks what the server would use. Changes nothing, and works " +
      "with and without a running server. Run it as root: it finds the user of the server, and checks permissions as " +
      "that user. Exit code 0 if no check fails (there may be warnings), 1 if one fails, 3 " +
      "if the database was written by a newer version. assay help troubleshooting explains the findings.",
  ],
  options: {},
  takesConfig: true,
  configuration: { required: ["data"], defaultData: true, complete: true },
  async run(args, io) {
    const { config } = await loadConfig(args.flags, io, doctor.configuration);
    const directory = resolve(io.cwd, config.data ?? "");
    const { checks, newer, user } = await diagnose({
      directory,
      config,
      files: listOptionFiles(config, args, io),
      become: io.becomeUser,
      certificate: () => checkConfiguredCertificate(config, io.cwd),
      evidence: async (recorded, inDatabase) =>
        withDatabasePart(await checkEvidence(io, config, { directory, recorded }), inDatabase),
    });
    const count = (level: Check["level"]): number => checks.filter((check) => check.level === level).length;
    const [warnings, failures] = [count("warn"), count("fail")];
    if (args.switches.has("json")) {
      const rows = checks.map(({ name, level, found, todo }) => ({ check: name, level, found, todo }));
      const server_user = user && { uid: user.uid, gid: user.gid, groups: user.groups, name: user.name };
      io.stdout(`${JSON.stringify({ data: directory, server_user, failures, warnings, checks: rows })}\n`);
    } else {
      const width = Math.max(...checks.map(({ name }) => name.length)) + 2;
      for (const { name, level, found, todo } of checks) {
        io.stdout(`${level.toUpperCase().replace("OK", "ok").padEnd(6)}${name.padEnd(width)}${escapeLine(found)}\n`);
        if (todo !== null) io.stdout(`${"".padEnd(6 + width)}-> ${escapeLine(todo)}\n`);
      }
      io.stdout(
        failures + warnings === 0
          ? `All ${checks.length} checks passed.\n`
          : `${checks.length} checks: ${failures} failed, ${warnings} with a warning.\n`,
      );
    }
    return newer ? EXIT.newerDatabase : failures > 0 ? EXIT.failed : EXIT.done;
  },
};

/** The files that the options name, and the directory of scheduled backups where that is another one. */
function listOptionFiles(config: Config, { flags }: Args, { cwd, env }: Io): OptionFile[] {
  const configFile = findConfigFile({ flags, env });
  const read = [
    [OPTIONS.configFile.flag, configFile === "-" ? null : configFile],
    ...[OPTIONS.tlsCert, OPTIONS.tlsKey, OPTIONS.caFile, OPTIONS.bootstrap].map(({ flag, name }) => [
      flag,
      config[name],
    ]),
  ] as [string, string | null][];
  const written = config.backupEvery === null ? null : config.backupDirectory;
  return [
    ...read.map(([option, path]) => ({ option, path, isWritten: false })),
    { option: OPTIONS.backupDirectory.flag, path: written, isWritten: true },
  ].flatMap(({ path, ...file }) => (path === null ? [] : [{ ...file, path: resolve(cwd, path) }]));
}

/** Adds what the database holds to a check that found the store in order. */
const withDatabasePart = (check: Check, bytes: number): Check =>
  check.level === "ok" && bytes > 0
    ? { ...check, found: `${check.found}; ${Math.ceil(bytes / MB)} MB of small files are in the database` }
    : check;

/** Checks the evidence store as a start of the server would, except that the server creates a missing directory. */
async function checkEvidence(
  io: Io,
  config: Config,
  { directory, recorded }: { directory: string; recorded: string | null },
): Promise<Check> {
  const name = "evidence store";
  try {
    const agreed = resolveEvidenceLocation(recorded, config.evidenceStore);
    if (agreed !== IN_DIRECTORY)
      return await checkStorage(directory, agreed, evidenceAccessOf(config, await readCaBundle(config, io), io));
  } catch (error) {
    if (error instanceof EvidenceLocationError)
      return fail(name, error.message, "the server refuses to start with this; see assay help evidence-storage");
    throw error;
  }
  const place = join(directory, "evidence");
  if (!existsSync(place))
    return warn(
      name,
      `there is no ${place}`,
      "if there was evidence, restore it; the server creates an empty directory when it starts",
    );
  accessSync(place, constants.R_OK | constants.X_OK);
  return ok(name, place);
}

/** Probes the storage with a request for an object that does not exist. */
async function checkStorage(directory: string, place: string, access: EvidenceAccess): Promise<Check> {
  const name = "evidence store";
  const { store: evidence, remote } = await openEvidenceStore(
    { location: place, paths: readOnlyPaths(directory, place), access },
    newPublicId,
  );
  try {
    await remote?.probe();
    return ok(name, `${place} responds`);
  } catch (error) {
    const why = error instanceof EvidenceUnavailableError ? error.why : String(error);
    return fail(
      name,
      `${place} does not respond: ${why}`,
      "check --s3-endpoint, the keys and the network; until it responds, the server answers uploads and downloads of " +
        "evidence with 503",
    );
  } finally {
    await evidence.close();
  }
}

const checkConfiguredCertificate = ({ tlsCert, tlsKey }: Config, cwd: string): Check | null =>
  tlsCert === null || tlsKey === null
    ? null
    : checkCertificate({ certificate: resolve(cwd, tlsCert), key: resolve(cwd, tlsKey) }, realMachine.now());
