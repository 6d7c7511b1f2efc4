// Hashing of content while it is received. A server hashes in a thread (hash-threads.ts), because two hundred
// concurrent uploads would otherwise occupy the main thread. Commands and tests hash inline.
import { createHash } from "node:crypto";

/** The SHA-256 of content that arrives in blocks. One call at a time. */
export type ContentHash = {
  /**
   * Hashes the first `length` bytes of a block that owns its memory. The block may be transferred to a thread: use the
   * returned block, which has the same content, in its place. @throws HashingError
   */
  update(block: Buffer, length: number): Promise<Buffer>;
  /** The digest in hex; `update` must not be called afterwards. @throws HashingError */
  digest(): Promise<string>;
  /** Discards the state of this content. May be called at any time, also twice. */
  abandon(): void;
};

export type Hasher = { begin(): ContentHash };

/** Hashing failed because of the process or the machine, not because of the content. */
export class HashingError extends Error {
  override readonly name = "HashingError";
}

/** Hashes in the calling thread. */
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
