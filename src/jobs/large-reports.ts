/**
 * Records what would hold up the main thread. Up to HEAVY artifacts are evaluated and written there, between other
 * writes; more of them are a task of the recording thread, which gets the right to write for as long as it writes.
 */
import type { Cause } from "../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../domain/snapshot/normalize.ts";
import { AppError, tooCostly, unavailable } from "../errors.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { EnvironmentRow, PhysicalType } from "../store/environments/environments.ts";
import type { Store } from "../store/index.ts";
import type { ReevaluatePayload } from "../store/environments/reevaluation-queue.ts";
import { isStorageFailure } from "../store/db/group-commit.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import { createPlaces } from "../workers/concurrency-limit.ts";
import type { Places } from "../workers/concurrency-limit.ts";
import { DeadlineError, PoolClosedError, TaskError, WorkerDiedError } from "../workers/pool.ts";
import type { Pool } from "../workers/pool.ts";
import type { ReadResult, RecordingOrder, RecordingResult } from "./large-reports-worker.ts";
import type { Actor } from "../store/actor.ts";

/**
 * Artifacts. Evaluating one under three policies and writing it takes about 0.2 ms, and the loop may be held for 20 ms.
 */
const HEAVY = 64;

/**
 * Artifacts in the reports that wait at most, because they are kept in memory, each with about a kilobyte: a few of the
 * largest reports, or as many small ones as there are reporters, who may all come at the same second of the hour.
 */
const MOST_WAITING = 300_000;

/** Milliseconds for a task, its waiting for others included: a hundred thousand artifacts take a fraction of it. */
const DEADLINE = 300_000;

/**
 * What is told of trouble of the machine: the thread ended or took too long, or its database could not be written. A
 * thread that is gone may have gone between its commit and its answer. null: a mistake of ours.
 */
function troubleOf(error: unknown): string | null {
  if (error instanceof WorkerDiedError || error instanceof DeadlineError)
    return "It is not known whether the report was stored. Please send it again";
  const unwritten =
    error instanceof PoolClosedError ||
    (error instanceof TaskError && (isStorageFailure(error) || error.code === "THREAD_REPLACED"));
  return unwritten ? "The report could not be stored. Nothing was changed. Please try again" : null;
}

/** Milliseconds that the text of one report may take to read: a hundred thousand pods take a twentieth of it. */
const READING_MS = 30_000;

/**
 * 413 where the thread ended, or had to be ended, because of the text that it was reading. Nothing was recorded then.
 */
function readingError(error: unknown): unknown {
  const isItsFault =
    (error instanceof DeadlineError && error.started) || (error instanceof WorkerDiedError && error.began);
  return isItsFault ? tooCostly("The report", error) : error;
}

/**
 * After so many writes, each of ten or twenty pages, the write-ahead log has the size at which SQLite would copy it by
 * itself.
 */
const CHECKPOINT_WRITES = 256;

/** A report is about so many bytes for each of its artifacts, or more. */
const LEAST_BYTES = 100;

export type RecordingPool = Pool<RecordingOrder, RecordingResult | ReadResult | null>;
export type LargeReports = ReturnType<typeof createRecorder>;

type RecorderParts = {
  store: Store;
  writer: GroupCommitWriter;
  now(): number;
  pool: RecordingPool | null;
  /** Lets one large text be parsed at a time, in whatever thread. */
  readingTurns?: Places;
  checkpoints?: "own" | "external";
  mostWaiting?: number;
  jobsAdded?(): void;
};

/**
 * @param parts `pool` null where there is no thread, as over a database in memory: then everything is done in the main
 * thread.
 *   `checkpoints`: whether this server empties the write-ahead log. `jobsAdded` is called after the thread committed
 *   something that may have added jobs.
 */
