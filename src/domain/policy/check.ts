/**
 * The shape of a policy file, schema version 1 (semantics 5.1): walks the YAML nodes, fills in defaults and collects
 * every problem, so that the user can correct all of them at once. It descends only where the schema does, so aliases
 * cannot multiply or loop.
 */
import { isAlias, isMap, isScalar, isSeq } from "yaml";
import type { Node, Scalar, YAMLMap } from "yaml";
import { SYSTEM_LABELS, typeWordOf } from "../attestation/kinds.ts";
import { excerpt } from "../text/excerpt.ts";
import { MAX_NAME_CHARS } from "../names.ts";
import { isNullNode, describeKey, describeNode, describeUnknownKey } from "../text/yaml.ts";
import type { YamlText } from "../text/yaml.ts";
import type { AttestationRule, BooleanRule, ControlReference, Expression, PolicyDocument } from "./ast.ts";
import type { Diagnostic } from "./diagnostics.ts";
import { createExpressionBudget, parseExpression, createUnlimitedBudget } from "./parser.ts";
import type { ExpressionBudget } from "./parser.ts";
import {
  ATTESTATION_TYPES,
  CUSTOM_TYPE_PATTERN,
  MAX_EXCEPTIONS,
  MAX_RULES,
  MAX_TYPE_CHARS,
  SCHEMA_PATTERN,
  SCHEMA_URL,
} from "./schema.ts";

/**
 * The value of a key, aliases resolved; an unresolved alias has no value and was already reported by the YAML reader.
 * `at` is the offset for problems: that of the value, or of the key when it has no value.
 */
type Value = { node: Node | null; at: number; path: string };

/** The state of one walk over a policy. */
type Walk = {
  readonly source: YamlText;
  readonly isStored: boolean;
  readonly report: (diagnostic: Diagnostic) => void;
  readonly budget: ExpressionBudget;
  readonly controls: ControlReference[];
};

/** As long as any URL that the API accepts. */
const MAX_SCHEMA_CHARS = 2_048;

const SCHEMA = new RegExp(SCHEMA_PATTERN, "u");
const CUSTOM_TYPE = new RegExp(CUSTOM_TYPE_PATTERN, "u");
const TYPE_LIST = `${ATTESTATION_TYPES.map((type) => `'${type}'`).join(", ")} or 'custom:<name>'`;

/**
 * Checks the root node of a policy file and builds its normalized form.
 * @param options.isStored the policy was accepted before and is only loaded, so nothing is too large
 * @param options.report receives the problems, in any order; the result is valid only without any
 */
export function checkPolicy(
  source: YamlText,
  root: Node,
  { isStored, report }: { isStored: boolean; report: (diagnostic: Diagnostic) => void },
): PolicyDocument {
  const budget = isStored ? createUnlimitedBudget() : createExpressionBudget();
  const walk: Walk = { source, isStored, report, budget, controls: [] };
  const rootValue = resolveValue(walk, root, { at: root.range?.[0] ?? 0, path: "" });
  const top = readFields(walk, rootValue, ["_schema", "artifacts"]);
  if (top !== null) checkSchema(walk, top._schema, rootValue.at);
  const artifacts =
    top?.artifacts && readFields(walk, top.artifacts, ["provenance", "trail-compliance", "attestations"]);
  return {
    provenance: readBooleanRule(walk, artifacts?.provenance),
    trailCompliance: readBooleanRule(walk, artifacts?.["trail-compliance"]),
    attestations:
      artifacts?.attestations === undefined
        ? []
        : readList(walk, artifacts.attestations, ATTESTATION_RULES).map((item) => readAttestationRule(walk, item)),
    controls: walk.controls,
  };
}

function resolveValue({ source }: Walk, node: unknown, { at, path }: { at: number; path: string }): Value {
  const present = (node ?? null) as Node | null;
  return { node: present && source.resolve(present), at: present?.range?.[0] ?? at, path };
}

function reportAt({ source, report }: Walk, { at, path }: { at: number; path: string }, problem: string): void {
  report({ ...source.positionOf(at), path, problem });
}

function reportType(walk: Walk, value: Value, expected: string): null {
  if (!isAlias(value.node))
    reportAt(walk, value, `Input should be a valid ${expected} [input: ${describeNode(value.node)}]`);
  return null;
}

/** Reports a missing key, unless the text has a syntax error: the key may follow it. */
function reportMissing(walk: Walk, at: { at: number; path: string }, hint = ""): null {
  if (walk.source.brokenAt === null) reportAt(walk, at, `Field required${hint}`);
  return null;
}

/** The known keys of a map, or null if it is not a map. Reports unknown and repeated keys. */
function readFields<K extends string>(walk: Walk, value: Value, known: readonly K[]): Partial<Record<K, Value>> | null {
  if (!isMap(value.node)) return reportType(walk, value, "mapping");
  const { source } = walk;
  const fields: Partial<Record<K, Value>> = {};
  for (const pair of (value.node as YAMLMap<Node, Node | null>).items) {
    const key = source.resolve(pair.key);
    const name = isScalar(key) && typeof key.value === "string" ? key.value : null;
    const atKey = { at: pair.key?.range?.[0] ?? value.at, path: join(value.path, describeKey(key)) };
    const field = known[name === null ? -1 : (known as readonly string[]).indexOf(name)];
    if (field === undefined) {
      const child = pair.value && source.resolve(pair.value);
      reportAt(walk, atKey, describeUnknownKey(describeKey(key), child, known));
    } else if (Object.hasOwn(fields, field)) reportAt(walk, atKey, "the key is given more than once");
    else fields[field] = resolveValue(walk, pair.value, atKey);
  }
  return fields;
}

