/** `assay accept-loss`: ends the read-only mode of a server whose database lacks acknowledged commits. */
import { basename } from "node:path";
import { isServed, lockDirectory } from "../../store/db/data-directory-lock.ts";
import { describeLoss, openCommitNumbering, runNumbered } from "../../store/db/commit-number.ts";
import type { Db } from "../../store/db/types.ts";
import { openUnmigrated } from "../../store/db/database.ts";
import { findLogCopy, keepDamagedLog } from "../../store/db/lost-commits.ts";
import { findDamage } from "../../store/db/vacuum.ts";
import { openStore } from "../../store/index.ts";
import { systemSources } from "../../clock.ts";
import { DATA_OPTIONS, NAMED_DATA_OPTION, resolveDataDirectory } from "../command-config.ts";
import { loadSqlite, requireDataDirectory } from "../data-directory.ts";
import { CommandError, EXIT } from "../framework.ts";
import type { Command } from "../framework.ts";
import { createOperatorChanges } from "../operator-changes.ts";

export const acceptLoss: Command = {
  name: "accept-loss",
  summary: "Go on with a database that lacks acknowledged commits",
  usage: "--data DIRECTORY",
  details: [
    "A server whose write-ahead log was damaged or removed says at its start how many commits are missing, keeps a " +
      "copy of the log, and refuses changes. First restore a backup, if that has more: see assay help restore. " +
      "Otherwise this command checks the whole database, records the loss in the audit log, and permits changes " +
      "again; a running server goes on by itself. The copy of the log stays. Nothing happens where nothing is missing.",
  ],
  options: { ...DATA_OPTIONS, ...NAMED_DATA_OPTION },
  takesConfig: false,
  namesData: true,
  async run(args, io) {
    const directory = await resolveDataDirectory(args, io, acceptLoss);
    requireDataDirectory(directory);
    loadSqlite(directory);
    // A server kept the log when it started. Without one, no other process may open the database meanwhile.
    const lock = isServed(directory) ? null : lockDirectory(directory);
    try {
      if (lock) keepDamagedLog(directory);
      const copy = findLogCopy(directory);
      const missing = acceptMissingCommits(directory, copy);
      if (args.switches.has("json")) io.stdout(`${JSON.stringify({ missing_commits: missing, log_copy: copy })}\n`);
      else if (missing === 0) io.stdout("no commit is missing; nothing was changed\n");
      else {
        const log = copy === null ? "there was no log to keep" : `the copy of the log is ${copy}`;
        io.stdout(`accepted the loss: ${describeLoss(missing)}; ${log}\n`);
      }
      return EXIT.done;
    } finally {
      lock?.release();
    }
  },
};

/** @returns how many commits were missing @throws CommandError when the database is damaged as well */
function acceptMissingCommits(directory: string, copy: string | null): number {
  const db = openUnmigrated(directory, { withLostCommits: true });
  try {
    const numbering = openCommitNumbering(db);
    try {
      const missing = numbering.missing();
      if (missing === 0) return 0;
      refuseDamage(db);
      const store = openStore(db, systemSources);
      runNumbered(db, () => createOperatorChanges(store, "accept-loss").acceptLoss(missing, copy && basename(copy)), {
        acceptsLoss: true,
      });
      return missing;
    } finally {
      numbering.close();
    }
  } finally {
    db.close();
  }
}

function refuseDamage(db: Db): void {
  const damage = findDamage(db);
  if (damage.length > 0)
    throw new CommandError(
      ["the database is damaged as well, so the loss was not accepted; restore a backup", ...damage],
      EXIT.damaged,
    );
}
