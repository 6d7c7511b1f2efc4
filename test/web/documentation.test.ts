import { createHash } from "node:crypto";
import { request } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readBuildInfo, readAsset } from "../../src/assets.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const test = suite("web/documentation");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const PAGE = "/api/v2/doc/";
const NOT_FOUND = {
  message: "The requested URL was not found on the server" + ": the API is described at /api/v2/doc/ of this server",
};

/** Sends a raw request: nothing is decompressed, no redirect followed, no header added, `path` not normalized. */
function raw(
  path: string,
  options: { method?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: IncomingHttpHeaders; body: Buffer }> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    const sent = request(
      { hostname, port, path, method: options.method ?? "GET", headers: options.headers ?? {}, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
        );
      },
    );
    sent.on("error", reject);
    sent.end();
  });
}

/** Links of the page to files below doc/. */
async function namedFiles(): Promise<string[]> {
  const html = (await raw(PAGE)).body.toString("utf8");
  return [...html.matchAll(/(?:href|src)="([^"]+)"/g)]
    .map((match) => String(match[1]))
    .filter((address) => !address.startsWith("../"));
}

const fileNamed = async (pattern: RegExp): Promise<string> =>
  PAGE + String((await namedFiles()).find((name) => pattern.test(name)));

test("the page is public HTML with its title, the version and where to get keys", async () => {
  const { status, headers, body } = await raw(PAGE);
  const html = body.toString("utf8");
  assert.is(status, 200);
  assert.is(headers["content-type"], "text/html; charset=utf-8");
  assert.is(headers["cache-control"], "no-cache");
  assert.is(headers["content-length"], String(body.length));
  assert.match(html, "<title>Assay API reference</title>");
  assert.match(html, `<span class="version">${readBuildInfo().version}</span>`);
  assert.match(html, "<code>assay key create</code>");
  assert.not.match(html, "{{");
});

test("the page has no inline script or style, and no link to another host or the host root", async () => {
  const html = (await raw(PAGE)).body.toString("utf8");
  assert.not.match(html, /<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|javascript:/i);
  for (const [, address] of html.matchAll(/(?:href|src|action)="([^"]*)"/g))
    assert.not.match(String(address), /^(?:[a-z]+:|\/)/i);
});

