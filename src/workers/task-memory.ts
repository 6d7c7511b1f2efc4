/** The memory that tasks of worker threads take from a budget while a thread has them. */

/** The right to hold memory. */
export type Lease = { release(): void };

export type PoolMemory<Input> = {
  /** Bytes that a task may take in its thread; 0 for one that must not wait for memory. */
  bytesOf(input: Input): number;
  /** null if there is no room; then `onRoom` is called once when it is the turn of the pool. */
  take(bytes: number, onRoom: () => void): Lease | null;
  /** Called with the most bytes that the heap of a thread may have had when it ended within a task. */
  keepHeap(bytes: number): void;
};

const NOTHING: Lease = { release: () => undefined };

/** Where the tasks of all pools take memory. */
export type ThreadMemory = Omit<PoolMemory<unknown>, "bytesOf">;

export type MemoryGate<Input> = {
  /** Whether a task may try: while one waits for memory, only those that need none. */
  isOpenFor(input: Input): boolean;
  /** null if the task has to wait. */
  take(input: Input): Lease | null;
  keepHeap(bytes: number): void;
};

/** @param onRoom called when a task that had to wait may try again */
export function createMemoryGate<Input>(memory: PoolMemory<Input> | null, onRoom: () => void): MemoryGate<Input> {
  let isWaiting = false;
  const bytesOf = (input: Input): number => memory?.bytesOf(input) ?? 0;
  return {
    isOpenFor: (input) => !isWaiting || bytesOf(input) === 0,
    take(input) {
      const bytes = bytesOf(input);
      if (memory === null || bytes === 0) return NOTHING;
      const lease = memory.take(bytes, () => {
        isWaiting = false;
        onRoom();
      });
      isWaiting = lease === null;
      return lease;
    },
    keepHeap: (bytes) => memory?.keepHeap(bytes),
  };
}

/**
 * Takes the memory of a task whose thread has no pool, once there is room.
 * @throws the reason of the signal
 */
export type AcquireMemory = (signal: AbortSignal) => Promise<Lease>;

/** For threads without a budget. */
export const UNBOUNDED_MEMORY: AcquireMemory = () => Promise.resolve(NOTHING);

export const acquireFrom =
  ({ take }: Pick<ThreadMemory, "take">, bytes: number): AcquireMemory =>
  (signal) =>
    new Promise((resolve, reject) => {
      const giveUp = (): void => reject(signal.reason as Error);
      const attempt = (): void => {
        // A task that gave up takes nothing, so that its turn passes to the next one.
        if (signal.aborted) {
          giveUp();
          return;
        }
        const lease = take(bytes, attempt);
        if (lease === null) return;
        signal.removeEventListener("abort", giveUp);
        resolve(lease);
      };
      signal.addEventListener("abort", giveUp, { once: true });
      attempt();
    });
