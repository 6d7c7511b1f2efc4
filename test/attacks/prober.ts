/** Asks an address again and again, in a thread of its own, which is not held up by what the attack does. */
import { once } from "node:events";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

const INTERVAL_MS = 100;

/** Starts to ask. `slowest`: milliseconds of the slowest answer since it was called before, also of one that runs. */
export function startProber(url: string) {
  const worker = new Worker(new URL(import.meta.url), { workerData: url });
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
  let slowest = 0;
  let askedAt = 0;
  parentPort?.on("message", () => {
    parentPort?.postMessage(Math.max(slowest, askedAt === 0 ? 0 : performance.now() - askedAt));
    slowest = 0;
  });
  for (;;) {
    askedAt = performance.now();
    const isAnswered = await fetch(workerData as string).then(
      (answer) => answer.text().then(() => true),
      () => false,
    );
    if (isAnswered) slowest = Math.max(slowest, performance.now() - askedAt);
    askedAt = 0;
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
  }
}
