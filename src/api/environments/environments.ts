/**
 * Environments: creating, changing, listing, archiving and renaming them. PUT is an upsert by name that always returns
 * 201; fields that are omitted or null keep their value.
 */
import { Type } from "typebox";
import { invalid } from "../../errors.ts";
import { spendRow } from "../../contract/large-json.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, ExactlyOne, Message, Ok, OneOf, Repeated } from "../../http/schema.ts";
import type { EnvironmentType } from "../../store/environments/environments.ts";
import { operation, largeRead } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { pageCounts, definePaging, totalIn } from "../paging.ts";
import { MAX_WITH_CAUSES, presentEnvironmentCauses } from "./environment-causes.ts";
import { reevaluateForPolicies } from "./record-report.ts";
import {
  CreateEnvironmentPutInput,
  EnvironmentKind,
  EnvironmentListPage,
  EnvironmentResponse,
  RenameEnvironmentPutInput,
  UpdateEnvironmentPatchInput,
  presentCounts,
  presentEnvironment,
} from "./environment-shapes.ts";
import { requireMemberKeys } from "./logical-environments.ts";
import { parseTagFilters, requirePolicyIds, hasSpaceFilter, archivedActionsDetail } from "../filters.ts";
import { EnvironmentPath, OrgPath, NoQuery } from "../paths.ts";

type ListsInput = { included_environments?: readonly string[] | null; policies?: readonly string[] | null };
/** Keys; null: unchanged. */
type Lists = { members: number[] | null; policies: number[] | null };

/**
 * Resolves the names in the lists of a body; a repeated name counts once. Reads only, so that a request is refused
 * before its first write.
 * @throws AppError invalid for a list that the type does not have and for impossible members, not_found for an unknown
 * policy
 */
function resolveLists(
  context: OperationContext,
  type: EnvironmentType,
  { included_environments: members = null, policies = null }: ListsInput,
): Lists {
  // Clients send empty lists for every type.
  if (members !== null && members.length > 0 && type !== "logical")
    throw invalid({
      included_environments: `Only a logical environment includes others: this one is of type '${type}'`,
    });
  if (policies !== null && policies.length > 0 && type === "logical")
    throw invalid({ policies: "Policies cannot be attached to a logical environment" });
  return {
    members: members && requireMemberKeys(context, "included_environments", members),
    policies: policies && requirePolicyIds(context, policies),
  };
}

function applyLists(context: OperationContext, environmentId: number, { members, policies }: Lists): void {
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
    "Creates the environment, or updates the one with this name. Fields that are null, omitted, or an empty " +
    "description keep their value. The type cannot change. The former name of an archived environment is free, for " +
    "any type.",
  permission: "environment:create",
  audit: "environment.put",
  params: OrgPath,
  query: NoQuery,
  body: json(CreateEnvironmentPutInput),
  responses: {
    201: { description: "Created or updated", schema: Ok },
    404: {
      description: "No such policy, or the name is the suffixed name of an archived environment",
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
      environments.findHolder(organization.id, body.name) && environments.requireWritable(organization, body.name);
    if (existing && existing.type !== body.type)
      throw invalid({
        type:
          `The type of an environment cannot be changed: this one is of type '${existing.type}' ` +
          `[input: ${body.type}]`,
      });
    const lists = resolveLists(context, body.type, body);
    const fields = {
      description: body.description || (existing?.description ?? ""),
      includeScaling: body.include_scaling ?? existing?.include_scaling === 1,
      requireProvenance: body.require_provenance ?? existing?.require_provenance === 1,
    };
    if (existing) environments.update(existing, fields);
    const { id } = existing ?? environments.create(organization.id, { name: body.name, type: body.type, ...fields });
    applyLists(context, id, lists);
    note({ environment: body.name, created: !existing });
    return { status: 201, body: "OK" };
  },
});

export const updateEnv = operation({
  id: "update_env",
  method: "PATCH",
  path: "/environments/{org}/{env_name}",
  tag: "Environments",
  summary: "Update an environment",
  description:
    "Changes the fields that are sent and not null. An empty description clears the description, an empty list " +
    "empties the list.",
  permission: "environment:write",
  audit: "environment.updated",
  params: EnvironmentPath,
  query: NoQuery,
  body: json(UpdateEnvironmentPatchInput),
  responses: {
    200: { description: "Updated", schema: Ok },
    404: { description: "No such environment or policy, or the environment has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" }, body: { description: "The production cluster" } },
  handle(context, { params, body, sentFields }) {
    const { store, organization, note } = context;
    const environment = store.environments.requireWritable(organization, params.env_name);
    const lists = resolveLists(context, environment.type, body);
    store.environments.update(environment, {
      description: body.description ?? environment.description,
      includeScaling: body.include_scaling ?? environment.include_scaling === 1,
      requireProvenance: environment.require_provenance === 1,
    });
    applyLists(context, environment.id, lists);
    note({ environment: environment.name, fields: [...sentFields] });
    return { status: 200, body: "OK" };
  },
});

