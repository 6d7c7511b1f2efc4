/** The overview of an organization: what fails now, and what happened lately. Bounded, whatever was ever recorded. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { rewordReasons, withFlowNames } from "../../domain/compliance/environment.ts";
import type { Facts } from "../../domain/compliance/environment.ts";
import { dayOf } from "../../domain/frequency.ts";
import { medianOf } from "../../domain/median.ts";
import { isListOf, isText, readStoredJson, readStoredJsonOrNull, hasMembers } from "../../domain/stored-json.ts";
import { DAY_S } from "../../domain/time.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Nullable, OneOf, named } from "../../http/schema.ts";
import { Causes } from "../../contract/causes.ts";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { Day } from "../../contract/shapes.ts";
import { ENVIRONMENT_TYPES } from "../../store/environments/environments.ts";
import { MAX_MEASURED_DEPLOYMENTS } from "../../store/environments/overview.ts";
import type {
  FailingArtifactRow,
  LeadTimeRow,
  OpenTrailRow,
  OverviewEnvironmentRow,
} from "../../store/environments/overview.ts";
import { NO_CAUSES } from "../../store/environments/verdict-causes.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import { operation } from "../context.ts";
import type { LargeReadContext, ReadingContext } from "../context.ts";
import { NoQuery, OrgPath } from "../paths.ts";

const MAX_ENVIRONMENTS = 8;
const MAX_FAILING = 10;
const MAX_TRAILS = 6;
const MAX_FLOWS = 6;
/** Reasons of one artifact or trail; the rest is on its page. */
const MAX_REASONS = 3;
const TRAIL_DAYS = 7;
/** Trails of the overview are counted up to this number. */
const MAX_COUNTED_TRAILS = 1_000;
/** What needs attention is counted up to this number. */
export const MAX_ATTENTION = 100;
const DEPLOYMENT_DAYS = 14;

const Time = Type.Number({ description: "Epoch seconds" });
const Count = Type.Integer();
const Reasons = Type.Array(Type.String(), { description: `At most ${MAX_REASONS}` });
/** Of deployments, how many their lead times are of. */
export const MeasuredDeployments = Type.Integer({
  description: `Deployments whose first starts the lead times are of: the latest ${MAX_MEASURED_DEPLOYMENTS} at most`,
});
const Median = Nullable(
  Type.Number({
    description:
      "Seconds from the report of a build to its first deployment in an environment; null without such deployments",
  }),
);

const OverviewEnvironment = named(
  "OverviewEnvironment",
  Closed({
    name: Type.String(),
    type: OneOf(ENVIRONMENT_TYPES),
    state: Nullable(Type.Boolean({ description: "Verdict of the latest snapshot; null if unknown" })),
    snapshot_index: Type.Integer({ description: "The latest snapshot; 0 before the first" }),
    last_changed_at: Nullable(Time),
    last_reported_at: Nullable(Time),
    policy_count: Count,
    compliant_count: Type.Integer({ description: "Running artifacts, those that are allowlisted included" }),
    allowlisted_count: Count,
    non_compliant_count: Count,
    unknown_count: Count,
    html_url: Type.String(),
  }),
);
export const OverviewFailingArtifact = named(
  "OverviewFailingArtifact",
  Closed({
    environment_name: Type.String(),
    snapshot_index: Type.Integer({ description: "The latest snapshot of the environment" }),
    name: Type.String({ description: "The name under which it runs" }),
    fingerprint: Type.String({ description: "Empty if the reporter could not resolve it" }),
    flow_name: Nullable(Type.String({ description: "The flow that built it; null without provenance" })),
    ...Causes,
    reasons: Reasons,
    policies: Type.Array(Closed({ name: Type.String(), version: Type.Integer() }), {
      description: "The versions of policies that it fails",
    }),
    since: Type.Number({ description: "Epoch seconds of the snapshot in which it started to fail" }),
    html_url: Type.String({ description: "The snapshot" }),
  }),
);
const OverviewTrail = named(
  "OverviewTrail",
  Closed({
    flow_name: Type.String(),
    name: Type.String(),
    state: OneOf(["INCOMPLETE", "NON-COMPLIANT"]),
    ...Causes,
    reasons: Reasons,
    git_commit: Nullable(Type.String()),
    commit_url: Nullable(Type.String()),
    last_event_at: Time,
    html_url: Type.String(),
  }),
);
const OverviewFlow = named(
  "OverviewFlow",
  Closed({
    name: Type.String(),
    latest_state: Nullable(Type.String({ description: "State of the most recently changed trail" })),
    latest_activity_at: Nullable(Time),
    trail_count: Count,
    html_url: Type.String(),
  }),
);

