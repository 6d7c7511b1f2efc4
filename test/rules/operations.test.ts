/** What people forget, tested over all operations at once. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isReading } from "../../src/http/operation.ts";
import type { TSchema } from "typebox";
import { DOCUMENT } from "../../src/api/openapi-document.ts";
import { operations, operatorOperations } from "../../src/api/index.ts";
import { FEATURES, ROLES, allows, isOrgPermission } from "../../src/domain/access.ts";
import { openApiDocument } from "../../src/http/openapi/document.ts";
import { compareRoutes } from "../../src/http/routing/route-order.ts";
import { IGNORES_UNKNOWN } from "../../src/http/schema.ts";
import { compileSchema, validate } from "../../src/http/validate.ts";
import { listStale, matchesGolden, matchesGoldens, readGoldens } from "./golden.ts";
import { joinDocument, splitDocument } from "./openapi-parts.ts";

const test = suite("rules/operations");
const all = [...operations, ...operatorOperations].sort(
  (a, b) => compareRoutes(a.path, b.path) || a.method.localeCompare(b.method),
);
const bodySchema = (operation: (typeof all)[number]): TSchema | null =>
  operation.body.kind === "none" ? null : operation.body.schema;

test("ids are unique and snake_case, and so are method and path together", () => {
  assert.equal(
    all.filter(({ id }) => !/^[a-z][a-z0-9_]*$/.test(id)).map(({ id }) => id),
    [],
  );
  const repeated = (keys: string[]): string[] => keys.filter((key, index) => keys.indexOf(key) !== index);
  assert.equal(repeated(all.map(({ id }) => id)), []);
  assert.equal(repeated(all.map(({ method, path }) => `${method} ${path.replace(/\{\w+/g, "{")}`)), []);
});

test("every operation has a summary, a tag, a declared success and an example for each path parameter", () => {
  for (const operation of all) {
    const names = [...operation.path.matchAll(/\{(\w+)\*?\}/g)].map((match) => match[1] as string);
    assert.ok(operation.summary.length > 5 && !operation.summary.endsWith("."), `${operation.id}: summary`);
    assert.ok(operation.tag, `${operation.id}: tag`);
    if (operation.status === "removed") continue;
    assert.ok(operation.responses[200] ?? operation.responses[201], `${operation.id}: success`);
    assert.equal(Object.keys(operation.params.properties).sort(), [...names].sort(), `${operation.id}: params`);
    assert.equal(
      names.filter((name) => operation.example.params?.[name] === undefined),
      [],
      `${operation.id}: example`,
    );
  }
});

test("whatever changes something is audited, and reads are not", () => {
  for (const operation of all) {
    const changes = !isReading(operation) && operation.status !== "removed";
    assert.is(operation.audit !== null, changes, `${operation.id}: audit`);
    if (operation.audit !== null) assert.match(operation.audit, /^[a-z_]+\.[a-z_]+$/);
  }
});

/**
 * The contract takes fields of the reporter's own in the first, and they are kept (operations 6). The bodies of the
 * others are validated by their adapter, in the spelling of the API (newer-clients 5.4).
 */
const OPEN_BODIES = ["post_system_attestation", "post_rego_evaluation", "post_rego_policy", "put_rego_policy"];

/** Bodies whose unknown top-level keys are ignored and counted (newer-clients 3.2); every other one is closed. */
const IGNORING_BODIES = [
  "create_artifact",
  "create_service_account",
  "create_service_account_api_key",
  "create_user_api_key",
  "post_custom_attestation",
  "post_generic_attestation",
  "post_jira_attestation",
  "post_junit_attestation",
  "post_override_attestation",
  "post_pull_request_attestation",
  "post_snyk_attestation",
  "post_sonar_attestation",
  "create_flow",
  "create_flow_with_template",
  "create_trail",
  ...["azure_apps", "cloud_run", "docker", "ecs", "k8s", "lambda", "s3", "server"].map((type) => `${type}_report`),
];

test("the bodies that report ignore unknown keys, and no others do", () => {
  const ignoring = all.filter((operation) => {
    const schema = bodySchema(operation) as Record<string, unknown> | null;
    return schema?.[IGNORES_UNKNOWN] === true;
  });
  assert.equal(ignoring.map(({ id }) => id).sort(), [...IGNORING_BODIES].sort());
});

