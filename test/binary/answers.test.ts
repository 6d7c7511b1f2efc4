// Responses of the executable: metrics on both listeners, rate limits by address and by key, entity tags and gzip.

import { request } from "node:http";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { inDirectory, run, start } from "./executable.ts";
import type { Running } from "./executable.ts";

const test = suite("binary/answers");

const TOKEN = "a-token-for-metrics-0123";
const serve = (data: string, ...options: string[]): string[] => [
  "serve",
  "--data",
  data,
  "--listen",
  "127.0.0.1:0",
  ...options,
];

/** Calls `work` with a server that has an organization `acme`, and with the key of its admin. */
async function withServer(
  { data, options = [], env = {} }: { data: string; options?: string[]; env?: Record<string, string> },
  work: (running: Running, key: string) => Promise<void>,
): Promise<void> {
  const { stdout } = await run(["init", "--data", data, "--org", "acme", "--user", "ops"]);
  const running = await start(serve(data, ...options), { env });
  try {
    await work(running, stdout.trim());
  } finally {
    assert.equal(await running.stop(), { code: 0, signal: null }, running.output());
  }
}

type RawResponse = { status: number; headers: Record<string, string | undefined>; bytes: Buffer };
/** Uses Node's HTTP client, which does not decompress, unlike fetch. */
const get = (url: string, headers: Record<string, string> = {}): Promise<RawResponse> =>
  new Promise((resolve, reject) => {
    request(url, { headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers as RawResponse["headers"],
          bytes: Buffer.concat(chunks),
        }),
      );
    })
      .on("error", reject)
      .end();
  });
const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });

test("serves metrics on a listener of their own, and on the main one with the metrics token", () =>
  inDirectory((data) =>
    withServer(
      { data, options: ["--metrics-listen", "127.0.0.1:0"], env: { ASSAY_METRICS_KEY: TOKEN } },
      async ({ url, output }, key) => {
        const own = /^metrics: (http:\/\/127\.0\.0\.1:\d+\/metrics)$/m.exec(output())?.[1] as string;
        assert.ok(own, output());
        const wrote = await fetch(`${url}/api/v2/flows/acme`, {
          method: "PUT",
          headers: { ...bearer(key), "Content-Type": "application/json" },
          body: '{"name":"one","description":""}',
        });
        assert.is(wrote.status, 201);
        for (const [address, headers] of [
          [own, {}],
          [`${url}/metrics`, bearer(TOKEN)],
        ] as const) {
          const { status, bytes } = await get(address, headers);
          const text = bytes.toString();
          assert.is(status, 200);
          for (const line of [
            'assay_http_requests_total{operation="create_flow",status="201"} 1',
            /^assay_commit_batch_size_count [1-9]/m,
            /^assay_wal_bytes [1-9]/m,
            /^assay_disk_free_bytes [1-9]/m,
            "assay_evidence_files 0",
            "assay_read_only 0",
            'assay_jobs{kind="notify"} 0',
            'assay_worker_tasks{pool="recording",state="waiting"} 0',
            /^process_resident_memory_bytes \d+/m,
            /^nodejs_eventloop_lag_p99_seconds /m,
            /^assay_build_info\{version="[^"]+",commit="[0-9a-f]{40}/m,
          ])
            assert.match(text, line);
        }
        assert.equal(
          {
            withoutToken: (await get(`${url}/metrics`)).status,
            withApiKey: (await get(`${url}/metrics`, bearer(key))).status,
            readyOnMetricsListener: (await get(own.replace("/metrics", "/ready"))).status,
          },
          { withoutToken: 401, withApiKey: 401, readyOnMetricsListener: 404 },
        );
      },
    ),
  ));

test("serves no metrics without either option, and names a metrics address that is in use", () =>
  inDirectory(async (data) => {
    await withServer({ data }, async ({ url }) => assert.is((await get(`${url}/metrics`, bearer(TOKEN))).status, 404));
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as AddressInfo;
    const { code, stderr } = await run(serve(data, "--metrics-listen", `127.0.0.1:${port}`));
    taken.close();
    assert.is(code, 1);
    assert.match(
      stderr,
      `assay: cannot listen on 127.0.0.1:${port}: another program is using the port; ` +
        "choose another with --metrics-listen HOST:PORT or ASSAY_METRICS_LISTEN",
    );
  }));

test("an address that exceeds its rate limit gets 429 with Retry-After, and the probes still answer", () =>
  inDirectory(async (data) => {
    await withServer({ data, options: ["--address-rate", "3"] }, async ({ url, wrote }) => {
      const statuses = [];
      for (let n = 0; n < 4; n++) statuses.push((await get(`${url}/api/v2/flows/acme`)).status);
      assert.equal(statuses, [401, 401, 401, 429]);
      const { status, headers, bytes } = await get(`${url}/api/v2/flows/acme`);
      const wait = Number(headers["retry-after"]);
      const unit = wait === 1 ? "second" : "seconds";
      const message = `Too many requests from this address. Please try again in ${wait} ${unit}`;
      assert.equal({ status, body: JSON.parse(bytes.toString()) }, { status: 429, body: { message } });
      assert.ok(wait >= 1 && wait <= 20);
      assert.is((await get(`${url}/ready`)).status, 200);
      await wrote(/"status":429[^\n]*"client":"127\.0\.0\.1"[^\n]*"error_code":"too_many"/);
    });
  }));

test("a key that exceeds its rate limit does not affect other keys", () =>
  inDirectory((data) =>
    withServer({ data, options: ["--key-rate", "2"] }, async ({ url }, key) => {
      const created = await run(["key", "create", "--data", data, "--user", "ops", "--description", "second"]);
      assert.is(created.code, 0, created.stderr);
      const second = /[\w-]{43}/.exec(created.stdout)?.[0] as string;
      const statusFor = async (one: string) => (await get(`${url}/api/v2/flows/acme`, bearer(one))).status;
      assert.equal(
        [await statusFor(key), await statusFor(key), await statusFor(key), await statusFor(second)],
        [200, 200, 429, 200],
      );
    }),
  ));

test("reads are compressed for clients that accept gzip, and have entity tags and security headers", () =>
  inDirectory((data) =>
    withServer({ data }, async ({ url }, key) => {
      const path = `${url}/api/v2/openapi.json`;
      const plain = await get(path, bearer(key));
      const packed = await get(path, { ...bearer(key), "Accept-Encoding": "gzip" });
      assert.equal(
        { plain: plain.headers["content-encoding"], packed: packed.headers["content-encoding"] },
        { plain: undefined, packed: "gzip" },
      );
      assert.ok(gunzipSync(packed.bytes).equals(plain.bytes) && packed.bytes.length < plain.bytes.length / 5);
      const again = await get(path, { ...bearer(key), "If-None-Match": packed.headers["etag"] as string });
      assert.equal(
        { status: again.status, size: again.bytes.length, etag: again.headers["etag"] },
        { status: 304, size: 0, etag: plain.headers["etag"] },
      );
      for (const { headers } of [
        plain,
        packed,
        again,
        await get(`${url}/nothing`, { Accept: "application/json" }),
        await get(`${url}/ready`),
        await get(`${url}/api/v2/doc/`),
      ])
        assert.equal(
          {
            "x-content-type-options": headers["x-content-type-options"],
            "x-frame-options": headers["x-frame-options"],
            "referrer-policy": headers["referrer-policy"],
            "strict-transport-security": headers["strict-transport-security"],
          },
          {
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "strict-transport-security": undefined,
          },
        );
    }),
  ));

test.run();
