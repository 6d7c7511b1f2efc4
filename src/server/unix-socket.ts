/** The file of a Unix socket: left behind by whoever was killed, in the way of whoever starts. */
import { chmodSync, lstatSync, unlinkSync } from "node:fs";
import { connect } from "node:net";

/** Owner and group may connect: a proxy of the same machine joins the group of the server. */
const MODE = 0o660;

/**
 * Makes room for a socket at `path`: the file of a server that is gone is removed.
 * @throws an error like those of the system, with `syscall` "listen": EADDRINUSE when a server answers there, ENOTSOCK
 * when the file is
 *   something else.
 */
export async function makeRoom(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket()) throw listenError("ENOTSOCK", path);
  if (await answers(path)) throw listenError("EADDRINUSE", path);
  unlinkSync(path);
}

/** Lets the group in; until then only the owner could connect (main.ts sets the umask). */
export const letGroupIn = (path: string): void => chmodSync(path, MODE);

/** Whether somebody listens; everything but a clear no is a yes, so that no living server loses its socket. */
function answers(path: string): Promise<boolean> {
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
