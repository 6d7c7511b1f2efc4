/**
 * The database: its version and its shape from the file alone, and what waits in it, where it can be opened without
 * changing anything.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { ClockRecord } from "../../domain/clock.ts";
import { clockStore } from "../../store/db/clock.ts";
import { findRequiredLocation } from "../../store/flows/evidence-location.ts";
import { APPLICATION_ID, readFileHeader, schemaVersion } from "../../store/db/database.ts";
import type { FileHeader } from "../../store/db/database.ts";
import type { Check, Machine } from "./check.ts";
import { fail, ok, fileSizeText, warn } from "./check.ts";
import { ageText } from "./directory.ts";
import type { Db } from "../../store/db/types.ts";

/** `newer`: written by a program that comes after this one. `usable`: what it holds can be asked for. */
export type DatabaseState = { header: FileHeader | null; newer: boolean; usable: boolean };

export function checkDatabase(
  directory: string,
  { fileSystemSpace: space }: Pick<Machine, "fileSystemSpace">,
): { check: Check; state: DatabaseState } {
  const name = "database";
  const file = join(directory, "assay.db");
  const known = schemaVersion();
  const none: DatabaseState = { header: null, newer: false, usable: false };
  let header: FileHeader | null;
  try {
    header = readFileHeader(file);
  } catch (error) {
    return {
      check: fail(
        name,
        error instanceof Error ? error.message : String(error),
        "restore the latest backup: see assay help verify",
      ),
      state: none,
    };
  }
  if (!header)
    return {
      check: warn(name, "is empty: the process that began it died at once", "assay serve begins it anew"),
      state: none,
    };
  const { schemaVersion: version, applicationId } = header;
  const bytes = header.pages * header.pageSize;
  const size = fileSizeText(bytes);
  const newer = version > known;
  const state = { header, newer, usable: version === known && applicationId === APPLICATION_ID };
  if (applicationId !== APPLICATION_ID)
    return { check: fail(name, `${file} is no database of Assay`, "give --data the right directory"), state };
  if (newer)
    return {
      check: fail(
        name,
        `schema ${version}, and this program knows versions up to ${known}`,
        "start the program that wrote it, or restore the copy from before the upgrade: see assay help upgrade",
      ),
      state,
    };
  const free = space(directory)?.free ?? Infinity;
  if (version < known && free < bytes)
    return {
      check: fail(
        name,
        `schema ${version} of ${known}; the next start copies it first, which takes ${size}, and ${fileSizeText(free)} are free`,
        "make room before the server is started",
      ),
      state,
    };
  if (version < known)
    return {
      check: warn(
        name,
        `schema ${version} of ${known}, ${size}`,
        "the next start brings it up to date, after a copy of the same size was made: see assay help upgrade",
      ),
      state,
    };
  return { check: ok(name, `schema ${version}, ${size}`), state };
}

/** A log of this size says that something keeps it from starting anew. */
const LARGE_WAL_BYTES = 256 * 1024 * 1024;

/** @param external whether somebody else empties the log (--checkpoints external) */
export function checkWal(directory: string, served: boolean, external: boolean): Check {
  const name = "write-ahead log";
  const size = statSync(join(directory, "assay.db-wal"), { throwIfNoEntry: false })?.size ?? 0;
  const told = fileSizeText(size);
  if (size > LARGE_WAL_BYTES) {
    return external
      ? warn(
          name,
          `${told}, and --checkpoints external leaves it to somebody else to empty it`,
          "see whether the replication beside the server still runs",
        )
      : warn(
          name,
          told,
          "a long read or a stopped process with the database open keeps it from starting anew: see assay help troubleshooting",
        );
  }
  if (size > 0 && !served)
    return warn(
      name,
      `${told}, and no server runs: the last one did not stop in order`,
      "nothing is lost: the next start takes it over",
    );
  return ok(name, size === 0 ? "empty" : told);
}

/** From a quarter of the file, and 64 MB, on. */
export function checkFreePages({ pages, freePages, pageSize, autoVacuum }: FileHeader): Check {
  const name = "free pages";
  const told = `${fileSizeText(freePages * pageSize)} of ${fileSizeText(pages * pageSize)} (auto_vacuum ${autoVacuum})`;
  const many = freePages * pageSize > 64 * 1024 * 1024 && freePages > pages / 4;
  return many
    ? warn(
        name,
        told,
        "the next records go there; to give the space back to the disk, stop the server and make the file anew: see assay help troubleshooting",
      )
    : ok(name, told);
}

export type DatabaseContents = {
  /** Bytes of evidence that rows name, each file once. */
  evidence: number;
  /** Where the database records that it is kept; null while rows name none. */
  place: string | null;
  /** Time of the latest change; null when there is none. Epoch seconds. */
  newest: number | null;
  /** What the database knows of the clock; null: nothing yet. */
  clock: ClockRecord | null;
  /** By how much the latest changes go back in time at most, in seconds. */
  backwards: number;
  checks: Check[];
};

/** How long a job may wait before somebody should look, in seconds: retries are hours apart. */
const MAX_JOB_DELAY_S = 3_600;

/** The doctor only reads. */
const NO_QUEUES = { jobs: { pullForward: () => undefined }, deliveries: { pullForward: () => undefined } };

/** What is asked of rows: a few short reads. */
export function checkContents(db: Db, served: boolean, { now }: Pick<Machine, "now">): DatabaseContents {
  const one = <T>(sql: string): T => db.prepare<[], T>(sql).get() as T;
  const { waiting, dead } = one<{ waiting: number; dead: number }>(
    "SELECT (SELECT count(*) FROM deliveries WHERE state = 'waiting') AS waiting, (SELECT count(*) FROM deliveries WHERE state = 'dead') AS dead",
  );
  const deliveries =
    dead > 0
      ? warn(
          "deliveries",
          `${waiting} waiting, ${dead} dead: these are not sent any more`,
          "assay deliveries list tells why; assay deliveries retry has them tried again, assay deliveries purge deletes them",
        )
      : ok("deliveries", `${waiting} waiting, none dead`);
  const at = now();
  const { jobs, due } = one<{ jobs: number; due: number | null }>(
    "SELECT count(*) AS jobs, min(due_at) AS due FROM jobs",
  );
  const late = due === null ? 0 : at - due;
  const jobCheck =
    late > MAX_JOB_DELAY_S
      ? warn(
          "jobs",
          `${jobs} waiting, the oldest ${ageText(late)} beyond its time`,
          served ? "the log of the server tells what fails" : "the server does them when it runs",
        )
      : ok("jobs", jobs === 0 ? "none waiting" : `${jobs} waiting`);
  // No row before the first file.
  const totals = db.prepare<[], { bytes: number }>("SELECT bytes FROM evidence_totals").get();
  const latest = one<{ newest: number | null; backwards: number | null }>(
    `SELECT (SELECT timestamp FROM audit_log ORDER BY id DESC LIMIT 1) AS newest, max(before - timestamp) AS backwards FROM (
       SELECT timestamp, lag(timestamp) OVER (ORDER BY id) AS before FROM (SELECT id, timestamp FROM audit_log ORDER BY id DESC LIMIT 1000))`,
  );
  const clock = clockStore(db, NO_QUEUES).read();
  return {
    evidence: totals?.bytes ?? 0,
    place: findRequiredLocation(db),
    newest: latest.newest,
    clock,
    backwards: latest.backwards ?? 0,
    checks: [deliveries, jobCheck],
  };
}
