/**
 * The OpenAPI 3.1 document, derived from the operations. Named shapes become components; statuses and headers that
 * follow from the kind of an operation are added here, so that no operation can forget them.
 *
 * Client generators read the document, and they understand only a part of JSON Schema. Equivalent schemas are therefore
 * written in the form that openapi-python-client, oapi-codegen and openapi-typescript all read (`make openapi-check`).
 */
import { Type } from "typebox";
import type { TSchema } from "typebox";
import { isOrgPermission } from "../../domain/access.ts";
import { deprecationsOf } from "../deprecation.ts";
import { createSchemaWriter, describeShape } from "./schemas.ts";
import type { SchemaWriter } from "./schemas.ts";
import { isReading } from "../operation.ts";
import type { AnyOperation, ResponseShape } from "../operation.ts";
import { compareRoutes } from "../routing/route-order.ts";
import { Closed, Message, ValidationError, named } from "../schema.ts";

type Json = Record<string, unknown>;

export type DocumentFacts = {
  title: string;
  description: string;
  serverUrl: string;
  license: { name: string; identifier: string };
  contact: { name: string };
  /** Descriptions of the tags of the operations. */
  tags: Readonly<Record<string, string>>;
  /**
   * Messages that the server sends, published as callbacks of the operations that ask for them. (openapi-generator
   * makes no TypeScript that compiles from the field `webhooks`, and operations to call from what it does make.)
   */
  callbacks: readonly OutgoingMessage[];
};

/** A message that this server sends to a URL that a user configured. Any 2xx accepts it. */
export type OutgoingMessage = {
  id: string;
  /** Id of the operation that configures the URL. */
  operation: string;
  /** Where the request of that operation has the URL: a runtime expression of OpenAPI. */
  url: string;
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
  // All requests before the first response: a component that occurs in both is published with the limits of requests.
  const requests = published.map((operation) => describeRequest(operation, schemas));
  const paths: Record<string, Json> = {};
  for (const [index, operation] of published.entries()) {
    const path = operation.path.replace(/\*\}/g, "}");
    const described = {
      ...describeOperation(operation),
      ...requests[index],
      responses: describeResponses(operation, schemas),
      ...describeCallbacks(operation, facts.callbacks, schemas),
      ...describeAccess(operation),
    };
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: described };
  }
  const responses = Object.fromEntries(
    Object.entries(SHARED).map(([name, shape]: [string, Shared]) => [
      name,
      describeResponse(shape, shape.headers ?? {}, schemas),
    ]),
  );
  const tags = [...new Set(published.map(({ tag }) => tag))].sort();
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

const needsNoKey = ({ permission }: AnyOperation<never>): boolean => permission === "public" || permission === "signed";

function describeOperation(operation: AnyOperation<never>): Json {
  return {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    ...describeInFull(operation),
    ...(operation.deprecation ? { deprecated: true } : {}),
  };
}

const describeAccess = (operation: AnyOperation<never>): Json => ({
  security: needsNoKey(operation) ? [] : KEYS,
  ...(needsNoKey(operation) ? {} : { "x-permission": operation.permission }),
  ...(operation.feature ? { "x-beta": true, "x-feature": operation.feature } : {}),
});

/** The description, with notes on the feature and the deprecation. */
function describeInFull({ description, feature, deprecation }: AnyOperation<never>): Json {
  const beta = feature && `Beta: refused while the organization has its feature \`${feature}\` switched off.`;
  const text = [description, beta, deprecation && `Deprecated since ${deprecation.since}.`].filter(Boolean).join(" ");
  return text ? { description: text } : {};
}

/** Parameters and body. */
function describeRequest(operation: AnyOperation<never>, schemas: SchemaWriter): Json {
  const parameters = [
    ...describeParameters(operation, "path", schemas),
    ...describeParameters(operation, "query", schemas),
  ];
  return { ...(parameters.length > 0 ? { parameters } : {}), ...describeBody(operation, schemas) };
}

function describeParameters(operation: AnyOperation<never>, location: "path" | "query", schemas: SchemaWriter): Json[] {
  const shapes: TSchema = location === "path" ? operation.params : operation.query;
  const { properties = {}, required = [] } = shapes as unknown as {
    properties?: Record<string, TSchema>;
    required?: string[];
  };
  const examples: Record<string, string> =
    (location === "path" ? operation.example.params : operation.example.query) ?? {};
  const published = Object.entries(properties).filter(([, shape]) => !(shape as Json)["x-unpublished"]);
  return published.map(([name, shape]) => {
    const { description, deprecated, ...rest } = shape as Json;
    const example = examples[name];
    return {
      name,
      in: location,
      // A query parameter with a default is required in the validated query, but not in the request.
      required: location === "path" || (required.includes(name) && !("default" in shape)),
      ...(description === undefined ? {} : { description: describeShape(shape) }),
      ...(deprecated === true ? { deprecated } : {}),
      schema: schemas.ofRequest(rest as unknown as TSchema),
      ...(example === undefined ? {} : { example: convertExample(rest, example) }),
      ...(rest["x-repeated"] ? { style: "form", explode: true } : {}),
    };
  });
}

/** Converts an example, which literals write as the text of a request, to the type of its parameter. */
function convertExample(shape: Json, text: string): unknown {
  if (shape["type"] === "array") return text.split(",").map((item) => convertExample(shape["items"] as Json, item));
  if (shape["type"] === "integer" || shape["type"] === "number") return Number(text);
  return shape["type"] === "boolean" ? text === "true" : text;
}

