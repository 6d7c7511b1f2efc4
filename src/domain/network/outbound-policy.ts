/**
 * Which addresses the server may call because a user said so. A user of the API must not reach through it what only the
 * server can reach: this machine, its network, the metadata service of its cloud, the cluster it runs in.
 *
 * IPv4 has a list of what is refused, from the registry of special-purpose addresses (RFC 6890 and its successors) and
 * what clouds put elsewhere. IPv6 has it the other way round: only 2000::/3 is given out to the world, and of that some
 * is refused. An IPv6 address that carries an IPv4 address in it is judged by what a packet to it reaches, or refused.
 */
import ipaddr from "ipaddr.js";
import { parseAddress, isInRange } from "./ip-ranges.ts";
import type { Address, Range } from "./ip-ranges.ts";

/**
 * Range and what it is, in words that follow "is". The first that matches tells, so what lies within another comes
 * before it.
 */
const REFUSED_IPV4: readonly (readonly [string, string])[] = [
  ["169.254.169.254/32", "the metadata service of a cloud"],
  ["169.254.170.2/32", "the metadata service of a cloud"], // credentials of containers on AWS
  ["169.254.170.23/32", "the metadata service of a cloud"], // credentials of pods on AWS
  ["100.100.100.200/32", "the metadata service of a cloud"], // Alibaba
  ["168.63.129.16/32", "the metadata service of a cloud"], // Azure: a public address that is the host of the machine
  ["192.0.0.192/32", "the metadata service of a cloud"], // Oracle
  ["0.0.0.0/8", "unspecified"],
  ["10.0.0.0/8", "private"],
  ["100.64.0.0/10", "shared by customers of a provider, or internal to a cluster"],
  ["127.0.0.0/8", "loopback"],
  ["169.254.0.0/16", "link-local"],
  ["172.16.0.0/12", "private"],
  ["192.0.0.0/24", "reserved for protocols"],
  ["192.0.2.0/24", "reserved for documentation"],
  ["192.31.196.0/24", "reserved for protocols"], // AS112
  ["192.52.193.0/24", "reserved for protocols"], // multicast tunnels (AMT)
  ["192.88.99.0/24", "reserved for protocols"], // relays of 6to4
  ["192.168.0.0/16", "private"],
  ["192.175.48.0/24", "reserved for protocols"], // AS112
  ["198.18.0.0/15", "reserved for benchmarks"],
  ["198.51.100.0/24", "reserved for documentation"],
  ["203.0.113.0/24", "reserved for documentation"],
  ["224.0.0.0/4", "multicast"],
  ["255.255.255.255/32", "broadcast"],
  ["240.0.0.0/4", "reserved"],
];

const REFUSED_IPV6: readonly (readonly [string, string])[] = [
  ["::/128", "unspecified"],
  ["::1/128", "loopback"],
  ["::/96", "an IPv4 address in an outdated form"],
  ["::ffff:0:0:0/96", "an IPv4 address in an outdated form"], // translated, RFC 2765
  ["64:ff9b:1::/48", "a translation within a network"], // where the IPv4 address stands in it only that network knows
  ["100::/64", "reserved for discarding"],
  ["100:0:0:1::/64", "reserved"],
  ["5f00::/16", "reserved"], // segment routing
  ["fd00:ec2::/32", "the metadata service of a cloud"], // AWS
  ["fd20:ce::254/128", "the metadata service of a cloud"], // Google
  ["fc00::/7", "private"],
  ["fe80::/10", "link-local"],
  ["fec0::/10", "private"],
  ["ff00::/8", "multicast"],
  ["2001::/32", "a tunnel to an IPv4 address"], // Teredo
  ["2001:2::/48", "reserved for benchmarks"],
  ["2001::/23", "reserved for protocols"], // AMT, AS112, ORCHID and others
  ["2001:db8::/32", "reserved for documentation"],
  ["2002::/16", "a tunnel to an IPv4 address"], // 6to4
  ["2620:4f:8000::/48", "reserved for protocols"], // AS112
  ["3ffe::/16", "reserved"],
  ["3fff::/20", "reserved for documentation"],
];

const GLOBAL_IPV6 = "2000::/3";
/** The prefix under which networks without IPv4 reach all of it: the last four bytes are the address that is called. */
const NAT64 = "64:ff9b::/96";

const parsed = (rows: readonly (readonly [string, string])[]) =>
  rows.map(([range, reason]) => ({ range: ipaddr.parseCIDR(range), reason }));
const refusedIpv4 = parsed(REFUSED_IPV4);
const refusedIpv6 = parsed(REFUSED_IPV6);
const globalIpv6 = ipaddr.parseCIDR(GLOBAL_IPV6);
const nat64 = ipaddr.parseCIDR(NAT64);

/**
 * Why an address may not be called, in words that follow "ADDRESS is": null when it may be.
 * @param address IPv4 in four decimal parts, or IPv6 without brackets; every other text is refused.
 * @param allow ranges of the operator (`normalRange`), which may be called whatever is said against them.
 */
export function findAddressProblem(address: string, allow: readonly string[]): string | null {
  const read = parseAddress(address);
  return read === null
    ? "no IP address"
    : problemOf(
        read,
        allow.map((range) => ipaddr.parseCIDR(range)),
      );
}

function problemOf(address: Address, allow: readonly Range[]): string | null {
  if (allow.some((range) => isInRange(address, range))) return null;
  if (address instanceof ipaddr.IPv4) return refusedIpv4.find(({ range }) => isInRange(address, range))?.reason ?? null;
  if (isInRange(address, nat64)) return problemOf(new ipaddr.IPv4(address.toByteArray().slice(12)), allow);
  return (
    refusedIpv6.find(({ range }) => isInRange(address, range))?.reason ??
    (isInRange(address, globalIpv6) ? null : "reserved")
  );
}
