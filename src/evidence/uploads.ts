/**
 * Published files whose row is not committed yet. When a write is refused, the file that its upload brought is removed
 * at once: a full disk could not wait a day for the sweep.
 *
 * A file goes only if all of this is certain:
 * - its upload brought it. What was there before may belong to a database that an operator restores;
 * - no other upload of the same content is on its way to its commit. Each counts from before its publish to the end of
 *   its write, and the last one to fail removes the file;
 * - no row names it, which is asked under the lock of the digest, so that a later upload publishes it again;
 * - the refused write cannot come back. SQLite may have failed after its commit was in the log, where a kill would
 *   leave it for the next start to recover. The next commit overwrites it: until then the file stays.
 */
import { AppError, UnconfirmedError } from "../errors.ts";
import type { EvidenceStore, Staged } from "./local-store.ts";

export type Uploads = Pick<EvidenceStore, "stage" | "stageBytes" | "discard"> & {
  /**
   * Publishes a file, then runs `write`, which commits the row that names it. Resolves and rejects as `write` does, or
   * rejects as `publish` does; if no row names the file then, it is gone.
   */
  publishFor<T>(staged: Staged, write: () => Promise<T>): Promise<T>;
};

type UploadsDependencies = {
  store: EvidenceStore;
  /** Whether any committed row names the content. */
  isReferenced(digest: string): boolean;
  /** Called when a file could not be removed: the sweep removes it after a day. */
  onFailure(error: unknown, digest: string): void;
};

/** The uploads of one content between their publish and the end of their write, and whether one brought the file. */
type Running = { count: number; isNew: boolean };

/** Files that wait for the next commit to be removed; more are left to the sweep. A failing storage refuses writes. */
const MAX_UNDECIDED = 1_000;

export function createUploads({ store, isReferenced, onFailure }: UploadsDependencies): Uploads {
  const running = new Map<string, Running>();
  /** Files of refused writes that may come back, until another write is committed. */
  const undecided = new Set<string>();

  async function withdraw(digest: string): Promise<void> {
    try {
      await store.withdraw(digest, () => running.has(digest) || isReferenced(digest));
    } catch (error) {
      onFailure(error, digest);
    }
  }

  function begin(digest: string): Running {
    const upload = running.get(digest) ?? { count: 0, isNew: undecided.has(digest) };
    running.set(digest, upload);
    upload.count += 1;
    return upload;
  }

  function end(digest: string, upload: Running): void {
    upload.count -= 1;
    if (upload.count === 0) running.delete(digest);
  }

  async function removeRefused(digest: string, upload: Running, error: unknown): Promise<void> {
    if (!upload.isNew) return;
    if (!mayComeBack(error)) {
      if (!undecided.has(digest)) await withdraw(digest);
    } else if (undecided.size < MAX_UNDECIDED) undecided.add(digest);
    else upload.isNew = false;
  }

  /** Removes the files of `refused` writes, after a write that began later has committed a row for the new `digest`. */
  async function removeDecided(refused: readonly string[], digest: string): Promise<void> {
    try {
      if (refused.length === 0 || !isReferenced(digest)) return;
    } catch (error) {
      return onFailure(error, digest);
    }
    for (const other of refused) undecided.delete(other);
    await Promise.all(refused.map(withdraw));
  }

  return {
    stage: store.stage,
    stageBytes: store.stageBytes,
    discard: store.discard,
    async publishFor(staged, write) {
      const { digest } = staged;
      const upload = begin(digest);
      try {
        const isNew = (await store.publish([staged])).length > 0;
        upload.isNew ||= isNew;
        // Without a new row the write may commit nothing, and overwrite nothing.
        const refused = isNew ? [...undecided] : [];
        const result = await write();
        end(digest, upload);
        void removeDecided(refused, digest);
        return result;
      } catch (error) {
        end(digest, upload);
        await removeRefused(digest, upload, error);
        throw error;
      }
    },
  };
}

/**
 * Whether a write that failed with this error may be in the database after a kill. Of a full disk SQLite learns before
 * the commit is in the log, and of another writer before it begins.
 */
function mayComeBack(error: unknown): boolean {
  if (error instanceof UnconfirmedError) return true;
  const { code } = ((error instanceof AppError ? error.internal : error) ?? {}) as { code?: unknown };
  return typeof code === "string" && /^SQLITE_(?!FULL|BUSY|CONSTRAINT)/.test(code);
}
