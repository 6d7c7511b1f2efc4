/**
 * The shape of a policy file, schema version 1 (semantics 5.1): walks the YAML nodes, fills in defaults and
 * notes every problem on the way, so that a user repairs a file in one go. It descends only where the schema
 * says so, hence aliases cannot multiply or loop.
 */
import { isAlias, isMap, isScalar, isSeq } from "yaml";
import type { Node, Scalar, YAMLMap } from "yaml";
import { excerpt } from "../text/excerpt.ts";
import { MAX_NAME_CHARS } from "../names.ts";
import { isNullNode, describeNode } from "../text/yaml.ts";
import type { YamlText } from "../text/yaml.ts";
import type { AttestationRule, BooleanRule, ControlReference, Expression, PolicyDocument } from "./ast.ts";
import type { Diagnostic } from "./diagnostics.ts";
import { createExpressionBudget, parseExpression, createUnlimitedBudget } from "./parser.ts";
import {
  ATTESTATION_TYPES,
  CUSTOM_TYPE_PATTERN,
  MAX_EXCEPTIONS,
  MAX_RULES,
  MAX_TYPE_CHARS,
  SCHEMA_PATTERN,
} from "./schema.ts";

/**
 * The value of a key, aliases resolved; an alias that is left stands for nothing and was reported when the
 * YAML was read. `at` is where to point at: the value, or the key when nothing follows it.
 */
type Value = { node: Node | null; at: number; path: string };

/** The address of a schema: as long as any URL that the API takes. */
const MAX_SCHEMA_CHARACTERS = 2_048;

const SCHEMA = new RegExp(SCHEMA_PATTERN, "u");
const CUSTOM_TYPE = new RegExp(CUSTOM_TYPE_PATTERN, "u");
const TYPE_LIST = `${ATTESTATION_TYPES.map((type) => `'${type}'`).join(", ")} or 'custom:<name>'`;

/**
 * Checks the root node of a policy file and builds its normalised form. Problems go to `report` in any
 * order; the result is only to be used when none was reported.
 * @param stored whether the policy was accepted before and is only loaded: then nothing is too large
 */
