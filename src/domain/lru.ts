/**
 * A bounded cache that evicts entries that were not used since it last looked at them, the oldest first ("second
 * chance", an approximation of least recently used). Every bounded cache of the server is one of these, so that all of
 * them evict alike. One whose entries end with a change is a read cache (store/db/read-cache.ts).
 *
 * Use only marks an entry. Moving it to the end of the map, as an exact order needs, took 5 us of each write, and the
 * map was copied again and again to drop the places that the moves left empty.
 */
export type Lru<Key, Value> = {
  readonly size: number;
  /** The value, which counts as a use; undefined when there is none. */
  get(key: Key): Value | undefined;
  /**
   * Stores a value and replaces an earlier one under the key. An entry that outweighs the whole cache is not stored;
   * an earlier value under its key is removed all the same.
   * @param weight in the unit of `maxWeight`; 0 where only entries are counted
   */
  set(key: Key, value: Value, weight?: number): void;
  /** All entries, in no particular order; iterating does not count as use. */
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
  // A Map iterates in insertion order: eviction begins with the oldest entry, and moves a used one to the end.
  const entries = new Map<Key, Entry<Value>>();
  let total = 0;

  function remove(key: Key): void {
    total -= entries.get(key)?.weight ?? 0;
    entries.delete(key);
  }

  /** Evicts until the others fit beside `latest`. */
  function evict(latest: Entry<Value>): void {
    for (const [key, entry] of entries) {
      if (entries.size <= maxEntries && total <= maxWeight) return;
      if (entry === latest) continue;
      entries.delete(key);
      if (!entry.isUsed) total -= entry.weight;
      else {
        entry.isUsed = false;
        entries.set(key, entry);
      }
    }
  }

  return {
    get size() {
      return entries.size;
    },
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      entry.isUsed = true;
      return entry.value;
    },
    set(key, value, weight = 0) {
      if (weight > maxWeight) {
        remove(key);
        return;
      }
      const known = entries.get(key);
      const entry = known ?? { value, weight: 0, isUsed: false };
      total += weight - entry.weight;
      entry.value = value;
      entry.weight = weight;
      if (known) entry.isUsed = true;
      else entries.set(key, entry);
      evict(entry);
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

/** `isUsed`: since it was added, or since eviction last passed it. */
type Entry<Value> = { value: Value; weight: number; isUsed: boolean };
