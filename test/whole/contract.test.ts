/**
 * Compares the contract's table of operations (test/cases/operations.json) with what this server serves and publishes.
 * A row of the table has method, path, id, mark, kind of body, success and error statuses, and the query with types,
 * defaults and limits.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../src/api/index.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

type QueryLine = {
  name: string;
  /** Absent where the contract accepts more than one type. */
  type?: "string" | "integer" | "number" | "boolean";
  default?: unknown;
  minimum?: number;
  maximum?: number;
  words?: string[];
  repeated?: true;
  required?: true;
  in?: "header";
};
type Line = {
  method: string;
  /** Below the API root; `//ready` is at the root of the host. */
  path: string;
  id: string;
  status: "current" | "beta" | "deprecated" | "unlisted" | "removed";
  body: "none" | "json" | "multipart";
  ok: number[];
  errors: number[];
  query: QueryLine[];
};

/** Served by middleware of their own, and therefore in no list of operations. */
const PAGES: readonly string[] = ["get_api_docs", "get_ready"];

/** Query parameters in addition to those of the table: by a rule in the text of the contract, or bounds of ours. */
const FURTHER: Readonly<Record<string, readonly string[]>> = {
  environment_diff: ["limit"],
  get_env_events: ["search", "kind"],
  get_snapshot: ["page", "per_page", "show", "search"],
  list_allowlist: ["page", "per_page", "env_name", "fingerprint", "in_force", "envelope"],
  list_envs: ["counts", "causes", "state"],
  // Why something is not compliant, in words that begin with what decided.
  assert_artifact: ["causes"],
  list_artifacts: ["state", "name", "envelope", "causes"],
  // Clients send the names in the body or here.
  detach_policy_from_env: ["policy_names"],
  // The pages of a flow filter its lists.
  list_trails: ["state", "search_by_name", "summaries", "causes"],
  // The page of a trail reads its history in pages.
  get_trail: ["events"],
  list_deployments: ["flow_name", "first_starts"],
  list_env_deployments: ["first_starts"],
  list_repo_deployments: ["first_starts"],
  get_repo_deployment_statistics: ["first_starts"],
  list_policies: ["page", "per_page", "name", "files"],
  get_policy: ["files"],
  list_control_decisions: ["flow_name"],
  // api_url leads to one record even where the trail does not distinguish it from others of its fingerprint.
  get_artifact_by_fingerprint: ["artifact_id"],
  // The list of attestations by commit has neither pages nor the other filters.
  get_attestations: ["commit"],
  // Without them, answers are whole. Pages show neither all types at once nor long schemas.
  get_custom_attestation_types: ["page", "per_page", "max_versions", "schemas", "envelope", "name"],
  get_custom_attestation_type: ["max_versions", "schemas"],
};
/**
 * Parameters that are published differently from the table, each with the reason. A row whose reason no longer holds
 * fails the test.
 */
const WORDED_OTHERWISE: Readonly<Record<string, string>> = {
  "get_flows page": "without page and per_page the list is bare, so that neither has a value of its own",
  "list_trails page": "without per_page the list is bare",
  "get_flows sort": "the text below the table says that name is the default",
  "list_envs sort": "pages begin with the environments that fail",
  "get_env_events start": "1 by default, but only without a range of higher rank: its absence must be visible",
  "get_env_events end": "NOW by default, like start",
  "list_attestations_for_criteria commit_list": "the text below the table says that it is mandatory",
  "get_env_auditlog event_types": "a list joined by commas, or repeated keys as with every other list",
  "get_env_auditlog flow_names": "as event_types",
  "get_env_auditlog repo_names": "as event_types",
  "list_repo_deployments env": "an empty list is no list, and no default of Go that openapi-generator writes compiles",
  "get_repo_deployment_statistics env": "as list_repo_deployments",
};

/** Statuses of the table that cannot occur here, each with the reason. */
const NEVER_ANSWERED: Readonly<Record<string, string>> = {
  "create_env 409": "writes run one after the other, so that no creation can lose a race",
  "create_flow_with_template 409": "as create_env",
};

/** Time windows of builds, deployments and statistics are also accepted in these spellings. */
const OTHER_SPELLINGS: readonly string[] = ["start-ts", "end-ts"];

