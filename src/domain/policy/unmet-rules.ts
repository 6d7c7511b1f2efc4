/**
 * The rules of a valid policy that an organization can never meet, or that can never apply there, because they name a
 * flow, a tag, a type or an attestation that it does not have. No mistakes: what is named may come later. Controls are
 * different, the server refuses unknown ones (missing-controls.ts).
 */
import { isScalar } from "yaml";
import type { Node } from "yaml";
import { describeUnknown, findTypeProblem } from "../organization-names.ts";
import type { OrganizationNames } from "../organization-names.ts";
import { excerpt } from "../text/excerpt.ts";
import { readYaml } from "../text/yaml.ts";
import type { YamlText } from "../text/yaml.ts";
import type { AttestationRule, Expr, Expression, PolicyDocument } from "./ast.ts";
import { operandsOf } from "./conditions.ts";
import { sortDiagnostics } from "./diagnostics.ts";
import type { Diagnostic } from "./diagnostics.ts";
import { STORED_POLICY_LIMITS } from "./document.ts";
import { findEntry, nodesOf, memberOf } from "../text/yaml-nodes.ts";

const CUSTOM = "custom:";

type Search = { readonly source: YamlText; readonly known: OrganizationNames; readonly found: Diagnostic[] };

/**
 * Returns at most 100 diagnostics, by position. Takes as long as parsing the text.
 * @param text a valid policy @param policy the same, parsed
 */
export function findUnmetRules(text: string, policy: PolicyDocument, known: OrganizationNames): Diagnostic[] {
  const source = readYaml(text, { limits: STORED_POLICY_LIMITS });
  const search: Search = { source, known, found: [] };
  const artifacts = memberOf(source, source.root, "artifacts");
  for (const [key, rule] of [
    ["provenance", policy.provenance],
    ["trail-compliance", policy.trailCompliance],
  ] as const) {
    const node = memberOf(source, artifacts, key);
    for (const [index, item] of nodesOf(source, node, "exceptions").entries())
      checkCondition(search, item, {
        condition: rule.exceptions[index]?.condition ?? null,
        path: `artifacts.${key}.exceptions.${index}.if`,
      });
  }
  for (const [index, item] of nodesOf(source, artifacts, "attestations").entries()) {
    const rule = policy.attestations[index];
    if (!rule) continue;
    const path = `artifacts.attestations.${index}`;
    checkAttestation(search, item, { rule, path });
    checkCondition(search, item, { condition: rule.condition, path: `${path}.if` });
  }
  return sortDiagnostics(search.found);
}

/** A rule for a type that does not exist, or for an attestation that nothing expects. */
function checkAttestation(
  { source, known, found }: Search,
  item: Node,
  { rule: { type, name, forControl }, path }: { rule: AttestationRule; path: string },
): void {
  const report = (key: string, problem: string): void => {
    const entry = findEntry(source, item, key);
    found.push({ ...source.positionOf(entry?.value ?? item), path: `${path}.${key}`, problem });
  };
  const typeProblem = type.startsWith(CUSTOM) ? findTypeProblem(type.slice(CUSTOM.length), known) : null;
  if (typeProblem !== null) {
    report("type", typeProblem);
    return;
  }
  // Of a control, any name will do: its decisions are reported as they are made.
  if (name === "*" || forControl !== null || known.isExpected(name, type)) return;
  const what = `an attestation '${excerpt(name)}'${type === "*" ? "" : ` of type ${type}`}`;
  const missing = `no template of organization '${known.organization}' expects ${what}, and none was reported`;
  report("name", describeUnknown(missing, name, known.attestations));
}

type Condition = { condition: Expression | null; path: string };

/** An expression that compares with a flow, or reads a tag, that does not exist. */
function checkCondition(search: Search, item: Node, { condition, path }: Condition): void {
  const { source, known, found } = search;
  const scalar = memberOf(source, item, "if");
  if (condition === null || !isScalar(scalar) || typeof scalar.value !== "string") return;
  const start = scalar.value.indexOf(condition.text);
  for (const { at, problem } of problemsIn(condition.tree, known))
    found.push({ ...source.positionInside(scalar, start + at), path, problem });
}

function* problemsIn(expr: Expr, known: OrganizationNames): Generator<{ at: number; problem: string }> {
  const { organization, flows, tagKeys } = known;
  if (expr.kind === "tag" && !tagKeys.includes(expr.key)) {
    const missing = `no flow of organization '${organization}' has the tag '${excerpt(expr.key)}'`;
    yield { at: expr.at, problem: describeUnknown(missing, expr.key, tagKeys) };
  }
  if (expr.kind === "matches" && isFlowName(expr.input) && !flows.some((name) => expr.regex.find(name)))
    yield { at: expr.at, problem: `no flow of organization '${organization}' has a name that matches` };
  for (const { value, at } of comparedFlows(expr))
    if (!flows.includes(value)) {
      const missing = `organization '${organization}' has no flow '${excerpt(value)}'`;
      yield { at, problem: describeUnknown(missing, value, flows) };
    }
  for (const operand of operandsOf(expr)) yield* problemsIn(operand, known);
}

const isFlowName = (expr: Expr): boolean => expr.kind === "context" && expr.name === "flow.name";

/** The texts with which `flow.name` is compared for equality. */
function comparedFlows(expr: Expr): { value: string; at: number }[] {
  if (expr.kind !== "compare" || !["==", "!=", "in"].includes(expr.operator)) return [];
  const { left, right } = expr;
  const others = isFlowName(left) ? (right.kind === "list" ? right.items : [right]) : isFlowName(right) ? [left] : [];
  return others.flatMap((other) =>
    other.kind === "literal" && typeof other.value === "string" ? [{ value: other.value, at: other.at }] : [],
  );
}
