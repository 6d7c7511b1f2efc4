/**
 * Copies evidence from one vault to another. What is there already, whole, is passed over, so a copy that was
 * interrupted goes on where it stopped, and a file counts as copied only when the target has it, by its checksum or by
 * reading it back.
 */
import { systemSources } from "../server/app.ts";
import { SWEEP_AGE } from "../server/scheduler.ts";
import type { NamedFile } from "../store/flows/evidence-location.ts";
import type { Store } from "../store/index.ts";
import { DamagedEvidenceError, MissingEvidenceError } from "../evidence/errors.ts";
import type { Vault } from "../evidence/local-store.ts";

export type Copied = {
  /** Files and bytes that attestations name and the target has now, of which `copied` were not there before. */
  files: number;
  bytes: number;
  copied: number;
  /** Young files that no attestation names yet and that were copied too. */
  unnamed: number;
  /** Files that attestations name and the source does not have as they should be. */
  lost: { digest: string; state: "missing" | "damaged" }[];
};

/** Files on their way at once: enough to hide the way to a store, few enough that their parts stay small. */
const AT_ONCE = 8;
/** Rows that are read at once: nobody is kept from the database for longer. */
const PAGE = 500;

/**
 * @param reached is told how many bytes of what attestations name were dealt with
 * @param signal ends the copy between two files
 * @throws EvidenceUnavailableError, the reason of `signal`, the system's error
 */
export async function copyEvidence({
  store,
  source,
  target,
  reached,
  signal,
}: {
  store: Store;
  source: Vault;
  target: Vault;
  reached(bytes: number): void;
  signal: AbortSignal;
}): Promise<Copied> {
  const done: Copied = { files: 0, bytes: 0, copied: 0, unnamed: 0, lost: [] };
  let seen = 0;
  await each(named(store), async ({ digest, size }) => {
    signal.throwIfAborted();
    const state = await copyOne(source, target, { digest, size });
    if (state === "missing" || state === "damaged") {
      // What was deleted meanwhile, beside a running server, is nobody's loss.
      if (store.attestations.isEvidenceReferenced(digest)) done.lost.push({ digest, state });
    } else {
      done.files += 1;
      done.bytes += size;
      if (state === "copied") done.copied += 1;
    }
    seen += size;
    reached(seen);
  });
  // What was received but not named yet, and what somebody who goes back to the database of yesterday will look for.
  const since = systemSources.now() - SWEEP_AGE;
  await each(source.list(), async ({ digest, size, modifiedAt }) => {
    signal.throwIfAborted();
    if (modifiedAt < since || store.attestations.isEvidenceReferenced(digest)) return;
    if ((await copyOne(source, target, { digest, size })) === "copied") done.unnamed += 1;
  });
  done.lost.sort((a, b) => (a.digest < b.digest ? -1 : 1));
  return done;
}

/**
 * How many of the files that attestations name the target has, by a look at each: the question before the target takes
 * over.
 */
export async function countThere(store: Store, target: Vault, signal: AbortSignal): Promise<number> {
  let there = 0;
  await each(named(store), async ({ digest, size }) => {
    signal.throwIfAborted();
    if ((await target.describe(digest))?.size === size) there += 1;
  });
  return there;
}

async function copyOne(
  source: Vault,
  target: Vault,
  { digest, size }: NamedFile,
): Promise<"there" | "copied" | "missing" | "damaged"> {
  if (await target.holds(digest, size)) return "there";
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
  if (!(await target.holds(digest, size)))
    throw Object.assign(
      new Error(
        `evidence ${digest} lies at the target with other content of the same size; remove it there and run this again`,
      ),
      { code: "OTHER_CONTENT" },
    );
  return "copied";
}

function* named({ evidenceLocation }: Store): Generator<NamedFile> {
  for (
    let page = evidenceLocation.listFiles("", PAGE);
    page.length > 0;
    page = evidenceLocation.listFiles(page.at(-1)?.digest ?? "", PAGE)
  )
    yield* page;
}

/** Runs `work` on all items, several at once. Rejects with the first error, when what was begun has ended. */
async function each<T>(items: Iterable<T> | AsyncIterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const source = (async function* () {
    yield* items;
  })();
  let failed = false;
  const results = await Promise.allSettled(
    Array.from({ length: AT_ONCE }, async () => {
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
