/**
 * Finds the rules of a policy in its text, for people who read why a rule failed. The positions follow from the text
 * alone, so they need no stored form, and versions of any age have them. Like the check of a policy (check.ts), it
 * descends only where the schema does, so aliases cannot multiply or loop.
 */
import type { Node } from "yaml";
import type { LineRange } from "../text/source-position.ts";
import { readYaml } from "../text/yaml.ts";
import { findEntry, nodesOf, memberOf } from "../text/yaml-nodes.ts";
import type { YamlEntry } from "../text/yaml-nodes.ts";
import type { YamlText } from "../text/yaml.ts";
import { STORED_POLICY_LIMITS } from "./document.ts";

/**
 * Where a rule stands; null when the text does not have it, as for a boolean rule that is left out. `conditions` are
 * the lines of its exceptions, or of its `if`, in the order of the text; empty without any.
 */
export type RuleLines = { rule: LineRange | null; conditions: readonly LineRange[] };

/** The rules of a policy in evaluation order: provenance, trail-compliance, the attestation rules. */
export type PolicyLines = readonly RuleLines[];

/**
 * Locates the rules of an accepted policy. A rule that stands at an alias has the line of the alias, and its parts have
 * the lines of the anchor. Never throws: of any other text it finds what it can. Takes as long as parsing the
 * text: up to 20 ms for 8 KB, seconds for megabytes.
 */
export function locateRules(text: string): PolicyLines {
  const source = readYaml(text, { limits: STORED_POLICY_LIMITS });
  const artifacts = memberOf(source, source.root, "artifacts");
  return [
    locateBooleanRule(source, findEntry(source, artifacts, "provenance")),
    locateBooleanRule(source, findEntry(source, artifacts, "trail-compliance")),
    ...nodesOf(source, artifacts, "attestations").map((item) => locateAttestationRule(source, item)),
  ];
}

const linesOfPair = (source: YamlText, pair: YamlEntry): LineRange => source.linesOf(pair.key, pair.value);

function locateBooleanRule(source: YamlText, pair: YamlEntry | null): RuleLines {
  if (!pair) return { rule: null, conditions: [] };
  return {
    rule: linesOfPair(source, pair),
    conditions: nodesOf(source, pair.value, "exceptions").map((item) => source.linesOf(item)),
  };
}

function locateAttestationRule(source: YamlText, item: Node): RuleLines {
  const condition = findEntry(source, item, "if");
  return { rule: source.linesOf(item), conditions: condition ? [linesOfPair(source, condition)] : [] };
}
