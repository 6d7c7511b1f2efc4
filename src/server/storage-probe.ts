/**
 * Checks that the disk of the data directory can be read, for readiness probes. A query over cached pages says nothing
 * about the disk, so this reads the database file itself, bypassing the page cache where the file system allows it
 * (O_DIRECT).
 *
 * The descriptors of the database file stay open until `close`: closing any of them drops the POSIX locks that SQLite
 * holds on the file in this process, and another process could then remove the write-ahead log. So call `close` only
 * after the database was closed.
 */
import { closeSync, constants, fstat, open, openSync, read, readSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

export type StorageProbe = {
  /**
   * Reads two pages of the database and the end of its write-ahead log, at most once a second for all callers. While
   * that takes longer than a quarter of a second, and less than two, a disk that was good still is. Never rejects.
   * @returns why the storage cannot be read, as the end of a sentence; null when it can
   */
  check(): Promise<string | null>;
  close(): void;
};

const PAGE_BYTES = 4_096;
/** malloc aligns to this; O_DIRECT needs memory aligned to a page. */
const ALIGNMENT_BYTES = 16;
/** How long a result is reused: the disk is read once a second, however many probes arrive. */
const RESULT_MAX_AGE_MS = 1_000;
/** Orchestrators wait between one and ten seconds for a probe. */
const PROBE_TIMEOUT_MS = 2_000;
/** A disk that is busy takes a second for the few reads: so long, the latest result answers, if it was good. */
const PATIENCE_MS = 250;

const [openFile, readBytes, statFile] = [promisify(open), promisify(read), promisify(fstat)];

type ReadPage = (
  descriptor: number,
  buffer: Buffer,
  offset: number,
  length: number,
  position: number,
) => Promise<unknown>;
type Source = { descriptor: number; buffer: Buffer };

/**
 * Opens the database file of a data directory, which must exist.
 * @param options.milliseconds a monotonic clock
 * @param options.random returns a number from 0 to 1
 * @param options.readPage how a page of the database is read; as `read` of node:fs unless given
 * @throws the system's error
 */
export function openStorageProbe(
  directory: string,
  {
    milliseconds,
    random,
    readPage = readBytes,
  }: { milliseconds: () => number; random: () => number; readPage?: ReadPage },
): StorageProbe {
  const file = join(directory, "assay.db");
  const descriptors: number[] = [];
  const { descriptor, buffer } = openSource(file, descriptors);
  let closed = false;
  let result: { reason: string | null; at: number } | null = null;
  let inFlight: { answer: Promise<string | null>; since: number } | null = null;

  async function readPages(): Promise<void> {
    const { size } = await statFile(descriptor);
    const pages = Math.max(1, Math.floor(size / PAGE_BYTES));
    // The first page and a random one: the device would cache a page that is read every second.
    for (const page of [0, Math.floor(random() * pages)]) {
      await readPage(descriptor, buffer, 0, PAGE_BYTES, page * PAGE_BYTES);
    }
  }

  /**
   * SQLite holds no locks on the log, so it may be opened and closed freely. It does not exist before the first write.
   */
  async function readWal(): Promise<void> {
    let log: number;
    try {
      log = await openFile(`${file}-wal`, "r");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
      throw error;
    }
    try {
      const { size } = await statFile(log);
      await readBytes(log, Buffer.alloc(PAGE_BYTES), 0, PAGE_BYTES, Math.max(0, size - PAGE_BYTES));
    } finally {
      closeSync(log);
    }
  }

  async function probe(): Promise<string | null> {
    try {
      await readPages();
      await readWal();
      return null;
    } catch (error) {
      return `the database cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`;
    }
  }

  function startProbe(since: number): { answer: Promise<string | null>; since: number } {
    const answer = probe().then((reason) => {
      result = { reason, at: milliseconds() };
      inFlight = null;
      return reason;
    });
    return (inFlight = { answer, since });
  }

  return {
    async check() {
      const now = milliseconds();
      if (closed) return "the server is stopping";
      if (inFlight === null && result !== null && now - result.at < RESULT_MAX_AGE_MS) return result.reason;
      const { answer, since } = inFlight ?? startProbe(now);
      const isLate = after(since + PROBE_TIMEOUT_MS - now, LATE);
      return Promise.race([answer, isLate, ...(result?.reason === null ? [after(PATIENCE_MS, null)] : [])]);
    },
    close() {
      closed = true;
      // Closing would wait for a read that hangs; the end of the process closes the file too.
      if (inFlight === null) for (const one of descriptors) closeSync(one);
    },
  };
}

const LATE = `the disk did not answer for ${PROBE_TIMEOUT_MS / 1_000} seconds`;

/** Resolves after so many milliseconds, at once if there are none. Does not keep the process alive. */
const after = <T>(milliseconds: number, value: T): Promise<T> =>
  new Promise((resolve) => void setTimeout(resolve, Math.max(0, milliseconds), value).unref());

/** Opens the file bypassing the page cache where the file system supports it. Adds its descriptors to `descriptors`. */
function openSource(file: string, descriptors: number[]): Source {
  const direct = openDirect(file, descriptors);
  if (direct !== null) return direct;
  const descriptor = openSync(file, constants.O_RDONLY);
  descriptors.push(descriptor);
  return { descriptor, buffer: Buffer.alloc(PAGE_BYTES) };
}

function openDirect(file: string, descriptors: number[]): Source | null {
  let descriptor: number;
  try {
    descriptor = openSync(file, constants.O_RDONLY | constants.O_DIRECT);
  } catch {
    return null;
  }
  descriptors.push(descriptor);
  // The address of a buffer is not known here, but a misaligned one is refused (EINVAL): try until one is accepted.
  const memory = Buffer.allocUnsafeSlow(2 * PAGE_BYTES);
  for (let start = 0; start < PAGE_BYTES; start += ALIGNMENT_BYTES) {
    const buffer = memory.subarray(start, start + PAGE_BYTES);
    try {
      readSync(descriptor, buffer, 0, PAGE_BYTES, 0);
      return { descriptor, buffer };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EINVAL") return null;
    }
  }
  return null;
}
