/**
 * Checks of the database: its version and size from the file alone, and its waiting work where the file can be opened
 * without changing anything.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { ClockRecord } from "../../domain/clock.ts";
import { OTHER_CLIENT } from "../../domain/network/client.ts";
import { messageOf } from "../../domain/text/system-errors.ts";
import { summarizeUnknownInputs } from "../../store/accounts/unknown-inputs.ts";
import type { UnknownInputRow } from "../../store/accounts/unknown-inputs.ts";
import { openReader } from "../../store/reader.ts";
import { COMMIT_FILE } from "../../store/db/commit-file.ts";
import { describeLoss, isCommitFileUsable } from "../../store/db/commit-number.ts";
import { APPLICATION_ID, findSchemaProblems, readFileHeader, schemaVersion } from "../../store/db/database.ts";
import type { FileHeader } from "../../store/db/file-header.ts";
import { countMissingCommits } from "../../store/db/lost-commits.ts";
import type { DbReader } from "../../store/db/types.ts";
import { walBytes } from "../../store/db/wal.ts";
import { findRequiredLocation } from "../../store/attestations/evidence-location.ts";
import type { Check, Machine } from "./check.ts";
import { ageText, fail, fileSizeText, ok, warn } from "./check.ts";

/**
 * `newer`: a newer program wrote the database. `known`: this program has the schema of its version. `usable`: this
 * program can query it.
 */
export type DatabaseState = { header: FileHeader | null; newer: boolean; known: boolean; usable: boolean };

export const NO_DATABASE: DatabaseState = { header: null, newer: false, known: false, usable: false };

/** @param directory the data directory */
export function checkDatabase(
  directory: string,
  { fileSystemSpace }: Pick<Machine, "fileSystemSpace">,
): { check: Check; state: DatabaseState } {
  const name = "database";
  const file = join(directory, "assay.db");
  let header: FileHeader | null;
  try {
    header = readFileHeader(file);
  } catch (error) {
    const reason = messageOf(error);
    return { check: fail(name, reason, "restore the latest backup: see assay help verify"), state: NO_DATABASE };
  }
  if (!header) {
    const check = warn(
      name,
      "is empty: the process that created it died before it wrote anything",
      "assay serve creates it again",
    );
    return { check, state: NO_DATABASE };
  }
  const version = header.schemaVersion;
  const isOurs = header.applicationId === APPLICATION_ID;
  const [newer, known] = [version > schemaVersion(), isOurs && version > 0 && version <= schemaVersion()];
  const state = { header, newer, known, usable: known && version === schemaVersion() };
  if (!isOurs) return { check: fail(name, `${file} is not a database of Assay`, "correct --data"), state };
  // While there is a log, the file may lack what the log has.
  const { size } = statSync(file);
  if (size < header.pages * header.pageSize && walBytes(directory) === 0)
    return {
      check: fail(
        name,
        `${file} was cut: it has ${size} bytes of ${header.pages * header.pageSize}`,
        "restore the latest backup: see assay help verify",
      ),
      state: NO_DATABASE,
    };
  return { check: checkSchemaVersion(header, fileSystemSpace(directory)?.free ?? Infinity), state };
}

/** @param free bytes */
function checkSchemaVersion({ schemaVersion: version, pages, pageSize }: FileHeader, free: number): Check {
  const name = "database";
  const current = schemaVersion();
  const bytes = pages * pageSize;
  const size = fileSizeText(bytes);
  if (version === current) return ok(name, `schema ${version}, ${size}`);
  if (version > current)
    return fail(
      name,
      `schema ${version}, but this program knows versions up to ${current}`,
      "start the program that wrote it, or restore the copy from before the upgrade: see assay help upgrade",
    );
  if (free < bytes)
    return fail(
      name,
      `schema ${version} of ${current}; the next start copies it first, which takes ${size}, ` +
        `and ${fileSizeText(free)} are free`,
      "free disk space before you start the server",
    );
  return warn(
    name,
    `schema ${version} of ${current}, ${size}`,
    "the next start upgrades it, after making a copy of the same size: see assay help upgrade",
  );
}

