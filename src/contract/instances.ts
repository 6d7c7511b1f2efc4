/** The instances of an artifact: one image may run in a hundred thousand pods. */
import type { Instances } from "../domain/snapshot/normalize.ts";
import { StoredJsonError, hasMembers } from "../domain/stored-json.ts";
import { JsonText, itemsOf, keysOf } from "../json/text.ts";
import { replaceStubs, unlimitedAllowance } from "./large-json.ts";
import type { PresenterContext } from "./presenter-context.ts";
import { readStoredMembers } from "./reported-json.ts";

/** Instances of which each part may be a text that is not parsed. */
export type ShownInstances = { [Part in keyof Instances]: Instances[Part] | JsonText };

const hasStarts = hasMembers<ShownInstances>("created");

/**
 * The instances of a row of snapshot_artifacts, however many there are.
 * @throws StoredJsonError, or Error, for a damaged record; LargeAnswerError
 */
export function readInstances(context: PresenterContext, row: { id: number; instances_json: string }): ShownInstances {
  const allowance = unlimitedAllowance(context);
  const { instances_json: stored } = replaceStubs(context, row, { table: "snapshot_artifacts", allowance });
  const instances = readStoredMembers(stored, hasStarts);
  if (!Array.isArray(instances.created) && !(instances.created instanceof JsonText))
    throw new StoredJsonError("the starts of instances are not a list");
  return context.answerBounds?.isForPage ? { created: firstKnown(startsOf(instances)) } : instances;
}

/** The earliest start that the reporter knew: what pages show of all instances. */
function firstKnown(starts: Iterable<number>): number[] {
  for (const start of starts) if (start > 0) return [start];
  return [];
}

/** When the instances started, epoch seconds, ascending. */
export const startsOf = ({ created }: ShownInstances): Iterable<number> => itemsOf(created) as Iterable<number>;

/** The earliest start; undefined without instances. */
export function firstStartOf(instances: ShownInstances): number | undefined {
  for (const start of startsOf(instances)) return start;
  return undefined;
}

/** The names of pods; none for other types. */
export const podNamesOf = ({ pods }: ShownInstances): readonly string[] => keysOf(pods);
