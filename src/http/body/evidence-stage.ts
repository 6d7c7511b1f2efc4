/** Evidence between its arrival and the row that names it. */
import type { Readable } from "node:stream";

/** What the kit needs of the evidence storage, to which `token` belongs. */
export type StagedFile = {
  readonly digest: string;
  readonly size: number;
  readonly token: string;
  /** The content, if it is in memory. It stays valid when the entry is published or discarded. */
  readonly content: Buffer | null;
};
/** Evidence that is written to the database, in the transaction of the row that names it. */
export type SmallFile = { readonly digest: string; readonly content: Buffer };
export type EvidenceStage = {
  /** Rejects with an error named `TooLargeError` beyond `limit` bytes. Leaves nothing behind when it rejects. */
  stage(source: Readable, options: { limit: number }): Promise<StagedFile>;
  /** The same for content that is in memory as a whole; it is copied. */
  stageBytes(bytes: Buffer): Promise<StagedFile>;
  /**
   * Gives a file its permanent name, then runs `write`, which commits the row that names it. Resolves and rejects as
   * `write` does. The file is removed when it rejects and no row names it.
   */
  publishFor<T>(staged: StagedFile, write: () => Promise<T>): Promise<T>;
  discard(staged: readonly StagedFile[]): Promise<void>;
};
