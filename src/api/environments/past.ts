/**
 * The environments of an organization as of a moment: the snapshots in force then, with the verdicts that were stored.
 * Nothing is re-evaluated. The rights are those of now.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { medianOf } from "../../domain/median.ts";
import { isNumberList, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { DAY_S } from "../../domain/time.ts";
import { notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { presentPagination } from "../../http/pagination.ts";
import { Closed, Message, Nullable, OneOf, Pagination, named } from "../../http/schema.ts";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { latestOfEach } from "../../contract/comparison/snapshot-turns.ts";
import { ENVIRONMENT_TYPES } from "../../store/environments/environments.ts";
import { MAX_MEASURED_DEPLOYMENTS } from "../../store/environments/overview.ts";
import type { PastEnvironmentRow } from "../../store/environments/history/past.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import { largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { AtMoment, prepareMoment, resolveMoment } from "../moment.ts";
import type { RequestedMoment } from "../moment.ts";
import { definePaging } from "../paging.ts";
import { EnvironmentPath, OrgPath } from "../paths.ts";
import { MeasuredDeployments, OverviewFailingArtifact, presentFailing } from "./overview.ts";

const MAX_FAILING = 10;
const MAX_ENVIRONMENTS = 12;
const MAX_POLICIES = 12;
/** Environments of a policy that are named. */
const MAX_NAMED = 3;
const DEPLOYMENT_DAYS = 14;
/** Environments that are read on the main thread: 500 take some 5 ms. */
const MAX_INLINE_ENVIRONMENTS = 500;
/** Later snapshots of failing environments, whose rows a read passes over: 5,000 take some 5 ms. */
const MAX_INLINE_SNAPSHOTS = 5_000;
/** Artifacts that failed, of which the latest to change are shown: 20,000 take some 40 ms. */
const MAX_INLINE_FAILING = 2_000;

const Count = Type.Integer();
const At = Type.Number({ description: "The moment in epoch seconds" });

const PastPolicy = Closed({
  name: Type.String({ description: "Its present name, or that the record is damaged" }),
  version: Nullable(Type.Integer({ description: "null for a damaged record" })),
});
const PastEnvironment = named(
  "PastEnvironment",
  Closed({
    name: Type.String({ description: "Its present name" }),
    type: OneOf(ENVIRONMENT_TYPES),
    state: Nullable(Type.Boolean({ description: "Verdict of the snapshot in force then; null if unknown" })),
    snapshot_index: Type.Integer({ description: "The snapshot in force then; 0 before the first" }),
    last_changed_at: Nullable(Type.Number({ description: "Epoch seconds of that snapshot" })),
    compliant_count: Type.Integer({ description: "Artifacts that ran, those that were allowlisted included" }),
    non_compliant_count: Count,
    unknown_count: Count,
    policies: Type.Array(PastPolicy, { description: "In force then, as evaluated" }),
    archived_since: Type.Boolean({ description: "Whether it was archived after the moment" }),
    html_url: Type.String(),
  }),
);
type Environment = Static<typeof PastEnvironment>;

const Totals = {
  total: Count,
  compliant: Count,
  non_compliant: Count,
  unknown: Count,
};
const Running = Closed(
  { total: Count, non_compliant: Count, unknown: Count },
  { description: "Artifacts in the snapshots of physical environments; one counts in each of them" },
);

const PastOverview = named(
  "PastOverview",
  Closed({
    at: At,
    environments: Closed({
      ...Totals,
      items: Type.Array(PastEnvironment, { description: `At most ${MAX_ENVIRONMENTS}: those that failed first` }),
    }),
    running: Running,
    failing: Type.Array(OverviewFailingArtifact, {
      description: `At most ${MAX_FAILING}, the one that started to fail last comes first`,
    }),
    deployments: Closed({
      days: Type.Integer({ description: "Days before the moment" }),
      total: Count,
      commit_lead_time: Nullable(
        Type.Number({ description: "Median in seconds from the commit to the first deployment; null without any" }),
      ),
      measured: MeasuredDeployments,
    }),
    policies: Closed({
      total: Count,
      items: Type.Array(
        Closed({
          name: Type.String({ description: "Its present name" }),
          version: Nullable(
            Type.Integer({ description: "The latest one in force in any environment; null for damaged records" }),
          ),
          environments: Type.Array(Type.String(), { description: `At most ${MAX_NAMED} of them` }),
          environment_count: Count,
        }),
        { description: `At most ${MAX_POLICIES}, those of most environments first` },
      ),
    }),
    now: Closed(
      { environments: Count, running: Count, non_compliant: Count },
      { description: "The same numbers as of now" },
    ),
  }),
);
type Overview = Static<typeof PastOverview>;

