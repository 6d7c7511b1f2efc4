/**
 * The thread that makes audit packages. It reads the database on its own connection, spools what it read to unnamed
 * files, and then makes one chunk per credit (workers/byte-streams.ts). Memory stays constant whatever a package holds
 * and however slow its client is, packages take turns, and compression uses one core at most.
 *
 * A package is assembled in one step, which blocks the others: one second for ten thousand attestations.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import { withCompressors } from "../archive/compressors.ts";
import { urlsFor } from "../contract/urls.ts";
import { createDamagedFiles, DamagedMemberError, openLocalEvidence, withSmallEvidence } from "./evidence.ts";
import type { EvidenceFiles } from "./evidence.ts";
import { generateBinderPackage } from "./binder-package.ts";
import { generatePackage, generateReport } from "./package.ts";
import type { ByteGenerator } from "./package.ts";
import { renderReport } from "./pdf/render.ts";
import type { AuditReport } from "./report.ts";
import { createRemoteEvidence, UnreachableEvidenceError } from "./remote-evidence.ts";
import type { PackageSubject } from "../store/environments/audit-packages.ts";
import { openSecondWriter } from "../store/db/connection.ts";
import { openStore } from "../store/index.ts";
import type { StreamReport, StreamOrder } from "../workers/byte-streams.ts";
import { countReleasedBytes, createGarbageCollector } from "../workers/memory-reclaim.ts";

export type PackageWorkerData = {
  /** The data directory. */
  directory: string;
  /** The evidence directory. */
  evidence: string;
  /** A directory for temporary files. */
  staging: string;
  /** Evidence known to be damaged. */
  damaged: readonly (readonly [digest: string, signature: string])[];
  /** Requests evidence on remote storage; null when evidence is in its directory. */
  remote: MessagePort | null;
};

/** A request for a package or its report. `baseUrl`: the public address of the server. */
export type PackageRequest = {
  what: "package" | "report";
  organizationId: number;
  subject: PackageSubject;
  baseUrl: string;
};

export type PackageFailure = {
  text: string;
  /** The file that turned out to be damaged. */
  damaged: { digest: string; signature: string } | null;
  /** Whether the evidence storage did not respond. */
  isUnreachable: boolean;
  /** The errno name of a failed system call. */
  code: string | null;
};

const CHUNK_BYTES = 128 * 1024;
/** Buffers that zlib allocates for each byte of a chunk; see workers/memory-reclaim.ts. */
const GARBAGE_PER_CHUNK_BYTE = 4;
/** Pieces per chunk: well-compressible input must not keep the thread from the other packages. */
const MAX_PIECES_PER_CHUNK = 8;

const port = parentPort;
if (port === null) throw new Error("this file runs as a worker thread only");
const { directory, evidence, staging, damaged: knownDamage, remote } = workerData as PackageWorkerData;
const db = openSecondWriter(directory);
const refuseWrite = (): never => {
  throw new Error("a package does not write to the database");
};
/** Collected when a package is assembled: its memory then counts for others. */
const garbage = createGarbageCollector();
const store = openStore(db, { now: refuseWrite, newId: refuseWrite });
// Whatever the code above this connection does, SQLite refuses to write.
db.pragma("query_only = ON");
const damaged = createDamagedFiles(knownDamage);
/** Content that is in the database: small evidence, and small documents of Rego evaluations. */
const contents = {
  find: (digest: string) => store.smallEvidence.find(digest) ?? store.regoDocuments.findContent(digest),
  sizeOf: (digest: string) => store.smallEvidence.sizeOf(digest) ?? store.regoDocuments.contentSizeOf(digest),
};
const localEvidence = withSmallEvidence(openLocalEvidence(evidence, damaged), contents, damaged);
const remoteEvidence =
  remote &&
  createRemoteEvidence(remote, damaged, () => {
    for (const [id, sending] of sendings) runForStream(id, () => pump(id, sending));
  });

/** An empty chunk means that the next bytes have not arrived yet. */
type Chunks = Generator<Uint8Array<ArrayBuffer>, void, undefined>;
/**
 * A stream in progress. `ready` is made already and waits for its successor, so that the last chunk can be marked as
 * the last one; `credits`: chunks that may be sent.
 */
type Sending = { chunks: Chunks; ready: Uint8Array<ArrayBuffer>; credits: number };
const sendings = new Map<number, Sending>();
/** Requests whose remote evidence is being described. */
const opening = new Set<number>();

port.on("message", (order: StreamOrder<PackageRequest>) => {
  runForStream(order.id, () => {
    if (order.type === "open") {
      if (remoteEvidence) void openWithRemoteEvidence(order.id, order.request, order.credits);
      else open(order, localEvidence);
      return;
    }
    // The stream may have ended while the order was in transit.
    const sending = sendings.get(order.id);
    if (sending !== undefined && order.type === "more") {
      sending.credits += 1;
      pump(order.id, sending);
    } else if (sending !== undefined) finish(order.id, sending);
    else opening.delete(order.id);
  });
});

