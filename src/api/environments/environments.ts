/**
 * Environments: what is said about them, the members of logical ones, and the policies given with them. PUT is an
 * upsert by name that always answers 201; what is not sent, or sent as null, stays as it is.
 */
import { Type } from "typebox";
import { logicalState } from "../../domain/compliance/environment.ts";
import { ENVIRONMENT_NAME } from "../../domain/names.ts";
import { badRequest, invalid } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Deprecated, Maybe, Message, Nullable, Ok, OneOf, Repeated, named } from "../../http/schema.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { EnvironmentView } from "../../store/environments/environment-lists.ts";
import { ENVIRONMENT_TYPES } from "../../store/environments/environments.ts";
import type { EnvironmentRow, EnvironmentType } from "../../store/environments/environments.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { keysNamed } from "../names.ts";
import { Counts, counts, pages } from "../paging.ts";
import { reevaluateForPolicies } from "./record-report.ts";
import { FIRST_DEPRECATIONS, LIST_LENGTH, NAME_LENGTH, Name, TEXT_LENGTH } from "../../contract/shapes.ts";
import { Tags } from "../../contract/tags.ts";
import { tagFilters, policyKeys, isSpaceFilter, archivedWith } from "../filters.ts";
import { EnvironmentPath, OrgPath, NoQuery } from "../paths.ts";

const EnvironmentKind = named("EnvironmentType", OneOf(ENVIRONMENT_TYPES));
const Names = (description: string) =>
  Maybe(Type.Array(Type.String({ maxLength: NAME_LENGTH }), { maxItems: LIST_LENGTH, description }));
const FLAG = { description: "Returned as sent; without effect" };
/** Semantics 11 has the day on which the one lost its effect. */
const IncludeScaling = Deprecated("2026-08-19", Maybe(Type.Boolean(FLAG)));
const RequireProvenance = Deprecated(FIRST_DEPRECATIONS, Maybe(Type.Boolean(FLAG)));

const lists = {
  included_environments: Names(
    "Names of the physical environments in a logical one, in this order; null or not sent: they stay as they are",
  ),
  policies: Names(
    "Names of all policies that are attached to a physical environment; null or not sent: they stay as they are",
  ),
};

const CreateEnvironmentPutInput = named(
  "CreateEnvironmentPutInput",
  Closed({
    name: Name(ENVIRONMENT_NAME, { description: "Name of the environment, unique in the organization" }),
    type: EnvironmentKind,
    description: Type.String({ maxLength: TEXT_LENGTH, description: "An empty one leaves the description as it is" }),
    include_scaling: IncludeScaling,
    require_provenance: RequireProvenance,
    ...lists,
  }),
);

const UpdateEnvironmentPatchInput = named(
  "UpdateEnvironmentPatchInput",
  Closed({
    description: Maybe(Type.String({ maxLength: TEXT_LENGTH, description: "An empty one clears the description" })),
    include_scaling: IncludeScaling,
    ...lists,
  }),
);

const RenameEnvironmentPutInput = named(
  "RenameEnvironmentPutInput",
  Closed({ new_name: Name(ENVIRONMENT_NAME, { description: "The new name, held by no other environment" }) }),
);

const JoinPhysicalToLogicalPutInput = named(
  "JoinPhysicalToLogicalPutInput",
  Closed({ physical_env_name: Type.String({ maxLength: NAME_LENGTH }) }),
);

const EnvironmentResponse = named(
  "EnvironmentResponse",
  Closed({
    org: Type.String(),
    name: Type.String(),
    type: EnvironmentKind,
    description: Type.String(),
    last_modified_at: Type.Number({
      description: "Epoch seconds; of a logical environment the newest among its members",
    }),
    last_reported_at: Nullable(
      Type.Number({ description: "Epoch seconds; null when nothing was reported, and for a logical environment" }),
    ),
    last_changed_at: Nullable(
      Type.Number({
        description: "Epoch seconds of the latest snapshot; of a logical environment the newest among its members",
      }),
    ),
    state: Nullable(
      Type.Boolean({
        description:
          "Verdict of the latest snapshot; null: unknown, because no policy is attached or nothing was reported",
      }),
    ),
    include_scaling: Type.Boolean({ deprecated: true, description: "Returned as sent; without effect" }),
    require_provenance: Type.Boolean({ deprecated: true, description: "Returned as sent; without effect" }),
    tags: Tags,
    policies: Type.Array(Type.String(), { description: "Names of the attached policies" }),
    included_environments: Nullable(
      Type.Array(Type.String(), {
        description: "Names of the members of a logical environment; null for a physical one",
      }),
    ),
  }),
);
const EnvironmentListPage = named(
  "EnvironmentListPage",
  Closed({ ...Counts, environments: Type.Array(EnvironmentResponse) }),
);

