/**
 * Answers of reads: validators and 304, compression, cached answers. Checked header by header with Node's own client,
 * which decodes nothing.
 */
import { request } from "node:http";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const test = suite("http/representation");
let server: TestServer;
let at: { org: string; key: string };
test.before(async () => {
  server = await startServer();
  at = server.given.org();
});
test.after(() => server.stop());

type Raw = { status: number; headers: Record<string, string | undefined>; bytes: Buffer };
const send = (method: string, path: string, headers: Record<string, string> = {}): Promise<Raw> =>
  new Promise((resolve, reject) => {
    const outgoing = request(
      `${server.url}${path}`,
      { method, headers: { Authorization: `Bearer ${at.key}`, ...headers } },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", reject);
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers as Record<string, string | undefined>,
            bytes: Buffer.concat(chunks),
          }),
        );
      },
    );
    outgoing.on("error", reject).end();
  });
const get = (path: string, headers?: Record<string, string>) => send("GET", `/api/v2${path}`, headers);
const GZIP = { "Accept-Encoding": "gzip" };

/** Creates a flow whose answer is about `characters` longer than the minimum; returns its path. */
async function createFlow(characters: number): Promise<string> {
  const name = fresh("flow");
  const answer = await server.call("PUT", `/flows/${at.org}`, {
    key: at.key,
    body: { name, description: `${name} é `.repeat(Math.ceil(characters / (name.length + 3))).slice(0, characters) },
  });
  assert.is(answer.status, 201, answer.text);
  return `/flows/${at.org}/${name}`;
}

test("a read has a validator, and a client that sends it back gets 304 without a body", async () => {
  const path = await createFlow(10);
  const first = await get(path);
  const { etag = "" } = first.headers;
  assert.match(etag, /^W\/"[\w-]{22}"$/);
  assert.equal(
    { status: first.status, "cache-control": first.headers["cache-control"], vary: first.headers["vary"] },
    { status: 200, "cache-control": "private, no-cache", vary: "Accept-Encoding" },
  );
  for (const condition of [etag, etag.slice(2), `"other", ${etag}`, `${etag},"x"`, "*", " * "])
    for (const method of ["GET", "HEAD"]) {
      const again = await send(method, `/api/v2${path}`, { "If-None-Match": condition });
      const { headers } = again;
      assert.equal(
        {
          status: again.status,
          "bytes.length": again.bytes.length,
          etag: headers["etag"],
          "cache-control": headers["cache-control"],
          vary: headers["vary"],
          "content-type": headers["content-type"],
          "content-length": headers["content-length"],
          "x-content-type-options": headers["x-content-type-options"],
        },
        {
          status: 304,
          "bytes.length": 0,
          etag,
          "cache-control": "private, no-cache",
          vary: "Accept-Encoding",
          "content-type": undefined,
          "content-length": undefined,
          "x-content-type-options": "nosniff",
        },
        `${method} ${condition}`,
      );
    }
  for (const condition of ['"other"', 'W/"other"', "", etag.slice(3, -1)]) {
    const again = await get(path, { "If-None-Match": condition });
    assert.equal(
      { status: again.status, bytes: again.bytes.toString() },
      { status: 200, bytes: first.bytes.toString() },
      condition,
    );
  }
});

test("HEAD describes the uncompressed body, and a change changes the validator", async () => {
  const path = await createFlow(10);
  const [whole, head] = [await get(path), await send("HEAD", `/api/v2${path}`, GZIP)];
  assert.equal(
    {
      status: head.status,
      "bytes.length": head.bytes.length,
      etag: head.headers["etag"],
      "content-length": head.headers["content-length"],
    },
    { status: 200, "bytes.length": 0, etag: whole.headers["etag"], "content-length": String(whole.bytes.length) },
  );
  const name = path.split("/").at(-1);
  await server.call("PUT", `/flows/${at.org}`, { key: at.key, body: { name, description: "changed" } });
  const after = await get(path, { "If-None-Match": whole.headers["etag"] as string });
  assert.is(after.status, 200);
  assert.is.not(after.headers["etag"], whole.headers["etag"]);
});

test("a condition grants nothing: refusals come first and have no validator", async () => {
  const stranger = server.given.user(at.org, null);
  const path = await createFlow(10);
  for (const [target, key, status] of [
    [path, stranger, 403],
    [path, "nonsense", 401],
    [`${path}-not`, at.key, 404],
    [`/attestations/${at.org}?per_page=x`, at.key, 400],
  ] as const) {
    const answer = await get(target, { "If-None-Match": "*", Authorization: `Bearer ${key}`, ...GZIP });
    assert.equal(
      {
        status: answer.status,
        etag: answer.headers["etag"],
        "cache-control": answer.headers["cache-control"],
        "content-encoding": answer.headers["content-encoding"],
      },
      { status, etag: undefined, "cache-control": "no-store", "content-encoding": undefined },
      target,
    );
    assert.type(JSON.parse(answer.bytes.toString()).message, "string");
  }
});

