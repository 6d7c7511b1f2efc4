/**
 * `/{org}/environments/{env}/{expression}` and `/{org}/environments/{env}/snapshots/{expression}`: a snapshot by its
 * index or by any other expression of the API: `~1`, `-1`, `@{2.days.ago}`.
 */
import { getEnvironment } from "../../../api/environments/environments.ts";
import { notThen } from "../../page/past-notes.ts";
import { inForceAt } from "../../page/moment.ts";
import { page } from "../../page/page.ts";
import type { Content, Page, Visit } from "../../page/page.ts";
import { crumbsOf } from "../environments/head.ts";
import { environmentNotThen, readPast } from "../environments/past.ts";
import { readSnapshot } from "../environments/running.ts";
import { snapshotPageOf } from "../environments/snapshot-page.ts";

/** What means the snapshot in force at the moment that is shown. */
const LATEST = /^(?:#?-1|~0|@\{now\})$/;

async function show(visit: Visit): Promise<Content> {
  const { call, params } = visit;
  const environment = await call(getEnvironment, { params: { env_name: params["env"] ?? "" } });
  const expression = params["snapshot"] ?? "";
  const asked = visit.moment && LATEST.test(expression) ? inForceAt(visit.moment) : expression;
  const snapshot = await readSnapshot(visit, environment.name, asked);
  // A page of the latest snapshot by its index stays at that snapshot; the environment itself follows the latest.
  const past = visit.moment && (await readPast(visit, environment.name));
  if (visit.moment && !past) return environmentNotThen(visit, environment.name);
  if (visit.moment && snapshot.timestamp > visit.moment.at)
    return notThen(visit, {
      title: `${environment.name} #${snapshot.index}`,
      text: `Snapshot #${snapshot.index} was taken after that moment.`,
      section: "environments",
      crumbs: crumbsOf(visit, environment),
      timePath: visit.path,
    });
  return snapshotPageOf(visit, { environment, snapshot, live: { environment: environment.name }, past });
}

export const snapshotPages: readonly Page[] = [
  page({ path: "/{org}/environments/{env}/{snapshot}", show, past: "then" }),
  page({ path: "/{org}/environments/{env}/snapshots/{snapshot}", show, past: "then" }),
];
