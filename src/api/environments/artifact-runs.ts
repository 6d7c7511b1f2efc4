/** Where and when an artifact ran, with its verdict at each time. */
import { Type } from "typebox";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Nullable, named } from "../../http/schema.ts";
import type { ArtifactRunRow } from "../../store/environments/artifact-locations.ts";
import { largeRead } from "../context.ts";
import { AtMoment, parseMoment, resolveMoment } from "../moment.ts";
import { FingerprintPath } from "../paths.ts";

/** A fingerprint that runs in more environments than this is a base image rather than a release. */
const MAX_ENVIRONMENTS = 50;
/** A job that starts every few minutes adds hundreds a day. */
const MAX_RUNS = 50;

const Verdict = Nullable(Type.Boolean({ description: "null: unknown" }));

const ArtifactRuns = named(
  "ArtifactRuns",
  Closed({
    environments: Type.Array(
      Closed({
        environment_name: Type.String(),
        environment_type: Type.String(),
        is_archived: Type.Boolean(),
        is_running: Type.Boolean(),
        is_compliant: Verdict,
        snapshot_index: Type.Integer({ description: "The latest snapshot that shows the artifact" }),
        runs: Type.Array(
          Closed({
            name: Type.String({ description: "The name that it ran under" }),
            is_compliant: Verdict,
            snapshot_index: Type.Integer({ description: "The snapshot in which this began" }),
            started_at: Type.Number({ description: "Epoch seconds" }),
            ended_at: Nullable(Type.Number({ description: "Epoch seconds; null while it holds" })),
          }),
          { description: `Newest first, at most ${MAX_RUNS}. A change of the verdict starts another one` },
        ),
      }),
      { description: `In the order of their creation, at most ${MAX_ENVIRONMENTS}` },
    ),
    has_more: Type.Boolean({ description: "Whether it ran in further environments" }),
  }),
);

export const listArtifactRuns = largeRead({
  id: "list_artifact_runs",
  method: "GET",
  path: "/artifacts/{org}/fingerprint/{fingerprint}/runs",
  tag: "Artifacts",
  summary: "List where an artifact ran",
  description:
    "The environments in which the artifact runs or ran, reported to a flow or not, with the times and its verdict " +
    "then. The lists are empty for an artifact that never ran. With `at` as of that moment: what began later is left " +
    "out, and what ended later still runs.",
  permission: "environment:read",
  audit: null,
  origin: "assay",
  params: FingerprintPath,
  query: Closed({
    at: Type.Optional(AtMoment.at),
  }),
  body: NO_BODY,
  responses: { 200: { description: "The environments", schema: ArtifactRuns } },
  example: {
    params: { org: "acme", fingerprint: "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd" },
  },
  prepare: (context, { query }) =>
    Promise.resolve(query.at === undefined ? null : parseMoment(query.at, context.now())),
  handle(context, { params }, moment) {
    const { store, organization } = context;
    const { environments, hasMore } = store.artifactLocations.listRuns(
      { organizationId: organization.id, fingerprint: params.fingerprint },
      { environments: MAX_ENVIRONMENTS, runs: MAX_RUNS },
      moment && resolveMoment(context, moment),
    );
    return { status: 200, body: { environments: environments.map(presentEnvironment), has_more: hasMore } };
  },
});

const verdictOf = (compliant: 0 | 1 | null): boolean | null => (compliant === null ? null : compliant === 1);

/** @param runs of one environment, newest first; at least one */
function presentEnvironment(runs: readonly ArtifactRunRow[]) {
  const [latest] = runs as readonly [ArtifactRunRow];
  const open = runs.filter(({ ended_at }) => ended_at === null);
  const verdicts = (open.length > 0 ? open : [latest]).map(({ compliant }) => compliant);
  return {
    environment_name: latest.environment_name,
    environment_type: latest.environment_type,
    is_archived: latest.environment_archived === 1,
    is_running: open.length > 0,
    // One fingerprint may run under several names: the worst verdict counts.
    is_compliant: verdicts.includes(0) ? false : verdicts.includes(null) ? null : true,
    snapshot_index: runs.reduce((last, { last_snapshot_index: index }) => Math.max(last, index), 0),
    runs: runs.map(({ name, compliant, snapshot_index, started_at, ended_at }) => ({
      name,
      is_compliant: verdictOf(compliant),
      snapshot_index,
      started_at,
      ended_at,
    })),
  };
}
