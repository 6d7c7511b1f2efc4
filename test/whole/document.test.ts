/**
 * The OpenAPI document as a product: it contains what generators, linters and people need for every operation, and its
 * examples are valid. That it agrees with the server on which requests are valid is tested request by request
 * (properties.test.ts).
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { Ajv2020 } from "ajv/dist/2020.js";

import { operations } from "../../src/api/index.ts";
import { isReading } from "../../src/http/operation.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

type Json = Record<string, any>;
type Operation = Json & { operationId: string; parameters?: Json[]; responses: Record<string, Json> };

const test = suite("whole/document");
let server: TestServer;
let document: Json;
let all: { label: string; method: string; path: string; operation: Operation; pointer: string }[];
test.before(async () => {
  server = await startServer();
  document = (await server.call("GET", "/openapi.json")).body;
  all = Object.entries(document["paths"] as Record<string, Record<string, Operation>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      label: operation.operationId,
      method: method.toUpperCase(),
      path,
      operation,
      pointer: `/paths/${path.replaceAll("~", "~0").replaceAll("/", "~1")}/${method}`,
    })),
  );
});
test.after(() => server.stop());

/** A part of the document with references resolved. */
function resolved(value: Json): Json {
  let found = value;
  while (typeof found["$ref"] === "string")
    found = (found["$ref"] as string)
      .slice(2)
      .split("/")
      .reduce((at, key) => at[key.replaceAll("~1", "/").replaceAll("~0", "~")], document);
  return found;
}

/** Calls `visit` with every schema below a schema, references resolved, each once. */
function eachSchema(root: Json, visit: (schema: Json, place: string) => void): void {
  const seen = new Set<Json>();
  const walk = (reference: Json, place: string): void => {
    const schema = resolved(reference);
    if (seen.has(schema)) return;
    seen.add(schema);
    visit(schema, place);
    for (const key of ["items", "additionalProperties", "propertyNames"])
      if (typeof schema[key] === "object") walk(schema[key], `${place}.${key}`);
    for (const key of ["anyOf", "oneOf", "allOf"])
      for (const branch of (schema[key] ?? []) as Json[]) walk(branch, place);
    for (const key of ["properties", "patternProperties"])
      for (const [name, property] of Object.entries((schema[key] ?? {}) as Record<string, Json>))
        walk(property, `${place}.${name}`);
  };
  walk(root, "");
}

const bodyOf = (operation: Operation): [type: string, content: Json][] =>
  Object.entries((operation["requestBody"]?.content ?? {}) as Json);
const requestSchemas = (operation: Operation): Json[] => [
  ...(operation.parameters ?? []).map(({ schema }) => schema as Json),
  ...bodyOf(operation).map(([, content]) => content["schema"] as Json),
];
const answerSchemas = ({ responses }: Operation): Json[] =>
  Object.values(responses).flatMap((answer) =>
    Object.values((resolved(answer)["content"] ?? {}) as Record<string, Json>).map(({ schema }) => schema as Json),
  );

/** The messages that the server sends, by the operations that ask for them. */
const callbacks = (): { label: string; pointer: string; message: Json }[] =>
  all.flatMap(({ label, operation, pointer }) =>
    Object.entries((operation["callbacks"] ?? {}) as Json).flatMap(([id, urls]) =>
      Object.entries(urls as Json).map(([url, { post }]) => ({
        label: `${label} ${id}`,
        pointer: `${pointer}/callbacks/${id}/${url.replaceAll("~", "~0").replaceAll("/", "~1")}/post`,
        message: post,
      })),
    ),
  );

test("every tag, operation and message has a description, and the API a contact", () => {
  for (const tag of document["tags"]) assert.ok(tag.description?.length > 10, `tag ${tag.name}`);
  for (const { label, operation } of all) assert.ok(operation["description"]?.length > 5, label);
  for (const { label, message } of callbacks()) assert.ok(message["description"].length > 10, label);
  assert.ok(document["info"].contact.name);
  assert.equal(
    callbacks().map(({ label }) => label),
    [
      "create_or_update_env_action environment_event",
      "create_or_update_env_action env_action_test",
      "create_or_update_flow_action flow_event",
      "create_or_update_flow_action flow_action_test",
      "put_notification_config api_key_expiry",
    ],
  );
});

