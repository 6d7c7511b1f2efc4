/**
 * What a change would turn, and what a policy or template text names that the organization does not have, for the main
 * thread. The work is done in a thread with its own connection, because it reads and evaluates up to thousands
 * of artifacts under rules that a user wrote, and up to thousands of templates. It ends at its bounds and says what it
 * left; the deadline of the thread is for what no bound foresaw.
 */
import { findUnknownTypes } from "../domain/flow-template/unknown-types.ts";
import type { OrganizationNames } from "../domain/organization-names.ts";
import { listDiagnostics } from "../domain/policy/diagnostics.ts";
import type { Diagnostic, FileProblem } from "../domain/policy/diagnostics.ts";
import { parsePolicy } from "../domain/policy/document.ts";
import { findRulePositions } from "../domain/policy/rule-positions.ts";
import { restorePolicy } from "../domain/policy/stored.ts";
import { findUnmetRules } from "../domain/policy/unmet-rules.ts";
import { AppError, unavailable } from "../errors.ts";
import type { Store } from "../store/index.ts";
import type { DraftPreview, PreviewQuestion } from "../store/environments/change-previews.ts";
import type { ChangePreview, PreviewBounds } from "../store/environments/preview-results.ts";
import type { StartBounds, StartPreview, StartQuestion } from "../store/environments/start-previews.ts";
import { MAX_NEXT_TRAILS } from "../store/flows/template-previews.ts";
import type { TemplateBounds, TemplatePreview, TemplateQuestion } from "../store/flows/template-previews.ts";
import { DeadlineError, PoolClosedError, QueueFullError, WorkerDiedError } from "../workers/pool.ts";
import type { Pool } from "../workers/pool.ts";

type Organization = { id: number; name: string };

/** `parsedJson`: the rules as `serializePolicy` wrote them, null for a text that is quick to parse. */
type PolicyTask = {
  organization: Organization;
  policy: { name: string; yaml: string; parsedJson: string | null };
  policyId: number | null;
  environmentIds: readonly number[];
  /** Epoch seconds. */
  at: number;
};

/** The text of a valid template. */
type TemplateTask = { organization: Organization; template: string };

/** `warnings`: what would be stored and is probably a mistake, at most 100. */
type Warnings = { warnings: FileProblem[] };
type PolicyResult = DraftPreview & Warnings;

export type PreviewTask = PolicyTask | TemplateTask | PreviewQuestion | StartQuestion | TemplateQuestion;
export type PreviewResult = PolicyResult | Warnings | ChangePreview | StartPreview | TemplatePreview;
export type PreviewPool = Pool<PreviewTask, PreviewResult>;

/** What a task reads. */
type PreviewStore = Pick<Store, "changePreviews" | "startPreviews" | "templatePreviews" | "organizationNames">;

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
/** For the comparison of a text with the organization, after it is parsed. */
const MAX_COMPARISON_MS = 2_000;
/** For the whole task: the largest policy takes a second to parse, and one artifact may be the last of the time. */
const MAX_TASK_MS = 15_000;
/** For the wait for the thread: shorter than clients wait for a response. */
const MAX_WAITING_MS = 15_000;

const isOverAfter = (ms: number): (() => boolean) => {
  const endsAt = performance.now() + ms;
  return () => performance.now() >= endsAt;
};

/** The warnings that `find` makes of the names of an organization. */
function listWarnings(
  store: PreviewStore,
  organization: Organization,
  find: (known: OrganizationNames) => Diagnostic[],
): FileProblem[] {
  const isOver = isOverAfter(MAX_COMPARISON_MS);
  return listDiagnostics(store.organizationNames.compare(organization, { isOver, find }));
}

/** Does a task. Blocks for seconds: not for the main thread of a server. */
export function runPreview(store: PreviewStore, task: PreviewTask): PreviewResult {
  if ("policy" in task) return evaluateDraft(store, task);
  if ("fingerprint" in task) return store.startPreviews.preview(task, startBounds());
  if ("draft" in task) return store.templatePreviews.preview(task, templateBounds());
  if (!("change" in task)) return compareTemplate(store, task);
  return store.changePreviews.preview(task, boundsFromNow());
}

/** Environments in which a start is previewed, and causes of each. */
const MAX_STARTS = 100;
const MAX_CAUSES = 20;
const startBounds = (): StartBounds => ({
  environments: MAX_STARTS,
  causes: MAX_CAUSES,
  isOver: isOverAfter(MAX_EVALUATION_MS),
});

