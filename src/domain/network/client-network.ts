/** Client addresses for rate limits: all addresses that one client can control count as one. */
import ipaddr from "ipaddr.js";

/**
 * The network that an address is counted under. An IPv4 address, also in its IPv6 form (`::ffff:192.0.2.1`), counts as
 * itself. An IPv6 address counts as its /64, because a provider assigns at least that to a customer, who may use any
 * address of it for each request. Other texts count as themselves.
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
