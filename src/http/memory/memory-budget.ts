/**
 * One budget for the memory that callers can make the server hold: large bodies, large answers until they are sent, and
 * tasks of worker threads. Small ones are exempt, because connections and pools bound them.
 *
 * Each use has a part of its own, so that answers that are not read do not lock uploads out. Within the part of bodies
 * and of answers, one owner gets at most half, so that none can starve the others. What is alone in its use is always
 * admitted, whatever its size: every use makes progress when the others fill the budget.
 *
 * Bodies and threads wait, first come, first served; only owners above their share are overtaken. An answer is made
 * already, so it does not wait: it is sent, or refused.
 */
import type { Timer } from "../../domain/time.ts";
import { tooManyRequests } from "../../errors.ts";

/** An answer up to this size is exempt. */
export const SMALL_ANSWER_BYTES = 65_536;

/** What the buffers of a streamed answer hold at most: those of the stream, of its thread, and of the socket. */
export const STREAM_BYTES = 262_144;

/** More would only delay the refusal of callers who never read. */
const MAX_TOTAL_BYTES = 2 ** 31;
/** Of bodies, and of answers, on any machine; more if the limit of a single body is higher. */
const MIN_PART_BYTES = 32 << 20;
const MIN_TOTAL_BYTES = 128 << 20;
/** About what the largest task of a thread takes (worker-threads.ts). */
const MAX_TASK_BYTES = 224 << 20;

/** How long a body waits for room before the client is asked to retry. */
const MAX_WAIT_S = 60;
/** Waiting bodies; each holds a connection and a few kilobytes. */
const MAX_WAITING = 1_000;
const RETRY_AFTER_S = 5;

export type MemoryUse = "bodies" | "answers" | "threads";

/** The right to hold memory. */
export type MemoryLease = {
  /** Returns the room to the budget. Further calls do nothing. */
  release(): void;
};

/** `waiting`: bodies, or pools with a task; `refused`: since the start. */
export type MemoryLoad = { bytes: number; waiting: number; refused: number };

type Claim = {
  bytes: number;
  /** Whose share is used: the public id of a principal, or what is known of an unauthenticated request. */
  owner: string;
};

export type AnswerBudget = {
  /** @throws AppError 429 if there is no room now. */
  take(claim: Claim): MemoryLease;
  /** For an answer that must not be refused, because its change is stored; it may exceed the budget. */
  hold(claim: Claim): MemoryLease;
};

export type BodyBudget = {
  /**
   * Resolves once there is room for that many bytes.
   * @throws AppError 429 if that takes too long; the reason of the signal if it aborts first.
   */
  acquire(request: Claim & { signal: AbortSignal }): Promise<MemoryLease>;
  /** Whether a body is waiting; then bodies that hold room should not hold it for long. */
  isContended(): boolean;
  /** Bytes that are held, and number of bodies that wait. */
  load(): { bytes: number; waiting: number };
};

type ThreadBudget = {
  /**
   * Takes room for the task of a thread; null if there is none, or if others wait for it. Then `onRoom` is called once
   * when it is the caller's turn to take it.
   */
  take(bytes: number, onRoom: () => void): MemoryLease | null;
  /**
   * Counts the heap of a thread that ended within a task, in bytes. V8 keeps its pages for eight seconds, and gives
   * them to other threads meanwhile: until then tasks of threads use that room first, and nothing else can.
   */
  keepHeap(bytes: number): void;
};

export type MemoryBudget = {
  bodies: BodyBudget;
  answers: AnswerBudget;
  threads: ThreadBudget;
  /** Bytes of all uses together. */
  readonly total: number;
  /** What callers hold now, without the heaps of ended threads. */
  load(): Readonly<Record<MemoryUse, MemoryLoad>>;
};

export type MemoryBudgetOptions = {
  /** Bytes of all uses together, and at most of bodies and of answers. */
  total: number;
  bodies: number;
  answers: number;
  /** Seconds until a waiting body is refused. */
  maxWaitS?: number;
  /** Bodies that may wait; further ones are refused immediately. */
  maxWaiting?: number;
  /** Ends the time in which the heap of an ended thread counts; without it, none does. */
  timer?: Timer | null;
};

