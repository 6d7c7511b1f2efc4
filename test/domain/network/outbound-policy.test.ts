/**
 * Allowed and refused addresses: both ends of each range, and each form that embeds an IPv4 address.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createRangeMatcher, normalizeRange } from "../../../src/domain/network/ip-ranges.ts";
import { findAddressProblem } from "../../../src/domain/network/outbound-policy.ts";
import { findTargetProblem } from "../../../src/domain/network/webhook-url.ts";

const test = suite("domain/network/outbound-policy");

const METADATA = "a cloud metadata service";
const TUNNEL = "a tunnel to an IPv4 address";
const OUTDATED = "an IPv4 address in a deprecated form";
const PROTOCOLS = "reserved for protocols";
const SHARED = "carrier-grade NAT space, or internal to a cluster";

const CASES: readonly (readonly [string, string | null])[] = [
  // IPv4 in order, with the neighbors of each range
  ["0.0.0.0", "unspecified"],
  ["0.255.255.255", "unspecified"],
  ["1.0.0.0", null],
  ["1.1.1.1", null],
  ["8.8.8.8", null],
  ["9.255.255.255", null],
  ["10.0.0.0", "private"],
  ["10.96.0.1", "private"],
  ["10.255.255.255", "private"],
  ["11.0.0.0", null],
  ["100.63.255.255", null],
  ["100.64.0.0", SHARED],
  ["100.127.255.255", SHARED],
  ["100.100.100.200", METADATA],
  ["100.128.0.0", null],
  ["126.255.255.255", null],
  ["127.0.0.0", "loopback"],
  ["127.0.0.1", "loopback"],
  ["127.255.255.255", "loopback"],
  ["128.0.0.0", null],
  ["168.63.129.15", null],
  ["168.63.129.16", METADATA],
  ["168.63.129.17", null],
  ["169.253.255.255", null],
  ["169.254.0.0", "link-local"],
  ["169.254.169.254", METADATA],
  ["169.254.170.2", METADATA],
  ["169.254.170.23", METADATA],
  ["169.254.255.255", "link-local"],
  ["169.255.0.0", null],
  ["172.15.255.255", null],
  ["172.16.0.0", "private"],
  ["172.17.0.1", "private"],
  ["172.31.255.255", "private"],
  ["172.32.0.0", null],
  ["191.255.255.255", null],
  ["192.0.0.0", PROTOCOLS],
  ["192.0.0.192", METADATA],
  ["192.0.0.255", PROTOCOLS],
  ["192.0.1.0", null],
  ["192.0.2.0", "reserved for documentation"],
  ["192.0.2.255", "reserved for documentation"],
  ["192.0.3.0", null],
  ["192.31.196.1", PROTOCOLS],
  ["192.52.193.1", PROTOCOLS],
  ["192.88.99.1", PROTOCOLS],
  ["192.88.100.0", null],
  ["192.175.48.1", PROTOCOLS],
  ["192.167.255.255", null],
  ["192.168.0.0", "private"],
  ["192.168.255.255", "private"],
  ["192.169.0.0", null],
  ["198.17.255.255", null],
  ["198.18.0.0", "reserved for benchmarking"],
  ["198.19.255.255", "reserved for benchmarking"],
  ["198.20.0.0", null],
  ["198.51.100.7", "reserved for documentation"],
  ["198.51.101.0", null],
  ["203.0.113.7", "reserved for documentation"],
  ["203.0.114.0", null],
  ["223.255.255.255", null],
  ["224.0.0.1", "multicast"],
  ["239.255.255.255", "multicast"],
  ["240.0.0.0", "reserved"],
  ["255.255.255.254", "reserved"],
  ["255.255.255.255", "broadcast"],
  // IPv6: the globally assigned range, and the rest
  ["2606:4700:4700::1111", null],
  ["2a00:1450:4001:81b::200e", null],
  ["3ffd:ffff::1", null],
  ["2400::1", null],
  ["::", "unspecified"],
  ["::1", "loopback"],
  ["0:0:0:0:0:0:0:1", "loopback"],
  ["::2", OUTDATED],
  ["1::1", "reserved"],
  ["200::1", "reserved"],
  ["4000::1", "reserved"],
  ["5f00::1", "reserved"],
  ["fbff::1", "reserved"],
  ["fe00::1", "reserved"],
  ["100::1", "reserved for discarding"],
  ["100:0:0:1::1", "reserved"],
  ["fc00::1", "private"],
  ["fd00::1", "private"],
  ["fdff:ffff::1", "private"],
  ["fd00:ec2::254", METADATA],
  ["fd00:ec2::23", METADATA],
  ["fd20:ce::254", METADATA],
  ["fe80::1", "link-local"],
  ["febf::1", "link-local"],
  ["fec0::1", "private"],
  ["ff02::1", "multicast"],
  ["2001:db8::1", "reserved for documentation"],
  ["3fff::1", "reserved for documentation"],
  ["3fff:1000::1", null],
  ["3ffe::1", "reserved"],
  ["2001:2::1", "reserved for benchmarking"],
  ["2001:10::1", PROTOCOLS],
  ["2001:20::1", PROTOCOLS],
  ["2001:1ff:ffff::1", PROTOCOLS],
  ["2001:200::1", null],
  ["2620:4f:8000::1", PROTOCOLS],
  // IPv4 in IPv6: mapped
  ["::ffff:127.0.0.1", "loopback"],
  ["::ffff:7f00:1", "loopback"],
  ["0:0:0:0:0:ffff:7f00:0001", "loopback"],
  ["::FFFF:169.254.169.254", METADATA],
  ["::ffff:10.0.0.1", "private"],
  ["::ffff:8.8.8.8", null],
  ["::ffff:0.0.0.0", "unspecified"],
  // compatible, translated
  ["::127.0.0.1", OUTDATED],
  ["::7f00:1", OUTDATED],
  ["::8.8.8.8", OUTDATED],
  ["::ffff:0:127.0.0.1", OUTDATED],
  ["::ffff:0:8.8.8.8", OUTDATED],
  // NAT64
  ["64:ff9b::127.0.0.1", "loopback"],
  ["64:ff9b::7f00:1", "loopback"],
  ["64:ff9b::a9fe:a9fe", METADATA],
  ["64:ff9b::10.0.0.1", "private"],
  ["64:ff9b::8.8.8.8", null],
  ["64:ff9b:0:0:0:1:808:808", "reserved"],
  ["64:ff9b:1::8.8.8.8", "a local NAT64 translation"],
  ["64:ff9b:1:7f00:0:100::", "a local NAT64 translation"],
  // 6to4 and Teredo
  ["2002:7f00:1::", TUNNEL],
  ["2002:808:808::1", TUNNEL],
  ["2002:a9fe:a9fe::1", TUNNEL],
  ["2001::1", TUNNEL],
  ["2001:0:4136:e378:8000:63bf:3fff:fdd2", TUNNEL],
  // not addresses
  ["", "not an IP address"],
  ["localhost", "not an IP address"],
  ["127.1", "not an IP address"],
  ["0x7f000001", "not an IP address"],
  ["2130706433", "not an IP address"],
  ["0177.0.0.1", "not an IP address"],
  ["127.0.0.1.", "not an IP address"],
  ["[::1]", "not an IP address"],
  ["fe80::1%eth0", "not an IP address"],
  ["::1%1", "not an IP address"],
  ["8.8.8.8/32", "not an IP address"],
  ["1.2.3.4.5", "not an IP address"],
  ["256.1.1.1", "not an IP address"],
];

test("refuses every address by its range", () => {
  for (const [address, problem] of CASES) assert.is(findAddressProblem(address, []), problem, address);
});

test("treats an IPv4 address alike in every form that reaches it, and refuses forms that might", () => {
  for (const [address, problem] of CASES.filter(
    ([text]) => /^\d+\.\d+\.\d+\.\d+$/.test(text) && findAddressProblem(text, []) !== "not an IP address",
  )) {
    const [a = 0, b = 0, c = 0, d = 0] = address.split(".").map(Number);
    const hex = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
    for (const form of [
      `::ffff:${address}`,
      `::ffff:${hex}`,
      `0:0:0:0:0:FFFF:${hex}`,
      `64:ff9b::${address}`,
      `64:ff9b::${hex}`,
    ])
      assert.is(findAddressProblem(form, []), problem, form);
    for (const form of [
      `::${address}`,
      `::${hex}`,
      `::ffff:0:${address}`,
      `64:ff9b:1::${hex}`,
      `2002:${hex}::1`,
      `2001:0:${hex}::1`,
    ])
      assert.is.not(findAddressProblem(form, []), null, form);
    const number = ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
    const spellings = [
      address,
      `${address}.`,
      String(number),
      `0x${number.toString(16)}`,
      `0${number.toString(8)}`,
      `${a}.${(b << 16) | (c << 8) | d}`,
      `0x${a.toString(16)}.0${b.toString(8)}.${(c << 8) | d}`,
    ];
    for (const spelling of spellings)
      assert.is(
        findTargetProblem(`http://${spelling}/`, []),
        problem && `The address ${address} is not allowed as a target: it is ${problem}`,
        spelling,
      );
  }
});

test("allows addresses in an operator's range, and no others", () => {
  const allow = ["10.20.0.0/16", "fd12::/16", "127.0.0.1/32"];
  for (const address of [
    "10.20.0.0",
    "10.20.255.255",
    "fd12::1",
    "127.0.0.1",
    "::ffff:10.20.3.4",
    "64:ff9b::10.20.3.4",
  ]) {
    assert.is(findAddressProblem(address, allow), null, address);
  }
  for (const address of [
    "10.21.0.0",
    "10.19.255.255",
    "fd13::1",
    "127.0.0.2",
    "::ffff:10.21.0.1",
    "64:ff9b::10.21.0.1",
    "2002:a14:1::",
    "::10.20.0.1",
  ]) {
    assert.is.not(findAddressProblem(address, allow), null, address);
  }
});

test("does not allow embedded IPv4 addresses by an IPv6 range", () => {
  assert.is(findAddressProblem("::ffff:127.0.0.1", ["::/0"]), "loopback");
  assert.is(findAddressProblem("fe80::1", ["::/0"]), null);
});

test("matches addresses against ranges alone", () => {
  assert.is(createRangeMatcher(["10.0.0.0/8"])("10.1.2.3"), true);
  assert.is(createRangeMatcher(["10.0.0.0/8"])("::ffff:10.1.2.3"), true);
  assert.is(createRangeMatcher(["10.0.0.0/8"])("8.8.8.8"), false);
  assert.is(createRangeMatcher([])("8.8.8.8"), false);
  assert.is(createRangeMatcher(["0.0.0.0/0"])("nonsense"), false);
});

test("normalizes ranges", () => {
  const cases: readonly (readonly [string, string | null])[] = [
    ["10.0.0.0/8", "10.0.0.0/8"],
    ["10.1.2.3", "10.1.2.3/32"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["192.168.1.128/25", "192.168.1.128/25"],
    ["FD00:0::/32", "fd00::/32"],
    ["fd00::1", "fd00::1/128"],
    ["::/0", "::/0"],
    ["10.0.0.5/8", null],
    ["fd00::1/32", null],
    ["10.0.0.0/33", null],
    ["fd00::/129", null],
    ["10.0.0.0/", null],
    ["10.0.0/8", null],
    ["0x0a.0.0.0/8", null],
    ["010.0.0.0/8", null],
    ["::ffff:10.0.0.0/104", null],
    ["::ffff:10.0.0.1", null],
    ["fe80::%eth0/10", null],
    ["localhost", null],
    ["", null],
    ["10.0.0.0/8 ", null],
    ["10.0.0.0/-1", null],
    ["all", null],
  ];
  for (const [text, range] of cases) assert.is(normalizeRange(text), range, text);
});

test.run();
