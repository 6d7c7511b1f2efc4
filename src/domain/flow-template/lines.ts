/** Finds the expectations of a template in its text, for people who read what is missing. */
import { isScalar } from "yaml";
import type { Node } from "yaml";
import type { LineRange } from "../text/source-position.ts";
import { nodesOf, memberOf } from "../text/yaml-nodes.ts";
import { readYaml } from "../text/yaml.ts";
import type { YamlText } from "../text/yaml.ts";
import { STORED_TEMPLATE_LIMITS } from "./template.ts";

/** Lines by the name of the expected attestation. */
type AttestationLines = ReadonlyMap<string, LineRange>;

/** Where the expectations of a template stand, by name. */
export type TemplateLines = {
  attestations: AttestationLines;
  artifacts: ReadonlyMap<string, { lines: LineRange; attestations: AttestationLines }>;
};

/** More items than a stored template may have: aliases multiply items, and the walk over them has to end. */
const MAX_ITEMS = 50_000;

/**
 * Locates the expectations of an accepted template. One that stands at an alias has the line of the alias. Never
 * throws: of any other text it finds what it can. Takes as long as parsing the text, see parseTemplate.
 */
export function locateExpectations(text: string): TemplateLines {
  const source = readYaml(text, { limits: STORED_TEMPLATE_LIMITS });
  const walk = { source, left: MAX_ITEMS };
  const trail = memberOf(source, source.root, "trail");
  return {
    attestations: new Map(locateList(walk, trail, "attestations").map(({ name, lines }) => [name, lines])),
    artifacts: new Map(
      locateList(walk, trail, "artifacts").map(({ name, lines, node }) => [
        name,
        {
          lines,
          attestations: new Map(locateList(walk, node, "attestations").map((item) => [item.name, item.lines])),
        },
      ]),
    ),
  };
}

type Walk = { readonly source: YamlText; left: number };

/** The items of a list that have a name, each with its lines. */
function locateList(walk: Walk, owner: Node | null, key: string): { name: string; lines: LineRange; node: Node }[] {
  const { source } = walk;
  return nodesOf(source, owner, key).flatMap((node) => {
    if (walk.left === 0) return [];
    walk.left -= 1;
    const name = memberOf(source, node, "name");
    return isScalar(name) && typeof name.value === "string"
      ? [{ name: name.value, lines: source.linesOf(node), node }]
      : [];
  });
}
