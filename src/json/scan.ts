/**
 * Scans the bytes of JSON before they are parsed: counts the values that parsing would create and how deep they nest.
 * Parsing needs up to seventy bytes of heap for each value, however short its text, so a limit on bytes alone would let
 * three bytes (`{},`) become sixty-four.
 *
 * The scan does not decide what is valid JSON; the parser does, and stops at the first mistake. Up to there the scan
 * counts exactly, so never less than the parser creates. It takes one to three nanoseconds a byte, and 128 KB unless
 * the text is too short to have too many different keys.
 */

/** Far deeper than any real report, far below what a recursive serialiser survives. */
export const MAX_JSON_DEPTH = 128;

/** Levels that the path of a nesting problem includes. */
export const MAX_PATH_KEYS = 12;

export type ScanProblem =
  /** Too many values in total, too many objects and lists, too many scalars. */
  | { kind: "values" }
  | { kind: "containers" }
  | { kind: "scalars" }
  /** Too many keys in one object. */
  | { kind: "keys" }
  /** Too many different keys in all objects together. */
  | { kind: "names" }
  /**
   * Nested deeper than MAX_JSON_DEPTH. `path` is the start of the way there: indices in lists, byte offsets of keys.
   */
  | { kind: "depth"; path: (number | { key: number })[] };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;

/** Kinds of bytes outside strings. Unknown bytes count as part of a number or word; the parser will refuse them. */
const SCALAR = 0;
const BLANK = 1;
const TEXT = 2;
const OPEN = 3;
const CLOSE = 4;
const NEXT = 5;
const KINDS = new Uint8Array(256).fill(SCALAR);
for (const byte of " \t\r\n:") KINDS[byte.charCodeAt(0)] = BLANK;
KINDS[QUOTE] = TEXT;
for (const byte of "[{") KINDS[byte.charCodeAt(0)] = OPEN;
for (const byte of "]}") KINDS[byte.charCodeAt(0)] = CLOSE;
KINDS[0x2c] = NEXT;

/** FNV-1a, 32 bits. */
const FNV_START = 0x811c9dc5;
const FNV_PRIME = 0x01000193;
const NAME_HASH_BITS = 20;
const NAME_HASHES = 1 << NAME_HASH_BITS;

/** Values of `expects`: the container of a level is a list, or an object whose next string is a value or a key. */
const ITEM = 0;
const VALUE = 1;
const KEY = 2;

/** What a scan accepts at most. */
export type ScanBounds = {
  /** Objects, lists, strings, numbers, words and keys, each counted as one. */
  values: number;
  /** Objects and lists only, which take most of the memory. */
  containers: number;
  /** Strings, numbers and words only, without keys. */
  scalars: number;
  /** Keys of one object: the hash table of a million keys is rebuilt ten times while it grows. */
  keys: number;
  /**
   * Different keys in all objects together, approximately: each new one costs two hundred bytes and more, because it
   * leads to objects with a layout of their own. Keys are compared by a hash of twenty bits, so some are not counted.
   */
  names: number;
};

/** Bytes of the shortest key with its value and the comma: `"":0,`, of which the last one has no comma. */
const MIN_KEY_BYTES = 4;

/** By level, from 1: what comes next, how many elements or properties have ended, and the offset of the latest key. */
type Levels = { expects: Uint8Array; indices: Uint32Array; keyStarts: Float64Array };
const createLevels = (): Levels => ({
  expects: new Uint8Array(MAX_JSON_DEPTH + 1),
  indices: new Uint32Array(MAX_JSON_DEPTH + 1),
  keyStarts: new Float64Array(MAX_JSON_DEPTH + 1),
});
const SHARED_LEVELS = createLevels();

/** Scans a whole text. @returns the scan, with its first problem */
export function scanWhole(bytes: Uint8Array, bounds: ScanBounds): JsonScan & { problem: ScanProblem | null } {
  const scan = new JsonScan(bounds, { length: bytes.length, levels: SHARED_LEVELS });
  return Object.assign(scan, { problem: scan.add(bytes) });
}

type Text = { length?: number; levels?: Levels };

/** The scan of one JSON text, which may arrive in pieces. */
export class JsonScan {
  readonly bounds: ScanBounds;
  /** Values so far, and how many of them are objects and lists. */
  values = 0;
  containers = 0;
  private scalars = 0;
  private depth = 0;
  /** Bytes before the current piece. */
  private offset = 0;
  private inText = false;
  private escaped = false;
  private inScalar = false;
  /** Hash so far of the string that is a key; -1 in any other string. */
  private hash = -1;
  /** A bit for each key hash that occurred; null for a text that cannot have too many. */
  private readonly seen: Uint32Array | null;
  private names = 0;
  private readonly levels: Levels;

