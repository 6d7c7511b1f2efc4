/** What is missing in a binder: releases without a decision, runs that were not compliant, trails that are not. */
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { BinderTrailRow } from "../../store/environments/history/binder-records.ts";
import type { BinderRunRow } from "../../store/environments/history/binders.ts";
import { OPEN } from "../../store/environments/snapshots.ts";
import { NO_CAUSES } from "../../store/environments/verdict-causes.ts";
import { DAMAGED, readEvaluation } from "../changes/read-details.ts";
import { snapshotRange } from "./scope.ts";
import type { Binder } from "./scope.ts";
import type { GapValue } from "./shapes.ts";

/** A row that begins a gap, and the last snapshot of the gap. */
type RunGap = { id: number; last: number };

/** When artifacts of an environment ran without being compliant, latest first. */
export function runGaps(binder: Binder): RunGap[] {
  const { context, places } = binder;
  const gaps: RunGap[] = [];
  for (const { id } of places) {
    const range = snapshotRange(binder, id);
    if (range === null) continue;
    /** What may go on in a further row, as with other instances. */
    const open = new Map<string, { gap: RunGap; state: string }>();
    for (const row of context.store.binders.listRuns(id, range)) {
      const key = `${row.started_index} ${row.fingerprint} ${row.name}`;
      const state = `${row.compliant} ${row.allowlist_id}`;
      const known = open.get(key);
      if (known?.state === state && known.gap.last === row.first_index - 1) {
        known.gap.last = row.last_index;
        continue;
      }
      const gap = { id: row.id, last: row.last_index };
      gaps.push(gap);
      if (gap.last !== OPEN) open.set(key, { gap, state });
    }
  }
  return gaps.sort((a, b) => b.id - a.id);
}

export function presentRunGap({ context }: Binder, { id, last }: RunGap): GapValue {
  const { store, urls, organization } = context;
  const row = store.binders.getRun(id);
  const evaluation = readEvaluation(store, row);
  const flow = evaluation?.facts.flows[0] ?? null;
  return {
    state: row.allowlist_id !== null ? "allowed" : stateOf(fromSqlBoolean(row.compliant)),
    since: row.started,
    until: last === OPEN ? null : store.binders.findSnapshotTime(row.environment_id, last + 1),
    environment_name: row.environment_name,
    snapshot_index: row.first_index,
    artifact_name: row.name,
    artifact_fingerprint: row.fingerprint,
    flow_name: flow?.flow ?? null,
    trail_name: flow?.trail ?? null,
    ...(evaluation ? store.verdictCauses.explainEvaluation(organization.id, evaluation) : DAMAGED),
    allowlist: allowanceOf(row),
    html_url: urls.snapshotPage(organization.name, row.environment_name, row.first_index),
  };
}

/** A damaged record may say compliant although nothing shows that the rules were satisfied. */
const stateOf = (compliant: boolean | null): GapValue["state"] => (compliant === false ? "non-compliant" : "unknown");

const allowanceOf = (row: BinderRunRow): GapValue["allowlist"] =>
  row.allowlist_id === null
    ? null
    : {
        id: row.allowlist_id,
        reason: row.allowlist_reason ?? "",
        by: row.allowlist_by ?? "",
        expires_at: row.allowlist_expires_at,
      };

export function presentTrailGap({ context }: Binder, row: BinderTrailRow, flow: string): GapValue {
  const { store, urls, organization } = context;
  return {
    state: row.state === "INCOMPLETE" ? "incomplete" : "non-compliant",
    since: row.created_at,
    until: null,
    environment_name: null,
    snapshot_index: null,
    artifact_name: null,
    artifact_fingerprint: null,
    flow_name: flow,
    trail_name: row.name,
    ...(row.state === "COMPLIANT" ? NO_CAUSES : store.verdictCauses.explainTrail(organization.id, { ...row, flow })),
    allowlist: null,
    html_url: urls.trailPage(organization.name, flow, row.name),
  };
}
