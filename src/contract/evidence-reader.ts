/** What operations may do with stored evidence: look at its size and read it. */
import type { Readable } from "node:stream";

export type EvidenceReader = {
  /**
   * Opens a stored file, whole or a range of inclusive byte offsets. `size` in bytes is what the row promises: a file
   * of another size is refused before the first byte. Rejects when the file is missing or damaged.
   */
  open(file: { digest: string; size: number }, range: { start: number; end: number } | null): Promise<Readable>;
};
