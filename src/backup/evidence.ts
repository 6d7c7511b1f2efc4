/** What rows name, compared with what a vault has. */
import { listEvidenceReferences } from "../store/db/database-copy.ts";
import type { EvidenceReference } from "../store/db/database-copy.ts";
import type { EvidenceStore } from "../evidence/local-store.ts";
import type { Db } from "../store/db/types.ts";

/** Evidence that a row names and the vault has not, or not of that size; `problem` says so. */
export type EvidenceMismatch = EvidenceReference & { problem: string };

/**
 * Compares all references of a copy of the database with the list of the vault, in one pass over both. Calls `found`
 * for each that is astray, and `looked` with the number of those looked at; resolves to how many there are.
 */
export async function compareEvidence(
  copy: Db,
  vault: Pick<EvidenceStore, "list">,
  found: (one: EvidenceMismatch) => void,
  looked: (count: number) => void = () => undefined,
): Promise<number> {
  const files = vault.list()[Symbol.asyncIterator]();
  try {
    let file = await files.next();
    let count = 0;
    for (const { digest, size } of listEvidenceReferences(copy)) {
      while (!file.done && file.value.digest < digest) file = await files.next();
      const there = file.done || file.value.digest !== digest ? null : file.value.size;
      if (there === null) found({ digest, size, problem: `evidence ${digest} is missing` });
      else if (there !== size)
        found({ digest, size, problem: `evidence ${digest} has ${there} bytes instead of ${size}` });
      looked((count += 1));
    }
    return count;
  } finally {
    await files.return?.();
  }
}
