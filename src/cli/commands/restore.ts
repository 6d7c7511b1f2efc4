/** `assay restore`: creates a data directory from an archive of `assay backup`. */
import { open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Manifest } from "../../backup/format.ts";
import { restoreBackup } from "../../backup/restore.ts";
import { mapBackupError } from "../backup-failures.ts";
import { DATA_OPTIONS, resolveDataDirectory } from "../command-config.ts";
import { loadSqlite } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { showProgress } from "../progress.ts";
import { createStopSignal } from "../stop-signal.ts";

export const restore: Command = {
  name: "restore",
  summary: "Restore a data directory from a backup",
  usage: "FILE|- --data DIRECTORY [OPTIONS]",
  details: [
    "The directory must be missing or empty. Every size, hash and count, and the database itself, is checked " +
      "before the directory gets its name. A truncated, altered or incomplete backup is refused with exit code 5 " +
      "and leaves nothing behind. A backup of an older version is restored unchanged; the next start upgrades its " +
      "schema.",
  ],
  options: {
    "without-evidence": { kind: "switch", description: "Accept a backup that contains no evidence" },
    "allow-missing": {
      kind: "switch",
      description: "Accept a backup that lacks evidence files which were missing or damaged",
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: { min: 1, max: 1, names: ["FILE"] },
  check: ({ positionals: [name] }, io) =>
    name === "-" && io.stdinIsTty ? ["-: stdin is a terminal; redirect it from a file or a pipe"] : [],
  async run(args, io) {
    const [name = ""] = args.positionals;
    const json = args.switches.has("json");
    const directory = await resolveDataDirectory(args, io);
    loadSqlite(dirname(directory));

    const stop = createStopSignal(io, "nothing was restored");
    const progress = showProgress(io, { quiet: json });
    const startedAt = performance.now();
    const { source, size, close } = await openSource(io, name);
    let manifest: Manifest;
    try {
      manifest = await restoreBackup({
        directory,
        source,
        size,
        signal: stop,
        progress: progress,
        withoutEvidence: args.switches.has("without-evidence"),
        allowMissing: args.switches.has("allow-missing"),
      });
    } catch (error) {
      throw mapBackupError(error, name);
    } finally {
      progress.end();
      await close();
    }

    const { created_at, schema_version, program, database, files, evidence } = manifest;
    const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(3));
    const rows = Object.values(database.rows).reduce((sum, count) => sum + count, 0);
    if (json) {
      const content = { created_at, schema_version, program, rows, evidence: evidence ? files : null };
      io.stdout(`${JSON.stringify({ directory, ...content, seconds })}\n`);
    } else {
      const evidenceText = evidence ? `${files.count} evidence files` : "no evidence";
      const missing = files.missing.length;
      const lines = [
        `restored ${directory} as of ${created_at}, from a backup of Assay ${program.version}`,
        `schema ${schema_version}, ${rows} rows, ${evidenceText}: ` +
          `all counts and hashes verified (${seconds.toFixed(1)} s)`,
        ...(missing > 0 ? [`the backup lacks ${missing} evidence files, see assay help restore`] : []),
      ];
      io.stdout(`${lines.join("\n")}\n`);
    }
    return EXIT.done;
  },
};

/** Opens the archive; `size` is null for stdin. @throws CommandError when it cannot be read */
async function openSource(
  io: Io,
  name: string,
): Promise<{ source: AsyncIterable<Uint8Array>; size: number | null; close(): Promise<void> }> {
  if (name === "-") return { source: readBytes(io.stdin), size: null, close: async () => undefined };
  try {
    const file = await open(resolve(io.cwd, name), "r");
    const { size } = await file.stat();
    return {
      source: file.createReadStream({ highWaterMark: 256 * 1024, autoClose: false }),
      size,
      close: () => file.close(),
    };
  } catch (error) {
    throw new CommandError(`cannot read ${name}: ${(error as Error).message}`);
  }
}

async function* readBytes(input: AsyncIterable<Uint8Array | string>): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) yield typeof chunk === "string" ? Buffer.from(chunk) : chunk;
}
