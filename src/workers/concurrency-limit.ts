// So many at once and no more.

export type Places = {
  /** Runs `task` as soon as there is a place for it. */
  within<T>(task: () => Promise<T>): Promise<T>;
};

/** Lets `size` tasks run at once; the others wait, first come, first served. */
export function createPlaces(size: number): Places {
  const waiting: (() => void)[] = [];
  let taken = 0;
  return {
    async within(task) {
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
