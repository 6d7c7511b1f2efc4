/**
 * Shows people how the exceptions and conditions of a policy came out: evaluates each one again for every flow, with
 * the values of the names in it.
 */
import type { Expr, Expression, PolicyDocument } from "./ast.ts";
import type { Subject } from "./evaluate.ts";
import { evaluateExpression, readName } from "./interpret.ts";
import type { Scope } from "./interpret.ts";

/**
 * The outcome in one flow; `flow` is null for an artifact without provenance. `result` is null for an expression that
 * was not evaluated, because an earlier exception applied, and for one that failed with `error`. `values` are those of
 * the names in the expression, at most MAX_VALUES.
 */
type ConditionResult = {
  flow: string | null;
  result: boolean | null;
  error: string | null;
  values: Record<string, string | boolean | null>;
};

/** An exception of a boolean rule or the `if` of an attestation rule. A null `text` never applies. */
export type ConditionOutcome = {
  type: "exception" | "condition";
  text: string | null;
  /** Its place among the conditions of the rule in the text, from 0. */
  index: number;
  results: ConditionResult[];
};

/** Names whose values are shown: an expression may have thousands, more than a page can show. */
const MAX_VALUES = 20;
/**
 * Conditions of a rule that are shown. Beyond them, only those that applied or failed are: a rule may have a thousand
 * exceptions, and an explanation repeats them for every artifact.
 */
const MAX_CONDITIONS = 50;

/**
 * The outcomes of the conditions of every rule, in evaluation order; none for a boolean rule that requires nothing,
 * because it does not evaluate its exceptions.
 */
export function explainConditions(policy: PolicyDocument, subject: Subject): ConditionOutcome[][] {
  const scopes = (subject.flows.length === 0 ? [null] : subject.flows).map(
    (flow): Scope => ({
      flow: flow && { name: flow.flowName, tags: flow.flowTags },
      artifact: { name: subject.artifactName || (flow?.artifactName ?? ""), fingerprint: subject.fingerprint },
    }),
  );
  return [
    ...[policy.provenance, policy.trailCompliance].map(({ required, exceptions }) =>
      required ? explainExceptions(exceptions, scopes) : [],
    ),
    ...policy.attestations.map(({ condition }): ConditionOutcome[] =>
      condition === null
        ? []
        : [
            {
              type: "condition",
              text: condition.text,
              index: 0,
              results: scopes.map((scope) => explainExpression(condition, scope)),
            },
          ],
    ),
  ];
}

/** In the order of the file: in each flow, what follows the first exception that is true or fails is not evaluated. */
function explainExceptions(
  exceptions: readonly { condition: Expression | null }[],
  scopes: readonly Scope[],
): ConditionOutcome[] {
  const isDecided = scopes.map(() => false);
  return exceptions.flatMap(({ condition }, index) => {
    const results = scopes.map((scope, place): ConditionResult => {
      if (condition === null || isDecided[place]) return { ...NOT_EVALUATED, flow: scope.flow?.name ?? null };
      const result = explainExpression(condition, scope);
      isDecided[place] = result.result !== false;
      return result;
    });
    const isShown = index < MAX_CONDITIONS || results.some(({ result, error }) => result === true || error !== null);
    return isShown ? [{ type: "exception" as const, text: condition?.text ?? null, index, results }] : [];
  });
}

const NOT_EVALUATED: Omit<ConditionResult, "flow"> = { result: null, error: null, values: {} };

function explainExpression(expression: Expression, scope: Scope): ConditionResult {
  const outcome = evaluateExpression(expression, scope);
  const values = namesIn(expression).map((name) => [describeName(name), readName(name, scope)]);
  return {
    flow: scope.flow?.name ?? null,
    result: "value" in outcome ? outcome.value : null,
    error: "error" in outcome ? outcome.error : null,
    values: Object.fromEntries(values),
  };
}

type Name = Extract<Expr, { kind: "context" | "tag" }>;

const describeName = (name: Name): string => (name.kind === "tag" ? `flow.tags.${name.key}` : name.name);

const namesOf = new WeakMap<Expression, readonly Name[]>();

/** The names in an expression, each once, in the order of the text. Collected once per expression. */
function namesIn(expression: Expression): readonly Name[] {
  let names = namesOf.get(expression);
  if (!names) {
    const found = new Map<string, Name>();
    collectNames(expression.tree, found);
    names = [...found.values()];
    namesOf.set(expression, names);
  }
  return names;
}

function collectNames(expr: Expr, found: Map<string, Name>): void {
  if (found.size === MAX_VALUES) return;
  if (expr.kind === "context" || expr.kind === "tag") found.set(describeName(expr), expr);
  for (const operand of operandsOf(expr)) collectNames(operand, found);
}

/** The parts of an expression that are expressions themselves. */
export function operandsOf(expr: Expr): readonly Expr[] {
  switch (expr.kind) {
    case "literal":
    case "context":
    case "tag":
      return [];
    case "list":
      return expr.items;
    case "exists":
    case "not":
      return [expr.operand];
    case "matches":
      return [expr.input];
    case "compare":
      return [expr.left, expr.right];
    case "and":
    case "or":
      return expr.terms;
  }
}
