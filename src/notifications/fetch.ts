/**
 * Requests to places that the operator named in the configuration, which so may be internal: the provider of logins.
 * Never for a URL of a user; those go through http.ts. Proxies of the environment are not used.
 */
import type { LookupFunction } from "node:net";

export type Fetch = (url: string, options: object) => Promise<Response>;

/**
 * @param ca certificates of authorities in PEM; those of Node unless given @param lookup how names are resolved, unless
 * as the system does it
 */
export function createFetch(ca: readonly string[] | null, lookup?: LookupFunction): Fetch {
  let client: Promise<Fetch> | null = null;
  // Loaded only now, so that a server that asks nobody does not carry it.
  const load = async (): Promise<Fetch> => {
    const { Agent, fetch } = await import("undici");
    const dispatcher = new Agent({
      connect: {
        ...(ca ? { ca: [...ca] } : {}),
        ...(lookup ? { lookup } : {}),
        rejectUnauthorized: true,
        timeout: 5_000,
      },
      maxResponseSize: MOST_BYTES,
      keepAliveTimeout: 1_000,
    });
    return async (url, options) => (await fetch(url, { ...options, dispatcher })) as unknown as Response;
  };
  return async (url, options) => (await (client ??= load()))(url, options);
}

/** Bytes of an answer: descriptions, keys and tokens have a few thousand. */
const MOST_BYTES = 4 << 20;
