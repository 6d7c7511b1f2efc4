/**
 * Caches of rows that writes read again and again: flows, trails with their facts, series of attestations.
 *
 * Invariants: an entry is used inside a batch of the writer only, and equals what a query would return at that moment.
 * So everything that could make an entry wrong empties all caches: a rollback, a commit of another connection, a change
 * on this connection outside of a batch, and every write that does not promise to keep them right (group-commit.ts).
 */
import type { Db } from "./types.ts";

export type RowCaches = {
  /** Whether entries may be used: a batch is running. */
  readonly areUsable: boolean;
  /**
   * Identifies the transaction that `areUsable` is about: another number whenever one begins; null when entries may not
   * be used. What was read once need not be read again under the same number, because the write lock is held.
   */
  readonly transaction: number | null;
  /** Adds a cache: `clear` drops all its entries. */
  register(cache: { clear(): void }): void;
  /**
   * Work that a batch does once for each key, with the last value, however many of its writes ask for it; what a write
   * asked for is undone with it.
   * @returns how to ask: inside a batch the work follows before the commit, elsewhere at once
   */
  oncePerBatch<Key, Value>(work: (key: Key, value: Value) => void): (key: Key, value: Value) => void;
  /** A batch begins; its transaction holds the write lock. */
  begin(): void;
  /** Does all work that `oncePerBatch` gathered. */
  flush(): void;
  clear(): void;
  /** Runs a write that may change any row. It uses no entry, and none is left after it. */
  bypass<T>(work: () => T): T;
  /** A batch ended, committed or not. */
  end(): void;
};

export function createRowCaches(db: Db): RowCaches {
  // The number of rows that this connection ever changed, and a number that changes with every commit of another one.
  const totalChanges = db.prepare<[], number>("SELECT total_changes()").pluck();
  const dataVersion = db.prepare<[], number>("PRAGMA data_version").pluck();
  const caches: { clear(): void }[] = [];
  const flushes: (() => void)[] = [];
  let [lastChanges, lastVersion] = [-1, -1];
  let areUsable = false;
  let transaction = 0;

  // The writer may have rolled back and begun again.
  function clear(): void {
    transaction += 1;
    for (const cache of caches) cache.clear();
  }

  return {
    get areUsable() {
      return areUsable;
    },
    get transaction() {
      return areUsable ? transaction : null;
    },
    register: (cache) => void caches.push(cache),
    oncePerBatch<Key, Value>(work: (key: Key, value: Value) => void) {
      const due = new Map<Key, Value>();
      caches.push(due);
      flushes.push(() => {
        for (const [key, value] of due) work(key, value);
        due.clear();
      });
      return (key: Key, value: Value) => void (areUsable ? due.set(key, value) : work(key, value));
    },
    begin() {
      const [changes, version] = [totalChanges.get() as number, dataVersion.get() as number];
      if (changes !== lastChanges || version !== lastVersion) clear();
      lastVersion = version;
      transaction += 1;
      areUsable = true;
    },
    flush() {
      for (const work of flushes) work();
    },
    clear,
    bypass(work) {
      clear();
      areUsable = false;
      try {
        return work();
      } finally {
        areUsable = true;
      }
    },
    end() {
      areUsable = false;
      lastChanges = totalChanges.get() as number;
    },
  };
}
