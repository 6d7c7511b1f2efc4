/**
 * The metrics page, on both listeners. Values from the database are tested in
 * store/notifications/metrics-queries.test.ts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createMemoryBudget } from "../../src/http/memory/memory-budget.ts";
import { createMetricsApp } from "../../src/server/app.ts";
import { listen, closeListener } from "../../src/server/listener.ts";
import { createLogger } from "../../src/log.ts";
import { createMetrics } from "../../src/server/metrics.ts";
import type { MetricSources, Metrics } from "../../src/server/metrics.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { metricsStore } from "../../src/store/notifications/metrics-queries.ts";
import { AMPLE, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { dial, exchange, logged } from "../http/socket.ts";

const test = suite("server/metrics");

const TOKEN = "metrics-token-0123456789";
const BUILD = { version: "1.2.3", commit: "abc" };
const MEMORY = { total: 300, bodies: 100, answers: 100 };
const NO_FIGURES: MetricSources["figures"] = {
  readSpace: () => ({ bytes: 4096, free: 0 }),
  listJobs: () => [],
  countFailingJobs: () => 0,
  summarizeDeliveries: () => ({ waiting: 0, dead: 0, oldest: null }),
  summarizeUnknownInputs: () => [],
  summarizeEvidence: () => ({ files: 0, bytes: 0, inDatabase: 0, bytesInDatabase: 0 }),
};
const metricsOf = (more: Partial<MetricSources> = {}): Metrics =>
  createMetrics({
    figures: NO_FIGURES,
    directory: null,
    now: () => 1000,
    build: BUILD,
    jobKinds: () => [],
    pools: () => ({}),
    memory: createMemoryBudget(MEMORY),
    ...more,
  });

/** Series -> value. */
const read = (text: string): Map<string, number> =>
  new Map(
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
  );
const collected = async (metrics: Metrics) => read(await metrics.collect());

async function withServer(
  metrics: Metrics,
  key: string | null,
  work: (server: TestServer) => Promise<void>,
  rates = {},
): Promise<void> {
  const server = await startServer({ metrics: { metrics, key }, rates });
  try {
    await work(server);
  } finally {
    await server.stop();
  }
}

test("counts requests by operation and status, and clients cannot create series", () =>
  withServer(metricsOf(), TOKEN, async (server) => {
    const at = server.given.org();
    for (const path of ["/flows", "/flows/x", "/users"])
      await server.call("GET", `//unknown${path}`, { headers: { Accept: "application/json" } });
    for (const path of ["/none", `/${"x".repeat(500)}`, "/flows%00"]) await server.call("GET", path);
    await server.call("GET", `/flows/${at.org}`, { key: at.key });
    await fetch(`${server.url}/api/v2/flows/${at.org}`, {
      method: "HEAD",
      headers: { Authorization: `Bearer ${at.key}` },
    });
    await server.call("GET", `/flows/${at.org}`, { key: at.key, headers: { "If-None-Match": "*" } });
    await server.call("GET", `/flows/${at.org}`);
    await server.call("PATCH", `/flows/${at.org}`, { key: at.key });
    await server.call("GET", "//ready");
    await exchange(server.url, "nonsense\r\n\r\n");
    const gone = await dial(server.url);
    await gone.send(
      `PUT /api/v2/flows/${at.org} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${at.key}\r\nContent-Length: ` +
        `7\r\nX-Request-ID: gone\r\n\r\n`,
    );
    gone.vanish();
    await logged(server, "gone");
    const answer = await server.call("GET", "//metrics", { key: TOKEN });
    assert.is(answer.status, 200);
    assert.match(answer.headers.get("Content-Type") ?? "", /^text\/plain; version=0\.0\.4/);
    assert.is(answer.headers.get("Cache-Control"), "no-store");
    const series = read(answer.text);
    const counts = [...series].filter(([name]) => name.startsWith("assay_http_requests_total"));
    const labelled = (operation: string, status: number) =>
      `assay_http_requests_total{operation="${operation}",status="${status}"}`;
    assert.equal(
      Object.fromEntries(counts),
      Object.fromEntries([
        [labelled("none", 404), 6],
        [labelled("none", 405), 1],
        [labelled("none", 400), 1],
        [labelled("get_flows", 200), 2],
        [labelled("get_flows", 304), 1],
        [labelled("get_flows", 401), 1],
        [labelled("get_ready", 200), 1],
        [labelled("create_flow", 499), 1],
      ]),
    );
    assert.is(series.get('assay_http_request_duration_seconds_count{operation="get_flows"}'), 4);
    assert.is(series.get('assay_http_request_duration_seconds_bucket{le="+Inf",operation="get_flows"}'), 4);
    assert.is(series.get("assay_http_requests_in_flight"), 1, "the collecting request itself");
    assert.is(series.get("assay_http_request_bytes_total"), 7);
    assert.ok((series.get("assay_http_response_bytes_total") ?? 0) > 100);
    assert.is(
      (await collected(metricsOf())).get("assay_http_requests_in_flight"),
      0,
      "each instance has its own registry",
    );
  }));

