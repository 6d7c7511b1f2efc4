/**
 * The recorder of what runs in environments. Each report and re-evaluation takes the same steps (recording-steps.ts):
 * on the main thread, inside one write that it shares with others, while they are little work; else as a task of the
 * recording thread, which gets exclusive write access while it writes. Over a database in memory, which threads cannot
 * share, the main thread does everything.
 *
 * Why not the thread for all: an order is a message there and another one back, and each report is a commit of its own.
 * A small report would take twice the processor time, and a hundred at once two and a half times as long.
 */
import { AppError, tooCostly, unavailable } from "../errors.ts";
import type { Actor } from "../store/actor.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import { isStorageFailure } from "../store/db/group-commit.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { EnvironmentRow, PhysicalType } from "../store/environments/environments.ts";
import type { ReevaluatePayload } from "../store/environments/reevaluation-queue.ts";
import type { Store } from "../store/index.ts";
import { createConcurrencyLimit } from "../workers/concurrency-limit.ts";
import type { ConcurrencyLimit } from "../workers/concurrency-limit.ts";
import { DeadlineError, PoolClosedError, TaskError, WorkerDiedError } from "../workers/pool.ts";
import type { Pool } from "../workers/pool.ts";
import { UNBOUNDED_MEMORY } from "../workers/task-memory.ts";
import type { AcquireMemory, Lease } from "../workers/task-memory.ts";
import { LARGE_JSON_BYTES } from "../http/body/read-json.ts";
import { createKnownTexts, keyOfText } from "./known-texts.ts";
import type { FoundText, ReadResult, Recording, RecordingOrder, RecordingResult } from "./recording-orders.ts";
import { MAX_ARTIFACTS_HERE, readReportText, recordHere } from "./recording-steps.ts";
import { transferableOf } from "../workers/transfer.ts";

/**
 * Artifacts in the queued reports, which are held in memory at about a kilobyte each: a few of the largest reports, or
 * as many small ones as there are reporters, who may all report in the same second of the hour.
 */
const MAX_QUEUED_ARTIFACTS = 300_000;

/** Time limit of a task, including its time in the queue. A hundred thousand artifacts take a fraction of it. */
const TASK_TIMEOUT_MS = 300_000;

/** Time limit for reading the text of one report. A hundred thousand pods take a twentieth of it. */
const READ_TIMEOUT_MS = 30_000;

/**
 * After this many writes of four to ten pages each, the write-ahead log has 16 to 40 MB. A page that many of them
 * change is copied to the main file once.
 */
const WRITES_PER_CHECKPOINT = 1_024;

/** A report has at least this many bytes for each of its artifacts. */
const MIN_BYTES_PER_ARTIFACT = 100;

export type RecordingPool = Pool<RecordingOrder, RecordingResult | ReadResult | null>;

type RecorderDependencies = {
  store: Store;
  writer: GroupCommitWriter;
  /** Epoch seconds. */
  now(): number;
  /** null where there is no thread, as over a database in memory: everything then runs on the main thread. */
  pool: RecordingPool | null;
  /** Limits how many large texts are parsed at a time, in any thread. */
  readingTurns?: ConcurrencyLimit;
  /** Takes the memory that the thread needs for one report; unbounded unless given. */
  acquireMemory?: AcquireMemory;
  /** "external": another program empties the write-ahead log. */
  checkpoints?: "own" | "external";
  /** Whether the log may be copied into the database now; always unless given. */
  mayCheckpoint?(): boolean;
  maxQueuedArtifacts?: number;
  /** Called after the thread committed something that may have added jobs. */
  jobsAdded?(): void;
};

export type ReportTask = {
  type: PhysicalType;
  /** The text, whose buffer is given away. */
  bytes: Buffer;
  actor: Actor;
  /** The environment that has the name now; called inside the write, too. @throws AppError to refuse the report */
  environment(): EnvironmentRow;
  /** Called once with the top-level keys that the shape of the report lacks. @throws AppError to refuse the report */
  accept(ignored: readonly string[]): void;
  /** The audit entry of a report with so many artifacts. */
  entry(artifacts: number): AuditEntry;
};

