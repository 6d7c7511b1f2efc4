// The curve of throughput over processors that this machine does not have: simulated (simulate.ts) from processor times
// that were measured here, for the server as it is and for two ways to use further threads for reads.
import { Worker } from "node:worker_threads";
import { simulate } from "./simulate.ts";
import type { Request } from "./simulate.ts";
import { CONNECTIONS } from "./slices.ts";
import { judge } from "./targets.ts";

const PROCESSORS = [1, 2, 4, 8];
const REQUESTS = 20_000;
/** Characters of a request and of a response that are handed to another thread. */
const [ASKED, ANSWERED] = [200, 1500];
const HAND_OVERS = 50_000;

/** Microseconds of processor time for a request. */
export type Demand = {
  /** The thread that serves requests. */
  main: number;
  /** All other threads: garbage collection, compilation, checkpoints. */
  others: number;
};

/** Microseconds that do not depend on the request. */
export type Constants = {
  /** The thread that serves requests, for one that does nothing: HTTP alone. */
  http: number;
  /** Either thread, for a request that goes to another thread and for its response. */
  handOver: number;
};

/** Measures what either of two threads pays for a text that goes to the other and one that comes back. */
export async function measureHandOver(): Promise<number> {
  const worker = new Worker(
    `const { parentPort } = require("node:worker_threads");
     const answer = "a".repeat(${ANSWERED});
     parentPort.on("message", ({ id }) => parentPort.postMessage({ id, answer }));`,
    { eval: true },
  );
  const text = "q".repeat(ASKED);
  let [sent, received] = [0, 0];
  const used = process.threadCpuUsage();
  await new Promise<void>((resolve) => {
    const ask = (): void => worker.postMessage({ id: sent++, text });
    worker.on("message", () => {
      received += 1;
      if (received === HAND_OVERS) resolve();
      else if (sent < HAND_OVERS) ask();
    });
    for (let n = 0; n < CONNECTIONS; n += 1) ask();
  });
  const { user, system } = process.threadCpuUsage(used);
  await worker.terminate();
  return (user + system) / HAND_OVERS;
}

const [MAIN, OTHERS, READERS] = [0, 1, 2];

const behindOf = ({ others }: Demand): Request["behind"] => [{ thread: OTHERS, microseconds: others }];
const asItIs = (demand: Demand): Request => ({
  reply: [{ thread: MAIN, microseconds: demand.main }],
  behind: behindOf(demand),
});

/** Prints what was measured on one and two processors beside what is simulated, then what more of them would give. */
export function printSimulation(
  title: string,
  { demands, isRead, measured }: { demands: readonly Demand[]; isRead: boolean; measured: readonly number[] },
  { http, handOver }: Constants,
): void {
  // That of the largest number of processors: with fewer, threads evict each other's caches.
  const demand = demands.at(-1) as Demand;
  const print = (way: string, request: (n: number, readers: number) => Request): void => {
    for (const processors of PROCESSORS) {
      const readers = Math.max(1, processors - 1);
      const perSecond = simulate({ processors, clients: CONNECTIONS, requests: REQUESTS }, (n) => request(n, readers));
      const known = way === "" ? measured[Math.log2(processors)] : undefined;
      const detail = known === undefined ? "" : `measured: ${Math.round(known)}`;
      judge(`curve: ${title}, simulated on ${processors}${way}, req/s`, perSecond, null, detail);
    }
  };
  print("", () => asItIs(demand));
  if (!isRead) return;
  const answering = Math.max(0, demand.main - http);
  print(", reader threads behind one listener", (n, readers) => ({
    reply: [
      { thread: MAIN, microseconds: http + handOver },
      { thread: READERS + (n % readers), microseconds: answering + handOver },
    ],
    behind: behindOf(demand),
  }));
  print(", readers that listen", (n, readers) => ({
    reply: [{ thread: READERS + (n % readers), microseconds: demand.main }],
    behind: behindOf(demand),
  }));
}
