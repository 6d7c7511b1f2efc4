/**
 * A parsed policy: normalized rules whose expressions are trees. Every value has passed the parser, so the evaluator
 * may rely on its limits (depth, sizes, compiled patterns).
 */
import type { Regex } from "../text/regex.ts";

/**
 * An expression tree; `at` is the offset in the text. `and` and `or` hold all their terms in one node, so that a long
 * chain is not a deep tree.
 */
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
 * `text` is the user's text, trimmed and without the `${{ }}` wrapper; `at` in the tree is an offset into it, in code
 * units from 0.
 */
export type Expression = { text: string; tree: Expr };

/** Provenance or trail-compliance. A null condition is an exception that never matches (semantics 5.3). */
export type BooleanRule = { required: boolean; exceptions: readonly { condition: Expression | null }[] };

/** A required attestation. A null condition means always; only rules of type `decision` have `forControl`. */
export type AttestationRule = {
  condition: Expression | null;
  name: string;
  type: string;
  mustBeCompliant: boolean;
  forControl: string | null;
};

/** A control that a rule refers to, with its position, so that the caller can report an unknown control there. */
export type ControlReference = { control: string; line: number; column: number; path: string };

/** A valid policy of schema version 1, with defaults filled in. */
export type PolicyDocument = {
  provenance: BooleanRule;
  trailCompliance: BooleanRule;
  attestations: readonly AttestationRule[];
  controls: readonly ControlReference[];
};
