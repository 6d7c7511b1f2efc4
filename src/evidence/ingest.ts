// The half of a vault that is the same wherever it keeps its files: content is received into staging, and leaves it
// once, by being published or discarded. Publishing, and whatever else may not cross it, takes turns by digest.
import type { Readable } from "node:stream";
import { DamagedEvidenceError, MissingEvidenceError } from "./errors.ts";
import type { StagedEntry, Staged, Staging } from "./staging.ts";

export type Ingest = {
  stage(source: AsyncIterable<Buffer> | Readable, opts: { limit: number }): Promise<Staged>;
  publish(staged: readonly Staged[]): Promise<void>;
  discard(staged: readonly Staged[]): Promise<void>;
  sweepStaging(): Promise<number>;
  /**
   * Runs `one` on each of `candidates` in the turn of that digest, until the vault closes; it gives the bytes of what
   * it removed, null for what stays. Returns what was removed.
   */
  sweep(
    candidates: AsyncIterable<string>,
    one: (digest: string) => Promise<number | null>,
  ): Promise<{ removed: number; bytes: number }>;
  isClosed(): boolean;
  /** @throws Error once it is closed */
  assertOpen(): void;
  /** Waits for what has a turn and drops what is staged. Later calls reject. */
  close(): Promise<void>;
};

/**
 * `place` gives an entry its lasting place and consumes it, also when it fails; it has the turn of the entry's digest.
 */
export function createIngest(waiting: Staging, place: (entry: StagedEntry) => Promise<void>): Ingest {
  const turns = new Map<string, Promise<void>>();
  let closed = false;

  function assertOpen(): void {
    if (closed) throw new Error("the vault is closed");
  }

  /** Runs `task` after everything that already has the turn of this digest; settles as `task` does. */
  function withDigestLock<T>(digest: string, task: () => Promise<T>): Promise<T> {
    const before = turns.get(digest);
    const result = before === undefined ? task() : before.then(task);
    const settled = result
      .then(
        () => {},
        () => {},
      )
      .then(() => {
        if (turns.get(digest) === settled) turns.delete(digest);
      });
    turns.set(digest, settled);
    return result;
  }

  async function publishOne({ token, digest }: Staged): Promise<void> {
    const entry = waiting.take(token);
    if (entry === null) throw new Error(`staged content ${digest} was published or discarded before`);
    await withDigestLock(entry.digest, () => place(entry));
  }

  async function discard(staged: readonly Staged[]): Promise<void> {
    await Promise.all(
      staged.map(async ({ token }) => {
        const entry = waiting.take(token);
        if (entry !== null) await waiting.drop(entry);
      }),
    );
  }

  return {
    async sweep(candidates, one) {
      assertOpen();
      const total = { removed: 0, bytes: 0 };
      for await (const digest of candidates) {
        if (closed) return total;
        const bytes = await withDigestLock(digest, () => one(digest));
        if (bytes === null) continue;
        total.removed += 1;
        total.bytes += bytes;
      }
      return total;
    },
    assertOpen,
    isClosed: () => closed,
    async stage(source, { limit }) {
      assertOpen();
      const staged = await waiting.receive(source, limit);
      if (closed) await discard([staged]);
      assertOpen();
      return staged;
    },
    async publish(staged) {
      assertOpen();
      const results = await Promise.allSettled(staged.map(publishOne));
      for (const result of results) if (result.status === "rejected") throw result.reason;
    },
    discard,
    async sweepStaging() {
      assertOpen();
      return waiting.sweep();
    },
    async close() {
      closed = true;
      while (turns.size > 0) await Promise.all(turns.values());
      await waiting.close();
    },
  };
}

/** What `verify` says, from reading `content` to its end. */
export async function verifyContent(content: AsyncIterable<Buffer>): Promise<"ok" | "missing" | "damaged"> {
  try {
    for await (const _ of content);
    return "ok";
  } catch (error) {
    if (error instanceof MissingEvidenceError) return "missing";
    if (error instanceof DamagedEvidenceError) return "damaged";
    throw error;
  }
}
