/** Webhooks over real sockets: what is sent, where it goes, where it never goes, and what is made of each answer. */
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
const NONE = { address: null, status: null, detail: null, retryAfter: null, left: null };
const LOOPBACK = { ...NONE, address: "127.0.0.1" };
const accepted = (status = 200): Outcome => ({ ...LOOPBACK, result: "accepted", told: null, status });

test("a webhook is posted as it is stored, signed with the secret of its target, to the name's address and under its name", async () => {
  const { received, url, port } = await receiver(204);
  const { sender, asked, bell: clock } = given();
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
  assert.equal(asked, [HOST]);
  assert.equal(clock.waiting(), [], "no timer is left behind");
});

test("a message to Slack carries nothing of ours, and a webhook without secret or event what it has", async () => {
  const { received, url } = await receiver();
  const { sender } = given();
  assert.equal(await sender.send({ ...webhook(url(HOST), { secret: "s3cret" }), type: "SLACK" }), accepted());
  assert.equal(await sender.send(webhook(url(HOST), { body: { event_type: "two\r\nX-Evil: 1" } })), accepted());
  const ours = received.map(({ headers }) => Object.keys(headers).filter((name) => name.startsWith("x-")));
  assert.equal(ours, [[], ["x-assay-delivery"]]);
});

test("the address that was looked up is the one that is called, and the next message looks again", async () => {
  const [inside, outside] = [await receiver(), await receiver(200, { address: "127.0.0.2" })];
  const rebinding = names({ [HOST]: [["127.0.0.1"], ["127.0.0.2"]] });
  const { sender } = given({ resolve: rebinding.resolve });
  assert.equal(await sender.send(webhook(inside.url(HOST))), accepted());
  assert.equal(rebinding.asked, [HOST], "one look-up for one request");
  assert.equal(await sender.send(webhook(outside.url(HOST))), {
    ...NONE,
    result: "refused",
    told: "The addresses of hooks.assay.example are not allowed as a target",
    detail: "127.0.0.2 is loopback",
  });
  assert.is(inside.received.length, 1);
  assert.is(outside.seen.connections, 0);
});

test("one address that is not allowed is enough to call none of them", async () => {
  const { seen, url } = await receiver();
  for (const [answer, problem] of [
    [["127.0.0.1", "10.0.0.1"], "10.0.0.1 is private"],
    [["10.0.0.1", "127.0.0.1"], "10.0.0.1 is private"],
    [["127.0.0.1", "::ffff:169.254.169.254"], "::ffff:169.254.169.254 is the metadata service of a cloud"],
    [["127.0.0.1", "::127.0.0.1"], "::127.0.0.1 is an IPv4 address in an outdated form"],
    [["127.0.0.1", "nonsense"], "nonsense is no IP address"],
  ] as const) {
    const { sender } = given({ resolve: async () => answer });
    const { result, detail } = await sender.send(webhook(url(HOST)));
    assert.equal({ result, detail }, { result: "refused", detail: problem });
  }
  const { sender } = given({ resolve: async () => [] });
  assert.is((await sender.send(webhook(url(HOST)))).detail, "there are none");
  assert.is(seen.connections, 0);
});

test("an internal name is reached only where all of its addresses lie in the operator's ranges", async () => {
  const { seen, url } = await receiver();
  const { sender } = given({
    resolve: names({ "mailhog.lan": ["127.0.0.1"], "split.lan": ["127.0.0.1", "8.8.8.8"] }).resolve,
  });
  assert.equal(await sender.send(webhook(url("mailhog.lan"))), accepted());
  const { result, detail } = await sender.send(webhook(url("split.lan")));
  assert.equal(
    { result, detail },
    { result: "refused", detail: "split.lan is an internal name, and 8.8.8.8 lies in no range of webhook-allow" },
  );
  assert.is(seen.connections, 1);
});

test("an address in the URL is judged without a look-up, and what is not allowed is hopeless", async () => {
  const { url, seen } = await receiver();
  const { sender, asked } = given();
  assert.equal(await sender.send(webhook(url("127.0.0.1"))), accepted());
  assert.equal(await sender.send(webhook(url("0x7f.1"))), accepted(), "another spelling of the same");
  assert.equal(await sender.send(webhook(url("127.0.0.2"))), {
    ...NONE,
    result: "hopeless",
    told: "The address 127.0.0.2 is not allowed as a target: it is loopback",
  });
  assert.equal(await sender.send(webhook("file:///etc/passwd")), {
    ...NONE,
    result: "hopeless",
    told: "The URL must begin with https:// or http://",
  });
  assert.equal(asked, []);
  assert.is(seen.connections, 2);
});

