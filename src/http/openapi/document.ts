/**
 * The OpenAPI 3.1 document, derived from the operations. Named shapes become components; statuses and headers that
 * follow from the kind of an operation are filled in, so that no operation can forget them.
 *
 * The document is input for generators of clients, which understand less than JSON Schema has words for. What means the
 * same is therefore written in the way that openapi-python-client, oapi-codegen and openapi-typescript all read (`make
 * openapi-check`).
 */
import { Type } from "typebox";
import type { TSchema } from "typebox";
import { isOrgPermission } from "../../domain/access.ts";
import { deprecationsOf } from "../deprecation.ts";
import { createSchemaWriter, sentenceOf } from "./schemas.ts";
import type { SchemaWriter } from "./schemas.ts";
import type { AnyOperation, ResponseShape } from "../operation.ts";
import { compareRoutes } from "../route-order.ts";
import { Closed, Message, ValidationError, named } from "../schema.ts";

type Json = Record<string, unknown>;

export type DocumentFacts = {
  title: string;
  description: string;
  serverUrl: string;
  license: { name: string; identifier: string };
  contact: { name: string };
  /** What each tag of the operations stands for. */
  tags: Readonly<Record<string, string>>;
  /** Messages that the server sends by itself. */
  webhooks: readonly OutgoingWebhook[];
};

/** A message that this server sends to an address that somebody named. Every 2xx accepts it. */
export type OutgoingWebhook = {
  id: string;
  tag: string;
  summary: string;
  description: string;
  payload: TSchema;
  example: unknown;
};

/** The document as a plain value; unlisted and removed operations are left out. */
export function openApiDocument(operations: readonly AnyOperation<never>[], facts: DocumentFacts): Json {
  const schemas = createSchemaWriter();
  const published = operations
    .filter((operation) => operation.status !== "unlisted" && operation.status !== "removed")
    .sort((a, b) => compareRoutes(a.path, b.path) || a.method.localeCompare(b.method));
  // All requests before the first answer: a component that stands in both is published with the limits of requests.
  const requests = published.map((operation) => requestOf(operation, schemas));
  const webhooks = facts.webhooks.map((webhook) => [webhook.id, { post: describeWebhook(webhook, schemas) }] as const);
  const paths: Record<string, Json> = {};
  for (const [index, operation] of published.entries()) {
    const path = operation.path.replace(/\*\}/g, "}");
    const described = {
      ...describe(operation),
      ...requests[index],
      responses: responsesOf(operation, schemas),
      ...access(operation),
    };
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: described };
  }
  const responses = Object.fromEntries(
    Object.entries(SHARED).map(([name, shape]: [string, Shared]) => [
      name,
      describeResponse(shape, shape.headers ?? {}, schemas),
    ]),
  );
  const tags = [...new Set([...published, ...facts.webhooks].map(({ tag }) => tag))].sort();
  return {
    openapi: "3.1.0",
    info: {
      title: facts.title,
      version: "2.0",
      description: facts.description,
      contact: facts.contact,
      license: facts.license,
    },
    servers: [{ url: facts.serverUrl }],
    security: KEYS,
    tags: tags.map((name) => ({ name, ...(facts.tags[name] === undefined ? {} : { description: facts.tags[name] }) })),
    paths,
    ...(webhooks.length > 0 ? { webhooks: Object.fromEntries(webhooks) } : {}),
    components: {
      schemas: Object.fromEntries(Object.entries(schemas.components).sort(([a], [b]) => (a < b ? -1 : 1))),
      responses,
      headers: HEADERS,
      securitySchemes: {
        HTTPBearer: { type: "http", scheme: "bearer", description: "An API key as bearer token." },
        HTTPBasic: { type: "http", scheme: "basic", description: "An API key as user name; the password is ignored." },
      },
    },
  };
}

const KEYS = [{ HTTPBearer: [] }, { HTTPBasic: [] }];

const isOpen = ({ permission }: AnyOperation<never>): boolean => permission === "public" || permission === "signed";

function describe(operation: AnyOperation<never>): Json {
  return {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    ...describedAs(operation),
    ...(operation.deprecation ? { deprecated: true } : {}),
  };
}

const access = (operation: AnyOperation<never>): Json => ({
  security: isOpen(operation) ? [] : KEYS,
  ...(isOpen(operation) ? {} : { "x-permission": operation.permission }),
  ...(operation.feature ? { "x-beta": true, "x-feature": operation.feature } : {}),
});

/** The description, with what a feature means for its operations, and since when it is deprecated. */
function describedAs({ description, feature, deprecation }: AnyOperation<never>): Json {
  const beta = feature && `Beta: refused while the organization has its feature \`${feature}\` switched off.`;
  const text = [description, beta, deprecation && `Deprecated since ${deprecation.since}.`].filter(Boolean).join(" ");
  return text ? { description: text } : {};
}

