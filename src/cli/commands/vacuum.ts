/** `assay vacuum`: compacts the database of a stopped server, and removes unreferenced evidence. */
import type { EvidenceAccess } from "../../evidence/location.ts";
import { DataDirectoryInUseError, lockDirectory, lockEvidence } from "../../store/db/data-directory-lock.ts";
import {
  databaseBytes,
  findDamage,
  freePageStore,
  NoSpaceForVacuumError,
  vacuumDatabase,
} from "../../store/db/vacuum.ts";
import { EvidenceUnavailableError } from "../../evidence/errors.ts";
import type { EvidenceStore } from "../../evidence/local-store.ts";
import { EVIDENCE_OPTIONS, resolveEvidenceAccess } from "../command-config.ts";
import { openData, openEvidence, requireDataDirectory } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";
import { UNREFERENCED_EVIDENCE_AGE_S } from "../../server/scheduler.ts";
import { systemSources } from "../../clock.ts";

export const vacuum: Command = {
  name: "vacuum",
  summary: "Compact the database of a stopped server",
  usage: "[--evidence] [--data DIRECTORY]",
  details: [
    "Reclaims the space of deleted rows. The server must be stopped. Checks the whole database first, and needs " +
      "free space of twice its size. Killing it at any moment leaves an intact database. A running server reclaims " +
      "free pages by itself, unless its database was created by an older version: for such a database, run this " +
      "command once.",
  ],
  options: {
    evidence: {
      kind: "switch",
      description: "Also remove evidence files unreferenced for a day, as a running server does every hour",
    },
    ...EVIDENCE_OPTIONS,
  },
  takesConfig: false,
  async run(args, io) {
    const { directory, access } = await resolveEvidenceAccess(args, io);
    requireDataDirectory(directory);
    const lock = lockDirectory(directory);
    try {
      const { sizes, swept } = await vacuumAndSweep(directory, args.switches.has("evidence") ? access : null);
      if (args.switches.has("json")) {
        const evidence = swept ? { evidence_files: swept.removed, evidence_bytes: swept.bytes } : {};
        io.stdout(`${JSON.stringify({ bytes_before: sizes.before, bytes_after: sizes.after, ...evidence })}\n`);
      } else {
        io.stdout(`database: ${sizes.before} bytes before, ${sizes.after} bytes now\n`);
        if (swept) io.stdout(`evidence: ${swept.removed} files removed, ${swept.bytes} bytes\n`);
      }
      return EXIT.done;
    } finally {
      lock.release();
    }
  },
};

type VacuumResult = { sizes: { before: number; after: number }; swept: { removed: number; bytes: number } | null };

/** @param access to the evidence to sweep; null leaves the evidence alone */
async function vacuumAndSweep(directory: string, access: EvidenceAccess | null): Promise<VacuumResult> {
  try {
    const data = openData(directory, { locked: true });
    try {
      // Opened first, so that missing credentials stop the command before it does anything.
      const evidence =
        access && (await openEvidence(directory, access, data.store.evidenceLocation.findCurrent())).store;
      try {
        return { sizes: rewriteDatabase(data, directory), swept: evidence && (await sweep(data, directory, evidence)) };
      } finally {
        await evidence?.close();
      }
    } finally {
      data.db.close();
    }
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (String(code).startsWith("SQLITE_CORRUPT")) throw damagedDatabase([(error as Error).message]);
    throw error;
  }
}

const damagedDatabase = (problems: readonly string[]): Error =>
  new CommandError(["the database is damaged; nothing was changed, restore a backup", ...problems], EXIT.damaged);

/** @throws CommandError when the file is damaged, in use, or too large for the free space */
function rewriteDatabase({ db }: Data, directory: string): { before: number; after: number } {
  const damage = findDamage(db);
  if (damage.length > 0) throw damagedDatabase(damage);
  const before = databaseBytes(directory);
  try {
    vacuumDatabase(db, { directory, scratch: directory });
  } catch (error) {
    if (error instanceof NoSpaceForVacuumError) throw new CommandError(error.message);
    if (String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY"))
      throw new CommandError("another command is using the database; nothing was changed, try again");
    throw error;
  }
  if (!freePageStore(db).readPageCounts().isIncremental)
    throw new Error("incremental vacuum is still disabled after the rewrite");
  return { before, after: databaseBytes(directory) };
}

/**
 * @throws DataDirectoryInUseError while a backup runs, which needs all the evidence that its copy of the database
 *   references; CommandError when the evidence store does not respond
 */
async function sweep(
  { store }: Data,
  directory: string,
  evidence: EvidenceStore,
): Promise<{ removed: number; bytes: number }> {
  const lock = lockEvidence(directory);
  if (!lock)
    throw new DataDirectoryInUseError(
      `a backup of ${directory} is running: the database was compacted, but no evidence was removed; ` +
        "try again when the backup has finished",
    );
  try {
    return await evidence.sweep({
      isReferenced: store.evidenceLocation.isReferenced,
      olderThan: systemSources.now() - UNREFERENCED_EVIDENCE_AGE_S,
    });
  } catch (error) {
    if (!(error instanceof EvidenceUnavailableError)) throw error;
    throw new CommandError(
      `the database was compacted, but the evidence store does not respond: ${error.why}. ` +
        "Run this again to remove unreferenced evidence, or leave that to the server",
    );
  } finally {
    lock.release();
  }
}
