/** The alert rules and metrics table of the monitoring page, and what promtool says of the rules and the metrics. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createMemoryBudget } from "../../src/http/memory/memory-budget.ts";
import { createMetrics } from "../../src/server/metrics.ts";
import { startServer } from "../given.ts";
import { readDocument } from "../rules/documentation.ts";
import { findTool } from "../tools.ts";
import { findCodeBlock } from "./page.ts";

const test = suite("guide/monitoring");

const promtool = findTool("promtool");
if (promtool === null) console.log("skipped: neither PATH nor .build/tools has promtool, which is part of Prometheus");
const testPromtool = promtool === null ? test.skip : test;
const runPromtool = (args: readonly string[], input = "") =>
  spawnSync(promtool as string, args, { input, encoding: "utf8" });

/** The metrics of a server with every optional metric, after a request, a refusal and a batch of writes. */
async function scrapeMetrics(): Promise<string> {
  const metrics = createMetrics({
    figures: {
      readSpace: () => ({ bytes: 4096, free: 0 }),
      listJobs: () => [{ kind: "notify", count: 1, due_at: 1 }],
      countFailingJobs: () => 0,
      summarizeDeliveries: () => ({ waiting: 1, dead: 1, oldest: 5 }),
      summarizeUnknownInputs: () => [],
      summarizeEvidence: () => ({ files: 1, bytes: 2, inDatabase: 1, bytesInDatabase: 2 }),
    },
    directory: tmpdir(),
    now: () => 1_000,
    build: { version: "1.2.3", commit: null },
    jobKinds: () => ["notify", "reevaluate"],
    pools: () => ({ recording: { waiting: 1, running: 2 } }),
    memory: createMemoryBudget({ total: 300, bodies: 100, answers: 100 }),
    readOnly: () => true,
    lockHeldMs: () => 1_500,
    lastBackupAt: () => 900,
    certificateEndsAt: () => 2_000,
    evidenceUp: () => 0,
  });
  const server = await startServer({ metrics: { metrics, key: "metrics-token-0123456789" } });
  try {
    server.given.org();
    await server.call("GET", "//readyz");
    await server.call("GET", "/flows/unknown");
    metrics.batchEnded({ writes: 3, milliseconds: 1.5, committed: true });
    return (await server.call("GET", "//metrics", { key: "metrics-token-0123456789" })).text;
  } finally {
    await server.stop();
  }
}

testPromtool("promtool accepts the metrics without a warning", async () => {
  const { status, stdout, stderr } = runPromtool(["check", "metrics"], await scrapeMetrics());
  assert.equal({ status, stdout, stderr }, { status: 0, stdout: "", stderr: "" });
});

testPromtool("promtool accepts the page's alert rules and scrape configuration", () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-alerts-"));
  try {
    const rules = join(directory, "rules.yml");
    writeFileSync(rules, findCodeBlock("monitoring", "groups:"));
    const checked = runPromtool(["check", "rules", "--lint-fatal", rules]);
    assert.is(checked.status, 0, checked.stdout + checked.stderr);
    assert.match(checked.stdout, /SUCCESS: \d+ rules found/);
    const scrapeConfig = join(directory, "prometheus.yml");
    writeFileSync(join(directory, "token"), "x");
    writeFileSync(
      scrapeConfig,
      findCodeBlock("monitoring", "scrape_configs:").replace("/etc/prometheus/assay-token", join(directory, "token")),
    );
    const configured = runPromtool(["check", "config", scrapeConfig]);
    assert.is(configured.status, 0, configured.stdout + configured.stderr);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test("the page has alerts for old backups and expiring certificates, and for either metric being absent", () => {
  const rules = findCodeBlock("monitoring", "groups:");
  for (const metric of ["assay_backup_last_success_timestamp_seconds", "assay_certificate_end_timestamp_seconds"]) {
    assert.match(rules, new RegExp(`time\\(\\)[^\\n]*${metric}|${metric} - time\\(\\)`), metric);
    assert.match(rules, new RegExp(`absent\\(${metric}\\)`), metric);
  }
});

test("alerts and the metrics table name only metrics that exist, and the table names all of ours", async () => {
  const text = await scrapeMetrics();
  const known = new Set([...text.matchAll(/^# TYPE (\w+)/gm)].map((match) => match[1] as string));
  const page = readDocument("src/guide/monitoring.md");
  const named = new Set(
    [...page.matchAll(/\b(?:assay|nodejs)_[a-z0-9_]+/g)].map((match) => match[0].replace(/_bucket$/, "")),
  );
  assert.equal([...named].filter((name) => !known.has(name) && name !== "nodejs_").sort(), []);
  assert.equal([...known].filter((name) => name.startsWith("assay_") && !named.has(name)).sort(), []);
});

test.run();
