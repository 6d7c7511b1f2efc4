import type { Db } from "../../src/store/db/types.ts";

/** Methods that run a statement, and those that return the same statement in another mode. */
const RUNS = new Set(["run", "get", "all", "iterate"]);
const MODES = new Set(["pluck", "raw", "expand", "safeIntegers", "bind"]);

export type Watcher = {
  /** The `watch` option of startServer. */
  watch(db: Db): Db;
  /** The distinct texts of all statements that ran during `work`. */
  during(work: () => Promise<unknown>): Promise<string[]>;
};

export function createWatcher(): Watcher {
  let seen: Set<string> | null = null;
  const watched = (statement: object, sql: string): object =>
    new Proxy(statement, {
      get(target, name) {
        const value = Reflect.get(target, name) as unknown;
        if (typeof value !== "function") return value;
        if (MODES.has(name as string))
          return (...args: unknown[]) => watched((value as (...args: unknown[]) => object).apply(target, args), sql);
        if (RUNS.has(name as string))
          return (...args: unknown[]) => {
            seen?.add(sql);
            return (value as (...args: unknown[]) => unknown).apply(target, args);
          };
        return (value as (...args: unknown[]) => unknown).bind(target);
      },
    });
  return {
    watch: (db) =>
      new Proxy(db, {
        get(target, name) {
          const value = Reflect.get(target, name) as unknown;
          if (typeof value !== "function") return value;
          if (name === "prepare") return (sql: string) => watched(target.prepare(sql), sql);
          return (value as (...args: unknown[]) => unknown).bind(target);
        },
      }) as Db,
    async during(work) {
      seen = new Set();
      try {
        await work();
        return [...seen];
      } finally {
        seen = null;
      }
    },
  };
}