test("the policy allows only this server, and no inline or evaluated code", async () => {
  for (const path of [PAGE, await fileNamed(/\.js$/), "/doc"]) {
    const { headers } = await raw(path);
    assert.is(
      headers["content-security-policy"],
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    assert.is(headers["x-content-type-options"], "nosniff");
    assert.is(headers["x-frame-options"], "DENY");
    assert.is(headers["referrer-policy"], "no-referrer");
    assert.is(headers["cross-origin-opener-policy"], "same-origin");
    assert.is(headers["cross-origin-resource-policy"], "same-origin");
  }
});

test("serves every file of the page with its type, cacheable forever under the digest in its name", async () => {
  const types: Record<string, string> = {
    css: "text/css; charset=utf-8",
    js: "text/javascript; charset=utf-8",
    svg: "image/svg+xml",
    txt: "text/plain; charset=utf-8",
  };
  const names = await namedFiles();
  assert.equal(names.map((name) => name.replace(/\.[0-9a-f]{16}\./, ".")).sort(), [
    "house.css",
    "icon.svg",
    "reference.css",
    "reference.js",
    "swagger-ui-bundle.js",
    "swagger-ui-license.txt",
    "swagger-ui-notice.txt",
    "swagger-ui.css",
  ]);
  for (const name of names) {
    const { status, headers, body } = await raw(PAGE + name);
    const digest = createHash("sha256").update(body).digest("hex").slice(0, 16);
    assert.is(status, 200, name);
    assert.ok(name.includes(`.${digest}.`), name);
    assert.is(headers["content-type"], types[name.slice(name.lastIndexOf(".") + 1)], name);
    assert.is(headers["cache-control"], "public, max-age=31536000, immutable", name);
    assert.is(headers["content-encoding"], undefined, name);
  }
});

test("Swagger UI comes from the program itself", async () => {
  const { body } = await raw(await fileNamed(/^swagger-ui-bundle/));
  assert.ok(body.equals(readAsset("swagger-ui/swagger-ui-bundle.js")));
});

test("sends gzip to clients that accept it, with its own length and tag", async () => {
  const path = await fileNamed(/^swagger-ui-bundle/);
  const plain = await raw(path);
  assert.is(plain.headers["vary"], "Accept-Encoding");
  for (const accepted of ["gzip", "gzip, deflate, br, zstd", "br;q=1.0, gzip;q=0.8, *;q=0.1"]) {
    const packed = await raw(path, { headers: { "Accept-Encoding": accepted } });
    assert.is(packed.headers["content-encoding"], "gzip", accepted);
    assert.is(packed.headers["content-length"], String(packed.body.length));
    assert.ok(packed.body.length < plain.body.length / 3, `${packed.body.length} bytes of ${plain.body.length}`);
    assert.ok(gunzipSync(packed.body).equals(plain.body));
    assert.is(packed.headers["vary"], "Accept-Encoding");
    assert.is.not(packed.headers["etag"], plain.headers["etag"]);
  }
  for (const accepted of ["", "identity", "gzip;q=0", "br", "*;q=0", "nonsense;;q=x"]) {
    const answer = await raw(path, { headers: { "Accept-Encoding": accepted } });
    assert.is(answer.headers["content-encoding"], undefined, accepted);
    assert.ok(answer.body.equals(plain.body), accepted);
  }
});

test("answers 304 for an unchanged file, in either encoding", async () => {
  for (const path of [PAGE, await fileNamed(/^swagger-ui\./)]) {
    for (const encoding of ["identity", "gzip"]) {
      const first = await raw(path, { headers: { "Accept-Encoding": encoding } });
      const tag = String(first.headers["etag"]);
      for (const condition of [tag, `W/${tag}`, `"other", ${tag}`, "*"]) {
        const again = await raw(path, { headers: { "Accept-Encoding": encoding, "If-None-Match": condition } });
        assert.is(again.status, 304, condition);
        assert.is(again.body.length, 0);
        assert.is(again.headers["etag"], tag);
        assert.is(again.headers["cache-control"], first.headers["cache-control"]);
        assert.is(again.headers["content-encoding"], undefined);
      }
      const changed = await raw(path, { headers: { "Accept-Encoding": encoding, "If-None-Match": '"other"' } });
      assert.is(changed.status, 200);
      assert.ok(changed.body.equals(first.body));
    }
  }
});

test("HEAD answers like GET, without the body", async () => {
  for (const path of [PAGE, await fileNamed(/^swagger-ui-bundle/), "/doc", "/api/v2/doc"]) {
    const got = await raw(path);
    const head = await raw(path, { method: "HEAD" });
    const { date: _, "x-request-id": __, ...expected } = got.headers;
    const { date: ___, "x-request-id": ____, ...actual } = head.headers;
    assert.is(head.status, got.status, path);
    assert.equal(actual, expected, path);
    assert.is(head.body.length, 0, path);
  }
});

test("the alias serves the same page and files", async () => {
  for (const name of ["", ...(await namedFiles())]) {
    const answer = await raw(`/api/fastapi/doc/${name}`);
    assert.is(answer.status, 200, name);
    assert.ok(answer.body.equals((await raw(PAGE + name)).body), name);
  }
});

test("shorter paths redirect to the page, also below a path of a proxy", async () => {
  const expected: Record<string, string> = {
    "/doc": PAGE,
    "/doc/": PAGE,
    "/doc?from=mail": PAGE,
    "/api/v2/doc": PAGE,
    "/api/fastapi/doc": "/api/fastapi/doc/",
  };
  for (const [path, target] of Object.entries(expected)) {
    const { status, headers, body } = await raw(path);
    const location = String(headers.location);
    assert.is(status, 302, path);
    assert.is(body.length, 0, path);
    assert.is(new URL(location, `http://host.test${path}`).href, `http://host.test${target}`);
    assert.is(
      new URL(location, `http://host.test/behind/a/proxy${path}`).href,
      `http://host.test/behind/a/proxy${target}`,
    );
  }
});

test("unknown files below doc/ are a JSON 404, whatever the path or method", async () => {
  const names = [
    "index.html",
    "reference.js",
    "swagger-ui.css",
    "/",
    "./",
    "..%2fopenapi.json",
    "../../../etc/passwd",
    "%2e%2e/",
    "%",
    "%00",
    "__proto__",
    "constructor",
    "swagger-ui.0000000000000000.css",
  ];
  for (const root of [PAGE, "/api/fastapi/doc/"]) {
    for (const name of names) {
      for (const method of ["GET", "POST"]) {
        const { status, headers, body } = await raw(root + name, { method });
        assert.is(status, 404, `${method} ${root}${name}`);
        assert.is(headers["content-type"], "application/json; charset=utf-8");
        assert.equal(JSON.parse(body.toString("utf8")), NOT_FOUND);
      }
    }
  }
});

test("other methods are a JSON 405 with the allowed ones", async () => {
  for (const path of [PAGE, "/doc", "/doc/", "/api/v2/doc", "/api/fastapi/doc/", await fileNamed(/\.svg$/)]) {
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      const { status, headers, body } = await raw(path, { method });
      assert.is(status, 405, `${method} ${path}`);
      assert.is(headers.allow, "GET, HEAD");
      assert.equal(JSON.parse(body.toString("utf8")), { message: "The method is not allowed for the requested URL" });
    }
  }
});

test("neighboring paths belong to the API", async () => {
  assert.is((await server.call("GET", "/openapi.json")).status, 200);
  for (const path of ["/api/v2/docs", "/api/v2/documentation/", "/api/v1/doc/"]) {
    const { status, body } = await raw(path);
    assert.is(status, 404, path);
    assert.equal(JSON.parse(body.toString("utf8")), NOT_FOUND);
  }
  for (const path of ["/docs", "/doc/x", "/DOC"])
    assert.is((await raw(path, { headers: { Accept: "application/json" } })).status, 404, path);
});

test.run();