const OverviewResponse = named(
  "OverviewResponse",
  Closed({
    environments: Closed({
      total: Count,
      compliant: Count,
      non_compliant: Count,
      unknown: Count,
      items: Type.Array(OverviewEnvironment, {
        description: `At most ${MAX_ENVIRONMENTS}: those that fail, then by their latest change`,
      }),
    }),
    running: Closed(
      { total: Count, non_compliant: Count, unknown: Count },
      { description: "Artifacts in the latest snapshots of physical environments; one counts in each of them" },
    ),
    failing: Type.Array(OverviewFailingArtifact, {
      description: `At most ${MAX_FAILING}, the one that started to fail last comes first`,
    }),
    trails: Closed({
      days: Type.Integer({ description: "Trails with an event in this many days" }),
      total: Type.Integer({ description: `Counted up to ${MAX_COUNTED_TRAILS}` }),
      items: Type.Array(OverviewTrail, { description: `At most ${MAX_TRAILS}, the latest event first` }),
    }),
    deployments: Closed({
      days: Type.Integer({ description: "Days in UTC, today included" }),
      total: Count,
      previous_total: Type.Integer({ description: "In as many days before" }),
      lead_time: Median,
      previous_lead_time: Median,
      commit_lead_time: Type.Optional(Median),
      previous_commit_lead_time: Type.Optional(Median),
      unknown_commit_times: Type.Optional(
        Type.Integer({ description: "First starts whose commit has no known time; the median does not count them" }),
      ),
      measured: Type.Optional(MeasuredDeployments),
      daily: Type.Array(
        Closed({
          date: Day,
          compliant: Count,
          non_compliant: Count,
          unknown: Count,
        }),
        { description: "All days, oldest first, by the verdict at the start" },
      ),
    }),
    flows: Closed({
      total: Count,
      items: Type.Array(OverviewFlow, { description: `At most ${MAX_FLOWS}, the latest activity first` }),
    }),
  }),
);
type Overview = Static<typeof OverviewResponse>;

/** Whether there may be more trails than the answer counts. */
export const hasMoreTrails = ({ total }: Overview["trails"]): boolean => total >= MAX_COUNTED_TRAILS;

const presentEnvironment = (
  { urls, organization }: ReadingContext,
  { snapshot_count, state, ...row }: OverviewEnvironmentRow,
): Overview["environments"]["items"][number] => ({
  ...row,
  state: fromSqlBoolean(state),
  last_reported_at: row.type === "logical" ? null : row.last_reported_at,
  snapshot_index: snapshot_count,
  html_url: urls.environmentPage(organization.name, row.name),
});

const isTextList = isListOf(isText);