test("every example fits its schema: parameters, bodies, forms and messages", () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
  ajv.addSchema(document, "document");
  const problem = (pointer: string, value: unknown): string | null => {
    const check = ajv.compile({ $ref: `document#${encodeURI(pointer)}` });
    return check(value) ? null : `${JSON.stringify(value)}: ${ajv.errorsText(check.errors)}`;
  };
  let examples = 0;
  for (const { label, operation, pointer } of all) {
    for (const [index, parameter] of (operation.parameters ?? []).entries()) {
      if (!("example" in parameter)) continue;
      examples += 1;
      assert.is(
        problem(`${pointer}/parameters/${index}/schema`, parameter["example"]),
        null,
        `${label} ${parameter["name"]}`,
      );
    }
    for (const [type, content] of bodyOf(operation)) {
      examples += 1;
      assert.is(
        problem(`${pointer}/requestBody/content/${type.replace("/", "~1")}/schema`, content["example"]),
        null,
        label,
      );
    }
  }
  for (const { label, pointer, message } of callbacks()) {
    const { example } = message["requestBody"].content["application/json"];
    assert.is(problem(`${pointer}/requestBody/content/application~1json/schema`, example), null, label);
  }
  assert.ok(examples > 200, `${examples} examples`);
});

test("every path parameter has an example", () => {
  for (const { label, operation } of all)
    for (const parameter of operation.parameters ?? [])
      if (parameter["in"] === "path") assert.ok("example" in parameter, `${label} ${parameter["name"]}`);
});

test("every array declares its items", () => {
  for (const { label, operation } of all)
    for (const schema of [...requestSchemas(operation), ...answerSchemas(operation)])
      eachSchema(schema, (one, place) => {
        const types = [one["type"]].flat();
        if (types.includes("array")) assert.ok("items" in one, `${label}${place}`);
        // Generators treat a list of types as its first one, or fail.
        assert.ok(types.filter((type) => type !== "null").length < 2, `${label}${place}: ${types}`);
      });
});

test("no text of a request may contain U+0000", () => {
  for (const { label, operation } of all)
    for (const schema of requestSchemas(operation))
      eachSchema(schema, (one, place) => {
        if (one["type"] !== "string" || "enum" in one || "const" in one || one["format"] === "binary") return;
        assert.ok("pattern" in one, `${label}${place} has no pattern`);
        // In the mode of JSON Schema, patterns are Unicode.
        const pattern = new RegExp(one["pattern"] as string, "u");
        for (const text of ["\u0000", "a\u0000b", "custom:\u0000", "key=\u0000", "http://a\u0000b/", "a\u0000@b.org"])
          assert.not(pattern.test(text), `${label}${place}: ${one["pattern"]} accepts ${JSON.stringify(text)}`);
      });
});

test("bodies and forms are closed where the server refuses further fields", () => {
  // Operations 6: a decision may have further fields of its reporter.
  const open = ["post_system_attestation"];
  for (const { label, operation } of all)
    for (const [type, { schema }] of bodyOf(operation)) {
      const shape = resolved(schema);
      const { additionalProperties: opens, unevaluatedProperties: closes, "x-ignores-unknown-keys": ignores } = shape;
      assert.is(
        opens ?? closes,
        ignores ? undefined : type === "multipart/form-data" ? false : open.includes(label),
        label,
      );
      if (type !== "multipart/form-data") continue;
      const { properties, required } = resolved(schema) as { properties: Record<string, Json>; required: string[] };
      const files = Object.keys(properties).filter((name) => properties[name]?.["format"] === "binary");
      assert.equal(
        Object.keys(properties).filter((name) => !files.includes(name)),
        required,
        `${label}: the part with the JSON is required`,
      );
    }
});

