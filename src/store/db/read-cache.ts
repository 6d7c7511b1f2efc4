/** Answers in memory, each until something that it depends on changes (versions.ts). */
import { createLru } from "../../domain/lru.ts";
import type { Dependency, Versions } from "./versions.ts";

/**
 * Total size of keys and values. Texts dominate. Enough for the verdicts of a thousand releases in all scopes: those
 * that pipelines and admission webhooks ask for again and again take 3 to 10 KB each.
 */
const MAX_CHARS = 12 << 20;
/** Entries of few characters: each costs more memory than they have. */
const MAX_ENTRIES = 20_000;

type ReadCache = {
  /** The version of what is read from now on, for `set`. Call it before `get`, in the same turn of the event loop. */
  version(): number;
  /** The cached value if it is current, else undefined. */
  get(key: string): unknown;
  /**
   * Caches a value.
   * @param options.chars approximate size of the value, without its key
   * @param options.version the result of `version` before anything of the value was read
   * @param options.dependsOn the trails and artifacts whose changes may change the value; those of any other table do
   */
  set(key: string, value: unknown, options: { chars: number; version: number; dependsOn: readonly Dependency[] }): void;
};

/** @param maxChars total size of keys and values, in characters */
export function createReadCache(versions: Pick<Versions, "latest" | "isCurrent">, maxChars = MAX_CHARS): ReadCache {
  type Entry = { value: unknown; version: number; dependsOn: readonly Dependency[] };
  const entries = createLru<string, Entry>({ maxEntries: MAX_ENTRIES, maxWeight: maxChars });
  return {
    version: versions.latest,
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      if (versions.isCurrent(entry.dependsOn, entry.version)) return entry.value;
      entries.delete(key);
      return undefined;
    },
    set(key, value, { chars, version, dependsOn }) {
      // Clients choose keys too: a name in a path may have a hundred thousand characters.
      entries.set(key, { value, version, dependsOn }, key.length + chars);
    },
  };
}
