/** Reads that wait for evaluations to end (newer-clients 4.3). Each holds a connection, so their number is bounded. */
import type { Timer } from "../domain/time.ts";

/** Reads that may wait at a time: of one caller (newer-clients 4.4), and of all. */
const MAX_WAITERS_OF_CALLER = 10;
const MAX_WAITERS = 256;

export function createWaiters(timer: Timer) {
  const ends = new Map<number, Set<() => void>>();
  const counts = new Map<string, number>();
  let total = 0;

  function count(caller: string, change: 1 | -1): void {
    total += change;
    const left = (counts.get(caller) ?? 0) + change;
    if (left === 0) counts.delete(caller);
    else counts.set(caller, left);
  }

  return {
    /** Ends the waiting for one evaluation (its row id). */
    notify(id: number): void {
      for (const end of ends.get(id) ?? []) end();
    },
    notifyAll(): void {
      for (const waiting of ends.values()) for (const end of waiting) end();
    },
    /** Resolves once `notify` was called, or after `seconds`; at once where too many wait. */
    wait: (id: number, { caller, seconds }: { caller: string; seconds: number }): Promise<void> =>
      new Promise((resolve) => {
        if (total >= MAX_WAITERS || (counts.get(caller) ?? 0) >= MAX_WAITERS_OF_CALLER) return resolve();
        count(caller, 1);
        const end = (): void => {
          count(caller, -1);
          cancel();
          const others = ends.get(id);
          others?.delete(end);
          if (others?.size === 0) ends.delete(id);
          resolve();
        };
        const cancel = timer(seconds, end);
        ends.set(id, (ends.get(id) ?? new Set()).add(end));
      }),
  };
}
