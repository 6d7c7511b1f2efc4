/** The artifacts of an organization as of a moment: what had been reported, and where it ran then. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { PAST_STATES } from "../../domain/compliance/past-states.ts";
import type { PastState } from "../../domain/compliance/past-states.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Nullable, OneOf, named } from "../../http/schema.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { PastEnvironmentRow } from "../../store/environments/history/past.ts";
import type { PastArtifactRow } from "../../store/environments/history/past-artifacts.ts";
import { largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { AtMoment, parseMoment, resolveMoment } from "../moment.ts";
import { parseCursor, toCursor } from "../paging.ts";
import { OrgPath } from "../paths.ts";

/** Environments of an artifact that are named. */
const MAX_NAMED = 3;
/** Environments that are looked at for these, and runs in each. */
const MAX_ENVIRONMENTS = 8;
const MAX_RUNS = 4;
const MAX_PER_PAGE = 50;
/** What is counted or searched on the main thread: some milliseconds. */
const MAX_INLINE_ARTIFACTS = 2_000;
const MAX_INLINE_ENVIRONMENTS = 20;
const MAX_INLINE_RUNNING = 2_000;

const PastArtifact = named(
  "PastArtifact",
  Closed({
    artifact_id: Type.String(),
    name: Type.String(),
    fingerprint: Type.String(),
    flow_name: Type.String({ description: "Its present name" }),
    trail_name: Nullable(Type.String()),
    git_commit: Nullable(Type.String()),
    commit_url: Nullable(Type.String()),
    reported_at: Type.Number({ description: "Epoch seconds" }),
    ran_in: Type.Array(
      Closed({
        environment_name: Type.String(),
        snapshot_index: Type.Integer({ description: "The snapshot in force then" }),
        is_compliant: Nullable(Type.Boolean({ description: "The stored verdict; null: unknown" })),
      }),
      { description: `Where it ran at that moment, what fails first, then what is unknown; at most ${MAX_NAMED}` },
    ),
    ran_in_total: Nullable(
      Type.Integer({
        description:
          `In how many environments it ran; null where it runs or ran in more than ${MAX_ENVIRONMENTS}: then ` +
          `\`ran_in\` is of the first ${MAX_ENVIRONMENTS} of them, and one that is left out may be worse`,
      }),
    ),
  }),
);
type Artifact = Static<typeof PastArtifact>;

const WORST_FIRST: readonly (boolean | null)[] = [false, null, true];
type Verdict = { is_compliant: boolean | null };
const byVerdict = (one: Verdict, other: Verdict): number =>
  WORST_FIRST.indexOf(one.is_compliant) - WORST_FIRST.indexOf(other.is_compliant);

function presentArtifact({ store, organization }: LargeReadContext, row: PastArtifactRow, at: number): Artifact {
  const { environments, hasMore } = store.artifactLocations.listRuns(
    { organizationId: organization.id, fingerprint: row.fingerprint },
    { environments: MAX_ENVIRONMENTS, runs: MAX_RUNS },
    at,
  );
  const ran = environments.flatMap((runs) => {
    const open = runs.filter(({ ended_at: end, environment_archived: isArchived }) => end === null && isArchived === 0);
    const places = open.map(({ environment_name, last_snapshot_index: snapshot_index, compliant }) => ({
      environment_name,
      snapshot_index,
      is_compliant: fromSqlBoolean(compliant),
    }));
    // One fingerprint may run under several names: the worst verdict counts.
    return places.sort(byVerdict).slice(0, 1);
  });
  // What is left out may not be worse than what is named: three compliant ones would read as "compliant everywhere".
  ran.sort(byVerdict);
  return {
    artifact_id: row.public_id,
    name: row.filename,
    fingerprint: row.fingerprint,
    flow_name: row.flow_name,
    trail_name: row.trail_name,
    git_commit: row.git_commit,
    commit_url: row.commit_url || null,
    reported_at: row.created_at,
    ran_in: ran.slice(0, MAX_NAMED),
    ran_in_total: hasMore ? null : ran.length,
  };
}