/** Measured: the 200 MB of a thread that had ended at its limit went back to the system 8 s later; garbage collections
 * of the main thread did not change that. */
const KEPT_HEAP_S = 10;

/**
 * What the program takes beside the work of callers: 60 MB at the start, 150 MB with idle threads and caches, and the
 * rest for garbage that is not collected yet, and for what the C library does not return.
 */
const PROGRAM_BYTES = 224 << 20;

/**
 * Three quarters of the memory that the process may use, but what the program itself takes is left for it. A sixth of
 * that for bodies, and for answers; on a small machine what the largest task of a thread leaves, because what is alone
 * in its use is always admitted. Not less than 32 MB, nor than one body that the limits allow.
 * @param memory bytes that the process may use
 */
export function sizeMemoryBudget(memory: number, limits: { json: number; form: number }): MemoryBudgetOptions {
  const total = Math.min(
    MAX_TOTAL_BYTES,
    Math.max(MIN_TOTAL_BYTES, Math.floor(Math.min(memory * 0.75, memory - PROGRAM_BYTES))),
  );
  const part = Math.max(MIN_PART_BYTES, Math.floor(Math.min(total / 6, (total - MAX_TASK_BYTES) / 2)));
  return { total, bodies: Math.max(part, limits.json, limits.form), answers: part };
}

/** Something that waits: `admit` is called when there is room, and takes it at once if it still wants it. */
type Waiting = Claim & { admit(): void };

/** The part of one use. */
type Part = {
  readonly max: number;
  /** Of one owner. */
  readonly share: number;
  taken: number;
  refused: number;
  readonly held: Map<string, number>;
  readonly queue: Waiting[];
};

const createPart = (max: number, share: number): Part => ({
  max,
  share,
  taken: 0,
  refused: 0,
  held: new Map(),
  queue: [],
});

export function createMemoryBudget({
  maxWaitS = MAX_WAIT_S,
  maxWaiting = MAX_WAITING,
  timer = null,
  ...sizes
}: MemoryBudgetOptions): MemoryBudget {
  const parts: Readonly<Record<MemoryUse, Part>> = {
    // All pools are one owner; the pools themselves bound what a caller gets.
    threads: createPart(sizes.total, sizes.total),
    bodies: createPart(sizes.bodies, sizes.bodies / 2),
    answers: createPart(sizes.answers, sizes.answers / 2),
  };
  const ledger = createLedger(sizes.total, parts);
  return {
    total: sizes.total,
    bodies: createBodyBudget(ledger, parts.bodies, { maxWaitS, maxWaiting }),
    answers: createAnswerBudget(ledger, parts.answers),
    threads: createThreadBudget(ledger, parts.threads, timer),
    load: () => ({ bodies: loadOf(parts.bodies), answers: loadOf(parts.answers), threads: loadOf(parts.threads) }),
  };
}

const loadOf = ({ taken, queue, refused }: Part): MemoryLoad => ({ bytes: taken, waiting: queue.length, refused });

type Ledger = ReturnType<typeof createLedger>;

