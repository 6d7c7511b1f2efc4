/** The rows of a snapshot that a response shows: all of them, or a page. */
import { presentPagination } from "../http/pagination.ts";
import type { Static } from "typebox";
import type { StoredVerdict } from "../domain/compliance/environment.ts";
import { isListOf, isNumberList, isText, readStoredJson, readStoredJsonOrNull } from "../domain/stored-json.ts";
import type { PaginationValue } from "../http/schema.ts";
import type { EnvironmentRow } from "../store/environments/environments.ts";
import type { SelectedArtifactRow, SnapshotSelection } from "../store/environments/snapshot-pages.ts";
import { isVerdicts } from "../store/environments/snapshots.ts";
import type { EvaluatedArtifactRow, ParsedEvaluation, SnapshotRow } from "../store/environments/snapshots.ts";
import { readInstances } from "./instances.ts";
import type { ShownInstances } from "./instances.ts";
import { rethrowLarge } from "./placeholders.ts";
import type { PresenterContext } from "./presenter-context.ts";
import type { SnapshotArtifact } from "./snapshot-shapes.ts";

type Artifact = Static<typeof SnapshotArtifact>;

/** A snapshot of an environment. */
export type SnapshotPlace = { environment: EnvironmentRow; snapshot: SnapshotRow };

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
export type StoredFacts = { evaluation: ParsedEvaluation; reasons: readonly string[]; instances: ShownInstances };
/** `stored` is null for a row with damaged JSON. */
export type Row = {
  part: Part;
  row: EvaluatedArtifactRow;
  stored: StoredFacts | null;
  /** Shown in pages only. */
  allowed?: { allowed: Exclude<Artifact["allowed"], undefined> };
};

/** Which artifacts of a snapshot are read. */
export type Selection = { show: SnapshotSelection; search: string; page: number; perPage: number; offset: number };

export function listParts({ store }: PresenterContext, environment: EnvironmentRow, snapshot: SnapshotRow): Part[] {
  if (environment.type !== "logical") return [{ environment, snapshot, hasChanges: true, memberName: null }];
  return store.snapshots.listMembers(environment.id, snapshot.idx).map(({ member_id, member_index }) => {
    const member = store.environments.get(member_id);
    const memberSnapshot = store.snapshots.find(member_id, member_index);
    if (!memberSnapshot) throw new Error(`snapshot ${member_index} of environment ${member_id} is gone`);
    const hasChanges = member_id === snapshot.member_id;
    return { environment: member, snapshot: memberSnapshot, hasChanges, memberName: member.name };
  });
}

/** The versions in force; null for a damaged record. */
export const listPolicyVersions = ({ snapshot }: Part): number[] | null =>
  readStoredJsonOrNull(snapshot.policy_versions_json, isNumberList);

/** Artifacts that are read at a time. */
const BATCH_SIZE = 100;

/** All artifacts of a part, by name; those that stopped in it too, if it has changes. */
export function* readBatches(context: PresenterContext, part: Part): Generator<Row[], void, undefined> {
  const { snapshotPages } = context.store;
  const place = { environment: part.environment.id, index: part.snapshot.idx };
  const ids = snapshotPages.listKeys(place, { withExited: part.hasChanges });
  for (let start = 0; start < ids.length; start += BATCH_SIZE)
    yield snapshotPages
      .listByKeys(ids.slice(start, start + BATCH_SIZE))
      .map((row) => ({ part, row, stored: readStoredFacts(context, row) }));
}

/** A page of the artifacts of a snapshot. The members of a logical one follow each other in their order. */
export function selectRows(
  context: PresenterContext,
  parts: readonly Part[],
  { show, search, page, perPage, offset }: Selection,
): { rows: Row[]; pagination: PaginationValue } {
  const { snapshotPages } = context.store;
  const rows: Row[] = [];
  let total = 0;
  for (const part of parts) {
    if (show === "changed" && !part.hasChanges) continue;
    const place = { environment: part.environment.id, index: part.snapshot.idx };
    const selection = { show, search, withExited: part.hasChanges };
    const count = snapshotPages.count(part.snapshot, selection);
    const skipped = Math.max(0, offset - total);
    const limit = perPage - rows.length;
    if (limit > 0 && skipped < count)
      for (const row of snapshotPages.list(place, { ...selection, limit, offset: skipped }))
        rows.push({ part, row, stored: readStoredFacts(context, row), allowed: presentAllowed(row) });
    total += count;
  }
  return { rows, pagination: presentPagination(total, page, perPage) };
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

/** The JSON columns of a row; null when one of them is damaged. @throws LargeAnswerError */
function readStoredFacts(context: PresenterContext, row: EvaluatedArtifactRow): StoredFacts | null {
  try {
    return {
      reasons: readStoredJson(row.reasons_json, isTextList),
      instances: readInstances(context, row),
      evaluation: context.store.snapshots.parseEvaluation(row),
    };
  } catch (error) {
    rethrowLarge(error);
    return null;
  }
}

/** A running artifact that fails a version of a policy. */
export type FailingArtifact = { name: string; fingerprint: string };

/** Those of whole parts, row by row; without those whose verdicts are damaged, which do not say what they fail. */
export function* listFailing(
  { store }: PresenterContext,
  parts: readonly Part[],
  versionId: number,
): Generator<FailingArtifact> {
  for (const { environment, snapshot } of parts)
    if (snapshot.non_compliant_count > 0)
      for (const { name, fingerprint, verdicts_json } of store.snapshotPages.iterateFailing(
        environment.id,
        snapshot.idx,
      ))
        if (fails(readStoredJsonOrNull(verdicts_json, isVerdicts), versionId)) yield { name, fingerprint };
}

/** Those among these rows. */
export const selectFailing = (rows: readonly Row[], versionId: number): FailingArtifact[] =>
  rows.flatMap(({ row: { now, compliant, name, fingerprint }, stored }) =>
    now > 0 && compliant === 0 && fails(stored?.evaluation.verdicts ?? null, versionId) ? { name, fingerprint } : [],
  );

const fails = (verdicts: readonly StoredVerdict[] | null, versionId: number): boolean =>
  verdicts?.some(({ version_id, status }) => version_id === versionId && status === "NON-COMPLIANT") ?? false;
