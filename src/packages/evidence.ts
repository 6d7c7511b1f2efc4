/**
 * Attached files on their way into a package. Whether a file is there, and of the right size, is known before the package begins:
 * one that is not is left out, and the package says so. Damage of its content shows only when it is read: then the package is cut,
 * before the last block of the file, and the file is remembered, so that the next package leaves it out and says so.
 */
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { evidencePath } from "../vault/layout.ts";
import { readBlocks } from "./spool.ts";

export type EvidenceState = "included" | "missing" | "damaged";

/** A file is not what its address says. */
export class DamagedMemberError extends Error {
  override readonly name = "DamagedMemberError";
  readonly digest: string;

  constructor(digest: string, why: string) {
    super(`evidence ${digest} is damaged: ${why}`);
    this.digest = digest;
  }
}

/** How many damaged files are remembered; beyond that a package is cut once more. */
const REMEMBERED = 10_000;

/** @param root the evidence root */
export function evidenceFiles(root: string) {
  /** Damaged files as they were found: another file under the name, a repaired one, is looked at anew. */
  const damaged = new Map<string, string>();
  const signature = ({ ino, size, mtimeMs, ctimeMs }: Stats): string => `${ino} ${size} ${mtimeMs} ${ctimeMs}`;

  function remember(digest: string, stats: Stats): void {
    if (damaged.size >= REMEMBERED) damaged.clear();
    damaged.set(digest, signature(stats));
  }

  return {
    /** @throws the system's error where the directory cannot be looked at */
    state(digest: string, size: number): EvidenceState {
      const found = statSync(evidencePath(root, digest), { throwIfNoEntry: false });
      if (!found?.isFile()) return "missing";
      return found.size !== size || damaged.get(digest) === signature(found) ? "damaged" : "included";
    },

    /** The bytes of a file. @throws DamagedMemberError before the last block of a damaged one; the system's error. */
    *read(digest: string, size: number): Generator<Uint8Array, void, undefined> {
      const fd = openSync(evidencePath(root, digest), "r");
      try {
        const stats = fstatSync(fd);
        if (stats.size !== size) throw new DamagedMemberError(digest, `it has ${stats.size} bytes instead of ${size}`);
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
        if ((error as NodeJS.ErrnoException).code === "EIO") remember(digest, fstatSync(fd));
        throw error;
      } finally {
        closeSync(fd);
      }

      function check(actual: string, stats: Stats): void {
        if (actual === digest) return;
        remember(digest, stats);
        throw new DamagedMemberError(digest, `its content has the digest ${actual}`);
      }
    },
  };
}

export type EvidenceFiles = ReturnType<typeof evidenceFiles>;