export function checkPolicy(
  source: YamlText,
  root: Node,
  stored: boolean,
  report: (diagnostic: Diagnostic) => void,
): PolicyDocument {
  const budget = stored ? createUnlimitedBudget() : createExpressionBudget();
  const controls: ControlReference[] = [];

  function problem(at: number, path: string, text: string): void {
    report({ ...source.positionOf(at), path, problem: text });
  }

  function wrongType(value: Value, expected: string): null {
    if (!isAlias(value.node))
      problem(value.at, value.path, `Input should be a valid ${expected} [input: ${describeNode(value.node)}]`);
    return null;
  }

  /** A missing key may stand after a syntax error, where nobody can see it: then nothing is said. */
  function missing(at: number, path: string): null {
    if (source.brokenAt === null) problem(at, path, "Field required");
    return null;
  }

  function value(node: unknown, at: number, path: string): Value {
    const given = (node ?? null) as Node | null;
    return { node: given && source.resolve(given), at: given?.range?.[0] ?? at, path };
  }

  /** The known keys of a map; reports every other key and every repeated one. Null when it is no map. */
  function fields<K extends string>(of: Value, known: readonly K[]): Partial<Record<K, Value>> | null {
    if (!isMap(of.node)) return wrongType(of, "mapping");
    const found: Partial<Record<K, Value>> = {};
    for (const pair of (of.node as YAMLMap<Node, Node | null>).items) {
      const key = source.resolve(pair.key);
      const at = pair.key?.range?.[0] ?? of.at;
      const name = isScalar(key) && typeof key.value === "string" ? key.value : null;
      const path = join(of.path, describeNode(key));
      const index = name === null ? -1 : (known as readonly string[]).indexOf(name);
      const field = known[index];
      if (field === undefined)
        problem(
          at,
          path,
          `Extra inputs are not permitted [input: ${describeNode(pair.value && source.resolve(pair.value))}]`,
        );
      else if (Object.hasOwn(found, field)) problem(at, path, "the key appears twice in one mapping");
      else found[field] = value(pair.value, at, path);
    }
    return found;
  }

  function list(of: Value, most: number, what: string): Value[] {
    if (!isSeq(of.node)) return wrongType(of, "list") ?? [];
    const items = stored ? of.node.items : of.node.items.slice(0, most);
    if (of.node.items.length > items.length) problem(of.at, of.path, `a policy may have at most ${most} ${what}`);
    return items.map((item, index) =>
      value(item, (item as Node | null)?.range?.[0] ?? of.at, join(of.path, String(index))),
    );
  }

  function text(of: Value, most: number): string | null {
    if (!isScalar(of.node) || typeof of.node.value !== "string") return wrongType(of, "string");
    const { value } = of.node;
    if (value === "") problem(of.at, of.path, "String should have at least 1 character [input: ]");
    else if (value.length <= most || stored) return value;
    else problem(of.at, of.path, `String should have at most ${most} characters [input: ${excerpt(value)}]`);
    return null;
  }

  function bool(of: Value | undefined, byDefault: boolean): boolean {
    if (of === undefined) return byDefault;
    if (isScalar(of.node) && typeof of.node.value === "boolean") return of.node.value;
    wrongType(of, "boolean, true or false");
    return byDefault;
  }

  function expression(of: Value | undefined): Expression | null {
    if (of === undefined || isNullNode(of.node)) return null;
    if (!isScalar(of.node) || typeof of.node.value !== "string") return wrongType(of, "string");
    const parsed = parseExpression(of.node.value, budget);
    if ("expression" in parsed) return parsed.expression;
    for (const { at, problem: text } of parsed.problems) {
      report({ ...source.positionInside(of.node as Scalar, at), path: of.path, problem: text });
    }
    return null;
  }

  function booleanRule(of: Value | undefined): BooleanRule {
    const found = of === undefined ? {} : (fields(of, ["required", "exceptions"]) ?? {});
    const exceptions =
      found.exceptions === undefined ? [] : list(found.exceptions, MAX_EXCEPTIONS, "exceptions in a rule");
    return {
      required: bool(found.required, false),
      exceptions: exceptions.map((item) => ({ condition: expression(fields(item, ["if"])?.if) })),
    };
  }

  function attestationType(of: Value): string | null {
    const type = text(of, MAX_TYPE_CHARS);
    if (type === null || (ATTESTATION_TYPES as readonly string[]).includes(type) || CUSTOM_TYPE.test(type)) return type;
    problem(
      of.at,
      of.path,
      type.startsWith("custom:")
        ? `String should match pattern '${CUSTOM_TYPE_PATTERN}' [input: ${excerpt(type)}]`
        : `Input should be ${TYPE_LIST} [input: ${excerpt(type)}]`,
    );
    return null;
  }

  function attestationRule(of: Value): AttestationRule {
    const found = fields(of, ["if", "name", "type", "must_be_compliant", "for_control"]);
    const given = found ?? {};
    const type =
      given.type === undefined ? found && missing(of.at, join(of.path, "type")) : attestationType(given.type);
    const name = given.name === undefined ? "*" : text(given.name, MAX_NAME_CHARS);
    const control =
      given.for_control === undefined || isNullNode(given.for_control.node)
        ? null
        : text(given.for_control, MAX_NAME_CHARS);
    if (type === "*" && name === "*") {
      problem(of.at, of.path, "a rule with type '*' and name '*' would accept any attestation; give a type or a name");
    }
    if (given.for_control !== undefined && control !== null) {
      const { at, path } = given.for_control;
      if (type !== null && type !== "decision") {
        problem(at, path, `for_control is only allowed with type 'decision' [input: ${excerpt(control)}]`);
      }
      controls.push({ control, ...source.positionOf(at), path });
    }
    return {
      condition: expression(given.if),
      name: name ?? "*",
      type: type ?? "*",
      mustBeCompliant: bool(given.must_be_compliant, true),
      forControl: control,
    };
  }

  function schema(of: Value | undefined, rootAt: number): void {
    if (of === undefined) return void missing(rootAt, "_schema");
    const given = text(of, MAX_SCHEMA_CHARACTERS);
    if (given === null || SCHEMA.test(given)) return;
    problem(of.at, of.path, `the schema is not supported; its path must end in /v1 [input: ${excerpt(given)}]`);
  }

  const rootValue = value(root, root.range?.[0] ?? 0, "");
  const top = fields(rootValue, ["_schema", "artifacts"]);
  if (top !== null) schema(top._schema, rootValue.at);
  const artifacts = top?.artifacts && fields(top.artifacts, ["provenance", "trail-compliance", "attestations"]);
  return {
    provenance: booleanRule(artifacts?.provenance),
    trailCompliance: booleanRule(artifacts?.["trail-compliance"]),
    attestations:
      artifacts?.attestations === undefined
        ? []
        : list(artifacts.attestations, MAX_RULES, "attestation rules").map(attestationRule),
    controls,
  };
}

function join(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}
