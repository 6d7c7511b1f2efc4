/** The checklist of a trail as responses show it: a page of it, with the figures of all of it. */
import type { Static } from "typebox";
import {
  countStates,
  countingId,
  createReportedTypes,
  findReasons,
  isAbout,
  listChecks,
  selectChecks,
} from "../domain/compliance/checklist.ts";
import type { ListedCheck, CheckFilter } from "../domain/compliance/checklist.ts";
import { presentPagination } from "../http/pagination.ts";
import type { SummarizedTrailRow } from "../store/flows/trails.ts";
import { presentTrailFacts } from "./present-trail.ts";
import type { PresenterContext } from "./presenter-context.ts";
import { MAX_REASONS } from "./trail-shapes.ts";
import type { TrailChecklist } from "./trail-shapes.ts";

type ChecklistValue = Static<typeof TrailChecklist>;
type CheckValue = ChecklistValue["data"][number];

/**
 * `artifactId`: only the checks of this artifact and of the trail. `page` null: the one with the check of `opened`, or
 * the first.
 */
type ShownChecks = CheckFilter & {
  artifactId: string | null;
  order: "failing_first" | "template" | null;
  opened: string | null;
  page: number | null;
  perPage: number;
};

/** @throws StoredJsonError for a damaged record */
export function presentChecklist(
  context: PresenterContext,
  row: SummarizedTrailRow,
  { artifactId, order, opened, page: asked, perPage, ...filter }: ShownChecks,
): ChecklistValue {
  const { trails, artifacts } = context.store;
  const status =
    artifactId === null
      ? trails.getCompliance(row.id)
      : trails.getComplianceOf(row.id, artifacts.findNamesInTrail(row.id, artifactId));
  const checks = listChecks(status, artifactId);
  const isLong = checks.length > perPage;
  const orderHere = artifactId === null ? (order ?? (isLong ? "failing_first" : "template")) : "artifact_first";
  const { selected, states } = selectChecks(checks, filter, orderHere);
  const at = opened === null ? -1 : selected.findIndex(({ entry }) => isAbout(entry, opened));
  const page = asked ?? (at === -1 ? 1 : Math.floor(at / perPage) + 1);
  const reasons = findReasons(status, checks);
  const reportedTypeOf = createReportedTypes(checks);
  const present = (check: ListedCheck): CheckValue => presentCheck(check, reportedTypeOf(check));
  const first = (those: readonly ListedCheck[]): CheckValue[] => those.slice(0, MAX_REASONS).map(present);
  return {
    trail: presentTrailFacts(context, row),
    totals: {
      ...countExpected(checks),
      failing: reasons.failing.length,
      missing: reasons.missing.length,
      missing_artifacts: reasons.missingArtifacts.length,
    },
    reasons: {
      failing: first(reasons.failing),
      missing: first(reasons.missing),
      missing_artifacts: reasons.missingArtifacts.slice(0, MAX_REASONS),
    },
    states,
    opened: opened === null ? null : presentOpened(at === -1 ? checks : selected, opened, present),
    data: selected.slice((page - 1) * perPage, page * perPage).map(present),
    pagination: presentPagination(selected.length, page, perPage),
  };
}

function countExpected(checks: readonly ListedCheck[]): { checks: number; expected: number; delivered: number } {
  const expected = checks.filter(({ entry }) => !entry.unexpected);
  return {
    checks: checks.length,
    expected: expected.length,
    delivered: expected.length - countStates(expected).MISSING,
  };
}

function presentCheck({ artifact, entry }: ListedCheck, reportedType: string | null): CheckValue {
  if (artifact === null) return { artifact: null, ...entry, reported_type: reportedType };
  const { artifact_fingerprint, artifact_id, status, unexpected } = artifact.status;
  return {
    artifact: { name: artifact.name, artifact_fingerprint, artifact_id, status, unexpected },
    ...entry,
    reported_type: reportedType,
  };
}

/** The place of a record among the reported checks of a list. */
function presentOpened(
  list: readonly ListedCheck[],
  id: string,
  present: (check: ListedCheck) => CheckValue,
): ChecklistValue["opened"] {
  const reported = list.filter(({ entry }) => countingId(entry) !== null);
  const at = reported.findIndex(({ entry }) => isAbout(entry, id));
  const check = reported[at];
  if (!check) return null;
  const idAt = (place: number): string | null => {
    const other = reported[place];
    return other ? countingId(other.entry) : null;
  };
  return {
    check: present(check),
    position: at + 1,
    reported: reported.length,
    previous: idAt(at - 1),
    next: idAt(at + 1),
  };
}
