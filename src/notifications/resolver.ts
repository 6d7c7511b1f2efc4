/**
 * Resolves host names by querying the name servers directly (c-ares). The system's resolver would occupy one of the
 * four threads that also read files for as long as a dead name server takes, and could not be aborted. The hosts file
 * comes first, as usual. Search domains are not used: a name means the same everywhere.
 */
import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";

/** Resolves a name to all of its addresses, at least one. Rejects when there are none, and soon after the signal. */
export type Resolve = (host: string, signal: AbortSignal) => Promise<readonly string[]>;

type ResolverOptions = {
  /** A file like /etc/hosts; a missing one counts as empty. */
  hostsFile?: string;
  /** Addresses with ports; those of the system unless given. */
  servers?: readonly string[];
};

/**
 * Milliseconds for one query to one server, and how often it is sent: well within the time limit of an attempt to
 * deliver.
 */
const QUERY = { timeout: 2000, tries: 2 };

export function createResolver({ hostsFile = "/etc/hosts", servers }: ResolverOptions = {}): Resolve {
  return async (host, signal) => {
    signal.throwIfAborted();
    const listed = addressesIn(await readFile(hostsFile, "utf8").catch(() => ""), host);
    if (listed.length > 0) return listed;
    // RFC 6761, 6.3: localhost is never looked up elsewhere.
    if (/(?:^|\.)localhost$/.test(host)) return ["127.0.0.1", "::1"];
    // A new one each time, because it reads the system's settings when it is created.
    const resolver = new Resolver(QUERY);
    if (servers) resolver.setServers(servers);
    const cancel = (): void => resolver.cancel();
    signal.addEventListener("abort", cancel);
    try {
      const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
      signal.throwIfAborted();
      return addressesOf(answers, host);
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  };
}

/** The addresses of all answers. @throws the error of a query when there are none */
function addressesOf(answers: readonly PromiseSettledResult<string[]>[], host: string): string[] {
  const addresses = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  if (addresses.length > 0) return addresses;
  const errors = answers.flatMap((answer) =>
    answer.status === "rejected" ? [answer.reason as { code?: unknown }] : [],
  );
  // That the name does not exist is certain only when no server failed to answer.
  throw errors.find(({ code }) => code !== "ENOTFOUND" && code !== "ENODATA") ?? errors[0] ?? notFoundError(host);
}

/** The addresses that a hosts file assigns to a name, in its order. */
export function addressesIn(text: string, host: string): string[] {
  return text.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*$/, "").trim().split(/\s+/);
    return isIP(address) !== 0 && names.some((name) => name.toLowerCase() === host) ? [address] : [];
  });
}

const notFoundError = (host: string): Error =>
  Object.assign(new Error(`no address for ${host}`), { code: "ENOTFOUND", syscall: "query" });
