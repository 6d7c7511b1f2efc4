/**
 * The main thread's side of attestation types that users define: whether a definition compiles, and what it says of
 * data. All of it happens in threads of a pool, an expression at a time, because a schema or a jq expression may take
 * any time and any memory. Its types are the lanes of the pool: whoever defines one that never ends keeps nobody but
 * themselves waiting.
 *
 * Invariant: a verdict follows from definition, data and time of the report. A server that is too busy gives none: the
 * report is refused, to be sent again.
 */
import {
  OUT_OF_MEMORY_REASON,
  extractJqMessage,
  explainRuleFailure,
  buildSummaryProgram,
  parseSummaryRow,
  explainRunFailure,
} from "../../domain/attestation/custom.ts";
import type { ExpressionRun, RuleOutcome, Summary } from "../../domain/attestation/custom.ts";
import { unavailable } from "../../errors.ts";
import { JsonText, stringifyJson } from "../../json/text.ts";
import { readFirstElements } from "./json-elements.ts";
import type { SandboxResult, JqTask, SchemaResult, SchemaTask } from "./sandbox-worker.ts";
import { DeadlineError, PoolClosedError, QueueFullError, WorkerDiedError } from "../pool.ts";
import type { Pool } from "../pool.ts";

/** Schemas and expressions have threads of their own, because they need stacks of different sizes. */
export type AttestationTypePools = {
  schemas: Pool<SchemaTask, SandboxResult>;
  expressions: Pool<JqTask, SandboxResult>;
};

export type SummaryEntry = { name: string; expression: string };
/** `schema`: JSON text of an object. */
export type TypeDefinition = {
  schema: string | null;
  rules: readonly string[];
  summary: readonly SummaryEntry[] | null;
};

/** What a definition says of data: that it does not fit (one line), or what came of each rule, with the summary. */
export type TypeEvaluation = { mismatch: string } | { outcomes: RuleOutcome[]; summary: Summary | null };

export type AttestationTypes = {
  /**
   * What does not compile in a definition, by field; empty when all does. @throws AppError unavailable when the server
   * is too busy.
   */
  check(lane: string, definition: TypeDefinition): Promise<Record<string, string>>;
  /**
   * Judges data, a value or a JsonText; `now` in epoch seconds is the time that expressions see. @throws AppError
   * unavailable when the server is too busy.
   */
  evaluate(lane: string, definition: TypeDefinition, data: unknown, now: number): Promise<TypeEvaluation>;
};

/**
 * Milliseconds that compiling one part of a definition, all rules together, and all expressions of a summary together
 * may take.
 */
const COMPILE_TIME = 2_000;
const RULES_TIME = 2_000;
const SUMMARY_TIME = 1_000;
/** Checking data compiles the schema again in most threads: what was accepted must not fail later for its size. */
const CHECK_TIME = 2 * COMPILE_TIME;
/** Milliseconds to wait for a thread: shorter than clients wait for an answer. */
const PATIENCE = 10_000;

/** Bytes of output read of a rule: one of them is wanted, `true`; the beginning of any other is shown. */
const RULE_BYTES = 4_096;
const MAX_GROUPS = 100;
const SUMMARY_BYTES = 1 << 20;

const seconds = (milliseconds: number): string => `${milliseconds / 1000} second${milliseconds === 1000 ? "" : "s"}`;

/**
 * What a task came to: its output, or why there is none; and the milliseconds that it took, waiting for a thread not
 * counted.
 */
type Outcome<T> = { output: T; took: number } | { failed: "time" | "memory"; took: number };

