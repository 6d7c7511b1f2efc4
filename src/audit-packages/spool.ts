/**
 * A file that only this process sees: it loses its name as soon as it has one, so that nothing stays behind, however
 * the process ends. What a package holds beside evidence is written here, within one read transaction, and leaves for
 * the client at the client's pace; and the list of all that is in the package, which may be longer than memory should
 * be.
 */
import { closeSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";

export type Spool = {
  /** Bytes written so far. */
  readonly size: number;
  write(bytes: Uint8Array): void;
  /** The bytes from `start` to `end` (exclusive), in blocks. A block is overwritten when the next one is asked for. */
  read(start: number, end: number): Generator<Uint8Array, void, undefined>;
  close(): void;
};

/** Bytes that are written, and read, at once. */
const BLOCK = 128 * 1024;

/** @param path of a file that does not exist, in a directory that may be written to */
export function openSpool(path: string): Spool {
  const fd = openSync(path, "wx+", 0o600);
  try {
    unlinkSync(path);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  const waiting = new Uint8Array(BLOCK);
  let [written, filled] = [0, 0];

  function flush(): void {
    for (let done = 0; done < filled; ) done += writeSync(fd, waiting, done, filled - done, written + done);
    written += filled;
    filled = 0;
  }

  return {
    get size() {
      return written + filled;
    },
    write(bytes) {
      for (let taken = 0; taken < bytes.length; ) {
        const part = bytes.subarray(taken, taken + BLOCK - filled);
        waiting.set(part, filled);
        filled += part.length;
        taken += part.length;
        if (filled === BLOCK) flush();
      }
    },
    *read(start, end) {
      flush();
      yield* readBlocks(fd, start, end);
    },
    close: () => closeSync(fd),
  };
}

/** The bytes of an open file from `start` to `end`. @throws Error when it is shorter. */
export function* readBlocks(fd: number, start: number, end: number): Generator<Uint8Array, void, undefined> {
  const block = new Uint8Array(Math.min(BLOCK, end - start));
  for (let position = start; position < end; ) {
    const read = readSync(fd, block, 0, Math.min(block.length, end - position), position);
    if (read === 0) throw new Error(`the file ends after ${position} bytes`);
    position += read;
    yield block.subarray(0, read);
  }
}
