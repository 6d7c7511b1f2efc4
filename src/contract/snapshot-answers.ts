/**
 * Whole snapshots as answers. A snapshot of a thousand artifacts has megabytes of JSON, takes tens of milliseconds to
 * make, and is read again and again. So for large ones:
 *
 * - Answers are kept. What a snapshot itself says never changes once it is made (store/environments/snapshots.ts). What
 *   it says about other records can change: an answer is kept with all of these values, and sent again only while they
 *   are the same.
 * - Answers are made in several turns of the event loop: artifacts and their texts first, a block at a time. The last
 *   turn compares the values again, and starts over in one go if one of them changed meanwhile. So an answer shows one
 *   state of the database.
 */
import { hash } from "node:crypto";
import { createLru } from "../domain/lru.ts";
import type { Lru } from "../domain/lru.ts";
import { nextTurn } from "../http/next-turn.ts";
import { charactersOf, createRepresentation } from "../http/representation.ts";
import type { Representation } from "../http/operation.ts";
import { encodeUtf8 } from "../http/response.ts";
import type { ChangeCounts } from "../store/environments/snapshot-pages.ts";
import type { Store } from "../store/index.ts";
import { collectKeys, presentSnapshotArtifacts, presentHead, readShared } from "./present-snapshot.ts";
import type { SharedKeys, SnapshotContext, SnapshotPlace } from "./present-snapshot.ts";
import type { PresenterContext } from "./presenter-context.ts";
import { listKeys, listParts, listRows, readRows } from "./snapshot-rows.ts";
import type { Part, Row } from "./snapshot-rows.ts";

/** Artifacts whose texts are made in one turn: two to four milliseconds. */
const BLOCK_SIZE = 100;

/** Two snapshots of a thousand artifacts. */
const MAX_KEPT_BYTES = 12 << 20;

/** The JSON text of up to BLOCK_SIZE artifacts, with commas between them. */
type Block = { bytes: Buffer; digest: Buffer };

/** A snapshot without its head. `values`: all that it shows and that may change. */
type Made = {
  parts: readonly Part[];
  rows: readonly Row[];
  keys: SharedKeys;
  values: Values;
  blocks: readonly Block[];
};
type Values = readonly unknown[];

type Kept = {
  keys: SharedKeys;
  values: Values;
  /** Characters of the values. */
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
};
const answersByStore = new WeakMap<Store, Answers>();

function answersOf({ store }: PresenterContext): Answers {
  let answers = answersByStore.get(store);
  if (!answers) {
    const kept = createLru<string, Kept>({ maxEntries: 100, maxWeight: MAX_KEPT_BYTES });
    answersByStore.set(store, (answers = { kept, making: new Map(), last: Promise.resolve() }));
  }
  return answers;
}

const nameOf = ({ urls, organization }: PresenterContext, { environment, snapshot }: SnapshotPlace): string =>
  `${organization.id} ${environment.id} ${snapshot.idx} ${urls.root}`;

/** Others take a few milliseconds, and are made anew each time. */
const isLarge = ({ snapshot }: SnapshotPlace): boolean =>
  snapshot.compliant_count + snapshot.non_compliant_count + snapshot.unknown_count > BLOCK_SIZE;

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
  const representation = assemble(context, place, current);
  if (!isLarge(place)) return representation;
  keep(context, place, {
    keys: current.keys,
    values: current.values,
    weight: current.values.reduce<number>((sum, value) => sum + (typeof value === "string" ? value.length : 8), 0),
    state: context.store.snapshotPages.state(),
    representation,
  });
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
    if (state.others !== kept.state.others || !isSame(kept.values, readValues(context, place, kept.keys))) return null;
    kept.state = state;
  }
  // It grew if a client accepted gzip since.
  keep(context, place, kept);
  return kept.representation;
}

const isCurrent = (context: PresenterContext, place: SnapshotPlace, { keys, values }: Made): boolean =>
  isSame(values, readValues(context, place, keys));

const isSame = (values: Values, others: Values): boolean =>
  values.length === others.length && values.every((value, index) => value === others[index]);

async function makeInTurns(context: PresenterContext, place: SnapshotPlace): Promise<Made> {
  const parts = listParts(context, place.environment, place.snapshot);
  const rows: Row[] = [];
  for (const part of parts)
    for (const ids of inBlocks(listKeys(context, part))) {
      await nextTurn();
      for (const row of readRows(context, part, ids)) rows.push(row);
    }
  await nextTurn();
  const keys = collectKeys(parts, rows);
  const shared = readShared(context, keys);
  const values = valuesOf(shared, place, parts);
  const blocks: Block[] = [];
  for (const block of inBlocks(rows)) {
    await nextTurn();
    blocks.push(makeBlock(shared, block));
  }
  return { parts, rows, keys, values, blocks };
}

function makeAtOnce(context: PresenterContext, place: SnapshotPlace): Made {
  const parts = listParts(context, place.environment, place.snapshot);
  const rows = parts.flatMap((part) => listRows(context, part));
  const keys = collectKeys(parts, rows);
  const shared = readShared(context, keys);
  const blocks = inBlocks(rows).map((block) => makeBlock(shared, block));
  return { parts, rows, keys, values: valuesOf(shared, place, parts), blocks };
}

function inBlocks<T>(items: readonly T[]): T[][] {
  const blocks: T[][] = [];
  for (let start = 0; start < items.length; start += BLOCK_SIZE) blocks.push(items.slice(start, start + BLOCK_SIZE));
  return blocks;
}

function makeBlock(shared: SnapshotContext, rows: readonly Row[]): Block {
  const bytes = encodeUtf8(presentSnapshotArtifacts(shared, rows));
  return { bytes, digest: hash("sha256", bytes, "buffer") };
}

function assemble(context: PresenterContext, place: SnapshotPlace, made: Made): Representation {
  const { parts, rows, keys, blocks } = made;
  const policies = { ...keys, artifactIds: [], deploymentIds: [], flowIds: [] };
  const head = Buffer.from(presentHead(readShared(context, policies), place, { parts, rows, pagination: null }));
  const pieces = blocks.flatMap(({ bytes }, index) => (index === 0 ? [bytes] : [COMMA, bytes]));
  return createRepresentation(
    Buffer.concat([head, ...pieces, END]),
    Buffer.concat([head, ...blocks.map(({ digest }) => digest)]),
  );
}

const COMMA = Buffer.from(",");
const END = Buffer.from("]}");

const readValues = (context: PresenterContext, place: SnapshotPlace, keys: SharedKeys): Values =>
  valuesOf(readShared(context, keys), place, listParts(context, place.environment, place.snapshot));

/** All that a snapshot shows and that may change: everything but its artifacts and their evaluations. */
function valuesOf(shared: SnapshotContext, { environment, snapshot }: SnapshotPlace, parts: readonly Part[]): Values {
  const { organization, records, replaced, flowNames, policies } = shared;
  const values: unknown[] = [organization.name, snapshot.idx];
  for (const { id, name, type, snapshot_count } of [environment, ...parts.map((part) => part.environment)])
    values.push(id, name, type, snapshot_count);
  for (const [id, name] of flowNames) values.push(id, name);
  for (const rows of [records, replaced, policies])
    for (const row of rows.values()) for (const value of Object.values(row)) values.push(value);
  return values;
}