/** What is taken, of each part and of all. */
function createLedger(total: number, { threads, ...others }: Readonly<Record<MemoryUse, Part>>) {
  const parts = [threads, ...Object.values(others)];
  let taken = 0;
  const keptHeaps: { bytes: number }[] = [];

  const heldBy = ({ held }: Part, owner: string): number => held.get(owner) ?? 0;
  function hasRoom(part: Part, bytes: number): boolean {
    if (part.taken === 0) return true;
    const kept = keptHeaps.reduce((sum, heap) => sum + heap.bytes, 0);
    const more = part === threads ? Math.max(kept, bytes) : kept + bytes;
    return part.taken + bytes <= part.max && taken + more <= total;
  }
  const isWithinShare = (part: Part, { owner, bytes }: Claim): boolean =>
    heldBy(part, owner) === 0 || heldBy(part, owner) + bytes <= part.share;

  function useKept(bytes: number): void {
    let left = bytes;
    for (const heap of keptHeaps) {
      const used = Math.min(heap.bytes, left);
      heap.bytes -= used;
      left -= used;
    }
  }

  function grant(part: Part, { owner, bytes }: Claim): MemoryLease {
    if (part === threads) useKept(bytes);
    taken += bytes;
    part.taken += bytes;
    part.held.set(owner, heldBy(part, owner) + bytes);
    let isHeld = true;
    return {
      release() {
        if (!isHeld) return;
        isHeld = false;
        taken -= bytes;
        part.taken -= bytes;
        const left = heldBy(part, owner) - bytes;
        if (left > 0) part.held.set(owner, left);
        else part.held.delete(owner);
        admitWaiting();
      },
    };
  }

  function admitWaiting(): void {
    for (const part of parts) {
      for (let index = 0; index < part.queue.length; ) {
        const next = part.queue[index] as Waiting;
        if (!isWithinShare(part, next)) {
          index += 1;
          continue;
        }
        if (!hasRoom(part, next.bytes)) break;
        part.queue.splice(index, 1);
        next.admit();
      }
    }
  }

  /** @returns what ends that */
  function keepHeap(bytes: number): () => void {
    const heap = { bytes };
    keptHeaps.push(heap);
    return () => {
      keptHeaps.splice(keptHeaps.indexOf(heap), 1);
      admitWaiting();
    };
  }

  return { grant, hasRoom, isWithinShare, admitWaiting, keepHeap };
}

function createBodyBudget(
  { grant, hasRoom, isWithinShare, admitWaiting }: Ledger,
  part: Part,
  { maxWaitS, maxWaiting }: { maxWaitS: number; maxWaiting: number },
): BodyBudget {
  const { queue } = part;

  function refusal(): Error {
    part.refused += 1;
    return tooManyRequests("The server is receiving too many large requests", RETRY_AFTER_S);
  }

  function enqueue({ bytes, owner, signal }: Claim & { signal: AbortSignal }): Promise<MemoryLease> {
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
          resolve(grant(part, { bytes, owner }));
        },
      };
      signal.addEventListener("abort", onAbort, { once: true });
      queue.push(waiting);
    });
  }

  return {
    acquire({ bytes, owner, signal }) {
      signal.throwIfAborted();
      const isFirst = queue.every((waiting) => !isWithinShare(part, waiting));
      if (isFirst && isWithinShare(part, { owner, bytes }) && hasRoom(part, bytes))
        return Promise.resolve(grant(part, { bytes, owner }));
      if (queue.length >= maxWaiting) return Promise.reject(refusal());
      return enqueue({ bytes, owner, signal });
    },
    isContended: () => queue.length > 0,
    load: () => ({ bytes: part.taken, waiting: queue.length }),
  };
}

function createAnswerBudget({ grant, hasRoom, isWithinShare }: Ledger, part: Part): AnswerBudget {
  return {
    take(claim) {
      if (isWithinShare(part, claim) && hasRoom(part, claim.bytes)) return grant(part, claim);
      part.refused += 1;
      throw tooManyRequests("The server is sending too many large answers", RETRY_AFTER_S);
    },
    hold: (claim) => grant(part, claim),
  };
}

function createThreadBudget({ grant, hasRoom, keepHeap }: Ledger, part: Part, timer: Timer | null): ThreadBudget {
  const owner = "threads";
  let isTurn = false;
  return {
    take(bytes, onRoom) {
      const isNext = isTurn || part.queue.length === 0;
      isTurn = false;
      if (isNext && hasRoom(part, bytes)) return grant(part, { bytes, owner });
      const admit = (): void => {
        isTurn = true;
        onRoom();
        isTurn = false;
      };
      part.queue.push({ bytes, owner, admit });
      return null;
    },
    keepHeap: (bytes) => void timer?.(KEPT_HEAP_S, keepHeap(bytes)),
  };
}