const isFailing = ({ type, compliant }: PastEnvironmentRow): boolean => type !== "logical" && compliant === 0;

/** The failing environments that a read looks into, the latest to change first: each has an artifact that fails. */
const listFailingPlaces = (rows: readonly PastEnvironmentRow[]): PastEnvironmentRow[] =>
  rows
    .filter(isFailing)
    .sort((one, other) => (other.timestamp ?? 0) - (one.timestamp ?? 0))
    .slice(0, MAX_FAILING);

type Policies = ReadonlyMap<number, { name: string; version: number | null }[]>;
/** In place of what a damaged record does not tell: it must not look as if no policy had been in force. */
const DAMAGED = [{ name: UNREADABLE, version: null }];

/** The policies in force in snapshots, by environment; of a logical one none, its members have them. */
export function findPolicies({ store }: LargeReadContext, rows: readonly PastEnvironmentRow[]): Policies {
  const places = rows.flatMap(({ id, idx, type }) => (idx === null || type === "logical" ? [] : [{ id, idx }]));
  const stored = store.past
    .listVersions(places)
    .map(
      ({ environment_id: id, policy_versions_json: json }) => [id, readStoredJsonOrNull(json, isNumberList)] as const,
    );
  const versions = store.snapshots.findPolicyVersions(new Set(stored.flatMap(([, ids]) => ids ?? [])));
  return new Map(
    stored.map(([id, ids]) => [
      id,
      ids === null
        ? DAMAGED
        : latestOfEach(ids.flatMap((version) => versions.get(version) ?? [])).map(({ name, version }) => ({
            name,
            version,
          })),
    ]),
  );
}

function presentEnvironment(
  { urls, organization }: LargeReadContext,
  row: PastEnvironmentRow,
  policies: Policies,
): Environment {
  return {
    name: row.name,
    type: row.type,
    state: fromSqlBoolean(row.compliant),
    snapshot_index: row.idx ?? 0,
    last_changed_at: row.timestamp,
    compliant_count: row.compliant_count ?? 0,
    non_compliant_count: row.non_compliant_count ?? 0,
    unknown_count: row.unknown_count ?? 0,
    policies: policies.get(row.id) ?? [],
    archived_since: row.archived_at !== null,
    html_url:
      row.idx === null
        ? urls.environmentPage(organization.name, row.name)
        : urls.snapshotPage(organization.name, row.name, row.idx),
  };
}

const countStates = (rows: readonly PastEnvironmentRow[]) => ({
  total: rows.length,
  compliant: rows.filter(({ compliant }) => compliant === 1).length,
  non_compliant: rows.filter(({ compliant }) => compliant === 0).length,
  unknown: rows.filter(({ compliant }) => compliant === null).length,
});

function countRunning(rows: readonly PastEnvironmentRow[]): Static<typeof Running> {
  const sums = { total: 0, non_compliant: 0, unknown: 0 };
  for (const { type, compliant_count: passing, non_compliant_count: failing, unknown_count: undecided } of rows) {
    if (type === "logical") continue;
    sums.total += (passing ?? 0) + (failing ?? 0) + (undecided ?? 0);
    sums.non_compliant += failing ?? 0;
    sums.unknown += undecided ?? 0;
  }
  return sums;
}

