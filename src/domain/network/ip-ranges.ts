/** IP addresses and address ranges in option values, headers and resolver results. */
import ipaddr from "ipaddr.js";

export type Address = ipaddr.IPv4 | ipaddr.IPv6;
export type Range = [Address, number];

/**
 * Parses an address; null if the text is not one. An IPv4-mapped IPv6 address becomes that IPv4 address, because the
 * operating system connects to it.
 */
export function parseAddress(text: string): Address | null {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  // A zone (fe80::1%eth0) names an interface of this machine.
  if (!ipaddr.IPv6.isValid(text) || text.includes("%")) return null;
  const address = ipaddr.IPv6.parse(convertDottedSuffix(text));
  return address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}

/**
 * Rewrites a dotted suffix in hexadecimal, because the library parses ::1.2.3.4 as ::ffff:1.2.3.4, which is another
 * address.
 */
const convertDottedSuffix = (text: string): string =>
  text.replace(/:(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...parts: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number);
    return `:${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  });

export const isInRange = (address: Address, [network, bits]: Range): boolean =>
  address.kind() === network.kind() && address.match(network, bits);

/**
 * Normalizes a range that an operator wrote (10.20.0.0/16, fd00:1::/32, a single address). null if it is invalid or has
 * bits set after its prefix: 10.20.0.5/8 is more often a mistake than an attempt to allow 10.0.0.0/8.
 */
export function normalizeRange(text: string): string | null {
  const match = /^([0-9a-fA-F.:]+)(?:\/(\d{1,3}))?$/.exec(text);
  const address = parseAddress(match?.[1] ?? "");
  if (!match || address === null) return null;
  // A range of IPv4-mapped addresses must be written as an IPv4 range.
  if (address instanceof ipaddr.IPv4 && text.includes(":")) return null;
  const maxBits = address instanceof ipaddr.IPv4 ? 32 : 128;
  const bits = match[2] === undefined ? maxBits : Number(match[2]);
  if (bits > maxBits) return null;
  const kind = address instanceof ipaddr.IPv4 ? ipaddr.IPv4 : ipaddr.IPv6;
  const network = kind.networkAddressFromCIDR(`${address.toString()}/${bits}`).toString();
  return network === address.toString() ? `${network}/${bits}` : null;
}

/** A predicate that is true for addresses in one of the ranges (see normalizeRange), and false for any other text. */
export function createRangeMatcher(ranges: readonly string[]): (address: string) => boolean {
  const parsed = ranges.map((range): Range => ipaddr.parseCIDR(range));
  // As for every request of a server without trusted proxies.
  if (parsed.length === 0) return () => false;
  return (text) => {
    const address = parseAddress(text);
    return address !== null && parsed.some((range) => isInRange(address, range));
  };
}

/** The canonical form of an address, for comparing, counting and logging; null if the text is not an address. */
export const normalizeAddress = (text: string): string | null => parseAddress(text)?.toString() ?? null;
