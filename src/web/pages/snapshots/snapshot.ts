/**
 * `/{org}/environments/{env}/{expression}` and `/{org}/environments/{env}/snapshots/{expression}`: a snapshot by its
 * index or by any other expression of the API: `~1`, `-1`, `@{2.days.ago}`.
 */
import { getEnvironment } from "../../../api/environments/environments.ts";
import { page } from "../../page/page.ts";
import type { Content, Page, Visit } from "../../page/page.ts";
import { readSnapshot } from "../environments/running.ts";
import { snapshotPageOf } from "../environments/snapshot-page.ts";

async function show(visit: Visit): Promise<Content> {
  const { call, params } = visit;
  const environment = await call(getEnvironment, { params: { env_name: params["env"] ?? "" } });
  const snapshot = await readSnapshot(visit, environment.name, params["snapshot"] ?? "");
  // A page of the latest snapshot by its index stays at that snapshot; the environment itself follows the latest.
  return snapshotPageOf(visit, { environment, snapshot, moment: null, live: { environment: environment.name } });
}

export const snapshotPages: readonly Page[] = [
  page({ path: "/{org}/environments/{env}/{snapshot}", show }),
  page({ path: "/{org}/environments/{env}/snapshots/{snapshot}", show }),
];
