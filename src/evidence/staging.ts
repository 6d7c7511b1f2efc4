// Where content waits between its upload and its publication. Most evidence is a few kilobytes and much of what is
// uploaded is never kept (a validation error, a second upload of the same file), so small content stays in memory and
// meets the disk for the first time when it is published. What is larger, or comes when too much memory is held
// already, goes to a file while it is received.
//
// Invariants: the hash covers the very bytes that are written (blocks are copied, a source may reuse its buffers); a
// file in the staging directory belongs to exactly one entry of this process or to a dead process; nothing in the
// staging directory is worth keeping over a restart.
import { hash } from "node:crypto";
import { constants, existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { removeIfPresent, writeAll } from "./disk.ts";
import type { Disk } from "./disk.ts";
import { TooLargeError } from "./errors.ts";
import { inlineHasher } from "./hashing.ts";
import type { ContentHash, Hasher } from "./hashing.ts";

/** Content that was received whole and waits for `publish` or `discard`. `size` in bytes, `digest` SHA-256 in hex. */
export type Staged = { readonly digest: string; readonly size: number; readonly token: string };

export type Staging = {
  receive(source: AsyncIterable<Buffer> | Readable, limit: number): Promise<Staged>;
  /** Takes the entry out of staging: its file is now the caller's. Null when the token is not (or no longer) known. */
  take(token: string): StagedEntry | null;
  /** Makes the content durable, then renames it to `target`. Consumes the entry; on failure its file is gone. */
  move(entry: StagedEntry, target: string): Promise<void>;
  /** The path of the file of an entry that is not in memory. */
  pathOf(entry: StagedEntry): string;
  /** Forgets an entry that was taken, with its file. */
  drop(entry: StagedEntry): Promise<void>;
  /** Drops every entry nobody took. */
  close(): Promise<void>;
  /** Removes what a dead process left in the directory and returns the number of files. Entries of this one stay. */
  sweep(): Promise<number>;
};

/** Content in memory, or the descriptor of its file, which is `token` in the staging directory. */
export type StagedEntry = Staged & { readonly content: Buffer | number };

/** Up to this many bytes stay in memory: typical evidence is 1 to 100 KB, and one write of this size is one call. */
const MAX_IN_MEMORY_BYTES = 128 * 1024;

/**
 * The most memory that waiting content may hold, in bytes: 128 uploads of the largest held size at once. Beyond it
 * small uploads take the way of large ones, slower but safe.
 */
const MAX_TOTAL_IN_MEMORY_BYTES = 16 * 1024 * 1024;

/** Bytes per write of a large upload: enough that the calls do not count, little enough per concurrent upload. */
const BLOCK_BYTES = 256 * 1024;

const CREATE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;

/** A file that nobody will ever write again, also not its owner by accident. */
const FILE_MODE = 0o400;

/** Manages `directory`, which must exist. `ids` gives names that are unique over processes (they become file names). */
export function createStaging({
  directory,
  ids,
  disk,
  hashing = inlineHasher,
}: {
  directory: string;
  ids: () => string;
  disk: Disk;
  hashing?: Hasher;
}): Staging {
  const entries = new Map<string, StagedEntry>();
  const names = new Set<string>();
  let held = 0;

  async function receive(source: AsyncIterable<Buffer> | Readable, limit: number): Promise<Staged> {
    const upload = createUpload();
    try {
      let size = 0;
      // Left alone, leaving the loop would destroy a stream with an error of its own, which would be taken for the
      // reason.
      const chunks = source instanceof Readable ? source.iterator({ destroyOnReturn: false }) : source;
      for await (const chunk of chunks as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > limit) throw new TooLargeError(limit);
        await upload.add(chunk);
      }
      const entry = await upload.finish();
      entries.set(entry.token, entry);
      return { digest: entry.digest, size: entry.size, token: entry.token };
    } catch (error) {
      await upload.abandon();
      if (source instanceof Readable) source.destroy();
      throw error;
    }
  }

  function createUpload() {
    const token = ids();
    const path = join(directory, token);
    let chunks: Buffer[] = [];
    let size = 0;
    let large: { fd: number; hash: ContentHash; block: Buffer; filled: number } | null = null;

    /** Moves from memory to a file. The chunks so far are the beginning of the first block (HELD_LIMIT < BLOCK). */
    async function spill(): Promise<NonNullable<typeof large>> {
      names.add(token);
      const fd = await disk.open(path, CREATE_FLAGS, FILE_MODE);
      const block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
      let filled = 0;
      for (const chunk of chunks) filled += chunk.copy(block, filled);
      forgetChunks();
      return { fd, hash: hashing.begin(), block, filled };
    }

    function forgetChunks(): void {
      for (const chunk of chunks) held -= chunk.length;
      chunks = [];
    }

    async function writeBlock(to: NonNullable<typeof large>): Promise<void> {
      await writeAll(disk, to.fd, to.block.subarray(0, to.filled));
      to.block = await to.hash.update(to.block, to.filled);
      to.filled = 0;
    }

    return {
      async add(chunk: Buffer): Promise<void> {
        if (
          large === null &&
          size + chunk.length <= MAX_IN_MEMORY_BYTES &&
          held + chunk.length <= MAX_TOTAL_IN_MEMORY_BYTES
        ) {
          // A copy: the chunk may be a few bytes of a large socket buffer, which it would keep alive.
          chunks.push(Buffer.from(chunk));
          held += chunk.length;
          size += chunk.length;
          return;
        }
        size += chunk.length;
        large ??= await spill();
        for (let from = 0; from < chunk.length; ) {
          const part = chunk.subarray(from, from + BLOCK_BYTES - large.filled);
          large.block.set(part, large.filled);
          large.filled += part.length;
          from += part.length;
          if (large.filled === BLOCK_BYTES) await writeBlock(large);
        }
      },

      async finish(): Promise<StagedEntry> {
        if (large !== null) {
          if (large.filled > 0) await writeBlock(large);
          return { token, size, digest: await large.hash.digest(), content: large.fd };
        }
        const content = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, size);
        return { token, size, digest: hash("sha256", content), content };
      },

      async abandon(): Promise<void> {
        forgetChunks();
        if (large !== null) {
          large.hash.abandon();
          await disk.close(large.fd).catch(() => {});
          await removeQuietly(path);
        }
        names.delete(token);
      },
    };
  }

  async function drop(entry: StagedEntry): Promise<void> {
    const { content } = entry;
    if (Buffer.isBuffer(content)) held -= content.length;
    else {
      await disk.close(content);
      await removeIfPresent(disk, join(directory, entry.token));
      names.delete(entry.token);
    }
  }

  async function move(entry: StagedEntry, target: string): Promise<void> {
    const { content, token } = entry;
    const path = join(directory, token);
    names.add(token);
    try {
      // O_DSYNC makes the one write durable by itself: a call less than write and fdatasync.
      const fd = Buffer.isBuffer(content)
        ? await disk.open(path, CREATE_FLAGS | constants.O_DSYNC, FILE_MODE)
        : content;
      try {
        try {
          if (Buffer.isBuffer(content)) await writeAll(disk, fd, content);
          else await disk.fdatasync(fd);
        } finally {
          await disk.close(fd);
        }
        await disk.rename(path, target);
      } catch (error) {
        await removeQuietly(path);
        throw error;
      }
    } finally {
      names.delete(token);
      if (Buffer.isBuffer(content)) held -= content.length;
    }
  }

  /** Cleans up behind a failure, which must not be hidden by a second one: the next start sweeps what stays. */
  async function removeQuietly(path: string): Promise<void> {
    await removeIfPresent(disk, path).catch(() => {});
  }

  return {
    receive,
    move,
    drop,
    pathOf: ({ token }) => join(directory, token),
    take(token) {
      const entry = entries.get(token) ?? null;
      entries.delete(token);
      return entry;
    },
    async close() {
      const left = [...entries.values()];
      entries.clear();
      await Promise.all(left.map(drop));
    },
    async sweep() {
      let removed = 0;
      for (const name of await disk.readdir(directory)) {
        if (names.has(name)) continue;
        await removeIfPresent(disk, join(directory, name));
        removed += 1;
      }
      return removed;
    },
  };
}

/**
 * The files in a staging directory, whoever they belong to; none where there is no such directory. `modifiedAt` in
 * epoch seconds.
 */
export function listStaged(directory: string): { name: string; size: number; modifiedAt: number }[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .sort()
    .flatMap((name) => {
      const found = statSync(join(directory, name), { throwIfNoEntry: false });
      return found ? [{ name, size: found.size, modifiedAt: found.mtimeMs / 1000 }] : [];
    });
}
