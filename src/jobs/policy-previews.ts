/**
 * What a policy text would change, for the main thread: the evaluation runs in a thread with its own connection,
 * because it reads and evaluates up to thousands of artifacts under rules that a user wrote. A preview ends at its
 * bounds and says what it left; the deadline of the thread is for what no bound foresaw.
 */
import { parsePolicy } from "../domain/policy/document.ts";
import { findRulePositions } from "../domain/policy/rule-positions.ts";
import { restorePolicy } from "../domain/policy/stored.ts";
import { AppError, unavailable } from "../errors.ts";
import type { Store } from "../store/index.ts";
import type { PolicyPreview, PreviewBounds } from "../store/policies/policy-previews.ts";
import { DeadlineError, PoolClosedError, QueueFullError, WorkerDiedError } from "../workers/pool.ts";
import type { Pool } from "../workers/pool.ts";

/** `parsedJson`: the rules as `serializePolicy` wrote them, null for a text that is quick to parse. */
export type PreviewTask = {
  policy: { name: string; yaml: string; parsedJson: string | null };
  policyId: number | null;
  environmentIds: readonly number[];
};

export type PreviewPool = Pool<PreviewTask, PolicyPreview>;

/** Far more than people look through; together they keep an answer below two megabytes. */
const BOUNDS: Omit<PreviewBounds, "isOver"> = {
  environments: 100,
  artifacts: 20_000,
  listed: 1_000,
  reasons: 20,
  chars: 500_000,
};
/** For the evaluation; shorter than people wait for a page. */
const MAX_EVALUATION_MS = 5_000;
/** For the whole task: the largest policy takes a second to parse, and one artifact may be the last of the time. */
const MAX_TASK_MS = 15_000;
/** For the wait for the thread: shorter than clients wait for a response. */
const MAX_WAITING_MS = 15_000;

/**
 * Evaluates the artifacts of the environments under a valid policy. Blocks for seconds: not for the main thread of a
 * server.
 */
export function evaluateDraft(
  store: Pick<Store, "policyPreviews">,
  { policy: { name, yaml, parsedJson }, ...place }: PreviewTask,
): PolicyPreview {
  const document = parsedJson === null ? parsePolicy(yaml).policy : restorePolicy(parsedJson);
  if (!document) throw new Error("the policy to preview is not valid");
  const draft = { name, document, positions: findRulePositions(yaml) };
  const endsAt = performance.now() + MAX_EVALUATION_MS;
  const isOver = (): boolean => performance.now() >= endsAt;
  return store.policyPreviews.preview({ draft, ...place }, { ...BOUNDS, isOver });
}

/** @param dependencies.pool null for a database in memory, which a thread cannot open */
export function createPolicyPreviewer({ store, pool }: { store: Store; pool: PreviewPool | null }) {
  return {
    /**
     * What a valid policy would change.
     * @param lane whose turn it is: organizations take turns
     * @throws AppError too_large when the evaluation takes too much time or memory, unavailable when the thread is busy
     */
    async preview(lane: string, task: PreviewTask): Promise<PolicyPreview> {
      if (!pool) return evaluateDraft(store, task);
      try {
        return await pool.run(task, { lane, allowanceMs: MAX_TASK_MS, deadlineMs: MAX_WAITING_MS });
      } catch (error) {
        throw previewError(error);
      }
    },
  };
}

function previewError(error: unknown): unknown {
  const isTooCostly =
    (error instanceof DeadlineError && error.started) || (error instanceof WorkerDiedError && error.began);
  if (isTooCostly)
    return new AppError(
      "too_large",
      "The preview takes more time or memory than the server has for one request. Name fewer environments",
      { internal: error },
    );
  const isBusy = [DeadlineError, WorkerDiedError, QueueFullError, PoolClosedError].some(
    (kind) => error instanceof kind,
  );
  return isBusy ? unavailable("Other previews keep the server busy. Please try again", 5, error) : error;
}
