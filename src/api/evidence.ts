/** What operations may do with stored evidence: look at its size and read it. */
import type { Readable } from "node:stream";

export type EvidenceReader = {
  /** Opens a stored file, whole or a range of inclusive byte offsets. Rejects when the file is missing or damaged. */
  open(digest: string, range: { start: number; end: number } | null): Promise<Readable>;
};
