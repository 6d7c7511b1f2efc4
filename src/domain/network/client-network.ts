/** Addresses as they are counted: what one client can hold is one name. */
import ipaddr from "ipaddr.js";

/**
 * What an address counts as: an IPv4 address as itself, also one that is written as IPv6 (`::ffff:192.0.2.1`), and an
 * IPv6 address as its /64, because that is the least that a provider hands to a customer, who may take any address of
 * it for each request. A text that is no address counts as itself.
 */
export function networkOf(address: string): string {
  if (!address.includes(":") || !ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6
    ? `${parsed.parts
        .slice(0, 4)
        .map((part) => part.toString(16))
        .join(":")}::/64`
    : parsed.toString();
}
