import type { TagFilter } from "../store/db/tags.ts";
import type { OperationContext } from "./context.ts";

/** A `tag` filter as conditions: `key` or `key:value` (semantics 8.3). Keys hold no colon, so the first one divides. */
export function tagFilters(values: readonly string[] | undefined): TagFilter[] {
  return (values ?? []).map((text) => {
    const colon = text.indexOf(":");
    return colon === -1 ? { key: text, value: null } : { key: text.slice(0, colon), value: text.slice(colon + 1) };
  });
}

/**
 * Keys of the policies of these names, each once, in the order given. @throws AppError not_found for the first that
 * does not exist (messages 9).
 */
export const policyKeys = ({ store, organization }: OperationContext, names: readonly string[]): number[] => [
  ...new Set(names.map((name) => store.policies.require(organization, name).id)),
];

/** Whether a `space_id` filter names a space: an id that is empty or null filters nothing (semantics 1.7). */
export const isSpaceFilter = (ids: readonly string[] | undefined): boolean =>
  (ids ?? []).some((id) => id !== "" && id !== "null");

/** What the audit entry of an archived environment or flow tells of actions. */
export const archivedWith = ({ changed, deleted }: { changed: readonly number[]; deleted: readonly number[] }) => ({
  ...(changed.length > 0 ? { actions_changed: changed } : {}),
  ...(deleted.length > 0 ? { actions_deleted: deleted } : {}),
});
