/** Who comes in next where few may be in at a time: organizations and their callers take turns (workers/turns.ts). */
import { createTurns } from "../workers/turns.ts";

/** All places and the queue are taken, or it took too long; the client may retry. */
export class PackagesBusyError extends Error {
  override readonly name = "PackagesBusyError";
}

/** Who asks. `caller`: the public id of a user or a service account. */
export type Asking = { readonly organizationId: number; readonly caller: string };

/** How many may be in at a time and how many may wait: in all, and of one caller. */
type AdmissionLimits = { active: number; activeOfCaller: number; queued: number; queuedOfCaller: number };

type Waiting = Asking & { readonly isUrgent: false; admit(): void };

/** Admits in turns; one of a caller may be passed over, who then waits for a place of that caller. */
export function createAdmission(limits: AdmissionLimits) {
  const turns = createTurns<Waiting>();
  const active = createCounts();
  const queued = createCounts();

  function admitNext(): void {
    while (active.total() < limits.active) {
      const next = turns.take((caller) => active.of(caller) >= limits.activeOfCaller);
      if (next === null) return;
      queued.change(next.caller, -1);
      active.change(next.caller, 1);
      next.admit();
    }
  }

  /** Passes the place on; further calls do nothing. */
  function createLeave(caller: string): () => void {
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      active.change(caller, -1);
      admitNext();
    };
  }

  return {
    /**
     * Resolves with the function that gives the place back. Rejects with PackagesBusyError, or the reason of an aborted
     * signal.
     */
    async enter({ organizationId, caller }: Asking, signal?: AbortSignal): Promise<() => void> {
      signal?.throwIfAborted();
      const hasPlace = active.total() < limits.active && active.of(caller) < limits.activeOfCaller;
      if (!hasPlace && (queued.total() >= limits.queued || queued.of(caller) >= limits.queuedOfCaller))
        throw new PackagesBusyError(
          `${active.total()} packages are in progress, ${active.of(caller)} of them of this caller, and ` +
            `${queued.total()} requests are queued, ${queued.of(caller)} of them of this caller`,
        );
      return new Promise((resolve, reject) => {
        const admit = (): void => {
          signal?.removeEventListener("abort", giveUp);
          resolve(createLeave(caller));
        };
        const waiting: Waiting = { organizationId, caller, isUrgent: false, admit };
        const giveUp = (): void => {
          if (turns.remove(waiting)) queued.change(caller, -1);
          reject(signal?.reason as Error);
        };
        signal?.addEventListener("abort", giveUp, { once: true });
        queued.change(caller, 1);
        turns.add(waiting);
        admitNext();
      });
    },
  };
}

/** Counts of callers. */
function createCounts() {
  const counts = new Map<string, number>();
  let total = 0;
  return {
    total: (): number => total,
    of: (caller: string): number => counts.get(caller) ?? 0,
    change(caller: string, by: 1 | -1): void {
      total += by;
      const left = (counts.get(caller) ?? 0) + by;
      if (left === 0) counts.delete(caller);
      else counts.set(caller, left);
    },
  };
}
