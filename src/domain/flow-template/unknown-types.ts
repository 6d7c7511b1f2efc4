/** The expectations of a valid template that no report of an organization can meet: those of unknown custom types. */
import { isScalar } from "yaml";
import type { Node } from "yaml";
import { compareNames, findMissingType } from "../organization-names.ts";
import type { NameReference, OrganizationNames } from "../organization-names.ts";
import type { Diagnostic } from "../policy/diagnostics.ts";
import { nodesOf, memberOf } from "../text/yaml-nodes.ts";
import { readYaml } from "../text/yaml.ts";
import type { YamlText } from "../text/yaml.ts";
import { MAX_TEMPLATE_ENTRIES, STORED_TEMPLATE_LIMITS } from "./template.ts";

type Search = { readonly source: YamlText; readonly known: OrganizationNames; left: number };

/**
 * Returns at most 100 diagnostics, by position. Takes as long as parsing the text, and then until `known.isOver`.
 * @param text a valid template
 */
export function findUnknownTypes(text: string, known: OrganizationNames): Diagnostic[] {
  const source = readYaml(text, { limits: STORED_TEMPLATE_LIMITS });
  return compareNames(referencesIn({ source, known, left: 2 * MAX_TEMPLATE_ENTRIES }), known);
}

function* referencesIn(search: Search): Generator<NameReference> {
  const { source } = search;
  const trail = memberOf(source, source.root, "trail");
  yield* typesIn(search, trail, "trail");
  for (const [index, artifact] of nodesOf(source, trail, "artifacts").entries())
    yield* typesIn(search, artifact, `trail.artifacts.${index}`);
}

function* typesIn(search: Search, owner: Node | null, path: string): Generator<NameReference> {
  const { source, known } = search;
  for (const [index, item] of nodesOf(source, owner, "attestations").entries()) {
    if (search.left === 0) return;
    search.left -= 1;
    const type = memberOf(source, item, "type");
    if (!isScalar(type) || typeof type.value !== "string") continue;
    const name = type.value;
    yield {
      place: () => source.positionOf(type),
      path: `${path}.attestations.${index}.type`,
      find: () => findMissingType(name, known),
    };
  }
}
