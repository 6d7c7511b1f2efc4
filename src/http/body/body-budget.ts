/**
 * How many bytes of large bodies the server holds at once. A large body is not read before there is room for it: its
 * bytes wait in the network, where they cost the client's memory and not ours. Small bodies never ask.
 *
 * One caller gets at most half of the budget, so that nobody can keep everybody else waiting; who holds nothing is let
 * in first come, first served, and nobody overtakes somebody whose turn it is.
 */
import { tooManyRequests } from "../../errors.ts";

/** Bytes up to which a body is read at once: far more than nearly all requests bring. */
export const SMALL_BODY_BYTES = 65_536;

/** Bytes of all large bodies together; more where one alone may be larger. */
export const BODY_BUDGET_BYTES = 64 << 20;

/** Seconds that a body waits for its turn before the client is asked to come again. */
const MAX_WAIT_S = 60;
/** Bodies that wait; each of them holds a connection and a few kilobytes. */
const MAX_WAITING = 1_000;
/** Seconds after which a client that was refused should try again. */
const RETRY_AFTER_S = 5;

/** The right to hold a body. */
export type BodyLease = {
  /** Gives the room back. Further calls do nothing. */
  release(): void;
};

export type BodyBudget = {
  /**
   * Resolves once there is room for so many bytes. `caller` names who asks.
   * @throws AppError 429 when that takes too long, the reason of the signal when it aborts before.
   */
  acquire(request: { bytes: number; owner: string; signal: AbortSignal }): Promise<BodyLease>;
  /** Whether somebody waits: then who holds room should not hold it for long. */
  isContended(): boolean;
  /** Bytes that are held, and requests that wait. */
  load(): { bytes: number; waiting: number };
};

type Waiting = { bytes: number; owner: string; admit(): void };

/**
 * @param options.bytes of all bodies together; a larger one is let in when it is alone. @param options.maxWait seconds.
 */
export function createBodyBudget({
  bytes: total,
  maxWaitS = MAX_WAIT_S,
  maxWaiting = MAX_WAITING,
}: {
  bytes: number;
  maxWaitS?: number;
  maxWaiting?: number;
}): BodyBudget {
  const share = total / 2;
  const held = new Map<string, number>();
  const queue: Waiting[] = [];
  let taken = 0;

  const heldBy = (caller: string): number => held.get(caller) ?? 0;
  const hasRoom = (bytes: number): boolean => taken === 0 || taken + bytes <= total;
  const isWithinShare = (caller: string, bytes: number): boolean =>
    heldBy(caller) === 0 || heldBy(caller) + bytes <= share;

  function take(caller: string, bytes: number): BodyLease {
    taken += bytes;
    held.set(caller, heldBy(caller) + bytes);
    let isHeld = true;
    return {
      release() {
        if (!isHeld) return;
        isHeld = false;
        taken -= bytes;
        const left = heldBy(caller) - bytes;
        if (left > 0) held.set(caller, left);
        else held.delete(caller);
        admitWaiting();
      },
    };
  }

  function admitWaiting(): void {
    for (let place = 0; place < queue.length; ) {
      const next = queue[place] as Waiting;
      if (!isWithinShare(next.owner, next.bytes)) {
        place += 1;
        continue;
      }
      if (!hasRoom(next.bytes)) return;
      queue.splice(place, 1);
      next.admit();
    }
  }

  const refusal = (): Error => tooManyRequests("The server is receiving too many large requests", RETRY_AFTER_S);

  return {
    acquire({ bytes, owner, signal }) {
      signal.throwIfAborted();
      const isFirst = queue.every((waiting) => !isWithinShare(waiting.owner, waiting.bytes));
      if (isFirst && isWithinShare(owner, bytes) && hasRoom(bytes)) return Promise.resolve(take(owner, bytes));
      if (queue.length >= maxWaiting) return Promise.reject(refusal());
      return new Promise((resolve, reject) => {
        const leave = (error: unknown): void => {
          const place = queue.indexOf(waiting);
          if (place >= 0) queue.splice(place, 1);
          stop();
          reject(error);
          admitWaiting();
        };
        const onAbort = (): void => leave(signal.reason);
        const timer = setTimeout(() => leave(refusal()), maxWaitS * 1000);
        const stop = (): void => {
          clearTimeout(timer);
          signal.removeEventListener("abort", onAbort);
        };
        const waiting: Waiting = {
          bytes,
          owner,
          admit() {
            stop();
            resolve(take(owner, bytes));
          },
        };
        signal.addEventListener("abort", onAbort, { once: true });
        queue.push(waiting);
      });
    },
    isContended: () => queue.length > 0,
    load: () => ({ bytes: taken, waiting: queue.length }),
  };
}
