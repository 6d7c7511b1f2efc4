/**
 * Names to addresses. Asked of the name servers directly (c-ares): the system's own look-up would hold one of the four
 * threads that files are read with for as long as a dead name server takes, and could not be given up. The hosts file
 * counts first, as everywhere; search domains do not: a name stands for the same in every place.
 */
import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";

/** All addresses of a name, at least one. Rejects when there are none, and soon after the signal. */
export type Resolve = (host: string, signal: AbortSignal) => Promise<readonly string[]>;

export type ResolverOptions = {
  /** Of the form of /etc/hosts; a missing one is an empty one. */
  hostsFile?: string;
  /** Addresses with ports; those of the system unless given. */
  servers?: readonly string[];
};

/**
 * Milliseconds for one question to one server, and how often it is asked: within the time of an attempt, with some to
 * spare.
 */
const QUESTION = { timeout: 2000, tries: 2 };

export function createResolver({ hostsFile = "/etc/hosts", servers }: ResolverOptions = {}): Resolve {
  return async (host, signal) => {
    signal.throwIfAborted();
    const listed = addressesIn(await readFile(hostsFile, "utf8").catch(() => ""), host);
    if (listed.length > 0) return listed;
    // RFC 6761, 6.3: it never leaves the machine.
    if (/(?:^|\.)localhost$/.test(host)) return ["127.0.0.1", "::1"];
    // A new one each time, because it reads the system's settings when it is made.
    const resolver = new Resolver(QUESTION);
    if (servers) resolver.setServers(servers);
    const cancel = (): void => resolver.cancel();
    signal.addEventListener("abort", cancel);
    try {
      const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
      signal.throwIfAborted();
      const addresses = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
      if (addresses.length > 0) return addresses;
      const errors = answers.flatMap((answer) =>
        answer.status === "rejected" ? [answer.reason as { code?: unknown }] : [],
      );
      // "There is no such name" is the answer only when nobody failed to answer.
      throw errors.find(({ code }) => code !== "ENOTFOUND" && code !== "ENODATA") ?? errors[0] ?? notFound(host);
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  };
}

/** The addresses that a hosts file gives to a name, in its order. */
export function addressesIn(text: string, host: string): string[] {
  return text.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*$/, "").trim().split(/\s+/);
    return isIP(address) !== 0 && names.some((name) => name.toLowerCase() === host) ? [address] : [];
  });
}

const notFound = (host: string): Error =>
  Object.assign(new Error(`no address for ${host}`), { code: "ENOTFOUND", syscall: "query" });