test("the page on the main listener needs its token, and does not exist without one", async () => {
  await withServer(metricsOf(), TOKEN, async (server) => {
    const basic = `Basic ${Buffer.from(`${TOKEN}:`).toString("base64")}`;
    for (const [authorization, status] of [
      [`Bearer ${TOKEN}`, 200],
      [basic, 200],
      ["", 401],
      [`Bearer ${TOKEN}x`, 401],
      [`Bearer ${TOKEN.slice(1)}`, 401],
      ["Bearer", 401],
      [TOKEN, 401],
    ] as const) {
      const answer = await server.call("GET", "//metrics", {
        headers: authorization === "" ? {} : { Authorization: authorization },
      });
      assert.is(answer.status, status, authorization);
      if (status === 401)
        assert.equal(
          {
            body: answer.body,
            asksForBearer: answer.headers.get("WWW-Authenticate")?.startsWith("Bearer"),
          },
          {
            body: { message: "Authentication credentials are missing or invalid" },
            asksForBearer: true,
          },
        );
    }
    assert.is(
      (await server.call("GET", "//metrics", { key: server.given.org().key })).status,
      401,
      "API keys do not grant access",
    );
    const post = await server.call("POST", "//metrics", { key: TOKEN });
    assert.equal({ status: post.status, Allow: post.headers.get("Allow") }, { status: 405, Allow: "GET, HEAD" });
    const head = await server.call("HEAD", "//metrics", { key: TOKEN });
    assert.equal({ status: head.status, text: head.text }, { status: 200, text: "" });
    assert.is((await server.call("GET", "//metrics/", { key: TOKEN })).status, 404);
    assert.not.ok(server.lines.some((line) => line.includes(TOKEN)));
  });
  await withServer(metricsOf(), null, async (server) =>
    assert.is((await server.call("GET", "//metrics", { key: TOKEN })).status, 404),
  );
  const server = await startServer();
  assert.is((await server.call("GET", "//metrics", { key: TOKEN })).status, 404);
  await server.stop();
});

test("requests with the token are not rate limited by address, others are", () =>
  withServer(
    metricsOf(),
    TOKEN,
    async (server) => {
      assert.is((await server.call("GET", "//metrics")).status, 401);
      assert.is((await server.call("GET", "//metrics")).status, 429);
      assert.is((await server.call("GET", "//metrics", { key: TOKEN })).status, 200);
    },
    { address: 1 },
  ));

test("the separate listener serves metrics to every client, and nothing else", async () => {
  const lines: string[] = [];
  const logger = createLogger({ level: "info", destination: { write: (line) => void lines.push(line) } });
  const diskGuard = {
    readOnlyReason: () => null,
    ensureWritable: () => undefined,
    reportFailure: () => undefined,
    check: async () => undefined,
  };
  const limits = { json: 1000, form: 1000, document: 1000, evidence: 1000, smallEvidence: 0, stallTimeoutS: 5 };
  const { server, url } = await listen(
    createMetricsApp({
      sources: { newId: () => "id" },
      limits,
      logger,
      diskGuard,
      memory: createMemoryBudget(MEMORY),
      metrics: { metrics: metricsOf() },
    }),
    { host: "127.0.0.1", port: 0 },
    { limits: AMPLE },
  );
  try {
    const answer = await fetch(`${url}/metrics`);
    assert.equal(
      { status: answer.status, "X-Content-Type-Options": answer.headers.get("X-Content-Type-Options") },
      { status: 200, "X-Content-Type-Options": "nosniff" },
    );
    assert.match(await answer.text(), 'assay_build_info{version="1.2.3",commit="abc",node="24.');
    for (const path of ["/", "/ready", "/api/v2/openapi.json", "/metrics/x", "/api/v2/doc/"]) {
      const other = await fetch(url + path);
      assert.equal(
        { status: other.status, other: await other.json() },
        {
          status: 404,
          other: {
            message:
              "The requested URL was not found on the server" + ": the API is described at /api/v2/doc/ of this server",
          },
        },
        path,
      );
    }
    assert.is((await fetch(`${url}/metrics`, { method: "POST" })).status, 405);
    assert.is(lines.filter((line) => line.includes('"status":200')).length, 0, "successful collections are not logged");
  } finally {
    await closeListener(server, 1);
  }
});

test("records the size and duration of write batches, and counts failed ones separately", () =>
  (async () => {
    const metrics = metricsOf();
    metrics.batchEnded({ writes: 3, milliseconds: 2, committed: true });
    metrics.batchEnded({ writes: 64, milliseconds: 700, committed: true });
    metrics.batchEnded({ writes: 9, milliseconds: 1, committed: false });
    const series = await collected(metrics);
    assert.equal(
      [
        "assay_commit_batch_size_count",
        "assay_commit_batch_size_sum",
        'assay_commit_batch_size_bucket{le="4"}',
        "assay_commit_duration_seconds_sum",
        'assay_commit_duration_seconds_bucket{le="0.0025"}',
        "assay_commit_failures_total",
      ].map((name) => series.get(name)),
      [2, 67, 1, 0.702, 1, 1],
    );
  })());

