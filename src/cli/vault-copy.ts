/**
 * Copies evidence from one store to another. Files that the target already has are skipped, so an interrupted copy
 * resumes where it stopped. A file counts as copied only after the target has confirmed it, by its checksum or by
 * reading it back.
 */
import type { NamedFile } from "../store/attestations/evidence-location.ts";
import type { Store } from "../store/index.ts";
import { DamagedEvidenceError, MissingEvidenceError } from "../evidence/errors.ts";
import type { EvidenceStore } from "../evidence/local-store.ts";
import { UNREFERENCED_EVIDENCE_AGE_S } from "../server/scheduler.ts";
import { systemSources } from "../clock.ts";

export type CopyResult = {
  /** Referenced files, and their bytes, that the target has now; `copied` of them were not there before. */
  files: number;
  bytes: number;
  copied: number;
  /** Recent files that no record references yet and that were copied too. */
  unnamed: number;
  /** Referenced files that the source lacks or has damaged. */
  lost: { digest: string; state: "missing" | "damaged" }[];
};

/** Enough concurrent files to hide the network latency of a store, few enough to keep their buffers small. */
const MAX_CONCURRENT_FILES = 8;
/** Rows per read: a small page blocks other users of the database only briefly. */
const PAGE_SIZE = 500;

/**
 * Copies all referenced files, and recent ones that no record references yet.
 * @param reached receives the number of referenced bytes processed so far
 * @param signal stops the copy between two files
 * @throws EvidenceUnavailableError, the reason of `signal`, a system error
 */
export async function copyEvidence({
  store,
  source,
  target,
  reached,
  signal,
}: {
  store: Store;
  source: EvidenceStore;
  target: EvidenceStore;
  reached(bytes: number): void;
  signal: AbortSignal;
}): Promise<CopyResult> {
  const done: CopyResult = { files: 0, bytes: 0, copied: 0, unnamed: 0, lost: [] };
  let processedBytes = 0;
  await forEachConcurrently(listNamedFiles(store), async ({ digest, size }) => {
    signal.throwIfAborted();
    const state = await copyOne(source, target, { digest, size });
    if (state === "missing" || state === "damaged") {
      // A running server may have deleted the attestation meanwhile; then the file is not lost.
      if (store.evidenceLocation.isReferenced(digest)) done.lost.push({ digest, state });
    } else {
      done.files += 1;
      done.bytes += size;
      if (state === "copied") done.copied += 1;
    }
    processedBytes += size;
    reached(processedBytes);
  });
  // Uploads whose attestation is not stored yet, and files that a restore of yesterday's database would need.
  const since = systemSources.now() - UNREFERENCED_EVIDENCE_AGE_S;
  await forEachConcurrently(source.list(), async ({ digest, size, modifiedAt }) => {
    signal.throwIfAborted();
    if (modifiedAt < since || store.evidenceLocation.isReferenced(digest)) return;
    if ((await copyOne(source, target, { digest, size })) === "copied") done.unnamed += 1;
  });
  done.lost.sort((a, b) => (a.digest < b.digest ? -1 : 1));
  return done;
}

/** Counts the referenced files that the target has, checking each one: the final check before the switch. */
export async function countPresent(store: Store, target: EvidenceStore, signal: AbortSignal): Promise<number> {
  let count = 0;
  await forEachConcurrently(listNamedFiles(store), async ({ digest, size }) => {
    signal.throwIfAborted();
    if ((await target.describe(digest))?.size === size) count += 1;
  });
  return count;
}

async function copyOne(
  source: EvidenceStore,
  target: EvidenceStore,
  { digest, size }: NamedFile,
): Promise<"present" | "copied" | "missing" | "damaged"> {
  if (await target.isIntact(digest, size)) return "present";
  try {
    const staged = await target.stage(source.read(digest), { limit: size });
    if (staged.size !== size) {
      await target.discard([staged]);
      return "damaged";
    }
    await target.publish([staged]);
  } catch (error) {
    if (error instanceof MissingEvidenceError) return "missing";
    if (error instanceof DamagedEvidenceError || (error instanceof Error && error.name === "TooLargeError"))
      return "damaged";
    throw error;
  }
  if (!(await target.isIntact(digest, size)))
    throw Object.assign(
      new Error(
        `evidence ${digest} was copied, but the target has other content for it; ` +
          "look for what writes there, and run this again",
      ),
      { code: "OTHER_CONTENT" },
    );
  return "copied";
}

function* listNamedFiles({ evidenceLocation }: Store): Generator<NamedFile> {
  for (
    let page = evidenceLocation.listFiles("", PAGE_SIZE);
    page.length > 0;
    page = evidenceLocation.listFiles(page.at(-1)?.digest ?? "", PAGE_SIZE)
  )
    yield* page;
}

/** Runs `work` on all items concurrently. Rejects with the first error, after all running work has settled. */
async function forEachConcurrently<T>(
  items: Iterable<T> | AsyncIterable<T>,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const source = (async function* () {
    yield* items;
  })();
  let failed = false;
  const results = await Promise.allSettled(
    Array.from({ length: MAX_CONCURRENT_FILES }, async () => {
      try {
        for (let next = await source.next(); !failed && !next.done; next = await source.next()) await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }),
  );
  await source.return();
  for (const result of results) if (result.status === "rejected") throw result.reason;
}
