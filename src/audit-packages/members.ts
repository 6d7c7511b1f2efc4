/**
 * The members of a package while it is assembled: one spool holds their content, another their list, so memory does not
 * grow with either. They keep the order in which they were added, after the members that were put in front.
 */
import { createHash } from "node:crypto";
import { hasMembers, readStoredJson } from "../domain/stored-json.ts";
import { indentJson } from "../json/text.ts";
import { openSpool } from "../store/spool.ts";
import type { Spool } from "../store/spool.ts";

/**
 * `sha256` in hex. `mtime`: epoch seconds, null for the time of the package. `offset`: position in the spool, null for
 * evidence, which is read by its digest.
 */
type PackageMember = { name: string; size: number; sha256: string; mtime: number | null; offset: number | null };

export type Members = {
  /** Adds a text member. */
  text(name: string, pieces: Iterable<string>): void;
  json(name: string, value: unknown): void;
  /** Adds a JSON list, written item by item. */
  list(name: string, items: Iterable<unknown>): void;
  bytes(name: string, bytes: Uint8Array): void;
  /** Adds an attached file. */
  evidence(file: { name: string; digest: string; size: number; mtime: number }): void;
  /** Puts the members that `addMembers` adds in front of all earlier ones. */
  prepend(addMembers: () => void): void;
  /** All members in archive order. */
  all(): Generator<PackageMember, void, undefined>;
  /** The content of a member other than evidence. */
  content(member: PackageMember): Iterable<Uint8Array>;
  close(): void;
};

const ENCODE_BUFFER_BYTES = 64 * 1024;

const isPackageMember = hasMembers<PackageMember>("name", "size", "sha256", "mtime", "offset");

/** @param pathFor returns paths of files that do not exist yet; two are opened */
export function createMembers(pathFor: (name: string) => string): Members {
  const contents = openSpool(pathFor("contents"));
  const list = openOrClose(contents, () => openSpool(pathFor("list")));
  const encodeBuffer = Buffer.allocUnsafeSlow(ENCODE_BUFFER_BYTES);
  let front: PackageMember[] = [];
  let prepending: PackageMember[] | null = null;

  function register(member: PackageMember): void {
    if (prepending) prepending.push(member);
    else list.write(Buffer.from(`${JSON.stringify(member)}\n`));
  }

  /**
   * UTF-8 in reused memory: a new buffer for each of a hundred thousand records would pile up until V8 collects them.
   */
  function encode(text: string): Uint8Array {
    if (text.length * 3 > encodeBuffer.length) return Buffer.from(text);
    return encodeBuffer.subarray(0, encodeBuffer.write(text));
  }

  function add(name: string, pieces: Iterable<string | Uint8Array>): void {
    const hash = createHash("sha256");
    const offset = contents.size;
    for (const piece of pieces) {
      const bytes = typeof piece === "string" ? encode(piece) : piece;
      hash.update(bytes);
      contents.write(bytes);
    }
    register({ name, size: contents.size - offset, sha256: hash.digest("hex"), mtime: null, offset });
  }

  return {
    text: add,
    json: (name, value) => add(name, [indentJson(value), "\n"]),
    list: (name, items) => add(name, withNewline(stringifyList(items))),
    bytes: (name, bytes) => add(name, [bytes]),
    evidence: ({ name, digest, size, mtime }) => register({ name, size, sha256: digest, mtime, offset: null }),
    prepend(addMembers) {
      prepending = [];
      addMembers();
      front = [...prepending, ...front];
      prepending = null;
    },
    *all() {
      yield* front;
      for (const line of splitLines(list.read(0, list.size))) yield readStoredJson(line, isPackageMember);
    },
    content: ({ offset, size }) => (offset === null ? [] : contents.read(offset, offset + size)),
    close() {
      contents.close();
      list.close();
    },
  };
}

/** Opens the second of two spools; when that fails, closes the first. */
function openOrClose(first: Spool, open: () => Spool): Spool {
  try {
    return open();
  } catch (error) {
    first.close();
    throw error;
  }
}

/** The pieces of an indented JSON list. */
export function* stringifyList(items: Iterable<unknown>): Generator<string> {
  let separator = "[\n";
  for (const item of items) {
    yield separator;
    yield indent(indentJson(item));
    separator = ",\n";
  }
  yield separator === "[\n" ? "[]" : "\n]";
}

/** The pieces of an indented JSON object whose last property `name` is a list. */
export function* stringifyWithList(value: object, name: string, items: Iterable<unknown>): Generator<string> {
  yield `${indentJson(value).slice(0, -"\n}".length)},\n  ${JSON.stringify(name)}: `;
  yield* stringifyList(items);
  yield "\n}\n";
}

function* withNewline(pieces: Iterable<string>): Generator<string> {
  yield* pieces;
  yield "\n";
}

/** Indents each line by two spaces. JSON escapes line breaks in texts, so every one here separates lines. */
const indent = (json: string): string => `  ${json.replaceAll("\n", "\n  ")}`;

const NEWLINE = 10;

function* splitLines(blocks: Iterable<Uint8Array>): Generator<string> {
  let rest = Buffer.alloc(0);
  for (const block of blocks) {
    let start = 0;
    const bytes = Buffer.concat([rest, block]);
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      yield bytes.toString("utf8", start, end);
      start = end + 1;
    }
    rest = bytes.subarray(start);
  }
}