function summarizePolicies(rows: readonly PastEnvironmentRow[], policies: Policies): Overview["policies"] {
  const found = new Map<string, { name: string; version: number | null; environments: string[] }>();
  for (const { id, name: environment } of rows)
    for (const { name, version } of policies.get(id) ?? []) {
      const one = found.get(name) ?? { name, version, environments: [] };
      if (one.version !== null && version !== null) one.version = Math.max(one.version, version);
      one.environments.push(environment);
      found.set(name, one);
    }
  const sorted = [...found.values()].sort((one, other) => other.environments.length - one.environments.length);
  return {
    total: sorted.length,
    items: sorted.slice(0, MAX_POLICIES).map(({ environments, ...policy }) => ({
      ...policy,
      environments: environments.slice(0, MAX_NAMED),
      environment_count: environments.length,
    })),
  };
}

function readDeployments({ store: { overview }, organization: { id } }: LargeReadContext, at: number) {
  const window = { from: at - DEPLOYMENT_DAYS * DAY_S, to: at };
  const leads = overview
    .listLeadTimes(id, window)
    .flatMap(({ from_commit: seconds }) => (seconds === null ? [] : [Math.max(0, seconds)]));
  const total = overview.countDeployments(id, window);
  const measured = Math.min(total, MAX_MEASURED_DEPLOYMENTS);
  return { days: DEPLOYMENT_DAYS, total, commit_lead_time: medianOf(leads), measured };
}

export const hasManyEnvironments = ({ store, organization }: LargeReadContext): boolean =>
  store.past.countEver(organization.id) > MAX_INLINE_ENVIRONMENTS;

/** The environments that existed at a moment. */
function lookUp(context: LargeReadContext, moment: RequestedMoment) {
  const at = resolveMoment(context, moment);
  return { at, rows: context.store.past.listExisting(context.organization.id, at) };
}

export const getPastOverview = largeRead({
  id: "get_past_overview",
  method: "GET",
  path: "/past/{org}/overview",
  tag: "Past",
  summary: "Read the overview of an organization as of a moment",
  description:
    "The environments that existed then, by the verdicts of their snapshots in force, what failed with its reasons, " +
    "the policy versions in force, and the deployments before. All of it is as it was stored; nothing is re-evaluated.",
  permission: "environment:read",
  audit: null,
  origin: "assay",
  params: OrgPath,
  query: Closed(AtMoment),
  body: NO_BODY,
  responses: { 200: { description: "The overview", schema: PastOverview } },
  example: { params: { org: "acme" }, query: { at: "production#1" } },
  prepare: prepareMoment,
  isLarge(context, _request, moment) {
    if (hasManyEnvironments(context)) return true;
    const { rows } = lookUp(context, moment);
    const failing = rows.reduce((sum, { non_compliant_count: count }) => sum + (count ?? 0), 0);
    if (failing > MAX_INLINE_FAILING) return true;
    const passed = listFailingPlaces(rows).map(({ snapshot_count: count, idx }) => count - (idx ?? count));
    return passed.reduce((sum, one) => sum + one, 0) > MAX_INLINE_SNAPSHOTS;
  },
  handle(context, _request, moment) {
    const { store, organization } = context;
    const { at, rows } = lookUp(context, moment);
    const policies = findPolicies(context, rows);
    const failing = listFailingPlaces(rows).flatMap(({ id, idx }) =>
      store.past.listFailingIn(id, idx as number, MAX_FAILING),
    );
    const now = store.overview.readTotals(organization.id);
    return {
      status: 200,
      body: {
        at,
        environments: {
          ...countStates(rows),
          items: rows.slice(0, MAX_ENVIRONMENTS).map((row) => presentEnvironment(context, row, policies)),
        },
        running: countRunning(rows),
        failing: store.overview
          .withBeginnings(organization.id, failing)
          .slice(0, MAX_FAILING)
          .map((row) => presentFailing(context, row)),
        deployments: readDeployments(context, at),
        policies: summarizePolicies(rows, policies),
        now: { environments: now.environments, running: now.running, non_compliant: now.running_non_compliant },
      },
    };
  },
});

