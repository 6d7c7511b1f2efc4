// How content is hashed while it is received. A server does it in a thread (workers/hashing.ts): two hundred uploads at
// once would otherwise take the main thread for themselves. Commands and tests hash where they are.
import { createHash } from "node:crypto";

/** The SHA-256 of content that comes in blocks. One call at a time. */
export type ContentHash = {
  /**
   * Hashes the first `length` bytes of a block that owns its memory. The block may be moved away: what the call
   * resolves with takes its place, with the same content. @throws HashingError
   */
  update(block: Buffer, length: number): Promise<Buffer>;
  /** The digest in hex; nothing may be added after it. @throws HashingError */
  digest(): Promise<string>;
  /** Gives up: nothing is kept for this content. */
  abandon(): void;
};

export type Hasher = { begin(): ContentHash };

/** Hashing stopped for a reason of the machine, not of the content. */
export class HashingError extends Error {
  override readonly name = "HashingError";
}

export const inlineHasher: Hasher = {
  begin() {
    const hash = createHash("sha256");
    return {
      async update(block, length) {
        hash.update(block.subarray(0, length));
        return block;
      },
      digest: async () => hash.digest("hex"),
      abandon: () => undefined,
    };
  },
};
