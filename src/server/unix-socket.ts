/** The file of a Unix socket: a process that was killed leaves it behind, and the next bind would fail on it. */
import { chmodSync, lstatSync, unlinkSync } from "node:fs";
import { connect } from "node:net";

/** Owner and group may connect: a proxy on the same machine joins the server's group. */
const SOCKET_MODE = 0o660;

/**
 * Prepares `path` for a bind: removes the socket file of a server that no longer runs.
 * @throws an error like the system's, with `syscall` "listen": EADDRINUSE when a server listens there, ENOTSOCK when
 *   the file is not a socket
 */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket()) throw listenError("ENOTSOCK", path);
  if (await isServerListening(path)) throw listenError("EADDRINUSE", path);
  unlinkSync(path);
}

/** Lets the group connect. Until then only the owner can, because main.ts sets the umask. */
export const allowGroup = (path: string): void => chmodSync(path, SOCKET_MODE);

/** Only a refused connection counts as no, so that a running server never loses its socket. */
function isServerListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", (error: Error & { code?: string }) => resolve(error.code !== "ECONNREFUSED"));
  });
}

const listenError = (code: string, path: string): Error =>
  Object.assign(new Error(`listen ${code}: ${path}`), { code, syscall: "listen", path });
