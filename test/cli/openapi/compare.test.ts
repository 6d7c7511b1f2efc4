/** What a comparison of two OpenAPI documents reports, and what it does not. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { compareApiDocuments, lineOfDifference } from "../../../src/cli/openapi/compare-documents.ts";
import { parseApiDocument } from "../../../src/cli/openapi/document.ts";
import type { ApiDocument, JsonObject } from "../../../src/cli/openapi/document.ts";

const test = suite("cli/openapi/compare");

type Content = { version?: string; components?: JsonObject; servers?: JsonObject[]; security?: JsonObject[] };

function documentOf(paths: JsonObject, { version = "3.1.0", ...more }: Content = {}): ApiDocument {
  return parseApiDocument(
    JSON.stringify({ openapi: version, info: { title: "t", version: "1" }, paths, ...more }),
    "it",
  );
}

const compare = (ours: ApiDocument, theirs: ApiDocument, limits = false): string[] =>
  compareApiDocuments(ours, theirs, { limits }).map(lineOfDifference);

/** The differences of the bodies of one request, without their place. */
function inRequest(
  ours: unknown,
  theirs: unknown,
  more: { schemas?: JsonObject; version?: string; limits?: boolean } = {},
) {
  const [our, their] = [ours, theirs].map((schema, index) =>
    documentOf(
      { "/x": { post: { requestBody: { content: { "application/json": { schema } } }, responses: {} } } },
      { version: index === 0 ? "3.1.0" : (more.version ?? "3.1.0"), components: { schemas: more.schemas ?? {} } },
    ),
  ) as [ApiDocument, ApiDocument];
  return compare(our, their, more.limits).map((line) => line.replace(/^POST \/x: request body:? ?/, ""));
}

/** The differences of the bodies of one response, without their place. */
function inResponse(ours: unknown, theirs: unknown, schemas: JsonObject = {}) {
  const [our, their] = [ours, theirs].map((schema) =>
    documentOf(
      { "/x": { get: { responses: { 200: { description: "", content: { "application/json": { schema } } } } } } },
      { components: { schemas } },
    ),
  ) as [ApiDocument, ApiDocument];
  return compare(our, their).map((line) => line.replace(/^GET \/x: response 200:? ?/, ""));
}

const TEXT = { type: "string" };
const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({ type: "object", properties, ...more });
const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });

test("a document has no difference from itself", () => {
  const schema = object({ a: TEXT, b: { anyOf: [{ type: "array", items: ref("Node") }, { type: "null" }] } });
  const schemas = {
    Node: object({ next: ref("Node"), all: { type: "array", items: ref("Node") } }, { required: ["next"] }),
  };
  assert.equal(inRequest(schema, schema, { schemas }), []);
  assert.equal(inResponse(schema, schema, schemas), []);
});

test("operations are paired by method and path, whatever the parameters in the path are called", () => {
  const operation = { responses: {} };
  const ours = documentOf(
    { "/a/{one}": { get: operation } },
    { servers: [{ url: "https://assay.example.com/base/api/v2/" }] },
  );
  assert.equal(compare(ours, documentOf({ "/a/{other}": { get: operation } })), []);
  assert.equal(compare(ours, documentOf({ "/base/api/v2/a/{x}": { get: operation } })), []);
  assert.equal(
    compare(ours, documentOf({ "/a/{other}": { put: operation, summary: "text" }, "/b": { get: operation } })),
    ["PUT /a/{other}: is missing", "GET /b: is missing"],
  );
});

