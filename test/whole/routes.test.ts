/**
 * Paths that two patterns match: `/actions/{org}/environments` is also `/actions/{org}/{action_number}`. The literal
 * wins for the methods that it has. For all others the pattern responds where the literal can be a name of its kind,
 * and none where it cannot. `Allow` of a 405 names exactly the methods that do respond. Tested for every such pair of
 * operations.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import { compareRoutes } from "../../src/http/routing/route-order.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const METHODS = ["GET", "PUT", "POST", "PATCH", "DELETE"] as const;

/** Literals that cannot be a value of the other pattern's parameter; every other overlapping literal can. */
const NEVER_A_NAME: readonly string[] = ["action_number = environments", "action_number = flows", "identifier = tags"];

const test = suite("whole/routes");
let server: TestServer;
let key: string;
test.before(async () => {
  server = await startServer();
  key = server.given.org({ name: "acme" }).key;
});
test.after(() => server.stop());

const segmentsOf = (path: string): string[] => path.split("/").slice(1);
const isParameter = (segment: string): boolean => segment.startsWith("{");

/**
 * Where `general` has a parameter and `special` a literal, as `parameter = literal`; null when no path matches both.
 */
function overlap(special: string, general: string): string[] | null {
  const [left, right] = [segmentsOf(special), segmentsOf(general)];
  if (
    special === general ||
    left.length !== right.length ||
    [...left, ...right].some((segment) => segment.endsWith("*}"))
  )
    return null;
  const shared: string[] = [];
  for (const [place, segment] of left.entries()) {
    const other = right[place] as string;
    if (isParameter(segment) || segment === other) continue;
    if (!isParameter(other)) return null;
    shared.push(`${other.slice(1, -1)} = ${segment}`);
  }
  return shared;
}

const paths = [...new Set(operations.map(({ path }) => path))].sort(compareRoutes);
const at = (path: string): AssayOperation[] => operations.filter((operation) => operation.path === path);
const allows = (methods: readonly string[]): string =>
  [...new Set(methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])))].sort().join(", ");

/** A matching path below the API root, with parameters from the examples of the operation. */
const examplePath = ({ path, example }: AssayOperation): string =>
  path.replace(/\{(\w+)\*?\}/g, (_all, name: string) =>
    name === "org" ? "acme" : encodeURIComponent(example.params?.[name] ?? "x"),
  );

/** The operation that the server routed the request to, from its log; null when it routed it to none. */
async function answeredBy(
  method: string,
  path: string,
): Promise<{ operation: string | null; status: number; allow: string | null; body: unknown }> {
  const before = server.lines.length;
  const { status, headers, body } = await server.call(method, path, { key });
  await server.settled();
  const line = server.lines
    .slice(before)
    .map((text) => JSON.parse(text) as { route?: string | null; method?: string })
    .find((one) => one.method === method);
  return { operation: line?.route ?? null, status, allow: headers.get("allow"), body };
}

const pairs = paths.flatMap((special, place) =>
  paths.slice(place + 1).flatMap((general) => {
    const shared = overlap(special, general);
    return shared === null || shared.length === 0 ? [] : [{ special, general, shared }];
  }),
);

test("overlapping pairs exist, and every literal that is never a name is in one of them", () => {
  assert.ok(pairs.length >= 10, `${pairs.length} pairs`);
  const literals = pairs.flatMap(({ shared }) => shared);
  assert.equal(
    NEVER_A_NAME.filter((one) => !literals.includes(one)),
    [],
  );
});

for (const special of new Set(pairs.map((pair) => pair.special))) {
  test(`${special}: the first pattern with a method handles it, and Allow names all methods`, async () => {
    const generals = pairs
      .filter((pair) => pair.special === special && !pair.shared.some((one) => NEVER_A_NAME.includes(one)))
      .map(({ general }) => general);
    const candidates = [special, ...generals].flatMap(at);
    const path = examplePath(at(special)[0] as AssayOperation);
    const answering = candidates.filter(
      ({ matchesParams: means, path: pattern }) => means === undefined || means(paramsIn(pattern, path)),
    );
    for (const method of METHODS) {
      const expected = answering.find((operation) => operation.method === method);
      const found = await answeredBy(method, path);
      if (expected) {
        assert.is(found.operation, expected.id, `${method} ${path}`);
        assert.is.not(found.status, 405, `${method} ${path}`);
        continue;
      }
      assert.equal(
        found,
        {
          operation: null,
          status: 405,
          allow: allows(answering.map((operation) => operation.method)),
          body: { message: "The method is not allowed for the requested URL" },
        },
        `${method} ${path}`,
      );
    }
  });
}

/** The parameters of a pattern in a path that matches it. */
function paramsIn(pattern: string, path: string): Record<string, string> {
  const parts = segmentsOf(path);
  return Object.fromEntries(
    segmentsOf(pattern).flatMap((segment, place) =>
      isParameter(segment) ? [[segment.slice(1, -1), decodeURIComponent(parts[place] ?? "")]] : [],
    ),
  );
}

test("collections of actions accept PUT only: their names are not action numbers", async () => {
  for (const word of ["environments", "flows"]) {
    for (const method of ["GET", "DELETE", "POST"]) {
      const { status, headers, body } = await server.call(method, `/actions/acme/${word}`, { key });
      assert.equal(
        { status, allow: headers.get("allow"), body },
        { status: 405, allow: "PUT", body: { message: "The method is not allowed for the requested URL" } },
      );
    }
  }
});

test("a flow named template_file can be read, and Allow names the methods of both patterns", async () => {
  const read = await server.call("GET", "/flows/acme/template_file", { key });
  assert.equal(
    { status: read.status, body: read.body },
    { status: 404, body: { message: "Flow named 'template_file' does not exist for organization 'acme'" } },
  );
  const form = { json: { name: "template_file" } };
  assert.is((await server.call("PUT", "/flows/acme/template_file", { key, form })).status, 201);
  const found = await server.call("GET", "/flows/acme/template_file", { key });
  assert.equal({ status: found.status, name: found.body.name }, { status: 200, name: "template_file" });
  const refused = await server.call("DELETE", "/flows/acme/template_file", { key });
  assert.equal(
    { status: refused.status, allow: refused.headers.get("allow") },
    { status: 405, allow: "GET, HEAD, PUT" },
  );
});

test("Allow omits an operation that does not match the path", async () => {
  // `/repos/{org}/{repo}/deployments` takes internal ids only; everything else is the name of a repository, which can
  // only be read.
  const { status, headers } = await server.call("POST", "/repos/acme/owner/deployments", { key, body: {} });
  assert.equal({ status, allow: headers.get("allow") }, { status: 405, allow: "GET, HEAD" });
});

test.run();
