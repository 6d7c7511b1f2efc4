/**
 * The artifacts of a whole snapshot in blocks: texts that are made in one turn of the event loop, and used again for
 * later snapshots. Stored rows of artifacts never change (store/environments/snapshots.ts). So a text is right as long
 * as the records of others that it shows have the values with which it was made.
 */
import { hash } from "node:crypto";
import { encodeUtf8 } from "../http/response.ts";
import { collectKeys, presentSnapshotArtifacts } from "./present-snapshot.ts";
import type { SharedKeys, SnapshotContext, SnapshotPlace } from "./present-snapshot.ts";
import { listFailing } from "./snapshot-rows.ts";
import type { FailingArtifact, Part, Row } from "./snapshot-rows.ts";

/** All that is shown and that may change. */
export type Values = readonly unknown[];

export type Block = {
  /** The environment that reported these artifacts, and the snapshot of it in which they were read. */
  environmentId: number;
  index: number;
  /** As of the part: whether changes of that snapshot are shown, and whether there are any. */
  hasChanges: boolean;
  showsChanges: boolean;
  /** Whether a row is damaged: it may have been repaired since. */
  isDamaged: boolean;
  ids: readonly number[];
  /** The JSON texts of the artifacts with commas between them, and their SHA-256. */
  bytes: Buffer;
  digest: Buffer;
  keys: SharedKeys;
  values: Values;
  failing: readonly FailingArtifact[];
};

/** Two to four milliseconds of work. */
export const MAX_BLOCK_SIZE = 100;

/**
 * Cuts a list of artifacts into blocks. Where it cuts depends on the ids and not on their positions, so an artifact
 * that comes or goes changes the blocks beside it only.
 */
export function cutIntoBlocks(ids: readonly number[]): number[][] {
  const blocks: number[][] = [];
  let block: number[] = [];
  for (const id of ids) {
    block.push(id);
    if (block.length < MAX_BLOCK_SIZE && id % 64 !== 0) continue;
    blocks.push(block);
    block = [];
  }
  if (block.length > 0) blocks.push(block);
  return blocks;
}

/** @param rows artifacts of one part */
export function makeBlock(shared: SnapshotContext, part: Part, rows: readonly Row[]): Block {
  const bytes = encodeUtf8(presentSnapshotArtifacts(shared, rows));
  const keys = collectKeys([], rows);
  return {
    environmentId: part.environment.id,
    index: part.snapshot.idx,
    hasChanges: part.hasChanges,
    showsChanges: part.hasChanges && rows.some(({ row }) => row.first_index === part.snapshot.idx),
    isDamaged: rows.some(({ stored }) => stored === null),
    ids: rows.map(({ row }) => row.id),
    bytes,
    digest: hash("sha256", bytes, "buffer"),
    keys,
    values: valuesOfBlock(shared, part, keys),
    failing: listFailing(rows),
  };
}

/** Finds blocks with the same artifacts among `blocks`, by the part and the ids. */
export function indexBlocks(blocks: readonly Block[]): (part: Part, ids: readonly number[]) => Block | null {
  const byFirst = new Map(blocks.map((block) => [`${block.environmentId} ${block.ids[0]}`, block]));
  return (part, ids) => {
    const found = byFirst.get(`${part.environment.id} ${ids[0]}`);
    return found && isUsableFor(found, part) && isSame(found.ids, ids) ? found : null;
  };
}

/** Whether a block shows artifacts as they are in that snapshot: as its changes, or as unchanged. */
const isUsableFor = ({ index, hasChanges, showsChanges, isDamaged }: Block, { snapshot, ...part }: Part): boolean =>
  !isDamaged && (index === snapshot.idx ? hasChanges === part.hasChanges : index < snapshot.idx && !showsChanges);

/** All that the texts of a block show and that may change: everything but its artifacts and their evaluations. */
export function valuesOfBlock(shared: SnapshotContext, part: Part, keys: SharedKeys): Values {
  const values: unknown[] = [shared.organization.name, part.memberName];
  const add = (row: object | undefined): void => {
    if (row) for (const value of Object.values(row)) values.push(value);
    else values.push(null);
  };
  for (const id of keys.flowIds) values.push(shared.flowNames.get(id));
  for (const id of keys.artifactIds) add(shared.records.get(id));
  for (const id of keys.deploymentIds) {
    const replaced = shared.replaced.get(id);
    add(replaced);
    values.push(replaced && shared.findFingerprints(part.environment).has(replaced.fingerprint));
  }
  return values;
}

/** The same of a snapshot without its artifacts. */
export function valuesOfHead(
  { organization, policies }: SnapshotContext,
  { environment, snapshot }: SnapshotPlace,
  parts: readonly Part[],
): Values {
  const values: unknown[] = [organization.name, snapshot.idx];
  for (const { id, name, type, snapshot_count } of [environment, ...parts.map((part) => part.environment)])
    values.push(id, name, type, snapshot_count);
  for (const row of policies.values()) for (const value of Object.values(row)) values.push(value);
  return values;
}

export const isSame = (values: Values, others: Values): boolean =>
  values.length === others.length && values.every((value, index) => value === others[index]);

export function mergeKeys(all: readonly SharedKeys[]): SharedKeys {
  const union = (name: keyof SharedKeys): number[] => [...new Set(all.flatMap((keys) => keys[name]))];
  return {
    artifactIds: union("artifactIds"),
    deploymentIds: union("deploymentIds"),
    flowIds: union("flowIds"),
    policyVersionIds: union("policyVersionIds"),
  };
}
