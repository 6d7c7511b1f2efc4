/** `assay restore`: creates a data directory from an archive of `assay backup`. */
import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Manifest } from "../../backup/format.ts";
import { restoreBackup } from "../../backup/restore.ts";
import { systemSources } from "../../clock.ts";
import { ageText } from "../../diagnostics/doctor/check.ts";
import { messageOf, causeOf } from "../../domain/text/system-errors.ts";
import type { EvidenceAccess } from "../../evidence/location.ts";
import type { Args } from "../args.ts";
import { mapBackupError } from "../backup-failures.ts";
import { EVIDENCE_OPTIONS, NAMED_DATA_OPTION, resolveEvidenceAccess } from "../command-config.ts";
import { loadSqlite } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { showProgress } from "../progress.ts";
import { restoreService } from "../service-restore.ts";
import type { ServiceRestore } from "../service-restore.ts";
import { createStopSignal } from "../stop-signal.ts";
import { describeServiceNameProblem } from "../systemd-service.ts";
import { verifyData } from "../verify-data.ts";

export const restore: Command = {
  name: "restore",
  summary: "Restore a data directory from a backup",
  usage: "FILE|- --data DIRECTORY [OPTIONS]",
  details: [
    "The directory must be missing or empty. Every size, hash and count, and the database itself, is checked " +
      "before the directory gets its name. A truncated, altered or incomplete backup is refused with exit code 5 " +
      "and leaves nothing behind. A backup of an older version is restored unchanged; the next start upgrades its " +
      "schema.",
    "With --service NAME and its --data, a refusal leaves the earlier directory in place and the service as it was, " +
      "and so does a service that does not start. Prints what the backup lacks of the earlier directory, and for how " +
      "long the service was stopped.",
  ],
  options: {
    service: {
      kind: "text",
      placeholder: "NAME",
      description:
        "Replace the data of this systemd service: once the backup is checked, stop it, move its directory aside, " +
        "start it and verify",
    },
    "without-evidence": { kind: "switch", description: "Accept a backup that contains no evidence" },
    "allow-missing": {
      kind: "switch",
      description: "Accept a backup that lacks evidence files which were missing or damaged",
    },
    ...EVIDENCE_OPTIONS,
    ...NAMED_DATA_OPTION,
  },
  takesConfig: false,
  namesData: true,
  positionals: { min: 1, max: 1, names: ["FILE"] },
  check({ positionals: [name], texts }, io) {
    const problem = texts.has("service") ? describeServiceNameProblem(texts.get("service")?.[0] ?? "") : null;
    return [
      ...(name === "-" && io.stdinIsTty ? ["-: stdin is a terminal; redirect it from a file or a pipe"] : []),
      ...(problem === null ? [] : [problem]),
    ];
  },
  async run(args, io) {
    const { directory, access } = await resolveEvidenceAccess(args, io, restore);
    loadSqlite(dirname(directory));
    const [json, service] = [args.switches.has("json"), args.texts.get("service")?.[0]];
    const startedAt = performance.now();
    const secondsSince = (): number => Number(((performance.now() - startedAt) / 1000).toFixed(3));
    if (service === undefined) {
      const manifest = await restoreInto(directory, args, io);
      const restored: Restored = { directory, manifest, seconds: secondsSince() };
      io.stdout(json ? `${JSON.stringify(presentRestored(restored))}\n` : renderRestored(restored));
      return EXIT.done;
    }
    let checkedIn = 0;
    const replaced = await restoreService({
      service,
      directory,
      now: systemSources.now,
      async restoreInto(target) {
        const manifest = await restoreInto(target, args, io);
        checkedIn = secondsSince();
        return manifest;
      },
    });
    const restored: Restored = { ...replaced, seconds: checkedIn };
    // Before the verification: it takes its time, and the service runs already.
    if (!json) io.stdout(renderRestored(restored) + renderReplacement(service, replaced));
    const damage = await countDamage(replaced.directory, access, io);
    const seconds = secondsSince();
    if (json)
      io.stdout(
        `${JSON.stringify({ ...presentRestored(restored), ...presentReplacement(replaced), damage, seconds })}\n`,
      );
    else if (damage === 0) io.stdout(`verified: all quick checks passed; all of it took ${seconds.toFixed(1)} s\n`);
    else io.stderr(`assay: the restored data are damaged (${damage} problems): see assay verify\n`);
    return damage === 0 ? EXIT.done : EXIT.damaged;
  },
};

/** Restores the archive that the arguments name. @throws CommandError */
async function restoreInto(directory: string, { positionals, switches }: Args, io: Io): Promise<Manifest> {
  const [name = ""] = positionals;
  const signal = createStopSignal(io, "nothing was restored");
  const progress = showProgress(io, { quiet: switches.has("json") });
  const { source, size, close } = await openSource(io, name);
  try {
    return await restoreBackup({
      directory,
      source,
      size,
      signal,
      progress,
      withoutEvidence: switches.has("without-evidence"),
      allowMissing: switches.has("allow-missing"),
    });
  } catch (error) {
    throw mapBackupError(error, name);
  } finally {
    progress.end();
    await close();
  }
}

