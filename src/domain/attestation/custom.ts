/**
 * Attestations of types that organizations made for themselves: what the runs of their jq rules say (semantics 3.4).
 * All rules must yield exactly one output, the value true. Whatever else happens to a rule is a reason against the
 * attestation: a failure, several outputs, none, or no end.
 */
import { truncate, excerpt } from "../text/excerpt.ts";
import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** A run of a jq expression that ended by itself or was ended from within. */
export type ExpressionRun = {
  /** The outputs, one JSON text each. */
  outputs: readonly string[];
  /** Whether there were more outputs than asked for, or more bytes of them; the run was ended then. */
  overflow: boolean;
  /** The exit status of jq, null when the run was ended by its memory, its stack or an overflow. */
  status: number | null;
  /** What jq wrote to stderr: its errors, and what the expression itself wrote there. */
  diagnostics: string;
};

/** What came of a rule: `reason` says in plain English why it does not hold, null when it holds. */
export type RuleOutcome = { rule: string; reason: string | null };

/** A labelled value of a summary. `error` says why there is no value, null when there is one. */
export type SummaryRow = { name: string; value: unknown; error: string | null };
/**
 * One group for data that is no array, else one for each element; `left_out` counts the elements that have none, for
 * their number.
 */
export type Summary = { groups: SummaryRow[][]; left_out: number };

/** Compliant when every rule holds; without rules always (semantics 3.4, decision 28). */
export function evaluateCustom(outcomes: readonly RuleOutcome[]): AttestationVerdict {
  return verdictFromReasons(
    outcomes.flatMap(({ rule, reason }, place) =>
      reason === null ? [] : [`Rule ${place + 1} (${excerpt(rule, 200)}) ${reason}`],
    ),
  );
}

/** Why a rule that ran does not hold, null when it holds. */
export function explainRuleFailure(run: ExpressionRun): string | null {
  const { outputs, overflow, status } = run;
  if (overflow) return outputs.length > 0 ? "gives several outputs" : "gives a long output that is not true";
  if (status !== 0) return explainRunFailure(run);
  const [output] = outputs;
  if (output === undefined) return "gives no output";
  if (outputs.length > 1) return "gives several outputs";
  return output === "true" ? null : `gives ${excerpt(output, 100)}`;
}

/** Why a run gave no result, after the name of what was run. */
export function explainRunFailure({ status, diagnostics }: ExpressionRun): string {
  if (status === null)
    return OUT_OF_MEMORY.test(diagnostics)
      ? OUT_OF_MEMORY_REASON
      : "breaks off without a result, as expressions do that nest too deeply";
  return `fails: ${extractJqMessage(diagnostics)}`;
}

const OUT_OF_MEMORY = /cannot allocate memory\s*$/;
export const OUT_OF_MEMORY_REASON = "needs more memory than an expression may have";

/** jq's own message on one line, without what it says of itself around it. */
export function extractJqMessage(diagnostics: string): string {
  const lines = diagnostics
    .split("\n")
    .map((text) =>
      text
        .trim()
        .replace(/^jq: error(?: \(at <(?:stdin>:\d+|unknown>)\))?:? ?/, "")
        .replace(/:$/, ""),
    )
    .filter((text) => text !== "" && !/^jq: \d+ compile errors?$/.test(text));
  return excerpt(truncate(lines.join(": "), MESSAGE), MESSAGE) || "jq gives no reason";
}

const MESSAGE = 400;

/**
 * The program that gives for each of its inputs one line: the list of at most two outputs, or the text of what went
 * wrong.
 */
export const buildSummaryProgram = (expression: string): string =>
  `try ([limit(2; (${expression}\n\n))] | if (tojson | length) > ${MAX_VALUE} then "the value is longer than ${MAX_VALUE} characters" else . end) ` +
  'catch (if type == "string" then . else tojson end)';

/** A summary is for a look at a record; whole reports are evidence. */
const MAX_VALUE = 2_000;

/** A line of the program above as a row. `missing`: why there may be no line. */
export function parseSummaryRow(name: string, line: string | undefined, missing: string): SummaryRow {
  const result: unknown = line === undefined ? missing : JSON.parse(line);
  if (!Array.isArray(result)) return { name, value: null, error: excerpt(String(result), MESSAGE) };
  if (result.length !== 1)
    return { name, value: null, error: result.length === 0 ? "gives no output" : "gives several outputs" };
  return { name, value: result[0] as unknown, error: null };
}