/** The stored reasons; new ones if a flow that they name has been renamed. @throws Error for a damaged record */
function findReasons({ store, organization }: LargeReadContext, row: FailingArtifactRow) {
  const reasons = readStoredJson(row.reasons_json, isTextList);
  const evaluation = store.snapshots.parseEvaluation(row);
  const { facts: stored, verdicts } = evaluation;
  const names = store.flows.findPresentNames(new Set(stored.flows.map(({ flow_id }) => flow_id)));
  const facts: Facts = withFlowNames(stored, (id) => names.get(id));
  const reworded = facts === stored ? null : rewordReasons(facts, verdicts, (id) => store.policies.getDocument(id));
  return {
    flow_name: facts.flows[0]?.flow ?? null,
    ...store.verdictCauses.explainEvaluation(organization.id, evaluation),
    reasons: (reworded ?? reasons).slice(0, MAX_REASONS),
    policies: verdicts
      .filter(({ status }) => status === "NON-COMPLIANT")
      .map(({ policy, version }) => ({ name: policy, version })),
  };
}

/** What fails in a snapshot; a damaged record says so. */
export function presentFailing(context: LargeReadContext, row: FailingArtifactRow): Overview["failing"][number] {
  const { urls, organization } = context;
  const shown = {
    environment_name: row.environment_name,
    snapshot_index: row.snapshot_index,
    name: row.name,
    fingerprint: row.fingerprint,
    since: row.since,
    html_url: urls.snapshotPage(organization.name, row.environment_name, row.snapshot_index),
  };
  try {
    return { ...shown, ...findReasons(context, row) };
  } catch {
    return { ...shown, flow_name: null, ...NO_CAUSES, reasons: [UNREADABLE], policies: [] };
  }
}

const isCommit = hasMembers<{ sha1?: string; url?: string | null }>();

function presentTrail(
  { store, urls, organization }: ReadingContext,
  row: OpenTrailRow,
): Overview["trails"]["items"][number] {
  const commit = readStoredJsonOrNull(row.git_commit_info_json, isCommit);
  return {
    flow_name: row.flow_name,
    name: row.name,
    state: row.state,
    ...store.verdictCauses.explainTrail(organization.id, { ...row, flow: row.flow_name }),
    reasons: (readStoredJsonOrNull(row.reasons_json, isTextList) ?? [UNREADABLE]).slice(0, MAX_REASONS),
    git_commit: isText(commit?.sha1) ? commit.sha1 : null,
    commit_url: isText(commit?.url) ? commit.url : null,
    last_event_at: row.last_modified_at,
    html_url: urls.trailPage(organization.name, row.flow_name, row.name),
  };
}

function readDeployments(
  { store: { overview }, organization: { id }, now }: ReadingContext,
  hasFirstStarts: boolean,
): Overview["deployments"] {
  const firstDay = dayOf(now()) - DEPLOYMENT_DAYS + 1;
  const window = { from: firstDay * DAY_S, to: (firstDay + DEPLOYMENT_DAYS) * DAY_S };
  const before = { from: (firstDay - DEPLOYMENT_DAYS) * DAY_S, to: window.from };
  const days = new Map(overview.listDeploymentDays(id, window).map(({ day, ...counts }) => [day, counts]));
  const daily = Array.from({ length: DEPLOYMENT_DAYS }, (_none, index) => ({
    date: new Date((firstDay + index) * DAY_S * 1000).toISOString().slice(0, 10),
    ...(days.get(firstDay + index) ?? { compliant: 0, non_compliant: 0, unknown: 0 }),
  }));
  // An artifact that was reported, or a commit that was made, after the start counts as 0.
  const medianAt = (rows: readonly LeadTimeRow[], base: keyof LeadTimeRow): number | null =>
    medianOf(rows.flatMap(({ [base]: seconds }) => (seconds === null ? [] : [Math.max(0, seconds)])));
  const [leads, earlier] = [overview.listLeadTimes(id, window), overview.listLeadTimes(id, before)];
  const fromCommit = {
    commit_lead_time: medianAt(leads, "from_commit"),
    previous_commit_lead_time: medianAt(earlier, "from_commit"),
    unknown_commit_times: leads.filter(({ from_commit: seconds }) => seconds === null).length,
  };
  const total = daily.reduce((sum, one) => sum + one.compliant + one.non_compliant + one.unknown, 0);
  return {
    days: DEPLOYMENT_DAYS,
    total,
    previous_total: overview.countDeployments(id, before),
    lead_time: medianAt(leads, "from_build"),
    previous_lead_time: medianAt(earlier, "from_build"),
    ...(hasFirstStarts ? { ...fromCommit, measured: Math.min(total, MAX_MEASURED_DEPLOYMENTS) } : {}),
    daily,
  };
}

