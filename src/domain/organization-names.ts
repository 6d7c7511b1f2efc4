/** What an organization has, for files that name it: a name that nothing there has is probably a mistake. */
import { MAX_DIAGNOSTICS, sortDiagnostics } from "./policy/diagnostics.ts";
import type { Diagnostic } from "./policy/diagnostics.ts";
import { excerpt } from "./text/excerpt.ts";
import { findNearestNames } from "./text/near-names.ts";
import type { SourcePosition } from "./text/source-position.ts";

/** Sets and maps are in the order of the names. Each may be read on first use, which takes time. */
export type OrganizationNames = {
  readonly organization: string;
  /** Active flows. */
  readonly flows: ReadonlySet<string>;
  /** Keys of the tags of these flows. */
  readonly tagKeys: ReadonlySet<string>;
  /** Custom attestation types: whether they take reports. */
  readonly types: ReadonlyMap<string, "active" | "archived">;
  /** Attestations that the template of a flow expects, or that were reported: for suggestions, may be incomplete. */
  readonly attestations: ReadonlySet<string>;
  /** Whether a template expects an attestation of this name and type, or one was reported. @param type `*` for any */
  isExpected(name: string, type: string): boolean;
  /** Whether the time for comparing is over. What was read since then may be incomplete. */
  isOver(): boolean;
};

/** What is missing, and what a person does about it. */
export type MissingName = {
  missing: string;
  remedy: string;
  /** The name, and where the one that was meant may be; null where no name is missing. */
  similar: { name: string; among: "flows" | "tagKeys" | "types" | "attestations" } | null;
};

/** A place in a file that names something of the organization; `path` as in Diagnostic. */
export type NameReference = {
  place: () => SourcePosition;
  path: string;
  /** null if the organization has it. */
  find: () => MissingName | null;
};

/**
 * Compares a file with an organization. Returns at most 100 diagnostics, by position. The last one says where the time
 * was over, if it was: nothing after it was compared.
 */
export function compareNames(references: Iterable<NameReference>, known: OrganizationNames): Diagnostic[] {
  const found: (Omit<Diagnostic, "problem"> & MissingName)[] = [];
  let stop: Diagnostic | null = null;
  for (const { place, path, find } of references) {
    const missing = find();
    if (known.isOver()) {
      stop = { ...place(), path, problem: stopText(known.organization) };
      break;
    }
    if (missing) found.push({ ...place(), path, ...missing });
  }
  const suggest = createSuggestions(known);
  const listed = sortDiagnostics(found).map(({ line, column, path, missing, remedy, similar }): Diagnostic => {
    const near = similar === null ? [] : suggest(similar);
    const advice = near.length > 0 ? `did you mean ${near.join(" or ")}?` : remedy;
    return { line, column, path, problem: `${missing}; ${advice}` };
  });
  return stop === null ? listed : [...listed.slice(0, MAX_DIAGNOSTICS - 1), stop];
}

const stopText = (organization: string): string =>
  `the comparison with organization '${organization}' ended here, because it takes too long; assay policy check and ` +
  "assay template check with --org compare the whole file";

/** The names that are similar to an unknown one; none once the time is over. */
function createSuggestions(known: OrganizationNames) {
  const found = new Map<string, string[]>();
  return ({ name, among }: NonNullable<MissingName["similar"]>): string[] => {
    const key = `${among} ${name}`;
    let near = found.get(key);
    if (near) return near;
    near = known.isOver()
      ? []
      : findNearestNames(
          name,
          [...known[among].keys()].filter((one) => one !== name),
        );
    found.set(key, near);
    return near;
  };
}

const CUSTOM = "custom:";

/** A custom type that takes no reports; null for one that does, and for a built-in type. @param type as in a file */
export function findMissingType(type: string, { organization, types }: OrganizationNames): MissingName | null {
  if (!type.startsWith(CUSTOM)) return null;
  const name = type.slice(CUSTOM.length);
  const state = types.get(name);
  if (state === "active") return null;
  const quoted = `'${excerpt(name)}'`;
  return state === "archived"
    ? {
        missing: `the attestation type ${quoted} of organization '${organization}' is archived and takes no reports`,
        remedy: "upload it again to restore it",
        similar: null,
      }
    : {
        missing: `organization '${organization}' has no attestation type ${quoted}`,
        remedy: "create it, or correct the name",
        similar: { name, among: "types" },
      };
}
