/** Compares the evidence that rows name with the files of an evidence store. */
import type { EvidenceStore } from "../evidence/local-store.ts";
import { listNamedFiles } from "../store/attestations/evidence-location.ts";
import type { NamedFile } from "../store/attestations/evidence-location.ts";
import type { Db } from "../store/db/types.ts";

/** Evidence that a row names and that the store does not have, or not with that size; `problem` says which. */
type EvidenceMismatch = NamedFile & { problem: string };

/**
 * Compares all references of a database copy with the listing of the store, in one pass over both.
 * @param onCompared is called after each reference with the number compared so far
 * @returns the number of references
 */
export async function compareEvidence(
  copy: Db,
  store: Pick<EvidenceStore, "list">,
  { onMismatch, onCompared }: { onMismatch(mismatch: EvidenceMismatch): void; onCompared?(count: number): void },
): Promise<number> {
  const files = store.list()[Symbol.asyncIterator]();
  try {
    let file = await files.next();
    let count = 0;
    for (const { digest, size } of listNamedFiles(copy)) {
      while (!file.done && file.value.digest < digest) file = await files.next();
      const actual = file.done || file.value.digest !== digest ? null : file.value.size;
      if (actual === null) onMismatch({ digest, size, problem: `evidence ${digest} is missing` });
      else if (actual !== size)
        onMismatch({ digest, size, problem: `evidence ${digest} has ${actual} bytes instead of ${size}` });
      count += 1;
      onCompared?.(count);
    }
    return count;
  } finally {
    await files.return?.();
  }
}
