/**
 * Runs pending evaluations (newer-clients 4.3 and 6.6): one of a caller at a time, in turns (workers/turns.ts);
 * those with a decision are urgent.
 *
 * Invariants: the table of evaluations is the queue, so a process that starts continues where another one ended; what
 * is evaluated was stored before the request was answered, so a later run has the same verdict; the verdict, the
 * decision and its audit entry are one write; a failure never writes a decision.
 */
import { AppError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Timer } from "../domain/time.ts";
import { isLoggedRefusal } from "../store/db/group-commit.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { Store } from "../store/index.ts";
import type {
  DecisionEnd,
  PendingEvaluation,
  RegoEvaluationEnd,
  RegoEvaluationRow,
} from "../store/policies/rego-evaluations.ts";
import type { RegoDocuments } from "./documents.ts";
import { engineName } from "./engine-name.ts";
import { readOrder } from "./stored-run.ts";
import type { RegoEngine, RegoOutcome, RegoVerdict } from "./types.ts";
import { createWaiters } from "./waiters.ts";
import { createTurns } from "../workers/turns.ts";

/** Evaluations that may wait: of one caller, of one organization, and in all (newer-clients 4.4). */
const MAX_WAITING_OF_CALLER = 16;
const MAX_WAITING_OF_ORGANIZATION = 64;
const MAX_WAITING = 256;
/** An evaluation ends within this time of its request: clients give up after 30 seconds (newer-clients 4.3). */
const MAX_TOTAL_S = 25;
/** Of that, what reading before and writing after the engine may take. */
const OVERHEAD_S = 1;
/** The least time that the engine gets. */
const MIN_ALLOWANCE_MS = 500;
/** Pause after a verdict could not be written, as on a full disk. */
const WRITE_RETRY_S = 5;

type EvaluatorDependencies = {
  store: Store;
  writer: Pick<GroupCommitWriter, "run">;
  documents: Pick<RegoDocuments, "read">;
  engine: Pick<RegoEngine, "evaluate">;
  /** Milliseconds that the engine may take for one evaluation, and how many it runs at a time. */
  timeMs: number;
  threads: number;
  /** Epoch seconds. */
  now(): number;
  /** Monotonic time in milliseconds. */
  clock(): number;
  timer: Timer;
  logger: Logger;
  /**
   * Writes the decision of a verdict, inside the write that ends the evaluation.
   * @returns the row id of the attestation
   * @throws AppError when its destination is gone
   */
  recordDecision(evaluation: RegoEvaluationRow, verdict: RegoVerdict, recordedAt: number): number;
};

export type EvaluationQueue = ReturnType<typeof createEvaluator>;

/** An evaluation in the queue. `endsAt`: when it has to end, by the monotonic clock. */
type Entry = {
  readonly id: number;
  readonly organizationId: number;
  readonly caller: string;
  /** With a decision. */
  readonly isUrgent: boolean;
  readonly endsAt: number;
  /** Stops the timer that ends it if it has not begun by then. */
  stopWaiting(): void;
};

/** What an evaluation came to; `durationMs` is null for one that the engine never got. */
type Ending = RegoOutcome<RegoVerdict> | { ok: false; error: { kind: string; message: string }; durationMs: null };
type Completed = Extract<RegoOutcome<RegoVerdict>, { ok: true }>;

const failure = (kind: string, message: string): Ending => ({ ok: false, error: { kind, message }, durationMs: null });
const waitedTooLong = (): Ending =>
  failure("evaluate", `The evaluation waited too long: it could not begin within ${MAX_TOTAL_S - OVERHEAD_S} seconds`);

