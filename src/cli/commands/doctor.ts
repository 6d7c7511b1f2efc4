/** `assay doctor`: whether an installation is in order, without touching it. */
import { accessSync, constants, existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Config } from "../../config/options.ts";
import { checkCertificate } from "../../diagnostics/doctor/certificate.ts";
import { fail, machine, ok, warn } from "../../diagnostics/doctor/check.ts";
import type { Check } from "../../diagnostics/doctor/check.ts";
import { newPublicId } from "../../server/app.ts";
import { agreedPlace, EvidencePlaceError, openPlace, partsToRead } from "../../evidence/location.ts";
import { IN_DIRECTORY } from "../../store/flows/evidence-location.ts";
import type { EvidenceAccess } from "../../evidence/location.ts";
import { EvidenceUnavailableError } from "../../evidence/errors.ts";
import { diagnose } from "../../diagnostics/doctor/doctor.ts";
import { configure, evidenceAccess, readAuthorities } from "../command-config.ts";
import { EXIT, oneLine } from "../framework.ts";
import type { Command, Io } from "../framework.ts";

export const doctor: Command = {
  name: "doctor",
  summary: "Check the installation: disk, rights, file system, clock, database, backups, certificate",
  usage: "--data DIRECTORY [OPTIONS]",
  details: [
    "Takes the options of assay serve, so that it judges what the server would use. Changes nothing, and works beside a server",
    "as well as without one. Exit code 0 when nothing fails (warnings may be there), 1 when something does, 3 when the database",
    "was written by a newer program. assay help troubleshooting goes through what it finds.",
  ],
  options: {},
  takesConfig: true,
  configuration: { required: ["data"], complete: true },
  async run(args, io) {
    const { config } = await configure(args.flags, io, doctor.configuration);
    const directory = resolve(io.cwd, config.data ?? "");
    const { checks, newer } = await diagnose({
      directory,
      config,
      certificate: () => certificateOf(config, io.cwd),
      evidence: (recorded) => checkEvidence(directory, recorded, config, io),
    });
    const count = (level: Check["level"]): number => checks.filter((check) => check.level === level).length;
    const [warnings, failures] = [count("warn"), count("fail")];
    if (args.switches.has("json")) {
      io.stdout(
        `${JSON.stringify({ data: directory, failures, warnings, checks: checks.map(({ name, level, found, todo }) => ({ check: name, level, found, todo })) })}\n`,
      );
    } else {
      const width = Math.max(...checks.map(({ name }) => name.length)) + 2;
      for (const { name, level, found, todo } of checks) {
        io.stdout(`${level.toUpperCase().replace("OK", "ok").padEnd(6)}${name.padEnd(width)}${oneLine(found)}\n`);
        if (todo !== null) io.stdout(`${"".padEnd(6 + width)}-> ${oneLine(todo)}\n`);
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

/** Where files of evidence are, judged as a start does; the server itself makes the directory. */
async function checkEvidence(directory: string, recorded: string | null, config: Config, io: Io): Promise<Check> {
  const name = "evidence store";
  try {
    const agreed = agreedPlace(recorded, config.evidenceStore);
    if (agreed !== IN_DIRECTORY)
      return await checkStorage(directory, agreed, evidenceAccess(config, await readAuthorities(config, io), io));
  } catch (error) {
    if (error instanceof EvidencePlaceError)
      return fail(name, error.message, "the server does not start like this; assay help evidence-storage");
    throw error;
  }
  const place = join(directory, "evidence");
  if (!existsSync(place))
    return warn(
      name,
      `there is no ${place}`,
      "if there was evidence, restore it; the server makes an empty one when it starts",
    );
  accessSync(place, constants.R_OK | constants.X_OK);
  return ok(name, place);
}

/** Asks the storage for one object that is not there. */
async function checkStorage(directory: string, place: string, access: EvidenceAccess): Promise<Check> {
  const name = "evidence store";
  const { vault, remote } = await openPlace({ place, parts: partsToRead(directory, place), access }, newPublicId);
  try {
    await remote?.probe();
    return ok(name, `${place} answers`);
  } catch (error) {
    const why = error instanceof EvidenceUnavailableError ? error.why : String(error);
    return fail(
      name,
      `${place} gives no answer: ${why}`,
      "check --s3-endpoint, the keys and the network; uploads and downloads of evidence are answered with 503 until it answers",
    );
  } finally {
    await vault.close();
  }
}

const certificateOf = ({ tlsCert, tlsKey }: Config, cwd: string): Check | null =>
  tlsCert === null || tlsKey === null
    ? null
    : checkCertificate({ certificate: resolve(cwd, tlsCert), key: resolve(cwd, tlsKey) }, machine.now());
