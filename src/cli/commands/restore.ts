/** `assay restore`: a data directory out of an archive of `assay backup`. */
import { open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Manifest } from "../../backup/format.ts";
import { restoreBackup } from "../../backup/restore.ts";
import { backupFailure } from "../backup-failures.ts";
import { DATA_OPTIONS, dataDirectory } from "../command-config.ts";
import { loadLibrary } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { showProgress } from "../progress.ts";
import { stopSignal } from "../stop-signal.ts";

export const restore: Command = {
  name: "restore",
  summary: "Make a data directory of a backup",
  usage: "FILE|- --data DIRECTORY [OPTIONS]",
  details: [
    "The directory must be missing or empty. Every size, hash and count is checked, the database too, before the directory gets",
    "its name; a backup that is cut, changed or incomplete is refused with exit code 5 and leaves nothing. A backup of an older",
    "version is restored as it is, and brought up to date by the next start.",
  ],
  options: {
    "without-evidence": { kind: "switch", description: "Take a backup that was made without evidence" },
    "allow-missing": {
      kind: "switch",
      description: "Take a backup that was made without evidence files that were missing or damaged",
    },
    ...DATA_OPTIONS,
  },
  takesConfig: false,
  positionals: { least: 1, most: 1, names: ["FILE"] },
  check: ({ positionals: [name] }, io) =>
    name === "-" && io.stdinIsTty ? ["-: stdin is a terminal; send the backup in through a pipe"] : [],
  async run(args, io) {
    const [name = ""] = args.positionals;
    const json = args.switches.has("json");
    const directory = await dataDirectory(args, io);
    loadLibrary(dirname(directory));

    const stop = stopSignal(io, "nothing is left of it");
    const progress = showProgress(io, json);
    const began = performance.now();
    const { source, size, close } = await openSource(io, name);
    let manifest: Manifest;
    try {
      manifest = await restoreBackup({
        directory,
        source,
        size,
        signal: stop,
        watch: progress,
        withoutEvidence: args.switches.has("without-evidence"),
        allowMissing: args.switches.has("allow-missing"),
      });
    } catch (error) {
      throw backupFailure(error, name);
    } finally {
      progress.end();
      await close();
    }

    const { created_at, schema_version, program, database, files, evidence } = manifest;
    const seconds = Number(((performance.now() - began) / 1000).toFixed(3));
    const rows = Object.values(database.rows).reduce((sum, count) => sum + count, 0);
    if (json)
      io.stdout(
        `${JSON.stringify({ directory, created_at, schema_version, program, rows, evidence: evidence ? files : null, seconds })}\n`,
      );
    else {
      const lines = [
        `restored ${directory} as it was at ${created_at}, from a backup of Assay ${program.version}`,
        `schema ${schema_version}, ${rows} rows, ${evidence ? `${files.count} evidence files` : "no evidence"}: all counts and hashes are right (${seconds.toFixed(1)} s)`,
        ...(files.missing.length > 0
          ? [`${files.missing.length} evidence files were missing when it was made, see assay help restore`]
          : []),
      ];
      io.stdout(`${lines.join("\n")}\n`);
    }
    return EXIT.done;
  },
};

/** The stored bytes; `size` null for those of stdin. @throws a command failure */
async function openSource(
  io: Io,
  name: string,
): Promise<{ source: AsyncIterable<Uint8Array>; size: number | null; close(): Promise<void> }> {
  if (name === "-") return { source: bytesOf(io.stdin), size: null, close: async () => undefined };
  try {
    const file = await open(resolve(io.cwd, name), "r");
    const { size } = await file.stat();
    return {
      source: file.createReadStream({ highWaterMark: 256 * 1024, autoClose: false }),
      size,
      close: () => file.close(),
    };
  } catch (error) {
    throw commandFailure(`cannot read ${name}: ${(error as Error).message}`);
  }
}

async function* bytesOf(input: AsyncIterable<Uint8Array | string>): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) yield typeof chunk === "string" ? Buffer.from(chunk) : chunk;
}
