/** The client of a request: which headers of proxies and clients count. */
import type { IncomingMessage } from "node:http";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  clientAddress,
  isSecure,
  rememberPeer,
  resolvePeer,
  parseTrustedProxies,
} from "../../src/http/client-address.ts";

const test = suite("http/client-address");

type Facts = {
  from?: string | undefined;
  tls?: boolean;
  host?: string;
  unix?: boolean;
  trusted?: readonly string[] | null;
};
const TRUSTED = ["10.0.0.0/8", "fd00::/8"];

const requestOf = (facts: Facts, headers: Record<string, string>): IncomingMessage => {
  const socket = {
    remoteAddress: "from" in facts ? facts.from : "10.0.0.1",
    ...(facts.tls ? { encrypted: true } : {}),
  };
  return { headers: { host: facts.host ?? "inner:8001", ...headers }, socket } as unknown as IncomingMessage;
};

const peer = (headers: Record<string, string>, facts: Facts = {}) =>
  resolvePeer(requestOf(facts, headers), {
    trust: parseTrustedProxies(facts.trusted === undefined ? TRUSTED : facts.trusted),
    unix: facts.unix ?? false,
  });
const address = (list: string, facts: Facts = {}): string => peer({ "x-forwarded-for": list }, facts).address;

const ALL = { "x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https", "x-forwarded-host": "assay.example.com" };
const DIRECT = { address: "192.0.2.1", secure: false, host: "inner:8001", origin: null };

test("headers of a trusted proxy count", () => {
  const claimed = {
    address: "203.0.113.9",
    secure: true,
    host: "assay.example.com",
    origin: "https://assay.example.com",
  };
  assert.equal(peer(ALL), claimed);
  assert.equal(peer(ALL, { from: "::ffff:10.0.0.1" }), claimed, "IPv4 on a dual-stack listener");
  assert.equal(peer(ALL, { from: "fd00::7" }), claimed);
  assert.equal(peer(ALL, { tls: true }), claimed);
  assert.equal(
    peer({ ...ALL, "x-forwarded-proto": "HTTP" }, { tls: true }),
    { ...claimed, secure: false, origin: "http://assay.example.com" },
    "the client spoke http, whatever the proxy speaks",
  );
});

test("headers of any other peer do not count, in any form", () => {
  const forwarded = { forwarded: "for=203.0.113.9;proto=https;host=assay.example.com" };
  for (const headers of [ALL, forwarded, { ...ALL, ...forwarded }]) {
    assert.equal(peer(headers, { from: "192.0.2.1" }), DIRECT);
    assert.equal(peer(headers, { from: "192.0.2.1", trusted: null }), DIRECT);
    assert.equal(peer(headers, { from: "192.0.2.1", tls: true }), { ...DIRECT, secure: true });
    assert.equal(peer(headers, { from: "192.0.2.1", trusted: ["unix"] }), DIRECT);
  }
  assert.equal(peer(ALL, { from: "::ffff:192.0.2.1" }), DIRECT, "an address has one normal form");
});

test("the client is the rightmost address that is not trusted", () => {
  for (const [list, client] of [
    ["203.0.113.9", "203.0.113.9"],
    ["1.1.1.1, 203.0.113.9", "203.0.113.9"],
    ["1.1.1.1, 203.0.113.9, 10.2.3.4,10.0.0.9", "203.0.113.9"],
    ["10.0.0.5, 203.0.113.9", "203.0.113.9"],
    ["10.0.0.5, 10.0.0.6", "10.0.0.5"],
    ["2001:DB8::0001", "2001:db8::1"],
    ["::ffff:203.0.113.9, fd00::1", "203.0.113.9"],
    ["203.0.113.9:4711", "203.0.113.9"],
    ["[2001:db8::1]:4711", "2001:db8::1"],
    ["[2001:db8::1]", "2001:db8::1"],
    ["fe80::1%eth0", "fe80::1"],
  ] as const)
    assert.is(address(list), client, list);
});

test("a text that is not an address ends the list with the proxy that wrote it", () => {
  for (const [list, client] of [
    ["unknown", "10.0.0.1"],
    ["", "10.0.0.1"],
    ["203.0.113.9, unknown, 10.0.0.7", "10.0.0.7"],
    ["203.0.113.9, , 10.0.0.7", "10.0.0.7"],
    ["127.1", "10.0.0.1"],
    ["010.0.0.1", "10.0.0.1"],
    ["203.0.113.9 10.0.0.7", "10.0.0.1"],
    ["203.0.113.9:99999999", "10.0.0.1"],
    ["\u0000", "10.0.0.1"],
  ] as const)
    assert.is(address(list), client, JSON.stringify(list));
  assert.is(address(`203.0.113.9${", 10.0.0.7".repeat(20_000)}`), "10.0.0.7", "an endless list is forged");
});

test("scheme and host are those of the client's hop, if each proxy appends its own", () => {
  const lists = {
    "x-forwarded-for": "6.6.6.6, 203.0.113.9, 10.0.0.7",
    "x-forwarded-proto": "http, https, http",
    "x-forwarded-host": "evil.example, assay.example.com, inner",
  };
  assert.equal(peer(lists), {
    address: "203.0.113.9",
    secure: true,
    host: "assay.example.com",
    origin: "https://assay.example.com",
  });
  assert.is(
    peer({ ...lists, "x-forwarded-proto": "https", "x-forwarded-host": "assay.example.com" }).origin,
    "https://assay.example.com",
    "one value for all hops",
  );
});

