/**
 * Attached files of a package whose evidence is on remote storage. The thread that makes packages is synchronous and
 * asks the main thread for them (remote-evidence-reader.ts). Before a package starts, the metadata of all its files is
 * fetched, so missing files are omitted and listed, and unreachable storage is reported before the first byte. The
 * content then arrives in blocks, a few ahead of demand: a file whose next block has not arrived yields an empty piece,
 * and the thread turns to other packages until it does.
 */
import type { MessagePort } from "node:worker_threads";
import { DamagedMemberError } from "./evidence.ts";
import type { DamagedFiles, EvidenceFiles } from "./evidence.ts";

/** A file on remote storage: its size, and a signature that a later file of the same name would not have. */
export type RemoteFile = { size: number; signature: string };

/** A failure of remote storage. */
export type RemoteFailure = { kind: "unavailable" | "damaged" | "other"; text: string };

/**
 * A request of the package thread. `open` grants a stream `credits` blocks, each `more` one block more; `close` ends
 * it.
 */
export type RemoteRequest =
  | { type: "describe"; id: number; digests: string[] }
  | { type: "open"; id: number; digest: string; size: number; credits: number }
  | { type: "more"; id: number }
  | { type: "close"; id: number };

/** A reply of the main thread; `end` and `failed` are the last ones for an id. A missing file is described as null. */
export type RemoteReply =
  | { type: "described"; id: number; files: (RemoteFile | null)[] }
  | { type: "block"; id: number; bytes: Uint8Array<ArrayBuffer> }
  | { type: "end"; id: number }
  | { type: "failed"; id: number; failure: RemoteFailure };

/** The storage did not respond. */
export class UnreachableEvidenceError extends Error {
  override readonly name = "UnreachableEvidenceError";
}

/** What a member yields while its next bytes have not arrived. */
const NOT_YET = new Uint8Array(0);

/** Blocks of a file that may be in transit or buffered here. */
const MAX_BLOCKS_AHEAD = 6;
/** Files described by one request. */
const DESCRIBE_BATCH_SIZE = 1000;

type PendingDescription = { resolve(files: (RemoteFile | null)[]): void; reject(error: Error): void };
type OpenStream = { blocks: Uint8Array[]; isEnded: boolean; failure: RemoteFailure | null };

/**
 * The package thread's client of remote evidence.
 * @param damaged files known to be damaged; damage found from now on is added
 * @param onReply called after every reply, because a package may be waiting for it
 */
export function createRemoteEvidence(port: MessagePort, damaged: DamagedFiles, onReply: () => void) {
  const descriptions = new Map<number, PendingDescription>();
  const streams = new Map<number, OpenStream>();
  let lastId = 0;

  port.on("message", (reply: RemoteReply) => {
    const description = descriptions.get(reply.id);
    if (description && reply.type === "described") description.resolve(reply.files);
    if (description && reply.type === "failed") description.reject(toError(reply.failure));
    // Replies to streams that were closed meanwhile are dropped.
    const stream = streams.get(reply.id);
    if (stream) addToStream(stream, reply);
    if (description || stream) onReply();
  });

  const request = (message: RemoteRequest): void => port.postMessage(message);

  async function describeBatch(digests: string[]): Promise<(RemoteFile | null)[]> {
    lastId += 1;
    const id = lastId;
    try {
      return await new Promise((resolve, reject) => {
        descriptions.set(id, { resolve, reject });
        request({ type: "describe", id, digests });
      });
    } finally {
      descriptions.delete(id);
    }
  }

  /** The content of a file; yields NOT_YET until its next block has arrived. */
  function* readBlocks(digest: string, size: number, file: RemoteFile | null): Generator<Uint8Array, void, undefined> {
    lastId += 1;
    const id = lastId;
    const stream: OpenStream = { blocks: [], isEnded: false, failure: null };
    streams.set(id, stream);
    request({ type: "open", id, digest, size, credits: MAX_BLOCKS_AHEAD });
    try {
      for (;;) {
        const block = stream.blocks.shift();
        if (block) {
          request({ type: "more", id });
          yield block;
        } else if (stream.failure) throw readError(digest, stream.failure, file);
        else if (stream.isEnded) return;
        else yield NOT_YET;
      }
    } finally {
      streams.delete(id);
      request({ type: "close", id });
    }
  }

  function readError(digest: string, failure: RemoteFailure, file: RemoteFile | null): Error {
    if (failure.kind !== "damaged" || file === null) return toError(failure);
    damaged.set(digest, file.signature);
    return new DamagedMemberError(digest, file.signature, failure.text);
  }

  return {
    /** Fetches the metadata of these files. Rejects with UnreachableEvidenceError. */
    async open(digests: readonly string[]): Promise<EvidenceFiles> {
      const files = new Map<string, RemoteFile | null>();
      for (let start = 0; start < digests.length; start += DESCRIBE_BATCH_SIZE) {
        const batch = digests.slice(start, start + DESCRIBE_BATCH_SIZE);
        const described = await describeBatch(batch);
        batch.forEach((digest, index) => void files.set(digest, described[index] ?? null));
      }
      return {
        state(digest, size) {
          const file = files.get(digest);
          // Attached since the metadata was fetched; its content was stored before its record.
          if (file === undefined) return "included";
          if (file === null) return "missing";
          return file.size !== size || damaged.get(digest) === file.signature ? "damaged" : "included";
        },
        read: (digest, size) => readBlocks(digest, size, files.get(digest) ?? null),
      };
    },
  };
}

function addToStream(stream: OpenStream, reply: RemoteReply): void {
  if (reply.type === "block") stream.blocks.push(reply.bytes);
  else if (reply.type === "end") stream.isEnded = true;
  else if (reply.type === "failed") stream.failure = reply.failure;
}

const toError = ({ kind, text }: RemoteFailure): Error =>
  kind === "unavailable" ? new UnreachableEvidenceError(text) : new Error(text);
