/** Who is at the other end of a connection. */
import type { IncomingMessage } from "node:http";

/** `address`: of the client, null where there is none, as on a socket of the file system. `secure`: whether the client speaks TLS. */
export type Peer = { address: string | null; secure: boolean };

/** The peer of the connection itself. */
export const peerOf = ({ socket }: IncomingMessage): Peer => ({ address: socket.remoteAddress ?? null, secure: "encrypted" in socket && socket.encrypted === true });
