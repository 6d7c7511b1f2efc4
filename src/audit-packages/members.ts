/**
 * The members of a package while it is put together: their content in one spool, their list in another, so that memory
 * does not grow with either. The order in which they are added is the order in the archive, behind those that are put
 * at its front.
 */
import { createHash } from "node:crypto";
import { openSpool } from "./spool.ts";
import type { Spool } from "./spool.ts";

/**
 * `sha256` in hex. `mtime`: epoch seconds, null for the time of the package. `at`: where in the spool, null for
 * evidence, whose digest is its address.
 */
export type PackageMember = { name: string; size: number; sha256: string; mtime: number | null; at: number | null };

export type Members = {
  /** Adds a member of that text. */
  text(name: string, pieces: Iterable<string>): void;
  json(name: string, value: unknown): void;
  /** Adds a JSON list, one item after the other. */
  list(name: string, items: Iterable<unknown>): void;
  bytes(name: string, bytes: Uint8Array): void;
  /** Adds an attached file. */
  evidence(file: { name: string; digest: string; size: number; mtime: number }): void;
  /** Members that `add` adds stand before all that are there. */
  putInFront(add: () => void): void;
  /** All members in the order of the archive. */
  all(): Generator<PackageMember, void, undefined>;
  /** The content of a member that is not evidence. */
  content(member: PackageMember): Iterable<Uint8Array>;
  close(): void;
};

const SCRATCH = 64 * 1024;

/** @param path gives the paths of two files that do not exist */
export function createMembers(path: (name: string) => string): Members {
  const contents = openSpool(path("contents"));
  const list = beside(contents, () => openSpool(path("list")));
  const scratch = Buffer.allocUnsafeSlow(SCRATCH);
  let front: PackageMember[] = [];
  let collected: PackageMember[] | null = null;

  function enter(member: PackageMember): void {
    if (collected) collected.push(member);
    else list.write(Buffer.from(`${JSON.stringify(member)}\n`));
  }

  /**
   * UTF-8 in memory that is used again: a new buffer for each of a hundred thousand records would pile up until V8
   * looks.
   */
  function encoded(text: string): Uint8Array {
    if (text.length * 3 > scratch.length) return Buffer.from(text);
    return scratch.subarray(0, scratch.write(text));
  }

  function add(name: string, pieces: Iterable<string | Uint8Array>): void {
    const hash = createHash("sha256");
    const at = contents.size;
    for (const piece of pieces) {
      const bytes = typeof piece === "string" ? encoded(piece) : piece;
      hash.update(bytes);
      contents.write(bytes);
    }
    enter({ name, size: contents.size - at, sha256: hash.digest("hex"), mtime: null, at });
  }

  return {
    text: add,
    json: (name, value) => add(name, [JSON.stringify(value, null, 2), "\n"]),
    list: (name, items) => add(name, withEnd(jsonList(items))),
    bytes: (name, bytes) => add(name, [bytes]),
    evidence: ({ name, digest, size, mtime }) => enter({ name, size, sha256: digest, mtime, at: null }),
    putInFront(fill) {
      collected = [];
      fill();
      front = [...collected, ...front];
      collected = null;
    },
    *all() {
      yield* front;
      for (const line of linesOf(list.read(0, list.size))) yield JSON.parse(line) as PackageMember;
    },
    content: ({ at, size }) => (at === null ? [] : contents.read(at, at + size)),
    close() {
      contents.close();
      list.close();
    },
  };
}

/** Opens a second spool; without it the first one is of no use. */
function beside(first: Spool, open: () => Spool): Spool {
  try {
    return open();
  } catch (error) {
    first.close();
    throw error;
  }
}

/** The pieces of a list as JSON that people can read. */
export function* jsonList(items: Iterable<unknown>): Generator<string> {
  let separator = "[\n";
  for (const item of items) {
    yield separator;
    yield indented(JSON.stringify(item, null, 2));
    separator = ",\n";
  }
  yield separator === "[\n" ? "[]" : "\n]";
}

/** The pieces of an object whose last property is a list. */
export function* jsonWithList(value: object, name: string, items: Iterable<unknown>): Generator<string> {
  yield `${JSON.stringify(value, null, 2).slice(0, -"\n}".length)},\n  ${JSON.stringify(name)}: `;
  yield* jsonList(items);
  yield "\n}\n";
}

function* withEnd(pieces: Iterable<string>): Generator<string> {
  yield* pieces;
  yield "\n";
}

/**
 * Two spaces before each line: a line break within a text is escaped in JSON, so that each one here separates lines.
 */
const indented = (json: string): string => `  ${json.replaceAll("\n", "\n  ")}`;

function* linesOf(blocks: Iterable<Uint8Array>): Generator<string> {
  let rest = Buffer.alloc(0);
  for (const block of blocks) {
    let start = 0;
    const bytes = Buffer.concat([rest, block]);
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
      yield bytes.toString("utf8", start, end);
      start = end + 1;
    }
    rest = bytes.subarray(start);
  }
}
