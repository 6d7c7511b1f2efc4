/**
 * Which limit typical data of each kind meets first: just below it everything is accepted, just above it the refusal
 * names it. The page of limits says the same.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { readDocument } from "../rules/documentation.ts";

const test = suite("http/first-limits");
let server: TestServer;
test.before(async () => {
  server = await startServer();
});
test.after(() => server.stop());

const MB = 1_048_576;
const COMMIT = "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112";

const component = (n: number) => ({
  type: "library",
  "bom-ref": `pkg:npm/name-${n}@1.${n}.0`,
  name: `name-${n}`,
  version: `1.${n}.0`,
  purl: `pkg:npm/name-${n}@1.${n}.0`,
  scope: "required",
  licenses: [{ license: { id: "MIT" } }],
  hashes: [{ alg: "SHA-256", content: String(n).padStart(64, "0") }],
});
const testSuite = (n: number) => ({
  name: `com.example.shop.checkout.CartTest${n}`,
  failures: 0,
  errors: 0,
  skipped: 1,
  total: 42,
  duration: 3.51,
  timestamp: 1_790_000_000 + n,
});
const finding = (n: number) => ({
  id: `SNYK-JS-PACKAGE${n}-1234567`,
  message: "This file is vulnerable to a regular expression that takes exponential time on some inputs",
  locations: [{ uri: `src/components/part-${n}/index.ts`, lines: "10-12" }],
  priority_score: 512,
});
const issue = (n: number) => ({
  issue_id: `SHOP-${n}`,
  issue_url: `https://jira.example.com/browse/SHOP-${n}`,
  issue_exists: true,
  issue_fields: { summary: "Customers can pay an order in parts, and see what is left", status: "Done", points: 5 },
});
const condition = (n: number) => ({
  metric: `new_coverage_${n}`,
  errorThreshold: "80",
  operator: "LESS_THAN",
  status: "OK",
  value: "91.2",
});
const gitCommit = (n: number, message: string) => ({
  sha1: COMMIT,
  message,
  author: "Ada Lovelace <ada@example.com>",
  branch: `feature-${n}`,
  timestamp: 1_790_000_000 + n,
  url: `https://git.example.com/shop/web/commit/${COMMIT}`,
});
const pullRequest = (message: string) => (n: number) => ({
  url: `https://git.example.com/shop/web/pull/${n}`,
  state: "MERGED",
  merge_commit: COMMIT,
  author: "ada",
  title: `Change number ${n}`,
  approvers: [{ username: "grace", state: "APPROVED", timestamp: 1_790_000_000 }],
  commits: [gitCommit(n, message)],
});

const items = (count: number, item: (n: number) => object): object[] =>
  Array.from({ length: count }, (_, n) => item(n));

/** How many items have so many megabytes of JSON together; they grow with their number, by a digit or two. */
function countFor(megabytes: number, item: (n: number) => object): number {
  const bytes = (count: number): number => Buffer.byteLength(JSON.stringify(items(count, item)));
  const guess = Math.floor((megabytes * MB * 10_000) / bytes(10_000));
  return Math.floor((guess * megabytes * MB) / bytes(guess));
}

type Row = {
  segment: string;
  fields: (all: object[]) => object;
  item: (n: number) => object;
  /** In megabytes, or in items. */
  limit: { megabytes: number } | { count: number };
  refusal: { status: number; text: string };
};

const ROWS: Readonly<Record<string, Row>> = {
  "a bill of materials as data of a custom type": {
    segment: "custom",
    fields: (components) => ({ type_name: "sbom", attestation_data: { bomFormat: "CycloneDX", components } }),
    item: component,
    limit: { megabytes: 4 },
    refusal: { status: 413, text: "Field 'attestation_data' exceeds the 4MB limit" },
  },
  "a bill of materials as user_data": {
    segment: "generic",
    fields: (components) => ({ is_compliant: true, user_data: { components } }),
    item: component,
    limit: { megabytes: 4 },
    refusal: { status: 413, text: "Field 'user_data' exceeds the 4MB limit" },
  },
  "JUnit results": {
    segment: "junit",
    fields: (junit_results) => ({ junit_results }),
    item: testSuite,
    limit: { megabytes: 8 },
    refusal: { status: 413, text: "Field 'junit_results' exceeds the 8MB limit" },
  },
  "Snyk results": {
    segment: "snyk",
    fields: (high) => ({
      snyk_results: {
        tool: { name: "Snyk Code", version: "1.1290" },
        results: [{ low_count: 0, medium_count: 0, high_count: high.length, high }],
      },
    }),
    item: finding,
    limit: { megabytes: 8 },
    refusal: { status: 413, text: "Field 'snyk_results' exceeds the 8MB limit" },
  },
  "Jira results": {
    segment: "jira",
    fields: (jira_results) => ({ jira_results }),
    item: issue,
    limit: { megabytes: 8 },
    refusal: { status: 413, text: "Field 'jira_results' exceeds the 8MB limit" },
  },
  "Sonar results": {
    segment: "sonar",
    fields: (conditions) => ({
      sonar_results: {
        analysedAt: "2026-01-31T10:00:00+0000",
        revision: COMMIT,
        project: { key: "shop" },
        qualityGate: { status: "OK", conditions },
      },
    }),
    item: condition,
    limit: { count: 10_000 },
    refusal: { status: 400, text: "List should have at most 10000 items" },
  },
  "pull requests": {
    segment: "pull_request",
    fields: (pull_requests) => ({ git_provider: "github", pull_requests }),
    item: pullRequest("Pay an order in parts"),
    limit: { count: 10_000 },
    refusal: { status: 400, text: "List should have at most 10000 items" },
  },
  "pull requests with long messages": {
    segment: "pull_request",
    fields: (pull_requests) => ({ git_provider: "github", pull_requests }),
    item: pullRequest("Pay an order in parts. ".repeat(30)),
    limit: { megabytes: 8 },
    refusal: { status: 413, text: "Field 'pull_requests' exceeds the 8MB limit" },
  },
};

