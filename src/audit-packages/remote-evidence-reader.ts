// The main thread's side of packages whose evidence is on storage elsewhere: it looks at files and passes their blocks
// on to the thread that makes packages (packages/remote-evidence.ts), as many as that has room for.
import type { Readable } from "node:stream";
import type { MessagePort } from "node:worker_threads";
import type { Look, RemoteFailure, RemoteNews, RemoteOrder } from "./remote-evidence.ts";
import { DamagedEvidenceError, EvidenceUnavailableError } from "../evidence/errors.ts";
import { countHandedOver } from "../workers/memory-reclaim.ts";

/** What packages need of a vault elsewhere (vault/s3.ts). */
export type RemoteEvidence = {
  open(request: { digest: string; size: number }): Promise<Readable>;
  look(digest: string): Promise<Look>;
};

/** Looks at once: a package of a thousand files begins after a second or two. */
const LOOKS_AT_ONCE = 32;

/** Answers what comes through the port until its other end is gone. */
export function serveEvidence(port: MessagePort, evidence: RemoteEvidence): void {
  const streams = new Map<number, { credits: number; granted(): void; closed: boolean }>();

  port.on("message", (order: RemoteOrder) => {
    if (order.type === "look") void look(order.id, order.digests);
    else if (order.type === "open") void pass(order);
    else {
      const stream = streams.get(order.id);
      if (!stream) return;
      if (order.type === "more") stream.credits += 1;
      else stream.closed = true;
      stream.granted();
    }
  });
  port.on("close", () => {
    for (const stream of streams.values()) {
      stream.closed = true;
      stream.granted();
    }
  });
  // A thread that rests keeps nobody from ending.
  port.unref();

  const tell = (news: RemoteNews): void => port.postMessage(news, news.type === "block" ? [news.bytes.buffer] : []);

  async function look(id: number, digests: string[]): Promise<void> {
    try {
      const looks: Look[] = [];
      const left = digests.entries();
      await Promise.all(
        Array.from({ length: LOOKS_AT_ONCE }, async () => {
          for (const [index, digest] of left) looks[index] = await evidence.look(digest);
        }),
      );
      tell({ type: "looked", id, looks });
    } catch (error) {
      tell({ type: "failed", id, failure: failureOf(error) });
    }
  }

  async function pass({ id, digest, size, credits }: Extract<RemoteOrder, { type: "open" }>): Promise<void> {
    let granted = (): void => undefined;
    const state = { credits, granted: () => granted(), closed: false };
    streams.set(id, state);
    let stream: Readable | null = null;
    try {
      stream = await evidence.open({ digest, size });
      for await (const block of stream as AsyncIterable<Buffer>) {
        while (state.credits === 0 && !state.closed) await new Promise<void>((resolve) => (granted = resolve));
        if (state.closed) return;
        state.credits -= 1;
        // In memory of its own, which moves to the thread.
        const bytes = new Uint8Array(block);
        countHandedOver(bytes.length);
        tell({ type: "block", id, bytes });
      }
      tell({ type: "end", id });
    } catch (error) {
      tell({ type: "failed", id, failure: failureOf(error) });
    } finally {
      streams.delete(id);
      stream?.destroy();
    }
  }
}

function failureOf(error: unknown): RemoteFailure {
  if (error instanceof EvidenceUnavailableError) return { kind: "unavailable", text: error.why };
  const text = error instanceof Error ? error.message : String(error);
  return { kind: error instanceof DamagedEvidenceError ? "damaged" : "other", text };
}
