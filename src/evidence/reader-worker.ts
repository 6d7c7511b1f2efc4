// The thread that reads evidence for downloads. One thread serves all streams: each credit that a stream grants lets
// the thread read exactly one chunk, so memory does not depend on the size of the file or the speed of the client, and
// streams are served in the order of their messages.
//
// Reads are synchronous on purpose. The thread has no other work, and asynchronous reads would queue in the process's
// thread pool behind the syncs of the evidence store.
//
// A stream of a whole file is checked against its digest before its last chunk is sent: no client ever receives all
// bytes of a damaged file, even if it knows their number from Content-Length and does not wait for the end. Before a
// range of a small file is sent, the whole file is checked.
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { Stats } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { createLru } from "../domain/lru.ts";
import { MAX_CHECKED_RANGE_BYTES } from "./byte-range.ts";
import { evidencePath } from "./layout.ts";
import type { StreamReport, StreamOrder } from "../workers/byte-streams.ts";

/** The worker data: `root` is the evidence root. */
export type ReaderWorkerData = { root: string };

/**
 * `start` and `end` (inclusive, null: the end of the file) are byte offsets; `size` is the required size of the file in
 * bytes, null when it is unknown.
 */
export type ReadRequest = { digest: string; start: number; end: number | null; size: number | null };

/** `text` describes the failure; `code` is the errno name of a system error. */
export type ReadFailure = { kind: "missing" | "damaged" | "range" | "io"; text: string; code: string | null };

/** Measured with 1 GB: half of this size is 10 % slower, twice this size only needs more memory. */
const CHUNK_BYTES = 128 * 1024;

type OpenRead = {
  readonly id: number;
  readonly digest: string;
  readonly fd: number;
  /** Null when only a range is read. */
  readonly hash: ReturnType<typeof createHash> | null;
  position: number;
  /** Exclusive. */
  readonly end: number;
};

class ReadError extends Error {
  readonly kind: ReadFailure["kind"];

  constructor(kind: ReadFailure["kind"], text: string) {
    super(text);
    this.kind = kind;
  }
}

const port = parentPort;
if (port === null) throw new Error("this file runs as a worker thread only");
const { root } = workerData as ReaderWorkerData;
const openReads = new Map<number, OpenRead>();

/** Digest -> the identity of the file whose content was compared, see `checkContent`. */
const compared = createLru<string, string>({ maxEntries: 10_000 });

port.on("message", (message: StreamOrder<ReadRequest>) => {
  try {
    if (message.type === "open") {
      const read = open(message.id, message.request);
      openReads.set(message.id, read);
      send({ type: "opened", id: message.id });
      for (let credit = 0; credit < message.credits && openReads.has(message.id); credit += 1) sendChunk(read);
    } else {
      // Messages that arrive after the stream ended are ignored.
      const read = openReads.get(message.id);
      if (read !== undefined && message.type === "more") sendChunk(read);
      else if (read !== undefined) finish(read);
    }
  } catch (error) {
    const read = openReads.get(message.id);
    if (read !== undefined) finish(read);
    send({ type: "failed", id: message.id, reason: toFailure(error) });
  }
});

function send(news: StreamReport<ReadFailure>): void {
  port?.postMessage(news, news.type === "chunk" ? [news.bytes.buffer] : []);
}

function open(id: number, { digest, start, end: lastByte, size: expected }: ReadRequest): OpenRead {
  const fd = openSync(evidencePath(root, digest), "r");
  try {
    const stats = fstatSync(fd);
    const { size } = stats;
    if (expected !== null && size !== expected) {
      throw new ReadError("damaged", `it has ${size} bytes instead of ${expected}`);
    }
    const end = lastByte === null ? size : lastByte + 1;
    if (start > end || end > size) {
      throw new ReadError("range", `bytes ${start} to ${end - 1} are not within a file of ${size} bytes`);
    }
    const whole = start === 0 && end === size;
    if (!whole && size <= MAX_CHECKED_RANGE_BYTES) checkContent(fd, digest, stats);
    return { id, digest, fd, hash: whole ? createHash("sha256") : null, position: start, end };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Compares a file with its digest, once while it stays the same. @throws ReadError */
function checkContent(fd: number, digest: string, { dev, ino, size, mtimeMs, ctimeMs }: Stats): void {
  const identity = `${dev} ${ino} ${size} ${mtimeMs} ${ctimeMs}`;
  if (compared.get(digest) === identity) return;
  const content = createHash("sha256");
  const block = new Uint8Array(CHUNK_BYTES);
  for (let at = 0; at < size; ) {
    const count = readSync(fd, block, 0, block.length, at);
    if (count === 0) throw new ReadError("damaged", `it ends after ${at} bytes`);
    content.update(block.subarray(0, count));
    at += count;
  }
  const actual = content.digest("hex");
  if (actual !== digest) throw new ReadError("damaged", `its content has the digest ${actual}`);
  compared.set(digest, identity);
}

function sendChunk(read: OpenRead): void {
  const bytes = new Uint8Array(Math.min(CHUNK_BYTES, read.end - read.position));
  for (let filled = 0; filled < bytes.length; ) {
    const count = readSync(read.fd, bytes, filled, bytes.length - filled, read.position + filled);
    if (count === 0) throw new ReadError("damaged", `it ends after ${read.position + filled} bytes`);
    filled += count;
  }
  read.position += bytes.length;
  read.hash?.update(bytes);
  const last = read.position === read.end;
  if (last) {
    const actual = read.hash?.digest("hex") ?? read.digest;
    if (actual !== read.digest) throw new ReadError("damaged", `its content has the digest ${actual}`);
    finish(read);
  }
  send({ type: "chunk", id: read.id, bytes, last });
}

function finish(read: OpenRead): void {
  openReads.delete(read.id);
  closeSync(read.fd);
}

function toFailure(error: unknown): ReadFailure {
  if (error instanceof ReadError) return { kind: error.kind, text: error.message, code: null };
  const text = error instanceof Error ? error.message : String(error);
  const code = (error as NodeJS.ErrnoException).code ?? null;
  return { kind: code === "ENOENT" ? "missing" : "io", text, code };
}
