/** Changes of artifacts are gathered as keys; the rows of those that are shown are read here. */
import { isFailingRow, keyOfRow } from "../../domain/snapshot/period-changes.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { ArtifactChanges, GatherContext, GatheredChange, FoundChange } from "./scope.ts";

/** How many changes this is. */
export const sizeOfChange = (change: FoundChange): number =>
  change.of === "artifacts" ? change.changes.rows.length : 1;

export const sizeOfChanges = (changes: readonly FoundChange[]): number =>
  changes.reduce((total, change) => total + sizeOfChange(change), 0);

/** A part of the changes, in their order: those of artifacts one by one. */
export function readChanges(
  context: GatherContext,
  changes: readonly FoundChange[],
  { offset, limit }: { offset: number; limit: number },
): GatheredChange[] {
  const shown: FoundChange[] = [];
  let start = 0;
  for (const change of changes) {
    if (start >= offset + limit) break;
    const [from, to] = [Math.max(0, offset - start), offset + limit - start];
    start += sizeOfChange(change);
    if (start <= offset) continue;
    shown.push(change.of === "artifacts" ? withRows(change, change.changes.rows.slice(from, to)) : change);
  }
  return readEach(context, shown);
}

/** Of the snapshot that turned an environment non-compliant: the first changes of artifacts that fail. */
export function readFailing(
  context: GatherContext,
  changes: readonly FoundChange[],
  { environmentId, index, limit }: { environmentId: number; index: number; limit: number },
): GatheredChange[] {
  const failing = changes.flatMap((change): ArtifactChanges | [] => {
    if (change.of !== "artifacts" || change.kind === "upgraded") return [];
    const { changes: own } = change;
    if (own.environmentId !== environmentId || own.index !== index) return [];
    return withRows(change, own.rows.filter(isFailingRow));
  });
  return readChanges(context, failing, { offset: 0, limit });
}

export const withRows = (change: ArtifactChanges, rows: readonly number[]): ArtifactChanges => ({
  ...change,
  changes: { ...change.changes, rows },
});

function readEach({ store }: GatherContext, changes: readonly FoundChange[]): GatheredChange[] {
  const keys = changes.flatMap((change) => (change.of === "artifacts" ? change.changes.rows.map(keyOfRow) : []));
  const rows = keys.length === 0 ? new Map<number, never>() : store.periodChanges.findChanged(keys);
  return changes.flatMap((change): GatheredChange | GatheredChange[] => {
    if (change.of !== "artifacts") return change;
    const { key, kind, at, environment, by, changes: own } = change;
    const { environmentId, index, replaced: replacements } = own;
    return own.rows.flatMap((marked): GatheredChange | [] => {
      const row = rows.get(keyOfRow(marked));
      if (!row) return [];
      const { before, compliant, ...event } = row;
      const replaced = replacements.get(row.id) ?? null;
      const after = fromSqlBoolean(compliant);
      return {
        of: "snapshot",
        key: `${key}/${row.id}`,
        kind,
        at,
        environment,
        by,
        change: {
          environmentId,
          index,
          at,
          kind: own.kind,
          before: replaced ? replaced.compliant : fromSqlBoolean(before),
          after,
          event: { ...event, compliant: after },
          replaced,
        },
      };
    });
  });
}