for (const [what, { segment, fields, item, limit, refusal }] of Object.entries(ROWS)) {
  const bound = "count" in limit ? `${limit.count} items` : `${limit.megabytes} MB`;
  test(`${what}: ${bound} are met first`, async () => {
    const at = server.given.org();
    const flow = await server.given.flow(at);
    await server.call("POST", `/custom-attestation-types/${at.org}`, { key: at.key, form: { json: { name: "sbom" } } });
    const report = (count: number) =>
      server.call("POST", `/attestations/${at.org}/${flow}/trail/t/${segment}`, {
        key: at.key,
        form: { json: JSON.stringify({ attestation_name: "a", ...fields(items(count, item)) }) },
      });
    const [most, tooMany] =
      "count" in limit
        ? [limit.count, limit.count + 1]
        : [countFor(limit.megabytes * 0.99, item), countFor(limit.megabytes * 1.01, item)];
    const accepted = await report(most);
    assert.is(accepted.status, 201, accepted.text.slice(0, 500));
    const refused = await report(tooMany);
    assert.is(refused.status, refusal.status, refused.text.slice(0, 500));
    assert.match(refused.text, refusal.text);
  });
}

test("a template meets the number of its artifacts and attestations first, a policy that of its rules", async () => {
  const at = server.given.org();
  const entries = (count: number): string =>
    Array.from({ length: count }, (_, n) => `    - name: unit-tests-${n}\n      type: junit\n`).join("");
  const template = (count: number) =>
    server.call("PUT", `/flows/${at.org}/template_file`, {
      key: at.key,
      form: {
        json: { name: "shop", description: "" },
        file: {
          name: "template_file",
          filename: "t.yml",
          content: `version: 1\ntrail:\n  attestations:\n${entries(count)}`,
        },
      },
    });
  assert.is((await template(2_000)).status, 201);
  const large = await template(2_001);
  assert.is(large.status, 400, large.text);
  assert.match(large.text, "2000");
  const rules = (count: number): string =>
    Array.from({ length: count }, (_, n) => `    - type: junit\n      name: unit-tests-${n}\n`).join("");
  const policy = (count: number) =>
    server.call("PUT", `/policies/${at.org}`, {
      key: at.key,
      form: {
        field: "payload",
        json: { name: "shop" },
        file: {
          name: "policy_file",
          filename: "p.yml",
          content: `_schema: /v1\nartifacts:\n  attestations:\n${rules(count)}`,
        },
      },
    });
  assert.is((await policy(250)).status, 201);
  const long = await policy(251);
  assert.is(long.status, 400, long.text);
  assert.match(long.text, "250");
});

test("the page of limits names the first limit of each kind, and about how many items that are", () => {
  const page = readDocument("src/guide/limits.md");
  const shown = new Map(
    [...page.matchAll(/^\| ([^|]+) \| ([^|]+) \| (\d+) (?:components|suites|findings|issues)[^|]* \|$/gm)].map(
      ([, what = "", first = "", count]) => [what, { first, count: Number(count) }] as const,
    ),
  );
  for (const [what, name] of [
    ["a bill of materials as data of a custom type", "a bill of materials as data of a custom type, or as `user_data`"],
    ["JUnit results", "JUnit results"],
    ["Snyk results", "Snyk results"],
    ["Jira results", "Jira results"],
  ] as const) {
    const { limit, item } = ROWS[what] as Row;
    const megabytes = "megabytes" in limit ? limit.megabytes : 0;
    const row = shown.get(name);
    assert.is(row?.first, `${megabytes}MB of JSON`, name);
    const count = countFor(megabytes, item);
    assert.ok(Math.abs(count / (row?.count ?? 0) - 1) < 0.2, `${name}: ${count} items`);
  }
});

test.run();
