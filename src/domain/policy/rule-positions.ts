/** Where the rules of a policy stand in its text, so that a reason can point at the rule. */
import { isMap, isScalar, isSeq } from "yaml";
import type { Node } from "yaml";
import type { SourcePosition } from "../text/source-position.ts";
import { readYaml } from "../text/yaml.ts";
import type { YamlText } from "../text/yaml.ts";
import { MAX_DIAGNOSTICS } from "./diagnostics.ts";

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
  const artifacts = findValue(source, source.root, "artifacts");
  const attestations = source.resolve(findValue(source, artifacts, "attestations"));
  const items = isSeq(attestations) ? attestations.items : [];
  return [
    positionOfKey(source, artifacts, "provenance"),
    positionOfKey(source, artifacts, "trail-compliance"),
    ...items.map((item) => source.positionOf(item)),
  ];
}

function findPair({ resolve }: YamlText, node: unknown, name: string) {
  const map = resolve(node);
  if (!isMap(map)) return null;
  return (
    map.items.find((pair) => {
      const key = resolve(pair.key);
      return isScalar(key) && key.value === name;
    }) ?? null
  );
}

const findValue = (source: YamlText, node: unknown, name: string): Node | null =>
  (findPair(source, node, name)?.value ?? null) as Node | null;

function positionOfKey(source: YamlText, node: unknown, name: string): SourcePosition | null {
  const pair = findPair(source, node, name);
  return pair && source.positionOf(pair.key);
}
