/** The memory that tasks of a pool take from a budget while a thread has them. */

/** The right to hold memory. */
type Lease = { release(): void };

export type PoolMemory<Input> = {
  /** Bytes that a task may take in its thread; 0 for one that must not wait for memory. */
  bytesOf(input: Input): number;
  /** null if there is no room; then `onRoom` is called once when it is the turn of the pool. */
  take(bytes: number, onRoom: () => void): Lease | null;
};

const NOTHING: Lease = { release: () => undefined };

export type MemoryGate<Input> = {
  /** Whether a task may try: while one waits for memory, only those that need none. */
  isOpenFor(input: Input): boolean;
  /** null if the task has to wait. */
  take(input: Input): Lease | null;
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
  };
}
