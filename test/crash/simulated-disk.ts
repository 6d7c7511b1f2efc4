// Simulates a disk after a power cut. Reads the trace that record-disk.c wrote, and keeps for each file and directory
// what was synced and what was only in memory. It guarantees what POSIX guarantees and no more: syncing a file makes
// its content durable but not its name, syncing a directory makes its names durable but not the content behind them,
// and anything that was not synced may be kept or lost.
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** The record kinds of record-disk.c. */
const KINDS = [
  "",
  "create",
  "mkdir",
  "write",
  "truncate",
  "sync_begin",
  "sync_end",
  "rename",
  "link",
  "unlink",
  "rmdir",
  "extend",
  "write_through",
  "unknown",
] as const;
const HEAD_BYTES = 4 + 1 + 8 + 8 + 2 + 2;
const SECTOR_BYTES = 512;

type Change = { kind: (typeof KINDS)[number]; file: bigint; at: bigint; path: string; other: string; bytes: Buffer };

/** A change of content: bytes at an offset, or a new size. `number` orders all changes of a trace. */
type ContentChange = { number: number } & (
  | { kind: "write"; at: number; bytes: Buffer }
  | { kind: "truncate" | "extend"; size: number }
);
/** An atomic change of names in one directory. null: the name is removed. */
type NameChange = { number: number; names: readonly (readonly [name: string, node: Node | null])[] };

class File {
  content: Buffer = Buffer.alloc(0);
  pending: ContentChange[] = [];
}
class Directory {
  names = new Map<string, Node>();
  pending: NameChange[] = [];
  /** The names as the running program sees them. */
  live = new Map<string, Node>();
}
type Node = File | Directory;

/** Which unsynced changes are lost: all, none, those after a moment, or any of them, by sector and by name. */
export type Loss = "all" | "nothing" | "the newest" | "any part";
export const LOSSES: readonly Loss[] = ["all", "nothing", "the newest", "any part"];

/** Whether the disk only pretends to sync a path: for testing that the checks detect the loss. */
export type Pretends = (path: string) => boolean;

export type Disk = ReturnType<typeof simulateDisk>;

/**
 * The disk after the first `bytes` of a trace.
 * @param root the recorded directory, as named in the trace
 * @param base a copy of the disk when the trace began, all of it durable, and its original inodes
 * @throws Error for a change that the simulation does not support
 */
