/** The rows of a snapshot that a response shows: all of them, or a page. */
import type { Static } from "typebox";
import { hasMembers, isListOf, isText, readStoredJson } from "../domain/stored-json.ts";
import type { PaginationValue } from "../http/schema.ts";
import type { Instances } from "../domain/snapshot/normalize.ts";
import type { EnvironmentRow } from "../store/environments/environments.ts";
import type { SelectedArtifactRow, SnapshotSelection } from "../store/environments/snapshot-pages.ts";
import type { EvaluatedArtifactRow, ParsedEvaluation, SnapshotRow } from "../store/environments/snapshots.ts";
import type { PresenterContext } from "./presenter-context.ts";
import type { SnapshotArtifact } from "./snapshot-shapes.ts";

type Artifact = Static<typeof SnapshotArtifact>;

/**
 * A physical environment at one of its snapshots: the only part of a physical snapshot, one of several of a logical.
 */
export type Part = {
  environment: EnvironmentRow;
  snapshot: SnapshotRow;
  /**
   * Whether the snapshot shows the changes of this part. Of a logical snapshot's members, only the one that caused it
   * does; the artifacts of the others are unchanged.
   */
  hasChanges: boolean;
  /** Sent with the artifacts of logical environments only. */
  memberName: string | null;
};

/** The JSON columns of a row. */
export type StoredFacts = { evaluation: ParsedEvaluation; reasons: readonly string[]; instances: Instances };
/** `stored` is null for a row with damaged JSON. */
export type Row = {
  part: Part;
  row: EvaluatedArtifactRow;
  stored: StoredFacts | null;
  /** Shown in pages only. */
  allowed?: { allowed: Exclude<Artifact["allowed"], undefined> };
};

/** Which artifacts of a snapshot are read. */
export type Selection = { show: SnapshotSelection; page: number; perPage: number; offset: number };

export function listParts({ store }: PresenterContext, environment: EnvironmentRow, snapshot: SnapshotRow): Part[] {
  if (environment.type !== "logical") return [{ environment, snapshot, hasChanges: true, memberName: null }];
  return store.snapshots.listMembers(environment.id, snapshot.idx).map(({ member_id, member_index }) => {
    const member = store.environments.get(member_id);
    const own = store.snapshots.find(member_id, member_index);
    if (!own) throw new Error(`snapshot ${member_index} of environment ${member_id} is gone`);
    const hasChanges = member_id === snapshot.member_id;
    return { environment: member, snapshot: own, hasChanges, memberName: member.name };
  });
}

/** All artifacts of a part. */
export function listRows(context: PresenterContext, part: Part): Row[] {
  const rows = context.store.snapshots.listEvaluated(part.environment.id, part.snapshot.idx);
  return (part.hasChanges ? rows : rows.filter(({ now }) => now > 0)).map((row) => ({
    part,
    row,
    stored: readStoredFacts(context, row),
  }));
}

/** The ids of all artifacts of a part, in the order of `listRows`. */
export const listKeys = ({ store }: PresenterContext, { environment, snapshot, hasChanges }: Part): number[] =>
  store.snapshotPages.listKeys({ environment: environment.id, index: snapshot.idx }, { withExited: hasChanges });

/** Artifacts of a part by id, in the order of the ids. */
export const readRows = (context: PresenterContext, part: Part, ids: readonly number[]): Row[] =>
  context.store.snapshotPages.listByKeys(ids).map((row) => ({ part, row, stored: readStoredFacts(context, row) }));

/** A page of the artifacts of a snapshot. The members of a logical one follow each other in their order. */
export function selectRows(
  context: PresenterContext,
  parts: readonly Part[],
  { show, page, perPage, offset }: Selection,
): { rows: Row[]; pagination: PaginationValue } {
  const { snapshotPages } = context.store;
  const rows: Row[] = [];
  let total = 0;
  for (const part of parts) {
    if (show === "changed" && !part.hasChanges) continue;
    const place = { environment: part.environment.id, index: part.snapshot.idx };
    const selection = { show, withExited: part.hasChanges };
    const count = snapshotPages.count(place, selection);
    const skipped = Math.max(0, offset - total);
    const limit = perPage - rows.length;
    if (limit > 0 && skipped < count)
      for (const row of snapshotPages.list(place, { ...selection, limit, offset: skipped }))
        rows.push({ part, row, stored: readStoredFacts(context, row), allowed: presentAllowed(row) });
    total += count;
  }
  return { rows, pagination: { total, page, per_page: perPage, page_count: Math.ceil(total / perPage) } };
}

const presentAllowed = (row: SelectedArtifactRow): NonNullable<Row["allowed"]> =>
  row.allowed_by === null
    ? { allowed: null }
    : {
        allowed: {
          user_name: row.allowed_by,
          description: row.allowed_because ?? "",
          timestamp: row.allowed_at ?? 0,
          expires_at: row.allowed_until,
        },
      };

const isTextList = isListOf(isText);
const hasStarts = hasMembers<Instances>("created");
const isInstances = (value: unknown): value is Instances => hasStarts(value) && Array.isArray(value.created);

/** The JSON columns of a row; null when one of them is damaged. */
function readStoredFacts({ store }: PresenterContext, row: EvaluatedArtifactRow): StoredFacts | null {
  try {
    return {
      reasons: readStoredJson(row.reasons_json, isTextList),
      instances: readStoredJson(row.instances_json, isInstances),
      evaluation: store.snapshots.parseEvaluation(row),
    };
  } catch {
    return null;
  }
}

/** A running artifact that fails a version of a policy. */
export type FailingArtifact = { versionId: number; name: string; fingerprint: string };

export const listFailing = (rows: readonly Row[]): FailingArtifact[] =>
  rows.flatMap(({ row: { now, compliant, name, fingerprint }, stored }) =>
    now === 0 || compliant !== 0 || !stored
      ? []
      : stored.evaluation.verdicts.flatMap(({ version_id: versionId, status }) =>
          status === "NON-COMPLIANT" ? { versionId, name, fingerprint } : [],
        ),
  );
