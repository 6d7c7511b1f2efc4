/** Webhook targets, in all the notations by which servers have been tricked into calling themselves. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isInternalName, parseTarget, findTargetProblem } from "../../../src/domain/network/webhook-url.ts";

const test = suite("domain/network/webhook-url");

const INVALID = "The URL is not a valid web address";
const SCHEME = "The URL must begin with https:// or http://";
const CREDENTIALS = "The URL must not contain a user name or password";
const address = (text: string, what: string): string => `The address ${text} is not allowed as a target: it is ${what}`;
const internal = (name: string): string => `The host name ${name} is not allowed as a target: it is internal`;

const CASES: readonly (readonly [string, string | null])[] = [
  ["https://hooks.example.com/services/T0/B0/secret", null],
  ["http://hooks.example.com:8080/x?y=z#part", null],
  ["HTTPS://Hooks.Example.COM./", null],
  ["https://bücher.example/x", null],
  ["https://8.8.8.8/", null],
  ["https://[2606:4700:4700::1111]:8443/", null],
  ["https://a_b.example.com/", null],
  // schemes and forms
  ["ftp://example.com/", SCHEME],
  ["file:///etc/passwd", SCHEME],
  ["gopher://example.com/", SCHEME],
  ["javascript:alert(1)", SCHEME],
  ["data:,x", SCHEME],
  ["", INVALID],
  ["example.com", INVALID],
  ["//example.com/", INVALID],
  ["https:example.com", INVALID],
  ["https:/example.com", INVALID],
  ["https://", INVALID],
  ["https:///example.com", INVALID],
  [" https://example.com", INVALID],
  ["https://example.com/a b", INVALID],
  ["https://example.com\n/", INVALID],
  ["https://example.com\\@127.0.0.1/", INVALID],
  ["https://exa\tmple.com/", INVALID],
  ["https://example.com:99999/", INVALID],
  ["https://[::1/", INVALID],
  ["https://example.com/\u0000", INVALID],
  ["https://[fe80::1%25eth0]/", INVALID],
  ["https://256.256.256.256/", INVALID],
  ["https://exa mple.com/", INVALID],
  [`https://example.com/${"x".repeat(2048)}`, "The URL is longer than 2048 characters"],
  // credentials
  ["https://user:password@example.com/", CREDENTIALS],
  ["https://user@example.com/", CREDENTIALS],
  ["https://@example.com/", CREDENTIALS],
  ["https://:@example.com/", CREDENTIALS],
  ["https://example.com@127.0.0.1/", CREDENTIALS],
  ["https://example.com/@path", null],
  // ports
  ["http://example.com:25/", "The port 25 is not allowed for http"],
  ["https://example.com:22/", "The port 22 is not allowed for https"],
  ["http://example.com:6379/", "The port 6379 is not allowed for http"],
  ["http://example.com:0/", "The port 0 is not allowed for http"],
  ["http://example.com:443/", null],
  ["https://example.com:80/", null],
  // IPv4 in all its notations
  ["http://127.0.0.1/", address("127.0.0.1", "loopback")],
  ["http://127.0.0.1./", address("127.0.0.1", "loopback")],
  ["http://127.1/", address("127.0.0.1", "loopback")],
  ["http://2130706433/", address("127.0.0.1", "loopback")],
  ["http://0x7f000001/", address("127.0.0.1", "loopback")],
  ["http://0x7f.0.0.1/", address("127.0.0.1", "loopback")],
  ["http://0177.0.0.1/", address("127.0.0.1", "loopback")],
  ["http://017700000001/", address("127.0.0.1", "loopback")],
  ["http://１２７.0.0.1/", address("127.0.0.1", "loopback")],
  ["http://127。0。0。1/", address("127.0.0.1", "loopback")],
  ["http://%31%32%37.0.0.1/", address("127.0.0.1", "loopback")],
  ["http://0/", address("0.0.0.0", "unspecified")],
  ["http://169.254.169.254/latest/meta-data/", address("169.254.169.254", "a cloud metadata service")],
  ["http://0xa9fea9fe/", address("169.254.169.254", "a cloud metadata service")],
  ["http://10.0.0.1:8080/", address("10.0.0.1", "private")],
  // IPv6
  ["http://[::1]/", address("::1", "loopback")],
  ["http://[::]/", address("::", "unspecified")],
  ["http://[::ffff:127.0.0.1]/", address("::ffff:7f00:1", "loopback")],
  ["http://[::ffff:a9fe:a9fe]/", address("::ffff:a9fe:a9fe", "a cloud metadata service")],
  ["http://[fd00:ec2::254]/", address("fd00:ec2::254", "a cloud metadata service")],
  ["http://[64:ff9b::7f00:1]/", address("64:ff9b::7f00:1", "loopback")],
  ["http://[2002:7f00:1::]/", address("2002:7f00:1::", "a tunnel to an IPv4 address")],
  ["http://[fe80::1]/", address("fe80::1", "link-local")],
  // names
  ["http://localhost/", internal("localhost")],
  ["http://LOCALHOST./", internal("localhost")],
  ["http://app.localhost/", internal("app.localhost")],
  ["http://localhost.localdomain/", internal("localhost.localdomain")],
  ["http://kubernetes/", internal("kubernetes")],
  ["http://kubernetes.default.svc/", internal("kubernetes.default.svc")],
  ["http://a.b.svc.cluster.local./", internal("a.b.svc.cluster.local")],
  ["http://metadata.google.internal/", internal("metadata.google.internal")],
  ["http://printer.local/", internal("printer.local")],
  ["http://host.docker.internal/", internal("host.docker.internal")],
  ["http://nas.home.arpa/", internal("nas.home.arpa")],
  ["http://notlocalhost.example/", null],
  ["http://internal.example.com/", null],
  ["http://svc.example.com/", null],
  ["http://example.com../", "The host name example.com. is not valid"],
  ["http://-a.example.com/", "The host name -a.example.com is not valid"],
  ["http://.example.com/", "The host name .example.com is not valid"],
  ["http://a..example.com/", "The host name a..example.com is not valid"],
  ["http://exam!ple.com/", "The host name exam!ple.com is not valid"],
  [`http://${"a".repeat(64)}.example/`, `The host name ${"a".repeat(64)}.example is not valid`],
];

test("reports problems of a target without resolving its name", () => {
  for (const [url, problem] of CASES) assert.is(findTargetProblem(url, []), problem, url);
});

test("allows addresses in the operator's ranges, and names that may resolve into them", () => {
  const allow = ["10.0.0.0/8"];
  assert.is(findTargetProblem("http://10.1.2.3/", allow), null);
  assert.is(findTargetProblem("http://167837955/", allow), null, "10.1.2.3 as a number");
  assert.is(findTargetProblem("http://hook.team.svc.cluster.local/", allow), null);
  assert.is(findTargetProblem("http://mailhog:8025/", allow), null);
  assert.is(findTargetProblem("http://127.0.0.1/", allow), address("127.0.0.1", "loopback"));
  assert.is(findTargetProblem("http://10.1.2.3:22/", allow), "The port 22 is not allowed for http");
  assert.is(findTargetProblem("http://user@10.1.2.3/", allow), CREDENTIALS);
});

test("parses a target with the host to resolve", () => {
  const read = (url: string) => {
    const target = parseTarget(url, ["127.0.0.0/8"]);
    return typeof target === "string" ? target : [target.host, target.isAddress];
  };
  assert.equal(read("https://Hooks.Example.COM.:8443/x"), ["hooks.example.com", false]);
  assert.equal(read("https://bücher.example/"), ["xn--bcher-kva.example", false]);
  assert.equal(read("http://0x7f.1/"), ["127.0.0.1", true]);
  assert.equal(read("http://[2606:4700::1111]/"), ["2606:4700::1111", true]);
});

test("recognizes internal names", () => {
  for (const name of ["localhost", "x.localhost", "web", "db.svc", "a.cluster.local", "x.internal", "y.lan"])
    assert.is(isInternalName(name), true, name);
  for (const name of ["example.com", "local.example.com", "notinternal.com", "a.xlan"])
    assert.is(isInternalName(name), false, name);
});

test.run();
