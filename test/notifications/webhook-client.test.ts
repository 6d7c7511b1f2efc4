/** Webhooks over real sockets: what is sent, where to, where never, and the outcome of each response. */
import { createHmac } from "node:crypto";
import { subscribe } from "node:diagnostics_channel";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Outcome } from "../../src/notifications/outcome.ts";
import { AUTHORITY } from "./certificates.ts";
import { NOW, bell, endReceivers, given, names, receiver, webhook } from "./given.ts";

const test = suite("notifications/webhook-client");
test.after(endReceivers);

const HOST = "hooks.assay.example";
const NONE = { address: null, status: null, detail: null, retryAfter: null, pendingRecipients: null };
const LOOPBACK = { ...NONE, address: "127.0.0.1" };
const accepted = (status = 200): Outcome => ({ ...LOOPBACK, result: "accepted", publicError: null, status });

test("posts a webhook as stored, signed with its target's secret, to the resolved address, with Host", async () => {
  const { received, url, port } = await receiver(204);
  const { sender, lookups, bell: clock } = given();
  const message = webhook(url(HOST, "/a%20b?c=d"), { secret: "s3cret" });
  assert.equal(await sender.send(message), accepted(204));
  const [{ headers, ...request }] = received as [(typeof received)[0]];
  assert.equal(request, { method: "POST", url: "/a%20b?c=d", body: message.message_json, servername: null });
  const { connection: _, ...own } = headers;
  const signed = createHmac("sha256", "s3cret").update(`1700000000.${message.message_json}`).digest("hex");
  assert.equal(own, {
    host: `${HOST}:${port}`,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(message.message_json)),
    "user-agent": "Assay/1.2.3",
    "x-assay-delivery": "d-1",
    "x-assay-event": "STARTED_ARTIFACT",
    "x-assay-signature": `t=1700000000,v1=${signed}`,
  });
  assert.equal(lookups, [HOST]);
  assert.equal(clock.waiting(), [], "no timer is left behind");
});

test("a Slack message has none of our headers, and a webhook only those that apply", async () => {
  const { received, url } = await receiver();
  const { sender } = given();
  assert.equal(await sender.send({ ...webhook(url(HOST), { secret: "s3cret" }), type: "SLACK" }), accepted());
  assert.equal(await sender.send(webhook(url(HOST), { body: { event_type: "two\r\nX-Evil: 1" } })), accepted());
  const ours = received.map(({ headers }) => Object.keys(headers).filter((name) => name.startsWith("x-")));
  assert.equal(ours, [[], ["x-assay-delivery"]]);
});

test("connects to the address that was looked up, and looks up again for the next message", async () => {
  const [inside, outside] = [await receiver(), await receiver(200, { address: "127.0.0.2" })];
  const rebinding = names({ [HOST]: [["127.0.0.1"], ["127.0.0.2"]] });
  const { sender } = given({ resolve: rebinding.resolve });
  assert.equal(await sender.send(webhook(inside.url(HOST))), accepted());
  assert.equal(rebinding.lookups, [HOST], "one lookup per request");
  assert.equal(await sender.send(webhook(outside.url(HOST))), {
    ...NONE,
    result: "refused",
    publicError: "The addresses of hooks.assay.example are not allowed as a target",
    detail: "127.0.0.2 is loopback",
  });
  assert.is(inside.received.length, 1);
  assert.is(outside.seen.connections, 0);
});

test("connects to none when one of the addresses is not allowed", async () => {
  const { seen, url } = await receiver();
  for (const [answer, problem] of [
    [["127.0.0.1", "10.0.0.1"], "10.0.0.1 is private"],
    [["10.0.0.1", "127.0.0.1"], "10.0.0.1 is private"],
    [["127.0.0.1", "::ffff:169.254.169.254"], "::ffff:169.254.169.254 is a cloud metadata service"],
    [["127.0.0.1", "::127.0.0.1"], "::127.0.0.1 is an IPv4 address in a deprecated form"],
    [["127.0.0.1", "nonsense"], "nonsense is not an IP address"],
  ] as const) {
    const { sender } = given({ resolve: async () => answer });
    const { result, detail } = await sender.send(webhook(url(HOST)));
    assert.equal({ result, detail }, { result: "refused", detail: problem });
  }
  const { sender } = given({ resolve: async () => [] });
  assert.is((await sender.send(webhook(url(HOST)))).detail, "there are none");
  assert.is(seen.connections, 0);
});

test("connects to an internal name only if all of its addresses are in the allowed ranges", async () => {
  const { seen, url } = await receiver();
  const { sender } = given({
    resolve: names({ "mailhog.lan": ["127.0.0.1"], "split.lan": ["127.0.0.1", "8.8.8.8"] }).resolve,
  });
  assert.equal(await sender.send(webhook(url("mailhog.lan"))), accepted());
  const { result, detail } = await sender.send(webhook(url("split.lan")));
  assert.equal(
    { result, detail },
    { result: "refused", detail: "split.lan is an internal name, and 8.8.8.8 is not in any range of webhook-allow" },
  );
  assert.is(seen.connections, 1);
});

