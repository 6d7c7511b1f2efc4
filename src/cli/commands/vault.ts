/** `assay vault`: where the evidence is kept, and moving it between the data directory and S3-compatible storage. */
import { newPublicId, prepareDirectory } from "../../server/app.ts";
import { parseEvidenceStore } from "../../config/parse-values.ts";
import { openPlace } from "../../evidence/location.ts";
import { IN_DIRECTORY } from "../../store/flows/evidence-location.ts";
import { DataDirectoryInUseError, lockDirectory, lockEvidence } from "../../store/db/data-directory-lock.ts";
import type { Lock } from "../../store/db/data-directory-lock.ts";
import { EvidenceUnavailableError } from "../../evidence/errors.ts";
import type { Vault } from "../../evidence/local-store.ts";
import type { Args } from "../args.ts";
import { EVIDENCE_OPTIONS, evidenceDirectory } from "../command-config.ts";
import { change, openData, openEvidence, placeFor, withData } from "../data-directory.ts";
import type { Data } from "../data-directory.ts";
import { commandFailure, EXIT } from "../framework.ts";
import type { Command, Io } from "../framework.ts";
import { operatorOf } from "../operator-changes.ts";
import { showProgress } from "../progress.ts";
import { stopSignal } from "../stop-signal.ts";
import { copyEvidence, countThere } from "../vault-copy.ts";
import type { Copied } from "../vault-copy.ts";

const TO = {
  kind: "text",
  placeholder: "PLACE",
  description: "s3://BUCKET/PREFIX, or directory for the data directory",
} as const;

export const vaultStatus: Command = {
  name: "vault status",
  summary: "Tell where the evidence is kept, and whether it can be reached",
  usage: "--data DIRECTORY [OPTIONS]",
  details: ["Works beside a running server. Exit code 1 when the storage does not answer."],
  options: EVIDENCE_OPTIONS,
  takesConfig: false,
  async run(args, io) {
    const { directory, access } = await evidenceDirectory(args, io);
    const { recorded, total } = withData(directory, ({ store }) => ({
      recorded: store.evidenceLocation.findCurrent(),
      total: store.metrics.summarizeEvidence(),
    }));
    const place = placeFor(recorded, access);
    const { vault, remote } = await openEvidence(directory, access, recorded);
    let why: string | null = null;
    try {
      await remote?.probe();
    } catch (error) {
      if (!(error instanceof EvidenceUnavailableError)) throw error;
      why = error.why;
    } finally {
      await vault.close();
    }
    if (args.switches.has("json")) io.stdout(`${JSON.stringify({ place, ...total, reachable: why === null, why })}\n`);
    else
      io.stdout(
        `evidence is kept in ${told(place, directory)}: ${total.files} files that attestations name, ${total.bytes} bytes\n${why === null ? "it can be reached" : `it gives no answer: ${why}`}\n`,
      );
    return why === null ? EXIT.done : EXIT.failed;
  },
};

export const vaultCopy: Command = {
  name: "vault copy",
  summary: "Copy the evidence to where it will be kept, beside a running server",
  usage: "--to PLACE --data DIRECTORY [OPTIONS]",
  details: [
    "Nothing but the target changes. Run it as often as you like before assay vault migrate, which then has little left to copy",
    "while the server is stopped. What is there already is passed over. See assay help evidence-storage.",
  ],
  options: { to: TO, ...EVIDENCE_OPTIONS },
  takesConfig: false,
  check: (args) => (targetOf(args) === null ? ["--to: give s3://BUCKET, s3://BUCKET/PREFIX or directory"] : []),
  run: (args, io) =>
    withMove(args, io, async (move) => {
      const copied = await copy(move, args, io);
      refuseLost(copied, "these are not at the target");
      tell(args, io, move, copied, { switched: false, removed: null });
    }),
};

export const vaultMigrate: Command = {
  name: "vault migrate",
  summary: "Move the evidence of a stopped server to another place",
  usage: "--to PLACE --data DIRECTORY [--remove-source] [OPTIONS]",
  details: [
    "Copies what is not there yet, checks each file at the target, and only when everything is there the database names the new place.",
    "It may be stopped or killed at any moment: until then the old place counts and is complete, afterwards the new one. Run it again",
    "to go on. Then start the server with the --evidence-store that this names. See assay help evidence-storage.",
  ],
  options: {
    to: TO,
    "remove-source": { kind: "switch", description: "Remove the evidence from the old place once the new one counts" },
    "allow-missing": {
      kind: "switch",
      description: "Move although evidence is missing or damaged already, and tell what",
    },
    ...EVIDENCE_OPTIONS,
  },
  takesConfig: false,
  check: (args) => (targetOf(args) === null ? ["--to: give s3://BUCKET, s3://BUCKET/PREFIX or directory"] : []),
  run: (args, io) =>
    withMove(args, io, async (move) => {
      const { data, directory, from, to, source, target, signal } = move;
      const lock = lockDirectory(directory);
      let alone: Lock | null = null;
      try {
        // From the beginning, so that a backup that reads from the old place is the end of it before anything was
        // moved.
        if (args.switches.has("remove-source")) alone = lockToRemove(directory);
        const copied = await copy(move, args, io);
        if (!args.switches.has("allow-missing"))
          refuseLost(copied, "nothing was switched; with --allow-missing the rest is moved without them");
        if ((await countThere(data.store, target, signal)) < copied.files)
          throw commandFailure("the target lost files while others were copied; nothing was switched, run this again");
        change(data, () => operatorOf(data.store, "vault migrate").moveEvidence(from, to));
        const removed =
          alone && (await source.sweep({ isReferenced: () => false, olderThan: Number.POSITIVE_INFINITY })).removed;
        tell(args, io, move, copied, { switched: true, removed });
      } finally {
        alone?.release();
        lock.release();
      }
    }),
};

