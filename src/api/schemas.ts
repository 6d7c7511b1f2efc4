/** The published JSON Schemas of the documents that users write. Public, because they hold no data. */
import { Type } from "typebox";
import { POLICY_SCHEMA } from "../domain/policy/schema.ts";
import { TEMPLATE_SCHEMA } from "../domain/flow-template/template.ts";
import { NO_BODY } from "../http/operation.ts";
import { Closed } from "../http/schema.ts";
import { operation } from "./context.ts";

/** The operation that serves a JSON Schema. */
const schemaOperation = ({
  schema,
  ...declaration
}: {
  id: string;
  path: string;
  summary: string;
  description: string;
  schema: object;
}) =>
  operation({
    ...declaration,
    method: "GET",
    tag: "Schemas",
    permission: "public",
    audit: null,
    params: Closed({}),
    query: Closed({}),
    body: NO_BODY,
    responses: {
      200: { description: "A JSON Schema (2020-12)", schema: Type.Record(Type.String(), Type.Unknown()) },
    },
    example: {},
    handle: () => ({ status: 200, body: schema }),
  });

export const environmentPolicySchema = schemaOperation({
  id: "environment_policy_schema_v1",
  path: "/schemas/environment-policy/v1",
  summary: "Read the JSON Schema of environment policies",
  description:
    "Describes the parsed YAML of a policy file, for editors and for validation before an upload. Requires no " +
    "authentication.",
  schema: POLICY_SCHEMA,
});

export const flowTemplateSchema = schemaOperation({
  id: "flow_template_schema_v1",
  path: "/schemas/flow-template/v1",
  summary: "Read the JSON Schema of flow templates",
  description:
    "Describes the parsed YAML of a flow template, for editors and for validation before an upload. Requires no " +
    "authentication.",
  schema: TEMPLATE_SCHEMA,
});