/** Parameters and body. */
function requestOf(operation: AnyOperation<never>, schemas: SchemaWriter): Json {
  const parameters = [...parametersOf(operation, "path", schemas), ...parametersOf(operation, "query", schemas)];
  return { ...(parameters.length > 0 ? { parameters } : {}), ...requestBody(operation, schemas) };
}

function parametersOf(operation: AnyOperation<never>, place: "path" | "query", schemas: SchemaWriter): Json[] {
  const shapes: TSchema = place === "path" ? operation.params : operation.query;
  const { properties = {}, required = [] } = shapes as unknown as {
    properties?: Record<string, TSchema>;
    required?: string[];
  };
  const examples: Record<string, string> =
    (place === "path" ? operation.example.params : operation.example.query) ?? {};
  const published = Object.entries(properties).filter(([, shape]) => !(shape as Json)["x-unpublished"]);
  return published.map(([name, shape]) => {
    const { description, deprecated, ...rest } = shape as Json;
    const example = examples[name];
    return {
      name,
      in: place,
      // A query parameter with a default is in every validated query, and in no request that does not want it.
      required: place === "path" || (required.includes(name) && !("default" in shape)),
      ...(description === undefined ? {} : { description: sentenceOf(shape) }),
      ...(deprecated === true ? { deprecated } : {}),
      schema: schemas.ofRequest(rest as unknown as TSchema),
      ...(example === undefined ? {} : { example: typedExample(rest, example) }),
      ...(rest["x-repeated"] ? { style: "form", explode: true } : {}),
    };
  });
}

/** An example as its parameter has it; in the literals it is the text of a request. */
function typedExample(shape: Json, text: string): unknown {
  if (shape["type"] === "array") return text.split(",").map((item) => typedExample(shape["items"] as Json, item));
  if (shape["type"] === "integer" || shape["type"] === "number") return Number(text);
  return shape["type"] === "boolean" ? text === "true" : text;
}

function requestBody(operation: AnyOperation<never>, schemas: SchemaWriter): Json {
  const { body, example } = operation;
  if (body.kind === "none") return {};
  if (body.kind === "json") {
    const content = {
      schema: schemas.ofRequest(body.schema),
      ...(example.body === undefined ? {} : { example: example.body }),
    };
    return { requestBody: { required: !body.optional, content: { "application/json": content } } };
  }
  const { part, file } = body;
  const files = file
    ? { [file.part]: Type.Optional(Type.String({ format: "binary", description: file.description })) }
    : {};
  const sample = { [part]: example.body, ...(example.file && file ? { [file.part]: example.file } : {}) };
  const content = {
    schema: schemas.ofRequest(named(body.component, Closed({ [part]: body.schema as TSchema, ...files }))),
    encoding: { [part]: { contentType: "application/json" } },
    ...(example.body === undefined ? {} : { example: sample }),
  };
  return { requestBody: { required: true, content: { "multipart/form-data": content } } };
}

function describeWebhook(
  { id, tag, summary, description, payload, example }: OutgoingWebhook,
  schemas: SchemaWriter,
): Json {
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    requestBody: { required: true, content: { "application/json": { schema: schemas.ofResponse(payload), example } } },
    responses: { "2XX": { description: "Taken. Anything else, and no answer in time, is tried again" } },
    security: [],
  };
}

/** Headers of answers, as components: most stand on every one of them. */
const HEADERS: Readonly<Record<string, Json>> = {
  "X-Request-ID": {
    description:
      "Id of the request in the server's log: the one that the request brought in this header, else a new one",
    schema: { type: "string" },
  },
  ETag: { description: "Validator of the answer, for `If-None-Match`", schema: { type: "string" } },
  "Retry-After": {
    description: "Seconds after which the request may be sent again",
    schema: { type: "integer", minimum: 0 },
  },
  "WWW-Authenticate": { description: "How to authenticate (RFC 9110)", schema: { type: "string" } },
  "Content-Disposition": { description: "Name of the file (RFC 6266)", schema: { type: "string" } },
  "Content-Range": {
    description: "Which bytes these are, or how many there are (RFC 9110)",
    schema: { type: "string" },
  },
  Deprecation: {
    description: "Since when something that the request uses is deprecated, as `@` and epoch seconds (RFC 9745)",
    schema: { type: "string", pattern: "^@[0-9]+$" },
  },
  Link: {
    description: "Other addresses (RFC 8288): further pages, what replaces something deprecated, its documentation",
    schema: { type: "string" },
  },
};

