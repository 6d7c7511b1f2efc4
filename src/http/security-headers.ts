/**
 * Headers of every answer, refusals included: they deny a browser nearly everything. The API reference adds a policy of
 * its own (web/api-reference.ts).
 */
import type { ServerResponse } from "node:http";

export const SECURITY_HEADERS: readonly (readonly [name: string, value: string])[] = [
  ["X-Content-Type-Options", "nosniff"],
  ["X-Frame-Options", "DENY"],
  ["Referrer-Policy", "no-referrer"],
  ["Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"],
  ["Cross-Origin-Resource-Policy", "same-origin"],
  // The default; cacheable answers replace it.
  ["Cache-Control", "no-store"],
];

/**
 * Makes browsers use only TLS with this host for a year. Sent over TLS only, where it counts (RFC 6797, 7.2), and
 * without includeSubDomains, because sibling hosts are not ours to decide for.
 */
export const TRANSPORT_SECURITY = ["Strict-Transport-Security", "max-age=31536000"] as const;

/** @param options.isSecure whether the request came over TLS, to this server or to a trusted proxy that says so */
export function setSecurityHeaders(response: ServerResponse, { isSecure }: { isSecure: boolean }): void {
  for (const [name, value] of SECURITY_HEADERS) response.setHeader(name, value);
  if (isSecure) response.setHeader(...TRANSPORT_SECURITY);
}
