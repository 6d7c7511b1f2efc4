import type { Db } from "./types.ts";

/** Characters that are kept at most; texts are what counts, a holder of a key stands for a few hundred. */
const MAX_CHARS = 4 << 20;

export type ReadCache = {
  /**
   * Looks whether anything was written, and forgets everything if so. @returns the state of the database, for `keep`:
   * whatever is read from now on is of this state or a later one.
   */
  refresh(): number;
  /** What the latest `refresh` gave. */
  readonly state: number;
  /**
   * What was kept; undefined when nothing was. Only right after `refresh`, before the event loop does anything else.
   */
  get(key: string): unknown;
  /**
   * Keeps what was read after a `refresh` that gave `state`, if that still is the state. `characters`: about how large
   * it is, without its key.
   */
  keep(key: string, value: unknown, characters: number, state: number): void;
};

export function createReadCache(db: Db): ReadCache {
  // Rows that this connection ever changed, and a number that changes with every commit of any other connection.
  const ours = db.prepare<[], number>("SELECT total_changes()").pluck();
  const others = db.prepare<[], number>("PRAGMA data_version").pluck();
  const kept = new Map<string, unknown>();
  let characters = 0;
  let [seenOurs, seenOthers] = [-1, -1];
  let state = 0;

  function forget(): void {
    kept.clear();
    characters = 0;
  }

  return {
    get state() {
      return state;
    },
    refresh() {
      const [nowOurs, nowOthers] = [ours.get() as number, others.get() as number];
      if (nowOurs === seenOurs && nowOthers === seenOthers) return state;
      [seenOurs, seenOthers] = [nowOurs, nowOthers];
      forget();
      return (state += 1);
    },
    get: (key) => kept.get(key),
    keep(key, value, size, of) {
      // Callers choose the texts of keys too: a name in a path may have a hundred thousand characters.
      const whole = key.length + size;
      if (of !== state || whole > MAX_CHARS) return;
      if (characters + whole > MAX_CHARS) forget();
      kept.set(key, value);
      characters += whole;
    },
  };
}