test("checks an address in the URL without a lookup; one that is not allowed is hopeless", async () => {
  const { url, seen } = await receiver();
  const { sender, lookups } = given();
  assert.equal(await sender.send(webhook(url("127.0.0.1"))), accepted());
  assert.equal(await sender.send(webhook(url("0x7f.1"))), accepted(), "another spelling of the same address");
  assert.equal(await sender.send(webhook(url("127.0.0.2"))), {
    ...NONE,
    result: "hopeless",
    publicError: "The address 127.0.0.2 is not allowed as a target: it is loopback",
  });
  assert.equal(await sender.send(webhook("file:///etc/passwd")), {
    ...NONE,
    result: "hopeless",
    publicError: "The URL must begin with https:// or http://",
  });
  assert.equal(lookups, []);
  assert.is(seen.connections, 2);
});

test("without allowed ranges nothing on this machine is reachable", async () => {
  const { url, seen } = await receiver();
  const { sender } = given({ allow: [] });
  assert.is((await sender.send(webhook(url(HOST)))).detail, "127.0.0.1 is loopback");
  assert.is((await sender.send(webhook(url("localhost")))).result, "hopeless");
  assert.is(seen.connections, 0);
});

test("follows redirects that keep the body, and checks each hop like the first", async () => {
  const last = await receiver();
  const first = await receiver(
    (_, response, count) =>
      void response.writeHead(count === 1 ? 307 : 308, { location: last.url("other.example", "/moved") }).end(),
  );
  const { sender, lookups } = given();
  const message = webhook(first.url(HOST), { secret: "s" });
  assert.equal(await sender.send(message), accepted());
  assert.equal(await sender.send(message), accepted());
  assert.equal(
    last.received.map(({ method, url, body }) => [method, url, body]),
    Array(2).fill(["POST", "/moved", message.message_json]),
  );
  assert.equal(last.received[0]?.headers["x-assay-signature"], first.received[0]?.headers["x-assay-signature"]);
  assert.equal(lookups, [HOST, "other.example", HOST, "other.example"]);
});

test("does not follow a redirect to a target that is not allowed", async () => {
  const inner = await receiver(200, { address: "127.0.0.2" });
  const redirecting = { location: "" };
  const { url } = await receiver((_, response) => void response.writeHead(307, redirecting).end());
  const { sender } = given({ resolve: names({ [HOST]: ["127.0.0.1"], "inner.example": ["127.0.0.2"] }).resolve });
  for (const [location, publicError, detail] of [
    [
      inner.url("127.0.0.2"),
      "The receiver redirects to a target that is not allowed",
      "The address 127.0.0.2 is not allowed as a target: it is loopback",
    ],
    [
      "http://169.254.169.254/latest",
      "The receiver redirects to a target that is not allowed",
      "The address 169.254.169.254 is not allowed as a target: it is a cloud metadata service",
    ],
    [inner.url("inner.example"), "The addresses of inner.example are not allowed as a target", "127.0.0.2 is loopback"],
    [
      "http://user:pw@127.0.0.1/",
      "The receiver redirects to a target that is not allowed",
      "The URL must not contain a user name or password",
    ],
    [
      "gopher://127.0.0.1/",
      "The receiver redirects to a target that is not allowed",
      "The URL must begin with https:// or http://",
    ],
    ["http://[", "The receiver redirects to an invalid address", null],
  ] as const) {
    redirecting.location = location;
    const outcome = await sender.send(webhook(url(HOST)));
    assert.equal(
      { result: outcome.result, publicError: outcome.publicError, detail: outcome.detail },
      { result: "refused", publicError, detail },
      location,
    );
  }
  assert.is(inner.seen.connections, 0);
});

test("follows three redirects, and none that drops the body or TLS", async () => {
  const circle = await receiver((_, response) => void response.writeHead(307, { location: "/again" }).end());
  const { sender } = given({ ca: [AUTHORITY] });
  assert.equal(await sender.send(webhook(circle.url(HOST))), {
    ...LOOPBACK,
    result: "refused",
    publicError: "The receiver redirects more than 3 times",
    status: 307,
  });
  assert.is(circle.received.length, 4);
  for (const status of [301, 302, 303, 304, 307]) {
    const { url, received } = await receiver(
      (_, response) => void response.writeHead(status, status === 307 ? {} : { location: "/x" }).end(),
    );
    const problem = "a redirect that is not followed: name the final address";
    const publicError = `The receiver answered with status ${status}, ${problem}`;
    assert.equal(await sender.send(webhook(url(HOST))), { ...LOOPBACK, result: "refused", publicError, status });
    assert.is(received.length, 1);
  }
  const secure = await receiver((_, response) => void response.writeHead(308, { location: circle.url(HOST) }).end(), {
    secure: true,
  });
  assert.is(
    (await sender.send(webhook(secure.url(HOST)))).publicError,
    "The receiver redirects from https to an unprotected address",
  );
});