export const getOverview = operation({
  id: "get_overview",
  origin: "assay",
  method: "GET",
  path: "/overview/{org}",
  tag: "Organizations",
  summary: "Read the overview of an organization",
  description:
    "What fails now with its reasons, environments by state, trails that need attention, deployments of the last " +
    `${DEPLOYMENT_DAYS} days, and the flows that were active last. Lists are short; other operations have them whole.`,
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    first_starts: Type.Optional(
      Type.Boolean({ default: false, description: "Adds lead times from the commit to the deployments" }),
    ),
  }),
  body: NO_BODY,
  responses: { 200: { description: "The overview", schema: OverviewResponse } },
  example: { params: { org: "acme" } },
  handle(context, { query }) {
    const { store, organization, urls } = context;
    const { overview } = store;
    const totals = overview.readTotals(organization.id);
    const since = context.now() - TRAIL_DAYS * DAY_S;
    return {
      status: 200,
      body: {
        environments: {
          total: totals.environments,
          compliant: totals.compliant,
          non_compliant: totals.non_compliant,
          unknown: totals.unknown,
          items: overview
            .listEnvironments(organization.id, MAX_ENVIRONMENTS)
            .map((row) => presentEnvironment(context, row)),
        },
        running: {
          total: totals.running,
          non_compliant: totals.running_non_compliant,
          unknown: totals.running_unknown,
        },
        failing: overview.listFailing(organization.id, MAX_FAILING).map((row) => presentFailing(context, row)),
        trails: {
          days: TRAIL_DAYS,
          total: overview.countOpenTrails(organization.id, { since, limit: MAX_COUNTED_TRAILS }),
          items: overview
            .listOpenTrails(organization.id, { since, limit: MAX_TRAILS })
            .map((row) => presentTrail(context, row)),
        },
        deployments: readDeployments(context, query.first_starts ?? false),
        flows: {
          total: overview.countFlows(organization.id),
          items: overview
            .listFlows(organization.id, MAX_FLOWS)
            .map((flow) => ({ ...flow, html_url: urls.flowPage(organization.name, flow.name) })),
        },
      },
    };
  },
});

const CountOfAttention = (description: string) =>
  Type.Integer({ description: `${description}, up to ${MAX_ATTENTION}` });

export const getAttention = operation({
  id: "get_attention",
  origin: "assay",
  method: "GET",
  path: "/overview/{org}/attention",
  tag: "Organizations",
  summary: "Count what needs attention",
  description:
    "How many environments are not compliant, logical ones included, and how many trails of the last " +
    `${TRAIL_DAYS} days are not. Cheap enough to ask for often.`,
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: {
      description: "The numbers",
      schema: named(
        "Attention",
        Closed({
          non_compliant_environments: CountOfAttention("Active environments that are not compliant"),
          open_trails: CountOfAttention("Trails that are incomplete or not compliant"),
          days: Type.Integer({ description: "Trails with an event in this many days" }),
        }),
      ),
    },
  },
  example: { params: { org: "acme" } },
  handle({ store: { overview }, organization: { id }, now }) {
    return {
      status: 200,
      body: {
        non_compliant_environments: overview.countFailingEnvironments(id, MAX_ATTENTION),
        open_trails: overview.countOpenTrails(id, { since: now() - TRAIL_DAYS * DAY_S, limit: MAX_ATTENTION }),
        days: TRAIL_DAYS,
      },
    };
  },
});