export function createRecorder(dependencies: RecorderDependencies) {
  const {
    store,
    writer,
    pool,
    readingTurns = createConcurrencyLimit(1),
    maxQueuedArtifacts = MAX_QUEUED_ARTIFACTS,
  } = dependencies;
  const queue = createTaskQueue(maxQueuedArtifacts);
  const inThread = createRoom(dependencies);
  const recordInThread = createThreadRecorder(dependencies);
  const { onCommit, emptyWal } = createCheckpoints(dependencies, queue);
  const maxArtifacts = pool ? MAX_ARTIFACTS_HERE : Infinity;
  const knownTexts = createKnownTexts();
  let sequence = 0;

  /**
   * What is done with every report that was read, in one write: one that repeats the latest is recorded by its digest,
   * and a little work is done.
   * @returns what is left for the thread
   */
  function begin(
    { actor, environment, accept, entry }: ReportTask,
    { report, count, digest, ignored }: FoundText & Pick<Recording, "report">,
  ): Promise<RecordingResult | Recording> {
    accept(ignored);
    const auditEntry = entry(count);
    return writer.run(() => {
      const row = environment();
      if (store.snapshotRecorder.isUnchanged(row, digest)) {
        store.snapshotRecorder.recordUnchanged(row.id);
        return { planned: true, index: null };
      }
      const recording: Recording = { environmentId: row.id, cause: "report", report, actor, entry: auditEntry };
      return recordHere(store, recording, maxArtifacts) ?? recording;
    });
  }

  return {
    onCommit,
    emptyWal,

    /**
     * Records inside a write that made it necessary. Returns null, and writes nothing, when that is too much work for
     * the main thread: then a job has to do it.
     */
    recordWithin: (recording: Recording): RecordingResult | null => recordHere(store, recording, maxArtifacts),

    /**
     * Reads the text of a report and records it.
     * @returns `planned` false when the environment was archived meanwhile; nothing was recorded then
     * @throws AppError unavailable, what the task throws, or an error about the text
     */
    async report(task: ReportTask): Promise<RecordingResult> {
      const { type, bytes } = task;
      const number = (sequence += 1);
      if (!pool || bytes.length <= LARGE_JSON_BYTES) {
        const read = await readReportText(type, bytes);
        const begun = await begin(task, read);
        if ("planned" in begun) return begun;
        return queue.run(
          read.count,
          inThread(async (takeRoom) => {
            await takeRoom();
            return recordInThread(number, begun);
          }),
        );
      }
      // Nothing is read for an environment that is not there.
      task.environment();
      const key = await keyOfText(type, bytes);
      const known = knownTexts.get(key);
      const recognized = known ? await begin(task, { ...known, report: "read" }) : null;
      if (recognized && "planned" in recognized) return recognized;
      const work = inThread(async (takeRoom) => {
        const order: RecordingOrder = { type: "read", sequence: number, report: type, bytes };
        const read = await readingTurns.run(async () => {
          // After the turn, as for every large text: who has memory never waits for a turn.
          await takeRoom();
          return readInThread(pool, order, bytes);
        });
        knownTexts.set(key, read);
        const begun = recognized ?? (await begin(task, { ...read, report: "read" }));
        return "planned" in begun ? begun : recordInThread(number, begun);
      });
      return queue.run(Math.ceil(bytes.length / MIN_BYTES_PER_ARTIFACT), work);
    },

    /**
     * Re-evaluates the latest snapshot of an environment. Does nothing when the environment is archived or has no
     * snapshot, or when it was re-evaluated since the job was added: the job is idempotent.
     */
    async reevaluate(payload: ReevaluatePayload): Promise<void> {
      const { environment_id: environmentId, cause, user_id, user_name } = payload;
      const actor: Actor = { publicId: user_id, displayName: user_name };
      const recording: Recording = { environmentId, cause, report: null, actor, entry: null };
      const isDone = (): boolean => isReevaluated(store, store.environments.get(environmentId), payload);
      if (await writer.run(() => isDone() || recordHere(store, recording, maxArtifacts) !== null)) return;
      // Checked when its turn comes: a report before it may have re-evaluated the environment.
      await queue.runAlways(
        inThread(async (takeRoom) => {
          if (isDone()) return;
          await takeRoom();
          await recordInThread((sequence += 1), recording);
        }),
      );
    },
  };
}