export const listPastArtifacts = largeRead({
  id: "list_past_artifacts",
  method: "GET",
  path: "/past/{org}/artifacts",
  tag: "Past",
  summary: "List the artifacts of an organization as of a moment",
  description:
    "The artifacts that had been reported by then and are still stored, newest first, and where they ran at that " +
    "moment. The state is the stored verdict of what ran, the worst where it ran in several environments: that of " +
    "the evidence is kept as it is now, and left out.",
  permission: "artifact:read",
  audit: null,
  origin: "assay",
  params: OrgPath,
  query: Closed({
    ...AtMoment,
    per_page: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_PER_PAGE, default: 25 })),
    after: Type.Optional(Type.String({ description: "`next` of the page before" })),
    name: Type.Optional(Type.String({ maxLength: 256, description: "Part of the name, in any case" })),
    state: Type.Optional(OneOf(PAST_STATES, { description: "The verdict where it ran then" })),
    counts: Type.Optional(Type.Boolean({ default: false, description: "Adds `total` and `states`" })),
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "One page",
      schema: named(
        "PastArtifactList",
        Closed({
          data: Type.Array(PastArtifact),
          next: Nullable(Type.String({ description: "For `after` of the next page; null at the end" })),
          total: Type.Optional(Type.Integer({ description: "With `counts`: how many match" })),
          states: Type.Optional(
            Closed(Object.fromEntries(PAST_STATES.map((state) => [state, Type.Integer()])), {
              description: "With `counts`: how many match in each state, whatever `state` asks for",
            }),
          ),
        }),
      ),
    },
  },
  example: { params: { org: "acme" }, query: { at: "production#1" } },
  prepare: (context, { query }) =>
    Promise.resolve({
      moment: parseMoment(query.at, context.now()),
      before: query.after ? parseCursor("after", query.after) : null,
    }),
  isLarge(context, { query }, { moment }) {
    const { store, organization } = context;
    const hasStates = query.counts === true || query.state !== undefined;
    if (!hasStates && query.name === undefined) return false;
    if (store.artifactLists.isMoreThan(organization.id, MAX_INLINE_ARTIFACTS)) return true;
    if (store.past.countEver(organization.id) > MAX_INLINE_ENVIRONMENTS) return true;
    return hasStates && countRunning(placesAt(context, resolveMoment(context, moment))) > MAX_INLINE_RUNNING;
  },
  handle(context, { query }, { moment, before }) {
    const { store, organization } = context;
    const at = resolveMoment(context, moment);
    const limit = query.per_page ?? 25;
    const hasStates = query.counts === true || query.state !== undefined;
    const filter = {
      organizationId: organization.id,
      at,
      search: query.name ?? "",
      state: query.state ?? null,
      ran: hasStates ? store.pastArtifacts.readRunning(placesAt(context, at)) : new Map(),
    };
    const rows = store.pastArtifacts.list(filter, { before, limit: limit + 1 });
    const shown = rows.slice(0, limit);
    const states = query.counts === true ? store.pastArtifacts.countStates(filter) : null;
    return {
      status: 200,
      body: {
        data: shown.map((row) => presentArtifact(context, row, at)),
        next: rows.length > limit ? toCursor((shown.at(-1) as PastArtifactRow).id) : null,
        ...(states === null ? {} : { total: totalOf(states, filter.state), states }),
      },
    };
  },
});

/** The physical environments of a moment with their snapshots in force. */
const placesAt = ({ store, organization }: LargeReadContext, at: number): (PastEnvironmentRow & { idx: number })[] =>
  store.past
    .listExisting(organization.id, at)
    .flatMap((row) => (row.idx === null || row.type === "logical" ? [] : [{ ...row, idx: row.idx }]));

const countRunning = (places: readonly PastEnvironmentRow[]): number =>
  places.reduce(
    (sum, { compliant_count, non_compliant_count, unknown_count }) =>
      sum + (compliant_count ?? 0) + (non_compliant_count ?? 0) + (unknown_count ?? 0),
    0,
  );

const totalOf = (states: Record<PastState, number>, state: PastState | null): number =>
  state === null ? PAST_STATES.reduce((sum, one) => sum + states[one], 0) : states[state];
