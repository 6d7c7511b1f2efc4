/**
 * The OpenAPI 3.1 document, derived from the operations. Named shapes become components; statuses that follow from the
 * kind of an operation (304, 400, 401, 403, 408, 413, 429) are filled in, so that no operation can forget them.
 */
import type { TSchema } from "typebox";
import { isOrgPermission } from "../domain/access.ts";
import type { AnyOperation, ResponseShape } from "./operation.ts";
import { compareRoutes } from "./route-order.ts";
import { Message, ValidationError, named } from "./schema.ts";
import { Type } from "typebox";

type Json = Record<string, unknown>;

export type DocumentFacts = { title: string; description: string; serverUrl: string; license: { name: string; identifier: string } };

/** The document as a plain value; unlisted and removed operations are left out. */
export function openApiDocument(operations: readonly AnyOperation<never>[], facts: DocumentFacts): Json {
  const components: Record<string, Json> = {};
  const published = operations
    .filter((operation) => operation.status !== "unlisted" && operation.status !== "removed")
    .sort((a, b) => compareRoutes(a.path, b.path) || a.method.localeCompare(b.method));
  const paths: Record<string, Json> = {};
  for (const operation of published) {
    const path = operation.path.replace(/\*\}/g, "}");
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: describe(operation, components) };
  }
  return {
    openapi: "3.1.0",
    info: { title: facts.title, version: "2.0", description: facts.description, license: facts.license },
    servers: [{ url: facts.serverUrl }],
    security: [{ HTTPBearer: [] }, { HTTPBasic: [] }],
    tags: [...new Set(published.map((operation) => operation.tag))].sort().map((name) => ({ name })),
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes: {
        HTTPBearer: { type: "http", scheme: "bearer", description: "An API key as bearer token." },
        HTTPBasic: { type: "http", scheme: "basic", description: "An API key as user name; the password is ignored." },
      },
    },
  };
}

function describe(operation: AnyOperation<never>, components: Record<string, Json>): Json {
  const open = operation.permission === "public" || operation.permission === "signed";
  const parameters = [
    ...parametersOf(operation.params, "path", operation, components),
    ...parametersOf(operation.query, "query", operation, components),
  ];
  return {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    ...describedAs(operation),
    ...(operation.deprecation ? { deprecated: true } : {}),
    ...(parameters.length ? { parameters } : {}),
    ...requestBody(operation, components),
    responses: responsesOf(operation, components),
    security: open ? [] : [{ HTTPBearer: [] }, { HTTPBasic: [] }],
    ...(open ? {} : { "x-permission": operation.permission }),
    ...(operation.feature ? { "x-beta": true, "x-feature": operation.feature } : {}),
  };
}

/** The description, with what a feature means for its operations. */
function describedAs({ description, feature }: AnyOperation<never>): Json {
  const beta = feature && `Beta: refused while the organization has its feature \`${feature}\` switched off.`;
  const text = [description, beta].filter(Boolean).join(" ");
  return text ? { description: text } : {};
}

function parametersOf(schema: TSchema, place: "path" | "query", operation: AnyOperation<never>, components: Record<string, Json>): Json[] {
  const { properties = {}, required = [] } = schema as unknown as { properties?: Record<string, TSchema>; required?: string[] };
  const examples: Record<string, string> = (place === "path" ? operation.example.params : operation.example.query) ?? {};
  return Object.entries(properties).map(([name, shape]) => ({
    name,
    in: place,
    // A query parameter with a default is in every validated query, and in no request that does not want it.
    required: place === "path" || (required.includes(name) && !("default" in shape)),
    ...("description" in shape ? { description: shape["description"] } : {}),
    schema: reference(shape, components),
    ...(examples[name] === undefined ? {} : { example: examples[name] }),
    ...((shape as Json)["x-repeated"] ? { style: "form", explode: true } : {}),
  }));
}

function requestBody(operation: AnyOperation<never>, components: Record<string, Json>): Json {
  const body = operation.body;
  if (body.kind === "none") return {};
  const example = operation.example.body === undefined ? {} : { example: operation.example.body };
  if (body.kind === "json")
    return { requestBody: { required: !body.optional, content: { "application/json": { schema: reference(body.schema, components), ...example } } } };
  const form = named(
    body.component,
    Type.Object({
      [body.part]: body.schema as TSchema,
      ...(body.file ? { [body.file.part]: Type.Optional(Type.String({ format: "binary", description: body.file.description })) } : {}),
    }),
  );
  return {
    requestBody: {
      required: true,
      content: {
        "multipart/form-data": {
          schema: reference(form, components),
          encoding: { [body.part]: { contentType: "application/json" } },
          ...(operation.example.body === undefined
            ? {}
            : { example: { [body.part]: operation.example.body, ...(operation.example.file && body.file ? { [body.file.part]: operation.example.file } : {}) } }),
        },
      },
    },
  };
}

/** All statuses of an operation with the shape of their body: declared ones and those that follow from its kind. */
export function responsesOf(operation: AnyOperation<never>, components: Record<string, Json>): Json {
  const all: Record<string, ResponseShape> = {};
  const add = (status: number, description: string, schema: TSchema | null): void => void (all[status] ??= { description, schema });
  Object.assign(all, operation.responses);
  const takesInput = operation.body.kind !== "none" || Object.keys(operation.query.properties).length > 0 || operation.path.includes("{");
  if (takesInput) add(400, "Something in the request is not valid; `errors` has one text per field", ValidationError);
  if (operation.permission !== "public") add(401, "No valid API key", Message);
  if (isOrgPermission(operation.permission))
    add(403, `The role does not allow it, ${operation.feature ? "the organization has the feature off, " : ""}or the organization is not visible to the caller`, Message);
  if (operation.body.kind !== "none") {
    add(408, "The body did not arrive in time", Message);
    add(413, "The body or one of its parts is larger than its limit", Message);
  }
  const read = operation.method === "GET" ? all[200] : undefined;
  if (read?.schema && read.contentType === undefined) add(304, "The caller has it already, as `If-None-Match` says", null);
  add(429, "Too many requests of this key or address, where the operator limits them; `Retry-After` says when to try again", Message);
  return Object.fromEntries(
    Object.entries(all).map(([status, { description, schema, contentType = "application/json", headers }]) => [
      status,
      {
        description,
        ...(headers ? { headers: Object.fromEntries(Object.entries(headers).map(([name, shape]) => [name, { schema: reference(shape, components) }])) } : {}),
        ...(schema ? { content: { [contentType]: { schema: reference(schema, components) } } } : {}),
      },
    ]),
  );
}

/** A schema as it stands in the document: named shapes by reference, kit keywords dropped. */
function reference(schema: TSchema, components: Record<string, Json>): Json {
  const component = (schema as Json)["x-component"] as string | undefined;
  if (component === undefined) return plain(schema, components) as Json;
  if (!(component in components)) {
    components[component] = {};
    components[component] = plain(schema, components) as Json;
  }
  return { $ref: `#/components/schemas/${component}` };
}

function plain(value: unknown, components: Record<string, Json>): unknown {
  if (Array.isArray(value)) return value.map((item) => child(item, components));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => key !== "x-component" && key !== "x-repeated")
      .map(([key, item]) => [key, child(item, components)]),
  );
}

const child = (value: unknown, components: Record<string, Json>): unknown =>
  typeof value === "object" && value !== null && "x-component" in value ? reference(value as TSchema, components) : plain(value, components);
