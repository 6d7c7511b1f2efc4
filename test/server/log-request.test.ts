import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { RequestEntry } from "../../src/http/request-entry.ts";
import { createLogger } from "../../src/log.ts";
import { logRequest } from "../../src/server/log-request.ts";

const test = suite("server/log-request");

const capture = () => {
  const lines: string[] = [];
  const logger = createLogger({ level: "trace", destination: { write: (line) => void lines.push(line) } });
  const entries = (): Record<string, unknown>[] => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return { logger, entries };
};

const ENTRY: RequestEntry = {
  method: "GET",
  route: "/flows/{org}",
  path: "/api/v2/flows/acme",
  status: 200,
  duration_ms: 3.07654,
  actor: "ops",
  org: "acme",
  client: "192.0.2.7",
  request_id: "r1",
  bytes_in: 0,
  bytes_out: 120,
};

const logged = (entry: Partial<RequestEntry>): Record<string, unknown> => {
  const { logger, entries } = capture();
  logRequest(logger, { ...ENTRY, ...entry });
  const [{ time: _, ...rest } = {}, ...others] = entries();
  assert.equal(others, []);
  return rest;
};

test("a stream that lasts as long as a page is open is not slow", () => {
  assert.is(logged({ route: "live", duration_ms: 3_600_000 })["msg"], "request");
});

test("successful probes and scrapes are logged at debug, failing ones are not", () => {
  for (const route of ["get_ready", "get_healthz", "get_metrics"]) {
    const { logger, entries } = capture();
    for (const status of [200, 401, 503]) logRequest(logger, { ...ENTRY, route, status });
    assert.equal(
      entries().map(({ level }) => level),
      ["debug", "info", "error"],
      route,
    );
  }
});

test("bytes that are not a request have a line without method and path", () => {
  const line = logged({ method: null, route: null, path: null, status: 400, error_code: "HPE_INVALID_METHOD" });
  assert.equal(
    { method: line["method"], path: line["path"], client: line["client"], error_code: line["error_code"] },
    { method: null, path: null, client: "192.0.2.7", error_code: "HPE_INVALID_METHOD" },
  );
});

test("a complete line", () => {
  assert.equal(logged({}), { level: "info", ...ENTRY, duration_ms: 3.1, msg: "request" });
  assert.equal(logged({ status: 500, error_code: "internal", error_id: "e1" }), {
    level: "error",
    ...ENTRY,
    duration_ms: 3.1,
    status: 500,
    error_code: "internal",
    error_id: "e1",
    msg: "request failed",
  });
});

test("the level is error from 500, warn if slow for its size, else info", () => {
  const table: [Partial<RequestEntry>, string][] = [
    [{ status: 200 }, "info"],
    [{ status: 401 }, "info"],
    [{ status: 499 }, "info"],
    [{ status: 500 }, "error"],
    [{ status: 503 }, "error"],
    [{ duration_ms: 1000 }, "info"],
    [{ duration_ms: 1001 }, "warn"],
    [{ duration_ms: 5000, status: 500 }, "error"],
    [{ duration_ms: 90_000, bytes_in: 104_857_600 }, "info"],
    [{ duration_ms: 102_000, bytes_in: 104_857_600 }, "warn"],
    [{ duration_ms: 5000, bytes_out: 5_242_880 }, "info"],
  ];
  for (const [entry, level] of table) assert.is(logged(entry)["level"], level, JSON.stringify(entry));
});

test("the query and the id of a webhook are omitted", () => {
  const table: [string, string][] = [
    ["/api/v2/flows/acme?api_key=abc", "/api/v2/flows/acme"],
    ["/x#frag", "/x"],
    ["/x?a\n?b", "/x"],
    ["/api/v2/webhooks/sonar/u-n-g-u-e-s-s", "/api/v2/webhooks/[hidden]"],
    ["/api/fastapi/webhooks/launch-darkly/abc?x", "/api/fastapi/webhooks/[hidden]"],
    ["//prefix/api//v2//webhooks//sonar//abc", "//prefix/api//v2//webhooks/[hidden]"],
    ["/api/v2/flows/webhooks/build", "/api/v2/flows/webhooks/build"],
  ];
  for (const [path, expected] of table) assert.is(logged({ path })["path"], expected);
});

test.run();