export function createEvaluator(dependencies: EvaluatorDependencies) {
  const { store, clock, timer, logger } = dependencies;
  const turns = createTurns<Entry>();
  const running = new Set<Entry>();
  /** Writes that failed, and wait for their next attempt. */
  const retries = new Set<() => void>();
  /** Ends that are being written. */
  const ending = new Set<number>();
  const waiters = createWaiters(timer);
  const idleListeners: (() => void)[] = [];
  let isClosed = false;

  const isIdle = (): boolean =>
    running.size === 0 && ending.size === 0 && (isClosed || (turns.isEmpty() && retries.size === 0));
  const isBusy = (caller: string): boolean => [...running].some((entry) => entry.caller === caller);
  const settle = (): void => {
    if (isIdle()) for (const resolve of idleListeners.splice(0)) resolve();
  };

  function dispatch(): void {
    while (!isClosed && running.size < dependencies.threads) {
      const entry = turns.take(isBusy);
      if (entry === null) return;
      entry.stopWaiting();
      running.add(entry);
      void attempt(entry).then(() => {
        dispatch();
        settle();
      });
    }
  }

  /** Never rejects. */
  async function attempt(entry: Entry): Promise<void> {
    let end: Ending | null = null;
    try {
      end = await runPending(dependencies, entry);
    } catch (error) {
      // Closing ends the engine under a running evaluation, which the next process runs again.
      if (!isClosed) {
        logger.error({ err: error, evaluation: entry.id }, "the engine of evaluations failed");
        end = failure("evaluate", "The engine of the server failed; its log has the reason");
      }
    }
    const written = end === null ? null : write(entry.id, end);
    running.delete(entry);
    await written;
  }

  /** Ends an evaluation, now or when the server can write again. Never rejects. */
  async function write(id: number, end: Ending): Promise<void> {
    ending.add(id);
    try {
      await writeEnd(dependencies, id, end);
    } catch (error) {
      if (isClosed) return;
      if (!isLoggedRefusal(error))
        logger.error({ err: error, evaluation: id }, "the end of an evaluation could not be written; it is retried");
      const cancel = timer(WRITE_RETRY_S, () => {
        retries.delete(cancel);
        void write(id, end);
      });
      retries.add(cancel);
      return;
    } finally {
      ending.delete(id);
      settle();
    }
    waiters.notify(id);
  }

  function submit({ id, organizationId, caller, hasDecision }: PendingEvaluation): void {
    if (isClosed) return;
    const entry: Entry = {
      id,
      organizationId,
      caller,
      isUrgent: hasDecision === 1,
      endsAt: clock() + MAX_TOTAL_S * 1_000,
      stopWaiting: timer(MAX_TOTAL_S - OVERHEAD_S, () => {
        if (turns.remove(entry)) void write(id, waitedTooLong());
      }),
    };
    turns.add(entry);
    dispatch();
  }

  const countRunning = (isCounted: (entry: Entry) => boolean): number => [...running].filter(isCounted).length;

  return {
    /** Queues what an earlier process left pending. Call it once, when the server can write. */
    start(): void {
      for (const pending of store.regoEvaluations.listPending()) submit(pending);
    },
    /** Whether one more evaluation may wait. Call it inside the write that would add it. */
    hasRoom(organizationId: number, caller: string): boolean {
      const pending = store.regoEvaluations.countPending(organizationId, caller);
      return (
        pending.caller - countRunning((entry) => entry.caller === caller) < MAX_WAITING_OF_CALLER &&
        pending.organization - countRunning((entry) => entry.organizationId === organizationId) <
          MAX_WAITING_OF_ORGANIZATION &&
        pending.everyone - running.size < MAX_WAITING
      );
    },
    /** Queues an evaluation whose row was committed. */
    submit,
    /** Resolves when the evaluation has ended, at the latest after `seconds`; at once when it is not pending. */
    async waitFor(id: number, options: { caller: string; seconds: number }): Promise<void> {
      const isPending = (): boolean => store.regoEvaluations.find(id)?.status === "pending";
      if (!isClosed && isPending()) await waiters.wait(id, options);
    },
    /** Resolves when nothing waits or runs. */
    whenIdle: (): Promise<void> =>
      isIdle() ? Promise.resolve() : new Promise((resolve) => idleListeners.push(resolve)),
    /**
     * Takes up no more evaluations and answers those who wait. Pending ones are continued by the next process. Those
     * that run end with the engine: wait for `whenIdle`.
     */
    close(): void {
      isClosed = true;
      for (let entry = turns.take(() => false); entry !== null; entry = turns.take(() => false)) entry.stopWaiting();
      for (const cancel of retries) cancel();
      retries.clear();
      waiters.notifyAll();
      settle();
    },
  };
}

/** Runs a pending evaluation; null for one that has ended. @throws Error when the engine cannot run */
async function runPending(
  { store, documents, engine, timeMs, clock, logger }: EvaluatorDependencies,
  { id, caller, endsAt }: Entry,
): Promise<Ending | null> {
  const row = store.regoEvaluations.find(id);
  if (row?.status !== "pending") return null;
  const leftMs = (): number => endsAt - OVERHEAD_S * 1_000 - clock();
  if (leftMs() < MIN_ALLOWANCE_MS) return waitedTooLong();
  let order: Awaited<ReturnType<typeof readOrder>>;
  try {
    order = await readOrder(documents, row);
  } catch (error) {
    logger.error({ err: error, evaluation: row.public_id }, "the bundle or the input of an evaluation cannot be read");
    return failure("input_shape", "The server cannot read the stored bundle or input; its log has the reason");
  }
  const overallMs = Math.max(1, Math.floor(leftMs()));
  return engine.evaluate(order.files, order.question, { lane: caller, timeMs: Math.min(timeMs, overallMs), overallMs });
}

/** Writes the end of an evaluation, unless it has ended. @throws Error when it cannot be written */
async function writeEnd(dependencies: EvaluatorDependencies, id: number, end: Ending): Promise<void> {
  const { store, writer, now, logger } = dependencies;
  const { regoEvaluations } = store;
  const row = regoEvaluations.find(id);
  if (row?.status !== "pending") return;
  if (!end.ok || row.decision_name === null) {
    await writer.run(() => regoEvaluations.end(id, toEnd(end, now())));
    return;
  }
  try {
    await writer.run(() => endWithDecision(dependencies, row, end));
  } catch (error) {
    // The destination was there when the evaluation was requested. Without it, the verdict stands alone.
    if (!(error instanceof AppError) || !["invalid", "not_found", "forbidden"].includes(error.code)) throw error;
    const evaluation = row.public_id;
    logger.warn(
      { evaluation, err: error },
      "the decision of an evaluation could not be recorded: its destination is gone",
    );
    await writer.run(() => regoEvaluations.end(id, toEnd(end, now(), { error: error.message })));
  }
}

function toEnd(end: Ending, recordedAt: number, decision: DecisionEnd | null = null): RegoEvaluationEnd {
  const run = { recordedAt, engine: end.durationMs === null ? null : engineName(), durationMs: end.durationMs };
  if (!end.ok) return { ...run, error: end.error };
  const { allow, violations, outputs } = end.value;
  return { ...run, allow, violations, outputsJson: outputs, decision };
}

/** Writes the decision and the end of its evaluation. Call it inside a write. @throws AppError as `recordDecision` */
function endWithDecision(
  { store, now, recordDecision }: EvaluatorDependencies,
  row: RegoEvaluationRow,
  end: Completed,
): void {
  if (store.regoEvaluations.get(row.id).status !== "pending") return;
  const recordedAt = now();
  const attestationId = recordDecision(row, end.value, recordedAt);
  store.regoEvaluations.end(row.id, toEnd(end, recordedAt, { attestationId }));
}
