// Where content waits between its upload and its publication. Most evidence is a few kilobytes and much of what is
// uploaded is never kept (a validation error, a second upload of the same file), so small content stays in memory and
// first reaches the disk when it is published. Larger content, and content that arrives while too much memory is in
// use, is written to a file as it is received.
//
// Invariants: the hash covers exactly the bytes that are written (blocks are copied, a source may reuse its buffers); a
// file in the staging directory belongs to exactly one entry of this process or to a dead process; nothing in the
// staging directory has to survive a restart.
import { hash } from "node:crypto";
import { constants, existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { onPath } from "../domain/text/system-errors.ts";
import { removeIfPresent, removeQuietly, writeAll } from "./disk.ts";
import type { Disk } from "./disk.ts";
import { TooLargeError } from "./errors.ts";
import { inlineHasher } from "./hashing.ts";
import type { Hasher } from "./hashing.ts";
import { countReleasedBytes } from "../workers/memory-reclaim.ts";

/**
 * Content that was received completely and awaits `publish` or `discard`. `size` in bytes, `digest` SHA-256 in hex.
 * `content`: the bytes if they are in memory, else null; they stay valid afterwards.
 */
export type Staged = {
  readonly digest: string;
  readonly size: number;
  readonly token: string;
  readonly content: Buffer | null;
};

export type Staging = {
  /** Receives `source`, at most `limit` bytes; on failure nothing is left and the source is destroyed. */
  receive(source: AsyncIterable<Buffer> | Readable, limit: number): Promise<Staged>;
  /** The same for content that is in memory as a whole. It is copied: `bytes` may be part of a larger buffer. */
  receiveBytes(bytes: Buffer): Promise<Staged>;
  /**
   * Takes the entry out of staging; its file now belongs to the caller. Null when the token is unknown or was taken.
   */
  take(token: string): StagedEntry | null;
  /** Makes the content durable, then renames it to `target`. Consumes the entry; on failure its file is removed. */
  move(entry: StagedEntry, target: string): Promise<void>;
  /** The path of the file of an entry that is not in memory. */
  pathOf(entry: StagedEntry): string;
  /** Discards an entry that was taken, and its file. */
  drop(entry: StagedEntry): Promise<void>;
  /** Drops every entry that was not taken. */
  close(): Promise<void>;
  /** Removes the files of dead processes and returns their number. Entries of this process stay. */
  sweep(): Promise<number>;
};

/** Content in memory, or the descriptor of its file, which is `token` in the staging directory. */
export type StagedEntry = Omit<Staged, "content"> & { readonly content: Buffer | number };

/** Content up to this size stays in memory: typical evidence is 1 to 100 KB, and one write of this size is one call. */
const MAX_IN_MEMORY_BYTES = 128 * 1024;

/**
 * Bounds the memory of all waiting content: 128 concurrent uploads of the largest size held in memory. Beyond it, small
 * uploads are written to files like large ones, which is slower but safe.
 */
const MAX_TOTAL_IN_MEMORY_BYTES = 16 * 1024 * 1024;

/** Bytes per write of a large upload: enough that the calls do not matter, little enough per concurrent upload. */
const BLOCK_BYTES = 256 * 1024;

const CREATE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;

/** Read-only, so that published content cannot be overwritten by accident, not even by its owner. */
const FILE_MODE = 0o400;

type StagingState = {
  readonly directory: string;
  readonly ids: () => string;
  readonly disk: Disk;
  readonly hasher: Hasher;
  /** The files of this process in the staging directory. */
  readonly names: Set<string>;
  /** Bytes of content in memory. */
  inMemoryBytes: number;
};

/** Manages `directory`, which must exist. `ids` returns names unique across processes; they become file names. */
export function createStaging({
  directory,
  ids,
  disk,
  hasher = inlineHasher,
}: {
  directory: string;
  ids: () => string;
  disk: Disk;
  hasher?: Hasher;
}): Staging {
  const state: StagingState = { directory, ids, disk, hasher, names: new Set(), inMemoryBytes: 0 };
  const entries = new Map<string, StagedEntry>();
  const keep = (entry: StagedEntry): Staged => {
    entries.set(entry.token, entry);
    const { digest, size, token, content } = entry;
    return { digest, size, token, content: Buffer.isBuffer(content) ? content : null };
  };
  return {
    receive: async (source, limit) => keep(await receive(state, source, limit)),
    receiveBytes: async (bytes) => keep(await receiveBytes(state, bytes)),
    move: (entry, target) => move(state, entry, target),
    drop: (entry) => drop(state, entry),
    pathOf: ({ token }) => join(directory, token),
    take(token) {
      const entry = entries.get(token) ?? null;
      entries.delete(token);
      return entry;
    },
    async close() {
      const left = [...entries.values()];
      entries.clear();
      await Promise.all(left.map((entry) => drop(state, entry)));
    },
    async sweep() {
      let removed = 0;
      for (const name of await disk.readdir(directory)) {
        if (state.names.has(name)) continue;
        await removeIfPresent(disk, join(directory, name));
        removed += 1;
      }
      return removed;
    },
  };
}

async function receive(
  state: StagingState,
  source: AsyncIterable<Buffer> | Readable,
  limit: number,
): Promise<StagedEntry> {
  const upload = createUpload(state);
  try {
    let size = 0;
    // By default, leaving the loop would destroy the stream with an error of its own, which would hide ours.
    const chunks = source instanceof Readable ? source.iterator({ destroyOnReturn: false }) : source;
    for await (const chunk of chunks as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > limit) throw new TooLargeError(limit);
      await upload.add(chunk);
    }
    return await upload.finish();
  } catch (error) {
    await upload.abandon();
    if (source instanceof Readable) source.destroy();
    throw error;
  }
}