test("other bodies and queries are closed, and examples fit them", () => {
  for (const operation of all) {
    assert.is(
      (operation.query as { additionalProperties?: boolean }).additionalProperties,
      false,
      `${operation.id}: query`,
    );
    const schema = bodySchema(operation);
    if (!schema) continue;
    // What other products sign has the form that they give it.
    const { additionalProperties: closes } = schema as { additionalProperties?: boolean };
    if (IGNORING_BODIES.includes(operation.id)) assert.is(closes, undefined, `${operation.id}: body`);
    else
      assert.is(
        closes,
        operation.permission === "signed" || OPEN_BODIES.includes(operation.id),
        `${operation.id}: body`,
      );
    assert.ok(operation.example.body !== undefined, `${operation.id}: example body`);
    assert.is(
      validate(schema, structuredClone(operation.example.body), { mode: "plain", root: "body" }),
      null,
      `${operation.id}: example body`,
    );
  }
});

test(
  "what is below /controls/ and /rego-policies/ belongs to the feature, nothing else does, and a feature is one of " +
    "an organization",
  () => {
    for (const operation of all) {
      const isBelow = /^\/(?:controls|rego-policies)\//.test(operation.path);
      assert.is(operation.feature ?? null, isBelow ? "controls" : null, operation.id);
      if (operation.feature)
        assert.ok(isOrgPermission(operation.permission) && FEATURES.includes(operation.feature), operation.id);
    }
  },
);

test("no query parameter may be null: an empty text would become null", () => {
  for (const operation of all) assert.not.match(JSON.stringify(operation.query), /"null"/, operation.id);
});

test("every schema compiles", () => {
  for (const operation of all) {
    compileSchema(operation.params, "coercing");
    compileSchema(operation.query, "coercing");
    const body = bodySchema(operation);
    if (body) compileSchema(body, "plain");
    for (const { schema } of Object.values(operation.responses)) if (schema) compileSchema(schema, "response");
  }
});

test("a component name stands for one shape", () => {
  const seen = new Map<string, string>();
  const walk = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const name = (value as Record<string, unknown>)["x-component"];
    if (typeof name === "string") {
      const text = JSON.stringify(value);
      assert.is(seen.get(name) ?? text, text, `${name} has two shapes`);
      seen.set(name, text);
    }
    Object.values(value).forEach(walk);
  };
  for (const operation of all) walk([operation.params, operation.query, bodySchema(operation), operation.responses]);
  assert.ok(seen.size > 10);
});

test("the OpenAPI document is the golden, and all its references resolve", () => {
  const document = openApiDocument(operations, { ...DOCUMENT, serverUrl: "http://localhost/api/v2" });
  const text = JSON.stringify(document, null, 2);
  const schemas = (document["components"] as { schemas: Record<string, unknown> }).schemas;
  for (const match of text.matchAll(/"#\/components\/schemas\/(\w+)"/g))
    assert.ok(match[1] && match[1] in schemas, match[1]);
  assert.not.match(text, /x-component|x-repeated|x-reserved|x-deprecation|x-published/);
  matchesGoldens("openapi", splitDocument(document));
  assert.is(joinDocument(readGoldens("openapi")), `${text}\n`);
});

test("a part of the OpenAPI document that is missing or says something else is noticed", () => {
  const parts = readGoldens("openapi");
  assert.throws(
    () => joinDocument(new Map([...parts].filter(([name]) => name !== "asserts.json"))),
    /^asserts\.json is missing$/,
  );
  const changed = new Map(parts).set("asserts.json", (parts.get("asserts.json") ?? "").replace("Asserts", "asserts"));
  assert.is.not(joinDocument(changed), joinDocument(parts));
  assert.equal(listStale("openapi", new Map([...parts].filter(([name]) => name !== "tags.json"))), ["tags.json"]);
});

test("the routes are the golden", () => {
  matchesGolden(
    "routes.txt",
    all
      .map(({ method, path, id, status }) => `${method.padEnd(6)} ${path}  ${id}${status ? `  ${status}` : ""}\n`)
      .join(""),
  );
});

test("the permission matrix is the golden", () => {
  const columns = ["no key", "outsider", ...ROLES];
  const rows = all.map((operation) => {
    const cell = (column: string): boolean => {
      const { permission } = operation;
      if (permission === "public" || permission === "signed") return true;
      if (column === "no key" || permission === "operator") return false;
      if (!isOrgPermission(permission)) return true;
      return column === "outsider"
        ? allows(permission, { role: null, isPublic: true })
        : allows(permission, { role: column as (typeof ROLES)[number], isPublic: false });
    };
    const cells = columns.map((column) => (cell(column) ? "yes" : "-").padEnd(12)).join("");
    return `${operation.id.padEnd(36)} ${operation.permission.padEnd(18)} ${cells}${operation.feature ?? ""}`.trimEnd();
  });
  const titles = columns.map((column) => column.padEnd(12)).join("");
  const head = `${"operation".padEnd(36)} ${"permission".padEnd(18)} ${titles}feature`;
  matchesGolden("permissions.txt", [head, ...rows, ""].join("\n"));
});

test.run();
