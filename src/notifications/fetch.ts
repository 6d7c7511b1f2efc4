/**
 * Requests to hosts that the operator configured and that may therefore be internal: the OpenID provider. Never for
 * URLs from users; those go through webhook-client.ts. Proxies from the environment are not used.
 */
import type { LookupFunction } from "node:net";

export type Fetch = (url: string, options: object) => Promise<Response>;

/** Descriptions, keys and tokens have a few thousand bytes. */
const MAX_RESPONSE_BYTES = 4 << 20;

/**
 * @param ca certificates of a CA bundle in PEM; null for those of Node
 * @param lookup resolves names, in place of the system's resolver
 */
export function createFetch(ca: readonly string[] | null, lookup?: LookupFunction): Fetch {
  let client: Promise<Fetch> | null = null;
  // Loaded on first use, so that a server without a provider does not carry it.
  const load = async (): Promise<Fetch> => {
    const { Agent, fetch } = await import("undici");
    const dispatcher = new Agent({
      connect: {
        ...(ca ? { ca: [...ca] } : {}),
        ...(lookup ? { lookup } : {}),
        rejectUnauthorized: true,
        timeout: 5_000,
      },
      maxResponseSize: MAX_RESPONSE_BYTES,
      keepAliveTimeout: 1_000,
    });
    return async (url, options) => (await fetch(url, { ...options, dispatcher })) as unknown as Response;
  };
  return async (url, options) => (await (client ??= load()))(url, options);
}
