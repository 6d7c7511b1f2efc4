/**
 * What a policy is once it has been read: normalised rules whose expressions are trees. Every value here
 * came through the parser, so the evaluator may rely on its bounds (depth, sizes, compiled patterns).
 */
import type { Regex } from "../text/regex.ts";

/** `and` and `or` hold all their terms in one node, so that a long chain is not a deep tree. */
export type Expr =
  | { kind: "literal"; value: string | boolean; at: number }
  | { kind: "list"; items: readonly Expr[]; at: number }
  | { kind: "context"; name: ContextName; at: number }
  | { kind: "tag"; key: string; at: number }
  | { kind: "exists"; operand: Expr; at: number }
  | { kind: "matches"; input: Expr; regex: Regex; at: number }
  | { kind: "compare"; operator: ComparisonOperator; left: Expr; right: Expr; at: number }
  | { kind: "not"; operand: Expr; at: number }
  | { kind: "and" | "or"; terms: readonly Expr[]; at: number };

export type ComparisonOperator = "==" | "!=" | "<" | ">" | "<=" | ">=" | "in";

/** The names an expression may use, besides `flow.tags.<key>` (semantics 5.2). */
export const CONTEXT_NAMES = ["flow", "flow.name", "artifact", "artifact.name", "artifact.fingerprint"] as const;

export type ContextName = (typeof CONTEXT_NAMES)[number];

/**
 * `text` is what the user wrote, without the `${{ }}` wrapper and trimmed; `at` in the tree counts from its start, in
 * code units from 0.
 */
export type Expression = { text: string; tree: Expr };

/** Provenance or trail-compliance. A null condition is an exception that never matches (semantics 5.3). */
export type BooleanRule = { required: boolean; exceptions: readonly { condition: Expression | null }[] };

/** A required attestation. A null condition means always; `forControl` is only set on rules of type `decision`. */
export type AttestationRule = {
  condition: Expression | null;
  name: string;
  type: string;
  mustBeCompliant: boolean;
  forControl: string | null;
};

/** A control named by a rule, and where, so that the caller who knows the controls can complain in place. */
export type ControlReference = { control: string; line: number; column: number; path: string };

/** A valid policy of schema version 1, defaults filled in. */
export type PolicyDocument = {
  provenance: BooleanRule;
  trailCompliance: BooleanRule;
  attestations: readonly AttestationRule[];
  controls: readonly ControlReference[];
};
