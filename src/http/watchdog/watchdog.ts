/**
 * Ends requests that make no progress. Whatever a request waits for has a deadline of its own; this is the net below
 * them, for what has none or does not keep it: a parser that never calls back, storage that hangs, a stream that ends
 * nowhere. Progress is another phase (request-progress.ts), a byte of the body that arrives, or a byte of the answer
 * that leaves. So an upload, a download or a live stream is never ended while bytes move, however slowly.
 *
 * It counts checks without progress instead of comparing times: a machine that slept, or an event loop that was held,
 * ends nothing.
 */
import type Koa from "koa";
import type { Timer } from "../../domain/time.ts";
import { unavailable } from "../../errors.ts";
import { ClientGoneError } from "../body/body.ts";
import { PHASES } from "./request-progress.ts";
import type { Phase, RequestProgress } from "./request-progress.ts";

/** Seconds between two checks. */
export const CHECK_S = 30;
/** Twice the longest deadline that a step of a request has (jobs/recorder.ts). */
const MAX_IDLE_S = 600;
/** Of a request whose client is gone: nothing waits for it but what it holds. */
const MAX_IDLE_GONE_S = 60;
const RETRY_AFTER_S = 5;

/** A request that was ended: where it hung, and for how many seconds at least. */
export type HungRequest = { ctx: Koa.Context; phase: Phase; idleS: number };

export type Watched = {
  progress: RequestProgress;
  /**
   * Runs the request up to its answer.
   * @throws what `work` throws; AppError 503 once it was given up, or ClientGoneError without a client
   */
  run(work: () => Promise<void>): Promise<void>;
  /** The request is over: answered, or its connection is gone. */
  end(): void;
};

type Entry = {
  readonly ctx: Koa.Context;
  phase: Phase;
  /** Seconds without progress after which it is ended. */
  patienceS: number;
  /** Phases entered so far. */
  steps: number;
  /** What `measure` returned at the latest check, and how many checks have found the same since. */
  measured: number;
  idleChecks: number;
  giveUp: ((error: Error) => void) | null;
  error: Error | null;
  /** null once it is over. */
  onOver: (() => void)[] | null;
};

/**
 * @param options.stallTimeoutS seconds without a byte after which a body is abandoned: the watchdog is more patient
 * @param options.onHung called for each request that is ended, before it is
 */
export function createWatchdog({
  timer,
  stallTimeoutS,
  onHung,
}: {
  timer: Timer;
  stallTimeoutS: number;
  onHung(hung: HungRequest): void;
}): { watch(ctx: Koa.Context): Watched } {
  const maxIdleS = Math.max(MAX_IDLE_S, 2 * stallTimeoutS);
  const entries = new Set<Entry>();
  let isScheduled = false;

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    timer(CHECK_S, () => {
      isScheduled = false;
      for (const entry of entries) check(entry);
      if (entries.size > 0) schedule();
    });
  }

  function check(entry: Entry): void {
    const measured = measure(entry);
    entry.idleChecks = measured === entry.measured ? entry.idleChecks + 1 : 0;
    entry.measured = measured;
    const limitS = entry.ctx.res.destroyed ? MAX_IDLE_GONE_S : maxIdleS + entry.patienceS;
    const idleS = entry.idleChecks * CHECK_S;
    if (idleS < limitS || entry.error) return;
    onHung({ ctx: entry.ctx, phase: entry.phase, idleS });
    giveUp(entry, idleS);
  }

  return {
    watch(ctx) {
      const entry: Entry = {
        ctx,
        phase: "starting",
        patienceS: 0,
        steps: 0,
        measured: -1,
        idleChecks: 0,
        giveUp: null,
        error: null,
        onOver: [],
      };
      entries.add(entry);
      schedule();
      return {
        progress: progressIn(entry),
        run: (work) =>
          new Promise((resolve, reject) => {
            entry.giveUp = reject;
            work().then(resolve, reject);
          }),
        end() {
          entries.delete(entry);
          const callbacks = entry.onOver ?? [];
          entry.onOver = null;
          for (const callback of callbacks) callback();
        },
      };
    },
  };
}

const progressIn = (entry: Entry): RequestProgress => ({
  enter(phase, { patienceS } = { patienceS: 0 }) {
    entry.phase = phase;
    entry.patienceS = patienceS;
    entry.steps += 1;
  },
  requireRunning() {
    if (entry.error) throw entry.error;
  },
  onOver(callback) {
    if (entry.onOver) entry.onOver.push(callback);
    else callback();
  },
});

/**
 * A number that grows with the progress of a request. Until its body is complete, whatever arrives on the connection is
 * its body. Bytes of an answer count once they have left for the network.
 */
function measure({ ctx: { req, res }, steps }: Entry): number {
  const { socket } = req;
  const arrived = req.complete ? 0 : socket.bytesRead;
  const left = res.headersSent ? socket.bytesWritten - socket.writableLength : 0;
  return steps + arrived + left;
}

/** Ends a request: with an answer, or by its connection if the answer has begun. */
function giveUp(entry: Entry, idleS: number): void {
  const { ctx, phase } = entry;
  entry.error = ctx.res.destroyed ? new ClientGoneError() : givenUp(phase, idleS);
  if (phase === "sending" || ctx.res.headersSent) ctx.res.destroy();
  entry.giveUp?.(entry.error);
}

function givenUp(phase: Phase, idleS: number): Error {
  const outcome = phase === "finishing" ? "The change itself is stored" : "Nothing was stored. Please try again";
  return unavailable(
    `The request was given up ${PHASES[phase]}: it made no progress for ${Math.floor(idleS / 60)} minutes. ${outcome}`,
    RETRY_AFTER_S,
  );
}
