/** How reports and changes of policies and allowlists become snapshots. */
import type { Reply } from "../http/operation.ts";
import type { ReportedArtifact } from "../domain/snapshot/normalize.ts";
import type { EnvironmentRow } from "../store/environments.ts";
import type { Context } from "./kit.ts";

/** Records what a reporter saw running. @returns 201 when that made a snapshot, 200 when nothing changed (semantics 6.4). */
export function recordReport(context: Context, environment: EnvironmentRow, artifacts: readonly ReportedArtifact[]): Reply {
  throw new Error(`not yet: ${context.organization.name} ${environment.name} ${artifacts.length}`);
}

/** The policies that are attached to an environment changed: its latest snapshot is evaluated at once, and a new one made (semantics 5.5). */
export function policiesChanged(context: Context, environmentId: number): void {
  void context;
  void environmentId;
}

/** An artifact was allowlisted: its verdict is looked at again at once, and a snapshot made if it flips (semantics 5.6). */
export function artifactAllowed(context: Context, environmentId: number): void {
  void context;
  void environmentId;
}
