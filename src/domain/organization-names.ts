/** What an organization has, for files that name it: a name that nothing there has is probably a mistake. */
import { excerpt } from "./text/excerpt.ts";
import { findNearestNames } from "./text/near-names.ts";

export type OrganizationNames = {
  organization: string;
  /** Active flows. */
  flows: readonly string[];
  /** Keys of the tags of these flows. */
  tagKeys: readonly string[];
  /** Custom attestation types: whether they take reports. */
  types: ReadonlyMap<string, "active" | "archived">;
  /** Attestations that the template of a flow expects, or that were reported. */
  attestations: readonly string[];
  /** Whether a template expects an attestation of this name and type, or one was reported. @param type `*` for any */
  isExpected(name: string, type: string): boolean;
};

/** The problem of a name that nothing has: what is missing, and similar names. */
export const describeUnknown = (missing: string, name: string, known: readonly string[]): string => {
  const near = findNearestNames(
    name,
    known.filter((one) => one !== name),
  );
  return near.length > 0 ? `${missing}; did you mean ${near.join(" or ")}?` : missing;
};

/** The problem of a custom type of an organization, null for one that takes reports. @param name without `custom:` */
export function findTypeProblem(name: string, { organization, types }: OrganizationNames): string | null {
  const state = types.get(name);
  if (state === "active") return null;
  const shown = `'${excerpt(name)}'`;
  if (state === "archived")
    return `the attestation type ${shown} of organization '${organization}' is archived and takes no reports`;
  return describeUnknown(`organization '${organization}' has no attestation type ${shown}`, name, [...types.keys()]);
}