const reading = operations.filter(isReading).map(({ id }) => id);

test("declares the statuses and headers that follow from the kind of an operation", () => {
  for (const { label, method, operation } of all) {
    const { responses } = operation;
    const statuses = Object.keys(responses).map(Number);
    const isPublic = (operation["security"] as unknown[]).length === 0;
    assert.is(statuses.includes(507), !reading.includes(label), `${label}: 507`);
    assert.is(statuses.includes(401), !isPublic, `${label}: 401`);
    assert.is(statuses.includes(503), !isPublic, `${label}: 503`);
    assert.ok(statuses.includes(429), `${label}: 429`);
    for (const [status, answer] of Object.entries(responses)) {
      const { headers = {}, content = {} } = resolved(answer) as { headers?: Json; content?: Json };
      assert.ok("X-Request-ID" in headers, `${label} ${status}: X-Request-ID`);
      assert.is("Retry-After" in headers, ["429", "503", "507"].includes(status), `${label} ${status}: Retry-After`);
      const isRead = method === "GET" && status === "200" && "application/json" in content;
      if (isRead || status === "304") assert.ok("ETag" in headers, `${label} ${status}: ETag`);
      if (isRead) assert.ok(statuses.includes(304), `${label}: 304`);
    }
  }
});

test("declares a 409 exactly where the server returns one", () => {
  const reports = all.filter(({ path }) => path.includes("/report/")).map(({ label }) => label);
  const declaring = all.filter(({ operation }) => "409" in operation.responses).map(({ label }) => label);
  assert.equal(declaring.sort(), ["post_control", ...reports].sort());
});

test("declares the content of evidence and other files", () => {
  const contents = (label: string, status: string): string[] => {
    const found = all.find((one) => one.label === label);
    return Object.keys(resolved(found?.operation.responses[status] as Json)["content"] as Json);
  };
  assert.equal(contents("get_attestation_evidence", "200"), ["application/octet-stream", "*/*"]);
  assert.equal(contents("get_attestation_evidence", "206"), ["application/octet-stream", "*/*"]);
  assert.equal(contents("download_trail_audit_pdf", "200"), ["application/pdf"]);
  assert.equal(contents("get_audit_package", "200"), ["application/octet-stream"]);
});

test("marks deprecations with their date, and declares their response headers", () => {
  const marked = all.flatMap(({ label, operation }) => [
    ...(operation["deprecated"] ? [label] : []),
    ...(operation.parameters ?? []).filter(({ deprecated }) => deprecated).map(({ name }) => `${label} ${name}`),
    ...bodyOf(operation).flatMap(([, { schema }]) =>
      Object.entries((resolved(schema)["properties"] ?? {}) as Record<string, Json>)
        .filter(([, one]) => one["deprecated"])
        .map(([name]) => `${label} ${name}`),
    ),
  ]);
  assert.equal(marked.sort(), [
    "create_env include_scaling",
    "create_env require_provenance",
    "create_flow",
    "get_env_events interval",
    "list_artifacts_deprecated",
    "update_env include_scaling",
  ]);
  const deprecated = new Set(marked.map((one) => one.split(" ")[0]));
  for (const { label, operation } of all)
    for (const status of ["200", "201"].filter((one) => one in operation.responses)) {
      const { headers } = resolved(operation.responses[status] as Json) as { headers: Json };
      assert.is("Deprecation" in headers, deprecated.has(label), `${label} ${status}`);
    }
  const interval = all
    .find(({ label }) => label === "get_env_events")
    ?.operation.parameters?.find(({ name }) => name === "interval");
  assert.match(interval?.["description"], "Deprecated since 2026-05-26");
});