test("parameters: missing ones, required ones, narrower ones, and those of the path as a whole", () => {
  const page = { name: "page", in: "query", schema: { type: "integer", minimum: 1, maximum: 100, default: 1 } };
  const item = (schema: JsonObject, more: JsonObject = {}): JsonObject => ({
    name: "sort",
    in: "query",
    schema,
    ...more,
  });
  const ours = documentOf({
    "/a/{id}": {
      get: {
        parameters: [
          { name: "id", in: "path", required: true, schema: { type: "string", pattern: "^[a-f]+$" } },
          { ...page, schema: { ...page.schema, maximum: 50, default: 2 } },
          item({ type: "string", enum: ["name"] }, { required: true }),
          { name: "x-own", in: "header", required: true, schema: TEXT },
        ],
        responses: {},
      },
    },
  });
  const theirs = documentOf(
    {
      "/a/{name}": {
        parameters: [
          { name: "name", in: "path", required: true, schema: TEXT },
          { $ref: "#/components/parameters/Page" },
        ],
        get: {
          parameters: [
            item({ type: "string", enum: ["name", "date"] }),
            { name: "q", in: "query", schema: TEXT },
            { name: "Accept", in: "header", schema: TEXT },
          ],
          responses: {},
        },
      },
    },
    { components: { parameters: { Page: page } } },
  );
  assert.equal(compare(ours, theirs), [
    "GET /a/{id}: header x-own: is required (there: unknown)",
    "GET /a/{id}: path parameter id: has the pattern ^[a-f]+$ (there: none)",
    "GET /a/{id}: query parameter page: at most 50 (there: at most 100)",
    "GET /a/{id}: query parameter page: has the default 2 (there: 1)",
    "GET /a/{id}: query parameter q: is missing",
    'GET /a/{id}: query parameter sort: does not accept "date"',
    "GET /a/{id}: query parameter sort: is required (there: optional)",
  ]);
});

test("a parameter is text: no null, a number may be a text, and one value is a list too", () => {
  const of = (schema: JsonObject, more: JsonObject = {}): ApiDocument =>
    documentOf({ "/a": { get: { parameters: [{ name: "q", in: "query", schema, ...more }], responses: {} } } });
  const nullable = { anyOf: [{ type: "integer" }, { type: "null" }] };
  assert.equal(compare(of({ type: "integer" }), of(nullable)), []);
  assert.equal(compare(of(TEXT), of(nullable)), []);
  assert.equal(compare(of({ type: "array", items: TEXT }), of(TEXT)), []);
  assert.equal(compare(of({ type: "array", items: { enum: ["a"] } }), of({ enum: ["a", "b"] })), [
    'GET /a: query parameter q: does not accept "b"',
  ]);
  assert.equal(compare(of({ type: "boolean" }), of(TEXT)), ["GET /a: query parameter q: does not accept string"]);
  assert.equal(compare(of({ type: "array", items: TEXT }, { explode: false }), of({ type: "array", items: TEXT })), [
    "GET /a: query parameter q: is written in the style form (there: form, exploded)",
  ]);
});

test("bodies, media types, statuses and headers", () => {
  const content = (type: string): JsonObject => ({ [type]: { schema: TEXT } });
  const of = (requestBody: JsonObject | undefined, responses: JsonObject): ApiDocument =>
    documentOf({ "/a": { put: { ...(requestBody ? { requestBody } : {}), responses } } });
  const answer = { description: "", content: content("application/json") };
  assert.equal(compare(of(undefined, { 200: answer }), of({ content: content("application/json") }, { 201: answer })), [
    "PUT /a: request body: is missing",
    "PUT /a: response 201: is missing",
  ]);
  assert.equal(compare(of({ required: true, content: content("application/json") }, {}), of(undefined, {})), [
    "PUT /a: request body: is required (there: none)",
  ]);
  assert.equal(
    compare(
      of({ required: true, content: content("application/json; charset=utf-8") }, { "2XX": answer }),
      of(
        { content: { ...content("application/json"), ...content("text/csv") } },
        { 201: { description: "", content: content("text/plain"), headers: { ETag: { schema: TEXT }, Link: {} } } },
      ),
    ),
    [
      "PUT /a: request body: has no media type text/csv",
      "PUT /a: request body: is required (there: optional)",
      "PUT /a: response 201: has no media type text/plain",
      "PUT /a: response 201 header ETag: is missing",
      "PUT /a: response 201 header Link: is missing",
    ],
  );
  assert.equal(
    compare(of(undefined, { 200: { description: "", content: content("*/*") } }), of(undefined, { 200: answer })),
    [],
  );
});

