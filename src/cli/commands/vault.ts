/** `assay vault`: shows where evidence is stored, and moves it between the data directory and S3-compatible storage. */
import { parseEvidenceStore } from "../../config/parse-values.ts";
import { openEvidenceStore } from "../../evidence/location.ts";
import { IN_DIRECTORY } from "../../store/attestations/evidence-location.ts";
import { DataDirectoryInUseError, lockDirectory, lockEvidence } from "../../store/db/data-directory-lock.ts";
import type { Lock } from "../../store/db/data-directory-lock.ts";
import { EvidenceUnavailableError } from "../../evidence/errors.ts";
import type { EvidenceStore } from "../../evidence/local-store.ts";
import type { Args } from "../args.ts";
import { EVIDENCE_OPTIONS, resolveEvidenceAccess } from "../command-config.ts";
import { runTransaction, openData, openEvidence, resolveEvidencePlace, withData } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { createOperatorChanges } from "../operator-changes.ts";
import { showProgress } from "../progress.ts";
import { createStopSignal } from "../stop-signal.ts";
import { copyEvidence, countPresent } from "../vault-copy.ts";
import type { CopyResult } from "../vault-copy.ts";
import { newPublicId } from "../../clock.ts";
import { prepareDirectory } from "../../server/prepare-directory.ts";

const TO = {
  kind: "text",
  placeholder: "PLACE",
  description: "s3://BUCKET/PREFIX, or directory for the data directory",
} as const;

export const vaultStatus: Command = {
  name: "vault status",
  summary: "Show where evidence is stored and whether it is reachable",
  usage: "[--data DIRECTORY] [OPTIONS]",
  details: ["Works with and without a running server. Exit code 1 if the storage does not respond."],
  options: EVIDENCE_OPTIONS,
  takesConfig: false,
  async run(args, io) {
    const { directory, access } = await resolveEvidenceAccess(args, io);
    const { recorded, total } = withData(directory, ({ store }) => ({
      recorded: store.evidenceLocation.findCurrent(),
      total: store.metrics.summarizeEvidence(),
    }));
    const place = resolveEvidencePlace(recorded, access);
    const { store: vault, remote } = await openEvidence(directory, access, recorded);
    let why: string | null = null;
    try {
      await remote?.probe();
    } catch (error) {
      if (!(error instanceof EvidenceUnavailableError)) throw error;
      why = error.why;
    } finally {
      await vault.close();
    }
    const { inDatabase, bytesInDatabase } = total;
    const [files, bytes] = [total.files - inDatabase, total.bytes - bytesInDatabase];
    if (args.switches.has("json")) {
      const small = { files: inDatabase, bytes: bytesInDatabase };
      io.stdout(`${JSON.stringify({ place, files, bytes, in_database: small, reachable: why === null, why })}\n`);
    } else {
      const content = `${files} files referenced by attestations, ${bytes} bytes`;
      io.stdout(`evidence is stored in ${describePlace(place, directory)}: ${content}\n`);
      if (inDatabase > 0) io.stdout(`the database holds ${inDatabase} more small files, ${bytesInDatabase} bytes\n`);
      io.stdout(why === null ? "the storage is reachable\n" : `the storage does not respond: ${why}\n`);
    }
    return why === null ? EXIT.done : EXIT.failed;
  },
};

export const vaultCopy: Command = {
  name: "vault copy",
  summary: "Copy the evidence to another location in advance of a migration",
  usage: "--to PLACE [--data DIRECTORY] [OPTIONS]",
  details: [
    "Works beside a running server and changes only the target. Run it as often as you like before assay vault " +
      "migrate, which then has little left to copy while the server is stopped. Skips files that are already there. " +
      "See assay help evidence-storage.",
  ],
  options: { to: TO, ...EVIDENCE_OPTIONS },
  takesConfig: false,
  check: findTargetProblems,
  run: (args, io) =>
    withMove(args, io, async (move) => {
      const copied = await copyWithProgress(move, args, io);
      refuseLost(copied, "these files are not at the target");
      printMove(args, io, { ...move, copied, switched: false, removed: null });
    }),
};

export const vaultMigrate: Command = {
  name: "vault migrate",
  summary: "Move the evidence of a stopped server to another location",
  usage: "--to PLACE [--data DIRECTORY] [--remove-source] [OPTIONS]",
  details: [
    "Copies missing files, checks every file at the target, and switches the database to the new location only " +
      "when all files are there. You can stop or kill it at any moment: until the switch the old location is in use " +
      "and complete, afterwards the new one. Run it again to continue. Then start the server with the " +
      "--evidence-store that it prints. See assay help evidence-storage.",
  ],
  options: {
    to: TO,
    "remove-source": { kind: "switch", description: "Remove the evidence from the old location after the switch" },
    "allow-missing": {
      kind: "switch",
      description: "Move even if evidence is missing or damaged, and list those files",
    },
    ...EVIDENCE_OPTIONS,
  },
  takesConfig: false,
  check: findTargetProblems,
  run: (args, io) =>
    withMove(args, io, async (move) => {
      const { data, directory, from, to, source, target, signal } = move;
      const lock = lockDirectory(directory);
      let removalLock: Lock | null = null;
      try {
        // Taken first, so that a running backup, which reads the old location, stops the command before it copies.
        if (args.switches.has("remove-source")) removalLock = lockForRemoval(directory);
        const copied = await copyWithProgress(move, args, io);
        if (!args.switches.has("allow-missing"))
          refuseLost(copied, "the location was not switched; --allow-missing moves the rest without these files");
        if ((await countPresent(data.store, target, signal)) < copied.files)
          throw new CommandError(
            `${describePlace(to, directory)} lost files during the copy; the location was not switched, run this again`,
          );
        runTransaction(data, () => createOperatorChanges(data.store, "vault migrate").moveEvidence(from, to));
        const everything = { isReferenced: () => false, olderThan: Number.POSITIVE_INFINITY };
        const removed = removalLock && (await source.sweep(everything)).removed;
        printMove(args, io, { ...move, copied, switched: true, removed });
      } finally {
        removalLock?.release();
        lock.release();
      }
    }),
};

