/** Environment policy files: parses YAML text into a policy document, and presents documents in the API's forms. */
import { compareByPosition } from "../text/source-position.ts";
import { readYaml } from "../text/yaml.ts";
import type { YamlLimits, YamlProblem } from "../text/yaml.ts";
import type { AttestationRule, BooleanRule, ControlReference, Expression, PolicyDocument } from "./ast.ts";
import { checkPolicy } from "./check.ts";
import { MAX_DIAGNOSTICS, sortDiagnostics } from "./diagnostics.ts";
import type { Diagnostic } from "./diagnostics.ts";
import { MAX_EXPRESSION_CHARS } from "./parser.ts";

export type { PolicyDocument } from "./ast.ts";

/**
 * A rule takes about 20 tokens, and a policy nests five levels deep. The longest value of a policy is an expression,
 * here with the indentation of its lines.
 */
const LIMITS: YamlLimits = {
  tokens: 100_000,
  nesting: 50,
  problems: MAX_DIAGNOSTICS,
  charsPerToken: 64,
  scalarChars: 2 * MAX_EXPRESSION_CHARS,
  blanks: 200_000,
};

/** The limits of earlier versions. */
export const STORED_POLICY_LIMITS: YamlLimits = { tokens: 100_000, nesting: 50, problems: MAX_DIAGNOSTICS };

/** Texts of policies for problems that the YAML reader reports. */
const YAML_PROBLEM_TEXTS: Partial<Record<YamlProblem["kind"], string>> = {
  nesting: `the file nests deeper than ${LIMITS.nesting} levels`,
  documents: "the file must hold one YAML document, not several",
};

/**
 * Parses a policy file (semantics 5.1, 5.2). Returns all its problems at once, sorted by position, at most 100; after a
 * YAML syntax error, only the text before it is checked further. Never throws. Takes time linear in the text: up to 20
 * ms for 8 KB, seconds for megabytes.
 * @param options.isStored the text was accepted before and is only loaded, so the limits of earlier versions apply
 */
export function parsePolicy(
  text: string,
  { isStored = false }: { isStored?: boolean } = {},
): { policy: PolicyDocument; problems: null } | { policy: null; problems: Diagnostic[] } {
  const source = readYaml(text, { limits: isStored ? STORED_POLICY_LIMITS : LIMITS });
  const problems = source.problems.map(
    ({ kind, text: problem, line, column }): Diagnostic => ({
      line,
      column,
      path: "",
      problem: YAML_PROBLEM_TEXTS[kind] ?? problem.charAt(0).toLowerCase() + problem.slice(1),
    }),
  );
  if (source.root === null) {
    if (problems.length === 0) problems.push({ ...source.positionOf(null), path: "", problem: "the file is empty" });
    return { policy: null, problems: sortDiagnostics(problems) };
  }
  const broken = source.brokenAt === null ? null : source.positionOf(source.brokenAt);
  const report = (problem: Diagnostic): void => {
    if (broken === null || compareByPosition(problem, broken) < 0) problems.push(problem);
  };
  const policy = checkPolicy(source, source.root, { isStored, report });
  return problems.length > 0 ? { policy: null, problems: sortDiagnostics(problems) } : { policy, problems: null };
}

/** The policy's references to controls, in the order of its rules; the caller checks that the controls exist. */
export function controlReferencesOf(policy: PolicyDocument): readonly ControlReference[] {
  return policy.controls;
}

/** An expression in responses: trimmed and without its wrapper. */
type ExpressionText = { text: string };

type DumpedBooleanRule = { required: boolean; exceptions: { if_condition: ExpressionText | null }[] };

/** The `policy_dump` of snapshots. */
type PolicyDump = {
  schema_version: "1";
  artifacts: {
    provenance: DumpedBooleanRule;
    trail_compliance: DumpedBooleanRule;
    attestations: {
      if_condition: ExpressionText | null;
      name: string;
      type: string;
      must_be_compliant: boolean;
      for_control: string | null;
    }[];
  };
};

/** The normalized form of a policy in snapshots (semantics 5.1). */
export function dumpPolicy(policy: PolicyDocument): PolicyDump {
  const dumpRule = (rule: BooleanRule): DumpedBooleanRule => ({
    required: rule.required,
    exceptions: rule.exceptions.map(({ condition }) => ({ if_condition: expressionText(condition) })),
  });
  return {
    schema_version: "1",
    artifacts: {
      provenance: dumpRule(policy.provenance),
      trail_compliance: dumpRule(policy.trailCompliance),
      attestations: policy.attestations.map((rule) => ({
        if_condition: expressionText(rule.condition),
        name: rule.name,
        type: rule.type,
        must_be_compliant: rule.mustBeCompliant,
        for_control: rule.forControl,
      })),
    },
  };
}

/** `rule.definition` of a provenance or trail-compliance rule. */
export type BooleanDefinition = { required: boolean; exceptions: { if: ExpressionText | null }[] };

/** `rule.definition` of an attestation rule. */
export type AttestationDefinition = {
  if: ExpressionText | null;
  name: string;
  type: string;
  must_be_compliant: boolean;
  for_control: string | null;
};

/** A boolean rule in evaluations (end of semantics 5.1). */
export function booleanDefinitionOf(rule: BooleanRule): BooleanDefinition {
  return {
    required: rule.required,
    exceptions: rule.exceptions.map(({ condition }) => ({ if: expressionText(condition) })),
  };
}

/** An attestation rule in evaluations (end of semantics 5.1). */
export function attestationDefinitionOf(rule: AttestationRule): AttestationDefinition {
  return {
    if: expressionText(rule.condition),
    name: rule.name,
    type: rule.type,
    must_be_compliant: rule.mustBeCompliant,
    for_control: rule.forControl,
  };
}

function expressionText(expression: Expression | null): ExpressionText | null {
  return expression === null ? null : { text: expression.text };
}
