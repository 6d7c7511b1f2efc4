// The thread that makes audit packages. It reads the database on a connection of its own, writes what it read to files
// without names, and then makes a chunk for each credit (feeds.ts): memory stays the same whatever a package holds and
// however slow its client is, packages take turns, and compressing takes one core at most.
//
// A package is put together in one go, which holds up the others: a second for ten thousand attestations.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import { urlsFor } from "../contract/urls.ts";
import { DamagedMemberError, evidenceFiles } from "./evidence.ts";
import type { EvidenceFiles } from "./evidence.ts";
import { packageBytes, reportBytes } from "./package.ts";
import type { Bytes, Making } from "./package.ts";
import { renderReport } from "./pdf/render.ts";
import { remoteEvidence, UnreachableEvidenceError } from "./remote-evidence.ts";
import type { PackageSubject } from "../store/flows/audit-packages.ts";
import { openBeside } from "../store/db/database.ts";
import { openStore } from "../store/index.ts";
import type { FeedNews, FeedOrder } from "../workers/byte-streams.ts";
import { countHandedOver } from "../workers/memory-reclaim.ts";

/**
 * What the thread is started with: the data directory, the evidence root, where files may be made, the evidence that is
 * known to be damaged, and through what evidence is asked for that is on storage elsewhere; null: it is below the root.
 */
export type PackageWorkerData = {
  directory: string;
  evidence: string;
  staging: string;
  damaged: ReadonlyMap<string, string>;
  remote: MessagePort | null;
};

/** What is asked for; `baseUrl` is the public address of the server. */
export type PackageRequest = {
  what: "package" | "report";
  organizationId: number;
  subject: PackageSubject;
  baseUrl: string;
};

/**
 * `damaged`: evidence that turned out to be; `unreachable`: the storage of the evidence gave no answer; `code` is the
 * errno name where the operating system refused.
 */
export type PackageFailure = {
  text: string;
  damaged: { digest: string; signature: string } | null;
  unreachable: boolean;
  code: string | null;
};

/** Bytes per chunk. */
const CHUNK = 128 * 1024;
/** For each byte of a chunk so many go through buffers that zlib makes; see reclaim.ts. */
const WASTE = 4;
/** Pieces that a chunk takes at most: what compresses well must not keep the thread from the other packages. */
const PIECES = 8;

const port = parentPort;
if (port === null) throw new Error("this file runs as a worker thread only");
const { directory, evidence, staging, damaged, remote } = workerData as PackageWorkerData;
const db = openBeside(directory);
const unused = (): never => {
  throw new Error("packages change nothing");
};
const store = openStore(db, { now: unused, newId: unused });
// Whatever happens in here, nothing is written.
db.pragma("query_only = ON");
const files = evidenceFiles(evidence, new Map(damaged));
const elsewhere =
  remote &&
  remoteEvidence(remote, new Map(damaged), () => {
    for (const [id, sending] of sendings) attempt(id, () => pump(id, sending));
  });

/** An empty chunk: the next bytes are not here yet. */
type Chunks = Generator<Uint8Array<ArrayBuffer>, void, undefined>;
/**
 * `ready` is made already and waits for what follows it, so that the last chunk is known to be the last; `owed`: chunks
 * that may be sent.
 */
type Sending = { bytes: Chunks; ready: Uint8Array<ArrayBuffer>; owed: number };
const sendings = new Map<number, Sending>();
/** Requests whose evidence is being looked at. */
const looking = new Set<number>();

port.on("message", (order: FeedOrder<PackageRequest>) => {
  attempt(order.id, () => {
    if (order.type === "open") {
      if (elsewhere) void openElsewhere(order.id, order.request, order.credits);
      else open(order.id, order.request, order.credits, files);
      return;
    }
    // Orders for a stream that ended while they were under way are of no interest.
    const sending = sendings.get(order.id);
    if (sending !== undefined && order.type === "more") {
      sending.owed += 1;
      pump(order.id, sending);
    } else if (sending !== undefined) finish(order.id, sending);
    else looking.delete(order.id);
  });
});

/** Runs `work` for a stream; what it throws is the end of the stream. */
function attempt(id: number, work: () => void): void {
  try {
    work();
  } catch (error) {
    fail(id, error);
  }
}

function fail(id: number, error: unknown): void {
  const sending = sendings.get(id);
  if (sending !== undefined) finish(id, sending);
  send({ type: "failed", id, reason: failure(error) });
}

function open(id: number, request: PackageRequest, credits: number, from: EvidenceFiles): void {
  const bytes = chunked(made(request, from));
  // At once: from its first step on, a generator can be told to let go of what it holds. No package begins with
  // evidence.
  const ready = nextOf(bytes);
  if (ready === null) throw new Error("the package is empty");
  const sending: Sending = { bytes, ready, owed: credits };
  sendings.set(id, sending);
  send({ type: "opened", id });
  pump(id, sending);
}

/** The same, after a look at all evidence of the package, which takes its time; the others go on meanwhile. */
async function openElsewhere(id: number, request: PackageRequest, credits: number): Promise<void> {
  looking.add(id);
  try {
    const digests = new Set(Array.from(store.auditPackages.evidence(request.subject), ({ digest }) => digest));
    const from = await elsewhere?.look([...digests]);
    if (looking.delete(id) && from) open(id, request, credits, from);
  } catch (error) {
    looking.delete(id);
    fail(id, error);
  }
}

function send(news: FeedNews<PackageFailure>): void {
  port?.postMessage(news, news.type === "chunk" ? [news.bytes.buffer] : []);
}

/** Reads the database, all of it at one moment. */
function made({ what, organizationId, subject, baseUrl }: PackageRequest, from: EvidenceFiles): Bytes {
  db.exec("BEGIN");
  try {
    const showing = { store, urls: urlsFor(baseUrl), organization: store.organizations.get(organizationId) };
    const making: Making = { showing, subject, files: from, render: renderReport };
    return what === "report"
      ? reportBytes(making)
      : packageBytes(making, (name) => join(staging, `package-${randomUUID()}-${name}`));
  } finally {
    if (db.inTransaction) db.exec("COMMIT");
  }
}

/** Sends what may be sent and is here. */
function pump(id: number, sending: Sending): void {
  while (sending.owed > 0 && sendings.has(id)) {
    const following = nextOf(sending.bytes);
    if (following?.length === 0) return;
    const bytes = sending.ready;
    sending.owed -= 1;
    if (following === null) finish(id, sending);
    else sending.ready = following;
    countHandedOver(WASTE * bytes.length);
    send({ type: "chunk", id, bytes, last: following === null });
  }
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
    if (piece.length > 0 && (count < PIECES || filled === 0)) continue;
    // Of an empty piece also when nothing is filled: who asks has to turn to something else.
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
  return {
    text,
    damaged,
    unreachable: error instanceof UnreachableEvidenceError,
    code: (error as NodeJS.ErrnoException).code ?? null,
  };
}
