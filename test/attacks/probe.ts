/**
 * Loaded into the attacked server before its code (`--import`): measures how long its main thread was busy without
 * yielding. It counts processor time between two ticks of a timer, so that a busy machine does not look like a busy
 * thread.
 *
 * The parent sends "reset", and receives the measurements since then for "report".
 */
import { performance } from "node:perf_hooks";

export type ProbeReport = {
  /** Longest processor time, and longest wall-clock time, between two ticks, in milliseconds. */
  busiest: number;
  longest: number;
  /** Peak resident set size since the start, in bytes. */
  peak: number;
};

const TICK_MS = 1;
let busiest = 0;
let longest = 0;
let peak = 0;
const processorTime = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};
let before = { processor: processorTime(), clock: performance.now() };

setInterval(() => {
  const now = { processor: processorTime(), clock: performance.now() };
  busiest = Math.max(busiest, now.processor - before.processor);
  longest = Math.max(longest, now.clock - before.clock);
  before = now;
}, TICK_MS).unref();

setInterval(() => {
  peak = Math.max(peak, process.memoryUsage.rss());
}, 20).unref();

process.on("message", (message) => {
  if (message === "reset") {
    [busiest, longest, peak] = [0, 0, 0];
    process.send?.("done");
  } else process.send?.({ busiest, longest, peak: Math.max(peak, process.memoryUsage.rss()) } satisfies ProbeReport);
});
process.channel?.unref();