test("parameters that exclude each other all say so", () => {
  const pairs = [
    ["get_attestations", "name", "name_regex"],
    ["list_repos", "name", "search"],
    ["assert_artifact", "environment_name", "policy_name"],
  ];
  for (const [label, ...names] of pairs)
    for (const [name, other] of [names, [...names].reverse()]) {
      const parameter = all
        .find((one) => one.label === label)
        ?.operation.parameters?.find((one) => one["name"] === name);
      assert.match(parameter?.["description"].toLowerCase(), `not together with \`${other}\``, `${label} ${name}`);
    }
});

test("accepts but does not publish other spellings of parameters, which generated code would merge", async () => {
  for (const { label, operation } of all) {
    const names = (operation.parameters ?? []).map(({ name }) =>
      (name as string).replace(/[^a-z0-9]/gi, "").toLowerCase(),
    );
    assert.equal([...new Set(names)], names, label);
  }
  const { org, key } = server.given.org();
  const spelled = await server.call("GET", `/builds/${org}?start-ts=10&end-ts=abc`, { key });
  assert.equal(
    { status: spelled.status, "keys of spelled.body.errors": Object.keys(spelled.body.errors) },
    { status: 400, "keys of spelled.body.errors": ["end-ts"] },
  );
});

/** The name that generators make of words: those of a path or of an id. */
const camel = (id: string): string => id.replace(/(?:^|_)([a-z0-9])/g, (_all, letter: string) => letter.toUpperCase());

test("has nothing of which openapi-generator makes code that does not compile or does something else", () => {
  for (const { label, operation } of all) {
    for (const { name, schema } of operation.parameters ?? [])
      assert.not.equal(schema.default, [], `${label} ${name}: Go has no such default`);
    for (const schema of requestSchemas(operation))
      eachSchema(schema, (one, place) => {
        assert.is.not(one["additionalProperties"], false, `${label}${place}: read as open, and sent under two names`);
        assert.not.type(one["default"] ?? "", "object", `${label}${place}: Go has no such default`);
      });
    for (const schema of [...requestSchemas(operation), ...answerSchemas(operation)])
      eachSchema(schema, (one, place) => {
        for (const [name, property] of Object.entries((one["properties"] ?? {}) as Record<string, Json>))
          assert.is.not(property["type"], "null", `${label}${place}.${name}: Go has no type of only null`);
        const { type, maximum = Infinity, format } = one as { type?: string; maximum?: number; format?: string };
        if ("const" in one) return;
        if (type === "number") assert.is(format, "double", `${label}${place}: 32 bits`);
        if (type === "integer" && maximum > 2 ** 31 - 1) assert.is(format, "int64", `${label}${place}: 32 bits`);
      });
  }
  assert.is(document["webhooks"], undefined, "no TypeScript from webhooks compiles");
  for (const { label, operation } of all)
    for (const schema of answerSchemas(operation))
      eachSchema(schema, (one, place) => {
        for (const branch of (one["oneOf"] ?? []) as Json[])
          eachSchema(branch, (shape) =>
            assert.is(shape["pattern"], undefined, `${label}${place}: Go validates patterns here, with other escapes`),
          );
      });
});

test("no component has the name of a shape inside another one, by which it would be replaced", () => {
  const schemas = document["components"].schemas as Record<string, Json>;
  const names = new Set(Object.keys(schemas).map((name) => name.toLowerCase()));
  const taken = Object.entries(schemas).flatMap(([name, { properties = {} }]) =>
    Object.entries(properties as Record<string, Json>).flatMap(([property, shape]) =>
      "$ref" in shape ? [] : [name + camel(property)],
    ),
  );
  assert.equal(
    taken.filter((name) => names.has(name.toLowerCase())),
    [],
  );
});

test("no component has a name that generators use for something else", () => {
  const taken = all.flatMap(({ label }) =>
    ["Response", "Params", "JSONBody", "JSONRequestBody"].map((word) => camel(label) + word),
  );
  const { schemas, responses } = document["components"] as Record<string, Json>;
  const names = [...Object.keys(schemas as Json), ...Object.keys(responses as Json)];
  assert.equal(
    names.filter((name) => taken.includes(name)),
    [],
  );
  assert.equal([...new Set(names)], names);
});

test.run();
