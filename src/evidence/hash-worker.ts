// The worker thread that hashes evidence while it is received. It sees no files: blocks arrive and are returned once
// hashed.
import { createHash } from "node:crypto";
import type { Hash } from "node:crypto";
import { parentPort } from "node:worker_threads";

/** `id` names the content. `block` is transferred to the thread and back with the response. */
export type HashRequest =
  | { id: number; block: Uint8Array<ArrayBuffer>; length: number }
  | { id: number; end: true }
  | { id: number; abandon: true };
export type HashResponse = { id: number; block: Uint8Array<ArrayBuffer> } | { id: number; digest: string };

const port = parentPort;
if (port === null) throw new Error("this file runs as a worker thread only");

const hashes = new Map<number, Hash>();

port.on("message", (request: HashRequest) => {
  const { id } = request;
  if ("abandon" in request) return void hashes.delete(id);
  let hash = hashes.get(id);
  if (hash === undefined) hashes.set(id, (hash = createHash("sha256")));
  if ("end" in request) {
    hashes.delete(id);
    return port.postMessage({ id, digest: hash.digest("hex") } satisfies HashResponse);
  }
  hash.update(request.block.subarray(0, request.length));
  port.postMessage({ id, block: request.block } satisfies HashResponse, [request.block.buffer]);
});