function presentEnvironment(row: EnvironmentView, org: string) {
  const members =
    row.members_json === null ? null : (JSON.parse(row.members_json) as [name: string, state: 0 | 1 | null][]);
  return {
    org,
    name: row.name,
    type: row.type,
    description: row.description,
    last_modified_at: row.last_modified_at,
    last_reported_at: row.last_reported_at,
    last_changed_at: row.last_changed_at,
    state:
      members === null ? fromSqlBoolean(row.state) : logicalState(members.map(([, state]) => fromSqlBoolean(state))),
    include_scaling: row.include_scaling === 1,
    require_provenance: row.require_provenance === 1,
    tags: JSON.parse(row.tags_json) as Record<string, string>,
    policies: JSON.parse(row.policies_json) as string[],
    included_environments: members === null ? null : members.map(([name]) => name),
  };
}

/**
 * Keys of active physical environments, in the order given; two names of one environment are one member.
 * @throws AppError invalid on `included_environments` with all names that cannot be members.
 */
const memberKeys = ({ store, organization }: OperationContext, names: readonly string[]): number[] =>
  keysNamed("included_environments", names, (name) => {
    const { id, type } = store.environments.requireWritable(organization, name);
    if (type === "logical") throw badRequest(onlyPhysical(name));
    return id;
  });

const onlyPhysical = (name: string): string =>
  `Environment '${name}' is logical: only physical environments can be included`;

type Lists = { included_environments?: readonly string[] | null; policies?: readonly string[] | null };
/** null: to be left as they are. */
type Wanted = { members: number[] | null; policies: number[] | null };

/**
 * The keys that the lists of a body stand for; a name given twice counts once. Reads only, so that a refusal comes
 * before the first write.
 * @throws AppError invalid for a list that the type does not have or a member that cannot be one, not_found for an
 * unknown policy.
 */
function wantedLists(
  context: OperationContext,
  type: EnvironmentType,
  { included_environments: members = null, policies = null }: Lists,
): Wanted {
  // Empty lists ask for nothing: clients send them for every type.
  if (members !== null && members.length > 0 && type !== "logical")
    throw invalid({
      included_environments: `Only a logical environment includes others: this one has the type '${type}'`,
    });
  if (policies !== null && policies.length > 0 && type === "logical")
    throw invalid({ policies: "Policies cannot be attached to a logical environment" });
  return { members: members && memberKeys(context, members), policies: policies && policyKeys(context, policies) };
}

function applyLists(context: OperationContext, environmentId: number, { members, policies }: Wanted): void {
  const { environments } = context.store;
  if (members) environments.setMembers(environmentId, members);
  if (policies && environments.setPolicies(environmentId, policies)) reevaluateForPolicies(context, environmentId);
}

