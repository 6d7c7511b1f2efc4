/**
 * The verdict on attestations of custom types, from the runs of their jq rules (semantics 3.4). Every rule must yield
 * exactly one output, the value true. Anything else is a reason against the attestation: a failure, several outputs,
 * none, or a timeout.
 */
import { truncate, excerpt } from "../text/excerpt.ts";
import { verdictFromReasons } from "./verdicts.ts";
import type { AttestationVerdict } from "./verdicts.ts";

/** The jq that runs expressions, for people who test theirs elsewhere. */
export const JQ_VERSION = "1.7.1";

/** A run of a jq expression that ended by itself or was aborted by its sandbox. */
export type ExpressionRun = {
  /** The outputs, one JSON text each. */
  outputs: readonly string[];
  /** Whether the run exceeded the requested number of outputs or bytes and was aborted for it. */
  overflow: boolean;
  /** The exit status of jq, null when memory, stack or an overflow ended the run. */
  status: number | null;
  /** The stderr of jq: its errors, and whatever the expression itself wrote there. */
  diagnostics: string;
};

/** The outcome of a rule. `reason` says in plain English why the rule does not hold, null when it holds. */
export type RuleOutcome = { rule: string; reason: string | null };

/** A labelled value of a summary. `error` says why the value is missing, null when it is present. */
type SummaryRow = { name: string; value: unknown; error: string | null };
/** One group per element of an array, one group for any other data; `left_out` counts elements beyond the limit. */
export type Summary = { groups: SummaryRow[][]; left_out: number };

/** Compliant when every rule holds, and always without rules (semantics 3.4, 13.28). */
export function evaluateCustom(outcomes: readonly RuleOutcome[]): AttestationVerdict {
  return verdictFromReasons(
    outcomes.flatMap(({ rule, reason }, index) =>
      reason === null ? [] : [`Rule ${index + 1} (${excerpt(rule, 200)}) ${reason}`],
    ),
  );
}

/** Why a rule does not hold after its run, null when it holds. */
export function explainRuleFailure(run: ExpressionRun): string | null {
  const { outputs, overflow, status } = run;
  if (overflow) return outputs.length > 0 ? "gives several outputs" : "gives a long output that is not true";
  if (status !== 0) return explainRunFailure(run);
  const [output] = outputs;
  if (output === undefined) return "gives no output";
  if (outputs.length > 1) return "gives several outputs";
  return output === "true" ? null : `gives ${excerpt(output, 100)}`;
}

/** Why a run gave no result, in words that follow the name of the expression. */
export function explainRunFailure({ status, diagnostics }: ExpressionRun): string {
  if (status === null) return OUT_OF_MEMORY.test(diagnostics) ? OUT_OF_MEMORY_REASON : ABORTED_REASON;
  return `fails: ${extractJqMessage(diagnostics)}`;
}

const OUT_OF_MEMORY = /cannot allocate memory\s*$/;
const ABORTED_REASON = "breaks off without a result, as expressions do that nest too deeply";
export const OUT_OF_MEMORY_REASON = "needs more memory than an expression may have";

/** jq's own error message on one line, without the program name and location around it. */
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
  return excerpt(truncate(lines.join(": "), MAX_MESSAGE_CHARS), MAX_MESSAGE_CHARS) || "jq gives no reason";
}

const MAX_MESSAGE_CHARS = 400;

/** The jq program of a summary expression. Per input it prints one line: a list of at most two outputs, or an error. */
export const buildSummaryProgram = (expression: string): string =>
  `try ([limit(2; (${expression}\n\n))] | if (tojson | length) > ${MAX_VALUE_CHARS} ` +
  `then "the value is longer than ${MAX_VALUE_CHARS} characters" else . end) ` +
  'catch (if type == "string" then . else tojson end)';

/** A summary gives a quick view of a record; whole reports belong in evidence. */
const MAX_VALUE_CHARS = 2_000;

/** The row of a summary. @param result what the summary program printed: a list of outputs, or an error */
export function toSummaryRow(name: string, result: unknown): SummaryRow {
  if (!Array.isArray(result)) return { name, value: null, error: excerpt(String(result), MAX_MESSAGE_CHARS) };
  if (result.length !== 1)
    return { name, value: null, error: result.length === 0 ? "gives no output" : "gives several outputs" };
  return { name, value: result[0] as unknown, error: null };
}