function isReevaluated(
  store: Store,
  environment: EnvironmentRow,
  { cause, snapshot_count }: ReevaluatePayload,
): boolean {
  if (environment.archived_at !== null) return true;
  // Other changes are left for the next report: a second snapshot would claim that policies changed.
  if (cause === "policies")
    return environment.snapshot_count > snapshot_count && store.snapshotRecorder.isUnderPolicies(environment);
  return environment.checked_revision === environment.revision;
}

type TaskQueue = ReturnType<typeof createTaskQueue>;

/** What a turn of the queue does, and what it does after the answer, before the next turn. */
type Turn<T> = { work(): Promise<T>; afterwards?(): Promise<void> };

/** Lets work of the thread take the memory for one report, which is taken until the thread has returned it. */
function createRoom({ pool, acquireMemory = UNBOUNDED_MEMORY }: Pick<RecorderDependencies, "pool" | "acquireMemory">) {
  return function inThread<T>(work: (takeRoom: () => Promise<void>) => Promise<T>): Turn<T> {
    let room: Lease | null = null;
    const takeRoom = async (): Promise<void> => {
      const timeout = AbortSignal.timeout(TASK_TIMEOUT_MS);
      room = await acquireMemory(timeout).catch((error: unknown) => {
        throw timeout.aborted ? unavailable("The server has no memory for a large report. Please try again", 5) : error;
      });
    };
    return {
      work: () => work(takeRoom),
      async afterwards() {
        if (room) await pool?.run({ type: "forget" }, { deadlineMs: TASK_TIMEOUT_MS }).catch(() => undefined);
        room?.release();
      },
    };
  };
}

/** Runs tasks of the thread one after another, because it holds one plan at a time. */
function createTaskQueue(maxQueuedArtifacts: number) {
  let queuedArtifacts = 0;
  let last: Promise<unknown> = Promise.resolve();

  function enqueue<T>(artifacts: number, { work, afterwards }: Turn<T>): Promise<T> {
    queuedArtifacts += artifacts;
    const turn = last.then(work).finally(() => (queuedArtifacts -= artifacts));
    last = turn.catch(() => undefined).then(afterwards);
    return turn;
  }

  return {
    /** Runs work that is not about a client's report. Its errors are not translated. */
    runAlways: <T>(turn: Turn<T>): Promise<T> => enqueue(0, turn),
    /** Runs work on a report. @throws AppError unavailable when the queue is full, and for failures on the way */
    async run<T>(artifacts: number, turn: Turn<T>): Promise<T> {
      // A report larger than the limit is accepted while the queue is empty.
      if (queuedArtifacts > 0 && queuedArtifacts + artifacts > maxQueuedArtifacts)
        throw unavailable("The server has too many large reports to record. Please try again", 5);
      try {
        return await enqueue(artifacts, turn);
      } catch (error) {
        const message = failureMessage(error);
        throw message === null ? error : unavailable(message, 5, error);
      }
    },
  };
}

/**
 * The client's message for an infrastructure failure: the thread ended or timed out, or its database could not be
 * written. A thread that ended may have done so between its commit and its answer. null: a bug of ours.
 */
function failureMessage(error: unknown): string | null {
  if (error instanceof WorkerDiedError || error instanceof DeadlineError)
    return "It is not known whether the report was stored. Please send it again";
  const isUnwritten =
    error instanceof PoolClosedError ||
    (error instanceof TaskError && (isStorageFailure(error) || error.code === "THREAD_REPLACED"));
  return isUnwritten ? "The report could not be stored. Nothing was changed. Please try again" : null;
}

