/**
 * A temporary file without a name, for what may be larger than memory allows: it is unlinked as soon as it is open, so
 * nothing stays behind however the process ends.
 */
import { closeSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";

export type Spool = {
  /** Bytes written so far. */
  readonly size: number;
  write(bytes: Uint8Array): void;
  /** The bytes from `start` to `end` (exclusive), in blocks. Requesting the next block overwrites the previous one. */
  read(start: number, end: number): Generator<Uint8Array, void, undefined>;
  close(): void;
};

/** Bytes per write and read. */
const BLOCK_BYTES = 128 * 1024;

/** @param path a file that does not exist yet, in a writable directory */
export function openSpool(path: string): Spool {
  const fd = openSync(path, "wx+", 0o600);
  try {
    unlinkSync(path);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  const buffer = new Uint8Array(BLOCK_BYTES);
  let [written, buffered] = [0, 0];

  function flush(): void {
    for (let done = 0; done < buffered; ) done += writeSync(fd, buffer, done, buffered - done, written + done);
    written += buffered;
    buffered = 0;
  }

  return {
    get size() {
      return written + buffered;
    },
    write(bytes) {
      for (let consumed = 0; consumed < bytes.length; ) {
        const part = bytes.subarray(consumed, consumed + BLOCK_BYTES - buffered);
        buffer.set(part, buffered);
        buffered += part.length;
        consumed += part.length;
        if (buffered === BLOCK_BYTES) flush();
      }
    },
    *read(start, end) {
      flush();
      yield* readBlocks(fd, start, end);
    },
    close: () => closeSync(fd),
  };
}

/**
 * The bytes of an open file from `start` to `end` (exclusive), in one reused block. @throws Error when it is shorter
 */
export function* readBlocks(fd: number, start: number, end: number): Generator<Uint8Array, void, undefined> {
  const block = new Uint8Array(Math.min(BLOCK_BYTES, end - start));
  for (let position = start; position < end; ) {
    const count = readSync(fd, block, 0, Math.min(block.length, end - position), position);
    if (count === 0) throw new Error(`the file ends after ${position} bytes`);
    position += count;
    yield block.subarray(0, count);
  }
}
