// So many at once and no more.

export type ConcurrencyLimit = {
  /** Runs `task` as soon as there is a place for it. */
  run<T>(task: () => Promise<T>): Promise<T>;
};

/** Lets `size` tasks run at once; the others wait, first come, first served. */
export function createConcurrencyLimit(size: number): ConcurrencyLimit {
  const waiting: (() => void)[] = [];
  let taken = 0;
  return {
    async run(task) {
      if (taken < size) taken += 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        return await task();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else taken -= 1;
      }
    },
  };
}
