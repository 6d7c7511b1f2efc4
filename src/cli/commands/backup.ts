/** `assay backup`: writes the whole content of a data directory to one archive. */
import { resolve } from "node:path";
import { readBuildInfo } from "../../assets.ts";
import { checkArchiveFile } from "../../backup/check.ts";
import { IncompleteEvidenceError } from "../../backup/errors.ts";
import { makeBackup } from "../../backup/make.ts";
import type { BackupResult } from "../../backup/make.ts";
import { onPath } from "../../domain/text/system-errors.ts";
import { MB } from "../../domain/text/units.ts";
import { OPTIONS } from "../../config/options.ts";
import { mapBackupError } from "../backup-failures.ts";
import { EVIDENCE_OPTIONS, resolveEvidenceAccess } from "../command-config.ts";
import { loadSqlite, openEvidence, requireDataDirectory } from "../data-directory.ts";
import type { Args } from "../args.ts";
import type { EvidenceAccess } from "../../evidence/location.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { showProgress } from "../progress.ts";
import { createStopSignal } from "../stop-signal.ts";
import { systemSources } from "../../clock.ts";

export const backup: Command = {
  name: "backup",
  summary: "Back up the database and the evidence of a data directory to one archive",
  usage: "FILE|- [--data DIRECTORY] [OPTIONS]",
  details: [
    "Works with and without a running server. The archive is a consistent snapshot in tar format, compressed if " +
      "FILE ends in .tar.gz or .tgz, and gets its name only when it is complete. With - it goes to stdout. See assay " +
      "help restore.",
  ],
  options: {
    overwrite: { kind: "switch", description: "Replace FILE if it exists" },
    verify: { kind: "switch", description: "Read the archive back and check all of it before it gets its name" },
    "without-evidence": { kind: "switch", description: "Back up the database only" },
    "allow-missing": {
      kind: "switch",
      description: "Leave out missing or damaged evidence and record that in the archive",
    },
    ...EVIDENCE_OPTIONS,
  },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["FILE"] },
  check({ positionals: [name], switches }, io) {
    const problems: string[] = [];
    if (name === "-" && io.isTty) problems.push("-: stdout is a terminal; redirect it to a file or a pipe");
    for (const option of ["overwrite", "verify"]) {
      if (name === "-" && switches.has(option)) problems.push(`--${option} needs a file name in place of -`);
    }
    if (switches.has("without-evidence") && switches.has("allow-missing")) {
      problems.push("--allow-missing has no effect with --without-evidence; give one of them");
    }
    return problems;
  },
  async run(args, io) {
    const [name = ""] = args.positionals;
    const json = args.switches.has("json");
    const { directory, access } = await resolveEvidenceAccess(args, io);
    requireDataDirectory(directory);
    loadSqlite(directory);
    const startedAt = performance.now();
    const backup = await makeArchive(args, io, { name, directory, access });
    const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(3));
    const text = json
      ? `${JSON.stringify(presentBackup(backup, { name, seconds }))}\n`
      : renderBackup(backup, { name, directory, seconds });
    (name === "-" ? io.stderr : io.stdout)(text);
    return EXIT.done;
  },
};

/** Makes the archive with a progress bar. @throws CommandError; leaves no partial archive */
async function makeArchive(
  { switches }: Args,
  io: Io,
  { name, directory, access }: { name: string; directory: string; access: EvidenceAccess },
): Promise<BackupResult> {
  const stop = createStopSignal(io, "no archive was written");
  const progress = showProgress(io, { quiet: switches.has("json") });
  try {
    return await makeBackup({
      directory,
      program: readBuildInfo(),
      now: systemSources.now,
      signal: stop,
      progress: progress,
      target:
        name === "-"
          ? { write: (bytes) => onPath("standard output", io.writeBytes(bytes)) }
          : { file: resolve(io.cwd, name), overwrite: switches.has("overwrite") },
      evidence: switches.has("without-evidence")
        ? null
        : async (recorded) => (await openEvidence(directory, access, recorded)).store,
      allowMissing: switches.has("allow-missing"),
      reserve: OPTIONS.diskReserve.parse(OPTIONS.diskReserve.default ?? "") ?? 0,
      ...(switches.has("verify") ? { check: (partial: string) => checkArchiveFile(partial, stop) } : {}),
    });
  } catch (error) {
    if (error instanceof IncompleteEvidenceError)
      throw new CommandError(
        [...error.problems, "no archive was written; --allow-missing makes a backup without these files"],
        EXIT.damaged,
      );
    throw mapBackupError(error, name);
  } finally {
    progress.end();
  }
}

const countRows = ({ manifest }: BackupResult): number =>
  Object.values(manifest.database.rows).reduce((sum, count) => sum + count, 0);

function presentBackup(backup: BackupResult, { name, seconds }: { name: string; seconds: number }) {
  const { manifest, bytes, sha256 } = backup;
  const { created_at, schema_version, files, evidence } = manifest;
  const rows = countRows(backup);
  return { file: name, created_at, schema_version, rows, evidence: evidence ? files : null, bytes, seconds, sha256 };
}

function renderBackup(
  backup: BackupResult,
  { name, directory, seconds }: { name: string; directory: string; seconds: number },
): string {
  const { created_at, schema_version, files, evidence } = backup.manifest;
  const { missing } = files;
  const content = evidence ? `${files.count} evidence files (${formatMegabytes(files.bytes)})` : "no evidence";
  const examples = `${missing.slice(0, 3).join(", ")}${missing.length > 3 ? ", ..." : ""}`;
  const lines = [
    `backup of ${directory} at ${created_at}: ${name === "-" ? "stdout" : name}`,
    `schema ${schema_version}, ${countRows(backup)} rows, ${content}`,
    ...(missing.length > 0 ? [`it lacks ${missing.length} evidence files: ${examples}`] : []),
    `${formatMegabytes(backup.bytes)} in ${seconds.toFixed(1)} s, SHA-256 ${backup.sha256}`,
  ];
  return `${lines.join("\n")}\n`;
}

const formatMegabytes = (bytes: number): string => `${(bytes / MB).toFixed(1)} MB`;