test("maps each status to an outcome", async () => {
  const { sender } = given();
  for (const [result, statuses] of [
    ["accepted", [200, 201, 202, 204, 299]],
    ["failed", [408, 421, 423, 425, 429, 500, 502, 503, 504, 599]],
    ["refused", [400, 401, 403, 404, 405, 413, 415, 422, 451]],
    ["hopeless", [410]],
  ] as const) {
    for (const status of statuses) {
      const { url } = await receiver(status);
      assert.is((await sender.send(webhook(url(HOST)))).result, result, String(status));
    }
  }
});

test("stores the reason of a refusal, short and on one line, for the operator only", async () => {
  const { url } = await receiver(
    (_, response) => void response.writeHead(400).end(`invalid_payload\r\n\u0007 ${"x".repeat(5000)}`),
  );
  const { sender } = given();
  assert.equal(await sender.send(webhook(url(HOST))), {
    ...LOOPBACK,
    result: "refused",
    status: 400,
    publicError: "The receiver answered with status 400",
    detail: `invalid_payload ${"x".repeat(184)}`,
  });
});

test("reads Retry-After in seconds and as a date", async () => {
  const { sender } = given();
  for (const [text, seconds] of [
    ["120", 120],
    [new Date((NOW + 60) * 1000).toUTCString(), 59.5],
    ["Tue, 14 Nov 2000 22:13:20 GMT", 0],
    ["soon", null],
  ] as const) {
    const { url } = await receiver((_, response) => void response.writeHead(429, { "retry-after": text }).end());
    const { result, retryAfter } = await sender.send(webhook(url(HOST)));
    assert.equal({ result, retryAfter }, { result: "failed", retryAfter: seconds }, text);
  }
});

const LATE = { result: "failed", publicError: "The receiver did not answer within 15 seconds" };

test("gives up on a silent receiver at the time limit, and closes the connection", async () => {
  const { url, received, seen, until } = await receiver(() => undefined);
  const { sender, bell: clock } = given();
  const sending = sender.send(webhook(url(HOST)));
  await until(() => received.length === 1);
  assert.equal(clock.waiting(), [15]);
  clock.ring();
  assert.equal(await sending, { ...LOOPBACK, ...LATE });
  await until(() => seen.open === 0);
});

test("the time limit covers endless headers and a lookup that hangs", async () => {
  const dripping = await receiver((_, response) => void response.socket?.write("HTTP/1.1 200 OK\r\nX-A: "));
  const { sender, bell: clock } = given();
  const sending = sender.send(webhook(dripping.url(HOST)));
  await dripping.until(() => dripping.received.length === 1);
  clock.ring();
  assert.equal(await sending, { ...LOOPBACK, ...LATE });

  const hanging = bell();
  const resolve = (_: string, signal: AbortSignal) =>
    new Promise<string[]>((__, reject) => signal.addEventListener("abort", () => reject(new Error("canceled"))));
  const { sender: second } = given({ timer: hanging.timer, resolve });
  const looking = second.send(webhook(dripping.url(HOST)));
  hanging.ring();
  assert.equal(await looking, { ...NONE, ...LATE });
});

test("the time limit covers a receiver that accepts the connection only, also before the TLS handshake", async () => {
  const { sender, bell: clock } = given({ ca: [AUTHORITY] });
  for (const scheme of ["http", "https"]) {
    const silent = createServer();
    const ended = new Promise<void>((resolve) =>
      silent.on(
        "connection",
        (socket) =>
          void socket
            .on("error", () => undefined)
            .resume()
            .on("close", () => resolve()),
      ),
    );
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const connected = new Promise((resolve) => silent.once("connection", resolve));
    const sending = sender.send(webhook(`${scheme}://${HOST}:${(silent.address() as AddressInfo).port}/`));
    await connected;
    clock.ring();
    const { result, publicError } = await sending;
    assert.equal({ result, publicError }, LATE);
    await ended;
    silent.close();
  }
});

test("an endless response counts by its status at the time limit", async () => {
  const { url, until, seen } = await receiver((_, response) => void response.writeHead(200).write("and then "));
  const { sender, bell: clock } = given();
  const headers = new Promise((resolve) => subscribe("undici:request:headers", resolve));
  const sending = sender.send(webhook(url(HOST)));
  await headers;
  // The headers have arrived; a turn later they reach the code that waits for the response.
  await new Promise((resolve) => setImmediate(resolve));
  clock.ring();
  assert.equal(await sending, accepted());
  await until(() => seen.open === 0);
});

