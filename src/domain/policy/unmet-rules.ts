/**
 * The rules of a valid policy that an organization can never meet, or that can never apply there, because they name a
 * flow, a tag, a type or an attestation that it does not have. No mistakes: what is named may come later. Controls are
 * different, the server refuses unknown ones (missing-controls.ts).
 */
import { isScalar } from "yaml";
import type { Node } from "yaml";
import { compareNames, findMissingType } from "../organization-names.ts";
import type { MissingName, NameReference, OrganizationNames } from "../organization-names.ts";
import { excerpt } from "../text/excerpt.ts";
import type { Regex } from "../text/regex.ts";
import { readYaml } from "../text/yaml.ts";
import type { YamlText } from "../text/yaml.ts";
import type { AttestationRule, Expr, Expression, PolicyDocument } from "./ast.ts";
import { operandsOf } from "./conditions.ts";
import type { Diagnostic } from "./diagnostics.ts";
import { STORED_POLICY_LIMITS } from "./document.ts";
import { findEntry, nodesOf, memberOf } from "../text/yaml-nodes.ts";

type Text = { readonly source: YamlText; readonly known: OrganizationNames };

/**
 * Returns at most 100 diagnostics, by position. Takes as long as parsing the text, and then until `known.isOver`.
 * @param text a valid policy @param policy the same, parsed
 */
export const findUnmetRules = (text: string, policy: PolicyDocument, known: OrganizationNames): Diagnostic[] =>
  compareNames(referencesIn({ source: readYaml(text, { limits: STORED_POLICY_LIMITS }), known }, policy), known);

function* referencesIn(text: Text, policy: PolicyDocument): Generator<NameReference> {
  const { source } = text;
  const artifacts = memberOf(source, source.root, "artifacts");
  for (const [key, rule] of [
    ["provenance", policy.provenance],
    ["trail-compliance", policy.trailCompliance],
  ] as const) {
    const node = memberOf(source, artifacts, key);
    for (const [index, item] of nodesOf(source, node, "exceptions").entries()) {
      const condition = rule.exceptions[index]?.condition ?? null;
      yield* conditionReferences(text, item, { condition, path: `artifacts.${key}.exceptions.${index}.if` });
    }
  }
  for (const [index, item] of nodesOf(source, artifacts, "attestations").entries()) {
    const rule = policy.attestations[index];
    if (!rule) continue;
    const path = `artifacts.attestations.${index}`;
    yield attestationReference(text, item, { rule, path });
    yield* conditionReferences(text, item, { condition: rule.condition, path: `${path}.if` });
  }
}

/** The type of a rule; its name if the type is known: one mistake in the type is not two. */
function attestationReference(
  { source, known }: Text,
  item: Node,
  { rule, path }: { rule: AttestationRule; path: string },
): NameReference {
  const missingType = findMissingType(rule.type, known);
  const key = missingType ? "type" : "name";
  return {
    place: () => source.positionOf(findEntry(source, item, key)?.value ?? item),
    path: `${path}.${key}`,
    find: () => missingType ?? findUnexpected(rule, known),
  };
}

/** An attestation that nothing expects. */
function findUnexpected({ type, name, forControl }: AttestationRule, known: OrganizationNames): MissingName | null {
  // Of a control, any name will do: its decisions are reported as they are made.
  if (name === "*" || forControl !== null || known.isExpected(name, type)) return null;
  const what = `an attestation '${excerpt(name)}'${type === "*" ? "" : ` of type ${type}`}`;
  return {
    missing: `no template of organization '${known.organization}' expects ${what}, and none was reported`,
    remedy: "add it to a template, or correct the name",
    similar: { name, among: "attestations" },
  };
}

type Condition = { condition: Expression | null; path: string };

/** The flows with which an expression compares, and the tags that it reads. */
function* conditionReferences({ source, known }: Text, item: Node, { condition, path }: Condition) {
  const scalar = memberOf(source, item, "if");
  if (condition === null || !isScalar(scalar) || typeof scalar.value !== "string") return;
  const start = scalar.value.indexOf(condition.text);
  for (const { at, find } of namesIn(condition.tree, known))
    yield { place: () => source.positionInside(scalar, start + at), path, find } satisfies NameReference;
}

type NameInside = Pick<NameReference, "find"> & { at: number };

function* namesIn(expr: Expr, known: OrganizationNames): Generator<NameInside> {
  if (expr.kind === "tag") yield { at: expr.at, find: () => findMissingTag(expr.key, known) };
  if (expr.kind === "matches" && isFlowName(expr.input))
    yield { at: expr.at, find: () => findNoMatch(expr.regex, known) };
  for (const { value, at } of comparedFlows(expr)) yield { at, find: () => findMissingFlow(value, known) };
  for (const operand of operandsOf(expr)) yield* namesIn(operand, known);
}

const findMissingTag = (key: string, { organization, tagKeys }: OrganizationNames): MissingName | null =>
  tagKeys.has(key)
    ? null
    : {
        missing: `no flow of organization '${organization}' has the tag '${excerpt(key)}'`,
        remedy: "tag a flow with it, or correct the name",
        similar: { name: key, among: "tagKeys" },
      };

const findMissingFlow = (name: string, { organization, flows }: OrganizationNames): MissingName | null =>
  flows.has(name)
    ? null
    : {
        missing: `organization '${organization}' has no flow '${excerpt(name)}'`,
        remedy: "create it, or correct the name",
        similar: { name, among: "flows" },
      };

function findNoMatch(regex: Regex, { organization, flows, isOver }: OrganizationNames): MissingName | null {
  for (const name of flows) if (isOver() || regex.find(name)) return null;
  return {
    missing: `no flow of organization '${organization}' has a name that matches`,
    remedy: "create one, or correct the expression",
    similar: null,
  };
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
