// Uploads and downloads a file of a gigabyte: speed, and memory of the server. Chunks are generated and hashed on the
// fly, so this process does not hold the file either.
import { createHash, randomBytes } from "node:crypto";
import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { once } from "node:events";
import { memory } from "./processes.ts";
import type { Server } from "./processes.ts";
import { KEY, ORG, flowOf, trailName } from "./world.ts";

const CHUNK = 1 << 20;
const BOUNDARY = "----------------evidence81c4";

/** MB per second, and the peak growth of the server's resident memory in MB. */
export type Transfer = { speed: number; growth: number };

/**
 * Uploads a file of `megabytes` as evidence and downloads it again; `digest` is its SHA-256. @throws Error when the
 * downloaded content differs
 */
export async function transferEvidence(
  server: Server,
  megabytes: number,
): Promise<{ up: Transfer; down: Transfer; digest: string }> {
  const sent = createHash("sha256");
  const up = await measured(server, megabytes, () => upload(server.url, megabytes, (chunk) => sent.update(chunk)));
  const digest = sent.digest("hex");
  const list = await fetch(`${server.url}/api/v2/attestations/${ORG}?name=gigabyte`, {
    headers: { Authorization: `Bearer ${KEY}` },
  });
  const { data } = (await list.json()) as { data: { attestation_id: string; evidence_archive_fingerprint: string }[] };
  if (data[0]?.evidence_archive_fingerprint !== digest)
    throw new Error(`the server has ${JSON.stringify(data)} of a file with ${digest}`);
  const id = data[0].attestation_id;
  const down = await measured(server, megabytes, () => download(server.url, id, digest));
  return { up, down, digest };
}

/** The speed of a transfer, and the memory that the server needs for it. */
export async function measured(server: Server, megabytes: number, transfer: () => Promise<void>): Promise<Transfer> {
  const before = memory(server.pid).now;
  let most = before;
  const watch = setInterval(() => (most = Math.max(most, memory(server.pid).now)), 20);
  const startedAt = performance.now();
  try {
    await transfer();
  } finally {
    clearInterval(watch);
  }
  return { speed: megabytes / ((performance.now() - startedAt) / 1000), growth: most - before };
}

async function upload(url: string, megabytes: number, see: (chunk: Buffer) => void): Promise<void> {
  const json = JSON.stringify({ attestation_name: "gigabyte", is_compliant: true });
  const head = Buffer.from(
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="data_json"\r\n\r\n${json}\r\n` +
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="attachment_file"; filename="large.bin"\r\n` +
      "Content-Type: application/octet-stream\r\n\r\n",
  );
  const tail = Buffer.from(`\r\n--${BOUNDARY}--\r\n`);
  const post = request(`${url}/api/v2/attestations/${ORG}/${flowOf(0)}/trail/${trailName(0)}/generic`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${KEY}`,
      "Content-Type": `multipart/form-data; boundary=${BOUNDARY}`,
      "Content-Length": head.length + megabytes * CHUNK + tail.length,
    },
  });
  const answered = once(post, "response") as Promise<[IncomingMessage]>;
  post.write(head);
  const random = randomBytes(CHUNK);
  for (let n = 0; n < megabytes; n += 1) {
    const chunk = Buffer.from(random);
    chunk.writeUInt32LE(n);
    see(chunk);
    if (!post.write(chunk)) await once(post, "drain");
  }
  post.end(tail);
  const [response] = await answered;
  let text = "";
  for await (const chunk of response) text += String(chunk);
  if (response.statusCode !== 201) throw new Error(`the upload was answered ${response.statusCode}: ${text}`);
}

async function download(url: string, id: string, digest: string): Promise<void> {
  const path = `/api/v2/attestations/${ORG}/${flowOf(0)}/trail/${trailName(0)}/attestation/${id}/evidence`;
  const answer = await new Promise<IncomingMessage>((resolve, reject) =>
    request(url + path, { headers: { Authorization: `Bearer ${KEY}` } }, resolve)
      .on("error", reject)
      .end(),
  );
  const hash = createHash("sha256");
  for await (const chunk of answer) hash.update(chunk as Buffer);
  if (hash.digest("hex") !== digest) throw new Error("the download differs from the upload");
}