test("ways to authenticate, by what they are and not by their names", () => {
  const schemes = (names: JsonObject): JsonObject => ({ components: { securitySchemes: names } });
  const bearer = { type: "http", scheme: "bearer" };
  const of = (security: JsonObject[] | undefined, names: JsonObject): ApiDocument =>
    documentOf({ "/a": { get: { responses: {}, ...(security ? { security } : {}) } } }, schemes(names));
  assert.equal(
    compare(of([{ Token: [] }], { Token: bearer }), of([{ Key: [] }], { Key: { type: "http", scheme: "Bearer" } })),
    [],
  );
  assert.equal(
    compare(
      of([{ Token: [] }], { Token: bearer }),
      of([{ Cookie: [] }], { Cookie: { type: "apiKey", in: "cookie", name: "sid" } }),
    ),
    ["GET /a: security: does not accept the cookie sid"],
  );
  assert.equal(compare(of([{ Token: [] }], { Token: bearer }), of(undefined, {})), [
    "GET /a: security: requires authentication (there: none)",
  ]);
});

test("fields of a request: missing, required, closed, with another default", () => {
  const theirs = object({ a: TEXT, b: TEXT, c: { type: "integer", default: 5 } }, { required: ["a"] });
  assert.equal(
    inRequest(
      object({ a: TEXT, c: { type: "integer" } }, { required: ["a", "c"], additionalProperties: false }),
      theirs,
    ),
    ["accepts no further fields (there: open)", "/b: is missing", "/c: is required (there: optional)"],
  );
  assert.equal(inRequest(object({ a: TEXT, b: TEXT, c: { type: "integer" }, d: TEXT }, { required: ["d"] }), theirs), [
    "/c: has no default (there: 5)",
    "/d: is required (there: unknown)",
  ]);
  const closed = { ...theirs, additionalProperties: false };
  assert.equal(inRequest({ ...closed, additionalProperties: undefined, unevaluatedProperties: false }, closed), []);
  assert.equal(inRequest({ type: "object", additionalProperties: true }, theirs), []);
  assert.equal(inRequest({ type: "object", additionalProperties: { type: "string" } }, theirs), [
    "/c: does not accept integer",
    "/c: has no default (there: 5)",
    "/{key}: accepts only string (there: any)",
  ]);
});

test("values of a request: types, null, words, patterns, formats, bounds", () => {
  assert.equal(inRequest(TEXT, { type: ["string", "null"] }), ["does not accept null"]);
  assert.equal(inRequest(TEXT, { anyOf: [TEXT, { type: "null" }] }), ["does not accept null"]);
  assert.equal(inRequest(TEXT, { type: "string", nullable: true }, { version: "3.0.3" }), ["does not accept null"]);
  assert.equal(inRequest(TEXT, { type: "string", nullable: true }), []);
  assert.equal(inRequest({ type: "number" }, { type: "integer" }), []);
  assert.equal(inRequest({ type: "integer" }, { type: "number" }), ["accepts only integers"]);
  assert.equal(inRequest(TEXT, {}), ["accepts only string (there: any)"]);
  assert.equal(inRequest({ enum: ["a", "b"] }, { type: "string", enum: ["b", "c"] }), ['does not accept "c"']);
  assert.equal(inRequest({ const: "a" }, TEXT), ['accepts only "a"']);
  assert.equal(inRequest({ anyOf: [{ const: "" }, { type: "string", pattern: "^[ab]$" }] }, { enum: ["", "a", "c"] }), [
    'does not accept "c"',
  ]);
  assert.equal(inRequest({ type: "string", pattern: "^a$" }, { type: "string", pattern: "^b$" }), [
    "has the pattern ^a$ (there: ^b$)",
  ]);
  assert.equal(
    inRequest({ type: "string", pattern: "^[a-z\\-_.]+$" }, { type: "string", pattern: "^[_\\.a-z-]+$" }),
    [],
  );
  assert.equal(inRequest({ type: "string", pattern: "^([a-f]{4})?$" }, { type: "string", pattern: "^[a-f]{4}$" }), []);
  assert.equal(inRequest({ type: "string", pattern: "^[^\\x00]*$" }, TEXT), []);
  assert.equal(inRequest({ type: "string", format: "uuid" }, TEXT), ["has the format uuid (there: none)"]);
  assert.equal(inRequest({ type: "integer", format: "int64" }, { type: "integer" }), []);
  assert.equal(inRequest({ type: "string", not: { enum: ["x"] } }, TEXT), ['does not accept "x"']);
});