export const createEnv = operation({
  id: "create_env",
  method: "PUT",
  path: "/environments/{org}",
  tag: "Environments",
  summary: "Create or update an environment",
  description:
    "Creates the environment, or changes the one of that name: an empty description, and what is null or not sent, stays as it is. The type never changes. " +
    "A name that an archived environment had is free, also for another type.",
  permission: "environment:create",
  audit: "environment.put",
  params: OrgPath,
  query: NoQuery,
  body: json(CreateEnvironmentPutInput),
  responses: {
    201: { description: "Created or updated", schema: Ok },
    404: {
      description: "A policy does not exist, or the name is that of an archived environment, suffix included",
      schema: Message,
    },
  },
  example: {
    params: { org: "acme" },
    body: { name: "production", type: "K8S", description: "The production cluster", policies: ["production"] },
  },
  handle(context, { body }) {
    const { store, organization, note } = context;
    const { environments } = store;
    const existing =
      environments.holder(organization.id, body.name) && environments.requireWritable(organization, body.name);
    if (existing && existing.type !== body.type)
      throw invalid({
        type: `The type of an environment cannot be changed: this one has the type '${existing.type}' [input: ${body.type}]`,
      });
    const wanted = wantedLists(context, body.type, body);
    const fields = {
      description: body.description || (existing?.description ?? ""),
      includeScaling: body.include_scaling ?? existing?.include_scaling === 1,
      requireProvenance: body.require_provenance ?? existing?.require_provenance === 1,
    };
    if (existing) environments.update(existing, fields);
    const { id } = existing ?? environments.create(organization.id, { name: body.name, type: body.type, ...fields });
    applyLists(context, id, wanted);
    note({ environment: body.name, created: !existing });
    return { status: 201, body: "OK" };
  },
});

export const updateEnv = operation({
  id: "update_env",
  method: "PATCH",
  path: "/environments/{org}/{env_name}",
  tag: "Environments",
  summary: "Change an environment",
  description:
    "Changes the fields that are sent and not null; an empty description clears it, an empty list empties the list.",
  permission: "environment:write",
  audit: "environment.updated",
  params: EnvironmentPath,
  query: NoQuery,
  body: json(UpdateEnvironmentPatchInput),
  responses: {
    200: { description: "Changed", schema: Ok },
    404: { description: "No such environment, it has been archived, or a policy does not exist", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" }, body: { description: "The production cluster" } },
  handle(context, { params, body, sentFields }) {
    const { store, organization, note } = context;
    const environment = store.environments.requireWritable(organization, params.env_name);
    const wanted = wantedLists(context, environment.type, body);
    store.environments.update(environment, {
      description: body.description ?? environment.description,
      includeScaling: body.include_scaling ?? environment.include_scaling === 1,
      requireProvenance: environment.require_provenance === 1,
    });
    applyLists(context, environment.id, wanted);
    note({ environment: environment.name, fields: [...sentFields] });
    return { status: 200, body: "OK" };
  },
});

export const getEnvironment = operation({
  id: "get_environment",
  method: "GET",
  path: "/environments/{org}/{env_name}",
  tag: "Environments",
  summary: "Read an environment",
  description: "An archived environment is found under its suffixed name only.",
  permission: "environment:read",
  audit: null,
  params: EnvironmentPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The environment", schema: EnvironmentResponse },
    404: { description: "No such environment, or it has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" } },
  handle({ store, organization }, { params }) {
    const { id } = store.environments.require(organization, params.env_name);
    return { status: 200, body: presentEnvironment(store.environmentLists.view(id), organization.name) };
  },
});

const PAGES = pages({ perPage: 15, most: 50, onRequest: true });

export const listEnvs = operation({
  id: "list_envs",
  method: "GET",
  path: "/environments/{org}",
  tag: "Environments",
  summary: "List environments",
  description:
    "The active environments of the organization: a bare list of all of them, or with `page` or `per_page` one page in an envelope.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGES.query,
    sort: Type.Optional(OneOf(["name", "last_modified_at", "last_changed_at"], { default: "name" })),
    sort_direction: Type.Optional(OneOf(["asc", "desc"], { default: "asc" })),
    space_id: Repeated(Type.String(), {
      description: "Environments of these spaces and the spaces below them; any may match",
    }),
    name: Type.Optional(Type.String({ description: "A part of the name, in any case" })),
    type: Repeated(EnvironmentKind, { description: "Any may match" }),
    tag: Repeated(Type.String(), { description: "`key` or `key:value`; all must match" }),
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "All environments, or one page of them",
      schema: Type.Union([EnvironmentListPage, Type.Array(EnvironmentResponse)]),
    },
  },
  example: { params: { org: "acme" }, query: { page: "1", name: "prod", type: "K8S", tag: "team:payments" } },
  handle({ store, organization }, { query }) {
    const filter = { search: query.name ?? "", types: query.type ?? null, tags: tagFilters(query.tag) };
    const order = { by: query.sort ?? "name", direction: query.sort_direction ?? "asc" };
    // Every environment is at the root as long as there are no spaces, so a filter by space finds nothing.
    const nowhere = isSpaceFilter(query.space_id);
    const window = PAGES.windowIfAsked(query);
    const rows = nowhere ? [] : store.environmentLists.list(organization.id, filter, order, window);
    const environments = rows.map((row) => presentEnvironment(row, organization.name));
    if (!window) return { status: 200, body: environments };
    const total = nowhere ? 0 : store.environmentLists.count(organization.id, filter);
    return { status: 200, body: { ...counts(total, window.page, window.perPage), environments } };
  },
});

