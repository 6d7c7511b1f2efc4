// The memory of buffers that a stream has passed on is freed only when V8 collects the small objects that own it, which
// it does after 64 MB of such memory: a 1 GB download made the process 70 MB larger, as it also does with
// fs.createReadStream, on an appliance that uses 80 MB in total. A minor collection every RECLAIM_INTERVAL_BYTES frees
// nearly all of it, because a chunk lives for milliseconds: the measured growth is 16 MB instead of 70, for 0.7 ms per
// collection. Reusing chunks is not an option: the reader of the stream may hold them, and sockets do until they are
// sent.
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** 65 collections per 1 GB, about 4 % of the time that the download takes. */
const RECLAIM_INTERVAL_BYTES = 16 * 1024 * 1024;

type Collect = (options: { type: "minor" } | { type: "major"; flavor: "last-resort" }) => void;

let collect: Collect | null = null;
let releasedBytes = 0;

/** Counts bytes of buffers that will soon be garbage, over all streams of the process, and collects when due. */
export function countReleasedBytes(bytes: number): void {
  releasedBytes += bytes;
  if (releasedBytes < RECLAIM_INTERVAL_BYTES) return;
  releasedBytes = 0;
  collect ??= exposeCollector();
  collect({ type: "minor" });
}

/** A thread that holds so many bytes more than after its latest collection has garbage that is worth 45 ms. */
const GARBAGE_BYTES = 16 << 20;

/**
 * Collects the garbage of this thread and returns its memory to the operating system. For threads that may have
 * hundreds of megabytes of garbage after a task and then wait for the next one: V8 collects only while it allocates.
 */
export function createGarbageCollector() {
  let bytesAfterLast = heldBytes();
  return {
    /** Whether there is much to collect. */
    isDue: (): boolean => heldBytes() > bytesAfterLast + GARBAGE_BYTES,
    collect(): void {
      collect ??= exposeCollector();
      collect({ type: "major", flavor: "last-resort" });
      bytesAfterLast = heldBytes();
    },
  };
}

/** Bytes that this thread holds for JavaScript, used or not. */
function heldBytes(): number {
  const { total_heap_size, external_memory } = getHeapStatistics();
  return total_heap_size + external_memory;
}

/** The collector is visible only in contexts created after the flag is set, so this context's globals do not change. */
function exposeCollector(): Collect {
  setFlagsFromString("--expose-gc");
  const exposed = runInNewContext("gc") as Collect;
  setFlagsFromString("--no-expose-gc");
  return exposed;
}
