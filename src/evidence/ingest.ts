// The half of an evidence store that does not depend on where its files are: content is received into staging and
// leaves it once, by being published or discarded. Publishing, sweeping and whatever else must not overlap for the same
// content run under a lock per digest.
import type { Readable } from "node:stream";
import { DamagedEvidenceError, MissingEvidenceError } from "./errors.ts";
import type { StagedEntry, Staged, Staging } from "./staging.ts";

export type Ingest = {
  stage(source: AsyncIterable<Buffer> | Readable, options: { limit: number }): Promise<Staged>;
  stageBytes(bytes: Buffer): Promise<Staged>;
  publish(staged: readonly Staged[]): Promise<string[]>;
  discard(staged: readonly Staged[]): Promise<void>;
  sweepStaging(): Promise<number>;
  /** Runs `remove` under the lock of `digest`, unless `isNeeded` says then that the content stays. */
  withdraw(digest: string, isNeeded: () => boolean, remove: () => Promise<void>): Promise<void>;
  /**
   * Runs `sweepOne` for each of `candidates` under the lock of that digest, until the store closes. `sweepOne` returns
   * the bytes that it removed, or null for a file that stays. Returns the totals.
   */
  sweep(
    candidates: AsyncIterable<string>,
    sweepOne: (digest: string) => Promise<number | null>,
  ): Promise<{ removed: number; bytes: number }>;
  isClosed(): boolean;
  /** @throws Error once it is closed */
  assertOpen(): void;
  /** Waits for running work and drops staged content. Later calls reject. */
  close(): Promise<void>;
};

/**
 * @param publishEntry makes an entry permanent and consumes it, also when it fails; it runs under the lock of the
 * entry's digest, and returns whether nothing was stored under that digest before
 */
export function createIngest(staging: Staging, publishEntry: (entry: StagedEntry) => Promise<boolean>): Ingest {
  const locks = createDigestLocks();
  let closed = false;

  function assertOpen(): void {
    if (closed) throw new Error("the evidence store is closed");
  }

  async function publishOne({ token, digest }: Staged): Promise<string[]> {
    const entry = staging.take(token);
    if (entry === null) throw new Error(`staged content ${digest} was published or discarded before`);
    return (await locks.run(entry.digest, () => publishEntry(entry))) ? [entry.digest] : [];
  }

  async function discard(staged: readonly Staged[]): Promise<void> {
    await Promise.all(
      staged.map(async ({ token }) => {
        const entry = staging.take(token);
        if (entry !== null) await staging.drop(entry);
      }),
    );
  }

  async function stage(receive: () => Promise<Staged>): Promise<Staged> {
    assertOpen();
    const staged = await receive();
    if (closed) await discard([staged]);
    assertOpen();
    return staged;
  }

  return {
    async sweep(candidates, sweepOne) {
      assertOpen();
      const total = { removed: 0, bytes: 0 };
      for await (const digest of candidates) {
        if (closed) return total;
        const bytes = await locks.run(digest, () => sweepOne(digest));
        if (bytes === null) continue;
        total.removed += 1;
        total.bytes += bytes;
      }
      return total;
    },
    assertOpen,
    isClosed: () => closed,
    stage: (source, { limit }) => stage(() => staging.receive(source, limit)),
    stageBytes: (bytes) => stage(() => staging.receiveBytes(bytes)),
    async publish(staged) {
      assertOpen();
      const results = await Promise.allSettled(staged.map(publishOne));
      return results.flatMap((result) => {
        if (result.status === "rejected") throw result.reason;
        return result.value;
      });
    },
    async withdraw(digest, isNeeded, remove) {
      assertOpen();
      await locks.run(digest, async () => {
        if (!isNeeded()) await remove();
      });
    },
    discard,
    async sweepStaging() {
      assertOpen();
      return staging.sweep();
    },
    async close() {
      closed = true;
      await locks.idle();
      await staging.close();
    },
  };
}

type DigestLocks = {
  /** Runs `task` after all earlier tasks of this digest; settles as `task` does. */
  run<T>(digest: string, task: () => Promise<T>): Promise<T>;
  /** Resolves when no task runs or waits. */
  idle(): Promise<void>;
};

function createDigestLocks(): DigestLocks {
  /** The end of the last task of each digest. */
  const tails = new Map<string, Promise<void>>();
  return {
    run(digest, task) {
      const previous = tails.get(digest);
      const result = previous === undefined ? task() : previous.then(task);
      const settled = result
        .then(
          () => {},
          () => {},
        )
        .then(() => {
          if (tails.get(digest) === settled) tails.delete(digest);
        });
      tails.set(digest, settled);
      return result;
    },
    async idle() {
      while (tails.size > 0) await Promise.all(tails.values());
    },
  };
}

/** Reads `content` to its end and maps the outcome to what `EvidenceStore.verify` returns. */
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