/** The longest list of a kind, and its items in words. */
type ListLimit = { maxItems: number; items: string };
const ATTESTATION_RULES: ListLimit = { maxItems: MAX_RULES, items: "attestation rules" };
const EXCEPTIONS: ListLimit = { maxItems: MAX_EXCEPTIONS, items: "exceptions in a rule" };

function readList(walk: Walk, value: Value, { maxItems, items }: ListLimit): Value[] {
  if (!isSeq(value.node)) return reportType(walk, value, "list") ?? [];
  const nodes = walk.isStored ? value.node.items : value.node.items.slice(0, maxItems);
  if (value.node.items.length > nodes.length) reportAt(walk, value, `a policy may have at most ${maxItems} ${items}`);
  return nodes.map((node, index) => {
    const at = (node as Node | null)?.range?.[0] ?? value.at;
    return resolveValue(walk, node, { at, path: join(value.path, String(index)) });
  });
}

function readText(walk: Walk, value: Value, maxChars: number): string | null {
  if (!isScalar(value.node) || typeof value.node.value !== "string") return reportType(walk, value, "string");
  const text = value.node.value;
  if (text === "") reportAt(walk, value, "String should have at least 1 character [input: ]");
  else if (text.length <= maxChars || walk.isStored) return text;
  else reportAt(walk, value, `String should have at most ${maxChars} characters [input: ${excerpt(text)}]`);
  return null;
}

/** A boolean, or `fallback` if it is absent or was reported. */
function readBoolean(walk: Walk, value: Value | undefined, { fallback }: { fallback: boolean }): boolean {
  if (value === undefined) return fallback;
  if (isScalar(value.node) && typeof value.node.value === "boolean") return value.node.value;
  reportType(walk, value, "boolean, true or false");
  return fallback;
}

function readExpression(walk: Walk, value: Value | undefined): Expression | null {
  if (value === undefined || isNullNode(value.node)) return null;
  if (!isScalar(value.node) || typeof value.node.value !== "string") return reportType(walk, value, "string");
  const parsed = parseExpression(value.node.value, walk.budget);
  if ("expression" in parsed) return parsed.expression;
  for (const { at, problem } of parsed.problems) {
    walk.report({ ...walk.source.positionInside(value.node as Scalar, at), path: value.path, problem });
  }
  return null;
}

function readBooleanRule(walk: Walk, value: Value | undefined): BooleanRule {
  const fields = value === undefined ? {} : (readFields(walk, value, ["required", "exceptions"]) ?? {});
  const exceptions = fields.exceptions === undefined ? [] : readList(walk, fields.exceptions, EXCEPTIONS);
  return {
    required: readBoolean(walk, fields.required, { fallback: false }),
    exceptions: exceptions.map((item) => ({ condition: readExpression(walk, readFields(walk, item, ["if"])?.if) })),
  };
}

function readAttestationType(walk: Walk, value: Value): string | null {
  const type = readText(walk, value, MAX_TYPE_CHARS);
  if (type === null || (ATTESTATION_TYPES as readonly string[]).includes(type) || CUSTOM_TYPE.test(type)) return type;
  if (SYSTEM_LABELS.includes(type)) return typeWordOf(type);
  const problem = type.startsWith("custom:")
    ? `String should match pattern '${CUSTOM_TYPE_PATTERN}' [input: ${excerpt(type)}]`
    : `Input should be ${TYPE_LIST} [input: ${excerpt(type)}]`;
  reportAt(walk, value, problem);
  return null;
}

function readAttestationRule(walk: Walk, value: Value): AttestationRule {
  const map = readFields(walk, value, ["if", "name", "type", "must_be_compliant", "for_control"]);
  const fields = map ?? {};
  const type =
    fields.type === undefined
      ? map && reportMissing(walk, { at: value.at, path: join(value.path, "type") }, `: write ${TYPE_LIST}`)
      : readAttestationType(walk, fields.type);
  const name = fields.name === undefined ? "*" : readText(walk, fields.name, MAX_NAME_CHARS);
  if (type === "*" && name === "*") {
    const problem = "a rule with type '*' and name '*' would accept any attestation; give a type or a name";
    reportAt(walk, value, problem);
  }
  const forControl = readControl(walk, fields.for_control, type);
  return {
    condition: readExpression(walk, fields.if),
    name: name ?? "*",
    type: type ?? "*",
    mustBeCompliant: readBoolean(walk, fields.must_be_compliant, { fallback: true }),
    forControl,
  };
}

/** The control of a rule of this type, null without one. Records where the policy refers to the control. */
function readControl(walk: Walk, value: Value | undefined, type: string | null): string | null {
  if (value === undefined || isNullNode(value.node)) return null;
  const control = readText(walk, value, MAX_NAME_CHARS);
  if (control === null) return null;
  if (type !== null && type !== "decision") {
    reportAt(walk, value, `for_control is only allowed with type 'decision' [input: ${excerpt(control)}]`);
  }
  walk.controls.push({ control, ...walk.source.positionOf(value.at), path: value.path });
  return control;
}

function checkSchema(walk: Walk, value: Value | undefined, rootAt: number): void {
  if (value === undefined)
    return void reportMissing(walk, { at: rootAt, path: "_schema" }, `: begin with _schema: ${SCHEMA_URL}`);
  const schema = readText(walk, value, MAX_SCHEMA_CHARS);
  if (schema === null || SCHEMA.test(schema)) return;
  const problem = `the schema is not supported; its path must end in /v1, as in ${SCHEMA_URL}`;
  reportAt(walk, value, `${problem} [input: ${excerpt(schema)}]`);
}

function join(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}
