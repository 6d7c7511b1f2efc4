/**
 * Attached files as a package reads them. Before a package starts, it is known whether each file exists and has the
 * right size; a file that does not is omitted, and the package says so. Corrupt content shows only while a file is
 * read: the package is then cut off before the last block of that file, and the file is remembered as damaged, so that
 * the next package omits it and says so.
 */
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { createLru } from "../domain/lru.ts";
import type { Lru } from "../domain/lru.ts";
import { DamagedEvidenceError } from "../evidence/errors.ts";
import { evidencePath } from "../evidence/layout.ts";
import { findIntact } from "../evidence/small-evidence.ts";
import type { SmallEvidence } from "../store/attestations/small-evidence.ts";
import { readBlocks } from "../store/spool.ts";

export type EvidenceState = "included" | "missing" | "damaged";

/** The signatures of files that were found damaged, by digest. A repaired file has another signature. */
export type DamagedFiles = Lru<string, string>;

/** Damaged files that are remembered; a forgotten one cuts off one more package. */
const MAX_DAMAGED_FILES = 10_000;

export function createDamagedFiles(known: Iterable<readonly [digest: string, signature: string]> = []): DamagedFiles {
  const files = createLru<string, string>({ maxEntries: MAX_DAMAGED_FILES });
  for (const [digest, signature] of known) files.set(digest, signature);
  return files;
}

/** The attached files as a package sees them, on local disk or remote (remote-evidence.ts). */
export type EvidenceFiles = {
  /** @throws the system's error when the directory cannot be read */
  state(digest: string, size: number): EvidenceState;
  /**
   * The bytes of a file.
   * @throws DamagedMemberError before the last block of a damaged file; the system's error when it cannot be opened
   */
  read(digest: string, size: number): Generator<Uint8Array, void, undefined>;
};

/** The content of a file does not match its digest. */
export class DamagedMemberError extends Error {
  override readonly name = "DamagedMemberError";
  readonly digest: string;
  /** Identifies the damaged file. */
  readonly signature: string;

  constructor(digest: string, signature: string, reason: string) {
    super(`evidence ${digest} is damaged: ${reason}`);
    this.digest = digest;
    this.signature = signature;
  }
}

/** Stands for the signature of content in the database, which is never changed. */
const ROW_SIGNATURE = "in the database";

/**
 * Content of the database, and everything else from `files`.
 * @param damaged as `openLocalEvidence`
 */
export const withSmallEvidence = (
  files: EvidenceFiles,
  rows: Pick<SmallEvidence, "find" | "sizeOf">,
  damaged: DamagedFiles,
): EvidenceFiles => ({
  state(digest, size) {
    const actual = rows.sizeOf(digest);
    if (actual === null) return files.state(digest, size);
    return actual !== size || damaged.get(digest) === ROW_SIGNATURE ? "damaged" : "included";
  },
  *read(digest, size) {
    let content: Buffer | null;
    try {
      content = findIntact(rows, digest);
    } catch (error) {
      if (!(error instanceof DamagedEvidenceError)) throw error;
      damaged.set(digest, ROW_SIGNATURE);
      throw new DamagedMemberError(digest, ROW_SIGNATURE, error.message);
    }
    if (content === null) yield* files.read(digest, size);
    else yield content;
  },
});

const signatureOf = ({ ino, size, mtimeMs, ctimeMs }: Stats): string => `${ino} ${size} ${mtimeMs} ${ctimeMs}`;

/**
 * The files below a local evidence directory.
 * @param root the evidence directory
 * @param damaged files known to be damaged; damage found from now on is added
 */
export function openLocalEvidence(root: string, damaged: DamagedFiles): EvidenceFiles {
  function rememberDamage(digest: string, stats: Stats, reason: string): DamagedMemberError {
    damaged.set(digest, signatureOf(stats));
    return new DamagedMemberError(digest, signatureOf(stats), reason);
  }

  return {
    state(digest, size) {
      const stats = statSync(evidencePath(root, digest), { throwIfNoEntry: false });
      if (!stats?.isFile()) return "missing";
      return stats.size !== size || damaged.get(digest) === signatureOf(stats) ? "damaged" : "included";
    },

    *read(digest, size) {
      const fd = openSync(evidencePath(root, digest), "r");
      try {
        const stats = fstatSync(fd);
        if (stats.size !== size) throw rememberDamage(digest, stats, `it has ${stats.size} bytes instead of ${size}`);
        const hash = createHash("sha256");
        let bytesRead = 0;
        for (const block of readBlocks(fd, 0, size)) {
          hash.update(block);
          bytesRead += block.length;
          if (bytesRead === size) verify(hash.digest("hex"), stats);
          yield block;
        }
        if (size === 0) verify(hash.digest("hex"), stats);
      } catch (error) {
        // An unreadable sector is as bad as wrong content.
        throw (error as NodeJS.ErrnoException).code === "EIO"
          ? rememberDamage(digest, fstatSync(fd), "it cannot be read")
          : error;
      } finally {
        closeSync(fd);
      }

      function verify(actual: string, stats: Stats): void {
        if (actual !== digest) throw rememberDamage(digest, stats, `its content has the digest ${actual}`);
      }
    },
  };
}
