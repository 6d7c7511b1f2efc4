/**
 * Custom attestation types for the main thread: checks that a definition compiles, and evaluates it on data. All of it
 * runs in the worker threads of a pool, one expression at a time, because a schema or a jq expression may take any time
 * and any memory. Types are the lanes of the pool, so a type that never ends delays only itself.
 *
 * Invariant: a verdict depends only on definition, data and time of the report. A server that is too busy returns none:
 * it refuses the report, and the client sends it again.
 */
import {
  OUT_OF_MEMORY_REASON,
  extractJqMessage,
  explainRuleFailure,
  buildSummaryProgram,
  toSummaryRow,
  explainRunFailure,
} from "../../domain/attestation/custom.ts";
import type { ExpressionRun, RuleOutcome, Summary } from "../../domain/attestation/custom.ts";
import { unavailable } from "../../errors.ts";
import { JsonText, parseExact, stringifyJson } from "../../json/text.ts";
import { readFirstElements } from "./json-elements.ts";
import type { SandboxResult, JqTask, SchemaResult, SchemaTask } from "./sandbox-worker.ts";
import { DeadlineError, PoolClosedError, QueueFullError, WorkerDiedError } from "../pool.ts";
import type { Pool } from "../pool.ts";

/** Schemas and expressions have separate threads, because they need stacks of different sizes. */
type AttestationTypePools = {
  schemas: Pool<SchemaTask, SandboxResult>;
  expressions: Pool<JqTask, SandboxResult>;
};

export type SummaryEntry = { name: string; expression: string };
/** `schema` is the JSON text of an object. */
export type TypeDefinition = {
  schema: string | null;
  rules: readonly string[];
  summary: readonly SummaryEntry[] | null;
};

/** The result of evaluating data: one line if it does not fit the schema, else the outcome of each rule. */
export type TypeEvaluation = { mismatch: string } | { outcomes: RuleOutcome[]; summary: Summary | null };

/** The data of a report as it was sent, a value or a JsonText, and the time that expressions see, in epoch seconds. */
type ReportedData = { data: unknown; now: number };

export type AttestationTypes = {
  /**
   * Compiles all parts of a definition.
   * @returns problems by field, empty if everything compiles
   * @throws AppError unavailable if the server is too busy
   */
  check(lane: string, definition: TypeDefinition): Promise<Record<string, string>>;
  /**
   * Evaluates data.
   * @throws AppError unavailable if the server is too busy
   */
  evaluate(lane: string, definition: TypeDefinition, report: ReportedData): Promise<TypeEvaluation>;
};

/** For compiling one part of a definition. */
const MAX_COMPILE_MS = 2_000;
/** For all rules together. */
const MAX_RULES_MS = 2_000;
/** For all expressions of a summary together. */
const MAX_SUMMARY_MS = 1_000;
/** A check compiles the schema again in most threads: an accepted schema must not fail later for its size. */
const MAX_CHECK_MS = 2 * MAX_COMPILE_MS;
/** For the wait for a thread: shorter than the 30 s for which Terraform waits for a response. */
const MAX_WAITING_MS = 25_000;

/** Output of a rule: only `true` is wanted, and the beginning of any other output is shown. */
const MAX_RULE_BYTES = 4_096;
const MAX_GROUPS = 100;
const MAX_SUMMARY_BYTES = 1 << 20;
const RETRY_AFTER_S = 2;

const formatSeconds = (ms: number): string => `${ms / 1000} second${ms === 1000 ? "" : "s"}`;

/** The output of a task, or why there is none; `tookMs` is the time of its thread that it used. */
type Outcome<T> = { output: T; tookMs: number } | { failed: "time" | "memory"; tookMs: number };

/** A lane with the pools that its tasks run in. */
type Lane = { pools: AttestationTypePools; lane: string };

export function createAttestationTypes(pools: AttestationTypePools): AttestationTypes {
  return {
    async check(lane, { schema, rules, summary }) {
      const inLane = { pools, lane };
      const problems: Record<string, string> = {};
      const schemaProblem = schema === null ? null : await findSchemaProblem(inLane, schema);
      if (schemaProblem !== null) problems["type_schema"] = schemaProblem;
      for (const [index, rule] of rules.entries()) {
        const problem = await findExpressionProblem(inLane, rule);
        if (problem !== null) problems[`evaluator.rules.${index}`] = `Rule ${problem}`;
      }
      for (const [index, { expression }] of (summary ?? []).entries()) {
        // The bare expression first, so that positions in jq's message match what the user wrote.
        const problem =
          (await findExpressionProblem(inLane, expression)) ??
          (await findExpressionProblem(inLane, buildSummaryProgram(expression)));
        if (problem !== null) problems[`summary.${index}.expression`] = `Expression ${problem}`;
      }
      return problems;
    },

    async evaluate(lane, { schema, rules, summary }, { data, now }) {
      const inLane = { pools, lane };
      const input = Buffer.from(stringifyJson(data));
      const mismatch = schema === null ? null : await findMismatch(inLane, schema, input);
      if (mismatch !== null) return { mismatch };
      const outcomes = await evaluateRules(inLane, rules, { input, now });
      return { outcomes, summary: summary && (await summarize(inLane, summary, { data, now })) };
    },
  };
}

