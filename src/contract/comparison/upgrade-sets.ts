/** Upgrades of a comparison: those that went together, and the commits and builds behind each. */
import type { Static } from "typebox";
import { splitName, versionOf } from "../../domain/snapshot/comparison.ts";
import type { ArtifactChange, Running } from "../../domain/snapshot/comparison.ts";
import type { ComparedBuildRow } from "../../store/flows/built-commits.ts";
import { createCommitBudget, presentCommitsBetween } from "./commits-between.ts";
import type { CommitsBetweenValue } from "./commits-between.ts";
import { memoize } from "../memoize.ts";
import type { PresenterContext } from "../presenter-context.ts";
import type { DiffSet } from "./snapshot-diff-shapes.ts";

/** `owner`: the physical environment in which it runs. */
export type ComparedArtifact = Running & { owner: number };
type Row = ComparedArtifact;
type Change = ArtifactChange<Row>;

/** Fewer upgrades are not put into sets. */
const MIN_IN_SETS = 20;
/** Rows whose provenance is read at a time. */
const BATCH_SIZE = 500;

export type UpgradeSet = { id: string; changes: Change[] };

/** Upgrades between the same versions and the same commits, the largest set first. */
export function groupUpgrades({ store }: PresenterContext, upgrades: readonly Change[]): UpgradeSet[] {
  if (upgrades.length < MIN_IN_SETS) return [];
  const commits = new Map<number, string>();
  const ids = upgrades.flatMap(({ before, after }) => [(before as Row).id, (after as Row).id]);
  for (let start = 0; start < ids.length; start += BATCH_SIZE)
    for (const { id, git_commit } of store.snapshotPages.findProvenance(ids.slice(start, start + BATCH_SIZE)).values())
      commits.set(id, git_commit ?? "");
  const versionIn = (row: Row): string => `${splitName(row.name).version ?? ""} ${commits.get(row.id) ?? ""}`;
  const groups = Map.groupBy(
    upgrades,
    ({ before, after }) => `${versionIn(before as Row)} > ${versionIn(after as Row)}`,
  );
  return [...groups]
    .map(([, changes]) => ({ id: String(changes[0]?.after?.id ?? ""), changes }))
    .sort((a, b) => b.changes.length - a.changes.length);
}

export function presentSet({ id, changes }: UpgradeSet, builds: BuildReader): Static<typeof DiffSet> {
  const first = changes[0] as Change;
  const [before, after] = [first.before as Row, first.after as Row];
  const { commits, build } = builds.between(before, after);
  return {
    id,
    before: versionOf(before),
    after: versionOf(after),
    total: changes.length,
    compliant: changes.filter((change) => change.after?.compliant === true).length,
    non_compliant: changes.filter((change) => change.after?.compliant === false).length,
    example: splitName(after.name).service,
    commits,
    build,
  };
}

/** Builds of artifacts, and the commits between two of them; for one answer. */
export type BuildReader = {
  between(before: Row, after: Row): { commits: CommitsBetweenValue | null; build: Static<typeof DiffSet>["build"] };
};

export function createBuildReader({ store }: PresenterContext): BuildReader {
  const budget = createCommitBudget();
  const buildOf = memoize((rowId: number): ComparedBuildRow | null => {
    const artifact = store.snapshotPages.findProvenance([rowId]).get(rowId)?.artifact_id ?? null;
    return artifact === null ? null : store.builtCommits.findBuild(artifact);
  });
  const commitsBetween = new Map<string, CommitsBetweenValue | null>();
  return {
    between({ id: oldId }, { id: youngId }) {
      const [before, after] = [buildOf(oldId), buildOf(youngId)];
      if (!before || !after) return { commits: null, build: after && presentBuild(after) };
      const key = `${before.id} ${after.id}`;
      let commits = commitsBetween.get(key);
      if (commits === undefined)
        commitsBetween.set(key, (commits = presentCommitsBetween(store, { before, after }, budget)));
      return { commits, build: presentBuild(after) };
    },
  };
}

const presentBuild = ({ build_url, created_by }: ComparedBuildRow) => ({ url: build_url, reported_by: created_by });
