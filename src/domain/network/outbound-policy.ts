/**
 * The addresses to which the server may connect on behalf of an API user. Users must not reach through the server what
 * only the server can reach: its machine, its network, its cloud's metadata service, its cluster.
 *
 * For IPv4 there is a deny list, from the registry of special-purpose addresses (RFC 6890 and its successors) and the
 * addresses that clouds use besides. For IPv6 it is the reverse: only 2000::/3 is assigned globally, with exceptions
 * that are refused. An IPv6 address that embeds an IPv4 address is checked by where its packets go, or refused.
 */
import ipaddr from "ipaddr.js";
import { parseAddress, isInRange } from "./ip-ranges.ts";
import type { Address, Range } from "./ip-ranges.ts";

/** Range and description, which follows "is". The first match wins, so a range comes before those that contain it. */
const REFUSED_IPV4: readonly (readonly [string, string])[] = [
  ["169.254.169.254/32", "a cloud metadata service"],
  ["169.254.170.2/32", "a cloud metadata service"], // credentials of containers on AWS
  ["169.254.170.23/32", "a cloud metadata service"], // credentials of pods on AWS
  ["100.100.100.200/32", "a cloud metadata service"], // Alibaba
  ["168.63.129.16/32", "a cloud metadata service"], // Azure: a public address that reaches the virtual machine's host
  ["192.0.0.192/32", "a cloud metadata service"], // Oracle
  ["0.0.0.0/8", "unspecified"],
  ["10.0.0.0/8", "private"],
  ["100.64.0.0/10", "carrier-grade NAT space, or internal to a cluster"],
  ["127.0.0.0/8", "loopback"],
  ["169.254.0.0/16", "link-local"],
  ["172.16.0.0/12", "private"],
  ["192.0.0.0/24", "reserved for protocols"],
  ["192.0.2.0/24", "reserved for documentation"],
  ["192.31.196.0/24", "reserved for protocols"], // AS112
  ["192.52.193.0/24", "reserved for protocols"], // multicast tunnels (AMT)
  ["192.88.99.0/24", "reserved for protocols"], // 6to4 relays
  ["192.168.0.0/16", "private"],
  ["192.175.48.0/24", "reserved for protocols"], // AS112
  ["198.18.0.0/15", "reserved for benchmarking"],
  ["198.51.100.0/24", "reserved for documentation"],
  ["203.0.113.0/24", "reserved for documentation"],
  ["224.0.0.0/4", "multicast"],
  ["255.255.255.255/32", "broadcast"],
  ["240.0.0.0/4", "reserved"],
];

const REFUSED_IPV6: readonly (readonly [string, string])[] = [
  ["::/128", "unspecified"],
  ["::1/128", "loopback"],
  ["::/96", "an IPv4 address in a deprecated form"],
  ["::ffff:0:0:0/96", "an IPv4 address in a deprecated form"], // translated, RFC 2765
  ["64:ff9b:1::/48", "a local NAT64 translation"], // only that network knows the position of the IPv4 address
  ["100::/64", "reserved for discarding"],
  ["100:0:0:1::/64", "reserved"],
  ["5f00::/16", "reserved"], // segment routing
  ["fd00:ec2::/32", "a cloud metadata service"], // AWS
  ["fd20:ce::254/128", "a cloud metadata service"], // Google
  ["fc00::/7", "private"],
  ["fe80::/10", "link-local"],
  ["fec0::/10", "private"],
  ["ff00::/8", "multicast"],
  ["2001::/32", "a tunnel to an IPv4 address"], // Teredo
  ["2001:2::/48", "reserved for benchmarking"],
  ["2001::/23", "reserved for protocols"], // AMT, AS112, ORCHID and others
  ["2001:db8::/32", "reserved for documentation"],
  ["2002::/16", "a tunnel to an IPv4 address"], // 6to4
  ["2620:4f:8000::/48", "reserved for protocols"], // AS112
  ["3ffe::/16", "reserved"],
  ["3fff::/20", "reserved for documentation"],
];

const GLOBAL_IPV6 = "2000::/3";
/** The prefix by which IPv6-only networks reach IPv4: the last four bytes are the IPv4 address. */
const NAT64 = "64:ff9b::/96";

const parseRows = (rows: readonly (readonly [string, string])[]) =>
  rows.map(([range, reason]) => ({ range: ipaddr.parseCIDR(range), reason }));
const refusedIpv4 = parseRows(REFUSED_IPV4);
const refusedIpv6 = parseRows(REFUSED_IPV6);
const globalIpv6 = ipaddr.parseCIDR(GLOBAL_IPV6);
const nat64 = ipaddr.parseCIDR(NAT64);

/**
 * Why the server may not connect to an address, in words that follow "ADDRESS is"; null if it may.
 * @param address IPv4 in four decimal parts, or IPv6 without brackets; any other text is refused
 * @param allow the operator's ranges (see normalizeRange), which override every refusal
 */
export function findAddressProblem(address: string, allow: readonly string[]): string | null {
  const parsed = parseAddress(address);
  if (parsed === null) return "not an IP address";
  const allowed = allow.map((range) => ipaddr.parseCIDR(range));
  return findRefusal(parsed, allowed);
}

function findRefusal(address: Address, allow: readonly Range[]): string | null {
  if (allow.some((range) => isInRange(address, range))) return null;
  if (address instanceof ipaddr.IPv4) return refusedIpv4.find(({ range }) => isInRange(address, range))?.reason ?? null;
  if (isInRange(address, nat64)) return findRefusal(new ipaddr.IPv4(address.toByteArray().slice(12)), allow);
  return (
    refusedIpv6.find(({ range }) => isInRange(address, range))?.reason ??
    (isInRange(address, globalIpv6) ? null : "reserved")
  );
}
