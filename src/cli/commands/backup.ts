/** `assay backup`: everything that a data directory holds, in one archive. */
import { resolve } from "node:path";
import { systemSources } from "../../server/app.ts";
import { readBuildInfo } from "../../assets.ts";
import { checkFile } from "../../backup/check.ts";
import { makeBackup, IncompleteEvidenceError } from "../../backup/make.ts";
import type { Backup } from "../../backup/make.ts";
import { MB } from "../../domain/text/units.ts";
import { OPTIONS } from "../../config/options.ts";
import { backupFailure } from "../backup-failures.ts";
import { EVIDENCE_OPTIONS, evidenceDirectory } from "../command-config.ts";
import { loadLibrary, openEvidence, requireData } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";
import { showProgress } from "../progress.ts";
import { stopSignal } from "../stop-signal.ts";

export const backup: Command = {
  name: "backup",
  summary: "Write database and evidence of a data directory to one archive",
  usage: "FILE|- --data DIRECTORY [OPTIONS]",
  details: [
    "Works beside a running server and without one. The archive is the state of one moment; it is a tar file, compressed where",
    "FILE ends in .tar.gz or .tgz, and appears under its name when it is complete. - writes it to stdout. See assay help restore.",
  ],
  options: {
    overwrite: { kind: "switch", description: "Replace FILE if it is there" },
    verify: { kind: "switch", description: "Read the archive back and check all of it before it gets its name" },
    "without-evidence": { kind: "switch", description: "The database alone" },
    "allow-missing": {
      kind: "switch",
      description: "Leave out evidence that is missing or damaged, and say so in the archive",
    },
    ...EVIDENCE_OPTIONS,
  },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["FILE"] },
  check({ positionals: [name], switches }, io) {
    const problems: string[] = [];
    if (name === "-" && io.isTty) problems.push("-: stdout is a terminal; send it to a file or a pipe");
    for (const option of ["overwrite", "verify"]) {
      if (name === "-" && switches.has(option)) problems.push(`--${option} needs the name of a file`);
    }
    if (switches.has("without-evidence") && switches.has("allow-missing")) {
      problems.push("--allow-missing says nothing with --without-evidence");
    }
    return problems;
  },
  async run(args, io) {
    const [name = ""] = args.positionals;
    const json = args.switches.has("json");
    const { directory, access } = await evidenceDirectory(args, io);

    requireData(directory);
    loadLibrary(directory);
    const stop = stopSignal(io, "nothing is left of it");
    const progress = showProgress(io, json);
    const began = performance.now();
    let made: Backup;
    try {
      made = await makeBackup({
        directory,
        program: readBuildInfo(),
        now: systemSources.now,
        signal: stop,
        watch: progress,
        target:
          name === "-"
            ? { write: io.writeBytes }
            : { file: resolve(io.cwd, name), overwrite: args.switches.has("overwrite") },
        evidence: args.switches.has("without-evidence")
          ? null
          : async (recorded) => (await openEvidence(directory, access, recorded)).vault,
        allowMissing: args.switches.has("allow-missing"),
        reserve: OPTIONS.diskReserve.parse(OPTIONS.diskReserve.default ?? "") ?? 0,
        ...(args.switches.has("verify") ? { check: (partial: string) => checkFile(partial, stop) } : {}),
      });
    } catch (error) {
      progress.end();
      if (error instanceof IncompleteEvidenceError)
        throw commandFailure(
          [...error.problems, "nothing was written; with --allow-missing the backup is made without them"],
          EXIT.damaged,
        );
      throw backupFailure(error, name);
    } finally {
      progress.end();
    }

    const {
      manifest: { created_at, schema_version, database, files, evidence },
      bytes,
      sha256,
    } = made;
    const seconds = Number(((performance.now() - began) / 1000).toFixed(3));
    const rows = Object.values(database.rows).reduce((sum, count) => sum + count, 0);
    const text = json
      ? `${JSON.stringify({ file: name, created_at, schema_version, rows, evidence: evidence ? files : null, bytes, seconds, sha256 })}\n`
      : [
          `backup of ${directory} at ${created_at}: ${name === "-" ? "stdout" : name}`,
          `schema ${schema_version}, ${rows} rows, ${evidence ? `${files.count} evidence files (${megabytes(files.bytes)})` : "no evidence"}`,
          ...(files.missing.length > 0
            ? [
                `${files.missing.length} evidence files are missing in it: ${files.missing.slice(0, 3).join(", ")}${files.missing.length > 3 ? ", ..." : ""}`,
              ]
            : []),
          `${megabytes(bytes)} in ${seconds.toFixed(1)} s, SHA-256 ${sha256}\n`,
        ].join("\n");
    (name === "-" ? io.stderr : io.stdout)(text);
    return EXIT.done;
  },
};

const megabytes = (bytes: number): string => `${(bytes / MB).toFixed(1)} MB`;