export function simulateDisk({
  trace,
  bytes = trace.length,
  root,
  base,
  pretends,
}: {
  trace: Buffer;
  bytes?: number;
  root: string;
  base: { path: string; inodes: ReadonlyMap<string, bigint> };
  pretends?: Pretends;
}) {
  const top = new Directory();
  const byInode = new Map<bigint, Node>();
  const begun = new Map<bigint, number>();
  const own = base.inodes.get("");
  if (own !== undefined) byInode.set(own, top);
  load(top, base.path);
  let number = 0;
  for (let at = 0; at + HEAD_BYTES <= bytes; ) {
    const size = trace.readUInt32LE(at);
    if (at + size > bytes) break;
    apply(read(trace, at, size));
    at += size;
  }

  function load(directory: Directory, path: string): void {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      const place = join(path, entry.name);
      const node = entry.isDirectory() ? new Directory() : new File();
      if (node instanceof Directory) load(node, place);
      else node.content = readFileSync(place);
      directory.names.set(entry.name, node);
      directory.live.set(entry.name, node);
      const inode = base.inodes.get(relative(base.path, place));
      if (inode !== undefined) byInode.set(inode, node);
    }
  }

  function parentOf(path: string): { directory: Directory; name: string } {
    const names = relative(root, path).split("/");
    const name = names.pop() as string;
    let node: Node | undefined = top;
    for (const one of names) node = node instanceof Directory ? node.live.get(one) : undefined;
    if (!(node instanceof Directory)) throw new Error(`the trace names ${path} in a directory that was never made`);
    return { directory: node, name };
  }

  function fileOf(change: Change): File {
    const node = byInode.get(change.file);
    if (!(node instanceof File))
      throw new Error(`the trace has a ${change.kind} of inode ${change.file}, which was never made`);
    return node;
  }

  function rename(directory: Directory, names: NameChange["names"]): void {
    for (const [name, node] of names) {
      if (node) directory.live.set(name, node);
      else directory.live.delete(name);
    }
    directory.pending.push({ number, names });
  }

  function apply(change: Change): void {
    number += 1;
    const { kind, file, path, other } = change;
    const at = Number(change.at);
    switch (kind) {
      case "create":
      case "mkdir": {
        const node = kind === "mkdir" ? new Directory() : new File();
        byInode.set(file, node);
        if (path === "") return;
        const place = parentOf(path);
        rename(place.directory, [[place.name, node]]);
        return;
      }
      case "link": {
        const place = parentOf(path);
        rename(place.directory, [[place.name, fileOf(change)]]);
        return;
      }
      case "unlink":
      case "rmdir": {
        const place = parentOf(path);
        rename(place.directory, [[place.name, null]]);
        return;
      }
      case "rename": {
        const from = parentOf(path);
        const to = parentOf(other);
        const node = from.directory.live.get(from.name);
        if (!node) throw new Error(`the trace renames ${path}, which was never made`);
        if (from.directory === to.directory) {
          rename(from.directory, [
            [from.name, null],
            [to.name, node],
          ]);
          return;
        }
        rename(from.directory, [[from.name, null]]);
        rename(to.directory, [[to.name, node]]);
        return;
      }
      case "write":
      case "write_through": {
        const node = fileOf(change);
        if (kind === "write" || pretends?.(pathOf(node)))
          node.pending.push({ number, kind: "write", at, bytes: change.bytes });
        else node.content = written(node.content, at, change.bytes);
        return;
      }
      case "truncate":
      case "extend":
        return void fileOf(change).pending.push({ number, kind, size: at });
      case "sync_begin":
        return void begun.set(change.at, number);
      case "sync_end": {
        const node = byInode.get(file);
        const since = begun.get(change.at);
        if (!node || since === undefined)
          throw new Error(`the trace has a sync of inode ${file}, which was never made`);
        if (!pretends?.(pathOf(node))) sync(node, since);
        return;
      }
      default:
        throw new Error(`the trace has a change that the simulation does not know: ${kind} ${path} ${other}`);
    }
  }

  /** The current path of a node below the root, as the program sees it; empty where it has no name. */
  function pathOf(node: Node): string {
    const find = (directory: Directory, path: string): string | null => {
      for (const [name, one] of directory.live) {
        if (one === node) return `${path}/${name}`;
        const below = one instanceof Directory ? find(one, `${path}/${name}`) : null;
        if (below !== null) return below;
      }
      return null;
    };
    return node === top ? "/" : (find(top, "") ?? "");
  }

  return {
    /** Writes what survives a power cut into a new directory. @param random yields seeded numbers from 0 to 1 */
    writeTo(target: string, loss: Loss, random: () => number): void {
      const newest = loss === "the newest" ? Math.floor(random() * (number + 1)) : Infinity;
      const keeps = (change: { number: number }): boolean => {
        if (loss === "all") return false;
        return loss === "the newest" ? change.number <= newest : true;
      };
      const done = new Set<Directory>();
      const write = (directory: Directory, path: string): void => {
        if (done.has(directory)) return;
        done.add(directory);
        mkdirSync(path, { mode: 0o700, recursive: true });
        const names = new Map(directory.names);
        // Changes of one name keep their order; those of different names are kept or lost in any combination.
        const lost = new Set<string>();
        for (const change of directory.pending.filter(keeps)) {
          if (loss === "any part" && (change.names.some(([name]) => lost.has(name)) || random() < 0.5))
            for (const [name] of change.names) lost.add(name);
          else set(names, change);
        }
        for (const [name, node] of names) {
          if (node instanceof Directory) write(node, join(path, name));
          else
            writeFileSync(join(path, name), contentOf(node, keeps, loss === "any part" ? random : null), {
              mode: 0o600,
            });
        }
      };
      write(top, target);
    },
  };
}

