/** Members of logical environments: physical environments that a logical one includes. */
import { badRequest, invalid } from "../../errors.ts";
import { json } from "../../http/operation.ts";
import { Message, Ok } from "../../http/schema.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { resolveNames } from "../names.ts";
import { EnvironmentPath, NoQuery } from "../paths.ts";
import { JoinPhysicalToLogicalPutInput } from "./environment-shapes.ts";

/** The error text for a logical environment that was named as a member. */
const describePhysicalOnly = (name: string): string =>
  `Environment '${name}' is logical: only physical environments can be included`;

/** The active logical environment with this name. @throws AppError not_found; 400 for a physical one */
export function requireLogical({ store, organization }: ReadingContext, name: string): EnvironmentRow {
  const environment = store.environments.requireWritable(organization, name);
  if (environment.type !== "logical")
    throw badRequest(
      `Environment '${name}' in organization '${organization.name}' is not logical: it is of type ` +
        `'${environment.type}' and includes no other environments`,
    );
  return environment;
}

/**
 * Keys of active physical environments, in the given order; two names of one environment are one member.
 * @throws AppError invalid on the field, with all names that cannot be members
 */
export const requireMemberKeys = (
  { store, organization }: ReadingContext,
  field: string,
  names: readonly string[],
): number[] =>
  resolveNames(field, names, (name) => {
    const { id, type } = store.environments.requireWritable(organization, name);
    if (type === "logical") throw badRequest(describePhysicalOnly(name));
    return id;
  });

export const joinPhysicalToLogical = operation({
  id: "join_physical_to_logical",
  method: "PUT",
  path: "/environments/{org}/{env_name}/join",
  tag: "Environments",
  summary: "Add a physical environment to a logical one",
  description: "The environment becomes the last member. Adding a member again changes nothing.",
  permission: "environment:write",
  audit: "environment.joined",
  params: EnvironmentPath,
  query: NoQuery,
  body: json(JoinPhysicalToLogicalPutInput),
  responses: {
    200: { description: "The environment is a member", schema: Ok },
    404: { description: "One of the environments does not exist or has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "all-production" }, body: { physical_env_name: "production" } },
  handle(context, { params, body }) {
    const { store, organization, note } = context;
    const logical = requireLogical(context, params.env_name);
    const member = store.environments.requireWritable(organization, body.physical_env_name);
    if (member.type === "logical")
      throw invalid({
        physical_env_name: `${describePhysicalOnly(body.physical_env_name)} [input: ${body.physical_env_name}]`,
      });
    const added = store.environments.addMember(logical.id, member.id);
    note({ environment: logical.name, member: member.name, added });
    return { status: 200, body: "OK" };
  },
});
