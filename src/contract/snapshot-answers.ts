/**
 * Whole snapshots as answers. A snapshot of a thousand artifacts has megabytes of JSON, takes tens of milliseconds to
 * make, and is read again and again. So for large ones:
 *
 * - Answers are kept. What a snapshot itself says never changes once it is made (store/environments/snapshots.ts). What
 *   it says about other records can change: an answer is kept with all of these values, and sent again only while they
 *   are the same.
 * - Texts of artifacts are used again for the next snapshot, most of which are as they were (snapshot-blocks.ts).
 * - Answers are made in several turns of the event loop: artifacts and their texts first, a block at a time. The last
 *   turn compares the values again, and starts over in one go if one of them changed meanwhile. So an answer shows one
 *   state of the database.
 */
import { createLru } from "../domain/lru.ts";
import type { Lru } from "../domain/lru.ts";
import { nextTurn } from "../http/next-turn.ts";
import { charactersOf, createRepresentation } from "../http/representation.ts";
import type { Representation } from "../http/operation.ts";
import type { ChangeCounts } from "../store/environments/snapshot-pages.ts";
import type { Store } from "../store/index.ts";
import { collectKeys, presentHead, readShared } from "./present-snapshot.ts";
import type { SharedKeys, SnapshotPlace } from "./present-snapshot.ts";
import type { PresenterContext } from "./presenter-context.ts";
import {
  MAX_BLOCK_SIZE,
  cutIntoBlocks,
  indexBlocks,
  isSame,
  makeBlock,
  mergeKeys,
  valuesOfBlock,
  valuesOfHead,
} from "./snapshot-blocks.ts";
import type { Block, Values } from "./snapshot-blocks.ts";
import { listKeys, listParts, listRows, readRows } from "./snapshot-rows.ts";
import type { Part, Row } from "./snapshot-rows.ts";

/** Two snapshots of a thousand artifacts. */
const MAX_KEPT_BYTES = 12 << 20;

/** Environments whose latest kept answer is known. */
const MAX_LATEST = 1_000;

/** A snapshot without its head. `values`: what the head shows and may change. */
type Made = {
  parts: readonly Part[];
  keys: SharedKeys;
  values: Values;
  blocks: readonly Block[];
};

type Kept = {
  /** The bytes of its blocks are slices of the representation. */
  made: Made;
  /** Characters of all values. */
  weight: number;
  /** The latest state of the database in which the values were these. */
  state: ChangeCounts;
  representation: Representation;
};

type Answers = {
  kept: Lru<string, Kept>;
  /** What is being made, by the keys of `kept`, one after the other: each may take as much memory as its answer. */
  making: Map<string, Promise<Made>>;
  last: Promise<unknown>;
  /** The key in `kept` of the snapshot of an environment that was made last. */
  latest: Lru<string, string>;
};
const answersByStore = new WeakMap<Store, Answers>();

function answersOf({ store }: PresenterContext): Answers {
  let answers = answersByStore.get(store);
  if (!answers) {
    const kept = createLru<string, Kept>({ maxEntries: 100, maxWeight: MAX_KEPT_BYTES });
    const latest = createLru<string, string>({ maxEntries: MAX_LATEST });
    answersByStore.set(store, (answers = { kept, making: new Map(), last: Promise.resolve(), latest }));
  }
  return answers;
}

const placeOf = ({ urls, organization }: PresenterContext, { environment }: SnapshotPlace): string =>
  `${organization.id} ${environment.id} ${urls.root}`;
const nameOf = (context: PresenterContext, place: SnapshotPlace): string =>
  `${place.snapshot.idx} ${placeOf(context, place)}`;

/** Others take a few milliseconds, and are made anew each time. */
const isLarge = ({ snapshot }: SnapshotPlace): boolean =>
  snapshot.compliant_count + snapshot.non_compliant_count + snapshot.unknown_count > MAX_BLOCK_SIZE;

/**
 * Makes a large snapshot in several turns.
 * @returns null for one that is small, or whose answer is kept
 */
export async function makeSnapshot(context: PresenterContext, place: SnapshotPlace): Promise<Made | null> {
  if (!isLarge(place) || findKept(context, place)) return null;
  const answers = answersOf(context);
  const name = nameOf(context, place);
  const running = answers.making.get(name);
  if (running) return running;
  const made = answers.last.then(() => makeInTurns(context, place)).finally(() => answers.making.delete(name));
  answers.making.set(name, made);
  answers.last = made.catch(() => undefined);
  return made;
}

/**
 * The answer that shows a whole snapshot as it is now. Call it in one transaction.
 * @param made what `makeSnapshot` returned for this snapshot; it may be outdated
 */
export function answerSnapshot(context: PresenterContext, place: SnapshotPlace, made: Made | null): Representation {
  const kept = findKept(context, place);
  if (kept) return kept;
  const current = made && isCurrent(context, place, made) ? made : makeAtOnce(context, place);
  const { representation, blocks } = assemble(context, place, current);
  if (!isLarge(place)) return representation;
  const values = [current.values, ...blocks.map((block) => block.values)].flat();
  keep(context, place, {
    made: { ...current, blocks },
    weight: values.reduce<number>((sum, value) => sum + (typeof value === "string" ? value.length : 8), 0),
    state: context.store.snapshotPages.state(),
    representation,
  });
  answersOf(context).latest.set(placeOf(context, place), nameOf(context, place));
  return representation;
}