test("limits of size count where the other document has a larger one, or any with --limits", () => {
  const ours = { type: "string", maxLength: 10, minLength: 1 };
  assert.equal(inRequest(ours, { type: "string", maxLength: 20 }), [
    "at least 1 characters (there: none)",
    "at most 10 characters (there: at most 20 characters)",
  ]);
  assert.equal(inRequest(ours, { type: "string", minLength: 1 }), []);
  assert.equal(inRequest(ours, { type: "string", minLength: 1 }, { limits: true }), [
    "at most 10 characters (there: none)",
  ]);
  assert.equal(
    inRequest(
      { type: "number", exclusiveMinimum: 0 },
      { type: "number", minimum: -1, exclusiveMinimum: true },
      { version: "3.0.0" },
    ),
    ["more than 0 (there: more than -1)"],
  );
});

test("fields of a response: missing, absent at times, null at times, of other types and values", () => {
  const theirs = object({ a: TEXT, b: { type: "integer" }, c: { enum: ["x", "y"] } }, { required: ["a", "b"] });
  assert.equal(inResponse(object({ a: { type: ["string", "null"] }, c: { enum: ["y", "z"] } }), theirs), [
    "/a: may be absent (there: required)",
    "/a: may be null",
    "/b: is missing",
    '/c: is never "x"',
    '/c: may be "z"',
  ]);
  assert.equal(inResponse(object({ a: TEXT, b: TEXT, c: TEXT }, { required: ["a", "b"] }), theirs), [
    "/b: may be string",
    '/c: may have other values than "x", "y"',
  ]);
  const more = object(
    { a: TEXT, b: { type: "integer" }, c: { const: "x" }, d: TEXT },
    { required: ["a", "b", "c", "d"] },
  );
  assert.equal(inResponse(more, theirs), ['/c: is never "y"']);
  assert.equal(inResponse({ type: "array", items: TEXT }, { anyOf: [object({}), { type: "array", items: TEXT }] }), [
    "is never object",
  ]);
  assert.equal(inResponse({}, TEXT), ["may be of any type"]);
  assert.equal(inResponse(TEXT, { type: "string", pattern: "^a$", maxLength: 3 }), [
    "does not promise the pattern ^a$",
    "does not promise: at most 3 characters (there: none)",
  ]);
});

test("allOf is merged, and references are followed through it", () => {
  const schemas = {
    Base: object({ id: TEXT }, { required: ["id"] }),
    Whole: { allOf: [ref("Base"), object({ name: TEXT }, { required: ["name"] })] },
    Flat: object({ id: TEXT, name: { type: "integer" } }, { required: ["id"] }),
  };
  assert.equal(inResponse(ref("Flat"), ref("Whole"), schemas), [
    "/name: may be absent (there: required)",
    "/name: may be integer",
  ]);
  assert.equal(inRequest(ref("Whole"), ref("Flat"), { schemas }), [
    "/name: does not accept integer",
    "/name: is required (there: optional)",
  ]);
});

