/**
 * Bounds the bytes of large bodies in memory. A large body is not read until there is room for it: until then its bytes
 * wait in the network, in the client's memory instead of ours. Small bodies are exempt.
 *
 * One owner gets at most half of the budget, so that none can starve the others. Within that share, owners are admitted
 * first come, first served; only those above their share are overtaken.
 */
import { tooManyRequests } from "../../errors.ts";

/** A body up to this size is read immediately; nearly all bodies are far smaller. */
export const SMALL_BODY_BYTES = 65_536;

/** Default for all large bodies together; more if the limit of a single body is higher. */
export const BODY_BUDGET_BYTES = 64 << 20;

/** How long a body waits for room before the client is asked to retry. */
const MAX_WAIT_S = 60;
/** Waiting bodies; each holds a connection and a few kilobytes. */
const MAX_WAITING = 1_000;
const RETRY_AFTER_S = 5;

/** The right to hold a body in memory. */
export type BodyLease = {
  /** Returns the room to the budget. Further calls do nothing. */
  release(): void;
};

type LeaseRequest = { bytes: number; owner: string; signal: AbortSignal };

export type BodyBudget = {
  /**
   * Resolves once there is room for that many bytes.
   * @param request.owner whose share is used: the public id of a principal, or the path of an unauthenticated request
   * @throws AppError 429 if that takes too long; the reason of the signal if it aborts first.
   */
  acquire(request: LeaseRequest): Promise<BodyLease>;
  /** Whether a body is waiting; then bodies that hold room should not hold it for long. */
  isContended(): boolean;
  /** Bytes that are held, and number of bodies that wait. */
  load(): { bytes: number; waiting: number };
};

type Waiting = { bytes: number; owner: string; admit(): void };

/**
 * @param options.bytes of all bodies together; a larger body is admitted when it is alone
 * @param options.maxWaitS seconds until a waiting body is refused
 * @param options.maxWaiting bodies that may wait; further ones are refused immediately
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

  const heldBy = (owner: string): number => held.get(owner) ?? 0;
  const hasRoom = (bytes: number): boolean => taken === 0 || taken + bytes <= total;
  const isWithinShare = (owner: string, bytes: number): boolean =>
    heldBy(owner) === 0 || heldBy(owner) + bytes <= share;

  function grant(owner: string, bytes: number): BodyLease {
    taken += bytes;
    held.set(owner, heldBy(owner) + bytes);
    let isHeld = true;
    return {
      release() {
        if (!isHeld) return;
        isHeld = false;
        taken -= bytes;
        const left = heldBy(owner) - bytes;
        if (left > 0) held.set(owner, left);
        else held.delete(owner);
        admitWaiting();
      },
    };
  }

  function admitWaiting(): void {
    for (let index = 0; index < queue.length; ) {
      const next = queue[index] as Waiting;
      if (!isWithinShare(next.owner, next.bytes)) {
        index += 1;
        continue;
      }
      if (!hasRoom(next.bytes)) return;
      queue.splice(index, 1);
      next.admit();
    }
  }

  function enqueue({ bytes, owner, signal }: LeaseRequest): Promise<BodyLease> {
    return new Promise((resolve, reject) => {
      const leave = (error: unknown): void => {
        const index = queue.indexOf(waiting);
        if (index >= 0) queue.splice(index, 1);
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
          resolve(grant(owner, bytes));
        },
      };
      signal.addEventListener("abort", onAbort, { once: true });
      queue.push(waiting);
    });
  }

  const refusal = (): Error => tooManyRequests("The server is receiving too many large requests", RETRY_AFTER_S);

  return {
    acquire({ bytes, owner, signal }) {
      signal.throwIfAborted();
      const isFirst = queue.every((waiting) => !isWithinShare(waiting.owner, waiting.bytes));
      if (isFirst && isWithinShare(owner, bytes) && hasRoom(bytes)) return Promise.resolve(grant(owner, bytes));
      if (queue.length >= maxWaiting) return Promise.reject(refusal());
      return enqueue({ bytes, owner, signal });
    },
    isContended: () => queue.length > 0,
    load: () => ({ bytes: taken, waiting: queue.length }),
  };
}