/** Records a task in the thread, which plans it and then applies the plan with exclusive write access. */
function createThreadRecorder({ store, writer, now, pool, jobsAdded = () => undefined }: RecorderDependencies) {
  return async function recordInThread(
    sequence: number,
    { environmentId, cause, report, actor, entry }: Recording,
  ): Promise<RecordingResult> {
    if (!pool) throw new Error("there is no thread that records");
    const planned = (await pool.run(
      { type: "plan", sequence, now: now(), environmentId, cause, report },
      { deadlineMs: TASK_TIMEOUT_MS },
    )) as RecordingResult;
    if (!planned.planned) return planned;
    const recorded = await writer.withExclusiveWrite(async () => {
      const newestJob = store.jobs.newestId();
      try {
        return (await pool.run(
          { type: "apply", sequence, now: now(), newestJob, actor, entry },
          { deadlineMs: TASK_TIMEOUT_MS },
        )) as RecordingResult;
      } catch (error) {
        // The thread is being stopped, perhaps within a transaction. The next order starts only when it has ended.
        if (error instanceof DeadlineError)
          await pool
            .run({ type: "checkpoint", busyTimeoutMs: 0 }, { deadlineMs: TASK_TIMEOUT_MS })
            .catch(() => undefined);
        throw error;
      }
    });
    if (recorded.index !== null) jobsAdded();
    return recorded;
  };
}

/** Reads the text of a report in the thread. @throws AppError about the text */
async function readInThread(thread: RecordingPool, order: RecordingOrder, bytes: Buffer): Promise<FoundText> {
  const transfer = transferableOf(bytes);
  const result = (await thread
    .run(order, { deadlineMs: TASK_TIMEOUT_MS, allowanceMs: READ_TIMEOUT_MS, transfer })
    .catch((error: unknown) => {
      throw readingError(error);
    })) as ReadResult;
  if (!("refusal" in result)) return result;
  const { code, message, fields } = result.refusal;
  throw new AppError(code, message, fields ? { fields } : {});
}

/**
 * 413 when the thread ended, or had to be ended, because of the text that it was reading. Nothing was recorded then.
 */
function readingError(error: unknown): unknown {
  const isCausedByText =
    (error instanceof DeadlineError && error.started) || (error instanceof WorkerDiedError && error.began);
  return isCausedByText ? tooCostly("The report", error) : error;
}

/** Checkpoints of the write-ahead log, which would block the main thread for as long as the disk takes. */
function createCheckpoints(
  { writer, pool, checkpoints = "own", mayCheckpoint = () => true }: RecorderDependencies,
  queue: TaskQueue,
) {
  let writes = 0;
  let isQueued = false;

  /**
   * Most of the log is copied alongside other writes. The rest, written meanwhile, is copied with exclusive write
   * access, so that all of it is and the next write restarts the log: otherwise the log would grow for as long as there
   * are writes. Only then does it wait, for that many milliseconds, for readers of the log (wal-checkpointer.ts).
   */
  async function checkpoint(thread: RecordingPool, busyTimeoutMs: number): Promise<void> {
    await thread.run({ type: "checkpoint", busyTimeoutMs: 0 }, { deadlineMs: TASK_TIMEOUT_MS });
    // Also in read-only mode, because it frees space.
    await writer.withExclusiveWrite(
      () => thread.run({ type: "checkpoint", busyTimeoutMs }, { deadlineMs: TASK_TIMEOUT_MS }),
      { bypassGuard: true },
    );
  }

  /**
   * Copies the log into the database file, and empties it if readers permit within that many milliseconds. Does nothing
   * where another program is responsible for that. Never rejects.
   */
  async function emptyWal(busyTimeoutMs: number): Promise<void> {
    if (!pool || checkpoints === "external" || !mayCheckpoint()) return;
    [writes, isQueued] = [0, true];
    await queue
      .runAlways({ work: () => checkpoint(pool, busyTimeoutMs) })
      .catch(() => undefined)
      .finally(() => (isQueued = false));
  }

  return {
    emptyWal,
    /**
     * Counts committed writes, and starts a checkpoint now and then. If it fails, SQLite makes one at a later commit.
     */
    onCommit(count: number): void {
      writes += count;
      // A checkpoint that is queued will copy what is written until then.
      if (!pool || checkpoints === "external" || isQueued || writes < WRITES_PER_CHECKPOINT) return;
      void emptyWal(0);
    },
  };
}