/** Whether the objects of the database are those of its version: a start refuses any other. */
export function checkSchemaObjects(db: DbReader): Check {
  const name = "schema";
  const problems = findSchemaProblems(db).map(({ about, problem }) => `${about} ${problem}`);
  return problems.length === 0
    ? ok(name, "tables, indexes, triggers and views are those of its version")
    : fail(
        name,
        `${problems.slice(0, 3).join("; ")}${problems.length > 3 ? `; and ${problems.length - 3} more` : ""}`,
        "keep the directory as it is: see assay help verify",
      );
}

/** A larger log means that something keeps it from being reset. */
const LARGE_WAL_BYTES = 256 * 1024 * 1024;

/**
 * @param isServed whether a server runs
 * @param isExternal whether another process checkpoints the log (--checkpoints external)
 */
export function checkWal(
  directory: string,
  { isServed, isExternal }: { isServed: boolean; isExternal: boolean },
): Check {
  const name = "write-ahead log";
  const bytes = statSync(join(directory, "assay.db-wal"), { throwIfNoEntry: false })?.size ?? 0;
  const size = fileSizeText(bytes);
  if (bytes > LARGE_WAL_BYTES && isExternal)
    return warn(
      name,
      `${size}, and --checkpoints external leaves checkpoints to another process`,
      "check whether the replication beside the server still runs",
    );
  if (bytes > LARGE_WAL_BYTES)
    return warn(
      name,
      size,
      "a long read, or a stopped process that has the database open, keeps the log from being reset: " +
        "see assay help troubleshooting",
    );
  if (bytes > 0 && !isServed)
    return warn(
      name,
      `${size}, and no server runs: the last one did not stop cleanly`,
      "the next start applies the log, and says if commits are missing in it",
    );
  return ok(name, bytes === 0 ? "empty" : size);
}

/** Compares the database with the latest commit number that was acknowledged. */
export function checkCommits(directory: string, db: DbReader): Check {
  const name = "commits";
  const missing = countMissingCommits(directory);
  if (missing > 0)
    return fail(
      name,
      `${describeLoss(missing)}: the write-ahead log was damaged or removed, or an older database was put in its place`,
      "restore a backup, or go on without them: see assay help accept-loss",
    );
  if (!isCommitFileUsable(directory, db))
    return warn(
      name,
      `${COMMIT_FILE} is damaged, or of another database: a damaged write-ahead log could go unnoticed`,
      "the next start of the server writes it again",
    );
  return ok(name, "none is missing");
}

/** Free pages are worth a warning when they exceed 64 MB and a quarter of the file. */
export function checkFreePages({ pages, freePages, pageSize, autoVacuum }: FileHeader): Check {
  const name = "free pages";
  const freeBytes = freePages * pageSize;
  const found = `${fileSizeText(freeBytes)} of ${fileSizeText(pages * pageSize)} (auto_vacuum ${autoVacuum})`;
  const isMuch = freeBytes > 64 * 1024 * 1024 && freePages > pages / 4;
  return isMuch
    ? warn(
        name,
        found,
        "new records reuse them; to return the space to the disk, stop the server and compact the database: " +
          "see assay help space",
      )
    : ok(name, found);
}

export type DatabaseContents = {
  /** Bytes of the evidence that rows name, each file counted once: in files, and in the database. */
  evidence: { files: number; database: number };
  /** The recorded location of the evidence; null while no row names any. */
  place: string | null;
  /** Time of the latest change in epoch seconds; null when there is none. */
  newest: number | null;
  /** The recorded state of the clock; null when there is none. */
  clock: ClockRecord | null;
  /** The largest step back in time among the latest changes, in seconds. */
  backwards: number;
  checks: Check[];
};