/** Acquires the lock for removing evidence. @throws DataDirectoryInUseError */
function lockForRemoval(directory: string): Lock {
  const lock = lockEvidence(directory);
  if (lock) return lock;
  throw new DataDirectoryInUseError(
    `a backup of ${directory} is running and reads the evidence at its present location: ` +
      "nothing was moved, try again when the backup has finished",
  );
}

type Move = {
  directory: string;
  data: Data;
  from: string;
  to: string;
  source: EvidenceStore;
  target: EvidenceStore;
  signal: AbortSignal;
};

/** Returns the location that --to names; null if it is invalid. */
function parseTarget({ texts }: Args): string | null {
  const [text = ""] = texts.get("to") ?? [];
  return text === IN_DIRECTORY ? IN_DIRECTORY : parseEvidenceStore(text);
}

function findTargetProblems(args: Args): string[] {
  return parseTarget(args) === null ? ["--to: give s3://BUCKET, s3://BUCKET/PREFIX or directory"] : [];
}

/** Opens both locations, runs `work` and closes them. */
async function withMove(args: Args, io: Io, work: (move: Move) => Promise<void>): Promise<number> {
  const to = parseTarget(args);
  if (to === null) throw new Error("--to passed the check of the command line but is invalid");
  const { directory, access } = await resolveEvidenceAccess(args, io);
  const data = openData(directory);
  try {
    // The configured location does not count here: the operator may already have changed it to the target.
    const from = data.store.evidenceLocation.findCurrent() ?? IN_DIRECTORY;
    if (from === to) {
      if (args.switches.has("json"))
        io.stdout(`${JSON.stringify({ from, to, switched: false, files: 0, copied: 0 })}\n`);
      else io.stdout(`the evidence is already stored in ${describePlace(to, directory)}; nothing to do\n`);
      return EXIT.done;
    }
    const open = async (place: string): Promise<EvidenceStore> =>
      (await openEvidenceStore({ location: place, paths: prepareDirectory(directory), access }, newPublicId)).store;
    const source = await open(from);
    try {
      const target = await open(to);
      try {
        await work({
          directory,
          data,
          from,
          to,
          source,
          target,
          signal: createStopSignal(
            io,
            "the location was not switched, the copied files stay at the target: run this again to continue",
          ),
        });
        return EXIT.done;
      } finally {
        await target.close();
      }
    } finally {
      await source.close();
    }
  } finally {
    data.db.close();
  }
}

async function copyWithProgress(
  { data, source, target, signal, to, directory }: Move,
  args: Args,
  io: Io,
): Promise<CopyResult> {
  const progress = showProgress(io, { quiet: args.switches.has("json") });
  const { bytes, bytesInDatabase } = data.store.metrics.summarizeEvidence();
  progress.begin("evidence", bytes - bytesInDatabase);
  try {
    return await copyEvidence({ store: data.store, source, target, signal, reached: progress.reach });
  } catch (error) {
    if (error instanceof EvidenceUnavailableError) {
      throw new CommandError(
        `${describePlace(to, directory)} or the old location does not respond: ${error.why}. ` +
          "The location was not switched; the copied files stay at the target, run this again to continue",
      );
    }
    throw error;
  } finally {
    progress.end();
  }
}

const MAX_LISTED_FILES = 20;

/** @throws CommandError that lists the files that the source lacks or has damaged */
function refuseLost({ lost }: CopyResult, consequence: string): void {
  if (lost.length === 0) return;
  const lines = lost.slice(0, MAX_LISTED_FILES).map(({ digest, state }) => `evidence ${digest} is ${state}`);
  const rest = lost.length > lines.length ? [`${lost.length - lines.length} more are missing or damaged`] : [];
  throw new CommandError([...lines, ...rest, consequence], EXIT.damaged);
}

type MoveResult = Move & { copied: CopyResult; switched: boolean; removed: number | null };

function printMove({ switches }: Args, io: Io, { directory, from, to, copied, switched, removed }: MoveResult): void {
  if (switches.has("json")) {
    io.stdout(`${JSON.stringify({ from, to, switched, ...copied, removed })}\n`);
    return;
  }
  const { files, bytes, copied: newFiles, unnamed, lost } = copied;
  const lines = [
    `${describePlace(to, directory)} has ${files} files, ${bytes} bytes; ${newFiles} of them newly copied`,
  ];
  if (unnamed > 0) lines.push(`also copied ${unnamed} files of the last day that no record references yet`);
  for (const { digest, state } of lost) lines.push(`evidence ${digest} is ${state} in the old location`);
  if (switched) {
    const start = to === IN_DIRECTORY ? "without --evidence-store" : `with --evidence-store ${to}`;
    lines.push(`the evidence is now stored there: start the server ${start}`);
    lines.push(
      removed === null
        ? `the old location, ${describePlace(from, directory)}, was left unchanged`
        : `${removed} files were removed from ${describePlace(from, directory)}`,
    );
  }
  io.stdout(`${lines.join("\n")}\n`);
}

const describePlace = (place: string, directory: string): string =>
  place === IN_DIRECTORY ? `the data directory ${directory}` : place;