test("alternatives are paired by the words that tell them apart", () => {
  const target = (type: string, more: JsonObject): JsonObject =>
    object(
      { type: { const: type }, ...more },
      { required: ["type", ...Object.keys(more)], additionalProperties: false },
    );
  const ours = { oneOf: [target("HOOK", { url: TEXT }), target("MAIL", { to: { type: "array", items: TEXT } })] };
  assert.equal(inRequest(ours, { anyOf: [...ours.oneOf].reverse() }), []);
  assert.equal(inRequest(ours, { anyOf: [target("HOOK", { url: TEXT }), target("CHAT", { url: TEXT })] }), [
    '/type: does not accept "CHAT"',
  ]);
  // One object for both.
  const flat = object(
    { type: { enum: ["HOOK", "MAIL"] }, url: TEXT },
    { required: ["type"], additionalProperties: false },
  );
  assert.equal(inRequest(ours, flat), [
    "/to: is required (there: unknown)",
    "/url: is missing",
    "/url: is required (there: optional)",
  ]);
});

test("schemas that contain themselves, directly, in turn and through alternatives, end", () => {
  const schemas = {
    Tree: object({ children: { type: "array", items: ref("Tree") }, leaf: TEXT }),
    Other: object({ children: { type: "array", items: ref("Twin") }, leaf: { type: "integer" } }),
    Twin: object({ children: { type: "array", items: ref("Other") }, leaf: { type: "integer" } }),
    Self: { anyOf: [ref("Self"), TEXT] },
    Part: { allOf: [ref("Part"), object({ a: TEXT })] },
  };
  assert.equal(inRequest(ref("Tree"), ref("Other"), { schemas }), [
    "/children[]/leaf: does not accept integer",
    "/leaf: does not accept integer",
  ]);
  assert.equal(inRequest(ref("Self"), TEXT, { schemas }), []);
  assert.equal(inRequest(ref("Part"), object({ a: TEXT, b: TEXT }), { schemas }), ["/b: is missing"]);
});

test("a part of a form cannot be null, and a field of its JSON can", () => {
  const of = (file: JsonObject): ApiDocument => {
    const schema = object({ data: object({ note: file }), file });
    const requestBody = { content: { "multipart/form-data": { schema } } };
    return documentOf({ "/a": { post: { requestBody, responses: {} } } });
  };
  assert.equal(compare(of(TEXT), of({ type: ["string", "null"] })), [
    "POST /a: request body /data/note: does not accept null",
  ]);
});

const refusal = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return (error as Error).message;
  }
  return "not refused";
};

test("documents that cannot be compared are refused in a sentence", () => {
  const at = (schema: JsonObject, schemas: JsonObject = {}) => refusal(() => inRequest(TEXT, schema, { schemas }));
  assert.is(at(ref("None")), 'it: the reference "#/components/schemas/None" leads to no object');
  assert.is(
    at({ $ref: "other.yaml#/X" }),
    'it: "other.yaml#/X" is a reference to another file: bundle all into one file',
  );
  assert.is(at(ref("A"), { A: ref("B"), B: ref("A") }), 'it: the reference "#/components/schemas/A" leads to itself');
  const wide = { allOf: Array.from({ length: 9 }, () => ({ anyOf: [object({ a: TEXT }), object({ b: TEXT })] })) };
  assert.is(at(wide), "it has a schema with more than 256 alternatives");
  const chain = Object.fromEntries(Array.from({ length: 150 }, (_, n) => [`S${n}`, { allOf: [ref(`S${n + 1}`)] }]));
  assert.is(at(ref("S0"), { ...chain, S150: TEXT }), "it has schemas that are nested too deeply to compare");
});

test("many alternatives of many others are bounded by work, not by patience", () => {
  const many = (prefix: string, depth: number): JsonObject =>
    Object.fromEntries(
      Array.from({ length: depth }, (_, level) => [
        `${prefix}${level}`,
        {
          anyOf: Array.from({ length: 200 }, (_one, n) =>
            object({ [`n${n}`]: level + 1 < depth ? ref(`${prefix}${level + 1}`) : TEXT, [`k${n}`]: TEXT }),
          ),
        },
      ]),
    );
  const schemas = { ...many("A", 40), ...many("B", 40) };
  assert.is(
    refusal(() => inRequest(ref("A0"), ref("B0"), { schemas })),
    "the documents have too many alternatives in schemas to be compared",
  );
});

test.run();
