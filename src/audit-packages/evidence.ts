/**
 * Attached files on their way into a package. Whether a file is there, and of the right size, is known before the
 * package begins: one that is not is left out, and the package says so. Damage of its content shows only when it is
 * read: then the package is cut, before the last block of the file, and the file is remembered, so that the next
 * package leaves it out and says so.
 */
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { evidencePath } from "../evidence/layout.ts";
import { readBlocks } from "./spool.ts";

export type EvidenceState = "included" | "missing" | "damaged";

/** The attached files as a package sees them, on disk or elsewhere (remote-evidence.ts). */
export type EvidenceFiles = {
  /** @throws the system's error where the directory cannot be looked at */
  state(digest: string, size: number): EvidenceState;
  /** The bytes of a file. @throws DamagedMemberError before the last block of a damaged one; the system's error. */
  read(digest: string, size: number): Generator<Uint8Array, void, undefined>;
};

/** A file is not what its address says. */
export class DamagedMemberError extends Error {
  override readonly name = "DamagedMemberError";
  readonly digest: string;
  /** Identifies the file as it was found. */
  readonly signature: string;

  constructor(digest: string, signature: string, why: string) {
    super(`evidence ${digest} is damaged: ${why}`);
    this.digest = digest;
    this.signature = signature;
  }
}

/** Another file under the name, a repaired one, has another signature. */
const signatureOf = ({ ino, size, mtimeMs, ctimeMs }: Stats): string => `${ino} ${size} ${mtimeMs} ${ctimeMs}`;

/**
 * @param root the evidence root
 * @param damaged signatures of files that were found to be damaged, by digest; what is found from now on is added
 */
export function evidenceFiles(root: string, damaged: Map<string, string>): EvidenceFiles {
  function damage(digest: string, stats: Stats, why: string): DamagedMemberError {
    damaged.set(digest, signatureOf(stats));
    return new DamagedMemberError(digest, signatureOf(stats), why);
  }

  return {
    state(digest, size) {
      const found = statSync(evidencePath(root, digest), { throwIfNoEntry: false });
      if (!found?.isFile()) return "missing";
      return found.size !== size || damaged.get(digest) === signatureOf(found) ? "damaged" : "included";
    },

    *read(digest, size) {
      const fd = openSync(evidencePath(root, digest), "r");
      try {
        const stats = fstatSync(fd);
        if (stats.size !== size) throw damage(digest, stats, `it has ${stats.size} bytes instead of ${size}`);
        const hash = createHash("sha256");
        let read = 0;
        for (const block of readBlocks(fd, 0, size)) {
          hash.update(block);
          read += block.length;
          if (read === size) check(hash.digest("hex"), stats);
          yield block;
        }
        if (size === 0) check(hash.digest("hex"), stats);
      } catch (error) {
        // The disk cannot read it: no better than other bytes.
        throw (error as NodeJS.ErrnoException).code === "EIO"
          ? damage(digest, fstatSync(fd), "it cannot be read")
          : error;
      } finally {
        closeSync(fd);
      }

      function check(actual: string, stats: Stats): void {
        if (actual !== digest) throw damage(digest, stats, `its content has the digest ${actual}`);
      }
    },
  };
}