export const getEnvironment = largeRead({
  id: "get_environment",
  method: "GET",
  path: "/environments/{org}/{env_name}",
  tag: "Environments",
  summary: "Read an environment",
  description: "An archived environment is available under its suffixed name only.",
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
  handle(context, { params }) {
    const { store, organization } = context;
    const row = store.environments.require(organization, params.env_name);
    spendRow(context, row);
    return { status: 200, body: presentEnvironment(store.environmentLists.get(row.id), organization.name) };
  },
});

const PAGES = definePaging({ perPage: 15, maxPerPage: 50, optional: true });

export const listEnvs = largeRead({
  id: "list_envs",
  method: "GET",
  path: "/environments/{org}",
  tag: "Environments",
  summary: "List environments",
  description:
    "The active environments of the organization: all of them as a plain list or, with `page` or `per_page`, one " +
    "page in an envelope.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGES.query,
    sort: Type.Optional(
      OneOf(["name", "last_modified_at", "last_changed_at", "state"], {
        default: "name",
        description: "`state`: those that fail first, then those that are compliant",
      }),
    ),
    sort_direction: Type.Optional(OneOf(["asc", "desc"], { default: "asc" })),
    space_id: Repeated(Type.String(), {
      description: "Environments in any of these spaces or the spaces below them",
    }),
    name: Type.Optional(Type.String({ description: "Part of the name; case-insensitive" })),
    type: Repeated(EnvironmentKind, { description: "Environments of any of these types" }),
    tag: Repeated(Type.String(), { description: "`key` or `key:value`; all must match" }),
    state: Type.Optional(OneOf(["COMPLIANT", "NON-COMPLIANT", "UNKNOWN"], { description: "Only environments in it" })),
    counts: Type.Optional(
      Type.Boolean({
        default: false,
        description: "Adds `artifact_compliance_count` to each environment, and `states` to a page",
      }),
    ),
    causes: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          "Adds `causes` and `further_causes` to each environment that is not compliant, the first " +
          `${MAX_WITH_CAUSES} of the answer: why the artifacts fail that changed last, or which members fail`,
      }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "All environments, or one page of them",
      schema: ExactlyOne([EnvironmentListPage, Type.Array(EnvironmentResponse)]),
    },
  },
  example: { params: { org: "acme" }, query: { page: "1", name: "prod", type: "K8S", tag: "team:payments" } },
  handle({ store, organization }, { query }) {
    const filter = {
      search: query.name ?? "",
      types: query.type ?? null,
      tags: parseTagFilters(query.tag),
      state: query.state ?? null,
    };
    const order = { by: query.sort ?? "name", direction: query.sort_direction ?? "asc" };
    // There are no spaces: every environment is at the root, and a filter by space matches nothing.
    const isEmpty = hasSpaceFilter(query.space_id);
    const window = PAGES.optionalWindow(query);
    const rows = isEmpty ? [] : store.environmentLists.list(organization.id, filter, { order, window });
    const counts =
      query.counts &&
      store.snapshotPages.countRunning(
        organization.id,
        rows.map(({ name }) => name),
      );
    let withCauses = query.causes === true ? MAX_WITH_CAUSES : 0;
    const environments = rows.map((row) => {
      const shown = presentEnvironment(row, organization.name);
      const failing = shown.state === false && withCauses-- > 0;
      return {
        ...shown,
        ...(counts ? presentCounts(counts.get(row.name)) : {}),
        ...(failing ? presentEnvironmentCauses(store, organization.id, row) : {}),
      };
    });
    if (!window) return { status: 200, body: environments };
    const states = store.environmentLists.countStates(organization.id, filter);
    const total = isEmpty ? 0 : totalIn(states, query.state);
    return {
      status: 200,
      body: { ...pageCounts(total, window.page, window.perPage), ...(query.counts ? { states } : {}), environments },
    };
  },
});

export const archiveEnv = operation({
  id: "archive_env",
  method: "PUT",
  path: "/environments/{org}/{env_name}/archive",
  tag: "Environments",
  summary: "Archive an environment",
  description:
    "Removes the environment from lists and from the logical environments that include it. It stays readable, with " +
    "its snapshots, as `<name>-archived-at-<epoch seconds>`; its name is free for another environment. Actions " +
    "continue without it; an action on this environment alone is deleted.",
  permission: "environment:write",
  audit: "environment.archived",
  params: EnvironmentPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Archived", schema: Ok },
    404: { description: "No such environment, or it has already been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" } },
  handle({ store, organization, note }, { params }) {
    const environment = store.environments.requireWritable(organization, params.env_name);
    const actions = store.actions.removeArchivedPlace("env", environment.id);
    note({
      environment: environment.name,
      archived_as: store.environments.archive(environment),
      ...archivedActionsDetail(actions),
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
    const holder = store.environments.findHolder(organization.id, body.new_name);
    if (holder && holder.id !== environment.id)
      throw invalid({ new_name: `An environment with this name already exists [input: ${body.new_name}]` });
    if (!holder) store.environments.rename(environment, body.new_name);
    note({ from: environment.name, to: body.new_name });
    return { status: 200, body: "OK" };
  },
});