function keep(context: PresenterContext, place: SnapshotPlace, kept: Kept): void {
  answersOf(context).kept.set(nameOf(context, place), kept, kept.weight + charactersOf(kept.representation));
}

/** The kept answer, if all that it shows is still so. */
function findKept(context: PresenterContext, place: SnapshotPlace): Representation | null {
  const kept = answersOf(context).kept.get(nameOf(context, place));
  if (!kept) return null;
  const state = context.store.snapshotPages.state();
  if (state.own !== kept.state.own || state.others !== kept.state.others) {
    // Another process may have done anything, also repaired a damaged record.
    if (state.others !== kept.state.others || !isCurrent(context, place, kept.made)) return null;
    kept.state = state;
  }
  // It grew if a client accepted gzip since.
  keep(context, place, kept);
  return kept.representation;
}

/** Whether everything that it shows is still so. */
function isCurrent(context: PresenterContext, place: SnapshotPlace, { keys, values, blocks }: Made): boolean {
  const shared = readShared(context, keys);
  const parts = listParts(context, place.environment, place.snapshot);
  const byEnvironment = new Map(parts.map((part) => [part.environment.id, part]));
  return (
    isSame(values, valuesOfHead(shared, place, parts)) &&
    blocks.every((block) => {
      const part = byEnvironment.get(block.environmentId);
      return part !== undefined && isSame(block.values, valuesOfBlock(shared, part, block.keys));
    })
  );
}

/** Blocks of the answer that was made last for this environment. */
function findEarlierBlocks(context: PresenterContext, place: SnapshotPlace): readonly Block[] {
  const { latest, kept } = answersOf(context);
  const name = latest.get(placeOf(context, place));
  return (name === undefined ? undefined : kept.get(name)?.made.blocks) ?? [];
}

async function makeInTurns(context: PresenterContext, place: SnapshotPlace): Promise<Made> {
  const parts = listParts(context, place.environment, place.snapshot);
  const findEarlier = indexBlocks(findEarlierBlocks(context, place));
  const plans: { part: Part; ids: readonly number[]; earlier: Block | null; rows: Row[] }[] = [];
  for (const part of parts)
    for (const ids of cutIntoBlocks(listKeys(context, part))) {
      const earlier = findEarlier(part, ids);
      if (!earlier) await nextTurn();
      plans.push({ part, ids, earlier, rows: earlier ? [] : readRows(context, part, ids) });
    }
  await nextTurn();
  const keys = mergeKeys([
    collectKeys(parts, []),
    ...plans.map(({ earlier, rows }) => earlier?.keys ?? collectKeys([], rows)),
  ]);
  const shared = readShared(context, keys);
  const values = valuesOfHead(shared, place, parts);
  const blocks: Block[] = [];
  for (const { part, ids, earlier, rows } of plans) {
    const isReused = earlier && isSame(earlier.values, valuesOfBlock(shared, part, earlier.keys));
    if (isReused) blocks.push({ ...earlier, index: part.snapshot.idx, hasChanges: part.hasChanges });
    else {
      await nextTurn();
      blocks.push(makeBlock(shared, part, earlier ? readRows(context, part, ids) : rows));
    }
  }
  return { parts, keys, values, blocks };
}

function makeAtOnce(context: PresenterContext, place: SnapshotPlace): Made {
  const parts = listParts(context, place.environment, place.snapshot);
  const rowsByPart = parts.map((part) => ({ part, rows: listRows(context, part) }));
  const keys = collectKeys(
    parts,
    rowsByPart.flatMap(({ rows }) => rows),
  );
  const shared = readShared(context, keys);
  const blocks = rowsByPart.flatMap(({ part, rows }) => {
    const byId = new Map(rows.map((row) => [row.row.id, row]));
    return cutIntoBlocks([...byId.keys()]).map((ids) =>
      makeBlock(
        shared,
        part,
        ids.map((id) => byId.get(id) as Row),
      ),
    );
  });
  return { parts, keys, values: valuesOfHead(shared, place, parts), blocks };
}

/** The answer, and the blocks with slices of it. */
function assemble(
  context: PresenterContext,
  place: SnapshotPlace,
  { parts, keys, blocks }: Made,
): { representation: Representation; blocks: Block[] } {
  const shared = readShared(context, { ...keys, artifactIds: [], deploymentIds: [], flowIds: [] });
  const failing = blocks.flatMap((block) => block.failing);
  const head = Buffer.from(presentHead(shared, place, { parts, failing, pagination: null }));
  const pieces = blocks.flatMap(({ bytes }, index) => (index === 0 ? [bytes] : [COMMA, bytes]));
  const text = Buffer.concat([head, ...pieces, END]);
  let end = head.length - COMMA.length;
  const sliced = blocks.map((block) => {
    const start = end + COMMA.length;
    end = start + block.bytes.length;
    return { ...block, bytes: text.subarray(start, end) };
  });
  const representation = createRepresentation(text, Buffer.concat([head, ...blocks.map(({ digest }) => digest)]));
  return { representation, blocks: sliced };
}

const COMMA = Buffer.from(",");
const END = Buffer.from("]}");