/** Runs one task. @throws AppError unavailable for a failure that the task did not cause */
async function runTask<Task, T>(
  pool: Pool<Task, SandboxResult>,
  task: Task,
  { lane, allowanceMs }: { lane: string; allowanceMs: number },
): Promise<Outcome<T>> {
  const startedMs = performance.now();
  try {
    const { output, tookMs } = await pool.run(task, { lane, allowanceMs, deadlineMs: MAX_WAITING_MS });
    return { output: output as T, tookMs };
  } catch (error) {
    if (error instanceof DeadlineError && error.started) return { failed: "time", tookMs: allowanceMs };
    // The thread is gone and cannot report its time, which is at most this.
    if (error instanceof WorkerDiedError && error.began)
      return { failed: "memory", tookMs: performance.now() - startedMs };
    const isBusy = [DeadlineError, WorkerDiedError, QueueFullError, PoolClosedError].some(
      (kind) => error instanceof kind,
    );
    if (!isBusy) throw error;
    const message = "The rules of attestation types keep the server busy. Please try again";
    throw unavailable(message, RETRY_AFTER_S, error);
  }
}

const runExpression = ({ pools, lane }: Lane, task: JqTask, allowanceMs: number) =>
  runTask<JqTask, ExpressionRun>(pools.expressions, task, { lane, allowanceMs });
const runSchema = ({ pools, lane }: Lane, task: SchemaTask, allowanceMs: number) =>
  runTask<SchemaTask, SchemaResult>(pools.schemas, task, { lane, allowanceMs });

async function findSchemaProblem(lane: Lane, schema: string): Promise<string | null> {
  const outcome = await runSchema(lane, { kind: "schema", schema, data: null }, MAX_COMPILE_MS);
  return "failed" in outcome
    ? `the schema is too large to be compiled within ${formatSeconds(MAX_COMPILE_MS)}`
    : outcome.output.problem;
}

async function findExpressionProblem(lane: Lane, expression: string): Promise<string | null> {
  const task = { kind: "jq", expression, input: EMPTY_INPUT, now: 0, maxOutputs: 0, maxBytes: 0 } as const;
  const outcome = await runExpression(lane, task, MAX_COMPILE_MS);
  if ("failed" in outcome)
    return outcome.failed === "time"
      ? `does not compile within ${formatSeconds(MAX_COMPILE_MS)}`
      : OUT_OF_MEMORY_REASON;
  const { status, diagnostics } = outcome.output;
  if (status === 0) return null;
  if (status === null) return explainRunFailure(outcome.output);
  return `is not a valid jq expression: ${extractJqMessage(diagnostics)}`;
}

async function findMismatch(lane: Lane, schema: string, data: Uint8Array): Promise<string | null> {
  const outcome = await runSchema(lane, { kind: "schema", schema, data }, MAX_CHECK_MS);
  // A schema that could not be applied proves nothing about the data, so the data is refused.
  if ("failed" in outcome) {
    const limit = `${formatSeconds(MAX_CHECK_MS)} and its memory`;
    return `attestation_data: could not be checked with the schema of the type within ${limit}`;
  }
  return outcome.output.problem ?? outcome.output.mismatch;
}

async function evaluateRules(
  lane: Lane,
  rules: readonly string[],
  { input, now }: { input: Uint8Array; now: number },
): Promise<RuleOutcome[]> {
  const limit = formatSeconds(MAX_RULES_MS);
  const outcomes: RuleOutcome[] = [];
  let leftMs = MAX_RULES_MS;
  for (const [index, rule] of rules.entries()) {
    if (leftMs <= 0) {
      outcomes.push({ rule, reason: `was not evaluated: the rules before it took all of ${limit}` });
      continue;
    }
    const task = { kind: "jq", expression: rule, input, now, maxOutputs: 1, maxBytes: MAX_RULE_BYTES } as const;
    const outcome = await runExpression(lane, task, leftMs);
    leftMs -= outcome.tookMs;
    const timeout = `does not end within ${limit}${index === 0 ? "" : ", the rules before it included"}`;
    if ("output" in outcome) outcomes.push({ rule, reason: explainRuleFailure(outcome.output) });
    else outcomes.push({ rule, reason: outcome.failed === "memory" ? OUT_OF_MEMORY_REASON : timeout });
  }
  return outcomes;
}

async function summarize(lane: Lane, entries: readonly SummaryEntry[], { data, now }: ReportedData): Promise<Summary> {
  const { elements, count } = elementsOf(data);
  const input = Buffer.from(elements.join("\n"));
  const groups: Summary["groups"] = elements.map(() => []);
  const limits = { maxOutputs: elements.length, maxBytes: MAX_SUMMARY_BYTES };
  let leftMs = MAX_SUMMARY_MS;
  for (const { name, expression } of elements.length === 0 ? [] : entries) {
    let lines: readonly string[] = [];
    let missing = `took more than ${formatSeconds(MAX_SUMMARY_MS)}, with the expressions before it`;
    if (leftMs > 0) {
      const task = { kind: "jq", expression: buildSummaryProgram(expression), input, now, ...limits } as const;
      const outcome = await runExpression(lane, task, leftMs);
      leftMs -= outcome.tookMs;
      if ("output" in outcome) {
        lines = outcome.output.outputs;
        missing = outcome.output.status === 0 ? "ended jq" : explainRunFailure(outcome.output);
      } else if (outcome.failed === "memory") missing = OUT_OF_MEMORY_REASON;
    }
    for (const [index, rows] of groups.entries()) {
      const line = lines[index];
      rows.push(toSummaryRow(name, line === undefined ? missing : parseExact(line)));
    }
  }
  return { groups, left_out: count - elements.length };
}

/** The JSON texts of the first elements that a summary has a group for, and the number of all elements. */
function elementsOf(data: unknown): { elements: string[]; count: number } {
  if (data instanceof JsonText)
    return data.text.startsWith("[") ? readFirstElements(data.text, MAX_GROUPS) : { elements: [data.text], count: 1 };
  const elements: readonly unknown[] = Array.isArray(data) ? data : [data];
  return { elements: elements.slice(0, MAX_GROUPS).map(stringifyJson), count: elements.length };
}

const EMPTY_INPUT = new Uint8Array(0);
