/** Bounds how many tasks run at once, where each would hold memory or a thread. */
export type ConcurrencyLimit = {
  /** Runs `task` as soon as fewer than the limit are running. */
  run<T>(task: () => Promise<T>): Promise<T>;
};

/** Runs at most `maxTasks` tasks at once; the others wait in order. */
export function createConcurrencyLimit(maxTasks: number): ConcurrencyLimit {
  const waiting: (() => void)[] = [];
  let running = 0;
  return {
    async run(task) {
      if (running < maxTasks) running += 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await task();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else running -= 1;
      }
    },
  };
}
