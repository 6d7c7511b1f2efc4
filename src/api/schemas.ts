/** The published JSON Schemas of the documents that users write. Open to everybody: they hold no data. */
import { Type } from "typebox";
import { POLICY_SCHEMA } from "../domain/policy/schema.ts";
import { TEMPLATE_SCHEMA } from "../domain/flow-template/template.ts";
import { NO_BODY } from "../http/operation.ts";
import { Closed } from "../http/schema.ts";
import { operation } from "./context.ts";

const Document = Type.Record(Type.String(), Type.Unknown());

export const environmentPolicySchema = operation({
  id: "environment_policy_schema_v1",
  method: "GET",
  path: "/schemas/environment-policy/v1",
  tag: "Schemas",
  summary: "Read the JSON Schema of environment policies",
  description: "Describes the parsed YAML of a policy file, for editors and checks before an upload. Needs no login.",
  permission: "public",
  audit: null,
  params: Closed({}),
  query: Closed({}),
  body: NO_BODY,
  responses: { 200: { description: "A JSON Schema (2020-12)", schema: Document } },
  example: {},
  handle: () => ({ status: 200, body: POLICY_SCHEMA }),
});

export const flowTemplateSchema = operation({
  id: "flow_template_schema_v1",
  method: "GET",
  path: "/schemas/flow-template/v1",
  tag: "Schemas",
  summary: "Read the JSON Schema of flow templates",
  description: "Describes the parsed YAML of a flow template, for editors and checks before an upload. Needs no login.",
  permission: "public",
  audit: null,
  params: Closed({}),
  query: Closed({}),
  body: NO_BODY,
  responses: { 200: { description: "A JSON Schema (2020-12)", schema: Document } },
  example: {},
  handle: () => ({ status: 200, body: TEMPLATE_SCHEMA }),
});