test("without ranges of the operator nothing on this machine is called", async () => {
  const { url, seen } = await receiver();
  const { sender } = given({ allow: [] });
  assert.is((await sender.send(webhook(url(HOST)))).detail, "127.0.0.1 is loopback");
  assert.is((await sender.send(webhook(url("localhost")))).result, "hopeless");
  assert.is(seen.connections, 0);
});

test("redirects that keep the message are followed, each hop judged like the first", async () => {
  const last = await receiver();
  const first = await receiver(
    (_, response, count) =>
      void response.writeHead(count === 1 ? 307 : 308, { location: last.url("other.example", "/moved") }).end(),
  );
  const { sender, asked } = given();
  const message = webhook(first.url(HOST), { secret: "s" });
  assert.equal(await sender.send(message), accepted());
  assert.equal(await sender.send(message), accepted());
  assert.equal(
    last.received.map(({ method, url, body }) => [method, url, body]),
    Array(2).fill(["POST", "/moved", message.message_json]),
  );
  assert.equal(last.received[0]?.headers["x-assay-signature"], first.received[0]?.headers["x-assay-signature"]);
  assert.equal(asked, [HOST, "other.example", HOST, "other.example"]);
});

test("a redirect leads nowhere that the target could not be itself", async () => {
  const inner = await receiver(200, { address: "127.0.0.2" });
  const redirecting = { location: "" };
  const { url } = await receiver((_, response) => void response.writeHead(307, redirecting).end());
  const { sender } = given({ resolve: names({ [HOST]: ["127.0.0.1"], "inner.example": ["127.0.0.2"] }).resolve });
  for (const [location, told, detail] of [
    [
      inner.url("127.0.0.2"),
      "The receiver redirects to a target that is not allowed",
      "The address 127.0.0.2 is not allowed as a target: it is loopback",
    ],
    [
      "http://169.254.169.254/latest",
      "The receiver redirects to a target that is not allowed",
      "The address 169.254.169.254 is not allowed as a target: it is the metadata service of a cloud",
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
    ["http://[", "The receiver redirects to no valid address", null],
  ] as const) {
    redirecting.location = location;
    const outcome = await sender.send(webhook(url(HOST)));
    assert.equal(
      { result: outcome.result, told: outcome.told, detail: outcome.detail },
      { result: "refused", told, detail },
      location,
    );
  }
  assert.is(inner.seen.connections, 0);
});

test("redirects are followed three times, and never without the message or the protection it began with", async () => {
  const circle = await receiver((_, response) => void response.writeHead(307, { location: "/again" }).end());
  const { sender } = given({ ca: [AUTHORITY] });
  assert.equal(await sender.send(webhook(circle.url(HOST))), {
    ...LOOPBACK,
    result: "refused",
    told: "The receiver redirects more than 3 times",
    status: 307,
  });
  assert.is(circle.received.length, 4);
  for (const status of [301, 302, 303, 304, 307]) {
    const { url, received } = await receiver(
      (_, response) => void response.writeHead(status, status === 307 ? {} : { location: "/x" }).end(),
    );
    const told = `The receiver answered with status ${status}, a redirect that is not followed: name the final address`;
    assert.equal(await sender.send(webhook(url(HOST))), { ...LOOPBACK, result: "refused", told, status });
    assert.is(received.length, 1);
  }
  const secure = await receiver((_, response) => void response.writeHead(308, { location: circle.url(HOST) }).end(), {
    secure: true,
  });
  assert.is(
    (await sender.send(webhook(secure.url(HOST)))).told,
    "The receiver redirects from https to an unprotected address",
  );
});

test("what is made of each status", async () => {
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

test("the reason of a refusal is kept, short and on one line, apart from what the organization is told", async () => {
  const { url } = await receiver(
    (_, response) => void response.writeHead(400).end(`invalid_payload\r\n\u0007 ${"x".repeat(5000)}`),
  );
  const { sender } = given();
  assert.equal(await sender.send(webhook(url(HOST))), {
    ...LOOPBACK,
    result: "refused",
    status: 400,
    told: "The receiver answered with status 400",
    detail: `invalid_payload ${"x".repeat(184)}`,
  });
});

test("a receiver may say when to come again, in seconds or as a date", async () => {
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

const LATE = { result: "failed", told: "The receiver did not answer within 15 seconds" };

test("a receiver that does not answer is left when the time is over, and the connection with it", async () => {
  const { url, received, seen, until } = await receiver(() => undefined);
  const { sender, bell: clock } = given();
  const sending = sender.send(webhook(url(HOST)));
  await until(() => received.length === 1);
  assert.equal(clock.waiting(), [15]);
  clock.ring();
  assert.equal(await sending, { ...LOOPBACK, ...LATE });
  await until(() => seen.open === 0);
});

test("the time counts for headers that never end and for a look-up that hangs", async () => {
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

test("a receiver that takes the connection and then nothing more is left too, also before TLS is agreed on", async () => {
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
    const { result, told } = await sending;
    assert.equal({ result, told }, LATE);
    await ended;
    silent.close();
  }
});

test("an answer that never ends counts by its status once the time is over", async () => {
  const { url, until, seen } = await receiver((_, response) => void response.writeHead(200).write("and then "));
  const { sender, bell: clock } = given();
  const headers = new Promise((resolve) => subscribe("undici:request:headers", resolve));
  const sending = sender.send(webhook(url(HOST)));
  await headers;
  // The head was seen; a turn later it was told to whoever waits for the answer.
  await new Promise((resolve) => setImmediate(resolve));
  clock.ring();
  assert.equal(await sending, accepted());
  await until(() => seen.open === 0);
});

test("of a large answer only the beginning is read", async () => {
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
    told: "The receiver answered with status 500",
    status: 500,
    detail: "x".repeat(200),
  });
  await until(() => seen.open === 0);
  assert.is(finished, false);
});

test("what is no HTTP, or too much of it, is a failure", async () => {
  const { sender } = given();
  for (const text of ["SSH-2.0-OpenSSH_9.0\r\n", `HTTP/1.1 200 OK\r\nX: ${"a".repeat(20_000)}\r\n\r\n`, ""]) {
    const { url } = await receiver((_, response) => void response.socket?.end(text));
    const { result, told, status } = await sender.send(webhook(url(HOST)));
    assert.equal(
      { result, told, status },
      { result: "failed", told: "The receiver could not be reached", status: null },
    );
  }
});

test("a secure receiver is known by the name, at the address that was looked up", async () => {
  const { url, received } = await receiver(200, { secure: true });
  const { sender } = given({ ca: [AUTHORITY] });
  assert.equal(await sender.send(webhook(url(HOST))), accepted());
  assert.equal(
    await sender.send(webhook(url(`${HOST.toUpperCase()}.`))),
    accepted(),
    "a dot at the end is no part of the name in a certificate",
  );
  assert.equal(
    received.map(({ servername }) => servername),
    [HOST, HOST],
  );
});

test("a certificate of another name or of nobody known is not accepted, whatever the environment says", async () => {
  const { url, received } = await receiver(200, { secure: true });
  const told = "No secure connection to the receiver: its certificate or its TLS is not accepted";
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
        { result: outcome.result, told: outcome.told, status: outcome.status },
        { result: "failed", told, status: null },
        host,
      );
    }
  } finally {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
  }
  assert.is(received.length, 0);
});

test("proxies of the environment are not used", async () => {
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

test("of several addresses one that answers is enough", async () => {
  const { url } = await receiver();
  const { sender } = given({ allow: ["127.0.0.0/8"], resolve: async () => ["127.0.0.9", "127.0.0.1"] });
  assert.equal(await sender.send(webhook(url(HOST))), accepted());
});

test("a receiver that is not there and a name that is not known are told apart", async () => {
  const { sender } = given();
  const gone = await receiver();
  endReceivers();
  const refused = await sender.send(webhook(gone.url(HOST)));
  assert.equal(
    { result: refused.result, told: refused.told },
    { result: "failed", told: "The receiver could not be reached" },
  );
  assert.match(String(refused.detail), /ECONNREFUSED 127\.0\.0\.1/);
  assert.equal(await sender.send(webhook("http://nobody.example/secret-path")), {
    ...NONE,
    result: "failed",
    told: "The host name of the receiver was not found",
    detail: "queryA ENOTFOUND nobody.example",
  });
});

test("a sender that is closed cuts short what it sends, and sends nothing more", async () => {
  const { url, received, seen, until } = await receiver(() => undefined);
  const { sender } = given();
  const sending = sender.send(webhook(url(HOST)));
  await until(() => received.length === 1);
  sender.close();
  assert.equal(await sending, { ...NONE, result: "stopped", told: null });
  assert.equal(await sender.send(webhook(url(HOST))), { ...NONE, result: "stopped", told: null });
  await until(() => seen.open === 0);
  assert.is(seen.connections, 1);
});

test("a stored message that cannot be read is hopeless", async () => {
  const { sender } = given();
  assert.is((await sender.send({ ...webhook("http://x.example/"), target_json: "{" })).result, "hopeless");
});

test.run();
