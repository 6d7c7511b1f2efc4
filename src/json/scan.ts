/**
 * Looks at the bytes of JSON before it is parsed: counts the values it would become and how deep they nest. Parsing
 * needs up to seventy bytes of heap for each value, however short its text is, so a limit on bytes alone lets three
 * bytes (`{},`) become sixty-four.
 *
 * The scan never decides what is valid JSON: the parser does, and stops where the text goes wrong. Up to there the scan
 * counts exactly, and so never less than the parser makes. It takes one to three nanoseconds a byte and 128 KB.
 */

/** Nesting beyond this is refused: far beyond any real report, far below what a recursive serialiser survives. */
export const MAX_JSON_DEPTH = 128;

/** Levels for which the scan remembers where it is, to name the place of what nests too deep. */
export const MAX_PATH_KEYS = 12;

export type ScanProblem =
  /** More values, or more objects and lists among them, than allowed. */
  | { kind: "values" }
  | { kind: "containers" }
  | { kind: "scalars" }
  /** More keys in one object than allowed. */
  | { kind: "keys" }
  /** More different keys in all objects together than allowed. */
  | { kind: "names" }
  /**
   * Nested deeper than MAX_JSON_DEPTH. `path` is the beginning of the place: indices in lists, and at which byte a key
   * begins.
   */
  | { kind: "depth"; path: (number | { key: number })[] };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;

/**
 * What a byte outside of texts is. Everything unknown counts as part of a number or word, which the parser then
 * refuses.
 */
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

/** In `expects`: the container of a level is a list, or an object whose next text is a value or a key. */
const ITEM = 0;
const VALUE = 1;
const KEY = 2;

/** The most that a scan lets through. */
export type ScanBounds = {
  /** Objects, lists, texts, numbers, words and keys, each counted as one. */
  values: number;
  /** Objects and lists alone, which take most of the memory. */
  containers: number;
  /** Texts, numbers and words alone, keys not among them. */
  scalars: number;
  /** Keys of one object: a table of a million is built anew ten times over while it grows. */
  keys: number;
  /**
   * Different keys in all objects together, about: each new one costs two hundred bytes and more, because it makes
   * objects that resemble no others. They are told apart by a hash of twenty bits, so that some are not counted.
   */
  names: number;
};

/** The scan of one text, which may come in pieces. */
export class JsonScan {
  readonly bounds: ScanBounds;
  /** Values so far, and objects and lists among them. */
  values = 0;
  containers = 0;
  private scalars = 0;
  private depth = 0;
  /** Bytes before the piece that is being scanned. */
  private offset = 0;
  private inText = false;
  private escaped = false;
  private inScalar = false;
  /** Of the text that is a key: its hash so far; -1 within any other. */
  private hash = -1;
  /** Bits of the hashes that occurred. */
  private readonly seen = new Uint32Array(NAME_HASHES / 32);
  private names = 0;
  /** By level, from 1: what comes next, how many elements or properties ended, and where the latest key began. */
  private readonly expects = new Uint8Array(MAX_JSON_DEPTH + 1);
  private readonly indices = new Uint32Array(MAX_JSON_DEPTH + 1);
  private readonly keyStarts = new Float64Array(MAX_JSON_DEPTH + 1);

  constructor(bounds: ScanBounds) {
    this.bounds = bounds;
  }

  /** Scans the next bytes. @returns the first problem; nothing more may be added after one. */
  add(bytes: Uint8Array): ScanProblem | null {
    // Local variables: reading and writing fields at every byte takes five times as long.
    const { expects, indices, keyStarts, offset } = this;
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
          if (hash !== -1 && this.countName(hash) > maxNames) return { kind: "names" };
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
          hash = FNV_START;
          expects[depth] = VALUE;
          keyStarts[depth] = offset + at;
        } else scalars += 1;
      } else if (kind === OPEN) {
        values += 1;
        containers += 1;
        depth += 1;
        if (containers > maxContainers) return { kind: "containers" };
        if (depth > MAX_JSON_DEPTH) return { kind: "depth", path: this.place() };
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

  /** @returns how many different keys there were, this one included. */
  private countName(hash: number): number {
    // The high bits of a product depend on all bits of what was multiplied.
    const name = Math.imul(hash, 0x9e3779b1) >>> (32 - NAME_HASH_BITS);
    const bit = 1 << (name & 31);
    const word = this.seen[name >>> 5] as number;
    if ((word & bit) === 0) {
      this.seen[name >>> 5] = word | bit;
      this.names += 1;
    }
    return this.names;
  }

  private place(): (number | { key: number })[] {
    return Array.from({ length: MAX_PATH_KEYS }, (_, above) =>
      this.expects[above + 1] === ITEM
        ? (this.indices[above + 1] as number)
        : { key: this.keyStarts[above + 1] as number },
    );
  }
}
