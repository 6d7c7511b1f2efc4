/**
 * `assay vacuum`: writes the database of a stopped server anew, so that the file has no holes; and removes evidence
 * that no record names.
 */
import { systemSources } from "../../server/app.ts";
import { SWEEP_AGE } from "../../server/scheduler.ts";
import type { EvidenceAccess } from "../../evidence/location.ts";
import { DataDirectoryInUseError, lockDirectory, lockEvidence } from "../../store/db/data-directory-lock.ts";
import { freePageStore } from "../../store/db/incremental-vacuum.ts";
import { findDamage, databaseBytes, NoSpaceForVacuumError, vacuumDatabase } from "../../store/db/vacuum.ts";
import { EvidenceUnavailableError } from "../../evidence/errors.ts";
import type { Vault } from "../../evidence/local-store.ts";
import { EVIDENCE_OPTIONS, evidenceDirectory } from "../command-config.ts";
import { openData, openEvidence, requireData } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";

export const vacuum: Command = {
  name: "vacuum",
  summary: "Write the database of a stopped server anew, without the space that deleted rows left",
  usage: "[--evidence] --data DIRECTORY",
  details: [
    "The server must be stopped. The database is checked first, which reads all of it, and needs room for itself twice more",
    "while it is written. Killed at any moment it leaves a whole database. A running server gives back free pages by itself,",
    "unless its database was made by an older version: this command changes that, once.",
  ],
  options: {
    evidence: {
      kind: "switch",
      description: "Remove files of evidence too that no record has named for a day; a running server does that hourly",
    },
    ...EVIDENCE_OPTIONS,
  },
  takesConfig: false,
  async run(args, io) {
    const { directory, access } = await evidenceDirectory(args, io);
    requireData(directory);
    const lock = lockDirectory(directory);
    try {
      const { sizes, swept } = await work(directory, args.switches.has("evidence") ? access : null);
      if (args.switches.has("json"))
        io.stdout(
          `${JSON.stringify({ bytes_before: sizes.before, bytes_after: sizes.after, ...(swept ? { evidence_files: swept.removed, evidence_bytes: swept.bytes } : {}) })}\n`,
        );
      else
        io.stdout(
          `database: ${sizes.before} bytes before, ${sizes.after} bytes now\n${swept ? `evidence: ${swept.removed} files of ${swept.bytes} bytes removed\n` : ""}`,
        );
      return EXIT.done;
    } finally {
      lock.release();
    }
  },
};

type Done = { sizes: { before: number; after: number }; swept: { removed: number; bytes: number } | null };

/** @param access to the evidence that is to be swept; null: it is left as it is */
async function work(directory: string, access: EvidenceAccess | null): Promise<Done> {
  try {
    const data = openData(directory, { locked: true });
    try {
      // Opened first: without the keys of a storage nothing is begun.
      const evidence =
        access && (await openEvidence(directory, access, data.store.evidenceLocation.findCurrent())).vault;
      try {
        return { sizes: written(data, directory), swept: evidence && (await sweep(data, directory, evidence)) };
      } finally {
        await evidence?.close();
      }
    } finally {
      data.db.close();
    }
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (String(code).startsWith("SQLITE_CORRUPT")) throw damaged([(error as Error).message]);
    throw error;
  }
}

const damaged = (problems: readonly string[]): Error =>
  commandFailure(["the database is damaged; nothing was changed: restore a backup", ...problems], EXIT.damaged);

/** @throws a command failure when the file is damaged, or there is no room. */
function written({ db }: Data, directory: string): { before: number; after: number } {
  const damage = findDamage(db);
  if (damage.length > 0) throw damaged(damage);
  const before = databaseBytes(directory);
  try {
    vacuumDatabase(db, { directory, scratch: directory });
  } catch (error) {
    if (error instanceof NoSpaceForVacuumError) throw commandFailure(error.message);
    if (String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY"))
      throw commandFailure("another command uses the database; nothing was changed, try again");
    throw error;
  }
  if (!freePageStore(db).readPageCounts().isIncremental)
    throw new Error("the database was written anew, and does not give back pages");
  return { before, after: databaseBytes(directory) };
}

/**
 * @throws DataDirectoryInUseError while a backup is made, which needs what its copy of the database names; a command
 * failure when the storage
 *   of the evidence gives no answer.
 */
async function sweep({ store }: Data, directory: string, evidence: Vault): Promise<{ removed: number; bytes: number }> {
  const lock = lockEvidence(directory);
  if (!lock)
    throw new DataDirectoryInUseError(
      `a backup of ${directory} is being made: the database was written anew, and no evidence was removed; try again when that is done`,
    );
  try {
    return await evidence.sweep({
      isReferenced: store.attestations.isEvidenceReferenced,
      olderThan: systemSources.now() - SWEEP_AGE,
    });
  } catch (error) {
    if (!(error instanceof EvidenceUnavailableError)) throw error;
    throw commandFailure(
      `the database was written anew, but the storage of the evidence gives no answer: ${error.why}. Run this again to remove what no record names, or leave it to the server`,
    );
  } finally {
    lock.release();
  }
}