/** All statuses of an operation with the shape of their body: declared ones and those that follow from its kind. */
function responsesOf(operation: AnyOperation<never>, schemas: SchemaWriter): Json {
  const { query, body } = deprecationsOf(operation);
  const isDeprecated = operation.deprecation !== undefined || query.size > 0 || body.size > 0;
  const success = operation.method === "GET" ? operation.responses[200] : undefined;
  const all: Record<number, Json> = {};
  for (const [status, shape] of Object.entries(operation.responses)) {
    const isRead = operation.method === "GET" && shape.schema !== null && Number(status) < 300 && !shape.isStream;
    const headers: Headers = {
      ...(isRead ? { ETag: null } : {}),
      ...(shape.isDownload || shape.isStream ? { "Content-Disposition": null } : {}),
      ...(isDeprecated ? { Deprecation: null, Link: null } : {}),
      ...shape.headers,
    };
    all[Number(status)] = describeResponse(shape, headers, schemas);
  }
  for (const name of sharedBy(operation)) all[SHARED[name].status] ??= { $ref: `#/components/responses/${name}` };
  if (success?.isDownload) {
    const part = { ...success, description: "The requested part of the file" };
    all[206] = describeResponse(part, { ETag: null, "Content-Disposition": null, "Content-Range": null }, schemas);
  }
  return all;
}

/** A header of HEADERS where there is no shape. */
type Headers = Readonly<Record<string, TSchema | null>>;

function describeResponse(
  {
    description,
    schema,
    contentType = "application/json",
  }: Pick<ResponseShape, "description" | "schema" | "contentType">,
  headers: Headers,
  schemas: SchemaWriter,
): Json {
  const types = typeof contentType === "string" ? [contentType] : contentType;
  const described = Object.entries({ "X-Request-ID": null, ...headers }).map(([name, shape]) => [
    name,
    shape === null || name in HEADERS
      ? { $ref: `#/components/headers/${name}` }
      : { schema: schemas.ofResponse(shape) },
  ]);
  return {
    description,
    headers: Object.fromEntries(described) as Json,
    ...(schema
      ? { content: Object.fromEntries(types.map((type) => [type, { schema: schemas.ofResponse(schema) }])) }
      : {}),
  };
}

type Shared = { status: number; description: string; schema: TSchema | null; headers?: Headers };

/** Answers that follow from the kind of an operation; a status that an operation declares itself counts more. */
const SHARED = {
  NotModified: {
    status: 304,
    description: "Not modified: the caller has it already, as `If-None-Match` says",
    schema: null,
    headers: { ETag: null },
  },
  NotValid: {
    status: 400,
    description: "Something in the request is not valid; `errors` has one text per field",
    schema: ValidationError,
  },
  Unauthenticated: {
    status: 401,
    description: "No valid API key",
    schema: Message,
    headers: { "WWW-Authenticate": null },
  },
  Forbidden: {
    status: 403,
    description: "The role does not allow it, the organization has the feature off, or it is not visible to the caller",
    schema: Message,
  },
  BodyTimeout: { status: 408, description: "The body did not arrive in time", schema: Message },
  TooLarge: { status: 413, description: "The body or one of its parts is larger than its limit", schema: Message },
  RangeNotSatisfiable: {
    status: 416,
    description: "The requested range lies outside the file",
    schema: Message,
    headers: { "Content-Range": null },
  },
  TooManyRequests: {
    status: 429,
    description: "Too many requests of this key or address, where the operator limits them",
    schema: Message,
    headers: { "Retry-After": null },
  },
  Unavailable: {
    status: 503,
    description: "The server cannot do it at the moment, and nothing was stored",
    schema: Message,
    headers: { "Retry-After": null },
  },
  ReadOnly: {
    status: 507,
    description: "The server takes no changes at the moment, because its storage is full or failed; nothing was stored",
    schema: Message,
    headers: { "Retry-After": null },
  },
} as const satisfies Record<string, Shared>;

function sharedBy({ method, path, permission, query, body, responses }: AnyOperation<never>): (keyof typeof SHARED)[] {
  const read = method === "GET" ? responses[200] : undefined;
  const takesInput = body.kind !== "none" || Object.keys(query.properties).length > 0 || path.includes("{");
  return [
    ...(read?.schema && !read.isStream ? (["NotModified"] as const) : []),
    ...(read?.isDownload ? (["RangeNotSatisfiable"] as const) : []),
    ...(takesInput ? (["NotValid"] as const) : []),
    ...(permission === "public" ? [] : (["Unauthenticated", "Unavailable"] as const)),
    ...(isOrgPermission(permission) ? (["Forbidden"] as const) : []),
    ...(body.kind === "none" ? [] : (["BodyTimeout", "TooLarge"] as const)),
    "TooManyRequests",
    ...(method === "GET" ? [] : (["ReadOnly"] as const)),
  ];
}
