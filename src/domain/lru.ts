/**
 * A bounded cache that evicts the least recently used entry first. Every cache of the server is one of these, so that
 * all of them evict alike; what only a write invalidates is a read cache (store/db/read-cache.ts).
 */
export type Lru<Key, Value> = {
  readonly size: number;
  /** The value, which counts as used from now on; undefined when there is none. */
  get(key: Key): Value | undefined;
  /**
   * Keeps a value in place of an earlier one under the key. An entry that weighs more than the whole cache may is not
   * kept; an earlier value under its key is gone then.
   * @param weight in the unit of `maxWeight`, 0 where entries are counted only
   */
  set(key: Key, value: Value, weight?: number): void;
  /** All entries, the least recently used first; reading them here does not count as use. */
  entries(): IterableIterator<[Key, Value]>;
  /** Forgets an entry; unknown keys are ignored. */
  delete(key: Key): void;
  clear(): void;
};

/**
 * @param maxEntries how many entries are kept at most
 * @param maxWeight sum of the weights of all entries at most; the unit is the caller's (characters, bytes)
 */
export function createLru<Key, Value>({
  maxEntries,
  maxWeight = Number.POSITIVE_INFINITY,
}: {
  maxEntries: number;
  maxWeight?: number;
}): Lru<Key, Value> {
  // A Map iterates in the order of insertion, so the first entry is the least recently used one.
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