/** Runs `work` for a stream; an exception ends the stream. */
function runForStream(id: number, work: () => void): void {
  try {
    work();
  } catch (error) {
    fail(id, error);
  }
}

function fail(id: number, error: unknown): void {
  const sending = sendings.get(id);
  if (sending !== undefined) finish(id, sending);
  send({ type: "failed", id, reason: toFailure(error) });
}

type OpenOrder = { id: number; request: PackageRequest; credits: number };

function open({ id, request, credits }: OpenOrder, files: EvidenceFiles): void {
  const chunks = intoChunks(generate(request, files));
  // Makes the first chunk now: only a generator that has started runs its `finally` when it is asked to return. No
  // package begins with evidence, so the first chunk is never empty.
  const ready = nextChunk(chunks);
  if (ready === null) throw new Error("the package is empty");
  const sending: Sending = { chunks, ready, credits };
  sendings.set(id, sending);
  if (garbage.isDue()) garbage.collect();
  send({ type: "opened", id });
  pump(id, sending);
}

/** Opens a package after the metadata of all its evidence arrived; other packages continue meanwhile. */
async function openWithRemoteEvidence(id: number, request: PackageRequest, credits: number): Promise<void> {
  opening.add(id);
  try {
    const digests = new Set<string>();
    for (const { digest } of store.auditPackages.listEvidence(request.subject))
      if (contents.sizeOf(digest) === null) digests.add(digest);
    const files = await remoteEvidence?.open([...digests]);
    if (opening.delete(id) && files) open({ id, request, credits }, withSmallEvidence(files, contents, damaged));
  } catch (error) {
    opening.delete(id);
    fail(id, error);
  }
}

function send(message: StreamReport<PackageFailure>): void {
  port?.postMessage(message, message.type === "chunk" ? [message.bytes.buffer] : []);
}

/** Reads the database in one transaction and returns the bytes to send. */
function generate({ what, organizationId, subject, baseUrl }: PackageRequest, files: EvidenceFiles): ByteGenerator {
  db.exec("BEGIN");
  try {
    const context = { store, urls: urlsFor(baseUrl), organization: store.organizations.get(organizationId) };
    const pathFor = (name: string): string => join(staging, `package-${randomUUID()}-${name}`);
    if (subject.kind === "binder") return generateBinderPackage({ context, subject, files }, pathFor);
    const input = { context, subject, files, render: renderInOneGo };
    return what === "report" ? generateReport(input) : generatePackage(input, pathFor);
  } finally {
    if (db.inTransaction) db.exec("COMMIT");
  }
}

/** Compresses each page, and inflates fonts. */
const renderInOneGo = (report: AuditReport): Uint8Array => withCompressors(() => renderReport(report));

/** Sends chunks while there are credits and bytes. */
function pump(id: number, sending: Sending): void {
  while (sending.credits > 0 && sendings.has(id)) {
    const following = nextChunk(sending.chunks);
    if (following?.length === 0) return;
    const bytes = sending.ready;
    sending.credits -= 1;
    if (following === null) finish(id, sending);
    else sending.ready = following;
    countReleasedBytes(GARBAGE_PER_CHUNK_BYTE * bytes.length);
    send({ type: "chunk", id, bytes, last: following === null });
  }
}

function finish(id: number, { chunks }: Sending): void {
  sendings.delete(id);
  chunks.return();
}

/** Joins pieces into chunks, each with its own buffer, which moves to the main thread. */
function* intoChunks(pieces: ByteGenerator): Chunks {
  let chunk = new Uint8Array(CHUNK_BYTES);
  let [filled, pieceCount] = [0, 0];
  for (const piece of pieces) {
    pieceCount += 1;
    for (let consumed = 0; consumed < piece.length; ) {
      const part = piece.subarray(consumed, consumed + CHUNK_BYTES - filled);
      chunk.set(part, filled);
      filled += part.length;
      consumed += part.length;
      if (filled < CHUNK_BYTES) continue;
      yield chunk;
      chunk = new Uint8Array(CHUNK_BYTES);
      [filled, pieceCount] = [0, 0];
    }
    if (piece.length > 0 && (pieceCount < MAX_PIECES_PER_CHUNK || filled === 0)) continue;
    // After an empty piece even an empty chunk is yielded, so that the thread turns to other packages.
    yield chunk.slice(0, filled);
    [filled, pieceCount] = [0, 0];
  }
  if (filled > 0) yield chunk.slice(0, filled);
}

function nextChunk(chunks: Chunks): Uint8Array<ArrayBuffer> | null {
  const { value, done } = chunks.next();
  return done ? null : (value ?? null);
}

function toFailure(error: unknown): PackageFailure {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const isUnreachable = error instanceof UnreachableEvidenceError;
  return {
    // What the storage answered says more than where that was noticed.
    text: isUnreachable ? error.message : text,
    damaged: error instanceof DamagedMemberError ? { digest: error.digest, signature: error.signature } : null,
    isUnreachable,
    code: (error as NodeJS.ErrnoException).code ?? null,
  };
}
