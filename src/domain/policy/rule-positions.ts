/** Where the rules of a policy stand in its text, so that a reason can point at the rule. */
import type { Node } from "yaml";
import type { SourcePosition } from "../text/source-position.ts";
import { readYaml } from "../text/yaml.ts";
import type { YamlText } from "../text/yaml.ts";
import { MAX_DIAGNOSTICS } from "./diagnostics.ts";
import { findEntry, nodesOf, memberOf } from "../text/yaml-nodes.ts";

/** A text that was accepted is within these limits. */
const LIMITS = { tokens: 100_000, nesting: 50, problems: MAX_DIAGNOSTICS };

/**
 * The positions of the rules in the order of evaluation: provenance, trail-compliance, then the attestation rules. null
 * for a rule that the text does not have. A boolean rule stands where its key does, an attestation rule where its item
 * begins. Takes as long as parsing the policy.
 * @param text a valid policy
 */
export function findRulePositions(text: string): (SourcePosition | null)[] {
  const source = readYaml(text, { limits: LIMITS });
  const artifacts = memberOf(source, source.root, "artifacts");
  return [
    positionOfKey(source, artifacts, "provenance"),
    positionOfKey(source, artifacts, "trail-compliance"),
    ...nodesOf(source, artifacts, "attestations").map((item) => source.positionOf(item)),
  ];
}

function positionOfKey(source: YamlText, node: Node | null, name: string): SourcePosition | null {
  const entry = findEntry(source, node, name);
  return entry && source.positionOf(entry.key);
}
