/**
 * Deployments: starts of artifacts with provenance in an environment (semantics 6.10). They are read-only: the server
 * derives them from snapshots.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { dayOf, computeFrequency } from "../../domain/frequency.ts";
import { DAY_S } from "../../domain/time.ts";
import { notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, named } from "../../http/schema.ts";
import type { DeploymentFilter } from "../../store/environments/deployments.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import { operation, largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { PageCounts, pageCounts, definePaging } from "../paging.ts";
import type { PageWindow } from "../paging.ts";
import { EpochWindow, TextWindow, DEFAULT_WINDOW_DAYS, parseEpochWindow, parseTextWindow } from "../time-window.ts";
import { FIRST_STARTS, DeploymentResponse, presentDeployment } from "../../contract/present-deployment.ts";
import { Day } from "../../contract/shapes.ts";
import { EnvironmentPath, OrgPath } from "../paths.ts";

export const DeploymentListPage = named(
  "DeploymentListPage",
  Closed({ ...PageCounts, deployments: Type.Array(DeploymentResponse) }),
);
const { per_page: _perPage, ...OtherCounts } = PageCounts;
const EnvironmentDeploymentListPage = named(
  "EnvironmentDeploymentListPage",
  Closed({ ...OtherCounts, page_size: Type.Integer(), deployments: Type.Array(DeploymentResponse) }),
);

const DeploymentFrequencyResponse = named(
  "DeploymentFrequencyResponse",
  Closed({
    environment_name: Type.String(),
    flow_id: Nullable(Type.String({ description: "As requested" })),
    start_ts: Type.Number({ description: "Start of the first day, epoch seconds" }),
    end_ts: Type.Number({ description: "Time of the request, epoch seconds" }),
    total: Type.Integer(),
    median_per_day: Type.Number({ description: "Days without a deployment count as 0" }),
    daily: Type.Array(Closed({ date: Day, count: Type.Integer() }), { description: "All days, oldest first" }),
  }),
);

/** The environments that have the deployments of an environment: itself, or the members of a logical one. */
export const deploymentEnvironmentIds = ({ store }: LargeReadContext, { id, type }: EnvironmentRow): number[] =>
  type === "logical" ? store.environments.listMemberIds(id) : [id];

const EXAMPLE_FINGERPRINT = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";
const PAGES = definePaging({ perPage: 15, maxPerPage: 50, minPerPage: 0 });

export const listDeployments = largeRead({
  id: "list_deployments",
  method: "GET",
  path: "/deployments/{org}",
  tag: "Deployments",
  summary: "List the deployments of an organization",
  description:
    "Deployments in a time window, newest first, in pages. The default window is the last " +
    `${DEFAULT_WINDOW_DAYS} days. A filter by an unknown name gives an empty list.`,
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGES.query,
    flow_name: Type.Optional(
      Type.String({ description: "Name of a flow; takes precedence over repository and environment" }),
    ),
    repo_name: Type.Optional(Type.String({ description: "Name of a source repository" })),
    env_name: Type.Optional(
      Type.String({ description: "Name of an environment; a logical environment stands for its members" }),
    ),
    ...FIRST_STARTS,
    ...EpochWindow,
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: DeploymentListPage } },
  example: { params: { org: "acme" }, query: { env_name: "production", page: "1", per_page: "15" } },
  // The reader thread has no clock.
  prepare: async ({ now }) => now(),
  handle(context, { query }, now) {
    const { store, organization } = context;
    const window = { ...PAGES.window(query), first_starts: query.first_starts };
    const environment = query.env_name ? store.environments.find(organization.id, query.env_name) : null;
    const flow = query.flow_name ? store.flows.find(organization.id, query.flow_name) : null;
    const filter = {
      organizationId: organization.id,
      // An unknown flow has an id that no flow has.
      flowId: query.flow_name ? (flow?.id ?? -1) : null,
      environmentIds: query.env_name ? (environment ? deploymentEnvironmentIds(context, environment) : []) : null,
      repoIds: query.repo_name ? store.repos.listByName(organization.id, query.repo_name).map(({ id }) => id) : null,
      ...parseEpochWindow(query, now),
    };
    return { status: 200, body: deploymentPage(context, filter, window) };
  },
});

/** A page of deployments in its envelope. */
export const deploymentPage = (
  context: LargeReadContext,
  filter: DeploymentFilter,
  { first_starts: hasFirstStarts = false, ...window }: PageWindow & { first_starts?: boolean | undefined },
): Static<typeof DeploymentListPage> => ({
  ...pageCounts(context.store.deployments.count(filter), window.page, window.perPage),
  deployments: context.store.deployments
    .list(filter, window)
    .map((row) => presentDeployment(context, row, { hasFirstStarts })),
});

