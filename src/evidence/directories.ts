// Durability of the shard directories. A rename is on disk only once the directory that received the name is fsynced,
// and an fsync commits the file system's journal: one commit covers every rename that happened before it began. Calls
// that arrive while a round of syncs runs therefore wait for the next round, and a round syncs each directory once,
// however many callers asked for it.
//
// The first directory of a round is synced alone because its commit usually carries the changes of all the others,
// which then return at once. Starting all of them together made them queue for the same commit (measured: 3,500
// publishes/s in sequence, 5,400 this way). Every directory is still synced separately: a shared journal is what common
// file systems happen to have, not a guarantee.
//
// Descriptors stay open until close, at most 257 of them. Opening a directory for each sync would double the calls.
import { constants } from "node:fs";
import { join } from "node:path";
import { onPath } from "../domain/text/system-errors.ts";
import { errnoOf } from "./disk.ts";
import type { Disk } from "./disk.ts";

export type ShardDirectories = {
  /** Makes sure that `root/shard` exists, durably. Rejects with an ErrnoException. */
  prepare(shard: string): Promise<void>;
  /** Resolves when every change made in `root/shard` before this call is on disk. */
  flush(shard: string): Promise<void>;
  /** Waits for running syncs and closes the descriptors. No other method may be called afterwards. */
  close(): Promise<void>;
};

/** The evidence root is synced in the same rounds, under this name, when it receives a new shard. */
const ROOT = "";

/** Manages the shard directories below `root`, which must exist. */
export function createShardDirectories({ root, disk }: { root: string; disk: Disk }): ShardDirectories {
  const descriptors = new Map<string, Promise<number>>();
  const syncs = createGroupSync(disk);

  function descriptorOf(shard: string): Promise<number> {
    let opening = descriptors.get(shard);
    if (opening === undefined) {
      opening = openDirectory(shard);
      descriptors.set(shard, opening);
      // A failure (no descriptors left, disk full) must not stick to the shard for the life of the process.
      opening.catch(() => descriptors.delete(shard));
    }
    return opening;
  }

  async function openDirectory(shard: string): Promise<number> {
    if (shard !== ROOT) {
      try {
        await disk.mkdir(join(root, shard), 0o700);
      } catch (error) {
        if (errnoOf(error) !== "EEXIST") throw error;
      }
      // Also when the directory existed: the process that created it may have died before it synced the root.
      await flush(ROOT);
    }
    return disk.open(join(root, shard), constants.O_RDONLY | constants.O_DIRECTORY);
  }

  async function flush(shard: string): Promise<void> {
    const descriptor = await descriptorOf(shard);
    return onPath(join(root, shard), syncs.sync(descriptor));
  }

  return {
    async prepare(shard) {
      await descriptorOf(shard);
    },
    flush,
    async close() {
      await syncs.idle();
      const opened = await Promise.allSettled(descriptors.values());
      descriptors.clear();
      for (const result of opened) if (result.status === "fulfilled") await disk.close(result.value);
    },
  };
}

/** Callers that ask for the same descriptor before its round begins share one promise. */
type PendingSync = PromiseWithResolvers<void>;

type GroupSync = { sync(fd: number): Promise<void>; idle(): Promise<void> };

/** Syncs descriptors in rounds; see the head of this file. */
function createGroupSync(disk: Disk): GroupSync {
  let waiting = new Map<number, PendingSync>();
  let running: Promise<void> | null = null;

  async function runRounds(): Promise<void> {
    while (waiting.size > 0) {
      const round = waiting;
      waiting = new Map();
      const [first, ...others] = round;
      if (first !== undefined) await syncOne(first);
      await Promise.all(others.map(syncOne));
    }
    running = null;
  }

  async function syncOne([fd, pending]: [number, PendingSync]): Promise<void> {
    try {
      await disk.fsync(fd);
      pending.resolve();
    } catch (error) {
      pending.reject(error);
    }
  }

  return {
    sync(fd) {
      let pending = waiting.get(fd);
      if (pending === undefined) {
        pending = Promise.withResolvers<void>();
        waiting.set(fd, pending);
      }
      running ??= runRounds();
      return pending.promise;
    },
    async idle() {
      await running;
    },
  };
}
