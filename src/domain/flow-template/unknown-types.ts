/** The expectations of a valid template that no report of an organization can meet: those of unknown custom types. */
import { isScalar } from "yaml";
import type { Node } from "yaml";
import { findTypeProblem } from "../organization-names.ts";
import type { OrganizationNames } from "../organization-names.ts";
import { sortDiagnostics } from "../policy/diagnostics.ts";
import type { Diagnostic } from "../policy/diagnostics.ts";
import { nodesOf, memberOf } from "../text/yaml-nodes.ts";
import { readYaml } from "../text/yaml.ts";
import type { YamlText } from "../text/yaml.ts";
import { MAX_TEMPLATE_ENTRIES, STORED_TEMPLATE_LIMITS } from "./template.ts";

const CUSTOM = "custom:";

type Search = {
  readonly source: YamlText;
  readonly known: OrganizationNames;
  readonly found: Diagnostic[];
  left: number;
};

/** Returns at most 100 diagnostics, by position. @param text a valid template */
export function findUnknownTypes(text: string, known: OrganizationNames): Diagnostic[] {
  const source = readYaml(text, { limits: STORED_TEMPLATE_LIMITS });
  const search: Search = { source, known, found: [], left: 2 * MAX_TEMPLATE_ENTRIES };
  const trail = memberOf(source, source.root, "trail");
  checkAttestations(search, trail, "trail");
  for (const [index, artifact] of nodesOf(source, trail, "artifacts").entries())
    checkAttestations(search, artifact, `trail.artifacts.${index}`);
  return sortDiagnostics(search.found);
}

function checkAttestations(search: Search, owner: Node | null, path: string): void {
  const { source, known, found } = search;
  for (const [index, item] of nodesOf(source, owner, "attestations").entries()) {
    if (search.left === 0) return;
    search.left -= 1;
    const type = memberOf(source, item, "type");
    if (!isScalar(type) || typeof type.value !== "string" || !type.value.startsWith(CUSTOM)) continue;
    const problem = findTypeProblem(type.value.slice(CUSTOM.length), known);
    if (problem !== null)
      found.push({ ...source.positionOf(type), path: `${path}.attestations.${index}.type`, problem });
  }
}