/** Trails of a flow that are looked at for those that have its template. */
const MAX_SEARCHED_TRAILS = 1_000;
const templateBounds = (): TemplateBounds => ({
  trails: MAX_NEXT_TRAILS,
  searched: MAX_SEARCHED_TRAILS,
  isOver: isOverAfter(MAX_EVALUATION_MS),
});

/** An evaluation that takes less is not worth the wait for the thread, which may be busy for seconds. */
const MAX_MAIN_THREAD_MS = 10;

const boundsFromNow = (): PreviewBounds => ({ ...BOUNDS, isOver: isOverAfter(MAX_EVALUATION_MS) });

/** Evaluates the artifacts of the environments under a valid policy, and compares it with the organization. */
function evaluateDraft(
  store: PreviewStore,
  { organization, policy: { name, yaml, parsedJson }, policyId, environmentIds, at }: PolicyTask,
): PolicyResult {
  const document = parsedJson === null ? parsePolicy(yaml).policy : restorePolicy(parsedJson);
  if (!document) throw new Error("the policy to preview is not valid");
  const draft = { name, document, positions: findRulePositions(yaml) };
  const question = { draft: { draft, policyId, environmentIds }, at };
  const preview = store.changePreviews.previewDraft(question, boundsFromNow());
  return { ...preview, warnings: listWarnings(store, organization, (known) => findUnmetRules(yaml, document, known)) };
}

const compareTemplate = (store: PreviewStore, { organization, template }: TemplateTask): Warnings => ({
  warnings: listWarnings(store, organization, (known) => findUnknownTypes(template, known)),
});

/** Only a text with one of these can name a custom type: YAML may write any letter as an escape. */
const MAY_NAME_TYPES = /custom:|\\/;

/** @param dependencies.pool null for a database in memory, which a thread cannot open */
export function createPolicyPreviewer({ store, pool }: { store: Store; pool: PreviewPool | null }) {
  /** @throws AppError too_large when the task takes too much time or memory, unavailable when the thread is busy */
  async function run(lane: string, task: PreviewTask, advice: string): Promise<PreviewResult> {
    if (!pool) return runPreview(store, task);
    try {
      return await pool.run(task, { lane, allowanceMs: MAX_TASK_MS, deadlineMs: MAX_WAITING_MS });
    } catch (error) {
      throw previewError(error, advice);
    }
  }

  return {
    /**
     * What a valid policy would change, and what it names that the organization does not have.
     * @param lane whose turn it is: organizations take turns
     * @throws AppError too_large when the evaluation takes too much time or memory, unavailable when the thread is busy
     */
    preview: async (lane: string, task: PolicyTask): Promise<PolicyResult> =>
      (await run(lane, task, "Name fewer environments")) as PolicyResult,

    /**
     * What a change would turn. @throws AppError as preview; as the change itself would for a policy that is gone
     */
    previewChange: async (lane: string, question: PreviewQuestion): Promise<ChangePreview> =>
      (await run(lane, question, "Look at the environment after the change instead")) as ChangePreview,

    /** What the next trails of a flow would be under a valid template. @throws AppError as preview */
    previewTemplate: async (lane: string, question: TemplateQuestion): Promise<TemplatePreview> =>
      (await run(lane, question, "Send a shorter template")) as TemplatePreview,

    /** In which environments an artifact would fail. @throws AppError as preview */
    async previewStart(lane: string, question: StartQuestion): Promise<StartPreview> {
      if (store.startPreviews.estimateMs(question, MAX_STARTS) <= MAX_MAIN_THREAD_MS)
        return store.startPreviews.preview(question, startBounds());
      return (await run(lane, question, "Ask for one environment")) as StartPreview;
    },

    /** What a valid template names that the organization does not have. @throws AppError as preview */
    compareTemplate: async (lane: string, task: TemplateTask): Promise<FileProblem[]> =>
      MAY_NAME_TYPES.test(task.template) ? ((await run(lane, task, "Send a shorter text")) as Warnings).warnings : [],
  };
}

function previewError(error: unknown, advice: string): unknown {
  const isTooCostly =
    (error instanceof DeadlineError && error.started) || (error instanceof WorkerDiedError && error.began);
  if (isTooCostly)
    return new AppError(
      "too_large",
      `The preview takes more time or memory than the server has for one request. ${advice}`,
      { internal: error },
    );
  const isBusy = [DeadlineError, WorkerDiedError, QueueFullError, PoolClosedError].some(
    (kind) => error instanceof kind,
  );
  return isBusy ? unavailable("Other previews keep the server busy. Please try again", 5, error) : error;
}