export const archiveEnv = operation({
  id: "archive_env",
  method: "PUT",
  path: "/environments/{org}/{env_name}/archive",
  tag: "Environments",
  summary: "Archive an environment",
  description:
    "The environment leaves the lists and the logical environments that include it, and goes on, read-only, as `<name>-archived-at-<epoch seconds>`; its snapshots stay. Its name is free for another environment. Actions go on without it; those that it was the only environment of are deleted.",
  permission: "environment:write",
  audit: "environment.archived",
  params: EnvironmentPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Archived", schema: Ok },
    404: { description: "No such environment, or it has been archived before", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" } },
  handle({ store, organization, note }, { params }) {
    const environment = store.environments.requireWritable(organization, params.env_name);
    const actions = store.actions.placeArchived("env", environment.id);
    note({
      environment: environment.name,
      archived_as: store.environments.archive(environment),
      ...archivedWith(actions),
    });
    return { status: 200, body: "OK" };
  },
});

export const renameEnvironment = operation({
  id: "rename_environment",
  method: "PUT",
  path: "/environments/{org}/{env_name}/rename",
  tag: "Environments",
  summary: "Rename an environment",
  description: "The old name keeps working until another environment takes it.",
  permission: "environment:write",
  audit: "environment.renamed",
  params: EnvironmentPath,
  query: NoQuery,
  body: json(RenameEnvironmentPutInput),
  responses: {
    200: { description: "Renamed", schema: Ok },
    404: { description: "No such environment, or it has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" }, body: { new_name: "production-eu" } },
  handle({ store, organization, note }, { params, body }) {
    const environment = store.environments.requireWritable(organization, params.env_name);
    const holder = store.environments.holder(organization.id, body.new_name);
    if (holder && holder.id !== environment.id)
      throw invalid({ new_name: `An environment with this name already exists [input: ${body.new_name}]` });
    if (!holder) store.environments.rename(environment, body.new_name);
    note({ from: environment.name, to: body.new_name });
    return { status: 200, body: "OK" };
  },
});

/** The active logical environment of that name. @throws AppError not_found; 400 for a physical one. */
function requireLogical({ store, organization }: OperationContext, name: string): EnvironmentRow {
  const environment = store.environments.requireWritable(organization, name);
  if (environment.type !== "logical")
    throw badRequest(
      `Environment '${name}' in organization '${organization.name}' is not logical: it has the type '${environment.type}' and includes no others`,
    );
  return environment;
}

export const joinPhysicalToLogical = operation({
  id: "join_physical_to_logical",
  method: "PUT",
  path: "/environments/{org}/{env_name}/join",
  tag: "Environments",
  summary: "Put a physical environment into a logical one",
  description: "It becomes the last member; joining a member again changes nothing.",
  permission: "environment:write",
  audit: "environment.joined",
  params: EnvironmentPath,
  query: NoQuery,
  body: json(JoinPhysicalToLogicalPutInput),
  responses: {
    200: { description: "It is a member", schema: Ok },
    404: { description: "One of the two does not exist or has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "all-production" }, body: { physical_env_name: "production" } },
  handle(context, { params, body }) {
    const { store, organization, note } = context;
    const logical = requireLogical(context, params.env_name);
    const member = store.environments.requireWritable(organization, body.physical_env_name);
    if (member.type === "logical")
      throw invalid({
        physical_env_name: `${onlyPhysical(body.physical_env_name)} [input: ${body.physical_env_name}]`,
      });
    const added = store.environments.addMember(logical.id, member.id);
    note({ environment: logical.name, member: member.name, added });
    return { status: 200, body: "OK" };
  },
});
