/** Access of operations to stored evidence. */
import type { Readable } from "node:stream";

export type EvidenceReader = {
  /**
   * Opens a stored file, whole or a range of inclusive byte offsets. `size`, in bytes, is the size that the row holds:
   * a file of another size is refused before the first byte. Rejects when the file is missing or damaged.
   */
  open(file: { digest: string; size: number }, range: { start: number; end: number } | null): Promise<Readable>;
};
