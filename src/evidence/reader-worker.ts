// The thread that reads evidence for downloads. One thread serves all streams: each credit a stream sends lets exactly
// one chunk be read, so memory stays the same whatever the size of the file and the speed of the client, and streams
// take turns by the order of their messages.
//
// Reads are synchronous on purpose. The thread has nothing else to do, and asynchronous ones would wait in the thread
// pool of the process behind the syncs of the vault.
//
// A stream of a whole file is checked against its digest before its last chunk is handed over: a client never has all
// bytes of a damaged file, also when it knows their number from Content-Length and does not wait for the end.
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { evidencePath } from "./layout.ts";
import type { StreamReport, StreamOrder } from "../workers/byte-streams.ts";

/** What the thread is started with: the evidence root. */
export type ReaderWorkerData = { root: string };

/**
 * Offsets in bytes, `end` inclusive, null for the end of the file; `size` is what the file must have, null when it is
 * not known.
 */
export type ReadRequest = { digest: string; start: number; end: number | null; size: number | null };

/** `text` says what is wrong; `code` is the errno name where the operating system refused. */
export type ReadFailure = { kind: "missing" | "damaged" | "range" | "io"; text: string; code: string | null };

/** Bytes per chunk. Measured with 1 GB: half of it is a tenth slower, twice as much only needs more memory. */
const CHUNK_BYTES = 128 * 1024;

type OpenRead = {
  readonly id: number;
  readonly digest: string;
  readonly fd: number;
  /** Present when the whole file is read. */
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
const readings = new Map<number, OpenRead>();

port.on("message", (order: StreamOrder<ReadRequest>) => {
  try {
    if (order.type === "open") {
      const reading = open(order.id, order.request);
      readings.set(order.id, reading);
      send({ type: "opened", id: order.id });
      for (let credit = 0; credit < order.credits && readings.has(order.id); credit += 1) sendChunk(reading);
    } else {
      // Orders for a stream that ended while they were under way are of no interest.
      const reading = readings.get(order.id);
      if (reading !== undefined && order.type === "more") sendChunk(reading);
      else if (reading !== undefined) finish(reading);
    }
  } catch (error) {
    const reading = readings.get(order.id);
    if (reading !== undefined) finish(reading);
    send({ type: "failed", id: order.id, reason: failure(error) });
  }
});

function send(news: StreamReport<ReadFailure>): void {
  port?.postMessage(news, news.type === "chunk" ? [news.bytes.buffer] : []);
}

function open(id: number, { digest, start, end: lastByte, size: expected }: ReadRequest): OpenRead {
  const fd = openSync(evidencePath(root, digest), "r");
  try {
    const { size } = fstatSync(fd);
    if (expected !== null && size !== expected) {
      throw new ReadError("damaged", `it has ${size} bytes instead of ${expected}`);
    }
    const end = lastByte === null ? size : lastByte + 1;
    if (start > end || end > size) {
      throw new ReadError("range", `bytes ${start} to ${end - 1} are not within a file of ${size} bytes`);
    }
    const whole = start === 0 && end === size;
    return { id, digest, fd, hash: whole ? createHash("sha256") : null, position: start, end };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function sendChunk(reading: OpenRead): void {
  const bytes = new Uint8Array(Math.min(CHUNK_BYTES, reading.end - reading.position));
  for (let filled = 0; filled < bytes.length; ) {
    const read = readSync(reading.fd, bytes, filled, bytes.length - filled, reading.position + filled);
    if (read === 0) throw new ReadError("damaged", `it ends after ${reading.position + filled} bytes`);
    filled += read;
  }
  reading.position += bytes.length;
  reading.hash?.update(bytes);
  const last = reading.position === reading.end;
  if (last) {
    const actual = reading.hash?.digest("hex") ?? reading.digest;
    if (actual !== reading.digest) throw new ReadError("damaged", `its content has the digest ${actual}`);
    finish(reading);
  }
  send({ type: "chunk", id: reading.id, bytes, last });
}

function finish(reading: OpenRead): void {
  readings.delete(reading.id);
  closeSync(reading.fd);
}

function failure(error: unknown): ReadFailure {
  if (error instanceof ReadError) return { kind: error.kind, text: error.message, code: null };
  const text = error instanceof Error ? error.message : String(error);
  const code = (error as NodeJS.ErrnoException).code ?? null;
  return { kind: code === "ENOENT" ? "missing" : "io", text, code };
}