function contentOf(file: File, keeps: (change: ContentChange) => boolean, random: (() => number) | null): Buffer {
  let content = file.content;
  for (const change of file.pending.filter(keeps)) {
    if (random === null) content = changed(content, change);
    else if (change.kind !== "write") content = random() < 0.5 ? changed(content, change) : content;
    else
      for (const part of sectorsOf(change.at, change.bytes))
        if (random() < 0.5) content = written(content, part.at, part.bytes);
  }
  return content;
}

/** The parts of a write that a disk writes atomically. */
function* sectorsOf(at: number, bytes: Buffer): Generator<{ at: number; bytes: Buffer }> {
  for (let done = 0; done < bytes.length; ) {
    const end = Math.min(bytes.length, done + SECTOR_BYTES - ((at + done) % SECTOR_BYTES));
    yield { at: at + done, bytes: bytes.subarray(done, end) };
    done = end;
  }
}

const changed = (content: Buffer, change: ContentChange): Buffer => {
  if (change.kind === "write") return written(content, change.at, change.bytes);
  if (change.kind === "extend" && change.size <= content.length) return content;
  return sized(content, change.size);
};

/** A copy, so that no two images share bytes. */
function written(content: Buffer, at: number, bytes: Buffer): Buffer {
  const whole = sized(content, Math.max(content.length, at + bytes.length));
  bytes.copy(whole, at);
  return whole;
}

function sized(content: Buffer, size: number): Buffer {
  const whole = Buffer.alloc(size);
  content.copy(whole, 0, 0, Math.min(size, content.length));
  return whole;
}

function sync(node: Node, since: number): void {
  if (node instanceof Directory) {
    for (const change of node.pending) if (change.number <= since) set(node.names, change);
    node.pending = node.pending.filter((change) => change.number > since);
    return;
  }
  const due = node.pending.filter((change) => change.number <= since);
  const size = due.reduce(
    (most, change) => (change.kind === "write" ? Math.max(most, change.at + change.bytes.length) : most),
    node.content.length,
  );
  // One copy for all writes, unless there is a change of the size between them.
  let content = due.every(({ kind }) => kind === "write") ? sized(node.content, size) : node.content;
  for (const change of due) {
    if (change.kind === "write" && change.at + change.bytes.length <= content.length && content !== node.content)
      change.bytes.copy(content, change.at);
    else content = changed(content, change);
  }
  node.content = content;
  node.pending = node.pending.filter((change) => change.number > since);
}

function set(names: Map<string, Node>, { names: changes }: NameChange): void {
  for (const [name, node] of changes) {
    if (node) names.set(name, node);
    else names.delete(name);
  }
}

function read(trace: Buffer, at: number, size: number): Change {
  const pathAt = at + HEAD_BYTES;
  const otherAt = pathAt + trace.readUInt16LE(at + 21);
  const bytesAt = otherAt + trace.readUInt16LE(at + 23);
  return {
    kind: KINDS[trace.readUInt8(at + 4)] ?? "unknown",
    file: trace.readBigUInt64LE(at + 5),
    at: trace.readBigUInt64LE(at + 13),
    path: trace.toString("utf8", pathAt, otherAt),
    other: trace.toString("utf8", otherAt, bytesAt),
    bytes: trace.subarray(bytesAt, at + size),
  };
}

/** Path -> inode below a directory (its own path: empty), for the disk before a trace begins. */
export function inodesOf(path: string): Map<string, bigint> {
  const inodes = new Map<string, bigint>();
  for (const name of ["", ...readdirSync(path, { recursive: true, encoding: "utf8" })])
    inodes.set(name, statSync(join(path, name), { bigint: true }).ino);
  return inodes;
}

/** Path -> content of every file below a directory. */
export function filesOf(path: string): Map<string, Buffer> {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(
    files.map((entry) => [
      relative(path, join(entry.parentPath, entry.name)),
      readFileSync(join(entry.parentPath, entry.name)),
    ]),
  );
}

/** The source of record-disk.so. */
export const RECORDER_SOURCE = join(dirname(import.meta.filename), "record-disk.c");
