/**
 * The inputs of Rego evaluations: read at one moment of the database. A small one is read on the main thread; a larger
 * one in a thread with its own connection, because trails with long histories take longer than other requests should
 * wait.
 */
import { hash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { gzipWhole } from "../archive/compress.ts";
import { withCompressors } from "../archive/compressors.ts";
import { InputProblem, MAX_INPUT_BYTES, buildEvaluationInput, inputTooLarge } from "../contract/evaluation-input.ts";
import type { EvaluationInput, InputTask, PackedInput } from "../contract/evaluation-input.ts";
import { urlsFor } from "../contract/urls.ts";
import { unavailable } from "../errors.ts";
import { LargeAnswerError, MAX_INLINE_ANSWER_BYTES } from "../http/answers/large-answers.ts";
import type { Logger } from "../log.ts";
import type { Store } from "../store/index.ts";
import { DeadlineError, PoolClosedError, QueueFullError, WorkerDiedError } from "../workers/pool.ts";
import type { Pool } from "../workers/pool.ts";

type Built = Exclude<PackedInput, { problem: string }>;
/** `cause`: for the log. */
type Unbuilt = { problem: string; cause: string | null };
/** What the thread replies. `ageMs`: milliseconds since the moment that was read. */
export type ThreadInput = (Omit<Built, "readAt"> | Unbuilt) & { ageMs: number };

export type InputPool = Pool<InputTask, ThreadInput>;

/** For the wait for the thread and for the reading: a fifth of what a client waits for its verdict. */
const MAX_BUILDING_MS = 5_000;

/** Characters that may be read for one document: what its members repeat of one another comes to less than its half. */
const MAX_READ_CHARS = 2 * MAX_INPUT_BYTES;

/** @throws InputProblem; LargeAnswerError for more than `inlineBytes` */
function read(store: Store, { organizationId, trailIds, baseUrl }: InputTask, inlineBytes: number): EvaluationInput {
  const organization = store.organizations.get(organizationId);
  const answerBounds = { inlineBytes, isForPage: false };
  return buildEvaluationInput({ store, organization, urls: urlsFor(baseUrl), answerBounds }, trailIds);
}

function toUnbuilt(error: unknown, { trailIds }: InputTask): Unbuilt {
  const problem = error instanceof LargeAnswerError ? inputTooLarge(trailIds.length) : error;
  if (!(problem instanceof InputProblem)) throw error;
  const { cause } = problem;
  return { problem: problem.message, cause: cause instanceof Error ? (cause.stack ?? cause.message) : null };
}

/**
 * Reads and packs an input in a thread. Blocks for as long as that takes.
 * @param inTransaction runs the reading in one read transaction
 */
export function packInThread(store: Store, task: InputTask, inTransaction: <T>(work: () => T) => T): ThreadInput {
  const startedAt = performance.now();
  const ageMs = (): number => performance.now() - startedAt;
  try {
    const { pieces, trails, attestationIds } = inTransaction(() => read(store, task, MAX_READ_CHARS));
    const document = Buffer.from(pieces.join(""));
    // A copy, whose memory is its own: it is transferred to another thread.
    const packed = Uint8Array.from(withCompressors(() => gzipSync(document)));
    const sha256 = hash("sha256", document);
    return { packed, sha256, bytes: document.length, trails, attestationIds, ageMs: ageMs() };
  } catch (error) {
    return { ...toUnbuilt(error, task), ageMs: ageMs() };
  }
}

type InputDependencies = {
  store: Store;
  /** null for a database in memory, which a thread cannot open. */
  pool: InputPool | null;
  /** Epoch seconds. */
  now(): number;
  logger: Logger;
};

export function createEvaluationInputs({ store, pool, now, logger }: InputDependencies) {
  /** null for one that is too large for the main thread. */
  function readHere(task: InputTask): EvaluationInput | Unbuilt | null {
    try {
      return read(store, task, pool ? MAX_INLINE_ANSWER_BYTES : MAX_READ_CHARS);
    } catch (error) {
      return error instanceof LargeAnswerError && pool ? null : toUnbuilt(error, task);
    }
  }

  function withoutCause({ problem, cause }: Unbuilt, readAt: number): PackedInput {
    if (cause !== null) logger.error({ cause }, "the input of an evaluation could not be read");
    return { problem, readAt };
  }

  async function packElsewhere(lane: string, task: InputTask, from: InputPool): Promise<PackedInput> {
    try {
      const { ageMs, ...input } = await from.run(task, { lane, deadlineMs: MAX_BUILDING_MS });
      const readAt = now() - ageMs / 1_000;
      return "problem" in input ? withoutCause(input, readAt) : { ...input, readAt };
    } catch (error) {
      const isBusy = [DeadlineError, WorkerDiedError, QueueFullError, PoolClosedError].some(
        (kind) => error instanceof kind,
      );
      throw isBusy ? unavailable("The input of the evaluation could not be read in time", 5, error) : error;
    }
  }

  return {
    /**
     * The input of an evaluation, as the database is now.
     * @param lane whose turn it is: organizations take turns
     * @throws AppError unavailable when the thread is busy or the reading takes too long
     */
    async pack(lane: string, task: InputTask): Promise<PackedInput> {
      const input = readHere(task);
      if (input === null) return packElsewhere(lane, task, pool as InputPool);
      const readAt = now();
      if ("problem" in input) return withoutCause(input, readAt);
      const document = Buffer.from(input.pieces.join(""));
      const { trails, attestationIds } = input;
      const [packed, sha256] = [await gzipWhole(document), hash("sha256", document)];
      return { packed, sha256, bytes: document.length, trails, attestationIds, readAt };
    },
  };
}
