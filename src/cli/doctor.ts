/** `assay doctor`: whether an installation is in order, without touching it. */
import { X509Certificate, createPrivateKey } from "node:crypto";
import { accessSync, constants, existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Config } from "../options.ts";
import { missingOptions } from "../config.ts";
import { fail, machine, ok, warn } from "../doctor/check.ts";
import type { Check } from "../doctor/check.ts";
import { diagnose } from "../doctor/doctor.ts";
import { configure } from "./configuration.ts";
import { commandFailure, EXIT, oneLine } from "./frame.ts";
import type { Command } from "./frame.ts";

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
  async run(args, io) {
    const { config } = await configure(args.flags, io, { required: ["data"] });
    const missing = missingOptions(config);
    if (missing.length > 0) throw commandFailure(missing, EXIT.usage);
    const directory = resolve(io.cwd, config.data ?? "");
    const { checks, newer } = await diagnose({
      directory, config,
      certificate: () => checkCertificate(config, io.cwd, machine.now()),
      evidence: () => checkEvidence(directory, config),
    });
    const count = (level: Check["level"]): number => checks.filter((check) => check.level === level).length;
    const [warnings, failures] = [count("warn"), count("fail")];
    if (args.switches.has("json")) {
      io.stdout(`${JSON.stringify({ data: directory, failures, warnings, checks: checks.map(({ name, level, found, todo }) => ({ check: name, level, found, todo })) })}\n`);
    } else {
      const width = Math.max(...checks.map(({ name }) => name.length)) + 2;
      for (const { name, level, found, todo } of checks) {
        io.stdout(`${level.toUpperCase().replace("OK", "ok").padEnd(6)}${name.padEnd(width)}${oneLine(found)}\n`);
        if (todo !== null) io.stdout(`${"".padEnd(6 + width)}-> ${oneLine(todo)}\n`);
      }
      io.stdout(failures + warnings === 0 ? `All ${checks.length} checks passed.\n` : `${checks.length} checks: ${failures} failed, ${warnings} with a warning.\n`);
    }
    return newer ? EXIT.newerDatabase : failures > 0 ? EXIT.failed : EXIT.done;
  },
};

/** Where files of evidence are; the server itself makes the directory. */
async function checkEvidence(directory: string, { evidenceStore }: Config): Promise<Check> {
  const name = "evidence store";
  if (evidenceStore !== null) return ok(name, `${evidenceStore}; not called from here`);
  const place = join(directory, "evidence");
  if (!existsSync(place)) return warn(name, `there is no ${place}`, "if there was evidence, restore it; the server makes an empty one when it starts");
  accessSync(place, constants.R_OK | constants.X_OK);
  return ok(name, place);
}

/** A month is what people need to get a new certificate, and a week what is left when it was forgotten. In days. */
const [WARN_DAYS, DAY] = [30, 86_400];

function checkCertificate({ tlsCert, tlsKey }: Config, cwd: string, now: number): Check | null {
  if (tlsCert === null || tlsKey === null) return null;
  const name = "certificate";
  try {
    const certificate = new X509Certificate(readFileSync(resolve(cwd, tlsCert)));
    if (!certificate.checkPrivateKey(createPrivateKey(readFileSync(resolve(cwd, tlsKey))))) return fail(name, `${tlsKey} is not the key of ${tlsCert}`, "give the two that belong together");
    const [from, to] = [Date.parse(certificate.validFrom) / 1000, Date.parse(certificate.validTo) / 1000];
    const day = (at: number): string => new Date(at * 1000).toISOString().slice(0, 10);
    if (now < from) return fail(name, `valid from ${day(from)} on`, "check the clock, or give the certificate that is valid now");
    if (now >= to) return fail(name, `ended on ${day(to)}`, "replace it, and send the server SIGHUP");
    if (to - now < WARN_DAYS * DAY) return warn(name, `ends on ${day(to)}, in ${Math.floor((to - now) / DAY)} days`, "replace it, and send the server SIGHUP");
    return ok(name, `until ${day(to)}`);
  } catch (error) {
    return fail(name, `${tlsCert} and ${tlsKey} cannot be read: ${error instanceof Error ? error.message : String(error)}`, "give two PEM files that the server may read");
  }
}