test("reads only the beginning of a large response", async () => {
  let finished = false;
  const { url, until, seen } = await receiver((_, response) => {
    response.writeHead(500);
    const chunk = Buffer.alloc(1 << 20, "x");
    const more = (): void => {
      while (response.write(chunk)) if (response.destroyed) return;
      response.once("drain", more);
    };
    response.once("finish", () => (finished = true));
    more();
  });
  const { sender } = given();
  assert.equal(await sender.send(webhook(url(HOST))), {
    ...LOOPBACK,
    result: "failed",
    publicError: "The receiver answered with status 500",
    status: 500,
    detail: "x".repeat(200),
  });
  await until(() => seen.open === 0);
  assert.is(finished, false);
});

test("a response that is not HTTP, or has too many headers, is a failure", async () => {
  const { sender } = given();
  for (const text of ["SSH-2.0-OpenSSH_9.0\r\n", `HTTP/1.1 200 OK\r\nX: ${"a".repeat(20_000)}\r\n\r\n`, ""]) {
    const { url } = await receiver((_, response) => void response.socket?.end(text));
    const { result, publicError, status } = await sender.send(webhook(url(HOST)));
    assert.equal(
      { result, publicError, status },
      { result: "failed", publicError: "The receiver could not be reached", status: null },
    );
  }
});

test("verifies the certificate against the name, at the address that was looked up", async () => {
  const { url, received } = await receiver(200, { secure: true });
  const { sender } = given({ ca: [AUTHORITY] });
  assert.equal(await sender.send(webhook(url(HOST))), accepted());
  assert.equal(
    await sender.send(webhook(url(`${HOST.toUpperCase()}.`))),
    accepted(),
    "a trailing dot is not part of the name in a certificate",
  );
  assert.equal(
    received.map(({ servername }) => servername),
    [HOST, HOST],
  );
});

test("rejects a certificate of another name or an unknown CA, whatever the environment says", async () => {
  const { url, received } = await receiver(200, { secure: true });
  const publicError = "No secure connection to the receiver: its certificate or its TLS is not accepted";
  const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  try {
    for (const [ca, host] of [
      [[AUTHORITY], "other.example"],
      [null, HOST],
    ] as const) {
      const { sender } = given({ ca });
      const outcome = await sender.send(webhook(url(host)));
      assert.equal(
        { result: outcome.result, publicError: outcome.publicError, status: outcome.status },
        { result: "failed", publicError, status: null },
        host,
      );
    }
  } finally {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
  }
  assert.is(received.length, 0);
});

test("ignores proxies from the environment", async () => {
  const [proxy, { url }] = [await receiver(), await receiver()];
  const variables = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "NODE_USE_ENV_PROXY"];
  for (const name of variables) process.env[name] = name === "NODE_USE_ENV_PROXY" ? "1" : proxy.url("127.0.0.1");
  try {
    assert.equal(await given().sender.send(webhook(url(HOST))), accepted());
  } finally {
    for (const name of variables) delete process.env[name];
  }
  assert.is(proxy.seen.connections, 0);
});

test("one reachable address of several is enough", async () => {
  const { url } = await receiver();
  const { sender } = given({ allow: ["127.0.0.0/8"], resolve: async () => ["127.0.0.9", "127.0.0.1"] });
  assert.equal(await sender.send(webhook(url(HOST))), accepted());
});

test("an unreachable receiver and an unknown host name have different errors", async () => {
  const { sender } = given();
  const gone = await receiver();
  endReceivers();
  const refused = await sender.send(webhook(gone.url(HOST)));
  assert.equal(
    { result: refused.result, publicError: refused.publicError },
    { result: "failed", publicError: "The receiver could not be reached" },
  );
  assert.match(String(refused.detail), /ECONNREFUSED 127\.0\.0\.1/);
  assert.equal(await sender.send(webhook("http://nobody.example/secret-path")), {
    ...NONE,
    result: "failed",
    publicError: "The host name of the receiver was not found",
    detail: "queryA ENOTFOUND nobody.example",
  });
});

test("close aborts running attempts and starts no more", async () => {
  const { url, received, seen, until } = await receiver(() => undefined);
  const { sender } = given();
  const sending = sender.send(webhook(url(HOST)));
  await until(() => received.length === 1);
  sender.close();
  assert.equal(await sending, { ...NONE, result: "stopped", publicError: null });
  assert.equal(await sender.send(webhook(url(HOST))), { ...NONE, result: "stopped", publicError: null });
  await until(() => seen.open === 0);
  assert.is(seen.connections, 1);
});

test("an unreadable stored message is hopeless", async () => {
  const { sender } = given();
  assert.is((await sender.send({ ...webhook("http://x.example/"), target_json: "{" })).result, "hopeless");
});

test.run();
