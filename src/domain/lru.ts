/**
 * A bounded cache that evicts the least recently used entry first. Every bounded cache of the server is one of these,
 * so that all of them evict alike. One whose entries end with a change is a read cache (store/db/read-cache.ts).
 */
export type Lru<Key, Value> = {
  readonly size: number;
  /** The value, which becomes the most recently used one; undefined when there is none. */
  get(key: Key): Value | undefined;
  /**
   * Stores a value and replaces an earlier one under the key. An entry that outweighs the whole cache is not stored;
   * an earlier value under its key is removed all the same.
   * @param weight in the unit of `maxWeight`; 0 where only entries are counted
   */
  set(key: Key, value: Value, weight?: number): void;
  /** All entries, least recently used first; iterating does not count as use. */
  entries(): IterableIterator<[Key, Value]>;
  /** Removes an entry; unknown keys are ignored. */
  delete(key: Key): void;
  clear(): void;
};

/**
 * @param maxEntries most entries in the cache
 * @param maxWeight largest sum of the weights of all entries, in the caller's unit (characters, bytes); unlimited by
 *   default
 */
export function createLru<Key, Value>({
  maxEntries,
  maxWeight = Number.POSITIVE_INFINITY,
}: {
  maxEntries: number;
  maxWeight?: number;
}): Lru<Key, Value> {
  // A Map iterates in insertion order, so the first entry is the least recently used one.
  const entries = new Map<Key, { value: Value; weight: number }>();
  let total = 0;

  function remove(key: Key): void {
    total -= entries.get(key)?.weight ?? 0;
    entries.delete(key);
  }

  return {
    get size() {
      return entries.size;
    },
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      entries.delete(key);
      entries.set(key, entry);
      return entry.value;
    },
    set(key, value, weight = 0) {
      remove(key);
      if (weight > maxWeight) return;
      entries.set(key, { value, weight });
      total += weight;
      for (const oldest of entries.keys()) {
        if (entries.size <= maxEntries && total <= maxWeight) break;
        remove(oldest);
      }
    },
    *entries() {
      for (const [key, { value }] of entries) yield [key, value];
    },
    delete: remove,
    clear() {
      entries.clear();
      total = 0;
    },
  };
}