  /** Keys so far, in all objects together; a key that its object has already counts again. */
  get keys(): number {
    return this.values - this.containers - this.scalars;
  }

  /** @param text.length bytes of the whole text, if they are known; @param text.levels to use, and to overwrite */
  constructor(bounds: ScanBounds, { length = Number.POSITIVE_INFINITY, levels = createLevels() }: Text = {}) {
    this.bounds = bounds;
    this.levels = levels;
    this.seen = length / MIN_KEY_BYTES <= bounds.names ? null : new Uint32Array(NAME_HASHES / 32);
  }

  /** Scans the next bytes. @returns the first problem, after which nothing more may be added. */
  add(bytes: Uint8Array): ScanProblem | null {
    // Local variables: accessing fields at every byte takes five times as long. One loop for the same reason.
    const { offset, seen } = this;
    const { expects, indices, keyStarts } = this.levels;
    const {
      values: maxValues,
      containers: maxContainers,
      scalars: maxScalars,
      keys: maxKeys,
      names: maxNames,
    } = this.bounds;
    const { length } = bytes;
    let { values, containers, scalars, depth, inText, escaped, inScalar, hash } = this;
    for (let at = 0; at < length; at += 1) {
      if (inText) {
        if (escaped) {
          escaped = false;
          at += 1;
        }
        let byte = 0;
        if (hash === -1) while (at < length && (byte = bytes[at] as number) !== QUOTE) at += byte === BACKSLASH ? 2 : 1;
        else
          while (at < length && (byte = bytes[at] as number) !== QUOTE) {
            hash = Math.imul(hash ^ byte, FNV_PRIME) >>> 0;
            at += byte === BACKSLASH ? 2 : 1;
          }
        if (at < length) {
          inText = false;
          if (seen && hash !== -1 && this.countName(seen, hash) > maxNames) return { kind: "names" };
        } else escaped = at > length;
        continue;
      }
      const byte = bytes[at] as number;
      const kind = KINDS[byte] as number;
      if (kind === SCALAR) {
        if (!inScalar) {
          values += 1;
          scalars += 1;
        }
        inScalar = true;
        continue;
      }
      inScalar = false;
      if (kind === BLANK) continue;
      if (kind === TEXT) {
        values += 1;
        inText = true;
        hash = -1;
        if (expects[depth] === KEY) {
          if (seen) hash = FNV_START;
          expects[depth] = VALUE;
          keyStarts[depth] = offset + at;
        } else scalars += 1;
      } else if (kind === OPEN) {
        values += 1;
        containers += 1;
        depth += 1;
        if (containers > maxContainers) return { kind: "containers" };
        if (depth > MAX_JSON_DEPTH) return { kind: "depth", path: this.path() };
        expects[depth] = byte === OPEN_OBJECT ? KEY : ITEM;
        indices[depth] = 0;
      } else if (kind === CLOSE) {
        if (depth > 0) depth -= 1;
      } else if (depth > 0) {
        const ended = (indices[depth] as number) + 1;
        indices[depth] = ended;
        if (expects[depth] !== ITEM) {
          expects[depth] = KEY;
          if (ended >= maxKeys) return { kind: "keys" };
        }
      }
      if (values > maxValues) return { kind: "values" };
    }
    if (values > maxValues) return { kind: "values" };
    if (scalars > maxScalars) return { kind: "scalars" };
    this.offset = offset + length;
    [this.values, this.containers, this.scalars, this.depth] = [values, containers, scalars, depth];
    [this.inText, this.escaped, this.inScalar, this.hash] = [inText, escaped, inScalar, hash];
    return null;
  }

  /** @returns the number of different keys so far, this one included. */
  private countName(seen: Uint32Array, hash: number): number {
    // The high bits of a product depend on all bits of its factors.
    const name = Math.imul(hash, 0x9e3779b1) >>> (32 - NAME_HASH_BITS);
    const bit = 1 << (name & 31);
    const word = seen[name >>> 5] as number;
    if ((word & bit) === 0) {
      seen[name >>> 5] = word | bit;
      this.names += 1;
    }
    return this.names;
  }

  private path(): (number | { key: number })[] {
    const { expects, indices, keyStarts } = this.levels;
    return Array.from({ length: MAX_PATH_KEYS }, (_, above) =>
      expects[above + 1] === ITEM ? (indices[above + 1] as number) : { key: keyStarts[above + 1] as number },
    );
  }
}
