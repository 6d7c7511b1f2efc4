// A store in a fresh directory, and a disk that reports its calls and can be stopped between any two of them.
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { disk as realDisk } from "../../src/evidence/disk.ts";
import type { Disk } from "../../src/evidence/disk.ts";
import { openLocalStore } from "../../src/evidence/local-store.ts";

const roots: string[] = [];

/** Call in `test.after`: removes the directories that the tests of this process created. */
export function removeRoots(): void {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
}

export function givenRoot(below = tmpdir()): string {
  const root = mkdtempSync(join(below, "assay-evidence-"));
  roots.push(root);
  return root;
}

/** A root for large sparse files: in memory a hole costs nothing to read, on disk it fills the page cache. */
export function givenMemoryRoot(): string {
  try {
    return givenRoot("/dev/shm");
  } catch {
    return givenRoot();
  }
}

let lastId = 0;

/** Opens a store below `root`; `files` lists the stored digests, `leftovers` the staging directory. */
export function givenLocalStore({ root = givenRoot(), disk = realDisk }: { root?: string; disk?: Disk } = {}) {
  const directory = join(root, "evidence");
  const staging = join(root, "staging");
  const repaired: string[] = [];
  const onRepair = (digest: string): void => void repaired.push(digest);
  const store = openLocalStore({ directory, staging, ids: () => `upload-${++lastId}`, disk, onRepair });
  return {
    /** The digests of damaged files that were replaced. */
    repaired,
    root,
    directory,
    staging,
    store,
    pathOf: (digest: string) => join(directory, digest.slice(0, 2), digest.slice(2)),
    files: () =>
      readdirSync(directory).flatMap((shard) => readdirSync(join(directory, shard)).map((name) => shard + name)),
    leftovers: () => readdirSync(staging),
    async put(content: Buffer) {
      const staged = await store.stage(chunks(content), { limit: content.length });
      await store.publish([staged]);
      return staged.digest;
    },
  };
}

/** The content as a source of pieces of `size` bytes that reuse one buffer, as a careless source would. */
export async function* chunks(content: Buffer, size = 1000): AsyncGenerator<Buffer> {
  const shared = Buffer.alloc(size);
  for (let from = 0; from < content.length; from += size) {
    yield shared.subarray(0, content.copy(shared, 0, from, from + size));
  }
}

/** Bytes that depend on `seed` and never repeat in a way that hides a misplaced block. */
export function contentOf(size: number, seed = 0): Buffer {
  const content = Buffer.alloc(size);
  let state = seed + 1;
  for (let at = 0; at < size; at += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    content[at] = state >>> 24;
  }
  return content;
}

export function digestOf(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

/**
 * A disk, the real one by default, that awaits `before` ahead of every call, such as "rename staging/upload-1 ->
 * evidence/ab/cd". A call fails with what `before` throws.
 */
export function interceptedDisk(root: string, before: (call: string) => void | Promise<void>, disk = realDisk): Disk {
  const opened = new Map<number, string>();
  const show = (value: unknown) =>
    typeof value === "number" ? (opened.get(value) ?? `descriptor ${value}`) : relative(root, String(value));
  const intercepted = Object.entries(disk).map(([name, call]) => {
    const run = call as (...args: unknown[]) => Promise<unknown>;
    return [
      name,
      async (...args: unknown[]) => {
        await before(name === "rename" ? `rename ${show(args[0])} -> ${show(args[1])}` : `${name} ${show(args[0])}`);
        const result = await run(...args);
        if (name === "open") opened.set(result as number, show(args[0]));
        return result;
      },
    ];
  });
  return Object.fromEntries(intercepted) as Disk;
}

/** A promise and the function that resolves it. */
export function gate(): { passed: Promise<void>; open: () => void } {
  let open: () => void = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

/** The error of a promise that must reject. */
export async function rejection(promise: Promise<unknown>): Promise<Error & { code?: string }> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  throw new Error("expected a rejection");
}
