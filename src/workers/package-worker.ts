// The thread that makes audit packages. It reads the database on a connection of its own, writes what it read to files without
// names, and then makes a chunk for each credit (feeds.ts): memory stays the same whatever a package holds and however slow
// its client is, packages take turns, and compressing takes one core at most.
//
// A package is put together in one go, which holds up the others: a second for ten thousand attestations.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { urlsFor } from "../api/urls.ts";
import { DamagedMemberError, evidenceFiles } from "../packages/evidence.ts";
import { packageBytes, reportBytes } from "../packages/package.ts";
import type { Bytes, Making } from "../packages/package.ts";
import { renderReport } from "../packages/pdf/render.ts";
import type { PackageSubject } from "../store/audit-packages.ts";
import { openBeside } from "../store/database.ts";
import { openStore } from "../store/index.ts";
import type { FeedNews, FeedOrder } from "./feeds.ts";
import { countHandedOver } from "./reclaim.ts";

/** What the thread is started with: the data directory, the evidence root, where files may be made, and the evidence that is known to be damaged. */
export type PackageWorkerData = { directory: string; evidence: string; staging: string; damaged: ReadonlyMap<string, string> };

/** What is asked for; `baseUrl` is the public address of the server. */
export type PackageRequest = { what: "package" | "report"; organizationId: number; subject: PackageSubject; baseUrl: string };

/** `damaged`: evidence that turned out to be; `code` is the errno name where the operating system refused. */
export type PackageFailure = { text: string; damaged: { digest: string; signature: string } | null; code: string | null };

/** Bytes per chunk. */
const CHUNK = 128 * 1024;
/** For each byte of a chunk so many go through buffers that zlib makes; see reclaim.ts. */
const WASTE = 4;
/** Pieces that a chunk takes at most: what compresses well must not keep the thread from the other packages. */
const PIECES = 8;

const port = parentPort;
if (port === null) throw new Error("this file runs as a worker thread only");
const { directory, evidence, staging, damaged } = workerData as PackageWorkerData;
const db = openBeside(directory);
const unused = (): never => {
  throw new Error("packages change nothing");
};
const store = openStore(db, { now: unused, newId: unused });
// Whatever happens in here, nothing is written.
db.pragma("query_only = ON");
const files = evidenceFiles(evidence, new Map(damaged));

type Chunks = Generator<Uint8Array<ArrayBuffer>, void, undefined>;
/** `next` is made already, so that the last chunk is known to be the last. */
type Sending = { bytes: Chunks; next: Uint8Array<ArrayBuffer> | null };
const sendings = new Map<number, Sending>();

port.on("message", (order: FeedOrder<PackageRequest>) => {
  try {
    if (order.type === "open") {
      const bytes = chunked(made(order.request));
      const sending: Sending = { bytes, next: null };
      sendings.set(order.id, sending);
      // At once: from its first step on, a generator can be told to let go of what it holds.
      sending.next = nextOf(bytes);
      send({ type: "opened", id: order.id });
      for (let credit = 0; credit < order.credits && sendings.has(order.id); credit += 1) sendChunk(order.id, sending);
    } else {
      // Orders for a stream that ended while they were under way are of no interest.
      const sending = sendings.get(order.id);
      if (sending !== undefined && order.type === "more") sendChunk(order.id, sending);
      else if (sending !== undefined) finish(order.id, sending);
    }
  } catch (error) {
    const sending = sendings.get(order.id);
    if (sending !== undefined) finish(order.id, sending);
    send({ type: "failed", id: order.id, reason: failure(error) });
  }
});

function send(news: FeedNews<PackageFailure>): void {
  port?.postMessage(news, news.type === "chunk" ? [news.bytes.buffer] : []);
}

/** Reads the database, all of it at one moment. */
function made({ what, organizationId, subject, baseUrl }: PackageRequest): Bytes {
  db.exec("BEGIN");
  try {
    const showing = { store, urls: urlsFor(baseUrl), organization: store.organizations.get(organizationId) };
    const making: Making = { showing, subject, files, render: renderReport };
    return what === "report" ? reportBytes(making) : packageBytes(making, (name) => join(staging, `package-${randomUUID()}-${name}`));
  } finally {
    if (db.inTransaction) db.exec("COMMIT");
  }
}

function sendChunk(id: number, sending: Sending): void {
  const bytes = sending.next;
  if (bytes === null) return;
  sending.next = nextOf(sending.bytes);
  const last = sending.next === null;
  if (last) finish(id, sending);
  countHandedOver(WASTE * bytes.length);
  send({ type: "chunk", id, bytes, last });
}

function finish(id: number, { bytes }: Sending): void {
  sendings.delete(id);
  bytes.return();
}

/** Puts pieces together to chunks, each in memory of its own, which moves to the main thread. */
function* chunked(pieces: Bytes): Chunks {
  let chunk = new Uint8Array(CHUNK);
  let [filled, count] = [0, 0];
  for (const piece of pieces) {
    count += 1;
    for (let taken = 0; taken < piece.length; ) {
      const part = piece.subarray(taken, taken + CHUNK - filled);
      chunk.set(part, filled);
      filled += part.length;
      taken += part.length;
      if (filled < CHUNK) continue;
      yield chunk;
      chunk = new Uint8Array(CHUNK);
      [filled, count] = [0, 0];
    }
    if (count < PIECES || filled === 0) continue;
    yield chunk.slice(0, filled);
    [filled, count] = [0, 0];
  }
  if (filled > 0) yield chunk.slice(0, filled);
}

function nextOf(chunks: Chunks): Uint8Array<ArrayBuffer> | null {
  const { value, done } = chunks.next();
  return done ? null : (value ?? null);
}

function failure(error: unknown): PackageFailure {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const damaged = error instanceof DamagedMemberError ? { digest: error.digest, signature: error.signature } : null;
  return { text, damaged, code: (error as NodeJS.ErrnoException).code ?? null };
}