function describeBody(operation: AnyOperation<never>, schemas: SchemaWriter): Json {
  const { body, example } = operation;
  if (body.kind === "none") return {};
  if (body.kind === "json") {
    const content = describeJson(body.schema, example.body, schemas);
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
  const plain = body.acceptsJson ? { "application/json": describeJson(body.schema, example.body, schemas) } : {};
  return { requestBody: { required: true, content: { ...plain, "multipart/form-data": content } } };
}

const describeJson = (schema: TSchema, sample: unknown, schemas: SchemaWriter): Json => ({
  schema: schemas.ofRequest(schema),
  ...(sample === undefined ? {} : { example: sample }),
});

function describeCallbacks(
  { id, tag }: AnyOperation<never>,
  callbacks: readonly OutgoingMessage[],
  schemas: SchemaWriter,
): Json {
  const own = callbacks.filter(({ operation }) => operation === id);
  const described = own.map((message) => [
    message.id,
    { [message.url]: { post: { tags: [tag], ...describeMessage(message, schemas) } } },
  ]);
  return own.length > 0 ? { callbacks: Object.fromEntries(described) as Json } : {};
}

function describeMessage({ id, summary, description, payload, example }: OutgoingMessage, schemas: SchemaWriter): Json {
  return {
    operationId: id,
    summary,
    description,
    requestBody: { required: true, content: { "application/json": { schema: schemas.ofResponse(payload), example } } },
    responses: {
      "2XX": { description: "Accepted" },
      "4XX": { description: "Not accepted: retried a few times, after 410 not at all" },
      "5XX": { description: "Not accepted: retried, as after no response in time" },
    },
    security: [],
  };
}

/** Response headers, as components: most occur in every response. */
const HEADERS: Readonly<Record<string, Json>> = {
  "X-Request-ID": {
    description: "Id of the request in the server's log: the one sent in this header, or a new one",
    schema: { type: "string" },
  },
  ETag: { description: "Validator of the response, for `If-None-Match`", schema: { type: "string" } },
  "Retry-After": {
    description: "Seconds after which the request may be retried",
    schema: { type: "integer", minimum: 0 },
  },
  "WWW-Authenticate": { description: "How to authenticate (RFC 9110)", schema: { type: "string" } },
  "Content-Disposition": { description: "Name of the file (RFC 6266)", schema: { type: "string" } },
  "Content-Range": {
    description: "The range of bytes in this response, or the size of the file (RFC 9110)",
    schema: { type: "string" },
  },
  Deprecation: {
    description: "Since when a feature used by the request is deprecated, as `@` and epoch seconds (RFC 9745)",
    schema: { type: "string", pattern: "^@[0-9]+$" },
  },
  Link: {
    description: "Related URLs (RFC 8288): further pages, the replacement of something deprecated, its documentation",
    schema: { type: "string" },
  },
};

/** The responses of an operation: declared ones, and those that follow from its kind. */
function describeResponses(operation: AnyOperation<never>, schemas: SchemaWriter): Json {
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
  for (const name of sharedResponses(operation))
    all[SHARED[name].status] ??= { $ref: `#/components/responses/${name}` };
  if (success?.isDownload) {
    const part = { ...success, description: "The requested part of the file" };
    all[206] = describeResponse(part, { ETag: null, "Content-Disposition": null, "Content-Range": null }, schemas);
  }
  return all;
}

/** By name; null for a header that HEADERS describes. */
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

/** Responses that follow from the kind of an operation, unless it declares the status itself. */
const SHARED = {
  NotModified: {
    status: 304,
    description: "Not modified: `If-None-Match` has the current validator",
    schema: null,
    headers: { ETag: null },
  },
  NotValid: {
    status: 400,
    description: "The request is not valid; `errors` has one message per field",
    schema: ValidationError,
  },
  Unauthenticated: {
    status: 401,
    description: "The API key is missing or invalid",
    schema: Message,
    headers: { "WWW-Authenticate": null },
  },
  Forbidden: {
    status: 403,
    description:
      "The caller's role does not permit it, the feature is switched off, or the organization is not visible to them",
    schema: Message,
  },
  BodyTimeout: { status: 408, description: "The request body did not arrive in time", schema: Message },
  TooLarge: {
    status: 413,
    description: "The request body, or a part of it, exceeds its limit",
    // The contract gives it the fields of a validation error; `errors` is never there (operations 1.3).
    schema: ValidationError,
  },
  RangeNotSatisfiable: {
    status: 416,
    description: "The requested range is outside the file",
    schema: Message,
    headers: { "Content-Range": null },
  },
  TooManyRequests: {
    status: 429,
    description: "Rate limit of the key or address exceeded, or too many large requests at the same time",
    schema: Message,
    headers: { "Retry-After": null },
  },
  Unavailable: {
    status: 503,
    description: "The server cannot process the request at the moment; nothing was stored",
    schema: Message,
    headers: { "Retry-After": null },
  },
  ReadOnly: {
    status: 507,
    description: "The server is in read-only mode, because its storage is full or failed; nothing was stored",
    schema: Message,
    headers: { "Retry-After": null },
  },
} as const satisfies Record<string, Shared>;

function sharedResponses(operation: AnyOperation<never>): (keyof typeof SHARED)[] {
  const { method, path, permission, query, body, responses } = operation;
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
    ...(isReading(operation) ? [] : (["ReadOnly"] as const)),
  ];
}