/** `seconds`: until everything was unpacked and checked. */
type Restored = { directory: string; manifest: Manifest; seconds: number };

const countRows = ({ database }: Manifest): number =>
  Object.values(database.rows).reduce((sum, count) => sum + count, 0);

function presentRestored({ directory, manifest, seconds }: Restored) {
  const { created_at, schema_version, program, files, evidence } = manifest;
  const rows = countRows(manifest);
  return { directory, created_at, schema_version, program, rows, evidence: evidence ? files : null, seconds };
}

function renderRestored({ directory, manifest, seconds }: Restored): string {
  const { created_at, schema_version, program, files, evidence } = manifest;
  const evidenceText = evidence ? `${files.count} evidence files` : "no evidence";
  const missing = files.missing.length;
  const lines = [
    `restored ${directory} as of ${created_at}, from a backup of Assay ${program.version}`,
    `schema ${schema_version}, ${countRows(manifest)} rows, ${evidenceText}: ` +
      `all counts and hashes verified (${seconds.toFixed(1)} s)`,
    ...(missing > 0 ? [`the backup lacks ${missing} evidence files, see assay help restore`] : []),
  ];
  return `${lines.join("\n")}\n`;
}

/** A time in epoch seconds as backups state it. */
const timeText = (seconds: number): string => new Date(seconds * 1000).toISOString().replace(/\.\d+/, "");

/** The seconds between the backup and the last change in the earlier directory; null where there was none. */
function lostSeconds({ manifest, loss: { lastChangeAt } }: ServiceRestore): number | null {
  return lastChangeAt === null ? null : Math.max(0, lastChangeAt - Date.parse(manifest.created_at) / 1000);
}

function presentReplacement(replaced: ServiceRestore) {
  const { aside, loss, downSeconds } = replaced;
  const last = loss.lastChangeAt === null ? null : timeText(loss.lastChangeAt);
  const lost = { changes: loss.changes, last_change_at: last, seconds: lostSeconds(replaced) };
  return { moved_to: aside, lost, down_seconds: Number(downSeconds.toFixed(3)) };
}

function renderReplacement(service: string, replaced: ServiceRestore): string {
  const { aside, downSeconds } = replaced;
  const lines = [
    `lost: ${describeLoss(replaced)}`,
    ...(aside === null ? [] : [`the earlier directory is ${aside}: keep it until nothing is missing`]),
    `the service ${service} runs on the restored data; it was stopped for ${downSeconds.toFixed(1)} s`,
  ];
  return `${lines.join("\n")}\n`;
}

function describeLoss(replaced: ServiceRestore): string {
  const { lastChangeAt, changes } = replaced.loss;
  if (lastChangeAt === null) return "unknown, because there was no earlier directory";
  if (changes === 0) return "nothing: the earlier directory has no change after the backup";
  const number =
    changes === null ? "an unknown number of changes" : `${changes} ${changes === 1 ? "change" : "changes"}`;
  const span = ageText(lostSeconds(replaced) ?? 0);
  return `${number}, the last at ${timeText(lastChangeAt)}, ${span} after the backup`;
}

/** The number of problems that `assay verify --quick` finds. @throws CommandError where it cannot be made */
async function countDamage(directory: string, access: EvidenceAccess, io: Io): Promise<number> {
  try {
    const results = await verifyData(directory, access, { quick: true, progress: showProgress(io, { quiet: true }) });
    return results.reduce((sum, { damageCount }) => sum + damageCount, 0);
  } catch (error) {
    const reason = messageOf(error);
    throw new CommandError(`the service runs on the restored data, which could not be verified: ${reason}`);
  }
}

/** Opens the archive; `size` is null for stdin. @throws CommandError when it cannot be read */
async function openSource(
  io: Io,
  name: string,
): Promise<{ source: AsyncIterable<Uint8Array>; size: number | null; close(): Promise<void> }> {
  if (name === "-") return { source: readBytes(io.stdin), size: null, close: async () => undefined };
  try {
    const file = await open(resolve(io.cwd, name), "r");
    const { size } = await file.stat();
    return { source: readArchive(file, name), size, close: () => file.close() };
  } catch (error) {
    throw cannotRead(name, error);
  }
}

const cannotRead = (name: string, error: unknown): CommandError =>
  new CommandError(`cannot read ${name}: ${causeOf(error)}`);

async function* readArchive(file: FileHandle, name: string): AsyncGenerator<Uint8Array> {
  try {
    yield* file.createReadStream({ highWaterMark: 256 * 1024, autoClose: false }) as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw cannotRead(name, error);
  }
}

async function* readBytes(input: AsyncIterable<Uint8Array | string>): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) yield typeof chunk === "string" ? Buffer.from(chunk) : chunk;
}
