/** Requests whose head can be understood in two ways, and those for no resource, are refused like all others. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { dial, logged } from "./socket.ts";
import type { RawAnswer } from "./socket.ts";

const test = suite("http/malformed-request");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

async function exchangeBytes(bytes: string): Promise<RawAnswer & { closed: boolean }> {
  const wire = await dial(server.url);
  await wire.send(bytes);
  const answer = await wire.answer();
  assert.ok(answer, bytes);
  const closed = answer.headers["connection"] === "close" && (await wire.closed()) === "closed";
  wire.vanish();
  return { ...answer, closed };
}

const JSON_TYPE = "application/json; charset=utf-8";
const TWO_HOSTS = "The request has 2 Host headers: send exactly one";

/** Asserts what every refusal has: a JSON body, an id, and the security headers. */
function assertRefusal({ status, headers, body }: RawAnswer, expected: { status: number; message: string }): void {
  assert.equal(
    { status, body, type: headers["content-type"], sniffing: headers["x-content-type-options"] },
    { status: expected.status, body: { message: expected.message }, type: JSON_TYPE, sniffing: "nosniff" },
  );
  assert.match(headers["x-request-id"] ?? "", /^[a-f0-9-]{32}$/);
}

for (const path of ["/ready", "/api/v2/flows/acme", "/login", "/nothing"])
  for (const [what, lines, message] of [
    ["two Host headers", "Host: a\r\nHost: b\r\n", TWO_HOSTS],
    ["the same Host twice, in any case", "Host: a\r\nX: y\r\nhOST: a\r\n", TWO_HOSTS],
    ["no Host header", "", "The request has no Host header: send exactly one"],
  ] as const)
    test(`${path} with ${what} is a 400, and the connection is closed`, async () => {
      const answer = await exchangeBytes(`GET ${path} HTTP/1.1\r\n${lines}\r\n`);
      assertRefusal(answer, { status: 400, message });
      assert.ok(answer.closed);
      const line = await logged(server, answer.headers["x-request-id"] ?? "");
      assert.equal({ status: line["status"], path: line["path"] }, { status: 400, path }, "the refusal is in the log");
    });

test("two Authorization headers are a 400, in any case, also with the same valid key", async () => {
  const at = server.given.org();
  for (const names of [
    ["Authorization", "Authorization"],
    ["authorization", "AUTHORIZATION"],
  ]) {
    const lines = names.map((name) => `${name}: Bearer ${at.key}\r\n`).join("");
    const answer = await exchangeBytes(`GET /api/v2/flows/${at.org} HTTP/1.1\r\nHost: a\r\n${lines}\r\n`);
    assertRefusal(answer, {
      status: 400,
      message: "The request has 2 Authorization headers: send at most one",
    });
    assert.ok(answer.closed);
  }
});

test("a version of HTTP that the server does not speak is a 505, and the connection is closed", async () => {
  for (const path of ["/ready", "/api/v2/flows/acme"]) {
    const answer = await exchangeBytes(`GET ${path} HTTP/2.0\r\nHost: a\r\n\r\n`);
    assertRefusal(answer, { status: 505, message: "This server speaks HTTP/1.1, not HTTP/2.0" });
    assert.ok(answer.closed);
  }
});

test("HTTP/1.0 needs no Host header, but must not have two", async () => {
  const answer = await exchangeBytes("GET /ready HTTP/1.0\r\n\r\n");
  assert.equal({ status: answer.status, text: answer.text }, { status: 200, text: "OK" });
  const two = await exchangeBytes("GET /ready HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n");
  assertRefusal(two, { status: 400, message: TWO_HOSTS });
});

test("the body of a request with a refused host does not become the next request", async () => {
  const hidden = "GET /ready HTTP/1.1\r\nHost: a\r\n\r\n";
  const wire = await dial(server.url);
  const lines = ["POST /api/v2/flows/acme HTTP/1.1", "Host: a", "Host: b", `Content-Length: ${hidden.length}`];
  await wire.send(`${lines.join("\r\n")}\r\n\r\n${hidden}${hidden}`);
  assert.is((await wire.answer())?.status, 400);
  assert.is(await wire.closed(), "closed", "no second answer");
});

for (const target of ["*", "/nothing"])
  for (const method of ["OPTIONS", "GET", "DELETE"])
    test(`${method} ${target} is answered with JSON`, async () => {
      const answer = await exchangeBytes(`${method} ${target} HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n`);
      assertRefusal(answer, {
        status: 404,
        message: "The requested URL was not found on the server: the API is described at /api/v2/doc/ of this server",
      });
    });

test.run();
