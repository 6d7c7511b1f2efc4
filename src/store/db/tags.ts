/** Tags: key-value pairs on a resource. Each kind of resource has a table of its own, of the same shape. */
import { invalid } from "../../errors.ts";
import type { Db, DbReader } from "./types.ts";

/** Tags of one resource. Lists return all of them with each resource. */
export const MAX_TAGS = 200;

export type Tags = Record<string, string>;
/** Keys to set, and keys to remove. Removals come first, so a key in both is set. */
export type TagChange = { set: Readonly<Record<string, string>>; remove: readonly string[] };
/** One condition of a tag filter: the key alone (`value` null), or with its exact value. */
export type TagFilter = { key: string; value: string | null };

/** A tag table and its owner column: identifiers of schema.sql, which become part of the statements. */
type TagTable =
  | [table: "flow_tags", owner: "flow_id"]
  | [table: "environment_tags", owner: "environment_id"]
  | [table: "repo_tags", owner: "repo_id"]
  | [table: "control_tags", owner: "control_id"];

/** The tag table of one kind of resource. */
export function tagTable(db: Db, ...[table, owner]: TagTable) {
  const selectAll = db.prepare<[number], { key: string; value: string }>(
    `SELECT key, value FROM ${table} WHERE ${owner} = ? ORDER BY key`,
  );
  const upsert = db.prepare(
    `INSERT INTO ${table} (${owner}, key, value) VALUES (?, ?, ?)
     ON CONFLICT (${owner}, key) DO UPDATE SET value = excluded.value`,
  );
  const count = db.prepare<[number], number>(`SELECT count(*) FROM ${table} WHERE ${owner} = ?`).pluck();
  const remove = db.prepare(`DELETE FROM ${table} WHERE ${owner} = ? AND key = ?`);
  return {
    /** All tags of a resource, ordered by key. */
    get: (id: number): Tags => Object.fromEntries(selectAll.all(id).map(({ key, value }) => [key, value])),
    /**
     * Sets (overwriting) and removes tags; removing an absent key has no effect (semantics 8.3).
     * @throws AppError 400 on `set_tags` when the resource would have more than MAX_TAGS tags and more than before. A
     * resource that an older version left with more may still lose and change some.
     */
    patch(id: number, change: TagChange): void {
      const before = count.get(id) ?? 0;
      for (const key of change.remove) remove.run(id, key);
      for (const [key, value] of Object.entries(change.set)) upsert.run(id, key, value);
      const after = count.get(id) ?? 0;
      if (after > MAX_TAGS && after > before)
        throw invalid({
          set_tags: `A resource should have at most ${MAX_TAGS} tags: with this change it would have ${after}`,
        });
    },
  };
}

/**
 * SQL that is true when the resource `id` (an SQL expression) has every tag of the JSON list bound to `parameter`,
 * whose items are `[key, value or null]` (semantics 13.75). One statement serves any number of filters.
 */
export const hasAllTags = (...[table, owner, id, parameter]: [...TagTable, id: string, parameter: string]): string =>
  `NOT EXISTS (
     SELECT 1 FROM json_each(${parameter}) AS wanted WHERE NOT EXISTS (
       SELECT 1 FROM ${table} AS tag
       WHERE tag.${owner} = ${id} AND tag.key = wanted.value ->> 0
         AND (wanted.value ->> 1 IS NULL OR tag.value = wanted.value ->> 1)
     )
   )`;

/** The JSON list that `hasAllTags` reads. */
export const tagFilterJson = (filters: readonly TagFilter[]): string =>
  JSON.stringify(filters.map(({ key, value }) => [key, value]));

/** A tag that at least one resource has. */
export type TagChoice = { key: string; value: string };

/**
 * Prepares the list of the distinct tags on the resources of an organization, ordered by key and value.
 * @param resources the table of the resources.
 */
export const prepareTagChoices = (
  db: DbReader,
  ...[table, owner, resources]: [...TagTable, resources: "repos" | "controls"]
) =>
  db.prepare<[number], TagChoice>(
    `SELECT DISTINCT tag.key, tag.value FROM ${resources} AS resource JOIN ${table} AS tag ON tag.${owner} = resource.id
     WHERE resource.organization_id = ? ORDER BY tag.key, tag.value`,
  );
