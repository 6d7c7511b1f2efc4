// Measures how long the event loop of a server is blocked: a thread of the driver requests /ready again and again, a
// millisecond after each response. Nothing else uses its connection, so a slow response waited for the loop (or for a
// core, which is why the figures of an idle server are printed beside it). It is a thread, so that the driver's own
// work does not count.
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

/** Milliseconds of each response while the work ran, ascending. */
export type Holds = readonly number[];

export type Probe = {
  /** Probes while `work` runs and until 10 ms later. */
  during(work: () => Promise<unknown>): Promise<Holds>;
  stop(): Promise<unknown>;
};

/** @param url for instance `http://127.0.0.1:41233`. */
export function startProbe(url: string): Probe {
  const worker = new Worker(new URL(import.meta.url), { workerData: url });
  const nextMessage = async (): Promise<number[]> => ((await once(worker, "message")) as [number[]])[0];
  return {
    async during(work) {
      const started = nextMessage();
      worker.postMessage("start");
      await started;
      await work();
      await sleep(10);
      const times = nextMessage();
      worker.postMessage("stop");
      return (await times).sort((a, b) => a - b);
    },
    stop: () => worker.terminate(),
  };
}

const REQUEST = "GET /ready HTTP/1.1\r\nHost: bench\r\n\r\n";

function probe(url: string): void {
  const { hostname, port } = new URL(url);
  let times: number[] = [];
  let probing = false;
  function begin(): void {
    // A new connection each time: the server closes connections that are idle for seconds.
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    let startedAt = 0;
    const ask = (): void => {
      startedAt = performance.now();
      socket.write(REQUEST);
    };
    socket.on("connect", () => {
      parentPort?.postMessage([]);
      ask();
    });
    socket.on("data", (chunk) => {
      // The response is small and arrives in one piece.
      if (!chunk.toString("latin1").endsWith("OK")) throw new Error(`/ready answered ${chunk.toString("latin1")}`);
      times.push(performance.now() - startedAt);
      if (probing) {
        setTimeout(ask, 1);
        return;
      }
      socket.destroy();
      parentPort?.postMessage(times);
    });
    socket.on("end", () => {
      throw new Error("the connection of the probe was closed");
    });
  }
  parentPort?.on("message", (order: string) => {
    probing = order === "start";
    if (!probing) return;
    times = [];
    begin();
  });
}

if (!isMainThread && typeof workerData === "string") probe(workerData);
