// A thread that hashes evidence while it is received. It knows no files: blocks come, and go back when they are hashed.
import { createHash } from "node:crypto";
import type { Hash } from "node:crypto";
import { parentPort } from "node:worker_threads";

/** `id` names the content. `block` moves here, and back with the answer. */
export type HashRequest =
  | { id: number; block: Uint8Array<ArrayBuffer>; length: number }
  | { id: number; end: true }
  | { id: number; abandon: true };
export type HashResponse = { id: number; block: Uint8Array<ArrayBuffer> } | { id: number; digest: string };

const port = parentPort;
if (port === null) throw new Error("this file is the entry of a worker thread");

const hashes = new Map<number, Hash>();

port.on("message", (order: HashRequest) => {
  const { id } = order;
  if ("abandon" in order) return void hashes.delete(id);
  let hash = hashes.get(id);
  if (hash === undefined) hashes.set(id, (hash = createHash("sha256")));
  if ("end" in order) {
    hashes.delete(id);
    return port.postMessage({ id, digest: hash.digest("hex") } satisfies HashResponse);
  }
  hash.update(order.block.subarray(0, order.length));
  port.postMessage({ id, block: order.block } satisfies HashResponse, [order.block.buffer]);
});
