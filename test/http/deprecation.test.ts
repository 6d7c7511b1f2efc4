/** Deprecated operations, query parameters and body fields are announced in answers (RFC 9745, RFC 8288). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { TSchema } from "typebox";
import { operations } from "../../src/api/index.ts";
import { startServer } from "../given.ts";
import type { Answer, TestServer } from "../given.ts";

const test = suite("http/deprecation");
let server: TestServer;
let at: { org: string; key: string };
test.before(async () => {
  server = await startServer();
  at = server.given.org({ name: "acme" });
});
test.after(() => server.stop());

const DOCUMENTATION = '<http://assay.test/api/v2/doc/>; rel="deprecation"; type="text/html"';
const seconds = (date: string): string => `@${Date.parse(`${date}T00:00:00Z`) / 1000}`;
const announcementOf = ({ headers }: Answer): { deprecation: string | null; link: string | null } => ({
  deprecation: headers.get("deprecation"),
  link: headers.get("link"),
});
const NOTHING = { deprecation: null, link: null };

test("a deprecated operation announces its date, its documentation and its replacement", async () => {
  await server.given.flow(at, { name: "payments" });
  const listed = await server.call("GET", "/artifacts/acme/payments", { key: at.key });
  assert.is(listed.status, 200);
  const successor = '<http://assay.test/api/v2/artifacts/acme?flow_name=payments>; rel="successor-version"';
  assert.equal(announcementOf(listed), { deprecation: seconds("2026-08-20"), link: `${DOCUMENTATION}, ${successor}` });
  const body = { name: "older", description: "" };
  const created = await server.call("PUT", "/flows/acme", { key: at.key, body });
  assert.is(created.status, 201);
  assert.is(
    announcementOf(created).link,
    `${DOCUMENTATION}, <http://assay.test/api/v2/flows/acme/template_file>; rel="successor-version"`,
  );
});

test("refusals and 304 answers of a deprecated operation announce it too", async () => {
  const missing = await server.call("GET", "/artifacts/acme/no%20such", { key: at.key });
  assert.equal(
    { status: missing.status, deprecation: announcementOf(missing).deprecation },
    { status: 404, deprecation: seconds("2026-08-20") },
  );
  assert.match(announcementOf(missing).link ?? "", "?flow_name=no%20such>");
  const invalid = await server.call("PUT", "/flows/acme", { key: at.key, body: {} });
  assert.equal(
    { status: invalid.status, deprecation: announcementOf(invalid).deprecation },
    { status: 400, deprecation: seconds("2026-08-20") },
  );
  const { headers } = await server.call("GET", "/artifacts/acme/payments", { key: at.key });
  const again = await server.call("GET", "/artifacts/acme/payments", {
    key: at.key,
    headers: { "If-None-Match": headers.get("etag") ?? "" },
  });
  assert.equal(
    { status: again.status, deprecation: announcementOf(again).deprecation },
    { status: 304, deprecation: seconds("2026-08-20") },
  );
  const stranger = await server.call("GET", "/artifacts/acme/payments");
  assert.equal({ status: stranger.status, announced: announcementOf(stranger) }, { status: 401, announced: NOTHING });
});

test("a deprecated query parameter is announced only if it has a value", async () => {
  await server.given.environment(at, { name: "production" });
  const path = "/environments/acme/production/events";
  const used = await server.call("GET", `${path}?interval=1..NOW`, { key: at.key });
  assert.equal(
    { status: used.status, announced: announcementOf(used) },
    { status: 200, announced: { deprecation: seconds("2026-05-26"), link: DOCUMENTATION } },
  );
  // The command-line client always sends it, empty if its user gave none.
  for (const query of ["", "?interval=", "?start=1&end=NOW"])
    assert.equal(announcementOf(await server.call("GET", `${path}${query}`, { key: at.key })), NOTHING, query);
});

test("one Link header has the links of pages and the deprecation", async () => {
  const environment = await server.given.environment(at, { name: "paged" });
  const item = (digit: string): object => ({
    podName: `pod-${digit}`,
    namespace: "default",
    digests: { [`app:${digit}`]: digit.repeat(64) },
    creationTimestamp: 1_700_000_000,
    owners: [],
  });
  const path = `/environments/acme/${environment}`;
  const reported = await server.call("PUT", `${path}/report/K8S`, {
    key: at.key,
    body: { artifacts: [item("a"), item("b")] },
  });
  assert.is(reported.status, 201, reported.text);
  const { status, headers } = await server.call("GET", `${path}/events?interval=1..NOW&per_page=1`, { key: at.key });
  assert.is(status, 200);
  const link = headers.get("link") ?? "";
  for (const rel of ["first", "next", "last", "deprecation"]) assert.match(link, `rel="${rel}"`);
  assert.ok(link.endsWith(DOCUMENTATION));
});

test("a deprecated body field is announced if it is sent and not null", async () => {
  const body = { name: "staging", type: "K8S", description: "" };
  const answer = (more: object): Promise<Answer> =>
    server.call("PUT", "/environments/acme", { key: at.key, body: { ...body, ...more } });
  assert.equal(announcementOf(await answer({ include_scaling: false })), {
    deprecation: seconds("2026-08-19"),
    link: DOCUMENTATION,
  });
  assert.equal(announcementOf(await answer({ require_provenance: true })), {
    deprecation: seconds("2026-08-20"),
    link: DOCUMENTATION,
  });
  assert.equal(announcementOf(await answer({ include_scaling: null })), NOTHING);
  assert.equal(announcementOf(await answer({})), NOTHING);
});

test("every deprecated part of a request has a date, and nothing else has one", () => {
  const walk = (value: unknown, place: string): void => {
    if (typeof value !== "object" || value === null) return;
    const { deprecated = false, "x-deprecation": deprecation } = value as {
      deprecated?: boolean;
      "x-deprecation"?: { since: string };
    };
    assert.is(deprecation !== undefined, deprecated === true, place);
    if (deprecation) assert.match(deprecation.since, /^\d{4}-\d\d-\d\d$/);
    for (const [key, item] of Object.entries(value)) walk(item, `${place} ${key}`);
  };
  for (const { id, params, query, body } of operations) {
    walk(params, id);
    walk(query, id);
    if (body.kind !== "none") walk(body.schema as TSchema, id);
  }
});

test.run();
