/**
 * Records snapshots, in three steps so that the expensive one holds no lock: `readCurrent` reads the stored state and
 * finds what has to be done (snapshot-survey.ts), `plan` evaluates and compares (snapshot-plan.ts), `apply` writes
 * (snapshot-writer.ts).
 *
 * Invariant: the first two steps write nothing. `apply` runs inside a write, and only while the environment still is as
 * it was surveyed (`isCurrent`). A report that changes nothing writes no rows of a snapshot.
 */
import type { Cause } from "../../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../../domain/snapshot/normalize.ts";
import type { Actor } from "../actor.ts";
import type { Db, SchemaSources } from "../db/types.ts";
import type { EnvironmentRow } from "./environments.ts";
import { snapshotPlanner } from "./snapshot-plan.ts";
import type { PlanParts } from "./snapshot-plan.ts";
import { snapshotSurveyor, storableReport } from "./snapshot-survey.ts";
import type { SurveyParts } from "./snapshot-survey.ts";
import { snapshotWriter } from "./snapshot-writer.ts";
import type { WriterParts } from "./snapshot-writer.ts";

export function snapshotRecorderStore(db: Db, sources: SchemaSources, parts: SurveyParts & PlanParts & WriterParts) {
  const surveyor = snapshotSurveyor(db, sources, parts);
  const { plan } = snapshotPlanner(db, sources, parts);
  const { apply, recordUnchanged } = snapshotWriter(db, sources, parts);
  return {
    ...surveyor,
    plan,
    apply,
    recordUnchanged,
    /**
     * All steps in one, inside a write.
     * @param artifacts the report; null when what ran still runs.
     * @returns the index of the snapshot; null when nothing changed.
     */
    record(
      environment: EnvironmentRow,
      { cause, artifacts, actor }: { cause: Cause; artifacts: readonly ReportedArtifact[] | null; actor: Actor },
    ): number | null {
      return apply(plan(surveyor.readCurrent(environment, cause, artifacts && storableReport(artifacts))), actor);
    },
  };
}
