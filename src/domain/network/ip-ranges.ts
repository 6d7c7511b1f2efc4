/** IP addresses and ranges of them, as texts of operators, headers and resolvers. */
import ipaddr from "ipaddr.js";

export type Address = ipaddr.IPv4 | ipaddr.IPv6;
export type Range = [Address, number];

/**
 * An IPv4 address in the form of IPv6 is that IPv4 address: the system calls nothing else. null for a text that is
 * none.
 */
export function parseAddress(text: string): Address | null {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  // A zone (fe80::1%eth0) names an interface of this machine.
  if (!ipaddr.IPv6.isValid(text) || text.includes("%")) return null;
  const address = ipaddr.IPv6.parse(withoutDottedEnd(text));
  return address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}

/**
 * The library takes ::1.2.3.4 for ::ffff:1.2.3.4, which is another address; in hexadecimal digits it takes it for what
 * it is.
 */
const withoutDottedEnd = (text: string): string =>
  text.replace(/:(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...parts: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number);
    return `:${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  });

export const isInRange = (address: Address, [network, bits]: Range): boolean =>
  address.kind() === network.kind() && address.match(network, bits);

/**
 * A range as an operator writes it (10.20.0.0/16, fd00:1::/32, a single address) in its normal form; null when it is
 * none, and for one with bits behind its prefix: 10.20.0.5/8 is more often a mistake than the wish to open 10.0.0.0/8.
 */
export function normalizeRange(text: string): string | null {
  const match = /^([0-9a-fA-F.:]+)(?:\/(\d{1,3}))?$/.exec(text);
  const address = parseAddress(match?.[1] ?? "");
  if (!match || address === null) return null;
  // A range of mapped addresses would have to be read as one of IPv4; whoever means that writes that.
  if (address instanceof ipaddr.IPv4 && text.includes(":")) return null;
  const most = address instanceof ipaddr.IPv4 ? 32 : 128;
  const bits = match[2] === undefined ? most : Number(match[2]);
  if (bits > most) return null;
  const kind = address instanceof ipaddr.IPv4 ? ipaddr.IPv4 : ipaddr.IPv6;
  const network = kind.networkAddressFromCIDR(`${address.toString()}/${bits}`).toString();
  return network === address.toString() ? `${network}/${bits}` : null;
}

/** A question: whether an address lies in one of the ranges (`normalRange`). A text that is no address lies in none. */
export function createRangeMatcher(ranges: readonly string[]): (address: string) => boolean {
  const parsed = ranges.map((range): Range => ipaddr.parseCIDR(range));
  return (text) => {
    const address = parseAddress(text);
    return address !== null && parsed.some((range) => isInRange(address, range));
  };
}

/** An address in the one form in which it is compared, counted and logged; null for a text that is none. */
export const normalizeAddress = (text: string): string | null => parseAddress(text)?.toString() ?? null;
