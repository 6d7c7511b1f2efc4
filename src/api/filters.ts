/** Query filters that several resources share. */
import type { TagFilter } from "../store/db/tags.ts";
import type { ReadingContext } from "./context.ts";

/** Parses `tag` filters: `key` or `key:value` (semantics 8.3). Keys contain no colon, so the first one separates. */
export function parseTagFilters(values: readonly string[] | undefined): TagFilter[] {
  return (values ?? []).map((text) => {
    const colon = text.indexOf(":");
    return colon === -1 ? { key: text, value: null } : { key: text.slice(0, colon), value: text.slice(colon + 1) };
  });
}

/**
 * The keys of the named policies, each once, in the given order.
 * @throws AppError not_found for the first one that does not exist (messages 9)
 */
export const requirePolicyIds = ({ store, organization }: ReadingContext, names: readonly string[]): number[] => [
  ...new Set(names.map((name) => store.policies.require(organization, name).id)),
];

/** Whether a `space_id` filter names a space; an empty id and `null` do not filter (semantics 1.7). */
export const hasSpaceFilter = (ids: readonly string[] | undefined): boolean =>
  (ids ?? []).some((id) => id !== "" && id !== "null");

/** Audit detail about the actions that archiving an environment or flow changed and deleted. */
export const archivedActionsDetail = ({
  changed,
  deleted,
}: {
  changed: readonly number[];
  deleted: readonly number[];
}) => ({
  ...(changed.length > 0 ? { actions_changed: changed } : {}),
  ...(deleted.length > 0 ? { actions_deleted: deleted } : {}),
});
