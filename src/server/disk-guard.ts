/**
 * Whether there is room for writes. Below a reserve of free space, and after a write that the machine failed (a full
 * disk, a quota, an I/O error, a file system that became read-only), the server takes no changes: each is refused with
 * 507 and the reason before its body is read, and reads go on. It looks again every few seconds and takes changes as
 * soon as there is room, or as soon as a write on trial is durable.
 *
 * What is refused this way has left nothing behind: the check comes first, and what fails later is undone by who does
 * it (writer.ts, vault.ts).
 */
import { constants } from "node:fs";
import { open, unlink } from "node:fs/promises";
import { join } from "node:path";
import { MB } from "../domain/text/units.ts";
import { AppError, readOnly, unavailable } from "../errors.ts";
import type { Logger } from "../log.ts";
import { isStorageFailure } from "../store/db/group-commit.ts";

export type DiskGuard = {
  /** Why no change is taken, as the end of a sentence; null while they are taken. */
  readOnlyReason(): string | null;
  /** @throws AppError no_space (507) while no change is taken, and for `bytes` that would not leave the reserve. */
  ensureWritable(bytes?: number): void;
  /** To be told what a write failed with. Anything but trouble of the storage is passed over. */
  reportFailure(error: unknown): void;
  /** Measures, tries and decides anew. Never rejects. */
  check(): Promise<void>;
};

/**
 * What has to be free beyond the reserve before changes are taken again, as a part of it: no coming and going at the
 * edge.
 */
const MARGIN = 0.1;

/**
 * Codes that tell of the storage and not of a mistake: no room, no quota, the device, the mount, rights. What a device
 * cannot read SQLite calls corrupt.
 */
const NO_ROOM = new Set(["ENOSPC", "EDQUOT", "SQLITE_FULL"]);
const TROUBLE = new Set([
  "EIO",
  "EROFS",
  "EACCES",
  "EPERM",
  "ENODEV",
  "ESTALE",
  "ENXIO",
  "SQLITE_CORRUPT",
  "SQLITE_NOTADB",
]);

/**
 * @param parts `reserve` in bytes; `free` measures the free space of the data directory in bytes; `tryOut` makes a
 * small durable write and rejects where that
 *   fails. `reopened` is called when changes are taken again.
 */
export function createDiskGuard(parts: {
  reserve: number;
  free(): Promise<number>;
  probeWrite(): Promise<void>;
  logger: Logger;
  reopened(): void;
}): DiskGuard {
  const { reserve, logger } = parts;
  let left = Infinity;
  let low = false;
  let failure: string | null = null;
  let told: string | null = null;

  const readOnlyReason = (): string | null =>
    failure ??
    (low
      ? `the disk of the data directory has ${megabytes(left)} MB left, and below ${megabytes(reserve)} MB (disk-reserve) only reads are served`
      : null);

  /** One line when it begins, and one when it is over. */
  function tell(): void {
    const now = readOnlyReason();
    if (now !== null && told === null)
      logger.error({ reason: now, free_bytes: finite(left), reserve_bytes: reserve }, "taking no changes, only reads");
    if (now === null && told !== null) {
      logger.info({ free_bytes: finite(left), reserve_bytes: reserve }, "taking changes again");
      told = null;
      parts.reopened();
    }
    told = now;
  }

  return {
    readOnlyReason: readOnlyReason,

    ensureWritable(bytes = 0) {
      const now = readOnlyReason();
      if (now !== null) throw readOnly(now);
      if (bytes > left - reserve)
        throw readOnly(
          `the disk of the data directory has no room for ${megabytes(bytes)} MB beside its reserve of ${megabytes(reserve)} MB`,
        );
    },

    reportFailure(error) {
      const code = codeOf(error);
      if (code === null) return;
      failure = `the last write failed (${code}), and the next one is tried in a few seconds`;
      tell();
    },

    async check() {
      try {
        left = await parts.free();
        low = left < (low ? reserve * (1 + MARGIN) : reserve);
      } catch (error) {
        // Without a figure nothing is known of room; whether writes arrive is then for the writes to tell.
        logger.warn({ err: error }, "the free space of the data directory cannot be measured");
      }
      if (failure !== null && !low) {
        try {
          await parts.probeWrite();
          failure = null;
        } catch (error) {
          failure = `a write on trial failed (${codeOf(error) ?? "unknown"}), and the next one follows in a few seconds`;
        }
      }
      tell();
    },
  };
}

/**
 * What callers are told of an error of the storage that nobody below knew to be one: 507 where room is missing, 503 for
 * the device and for what may pass. Every other error stays as it is.
 */
export function translateStorageError(error: unknown): unknown {
  if (error instanceof AppError) return error;
  const code = codeOf(error);
  if (code === null) return error;
  if (NO_ROOM.has(code))
    return new AppError(
      "no_space",
      readOnly(`there is no room left on the disk of the data directory (${code})`).message,
      { internal: error, headers: { "Retry-After": "60" } },
    );
  return unavailable(
    `The server's storage failed (${code}). Nothing was changed. Please try again; the operator finds more with assay verify`,
    5,
    error,
  );
}

/**
 * The code of an error that comes from the storage, also as the cause that an AppError keeps for the log; null for any
 * other.
 */
function codeOf(error: unknown): string | null {
  const cause = error instanceof AppError ? error.internal : error;
  const { code } = (cause ?? {}) as { code?: unknown };
  if (typeof code !== "string") return null;
  // Busy is a neighbour that writes, and no memory is no fault of the disk.
  const ofDatabase = isStorageFailure(cause) && !/^SQLITE_(BUSY|NOMEM)/.test(code);
  return ofDatabase || NO_ROOM.has(code) || TROUBLE.has(code) ? code : null;
}

/**
 * Writes a file of a few blocks durably and removes it. @throws the system's error; the file may stay then, and the
 * next trial takes it.
 */
export async function probeWrite(directory: string): Promise<void> {
  const path = join(directory, "trial");
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC, 0o600);
  try {
    await file.write(Buffer.alloc(TRIAL_BYTES, 1));
    await file.sync();
  } finally {
    await file.close();
  }
  await unlink(path);
}

const TRIAL_BYTES = 65_536;

const megabytes = (bytes: number): number => Math.floor(bytes / MB);
const finite = (bytes: number): number | null => (Number.isFinite(bytes) ? bytes : null);