test("answers of writes are neither cacheable nor compressed", async () => {
  const answer = await server.call("PUT", `/flows/${at.org}`, {
    key: at.key,
    body: { name: fresh("flow"), description: "x".repeat(5000) },
    headers: { "If-None-Match": "*" },
  });
  assert.equal(
    {
      status: answer.status,
      "Cache-Control": answer.headers.get("Cache-Control"),
      ETag: answer.headers.get("ETag"),
      "Content-Encoding": answer.headers.get("Content-Encoding"),
    },
    { status: 201, "Cache-Control": "no-store", ETag: null, "Content-Encoding": null },
  );
});

test("honours Accept-Encoding", async () => {
  const large = await createFlow(3000);
  const small = await createFlow(10);
  const plain = (await get(large)).bytes;
  const table: [header: string | null, large: boolean, small: boolean][] = [
    [null, false, false],
    ["", false, false],
    ["identity", false, false],
    ["br", false, false],
    ["br, zstd", false, false],
    ["gzip", true, false],
    ["GZip", true, false],
    ["gzip, deflate, br", true, false],
    ["br;q=1.0, gzip;q=0.8", true, false],
    ["gzip;q=0.001", true, false],
    ["gzip;q=0", false, false],
    ["gzip;q=0.5, identity;q=1", false, false],
    ["*", true, false],
    ["*;q=0", false, false],
    ["gzip;q=0, *", false, false],
    ["identity;q=0, gzip", true, true],
    ["gzip;q=1, *;q=0", true, true],
    ["identity;q=0", false, false],
  ];
  for (const [header, isLarge, isSmall] of table) {
    const headers: Record<string, string> = header === null ? {} : { "Accept-Encoding": header };
    // Twice, because parsed headers are cached.
    for (const _ of [1, 2]) {
      const answer = await get(large, headers);
      assert.equal(
        { status: answer.status, "content-encoding": answer.headers["content-encoding"], vary: answer.headers["vary"] },
        { status: 200, "content-encoding": isLarge ? "gzip" : undefined, vary: "Accept-Encoding" },
        `${header}`,
      );
      assert.is(answer.headers["content-length"], String(answer.bytes.length));
      assert.ok((isLarge ? gunzipSync(answer.bytes) : answer.bytes).equals(plain), `${header}`);
      if (isLarge) assert.ok(answer.bytes.length < plain.length / 4);
    }
    const answer = await get(small, headers);
    assert.is(answer.headers["content-encoding"], isSmall ? "gzip" : undefined, `${header}, small`);
    assert.match(JSON.parse((isSmall ? gunzipSync(answer.bytes) : answer.bytes).toString()).name, "flow");
  }
});

test("a body is compressed from one kilobyte on, and unpacks to the same bytes", async () => {
  const padding = (await get(await createFlow(1))).bytes.length;
  for (const characters of [1024 - padding - 40, 1100, 16_000, 17_000, 60_000]) {
    const path = await createFlow(characters);
    const [plain, packed] = [await get(path), await get(path, GZIP)];
    const isPacked = packed.headers["content-encoding"] === "gzip";
    assert.is(isPacked, plain.bytes.toString().length >= 1024, String(characters));
    assert.ok((isPacked ? gunzipSync(packed.bytes) : packed.bytes).equals(plain.bytes), String(characters));
    assert.is(packed.headers["etag"], plain.headers["etag"], "one weak validator for both codings");
  }
});

test("a cached answer is sent in both codings, and as 304", async () => {
  const flow = await server.given.flow(at, {
    template:
      "version: 1\ntrail:\n  attestations:\n" +
      Array.from({ length: 30 }, (_, n) => `    - { name: step-${n}, type: generic }\n`).join(""),
  });
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail });
  const path = `/asserts/${at.org}/fingerprint/${fingerprint}`;
  await get(path);
  const read = server.db.prepare("SELECT total_changes()").pluck();
  const before = read.get();
  const answers = [await get(path), await get(path, GZIP), await get(path, GZIP), await get(path)];
  assert.is(read.get(), before, "nothing was written in between, so the answer was cached");
  const [plain, packed, again, last] = answers as [Raw, Raw, Raw, Raw];
  assert.equal(
    [plain, packed, again, last].map(({ headers }) => headers["content-encoding"]),
    [undefined, "gzip", "gzip", undefined],
  );
  assert.ok(
    gunzipSync(packed.bytes).equals(plain.bytes) && packed.bytes.equals(again.bytes) && last.bytes.equals(plain.bytes),
  );
  assert.is((await get(path, { "If-None-Match": plain.headers["etag"] as string, ...GZIP })).status, 304);
});

test("files are not compressed", async () => {
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const id = await server.given.attestation(at, {
    flow,
    trail,
    file: { name: "attachment_file", filename: "a.json", content: "[0]".padEnd(5000), type: "application/json" },
  });
  const evidence = await get(`/attestations/${at.org}/${flow}/trail/${trail}/attestation/${id}/evidence`, GZIP);
  assert.equal(
    {
      status: evidence.status,
      "content-encoding": evidence.headers["content-encoding"],
      "bytes.length": evidence.bytes.length,
      "cache-control": evidence.headers["cache-control"],
    },
    { status: 200, "content-encoding": undefined, "bytes.length": 5000, "cache-control": "private, no-cache" },
  );
  assert.match(evidence.headers["etag"] ?? "", /^"[0-9a-f]{64}"$/);
});

test.run();