const PAGES = definePaging({ perPage: 25, maxPerPage: 100 });
const STATES = ["COMPLIANT", "NON-COMPLIANT", "UNKNOWN"] as const;
const PastEnvironmentList = named(
  "PastEnvironmentList",
  Closed({
    data: Type.Array(PastEnvironment),
    pagination: Pagination,
    states: Closed(
      { COMPLIANT: Count, "NON-COMPLIANT": Count, UNKNOWN: Count },
      { description: "How many match in each state, whatever `state` asks for" },
    ),
  }),
);
const stateNameOf = ({ compliant }: PastEnvironmentRow): (typeof STATES)[number] =>
  compliant === 1 ? "COMPLIANT" : compliant === 0 ? "NON-COMPLIANT" : "UNKNOWN";

/** The environments in whose snapshots a policy was in force. */
function withPolicy(
  context: LargeReadContext,
  rows: readonly PastEnvironmentRow[],
  policy: string,
): PastEnvironmentRow[] {
  const policies = findPolicies(context, rows);
  return rows.filter(({ id }) => policies.get(id)?.some(({ name }) => name === policy));
}

export const listPastEnvironments = largeRead({
  id: "list_past_environments",
  method: "GET",
  path: "/past/{org}/environments",
  tag: "Past",
  summary: "List the environments of an organization as of a moment",
  description:
    "The environments that existed then, also those that were archived later, each with its snapshot in force and " +
    "the policy versions that it was evaluated with. Those that failed come first, then by name.",
  permission: "environment:read",
  audit: null,
  origin: "assay",
  params: OrgPath,
  query: Closed({
    ...AtMoment,
    ...PAGES.query,
    name: Type.Optional(Type.String({ maxLength: 256, description: "Part of the name, in any case" })),
    state: Type.Optional(OneOf(STATES, { description: "The state then" })),
    policy: Type.Optional(
      Type.String({ maxLength: 256, description: "Name of a policy: those that it was in force in" }),
    ),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: PastEnvironmentList } },
  example: { params: { org: "acme" }, query: { at: "production#1" } },
  prepare: prepareMoment,
  isLarge: hasManyEnvironments,
  handle(context, { query }, moment) {
    const { store, organization } = context;
    const { page, perPage, offset, limit } = PAGES.window(query);
    const search = (query.name ?? "").toLowerCase();
    const existing = store.past.listExisting(organization.id, resolveMoment(context, moment));
    const named = existing.filter((row) => row.name.toLowerCase().includes(search));
    const found = query.policy === undefined ? named : withPolicy(context, named, query.policy);
    const rows = query.state === undefined ? found : found.filter((row) => stateNameOf(row) === query.state);
    const shown = rows.slice(offset, offset + limit);
    const policies = findPolicies(context, shown);
    const { compliant, non_compliant: failing, unknown } = countStates(found);
    return {
      status: 200,
      body: {
        data: shown.map((row) => presentEnvironment(context, row, policies)),
        pagination: presentPagination(rows.length, page, perPage),
        states: { COMPLIANT: compliant, "NON-COMPLIANT": failing, UNKNOWN: unknown },
      },
    };
  },
});

export const getPastEnvironment = largeRead({
  id: "get_past_environment",
  method: "GET",
  path: "/past/{org}/environments/{env_name}",
  tag: "Past",
  summary: "Read an environment as of a moment",
  description:
    "Its snapshot in force then, and the policy versions that it was evaluated with. Name and type are those of now.",
  permission: "environment:read",
  audit: null,
  origin: "assay",
  params: EnvironmentPath,
  query: Closed(AtMoment),
  body: NO_BODY,
  responses: {
    200: { description: "The environment", schema: PastEnvironment },
    404: { description: "No such environment, or it did not exist then", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" }, query: { at: "production#1" } },
  prepare: prepareMoment,
  handle(context, { params: { env_name: name } }, moment) {
    const { store, organization } = context;
    const row = store.past.find(store.environments.require(organization, name).id, resolveMoment(context, moment));
    if (!row) throw notFound(`Environment '${name}' did not exist at that moment`);
    return { status: 200, body: presentEnvironment(context, row, findPolicies(context, [row])) };
  },
});