const table = JSON.parse(readFileSync(join(import.meta.dirname, "..", "cases", "operations.json"), "utf8")) as Line[];
const served = table.filter(({ status }) => status !== "removed");
const keyOf = ({ method, path }: { method: string; path: string }): string => `${method} ${path.replace("*}", "}")}`;
const built = new Map(operations.map((operation) => [keyOf(operation), operation]));
const present = served.filter(({ id }) => !PAGES.includes(id));

const test = suite("whole/contract");
let server: TestServer;
let components: Components = {};
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Parameter = { name: string; in: string; required: boolean; schema: Record<string, unknown> };
type Published = {
  operationId: string;
  deprecated?: boolean;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, unknown> };
  responses: Record<string, unknown>;
};

type Components = Record<string, unknown>;

/** The published document, by method and path. */
async function published(): Promise<Map<string, Published>> {
  const { body } = await server.call<{
    paths: Record<string, Record<string, Published>>;
    components: { schemas: Components };
  }>("GET", "/openapi.json");
  components = body.components.schemas;
  return new Map(
    Object.entries(body.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, one]) => [`${method.toUpperCase()} ${path}`, one] as const),
    ),
  );
}

test("the table is complete", () => {
  assert.is(served.filter(({ path }) => !path.startsWith("//")).length, 128);
  assert.is(served.filter(({ path }) => path.startsWith("//")).length, 1);
  assert.is(table.length - served.length, 5);
});

test("serves exactly the operations of the table, and those declared as ours", () => {
  const missing = served
    .filter((line) => !PAGES.includes(line.id) && built.get(keyOf(line))?.id !== line.id)
    .map(({ id }) => id);
  assert.equal(missing, [], "operations that are not there");
  const known = new Set(table.map(keyOf));
  const ours = (key: string): boolean => built.get(key)?.origin === "assay";
  const [undeclared, mistaken] = [false, true].map((isKnown) =>
    [...built.keys()].filter((key) => known.has(key) === isKnown && ours(key) === isKnown),
  );
  assert.equal(undeclared, [], "operations that the contract does not know");
  assert.equal(mistaken, [], "operations of the contract that are declared as ours");
});

test("publishes deprecated operations as such, and no unlisted and removed ones", async () => {
  const document = await published();
  const unexpected = table
    .filter(({ status }) => status === "unlisted" || status === "removed")
    .filter((line) => document.has(keyOf(line)));
  assert.equal(unexpected.map(keyOf), []);
  for (const line of present.filter(({ status }) => status !== "unlisted")) {
    const found = document.get(keyOf(line));
    assert.is(found?.operationId, line.id, keyOf(line));
    assert.is(found?.deprecated ?? false, line.status === "deprecated", `${line.id}: deprecated`);
  }
});

test("has the bodies and statuses of the table", async () => {
  const document = await published();
  const differences = present.flatMap((line) => {
    const found = document.get(keyOf(line));
    if (!found) return [];
    const kinds = Object.keys(found.requestBody?.content ?? {});
    const expected = { none: [], json: ["application/json"], multipart: ["multipart/form-data"] }[line.body];
    const statuses = Object.keys(found.responses).map(Number);
    const success = statuses.filter((status) => status === 200 || status === 201).sort();
    return [
      ...(String(kinds) === String(expected) ? [] : [`${line.id}: body ${kinds} instead of ${expected}`]),
      ...(String(success) === String(line.ok) ? [] : [`${line.id}: success ${success} instead of ${line.ok}`]),
      ...line.errors
        .filter((status) => !statuses.includes(status) && !(`${line.id} ${status}` in NEVER_ANSWERED))
        .map((status) => `${line.id}: ${status} is not declared`),
    ];
  });
  assert.equal(differences, []);
});