export function createRecorder({
  store,
  writer,
  now,
  pool,
  readingTurns = createPlaces(1),
  checkpoints = "own",
  mostWaiting = MOST_WAITING,
  jobsAdded = () => undefined,
}: RecorderParts) {
  let sequence = 0;
  let artifactsWaiting = 0;
  let last: Promise<unknown> = Promise.resolve();

  /** One task after the other: the thread keeps one plan. @param artifacts in its report. */
  function inTurn<T>(artifacts: number, work: () => Promise<T>): Promise<T> {
    artifactsWaiting += artifacts;
    const turn = last.then(work).finally(() => (artifactsWaiting -= artifacts));
    last = turn.catch(() => undefined);
    return turn;
  }

  async function record(
    thread: RecordingPool,
    number: number,
    task: {
      environmentId: number;
      cause: Cause;
      artifacts: readonly ReportedArtifact[] | "read" | null;
      actor: Actor;
      entry: AuditEntry | null;
    },
  ): Promise<RecordingResult> {
    const { environmentId, cause, artifacts, actor, entry } = task;
    const planned = (await thread.run(
      { type: "plan", sequence: number, environmentId, cause, artifacts },
      { deadline: DEADLINE },
    )) as RecordingResult;
    if (!planned.planned) return planned;
    const applying = async (): Promise<RecordingResult> => {
      try {
        return (await thread.run(
          { type: "apply", sequence: number, now: now(), newestJob: store.jobs.newestId(), actor, entry },
          { deadline: DEADLINE },
        )) as RecordingResult;
      } catch (error) {
        // The thread is being stopped, perhaps in the middle of a transaction: the next order begins when it is gone.
        if (error instanceof DeadlineError)
          await thread.run({ type: "checkpoint", patience: 0 }, { deadline: DEADLINE }).catch(() => undefined);
        throw error;
      }
    };
    const recorded = await writer.withExclusiveWrite(applying);
    if (recorded.index !== null) jobsAdded();
    return recorded;
  }

  /**
   * A turn for a report, if not too many artifacts wait already. @throws AppError unavailable, also for trouble on the
   * way.
   */
  async function turnFor(artifacts: number, work: () => Promise<RecordingResult>): Promise<RecordingResult> {
    // A report larger than the limit is recorded when none waits.
    if (artifactsWaiting > 0 && artifactsWaiting + artifacts > mostWaiting)
      throw unavailable("The server has too many large reports to record. Please try again", 5);
    try {
      return await inTurn(artifacts, work);
    } catch (error) {
      const trouble = troubleOf(error);
      throw trouble === null ? error : unavailable(trouble, 5, error);
    }
  }

  let writes = 0;
  let copying = false;

  /**
   * Most of the log is copied beside other writes. The rest, which came meanwhile, is copied while the right to write
   * is lent, so that all of it is and the next write begins the log anew: otherwise it would grow for as long as there
   * are writes. Who reads it without a pause is waited for then, for so many milliseconds (checkpoints.ts).
   */
  async function checkpoint(thread: RecordingPool, patience: number): Promise<void> {
    await thread.run({ type: "checkpoint", patience: 0 }, { deadline: DEADLINE });
    // Also while no changes are taken: it gives room back.
    await writer.withExclusiveWrite(() => thread.run({ type: "checkpoint", patience }, { deadline: DEADLINE }), {
      bypassGuard: true,
    });
  }

  /**
   * Copies the log, and empties it if readers let it within so many milliseconds; nothing where another program does
   * that. Never rejects.
   */
  async function emptyLog(patience: number): Promise<void> {
    if (!pool || checkpoints === "external") return;
    [writes, copying] = [0, true];
    await inTurn(0, () => checkpoint(pool, patience))
      .catch(() => undefined)
      .finally(() => (copying = false));
  }

  return {
    /**
     * To be told of committed writes: now and then the thread copies the write-ahead log into the database file, which
     * would hold up the main thread for as long as the disk takes. When it fails, SQLite itself copies at a later
     * commit.
     */
    committed(count: number): void {
      writes += count;
      // One that waits for its turn copies what is written until then too.
      if (!pool || checkpoints === "external" || copying || writes < CHECKPOINT_WRITES) return;
      void emptyLog(0);
    },

    emptyLog,

    /** Whether so many artifacts to evaluate or write, or a survey of that weight, are work for the thread. */
    accepts: (weight: number): boolean => pool !== null && weight > HEAVY,

    /** Whether texts of reports can be read by the thread. */
    canRecordRaw: pool !== null,

    /**
     * Records a report. @returns not planned when the environment was archived on the way: then nothing was recorded.
     * @throws AppError unavailable.
     */
    async report(task: {
      environmentId: number;
      artifacts: readonly ReportedArtifact[];
      actor: Actor;
      entry: AuditEntry;
    }): Promise<RecordingResult> {
      if (!pool) throw new Error("there is no thread that records");
      return turnFor(task.artifacts.length, () => record(pool, (sequence += 1), { ...task, cause: "report" }));
    },

    /**
     * Reads the text of a report, which is given away, and records it. `touch` is told its digest, inside a write, and
     * says whether that was all; `entry` is told the number of artifacts.
     * @returns as `report`. @throws AppError unavailable, and what is wrong with the text.
     */
    async recordRaw(task: {
      environmentId: number;
      report: PhysicalType;
      bytes: Buffer;
      touch: (digest: string) => boolean;
      actor: Actor;
      entry: (artifacts: number) => AuditEntry;
    }): Promise<RecordingResult> {
      if (!pool) throw new Error("there is no thread that reads");
      const { environmentId, report, bytes, touch, actor, entry } = task;
      // A buffer of its own moves to the thread; a part of a shared one has to be copied.
      const transfer =
        bytes.byteLength === bytes.buffer.byteLength && bytes.buffer instanceof ArrayBuffer ? [bytes.buffer] : [];
      return turnFor(Math.ceil(bytes.length / LEAST_BYTES), async () => {
        const number = (sequence += 1);
        const order: RecordingOrder = { type: "read", sequence: number, report, bytes };
        const read = (await readingTurns
          .within(() => pool.run(order, { deadline: DEADLINE, allowance: READING_MS, transfer }))
          .catch((error: unknown) => {
            throw readingError(error);
          })) as ReadResult;
        if ("refusal" in read)
          throw new AppError(
            read.refusal.code,
            read.refusal.message,
            read.refusal.fields ? { fields: read.refusal.fields } : {},
          );
        if (await writer.run(() => touch(read.digest))) return { planned: true, index: null };
        return record(pool, number, {
          environmentId,
          cause: "report",
          artifacts: "read",
          actor,
          entry: entry(read.count),
        });
      });
    },

    /**
     * Looks at the latest snapshot of an environment again. Nothing happens when it is archived, has none, or when
     * somebody else did it since it was asked for: doing it twice is as good as once.
     */
    async reevaluate({
      environment_id: environmentId,
      snapshot_count,
      cause,
      user_id,
      user_name,
    }: ReevaluatePayload): Promise<void> {
      const actor: Actor = { publicId: user_id, displayName: user_name };
      const isDone = (environment: EnvironmentRow): boolean =>
        environment.archived_at !== null ||
        // What else changed since is for the next report to find: a second snapshot would tell of policies that did not
        // change.
        (cause === "policies"
          ? environment.snapshot_count > snapshot_count && store.snapshotRecorder.isUnderPolicies(environment)
          : environment.checked_revision === environment.revision);
      const isHeavy = (): boolean =>
        store.snapshots.countRunning(environmentId) > HEAVY ||
        store.snapshotRecorder.readCurrent(store.environments.get(environmentId), cause, null).workload > HEAVY;
      if (pool && isHeavy()) {
        await inTurn(0, async () => {
          // Asked when its turn has come: a report before it may have done the same.
          if (!isDone(store.environments.get(environmentId)))
            await record(pool, (sequence += 1), { environmentId, cause, artifacts: null, actor, entry: null });
        });
        return;
      }
      await writer.run(() => {
        const environment = store.environments.get(environmentId);
        if (!isDone(environment)) store.snapshotRecorder.record(environment, { cause, artifacts: null, actor });
      });
    },
  };
}
