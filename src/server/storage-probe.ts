/**
 * Asks the disk of the data directory, for probes. A query of a database whose pages are in memory says nothing of the
 * disk, so this reads the file itself: where the file system allows it past the caches of the system too (O_DIRECT).
 *
 * The descriptors of the database stay open until `close`: closing one ends the POSIX locks that SQLite holds on the
 * file in this process, and another process could then take the write-ahead log away. So `close` comes after the
 * database was closed.
 */
import { closeSync, constants, fstat, open, openSync, read, readSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

export type StorageProbe = {
  /**
   * Reads two pages of the database and the end of its log, at most once a second whoever asks. Never rejects.
   * @returns why the storage cannot be read, as the end of a sentence; null: it can.
   */
  check(): Promise<string | null>;
  close(): void;
};

const PAGE_BYTES = 4_096;
/** Malloc aligns to this; O_DIRECT wants memory that is aligned to a page. */
const ALIGNMENT_BYTES = 16;
/** Results hold this long: however many probes there are, the disk is asked once a second. */
const INTERVAL_MS = 1_000;
/** Orchestrators wait for a probe for a second to ten. */
const TIMEOUT_MS = 2_000;

const [openFile, readBytes, statFile] = [promisify(open), promisify(read), promisify(fstat)];

type Source = { descriptor: number; buffer: Buffer };

/**
 * Opens the database file of a data directory, which must be there.
 * @param milliseconds a clock that is never set
 * @param random a number from 0 to 1
 * @throws the system's error.
 */
export function openStorageProbe(directory: string, milliseconds: () => number, random: () => number): StorageProbe {
  const file = join(directory, "assay.db");
  const descriptors: number[] = [];
  const { descriptor, buffer } = openSource(file, descriptors);
  let closed = false;
  let result: { reason: string | null; at: number } | null = null;
  let asking: { answer: Promise<string | null>; since: number } | null = null;

  async function readPages(): Promise<void> {
    const { size } = await statFile(descriptor);
    const pages = Math.max(1, Math.floor(size / PAGE_BYTES));
    // The first page, and any other one: the same page every second would be in a cache of the device.
    for (const page of [0, Math.floor(random() * pages)]) {
      await readBytes(descriptor, buffer, 0, PAGE_BYTES, page * PAGE_BYTES);
    }
  }

  /** SQLite holds no locks on the log, so it may be opened and closed at will. There is none before the first write. */
  async function readLog(): Promise<void> {
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

  async function ask(): Promise<string | null> {
    try {
      await readPages();
      await readLog();
      return null;
    } catch (error) {
      return `the database cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`;
    }
  }

  function begin(since: number): { answer: Promise<string | null>; since: number } {
    const answer = ask().then((reason) => {
      result = { reason, at: milliseconds() };
      asking = null;
      return reason;
    });
    return (asking = { answer, since });
  }

  return {
    async check() {
      const now = milliseconds();
      if (closed) return "the server stops";
      if (asking === null && result !== null && now - result.at < INTERVAL_MS) return result.reason;
      const { answer, since } = asking ?? begin(now);
      return Promise.race([answer, silence(since + TIMEOUT_MS - now)]);
    },
    close() {
      closed = true;
      // A read that hangs would hold up the close for as long; the end of the process closes the file too.
      if (asking === null) for (const one of descriptors) closeSync(one);
    },
  };
}

/** Resolves after so many milliseconds, with what no answer means. Does not keep a process alive. */
const silence = (milliseconds: number): Promise<string> =>
  new Promise((resolve) => {
    setTimeout(resolve, Math.max(0, milliseconds), `the disk gave no answer for ${TIMEOUT_MS / 1_000} seconds`).unref();
  });

/**
 * Opens the file past the caches, where the file system can do that, else as usual. What was opened is put into
 * `descriptors`.
 */
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
  // The address of a buffer is not known here, but wrong ones are refused (EINVAL): so the right place is found by
  // trying.
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
