/**
 * A read cache that any write, by any connection, invalidates as a whole. So it needs no rules about which write
 * affects which entry.
 */
import type { Db } from "./types.ts";

/** Total size of keys and values. Texts dominate; a cached key holder counts as a few hundred characters. */
const MAX_CHARS = 4 << 20;

type ReadCache = {
  /**
   * Drops all entries if the database changed since the last call.
   * @returns the current state of the database, for `set`: everything read from now on is of this state or a later one.
   */
  refresh(): number;
  /** The result of the latest `refresh`. */
  readonly state: number;
  /** The cached value, else undefined. Call it right after `refresh`, in the same turn of the event loop. */
  get(key: string): unknown;
  /**
   * Caches a value that was read after a `refresh` that returned `state`, if that still is the state.
   * @param chars approximate size of the value, without its key.
   */
  set(key: string, value: unknown, size: { chars: number; state: number }): void;
};

export function createReadCache(db: Db): ReadCache {
  // The number of rows that this connection ever changed, and a number that changes with every commit of another one.
  const totalChanges = db.prepare<[], number>("SELECT total_changes()").pluck();
  const dataVersion = db.prepare<[], number>("PRAGMA data_version").pluck();
  const entries = new Map<string, unknown>();
  let totalChars = 0;
  let [lastChanges, lastVersion] = [-1, -1];
  let state = 0;

  function clear(): void {
    entries.clear();
    totalChars = 0;
  }

  return {
    get state() {
      return state;
    },
    refresh() {
      const [changes, version] = [totalChanges.get() as number, dataVersion.get() as number];
      if (changes === lastChanges && version === lastVersion) return state;
      [lastChanges, lastVersion] = [changes, version];
      clear();
      return (state += 1);
    },
    get: (key) => entries.get(key),
    set(key, value, { chars, state: readAt }) {
      // Clients choose keys too: a name in a path may have a hundred thousand characters.
      const size = key.length + chars;
      if (readAt !== state || size > MAX_CHARS) return;
      if (totalChars + size > MAX_CHARS) clear();
      entries.set(key, value);
      totalChars += size;
    },
  };
}
