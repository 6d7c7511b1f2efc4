/** Connections to addresses that are already known: nothing here asks a name server. */
import { connect, isIP } from "node:net";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";

type DialTarget = {
  /** The host's name, or its only address. TLS verifies the certificate against it. */
  host: string;
  port: number;
  /** Tried in order until one accepts the connection; at least one. */
  addresses: readonly string[];
  /** null without TLS; `ca` is a CA bundle in PEM, null for the certificates of Node. */
  tls: { ca: readonly string[] | null } | null;
};

/** How long one of several addresses is tried before the next. */
const ADDRESS_TIMEOUT_MS = 2000;

/**
 * Connects, and completes the TLS handshake if there is one. The signal ends the connection at any time, also later;
 * the caller destroys the socket. Rejects with the error of the system or of TLS.
 */
export function dial({ host, port, addresses, tls }: DialTarget, signal: AbortSignal): Promise<Socket> {
  const options = {
    host,
    port,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
    // Node does not call this when the host is an address, and then connects to that address.
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
      ? connectTls({
          ...options,
          ...(isIP(host) === 0 ? { servername: host } : {}),
          ...(tls.ca ? { ca: [...tls.ca] } : {}),
          // NODE_TLS_REJECT_UNAUTHORIZED in the environment must not disable this.
          rejectUnauthorized: true,
        })
      : connect(options);
    const abort = (): void => void socket.destroy(new Error("the attempt was aborted"));
    signal.addEventListener("abort", abort);
    socket.once("close", () => signal.removeEventListener("abort", abort));
    // Stays attached: an error without any listener would end the process.
    socket.on("error", reject);
    socket.once(tls ? "secureConnect" : "connect", () => resolve(socket));
    if (signal.aborted) abort();
  });
}