export function createAttestationTypes({ schemas, expressions }: AttestationTypePools): AttestationTypes {
  /** Runs one task. @throws AppError unavailable when that is nothing that the task did. */
  async function run<Task, T>(
    pool: Pool<Task, SandboxResult>,
    lane: string,
    task: Task,
    allowance: number,
  ): Promise<Outcome<T>> {
    const asked = performance.now();
    try {
      const { output, tookMs: took } = await pool.run(task, { lane, allowanceMs: allowance, deadlineMs: PATIENCE });
      return { output: output as T, took };
    } catch (error) {
      if (error instanceof DeadlineError && error.started) return { failed: "time", took: allowance };
      // Nobody is left to say how long it took: at most this.
      if (error instanceof WorkerDiedError && error.began) return { failed: "memory", took: performance.now() - asked };
      if (
        error instanceof DeadlineError ||
        error instanceof WorkerDiedError ||
        error instanceof QueueFullError ||
        error instanceof PoolClosedError
      )
        throw unavailable("The rules of attestation types keep the server busy. Please try again", 2, error);
      throw error;
    }
  }

  const evaluate = (lane: string, order: JqTask, allowance: number) =>
    run<JqTask, ExpressionRun>(expressions, lane, order, allowance);
  const fit = (lane: string, task: SchemaTask, allowance: number) =>
    run<SchemaTask, SchemaResult>(schemas, lane, task, allowance);

  const compile = async (lane: string, expression: string): Promise<string | null> => {
    const order = { kind: "jq", expression, input: NOTHING, now: 0, maxOutputs: 0, maxBytes: 0 } as const;
    const outcome = await evaluate(lane, order, COMPILE_TIME);
    if ("failed" in outcome)
      return outcome.failed === "time" ? `does not compile within ${seconds(COMPILE_TIME)}` : OUT_OF_MEMORY_REASON;
    const { status, diagnostics } = outcome.output;
    if (status === 0) return null;
    return status === null
      ? explainRunFailure(outcome.output)
      : `is no valid jq expression: ${extractJqMessage(diagnostics)}`;
  };

  async function evaluateRules(
    lane: string,
    rules: readonly string[],
    input: Uint8Array,
    now: number,
  ): Promise<RuleOutcome[]> {
    const outcomes: RuleOutcome[] = [];
    let left = RULES_TIME;
    for (const [place, rule] of rules.entries()) {
      if (left <= 0) {
        outcomes.push({ rule, reason: `was not evaluated: the rules before it took all of ${seconds(RULES_TIME)}` });
        continue;
      }
      const order = { kind: "jq", expression: rule, input, now, maxOutputs: 1, maxBytes: RULE_BYTES } as const;
      const outcome = await evaluate(lane, order, left);
      left -= outcome.took;
      if ("output" in outcome) outcomes.push({ rule, reason: explainRuleFailure(outcome.output) });
      else
        outcomes.push({
          rule,
          reason:
            outcome.failed === "memory"
              ? OUT_OF_MEMORY_REASON
              : `does not end within ${seconds(RULES_TIME)}${place === 0 ? "" : ", the rules before it included"}`,
        });
    }
    return outcomes;
  }

  async function summarize(
    lane: string,
    entries: readonly SummaryEntry[],
    data: unknown,
    now: number,
  ): Promise<Summary> {
    const { elements, count } = elementsOf(data);
    const input = Buffer.from(elements.join("\n"));
    const groups: Summary["groups"] = elements.map(() => []);
    let left = SUMMARY_TIME;
    for (const { name, expression } of elements.length === 0 ? [] : entries) {
      let lines: readonly string[] = [];
      let missing = `took more than ${seconds(SUMMARY_TIME)}, with the expressions before it`;
      if (left > 0) {
        const order = {
          kind: "jq",
          expression: buildSummaryProgram(expression),
          input,
          now,
          maxOutputs: elements.length,
          maxBytes: SUMMARY_BYTES,
        } as const;
        const outcome = await evaluate(lane, order, left);
        left -= outcome.took;
        if ("output" in outcome) {
          lines = outcome.output.outputs;
          missing = outcome.output.status === 0 ? "ended jq" : explainRunFailure(outcome.output);
        } else if (outcome.failed === "memory") missing = OUT_OF_MEMORY_REASON;
      }
      groups.forEach((rows, place) => rows.push(parseSummaryRow(name, lines[place], missing)));
    }
    return { groups, left_out: count - elements.length };
  }

  return {
    async check(lane, { schema, rules, summary }) {
      const problems: Record<string, string> = {};
      if (schema !== null) {
        const outcome = await fit(lane, { kind: "schema", schema, data: null }, COMPILE_TIME);
        const problem =
          "failed" in outcome
            ? `the schema is too large to be compiled within ${seconds(COMPILE_TIME)}`
            : outcome.output.problem;
        if (problem !== null) problems["type_schema"] = problem;
      }
      for (const [place, rule] of rules.entries()) {
        const problem = await compile(lane, rule);
        if (problem !== null) problems[`evaluator.rules.${place}`] = `Rule ${problem}`;
      }
      for (const [place, { expression }] of (summary ?? []).entries()) {
        // As it is first: jq's message tells the place in what was written.
        const problem = (await compile(lane, expression)) ?? (await compile(lane, buildSummaryProgram(expression)));
        if (problem !== null) problems[`summary.${place}.expression`] = `Expression ${problem}`;
      }
      return problems;
    },

    async evaluate(lane, { schema, rules, summary }, data, now) {
      const input = Buffer.from(stringifyJson(data));
      if (schema !== null) {
        const outcome = await fit(lane, { kind: "schema", schema, data: input }, CHECK_TIME);
        // A schema that is not in force proves nothing about the data, so the data is refused.
        if ("failed" in outcome)
          return {
            mismatch: `attestation_data: could not be checked with the schema of the type within ${seconds(CHECK_TIME)} and its memory`,
          };
        const mismatch = outcome.output.problem ?? outcome.output.mismatch;
        if (mismatch !== null) return { mismatch };
      }
      const outcomes = await evaluateRules(lane, rules, input, now);
      return { outcomes, summary: summary && (await summarize(lane, summary, data, now)) };
    },
  };
}

/** JSON texts of what a summary has a group for each, the first of them, and how many there are. */
function elementsOf(data: unknown): { elements: string[]; count: number } {
  if (data instanceof JsonText)
    return data.text.startsWith("[") ? readFirstElements(data.text, MAX_GROUPS) : { elements: [data.text], count: 1 };
  const elements: readonly unknown[] = Array.isArray(data) ? data : [data];
  return { elements: elements.slice(0, MAX_GROUPS).map((element) => JSON.stringify(element)), count: elements.length };
}

const NOTHING = new Uint8Array(0);
