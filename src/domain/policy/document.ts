/** Environment policy files: YAML text to a policy document, and back to the forms that answers show. */
import { compareByPosition, readYaml } from "../text/yaml.ts";
import type { YamlLimits, YamlProblem } from "../text/yaml.ts";
import type { AttestationRule, BooleanRule, ControlReference, Expression, PolicyDocument } from "./ast.ts";
import { checkPolicy } from "./check.ts";
import { MAX_DIAGNOSTICS, sortDiagnostics } from "./diagnostics.ts";
import type { Diagnostic } from "./diagnostics.ts";
import { MAX_EXPRESSION_CHARS } from "./parser.ts";

export type { PolicyDocument } from "./ast.ts";

/**
 * A rule takes about 20 tokens, and a policy needs five levels. The longest value that a policy can have is an
 * expression, here with the indentation of its lines.
 */
const LIMITS: YamlLimits = {
  tokens: 100_000,
  nesting: 50,
  problems: MAX_DIAGNOSTICS,
  charsPerToken: 64,
  scalarChars: 2 * MAX_EXPRESSION_CHARS,
  blanks: 200_000,
};

/** What earlier versions of this program read. */
const STORED_LIMITS: YamlLimits = { tokens: 100_000, nesting: 50, problems: MAX_DIAGNOSTICS };

/** What the reader of YAML finds, where policies have words of their own for it. */
const WORDS: Partial<Record<YamlProblem["kind"], string>> = {
  nesting: `the file nests deeper than ${LIMITS.nesting} levels`,
  documents: "the file must hold one YAML document, not several",
};

/**
 * Reads a policy file (semantics 5.1, 5.2). All its problems come back at once, sorted by position, at most
 * 100; where the YAML itself is broken, only what stands before the first break is judged further. Never
 * throws, and takes time linear in the text: up to 20 ms for 8 KB, seconds for megabytes.
 * @param stored whether the text was accepted before and is only loaded: what earlier versions took is never too large
 */
export function parsePolicy(
  text: string,
  stored = false,
): { policy: PolicyDocument; problems: null } | { policy: null; problems: Diagnostic[] } {
  const source = readYaml(text, { limits: stored ? STORED_LIMITS : LIMITS });
  const problems = source.problems.map(
    ({ kind, text: problem, line, column }): Diagnostic => ({
      line,
      column,
      path: "",
      problem: WORDS[kind] ?? problem.charAt(0).toLowerCase() + problem.slice(1),
    }),
  );
  if (source.root === null) {
    if (problems.length === 0) problems.push({ ...source.positionOf(null), path: "", problem: "the file is empty" });
    return { policy: null, problems: sortDiagnostics(problems) };
  }
  const broken = source.brokenAt === null ? null : source.positionOf(source.brokenAt);
  const policy = checkPolicy(source, source.root, stored, (found) => {
    if (broken === null || compareByPosition(found, broken) < 0) problems.push(found);
  });
  return problems.length > 0 ? { policy: null, problems: sortDiagnostics(problems) } : { policy, problems: null };
}

/**
 * Every mention of a control by the policy with its place, in the order of the rules: the caller checks that they
 * exist.
 */
export function controlReferencesOf(policy: PolicyDocument): readonly ControlReference[] {
  return policy.controls;
}

/** An expression in answers: without wrapper, trimmed. */
export type ExpressionText = { text: string };

type DumpedBooleanRule = { required: boolean; exceptions: { if_condition: ExpressionText | null }[] };

/** The `policy_dump` of snapshots. */
export type PolicyDump = {
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

/** The normalised form that snapshots keep of a policy (semantics 5.1). */
export function dumpPolicy(policy: PolicyDocument): PolicyDump {
  const dumped = (rule: BooleanRule): DumpedBooleanRule => ({
    required: rule.required,
    exceptions: rule.exceptions.map(({ condition }) => ({ if_condition: expressionText(condition) })),
  });
  return {
    schema_version: "1",
    artifacts: {
      provenance: dumped(policy.provenance),
      trail_compliance: dumped(policy.trailCompliance),
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

/** A boolean rule as evaluations show it (semantics 5.1, at its end). */
export function booleanDefinitionOf(rule: BooleanRule): BooleanDefinition {
  return {
    required: rule.required,
    exceptions: rule.exceptions.map(({ condition }) => ({ if: expressionText(condition) })),
  };
}

/** An attestation rule as evaluations show it (semantics 5.1, at its end). */
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
