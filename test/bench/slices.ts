// Compares two servers, or two kinds of work, on a machine that does other things as well: short slices of either
// alternate. Throughput is the median of the slices. Processor time is the 25th percentile of the slices, because other
// load only ever adds to it: it evicts caches.
import { drive } from "./load.ts";
import type { Load } from "./load.ts";
import { startMeter } from "./processes.ts";
import type { Cost, Server } from "./processes.ts";
import { median, quantile, sort } from "./ask.ts";

export const CONNECTIONS = 32;
/** Before each kind of request, so that both servers run compiled code. */
const WARM_UP_SECONDS = 3;

/** Requests of a kind; `beside`: other requests at the same time, on some of the connections. */
export type Work = Pick<Load, "next" | "expect"> & { beside?: Pick<Load, "next" | "expect" | "connections"> };

/** One side of a comparison. `before` runs before each slice and is not measured. */
export type Side = { server: Server; work: Work; before?: () => Promise<unknown> };

/** How often each side is measured, and for how long. */
export type Extent = { rounds: number; seconds: number };

/** Processor time is in microseconds, of all requests together where some run beside. */
export type Measured = {
  perSecond: number;
  p50: number;
  p99: number;
  /** Microseconds of processor time for a request: main thread, all threads. */
  main: number;
  all: number;
  /** Bytes written to storage, and system calls that read or write, for a request. */
  written: number;
  calls: number;
  /** The share of one core that the driver used, and how many of all requests are those beside. */
  driver: number;
  beside: number;
  /** All requests of the slices, for figures that are read elsewhere before and after. */
  requests: number;
};

type Slice = Cost & { perSecond: number; p50: number; p99: number; driver: number; requests: number; beside: number };

/**
 * Measures the sides in turn: each slice takes so many seconds, or so many requests.
 * @throws Error with the first response of another status
 */
export async function interleave(
  sides: readonly Side[],
  extent: Extent | { rounds: number; requests: number },
): Promise<Measured[]> {
  const runs = sides.map((side) => ({ side, slice: slicer(side), slices: [] as Slice[] }));
  for (const { side, slice } of runs) {
    await side.before?.();
    await slice("requests" in extent ? { requests: extent.requests } : { seconds: WARM_UP_SECONDS });
  }
  for (let round = 0; round < extent.rounds; round += 1)
    for (const { side, slice, slices } of runs) {
      await side.before?.();
      slices.push(await slice(extent));
    }
  return runs.map(({ slices }) => summarize(slices));
}

/** Numbers the requests of a side through all slices, so that each slice continues where the last one ended. */
function slicer({ server, work }: Side): (length: { seconds: number } | { requests: number }) => Promise<Slice> {
  let [sent, sentBeside] = [0, 0];
  return async (length) => {
    const last = "requests" in length ? sent + length.requests : Number.POSITIVE_INFINITY;
    const seconds = "seconds" in length ? length.seconds : Number.POSITIVE_INFINITY;
    const { url } = server;
    const used = startMeter(server.pid);
    const cpu = process.cpuUsage();
    const [own, other] = await Promise.all([
      drive(
        {
          url,
          expect: work.expect,
          connections: CONNECTIONS - (work.beside?.connections ?? 0),
          next: () => (sent < last ? work.next(sent++) : null),
        },
        seconds,
      ),
      work.beside ? drive({ url, ...work.beside, next: () => work.beside?.next(sentBeside++) ?? null }, seconds) : null,
    ]);
    const { user, system } = process.cpuUsage(cpu);
    return {
      ...used(),
      perSecond: own.perSecond,
      p50: own.p50,
      p99: own.p99,
      driver: (user + system) / 1e6 / own.seconds,
      requests: own.requests + (other?.requests ?? 0),
      beside: other?.requests ?? 0,
    };
  };
}

function summarize(slices: readonly Slice[]): Measured {
  const sum = (pick: (slice: Slice) => number): number => slices.reduce((total, slice) => total + pick(slice), 0);
  const middle = (pick: (slice: Slice) => number): number => median(slices.map(pick));
  const least = (pick: (slice: Slice) => number): number => quantile(sort(slices.map(pick)), 0.25);
  const requests = sum((slice) => slice.requests);
  return {
    perSecond: middle((slice) => slice.perSecond),
    p50: middle((slice) => slice.p50),
    p99: middle((slice) => slice.p99),
    main: least((slice) => (slice.main / slice.requests) * 1e6),
    all: least((slice) => (slice.all / slice.requests) * 1e6),
    // A checkpoint writes for many slices, so the sum over all of them counts.
    written: sum((slice) => slice.written) / requests,
    calls: sum((slice) => slice.calls) / requests,
    driver: middle((slice) => slice.driver),
    beside: sum((slice) => slice.beside) / requests,
    requests,
  };
}
