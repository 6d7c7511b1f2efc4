/**
 * Releases of a binder: starts of artifacts, and what the policies in force required of them at that moment. Everything
 * follows from the evaluations stored with the starts. What cannot be read counts as not satisfied.
 */
import { ruleDefinitionsOf } from "../../domain/policy/evaluate.ts";
import { shareOf } from "../../domain/percent.ts";
import { isNumberList, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import type { StartRow } from "../../store/environments/history/binders.ts";
import { isVerdicts } from "../../store/environments/snapshots.ts";
import { memoize } from "../memoize.ts";
import type { Binder, BinderContext } from "./scope.ts";
import type { RequirementValue } from "./shapes.ts";

/** What policies required of a start for one control: satisfied by all rules that applied, or not. */
type Demand = { control: string; isSatisfied: boolean; versions: readonly number[] };

type Tally = {
  environmentId: number;
  control: string;
  versions: Set<number>;
  releases: number;
  satisfied: number;
  allowed: number;
};

export type Releases = {
  starts: { total: number; compliant: number; allowed: number };
  /** Of the control of the binder. */
  releases: { total: number; satisfied: number; allowed: number };
  /** Ids of the rows of releases without a decision that satisfied the rules; oldest first in each environment. */
  gaps: number[];
  tallies: Tally[];
  /** Ids of the environments in which something started. */
  startedIn: Set<number>;
};

/** Reads every start in the scope once. */
export function gatherReleases(binder: Binder): Releases {
  const { context, scope, places } = binder;
  const { subject } = scope;
  const demandsOf = demandReader(context, subject.kind === "control" ? subject.identifier : null);
  const found: Releases = {
    starts: { total: 0, compliant: 0, allowed: 0 },
    releases: { total: 0, satisfied: 0, allowed: 0 },
    gaps: [],
    tallies: [],
    startedIn: new Set(),
  };
  const byKey = new Map<string, Tally>();
  for (const { id } of places)
    for (const row of context.store.binders.listStarts(id, subject.kind === "flow" ? subject.id : null, scope)) {
      const isAllowed = row.allowlist_id !== null;
      found.starts.total += 1;
      found.startedIn.add(id);
      if (isAllowed) found.starts.allowed += 1;
      else if (row.compliant === 1) found.starts.compliant += 1;
      for (const demand of demandsOf(row)) {
        count(byKey, row, demand);
        if (subject.kind !== "control") continue;
        found.releases.total += 1;
        if (demand.isSatisfied) found.releases.satisfied += 1;
        else found.gaps.push(row.id);
        if (!demand.isSatisfied && isAllowed) found.releases.allowed += 1;
      }
    }
  found.tallies = [...byKey.values()];
  return found;
}

function count(byKey: Map<string, Tally>, row: StartRow, { control, isSatisfied, versions }: Demand): void {
  const key = `${row.environment_id} ${control}`;
  const known = byKey.get(key);
  const tally = known ?? {
    environmentId: row.environment_id,
    control,
    versions: new Set(),
    releases: 0,
    satisfied: 0,
    allowed: 0,
  };
  if (!known) byKey.set(key, tally);
  for (const version of versions) tally.versions.add(version);
  tally.releases += 1;
  if (isSatisfied) tally.satisfied += 1;
  else if (row.allowlist_id !== null) tally.allowed += 1;
}

/** @param only the control that is looked at; null for all */
function demandReader({ store }: BinderContext, only: string | null): (row: StartRow) => Demand[] {
  const controlsOf = memoize((versionId: number): ReadonlySet<string> | null => controlsOfVersion(store, versionId));
  /** The versions of a list that have a rule for a control. */
  const relevantOf = memoize((versionsJson: string): readonly number[] =>
    (readStoredJsonOrNull(versionsJson, isNumberList) ?? []).filter((id) => {
      const controls = controlsOf(id);
      return controls === null || (only === null ? controls.size > 0 : controls.has(only));
    }),
  );
  return (row) => {
    const relevant = relevantOf(row.versions_json);
    if (relevant.length === 0) return [];
    const verdicts = readStoredJsonOrNull(row.verdicts_json, isVerdicts);
    const demands = new Map<string, { isSatisfied: boolean; versions: number[] }>();
    const note = (control: string, version: number, { isSatisfied }: Pick<Demand, "isSatisfied">): void => {
      const known = demands.get(control) ?? { isSatisfied: true, versions: [] };
      demands.set(control, known);
      known.isSatisfied &&= isSatisfied;
      known.versions.push(version);
    };
    for (const id of relevant) {
      const rules = verdicts?.find(({ version_id }) => version_id === id)?.rules ?? null;
      const definitions = definitionsOfVersion(store, id);
      // Of a damaged record nothing is known: it must not look as if nothing had been required.
      if (rules === null || definitions === null)
        for (const control of controlsOf(id) ?? (only === null ? [] : [only]))
          note(control, id, { isSatisfied: false });
      else
        for (const [index, definition] of definitions.entries()) {
          const control = definition.type === "attestation" ? definition.definition.for_control : null;
          const satisfied = rules[index]?.satisfied ?? null;
          if (control !== null && (only === null || control === only) && satisfied !== null)
            note(control, id, { isSatisfied: satisfied });
        }
    }
    return [...demands].map(([control, demand]) => ({ control, ...demand }));
  };
}

/** The rules of a version; null where its text cannot be read. */
function definitionsOfVersion(store: BinderContext["store"], versionId: number) {
  try {
    return ruleDefinitionsOf(store.policies.getDocument(versionId));
  } catch {
    return null;
  }
}

/** The controls that a version has rules for; null where its text cannot be read. */
function controlsOfVersion(store: BinderContext["store"], versionId: number): ReadonlySet<string> | null {
  const definitions = definitionsOfVersion(store, versionId);
  return (
    definitions &&
    new Set(
      definitions.flatMap(({ type, definition }) =>
        type === "attestation" && definition.for_control !== null ? [definition.for_control] : [],
      ),
    )
  );
}

/** Where decisions were required, those with the lowest coverage first. */
export function presentRequirements({ context, places }: Binder, { tallies }: Releases): RequirementValue[] {
  const { store, urls, organization } = context;
  const byId = new Map(places.map((place) => [place.id, place]));
  const names = store.snapshots.findPolicyVersions(new Set(tallies.flatMap(({ versions }) => [...versions])));
  return tallies
    .flatMap(({ environmentId, control, versions, releases, satisfied, allowed }): RequirementValue[] => {
      const place = byId.get(environmentId);
      if (!place) return [];
      return [
        {
          environment_name: place.name,
          environment_type: place.type,
          control,
          policies: [...versions].flatMap((id) => {
            const version = names.get(id);
            return version ? [{ name: version.name, version: version.version }] : [];
          }),
          releases,
          with_decision: satisfied,
          allowed,
          coverage_percent: shareOf(satisfied, releases),
          html_url: urls.environmentPage(organization.name, place.name),
        },
      ];
    })
    .sort(
      (one, other) =>
        one.coverage_percent - other.coverage_percent ||
        (one.environment_name < other.environment_name ? -1 : one.environment_name > other.environment_name ? 1 : 0) ||
        (one.control < other.control ? -1 : 1),
    );
}
