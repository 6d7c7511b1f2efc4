/**
 * Asks an address of a server again and again, in a thread of its own, which is not held up by what the attack does.
 * The time for which the server's main thread waited for a processor is not counted: it is other load of the machine.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

const INTERVAL_MS = 100;

type Probed = { url: string; pid: number };

/** Starts to ask. `slowest`: milliseconds of the slowest answer since it was called before, also of one that runs. */
export function startProber(probed: Probed) {
  const worker = new Worker(new URL(import.meta.url), { workerData: probed });
  return {
    async slowest(): Promise<number> {
      const answer = once(worker, "message");
      worker.postMessage("slowest");
      return (await answer)[0] as number;
    },
    stop: (): Promise<unknown> => worker.terminate(),
  };
}

if (!isMainThread) {
  const { url, pid } = workerData as Probed;
  let slowest = 0;
  /** Ends the measurement of the running request. */
  let measure: () => number = () => 0;
  parentPort?.on("message", () => {
    parentPort?.postMessage(Math.max(slowest, measure()));
    slowest = 0;
  });
  for (;;) {
    const [askedAt, waitedBefore] = [performance.now(), waitedMs(pid)];
    measure = () => performance.now() - askedAt - (waitedMs(pid) - waitedBefore);
    const isAnswered = await fetch(url).then(
      (answer) => answer.text().then(() => true),
      () => false,
    );
    if (isAnswered) slowest = Math.max(slowest, measure());
    measure = () => 0;
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
  }
}

/** Milliseconds for which the main thread of a process has waited for a processor; 0 where the kernel does not say. */
function waitedMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "latin1").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}
