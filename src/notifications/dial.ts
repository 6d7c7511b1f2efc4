/** Connections to addresses that are known already: nothing here asks a name server. */
import { connect, isIP } from "node:net";
import type { Socket } from "node:net";
import { connect as connectSecurely } from "node:tls";

export type Call = {
  /** Of the one that is called: a name, or its only address. TLS and certificates go by it. */
  host: string;
  port: number;
  /** Tried one after the other until one takes the connection; at least one. */
  addresses: readonly string[];
  /** null without TLS; `ca` are certificates of authorities in PEM, null for those of Node. */
  tls: { ca: readonly string[] | null } | null;
};

/** Milliseconds for one of several addresses, before the next is tried. */
const ADDRESS_MS = 2000;

/**
 * Connects, with TLS also agrees on it. The signal ends the connection at any time, also later; whoever has it destroys
 * it. Rejects with the error of the system or of TLS.
 */
export function dial({ host, port, addresses, tls }: Call, signal: AbortSignal): Promise<Socket> {
  const options = {
    host,
    port,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ADDRESS_MS,
    // Not asked for a host that is an address: then the connection is made to that.
    lookup: (
      _host: string,
      { all }: { all?: boolean | undefined },
      callback: (error: Error | null, address: string | { address: string; family: number }[], family?: number) => void,
    ): void => {
      const found = addresses.map((address) => ({ address, family: isIP(address) }));
      const [first] = found;
      if (all || !first) callback(null, found);
      else callback(null, first.address, first.family);
    },
  };
  return new Promise((resolve, reject) => {
    const socket = tls
      ? connectSecurely({
          ...options,
          ...(isIP(host) === 0 ? { servername: host } : {}),
          ...(tls.ca ? { ca: [...tls.ca] } : {}),
          // Whatever the environment says: NODE_TLS_REJECT_UNAUTHORIZED is not how to trust somebody.
          rejectUnauthorized: true,
        })
      : connect(options);
    const end = (): void => void socket.destroy(new Error("the attempt was given up"));
    signal.addEventListener("abort", end);
    socket.once("close", () => signal.removeEventListener("abort", end));
    // Also when nobody else listens yet, or not any more.
    socket.on("error", reject);
    socket.once(tls ? "secureConnect" : "connect", () => resolve(socket));
    if (signal.aborted) end();
  });
}
