/**
 * Attaching policies to an environment and detaching them (semantics 5.5). Attaching an attached policy and detaching
 * one that is not attached have no effect and are not errors.
 */
import { Type } from "typebox";
import { badRequest, invalid } from "../../errors.ts";
import { json, optionalJson } from "../../http/operation.ts";
import { Closed, Message, Ok, Repeated, named } from "../../http/schema.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { reevaluateForPolicies } from "./record-report.ts";
import { MAX_LIST_ITEMS } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { EnvironmentPath, NoQuery } from "../paths.ts";
import { requirePolicyIds } from "../filters.ts";

const PolicyName = Type.String({ maxLength: MAX_NAME_CHARS });
const AttachPoliciesPutInput = named(
  "AttachPoliciesPutInput",
  Closed({
    policy_names: Type.Array(PolicyName, {
      maxItems: MAX_LIST_ITEMS,
      description: "Names of policies; all must exist",
    }),
  }),
);

/**
 * The active physical environment with this name.
 * @throws AppError not_found; 400 for a logical one, which has no policies of its own (semantics 6.3)
 */
function requirePhysical({ store, organization }: ReadingContext, name: string): EnvironmentRow {
  const environment = store.environments.requireWritable(organization, name);
  if (environment.type === "logical")
    throw badRequest(
      `Environment '${name}' in organization '${organization.name}' is logical: attach policies to its members`,
    );
  return environment;
}

const responses = {
  404: {
    description: "No such environment or policy, or the environment has been archived. Nothing was changed",
    schema: Message,
  },
};

export const attachPolicyToEnv = operation({
  id: "attach_policy_to_env",
  method: "POST",
  path: "/environments/{org}/{env_name}/policies",
  tag: "Environments",
  summary: "Attach policies to an environment",
  description:
    "The latest version of each policy applies, also when new versions are added. The latest snapshot is " +
    "re-evaluated at once, and the result becomes a new snapshot. A policy that is already attached keeps its " +
    "position; if all are attached, nothing changes.",
  permission: "environment:write",
  audit: "environment.policies_attached",
  params: EnvironmentPath,
  query: NoQuery,
  body: json(AttachPoliciesPutInput),
  responses: { 200: { description: "The policies are attached", schema: Ok }, ...responses },
  example: { params: { org: "acme", env_name: "production" }, body: { policy_names: ["production"] } },
  handle(context, { params, body }) {
    const environment = requirePhysical(context, params.env_name);
    const changed = context.store.environments.attachPolicies(
      environment.id,
      requirePolicyIds(context, body.policy_names),
    );
    if (changed) reevaluateForPolicies(context, environment.id);
    context.note({ environment: environment.name, policies: body.policy_names, changed });
    return { status: 200, body: "OK" };
  },
});

export const detachPolicyFromEnv = operation({
  id: "detach_policy_from_env",
  method: "DELETE",
  path: "/environments/{org}/{env_name}/policies",
  tag: "Environments",
  summary: "Detach policies from an environment",
  description:
    "Names can be in the body, in the query or in both. The latest snapshot is re-evaluated at once, and the result " +
    "becomes a new snapshot; without policies the state is unknown. Detaching a policy that is not attached changes " +
    "nothing.",
  permission: "environment:write",
  audit: "environment.policies_detached",
  params: EnvironmentPath,
  query: Closed({
    policy_names: Repeated(PolicyName, { description: "For clients that send no body with DELETE" }),
  }),
  body: optionalJson(AttachPoliciesPutInput),
  responses: { 200: { description: "The policies are not attached", schema: Ok }, ...responses },
  example: { params: { org: "acme", env_name: "production" }, body: { policy_names: ["production"] } },
  handle(context, { params, query, body }) {
    if (!body && !query.policy_names) throw invalid({ policy_names: "Field required" });
    const names = [...(body?.policy_names ?? []), ...(query.policy_names ?? [])];
    const environment = requirePhysical(context, params.env_name);
    const changed = context.store.environments.detachPolicies(environment.id, requirePolicyIds(context, names));
    if (changed) reevaluateForPolicies(context, environment.id);
    context.note({ environment: environment.name, policies: names, changed });
    return { status: 200, body: "OK" };
  },
});