test("a scheme alone is completed with the requested host, a host alone with the scheme of the connection", () => {
  assert.is(peer({ "x-forwarded-proto": "https" }, { host: "assay.example.com" }).origin, "https://assay.example.com");
  assert.is(peer({ "x-forwarded-host": "assay.example.com:8443" }).origin, "http://assay.example.com:8443");
  assert.is(peer({ "x-forwarded-host": "assay.example.com" }, { tls: true }).origin, "https://assay.example.com");
  assert.is(
    peer({ "x-forwarded-for": "203.0.113.9" }).origin,
    null,
    "a proxy that reports neither leaves the configured public URL",
  );
  assert.is(peer({}).origin, null);
});

test("an invalid scheme or host does not count", () => {
  for (const proto of ["ftp", "https://", "https\u0000", "javascript", ""])
    assert.is(peer({ "x-forwarded-proto": proto }).origin, null, proto);
  for (const host of [
    "a b",
    "user@host",
    "host/path",
    "host?x",
    'a"b',
    "<b>",
    "host:port",
    "host:123456",
    "",
    "[::1",
    `${"a".repeat(300)}`,
    ":80",
    "-",
  ]) {
    const { origin, host: shown } = peer({ "x-forwarded-host": host, "x-forwarded-proto": "https" });
    assert.equal({ origin, shown }, { origin: "https://inner:8001", shown: "inner:8001" }, host);
    assert.is(peer({ "x-forwarded-host": host }).origin, null, host);
    assert.is(peer({}, { host, from: "192.0.2.1" }).host, null, host);
  }
  assert.is(
    peer({ "x-forwarded-host": "Assay.Example.com:443", "x-forwarded-proto": "https" }).origin,
    "https://assay.example.com",
    "a host has one normal form",
  );
  assert.is(
    peer({ "x-forwarded-host": "[2001:DB8::1]:443", "x-forwarded-proto": "http" }).origin,
    "http://[2001:db8::1]:443",
  );
});

test("Forwarded (RFC 7239) means the same", () => {
  const parsed = (forwarded: string) => peer({ forwarded });
  const claimed = {
    address: "203.0.113.9",
    secure: true,
    host: "assay.example.com",
    origin: "https://assay.example.com",
  };
  for (const text of [
    "for=203.0.113.9;proto=https;host=assay.example.com",
    "For=203.0.113.9; Proto=HTTPS; Host=assay.example.com; by=10.0.0.1",
    'for="203.0.113.9:4711";proto="https";host="assay.example.com"',
    "for=6.6.6.6;proto=http;host=evil.example, for=203.0.113.9;proto=https;host=assay.example.com, " +
      "for=10.0.0.7;proto=http;host=inner",
  ])
    assert.equal(parsed(text), claimed, text);
  assert.is(parsed('for="[2001:db8:cafe::17]:4711"').address, "2001:db8:cafe::17");
  assert.is(parsed('for="_gazonk"').address, "10.0.0.1");
  assert.is(parsed("for=203.0.113.9, for=unknown;proto=https").address, "10.0.0.1");
  for (const text of [
    "",
    ";",
    "for",
    "for=",
    'for="203.0.113.9',
    "for=1.1.1.1;for=203.0.113.9",
    'for=", for=203.0.113.9',
    "for=203.0.113.9 ;; x",
    "for=203.0.113.9,",
  ]) {
    assert.equal(parsed(text), { address: "10.0.0.1", secure: false, host: "inner:8001", origin: null }, text);
  }
});

test("if both families of headers are present, they count only if they agree", () => {
  const agreeing = "for=203.0.113.9;proto=https;host=assay.example.com";
  assert.is(peer({ ...ALL, forwarded: agreeing }).address, "203.0.113.9");
  for (const forwarded of [
    "for=6.6.6.6;proto=https;host=assay.example.com",
    "for=203.0.113.9;proto=http;host=assay.example.com",
    "for=203.0.113.9;proto=https;host=evil.example",
    "proto=https",
    "for=203.0.113.9",
    "broken",
  ]) {
    assert.equal(
      peer({ ...ALL, forwarded }),
      { address: "10.0.0.1", secure: false, host: "inner:8001", origin: null },
      forwarded,
    );
  }
});

test("a Unix socket is trusted by name, and a closed connection is not a Unix socket", () => {
  const facts = { from: undefined, unix: true };
  assert.equal(peer(ALL, { ...facts, trusted: ["unix"] }), {
    address: "203.0.113.9",
    secure: true,
    host: "assay.example.com",
    origin: "https://assay.example.com",
  });
  assert.equal(peer(ALL, { ...facts, trusted: TRUSTED }), {
    address: "unix",
    secure: false,
    host: "inner:8001",
    origin: null,
  });
  assert.equal(peer(ALL, { from: undefined, trusted: ["unix", ...TRUSTED] }), {
    address: "unknown",
    secure: false,
    host: "inner:8001",
    origin: null,
  });
  assert.is(peer({ "x-forwarded-for": "unix" }, { ...facts, trusted: ["unix"] }).address, "unix");
});

test("the peer that the listener stored is used even after the connection is closed", () => {
  const request = requestOf({}, ALL);
  assert.equal(
    { clientAddress: clientAddress(request), isSecure: isSecure(request) },
    { clientAddress: "10.0.0.1", isSecure: false },
    "without a listener no proxy is trusted",
  );
  rememberPeer(request, resolvePeer(request, { trust: parseTrustedProxies(TRUSTED) }));
  Object.assign(request, { socket: {} });
  assert.equal(
    { clientAddress: clientAddress(request), isSecure: isSecure(request) },
    { clientAddress: "203.0.113.9", isSecure: true },
  );
});

test.run();
