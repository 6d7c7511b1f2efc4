/**
 * The main thread's side of packages whose evidence is on remote storage: describes files and forwards their blocks to
 * the thread that makes packages (remote-evidence.ts), no more than that thread has granted.
 */
import type { Readable } from "node:stream";
import type { MessagePort } from "node:worker_threads";
import { DamagedEvidenceError, EvidenceUnavailableError } from "../evidence/errors.ts";
import { countReleasedBytes } from "../workers/memory-reclaim.ts";
import type { RemoteFailure, RemoteFile, RemoteReply, RemoteRequest } from "./remote-evidence.ts";

/** What packages need of remote storage (evidence/s3-store.ts). */
export type RemoteEvidence = {
  open(request: { digest: string; size: number }): Promise<Readable>;
  /** The file as stored; null when there is none. */
  stat(digest: string): Promise<RemoteFile | null>;
};

/** Concurrent metadata requests: a package of a thousand files starts after a second or two. */
const MAX_CONCURRENT_DESCRIPTIONS = 32;

/** A file being forwarded. `wake` continues it after a grant or its end. */
type ForwardedStream = { credits: number; isClosed: boolean; wake(): void };

/** Serves the requests that arrive through the port until its other end closes. */
export function serveEvidence(port: MessagePort, evidence: RemoteEvidence): void {
  const streams = new Map<number, ForwardedStream>();
  const reply = (message: RemoteReply): void =>
    port.postMessage(message, message.type === "block" ? [message.bytes.buffer] : []);

  async function describeAll(id: number, digests: readonly string[]): Promise<void> {
    try {
      reply({ type: "described", id, files: await describeFiles(evidence, digests) });
    } catch (error) {
      reply({ type: "failed", id, failure: toFailure(error) });
    }
  }

  async function forward({ id, digest, size, credits }: Extract<RemoteRequest, { type: "open" }>): Promise<void> {
    const state: ForwardedStream = { credits, isClosed: false, wake: () => undefined };
    streams.set(id, state);
    try {
      const isComplete = await forwardBlocks(await evidence.open({ digest, size }), state, (bytes) =>
        reply({ type: "block", id, bytes }),
      );
      if (isComplete) reply({ type: "end", id });
    } catch (error) {
      reply({ type: "failed", id, failure: toFailure(error) });
    } finally {
      streams.delete(id);
    }
  }

  port.on("message", (request: RemoteRequest) => {
    if (request.type === "describe") return void describeAll(request.id, request.digests);
    if (request.type === "open") return void forward(request);
    const stream = streams.get(request.id);
    if (!stream) return;
    if (request.type === "more") stream.credits += 1;
    else stream.isClosed = true;
    stream.wake();
  });
  port.on("close", () => {
    for (const stream of streams.values()) {
      stream.isClosed = true;
      stream.wake();
    }
  });
  // An idle package thread must not keep the process alive.
  port.unref();
}

async function describeFiles(evidence: RemoteEvidence, digests: readonly string[]): Promise<(RemoteFile | null)[]> {
  const files: (RemoteFile | null)[] = [];
  // All workers share one iterator, so each digest is described once.
  const remaining = digests.entries();
  await Promise.all(
    Array.from({ length: MAX_CONCURRENT_DESCRIPTIONS }, async () => {
      for (const [index, digest] of remaining) files[index] = await evidence.stat(digest);
    }),
  );
  return files;
}

/** Forwards a file as credits allow. Resolves with false when the receiver closed it early. */
async function forwardBlocks(
  source: Readable,
  state: ForwardedStream,
  send: (bytes: Uint8Array<ArrayBuffer>) => void,
): Promise<boolean> {
  try {
    for await (const block of source as AsyncIterable<Buffer>) {
      while (state.credits === 0 && !state.isClosed)
        await new Promise<void>((resolve) => {
          state.wake = resolve;
        });
      if (state.isClosed) return false;
      state.credits -= 1;
      // A copy with its own buffer, which moves to the package thread.
      const bytes = new Uint8Array(block);
      countReleasedBytes(bytes.length);
      send(bytes);
    }
    return true;
  } finally {
    source.destroy();
  }
}

function toFailure(error: unknown): RemoteFailure {
  if (error instanceof EvidenceUnavailableError) return { kind: "unavailable", text: error.why };
  const text = error instanceof Error ? error.message : String(error);
  return { kind: error instanceof DamagedEvidenceError ? "damaged" : "other", text };
}