async function receiveBytes(state: StagingState, bytes: Buffer): Promise<StagedEntry> {
  const upload = createUpload(state);
  try {
    await upload.add(bytes);
    return await upload.finish();
  } catch (error) {
    await upload.abandon();
    throw error;
  }
}

type Upload = {
  add(chunk: Buffer): Promise<void>;
  finish(): Promise<StagedEntry>;
  abandon(): Promise<void>;
};

function createUpload(state: StagingState): Upload {
  const token = state.ids();
  let chunks: Buffer[] = [];
  let size = 0;
  let file: UploadFile | null = null;

  function releaseChunks(): void {
    for (const chunk of chunks) state.inMemoryBytes -= chunk.length;
    chunks = [];
  }

  /** Moves the content from memory to a file. */
  async function spill(): Promise<UploadFile> {
    const opened = await openUploadFile(state, token, chunks);
    releaseChunks();
    return opened;
  }

  return {
    async add(chunk) {
      const fitsInMemory =
        size + chunk.length <= MAX_IN_MEMORY_BYTES && state.inMemoryBytes + chunk.length <= MAX_TOTAL_IN_MEMORY_BYTES;
      size += chunk.length;
      if (file === null && fitsInMemory) {
        // A copy: the chunk may be a few bytes of a large socket buffer, which it would keep alive.
        chunks.push(Buffer.from(chunk));
        state.inMemoryBytes += chunk.length;
        return;
      }
      file ??= await spill();
      await file.write(chunk);
      countReleasedBytes(chunk.length);
    },

    async finish() {
      if (file !== null) return { token, size, ...(await file.finish()) };
      const content = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, size);
      return { token, size, digest: hash("sha256", content), content };
    },

    async abandon() {
      releaseChunks();
      await file?.abandon();
      state.names.delete(token);
    },
  };
}

type UploadFile = {
  write(chunk: Buffer): Promise<void>;
  /** Writes the rest and returns the digest and the open descriptor. */
  finish(): Promise<{ digest: string; content: number }>;
  /** Closes and removes the file; failures are ignored, because the next start sweeps the file. */
  abandon(): Promise<void>;
};

/** Opens the file of an upload, which begins with `head`; that fits the first block (in-memory limit < block size). */
async function openUploadFile(state: StagingState, token: string, head: readonly Buffer[]): Promise<UploadFile> {
  const { disk, names, hasher } = state;
  const path = join(state.directory, token);
  names.add(token);
  const fd = await disk.open(path, CREATE_FLAGS, FILE_MODE);
  const contentHash = hasher.begin();
  let block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  let filled = 0;
  for (const chunk of head) filled += chunk.copy(block, filled);

  async function writeBlock(): Promise<void> {
    await onPath(path, writeAll(disk, fd, block.subarray(0, filled)));
    block = (await contentHash.update(block, filled)) as typeof block;
    filled = 0;
  }

  return {
    async write(chunk) {
      for (let from = 0; from < chunk.length; ) {
        const part = chunk.subarray(from, from + BLOCK_BYTES - filled);
        block.set(part, filled);
        filled += part.length;
        from += part.length;
        if (filled === BLOCK_BYTES) await writeBlock();
      }
    },
    async finish() {
      if (filled > 0) await writeBlock();
      return { digest: await contentHash.digest(), content: fd };
    },
    async abandon() {
      contentHash.abandon();
      await disk.close(fd).catch(() => {});
      await removeQuietly(disk, path);
    },
  };
}

async function drop(state: StagingState, { content, token }: StagedEntry): Promise<void> {
  if (Buffer.isBuffer(content)) {
    state.inMemoryBytes -= content.length;
    return;
  }
  await state.disk.close(content);
  await removeIfPresent(state.disk, join(state.directory, token));
  state.names.delete(token);
}

async function move(state: StagingState, { content, token }: StagedEntry, target: string): Promise<void> {
  const { disk, names } = state;
  const path = join(state.directory, token);
  names.add(token);
  try {
    // O_DSYNC makes the single write durable by itself, which saves the call to fdatasync.
    const fd = Buffer.isBuffer(content) ? await disk.open(path, CREATE_FLAGS | constants.O_DSYNC, FILE_MODE) : content;
    try {
      try {
        if (Buffer.isBuffer(content)) await onPath(path, writeAll(disk, fd, content));
        else await onPath(path, disk.fdatasync(fd));
      } finally {
        await disk.close(fd);
      }
      await disk.rename(path, target);
    } catch (error) {
      await removeQuietly(disk, path);
      throw error;
    }
  } finally {
    names.delete(token);
    if (Buffer.isBuffer(content)) state.inMemoryBytes -= content.length;
  }
}

/**
 * The files in a staging directory, of this and other processes; none where there is no such directory. `size` in
 * bytes, `modifiedAt` in epoch seconds.
 */
export function listStaged(directory: string): { name: string; size: number; modifiedAt: number }[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .sort()
    .flatMap((name) => {
      const stats = statSync(join(directory, name), { throwIfNoEntry: false });
      return stats ? [{ name, size: stats.size, modifiedAt: stats.mtimeMs / 1000 }] : [];
    });
}
