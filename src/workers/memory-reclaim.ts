// Memory behind buffers that a stream has passed on is free only when V8 collects the small objects that own it, and V8
// looks at them after 64 MB of such memory: a 1 GB download made the process 70 MB larger, as it does with
// fs.createReadStream too, on an appliance that is 80 MB in all. A young collection every RECLAIM_EVERY bytes finds
// nearly all of them, because a chunk lives for milliseconds: measured, 16 MB instead of 70, for 0.7 ms each.
// Chunks must not be reused instead: whoever reads the stream may keep them, and sockets do until they are sent.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Bytes handed over between two collections: 65 collections for 1 GB, about 4 % of the time the download takes. */
const RECLAIM_EVERY = 16 * 1024 * 1024;

type Collect = (options: { type: "minor" } | { type: "major"; flavor: "last-resort" }) => void;

let collect: Collect | null = null;
let handedOver = 0;

/**
 * Counts `bytes` of buffers that will soon be garbage, over all streams of the process, and collects when it is time.
 */
export function countReleasedBytes(bytes: number): void {
  handedOver += bytes;
  if (handedOver < RECLAIM_EVERY) return;
  handedOver = 0;
  collect ??= exposeCollector();
  collect({ type: "minor" });
}

/**
 * Collects all garbage of this thread at once and gives its memory back to the system. For threads whose one task may
 * leave hundreds of megabytes and which then wait for the next: V8 collects only while it allocates.
 */
export function collectGarbage(): void {
  collect ??= exposeCollector();
  collect({ type: "major", flavor: "last-resort" });
}

/** The collector is visible only to contexts made after the flag was set; this one's globals stay as they are. */
function exposeCollector(): Collect {
  setFlagsFromString("--expose-gc");
  const exposed = runInNewContext("gc") as Collect;
  setFlagsFromString("--no-expose-gc");
  return exposed;
}
