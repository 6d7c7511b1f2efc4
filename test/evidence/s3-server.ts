/**
 * A real S3 server (s3rver) on loopback behind a proxy that injects faults, and stores that use it.
 *
 * The server is old. Where it differs from real storage it is fixed here: it answers an upload before the last bytes
 * are in the file, and it encrypts page tokens with a cipher that OpenSSL dropped. It keeps no checksums.
 */
import crypto from "node:crypto";
import { once } from "node:events";
import { statSync } from "node:fs";
import { createServer, request } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { openS3Store } from "../../src/evidence/s3-store.ts";
import type { S3Settings } from "../../src/evidence/s3-client.ts";
import { chunks, givenRoot } from "./given.ts";

export const BUCKET = "evidence";
/** The credentials of s3rver. */
export const KEYS = { accessKey: "S3RVER", secretKey: "S3RVER" };

type Stored = { bucket: string; key: string };
type FileStore = {
  putObject(object: Stored): Promise<{ size: number }>;
  getResourcePath(bucket: string, key: string, kind: string): string;
};
type Server = {
  run(): Promise<AddressInfo>;
  close(): Promise<void>;
  store: FileStore;
  httpServer: { closeAllConnections(): void };
};
const S3rver = createRequire(import.meta.url)("s3rver") as new (options: object) => Server;

// Triple DES with the same key three times is DES.
const { createCipheriv } = crypto;
crypto.createCipheriv = ((name: string, key: Buffer, iv: Buffer) =>
  name === "des"
    ? createCipheriv("des-ede3-cbc", Buffer.concat([key, key, key]), iv)
    : createCipheriv(name, key, iv)) as typeof createCipheriv;

/** What the proxy does with a request: it may answer, destroy the socket, or call `pass` to forward the request. */
export type Fault = (request: IncomingMessage, response: ServerResponse, pass: () => void) => void;

export type Storage = Awaited<ReturnType<typeof startStorage>>;

/**
 * Starts the server on an empty directory, and the proxy.
 * @param others names of further buckets
 */
export async function startStorage(others: readonly string[] = []) {
  const directory = givenRoot();
  const server = new S3rver({
    address: "127.0.0.1",
    port: 0,
    silent: true,
    directory,
    configureBuckets: [BUCKET, ...others].map((name) => ({ name })),
    vhostBuckets: false,
  });
  const { store } = server;
  const put = store.putObject.bind(store);
  store.putObject = async (object) => {
    const stored = await put(object);
    while (statSync(store.getResourcePath(object.bucket, object.key, "object")).size < stored.size)
      await new Promise(setImmediate);
    return stored;
  };
  const { port } = await server.run();

  const seen: string[] = [];
  const faults: Fault[] = [];
  const proxy = createServer((incoming, outgoing) => {
    const [path = ""] = (incoming.url ?? "").split("?");
    seen.push(`${incoming.method} ${path.replace(`/${BUCKET}`, "")}`);
    const pass = (): void => {
      const passed = request(
        { port, host: "127.0.0.1", method: incoming.method, path: incoming.url, headers: incoming.headers },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(outgoing);
        },
      );
      passed.on("error", () => outgoing.destroy());
      outgoing.on("close", () => passed.destroy());
      incoming.pipe(passed);
    };
    const fault = faults[0];
    if (fault) fault(incoming, outgoing, pass);
    else pass();
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;

  return {
    endpoint,
    /** The server without the proxy. */
    direct: `http://127.0.0.1:${port}`,
    /** Requests since the last call, as "PUT /prefix/ab/cdef". */
    requests: (): string[] => seen.splice(0),
    /** Every request goes through `fault` until the returned function is called. */
    inject(fault: Fault): () => void {
      faults.unshift(fault);
      return () => void faults.splice(faults.indexOf(fault), 1);
    },
    /** The file in which the server stores an object. */
    fileOf: (key: string): string => store.getResourcePath(BUCKET, key, "object"),
    directory: join(directory, BUCKET),
    async stop() {
      proxy.closeAllConnections();
      proxy.close();
      server.httpServer.closeAllConnections();
      await server.close();
    },
  };
}

let lastId = 0;
let lastPrefix = 0;

/** Of requests that a busy machine may take long for. */
const AMPLE_MS = { connect: 600_000, idle: 600_000, response: 600_000 };

/** A store on the storage, below a prefix of its own by default. It waits for responses as long as they take. */
export function givenS3Store({
  storage,
  prefix = `p${++lastPrefix}`,
  root = givenRoot(),
  pageSize,
  ...changes
}: {
  storage: Pick<Storage, "endpoint">;
  prefix?: string;
  root?: string;
  pageSize?: number;
} & Partial<S3Settings>) {
  const staging = join(root, "staging");
  const settings = {
    bucket: BUCKET,
    endpoint: storage.endpoint,
    region: "us-east-1",
    ...KEYS,
    sessionToken: null,
    caCertificates: null,
    timeoutsMs: AMPLE_MS,
    ...changes,
  };
  const repaired: string[] = [];
  const store = openS3Store({
    onRepair: (digest) => void repaired.push(digest),
    settings,
    prefix,
    staging,
    ids: () => `upload-${++lastId}`,
    ...(pageSize === undefined ? {} : { pageSize }),
  });
  return {
    /** The digests of damaged objects that were replaced. */
    repaired,
    store,
    prefix,
    staging,
    keyOf: (digest: string) => `${prefix}/${digest.slice(0, 2)}/${digest.slice(2)}`,
    async files(): Promise<string[]> {
      const digests: string[] = [];
      for await (const { digest } of store.list()) digests.push(digest);
      return digests;
    },
    async put(content: Buffer) {
      const staged = await store.stage(chunks(content, 65_536), { limit: content.length });
      await store.publish([staged]);
      return staged.digest;
    },
  };
}

/** A port at which no process listens. */
export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** An S3 error response. */
export function respondWithError(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { "content-type": "application/xml" });
  response.end(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`);
}