/** Reads the rows that the checks need: a few short queries. */
export function checkContents(db: DbReader, { isServed, now }: { isServed: boolean; now: number }): DatabaseContents {
  // The table is empty before the first file.
  const totals = db
    .prepare<[], DatabaseContents["evidence"]>(
      "SELECT bytes - bytes_in_database AS files, bytes_in_database AS database FROM evidence_totals",
    )
    .get();
  const latest = db
    .prepare<[], { newest: number | null; backwards: number | null }>(
      `SELECT (SELECT timestamp FROM audit_log ORDER BY id DESC LIMIT 1) AS newest,
              max(before - timestamp) AS backwards
       FROM (SELECT timestamp, lag(timestamp) OVER (ORDER BY id) AS before
             FROM (SELECT id, timestamp FROM audit_log ORDER BY id DESC LIMIT 1000))`,
    )
    .get();
  return {
    evidence: totals ?? { files: 0, database: 0 },
    place: findRequiredLocation(db),
    newest: latest?.newest ?? null,
    clock: openReader(db).clock.read(),
    backwards: latest?.backwards ?? 0,
    checks: [checkDeliveries(db), checkJobs(db, { isServed, now }), checkClients(db, now)],
  };
}

function checkDeliveries(db: DbReader): Check {
  const name = "deliveries";
  const { waiting, dead } = db
    .prepare<[], { waiting: number; dead: number }>(
      `SELECT (SELECT count(*) FROM deliveries WHERE state = 'waiting') AS waiting,
              (SELECT count(*) FROM deliveries WHERE state = 'dead') AS dead`,
    )
    .get() ?? { waiting: 0, dead: 0 };
  return dead > 0
    ? warn(
        name,
        `${waiting} waiting, ${dead} dead: dead deliveries are not retried`,
        "assay deliveries list shows why; assay deliveries retry sends them again, assay deliveries purge deletes them",
      )
    : ok(name, `${waiting} waiting, none dead`);
}

/** What was not seen for so long no longer matters: the client was replaced, or this server knows the input by now. */
const RECENT_S = 30 * 86_400;
const MAX_SHOWN_INPUTS = 3;

/** What clients sent lately that this program does not know. */
function checkClients(db: DbReader, now: number): Check {
  const name = "clients";
  const recent = summarizeUnknownInputs(db).filter(({ last_at }) => last_at >= now - RECENT_S);
  const newer = recent.filter(({ client }) => client !== OTHER_CLIENT);
  if (recent.length === 0) return ok(name, "sent nothing unknown in the last 30 days");
  const inputs = recent.slice(0, MAX_SHOWN_INPUTS).map(describeInput);
  const rest = recent.length - inputs.length;
  const found = `${inputs.join("; ")}${rest > 0 ? `; and ${rest} more` : ""}`;
  if (newer.length === 0) return ok(name, found);
  return warn(
    name,
    found,
    "these releases of the Kosli CLI know more than this program, which ignored the keys and refused the rest: " +
      "look for a newer Assay, and see assay help clients",
  );
}

function describeInput({ client, kind, operation, name, count }: UnknownInputRow): string {
  const times = `${count} ${count === 1 ? "time" : "times"}`;
  if (kind === "key") return `${client} sent the unknown key '${name}' to ${operation} (${times})`;
  const what = kind === "route" ? operation : `the attestation kind '${name}'`;
  return `${client} asked for ${what} (${times})`;
}

/** The delay of a job that deserves attention: retries are up to hours apart. */
const MAX_JOB_DELAY_S = 3_600;

function checkJobs(db: DbReader, { isServed, now }: { isServed: boolean; now: number }): Check {
  const name = "jobs";
  const { jobs, due } = db
    .prepare<[], { jobs: number; due: number | null }>("SELECT count(*) AS jobs, min(due_at) AS due FROM jobs")
    .get() ?? { jobs: 0, due: null };
  const delay = due === null ? 0 : now - due;
  if (delay > MAX_JOB_DELAY_S)
    return warn(
      name,
      `${jobs} waiting, the oldest is overdue by ${ageText(delay)}`,
      isServed ? "see the log of the server for what fails" : "the server runs them once it is started",
    );
  return ok(name, jobs === 0 ? "none waiting" : `${jobs} waiting`);
}