/** The right to remove evidence. @throws DataDirectoryInUseError */
function lockToRemove(directory: string): Lock {
  const lock = lockEvidence(directory);
  if (lock) return lock;
  throw new DataDirectoryInUseError(
    `a backup of ${directory} is being made, which reads the evidence where it is: nothing was moved, try again when that is done`,
  );
}

type Move = {
  directory: string;
  data: Data;
  from: string;
  to: string;
  source: Vault;
  target: Vault;
  signal: AbortSignal;
};

/** The place that --to names; null for what is none. */
function targetOf({ texts }: Args): string | null {
  const [asked = ""] = texts.get("to") ?? [];
  return asked === IN_DIRECTORY ? IN_DIRECTORY : parseEvidenceStore(asked);
}

/** Opens both places for `work`, and closes them. */
async function withMove(args: Args, io: Io, work: (move: Move) => Promise<void>): Promise<number> {
  const to = targetOf(args);
  if (to === null) throw new Error("the check of the command line let a place pass that is none");
  const { directory, access } = await evidenceDirectory(args, io);
  const data = openData(directory);
  try {
    // What the configuration says is no matter here: somebody may have changed it already.
    const from = data.store.evidenceLocation.findCurrent() ?? IN_DIRECTORY;
    if (from === to) {
      if (args.switches.has("json"))
        io.stdout(`${JSON.stringify({ from, to, switched: false, files: 0, copied: 0 })}\n`);
      else io.stdout(`the evidence is kept in ${told(to, directory)} already; nothing to do\n`);
      return EXIT.done;
    }
    const open = async (place: string): Promise<Vault> =>
      (await openPlace({ place, parts: prepareDirectory(directory), access }, newPublicId)).vault;
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
          signal: stopSignal(io, "nothing was switched, what was copied stays: run this again to go on"),
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

async function copy({ data, source, target, signal, to, directory }: Move, args: Args, io: Io): Promise<Copied> {
  const progress = showProgress(io, args.switches.has("json"));
  progress.begin("evidence", data.store.metrics.summarizeEvidence().bytes);
  try {
    return await copyEvidence({ store: data.store, source, target, signal, reached: progress.reach });
  } catch (error) {
    if (error instanceof EvidenceUnavailableError) {
      throw commandFailure(
        `${told(to, directory)} or the place before gives no answer: ${error.why}. Nothing was switched; what was copied stays, run this again to go on`,
      );
    }
    throw error;
  } finally {
    progress.end();
  }
}

/** @throws a command failure that names what the source does not have as it should be */
function refuseLost({ lost }: Copied, consequence: string): void {
  if (lost.length === 0) return;
  const shown = lost.slice(0, 20).map(({ digest, state }) => `evidence ${digest} is ${state}`);
  const rest = lost.length > shown.length ? [`${lost.length - shown.length} more are missing or damaged`] : [];
  throw commandFailure([...shown, ...rest, consequence], EXIT.damaged);
}

function tell(
  args: Args,
  io: Io,
  { directory, from, to }: Move,
  copied: Copied,
  { switched, removed }: { switched: boolean; removed: number | null },
): void {
  if (args.switches.has("json")) {
    io.stdout(`${JSON.stringify({ from, to, switched, ...copied, removed })}\n`);
    return;
  }
  const lines = [
    `${copied.files} files of ${copied.bytes} bytes are in ${told(to, directory)}, ${copied.copied} of them newly copied`,
  ];
  if (copied.unnamed > 0)
    lines.push(`${copied.unnamed} files of the last day that no attestation names yet were copied too`);
  for (const { digest, state } of copied.lost) lines.push(`evidence ${digest} is ${state} in the old place`);
  if (switched) {
    const start = to === IN_DIRECTORY ? "without --evidence-store" : `with --evidence-store ${to}`;
    lines.push(`the evidence is kept there now: start the server ${start}`);
    lines.push(
      removed === null
        ? `the old place, ${told(from, directory)}, was left as it is`
        : `${removed} files were removed from ${told(from, directory)}`,
    );
  }
  io.stdout(`${lines.join("\n")}\n`);
}

const told = (place: string, directory: string): string =>
  place === IN_DIRECTORY ? `the data directory ${directory}` : place;