test("reads queues, ages and evidence on collection", async () => {
  const figures = {
    ...NO_FIGURES,
    readSpace: () => ({ bytes: 81_920, free: 8192 }),
    summarizeUnknownInputs: () => [
      {
        client: "Kosli/v2.60.1",
        kind: "key" as const,
        operation: "create_artifact",
        name: 'a"b',
        count: 3,
        first_at: 1,
        last_at: 2,
      },
    ],
    summarizeEvidence: () => ({ files: 12, bytes: 3400, inDatabase: 5, bytesInDatabase: 900 }),
    listJobs: () => [
      { kind: "notify", count: 4, due_at: 940 },
      { kind: "later", count: 1, due_at: 5000 },
    ],
    countFailingJobs: () => 3,
    summarizeDeliveries: () => ({ waiting: 7, dead: 2, oldest: 100 }),
  };
  const metrics = metricsOf({
    figures,
    jobKinds: () => ["notify", "reevaluate"],
    pools: () => ({ recording: { waiting: 1, running: 2 } }),
  });
  const series = await collected(metrics);
  const expected: Record<string, number> = {
    assay_database_bytes: 81_920,
    assay_database_free_bytes: 8192,
    assay_evidence_files: 12,
    assay_evidence_bytes: 3400,
    assay_evidence_in_database_files: 5,
    assay_evidence_in_database_bytes: 900,
    'assay_jobs{kind="notify"}': 4,
    'assay_jobs{kind="reevaluate"}': 0,
    'assay_jobs{kind="later"}': 1,
    assay_jobs_overdue_seconds: 60,
    assay_jobs_failing: 3,
    'assay_deliveries{state="waiting"}': 7,
    'assay_deliveries{state="dead"}': 2,
    assay_deliveries_oldest_seconds: 900,
    'assay_worker_tasks{pool="recording",state="waiting"}': 1,
    'assay_worker_tasks{pool="recording",state="running"}': 2,
    'assay_unknown_inputs{client="Kosli/v2.60.1",kind="key",operation="create_artifact",name="a\\"b"}': 3,
  };
  for (const [name, value] of Object.entries(expected)) assert.is(series.get(name), value, name);
  figures.listJobs = () => [];
  figures.summarizeDeliveries = () => ({ waiting: 0, dead: 0, oldest: null as never });
  const later = await collected(metrics);
  assert.equal(
    [
      'assay_jobs{kind="notify"}',
      'assay_jobs{kind="later"}',
      "assay_jobs_overdue_seconds",
      "assay_deliveries_oldest_seconds",
    ].map((name) => later.get(name)),
    [0, undefined, 0, 0],
  );
});

test("goes on when the database cannot be read", async () => {
  const metrics = metricsOf({
    figures: {
      ...NO_FIGURES,
      readSpace() {
        throw new Error("disk I/O error");
      },
    },
    readOnly: () => true,
  });
  assert.is((await collected(metrics)).get("assay_read_only"), 1);
});

test("omits metrics of what the server does not have", async () => {
  const bare = await metricsOf().collect();
  for (const name of ["assay_read_only", "assay_write_lock_held", "assay_backup_last_success", "assay_certificate_end"])
    assert.not.match(bare, name);
  let backup: number | null = null;
  let readOnly = false;
  const metrics = metricsOf({
    readOnly: () => readOnly,
    lockHeldMs: () => 1_500,
    lastBackupAt: () => backup,
    certificateEndsAt: () => 2000,
    evidenceUp: () => 0,
  });
  const names = [
    "assay_read_only",
    "assay_write_lock_held_seconds",
    "assay_backup_last_success_timestamp_seconds",
    "assay_certificate_end_timestamp_seconds",
  ];
  const first = await collected(metrics);
  assert.is(first.get("assay_evidence_storage_up"), 0);
  assert.equal(
    names.map((name) => first.get(name)),
    [0, 1.5, undefined, 2000],
  );
  [backup, readOnly] = [900, true];
  const second = await collected(metrics);
  assert.equal(
    names.map((name) => second.get(name)),
    [1, 1.5, 900, 2000],
  );
});

test("reports the file sizes of the data directory", async () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-metrics-"));
  const db = openDatabase(directory, 0);
  try {
    db.exec("CREATE TABLE large (x) STRICT".replace(" (x) STRICT", " (x TEXT) STRICT"));
    db.prepare("INSERT INTO large VALUES (?)").run("x".repeat(100_000));
    const series = await collected(metricsOf({ figures: metricsStore(db), directory }));
    assert.ok((series.get("assay_wal_bytes") ?? 0) > 100_000);
    assert.ok((series.get("assay_database_bytes") ?? 0) > 100_000);
    assert.ok((series.get("assay_disk_free_bytes") ?? 0) > 0);
    assert.ok((series.get("process_cpu_seconds_total") ?? -1) >= 0);
  } finally {
    db.close();
    rmSync(directory, { recursive: true });
  }
});

test.run();