export const getDeployment = largeRead({
  id: "get_deployment",
  method: "GET",
  path: "/deployments/{org}/{env_name}/{fingerprint}",
  tag: "Deployments",
  summary: "Read a deployment",
  description:
    "The latest start of the artifact in the environment or, for a logical environment, in any of its members.",
  permission: "environment:read",
  audit: null,
  params: Closed({
    ...EnvironmentPath.properties,
    fingerprint: Type.String({ description: "Full SHA-256 fingerprint" }),
  }),
  query: Closed({}),
  body: NO_BODY,
  responses: {
    200: { description: "The deployment", schema: DeploymentResponse },
    404: { description: "No such environment, or the artifact was never deployed to it", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production", fingerprint: EXAMPLE_FINGERPRINT } },
  handle(context, { params }) {
    const { store, organization } = context;
    const environment = store.environments.require(organization, params.env_name);
    const row = store.deployments.findLatest(deploymentEnvironmentIds(context, environment), params.fingerprint);
    if (!row)
      throw notFound(`Deployment '${params.fingerprint}' does not exist in organization '${organization.name}'`);
    return { status: 200, body: presentDeployment(context, row) };
  },
});

const ENVIRONMENT_PAGES = definePaging({ perPage: 50, maxPerPage: 100 });

export const listEnvironmentDeployments = largeRead({
  id: "list_env_deployments",
  method: "GET",
  path: "/environments/{org}/{env_name}/deployments",
  tag: "Environments",
  summary: "List the deployments to an environment",
  description:
    "Newest first, in pages. The default window is the last 30 days. A logical environment has the deployments of " +
    "its members.",
  permission: "environment:read",
  audit: null,
  params: EnvironmentPath,
  query: Closed({
    ...TextWindow,
    page: ENVIRONMENT_PAGES.query.page,
    page_size: ENVIRONMENT_PAGES.query.per_page,
    ...FIRST_STARTS,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: EnvironmentDeploymentListPage },
    404: { description: "No such environment, or it has been archived", schema: Message },
  },
  example: {
    params: { org: "acme", env_name: "production" },
    query: { from: "2026-01-01", to: "2026-01-31T12:00:00Z", page_size: "50" },
  },
  // The reader thread has no clock.
  prepare: async ({ now }) => now(),
  handle(context, { params, query }, now) {
    const { store, organization } = context;
    const environment = store.environments.require(organization, params.env_name);
    const pages = ENVIRONMENT_PAGES.window({ page: query.page, per_page: query.page_size });
    const window = { ...pages, first_starts: query.first_starts };
    const environmentIds = deploymentEnvironmentIds(context, environment);
    const filter = {
      organizationId: organization.id,
      environmentIds,
      repoIds: null,
      ...parseTextWindow(query, now),
    };
    const { per_page: page_size, ...rest } = deploymentPage(context, filter, window);
    return { status: 200, body: { ...rest, page_size } };
  },
});

export const getDeploymentFrequency = operation({
  id: "get_deployment_frequency",
  method: "GET",
  path: "/environments/{org}/{env_name}/deployment_frequency",
  tag: "Environments",
  summary: "Read the deployment frequency of an environment",
  description: `Deployments per UTC day in the last ${DEFAULT_WINDOW_DAYS} days, today included, of one or all flows.`,
  permission: "environment:read",
  audit: null,
  params: EnvironmentPath,
  query: Closed({ flow_id: Type.Optional(Type.String({ description: "Id or name of a flow" })) }),
  body: NO_BODY,
  responses: {
    200: { description: "The counts per day", schema: DeploymentFrequencyResponse },
    404: { description: "No such environment or flow", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" }, query: { flow_id: "payments" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const environment = store.environments.require(organization, params.env_name);
    const flow = query.flow_id
      ? (store.flows.findByPublicId(organization.id, query.flow_id) ?? store.flows.find(organization.id, query.flow_id))
      : null;
    if (query.flow_id && !flow)
      throw notFound(`Flow '${query.flow_id}' does not exist in organization '${organization.name}'`);
    const to = context.now();
    const lastDay = dayOf(to);
    const from = (lastDay - DEFAULT_WINDOW_DAYS + 1) * DAY_S;
    const perDay = store.deployments.countPerDay(deploymentEnvironmentIds(context, environment), flow?.id ?? null, {
      from,
      to,
    });
    return {
      status: 200,
      body: {
        environment_name: environment.name,
        flow_id: query.flow_id || null,
        start_ts: from,
        end_ts: to,
        ...computeFrequency(perDay, lastDay, DEFAULT_WINDOW_DAYS),
      },
    };
  },
});