/** A published parameter in the notation of the table. */
function lineOf(
  { name, required, schema }: Parameter,
  { type, words, minimum: least }: QueryLine,
  components: Components,
): QueryLine {
  const shape = (schema["type"] === "array" ? schema["items"] : schema) as Record<string, unknown>;
  const item =
    typeof shape["$ref"] === "string"
      ? (components[shape["$ref"].replace("#/components/schemas/", "")] as Record<string, unknown>)
      : shape;
  const { minimum } = item as { minimum?: number };
  return {
    name,
    ...(type === undefined ? {} : { type: item["type"] as NonNullable<QueryLine["type"]> }),
    ...("default" in schema ? { default: schema["default"] } : {}),
    // Pages without a stated minimum are counted from 1 too; the largest JSON integer is not a limit of ours.
    ...(minimum === undefined || (least === undefined && minimum === 1) ? {} : { minimum }),
    ...("maximum" in item && item["maximum"] !== Number.MAX_SAFE_INTEGER ? { maximum: item["maximum"] as number } : {}),
    ...(words && "enum" in item ? { words: item["enum"] as string[] } : {}),
    ...(schema["type"] === "array" ? { repeated: true } : {}),
    ...(required ? { required: true } : {}),
  };
}

const sorted = (line: QueryLine): unknown =>
  Object.fromEntries(Object.entries(line).sort(([a], [b]) => (a < b ? -1 : 1)));

test("has the queries of the table: names, types, defaults, limits, words, repetition", async () => {
  const document = await published();
  const differences: unknown[] = [];
  const agreed: string[] = [];
  for (const line of present) {
    const found = document.get(keyOf(line))?.parameters?.filter((parameter) => parameter.in === "query");
    if (!document.has(keyOf(line))) continue;
    const documented = line.query.filter((one) => one.in !== "header");
    for (const expected of documented) {
      const parameter = found?.find(({ name }) => name === expected.name);
      const is = parameter ? sorted(lineOf(parameter, expected, components)) : null;
      const key = `${line.id} ${expected.name}`;
      if (JSON.stringify(is) === JSON.stringify(sorted(expected))) agreed.push(key);
      else if (is === null || !(key in WORDED_OTHERWISE))
        differences.push({ operation: line.id, is, expected: sorted(expected) });
    }
    const further = found?.map(({ name }) => name).filter((name) => !documented.some((one) => one.name === name)) ?? [];
    const unknown = further.filter((name) => !FURTHER[line.id]?.includes(name) && !OTHER_SPELLINGS.includes(name));
    if (unknown.length > 0) differences.push({ operation: line.id, unknown });
  }
  assert.equal(differences, []);
  assert.equal(
    agreed.filter((key) => key in WORDED_OTHERWISE),
    [],
    "worded as in the table by now",
  );
});

test("removed operations return 410 with any key, and 401 without one", async () => {
  const { org } = server.given.org();
  const stranger = server.given.user(org, null);
  for (const line of table.filter(({ status }) => status === "removed")) {
    const path = line.path.replace("{org}", org).replace(/\{\w+\}/g, "x");
    const answer = await server.call(line.method, path, {
      key: stranger,
      ...(line.method === "GET" ? {} : { raw: "{", headers: { "Content-Type": "text/odd" } }),
    });
    assert.equal(
      { status: answer.status, "keys of answer.body": Object.keys(answer.body) },
      { status: 410, "keys of answer.body": ["message"] },
      keyOf(line),
    );
    assert.is((await server.call(line.method, path)).status, 401, keyOf(line));
  }
});

test("pages outside of the list of operations need no key", async () => {
  assert.is((await server.call("GET", "//ready")).text, "OK");
  const page = await server.call("GET", "/doc/");
  assert.is(page.status, 200);
  assert.match(page.text, /<html/);
});

test("refuses beta operations in an organization without controls", async () => {
  const { org, key } = server.given.org();
  server.db.prepare("UPDATE organizations SET controls_enabled = 0 WHERE name = ?").run(org);
  for (const line of present.filter(({ status }) => status === "beta")) {
    const operation = built.get(keyOf(line));
    const path = line.path
      .replace("{org}", org)
      .replace(/\{(\w+)\}/g, (_all, name: string) => encodeURIComponent(operation?.example.params?.[name] ?? "x"));
    const answer = await server.call(line.method, path, {
      key,
      ...(line.body === "json" ? { body: operation?.example.body } : {}),
    });
    assert.equal(
      { status: answer.status, "keys of answer.body": Object.keys(answer.body) },
      { status: 403, "keys of answer.body": ["message"] },
      line.id,
    );
  }
});

test.run();
