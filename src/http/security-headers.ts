/**
 * Headers that every answer carries, refusals included: what a browser may do with it, which is next to nothing. The
 * API reference has a policy of its own on top (ui/documentation.ts).
 */
import type { ServerResponse } from "node:http";

export const SECURITY_HEADERS: readonly (readonly [name: string, value: string])[] = [
  ["X-Content-Type-Options", "nosniff"],
  ["X-Frame-Options", "DENY"],
  ["Referrer-Policy", "no-referrer"],
  ["Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"],
  ["Cross-Origin-Resource-Policy", "same-origin"],
  // Answers that may be kept say so themselves.
  ["Cache-Control", "no-store"],
];

/**
 * For a year browsers then speak TLS with this host, and nothing else. Only said over TLS, where it counts (RFC 6797,
 * 7.2); without includeSubDomains, because the neighbours of this host are somebody else's.
 */
export const TRANSPORT_SECURITY = ["Strict-Transport-Security", "max-age=31536000"] as const;

/** @param secure whether the request came over TLS, or a proxy that is trusted says so. */
export function setSecurityHeaders(response: ServerResponse, isSecure: boolean): void {
  for (const [name, value] of SECURITY_HEADERS) response.setHeader(name, value);
  if (isSecure) response.setHeader(...TRANSPORT_SECURITY);
}
