// A client for one bucket of an S3-compatible store, with the few requests that the evidence store needs. Only this
// file knows the client library, and it is loaded only where such a store is configured.
//
// This file decides what a response means. That an object does not exist is said by the store in its own words
// (NoSuchKey), or by a complete response to a listing; any other 404 may come from a proxy, or mean the bucket. Every
// inconclusive response becomes EvidenceUnavailableError, so an unreachable store is never taken for an empty one.
//
// The library retries requests: three attempts with an exponential, randomized backoff, and none while most requests
// fail. All requests may be retried, because an object's name is the hash of its content.
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { Readable } from "node:stream";
import {
  S3Client as AwsS3Client,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import type { GetObjectCommandOutput } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { createConcurrencyLimit } from "../workers/concurrency-limit.ts";
import type { ConcurrencyLimit } from "../workers/concurrency-limit.ts";
import { EvidenceUnavailableError } from "./errors.ts";
import { isRefusedWithoutCode, NOT_S3, StorageTimeoutError, toUnavailable } from "./s3-errors.ts";
import type { Timer } from "../domain/time.ts";
import { createSilenceGuard } from "./s3-silence.ts";
import type { SilenceGuard } from "./s3-silence.ts";

export type S3Settings = {
  bucket: string;
  /** The URL of the store; null: Amazon's, by its region. */
  endpoint: string | null;
  region: string;
  accessKey: string;
  secretKey: string;
  /** The token of temporary credentials; null for permanent ones. */
  sessionToken: string | null;
  /** All CA certificates to trust, in PEM; null: those of Node. */
  caCertificates: readonly string[] | null;
  /** See TIMEOUTS_MS. */
  timeoutsMs?: typeof TIMEOUTS_MS;
  /** That of the system unless given. */
  clock?: StorageClock;
};

/** What deadlines of requests are measured with: a monotonic clock in milliseconds, and a timer. */
type StorageClock = { milliseconds(): number; timer: Timer };

/**
 * The metadata of an object: `size` in bytes, `checksum` the SHA-256 in hex that the store computed, null where it has
 * none, `modifiedAt` in epoch seconds.
 */
export type StoredObject = { size: number; checksum: string | null; modifiedAt: number; etag: string };

/** One entry of a listing. `modifiedAt` in epoch seconds. */
type ListedObject = { key: string; size: number; modifiedAt: number };

export type S3Client = {
  /** The metadata of an object; null on any 404, which may come from a proxy (see `isMissing`). */
  head(key: string): Promise<StoredObject | null>;
  /** Whether the store itself says, in a complete response, that there is no such object. */
  isMissing(key: string): Promise<boolean>;
  /**
   * The content of an object, from byte `start` to `end` (inclusive) when given. `total` is the size of the whole
   * object. Null when the store says that there is none, "too short" when the range begins behind its end.
   */
  get(key: string, range: ByteRange | null): Promise<{ body: Readable; total: number } | "too short" | null>;
  /** Stores content that is in memory. `digest` is its SHA-256 in hex, with which the store checks what it received. */
  put(key: string, content: Buffer, digest: string): Promise<void>;
  /** Stores `size` bytes in parts, each with its own checksum. On failure the uploaded parts are removed. */
  putParts(key: string, content: AsyncIterable<Buffer>, size: number): Promise<void>;
  /** All objects below a prefix in the order of their keys, in pages. */
  list(prefix: string, pageSize: number): AsyncGenerator<ListedObject[], void, undefined>;
  remove(key: string): Promise<void>;
  /** Closes all connections, also those of running downloads. */
  close(): void;
};

type ByteRange = { start: number; end: number };

/**
 * How long to wait for a connection and for the next byte on one, in each attempt; and, over all attempts, for the
 * response to a request without a body. The library adds 3 s to `idle`, and a request has three attempts: clients wait
 * less than a minute.
 */
const TIMEOUTS_MS = { connect: 5_000, idle: 15_000, response: 25_000 };

const MAX_ATTEMPTS = 3;

/**
 * Downloads have a connection pool of their own: each holds a connection for as long as its client takes, and uploads,
 * for which a client waits, must not queue behind them.
 */
const MAX_CONNECTIONS = { requests: 64, downloads: 256 };
/**
 * Below the number of connections: a request that waits for a connection would count as a store that does not answer.
 */
const MAX_CONCURRENT_REQUESTS = 48;

/** The size of a part of a large upload, and the limit of a single-request upload. */
export const PART_BYTES = 8 * 1_048_576;
/** Parts of one upload that are sent concurrently. */
const MAX_CONCURRENT_PARTS = 2;
/** The limit of S3 for one upload; a larger file is sent in larger parts. */
const MAX_PARTS = 10_000;

/** One bucket and how it is reached. */
type Connection = {
  readonly bucket: string;
  readonly requests: AwsS3Client;
  readonly downloads: AwsS3Client;
  readonly limit: ConcurrencyLimit;
  /** One for each pool: a download that waits for a connection says nothing about other requests. */
  readonly silence: { readonly requests: SilenceGuard; readonly downloads: SilenceGuard };
  /** See TIMEOUTS_MS. */
  readonly responseMs: number;
  readonly timer: Timer;
};

const SYSTEM_CLOCK: StorageClock = {
  milliseconds: () => performance.now(),
  timer(seconds, ring) {
    const timeout = setTimeout(ring, seconds * 1_000);
    return () => clearTimeout(timeout);
  },
};

/** Opens a client. Sends no request yet. Every method rejects with EvidenceUnavailableError when a request fails. */
export function openS3Client(settings: S3Settings): S3Client {
  const { milliseconds, timer } = settings.clock ?? SYSTEM_CLOCK;
  const connection: Connection = {
    bucket: settings.bucket,
    requests: createClient(settings, MAX_CONNECTIONS.requests),
    downloads: createClient(settings, MAX_CONNECTIONS.downloads),
    limit: createConcurrencyLimit(MAX_CONCURRENT_REQUESTS),
    silence: { requests: createSilenceGuard(milliseconds), downloads: createSilenceGuard(milliseconds) },
    responseMs: (settings.timeoutsMs ?? TIMEOUTS_MS).response,
    timer,
  };
  const { requests, downloads } = connection;
  return {
    head: (key) => headObject(connection, key),
    async isMissing(key) {
      const { objects } = await listPage(connection, { Prefix: key, MaxKeys: 1 });
      // A listing of something else, from a cache for example, says nothing about this object.
      const foreign = objects.find((object) => !object.key.startsWith(key));
      if (foreign) throw new EvidenceUnavailableError(`listing ${key}: the storage lists ${foreign.key} instead`);
      return objects[0]?.key !== key;
    },
    get: (key, range) => getObject(connection, key, range),
    put: (key, content, digest) => putObject(connection, key, { content, digest }),
    putParts: (key, content, size) => putObjectInParts(connection, key, { content, size }),
    list: (prefix, pageSize) => listObjects(connection, prefix, pageSize),
    async remove(key) {
      const command = new DeleteObjectCommand(at(connection, key));
      await send(connection, `DELETE ${key}`, () =>
        beforeDeadline(connection, (abortSignal) => requests.send(command, { abortSignal })),
      );
    },
    close() {
      requests.destroy();
      downloads.destroy();
    },
  };
}

function createClient(settings: S3Settings, maxSockets: number): AwsS3Client {
  const { endpoint, region, accessKey, secretKey, sessionToken, caCertificates, timeoutsMs = TIMEOUTS_MS } = settings;
  const sockets = { keepAlive: true, maxSockets };
  return new AwsS3Client({
    region,
    ...(endpoint === null ? {} : { endpoint, forcePathStyle: true }),
    // Explicit, so that the library never reads files in a home directory or asks a cloud's metadata service for them.
    credentials: {
      accessKeyId: accessKey,
      secretAccessKey: secretKey,
      ...(sessionToken === null ? {} : { sessionToken }),
    },
    // Older stores do not support trailing checksums; every upload states its checksum in a header instead.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    followRegionRedirects: endpoint === null,
    useDualstackEndpoint: false,
    useFipsEndpoint: false,
    useArnRegion: false,
    disableS3ExpressSessionAuth: true,
    defaultsMode: "standard",
    retryMode: "standard",
    maxAttempts: MAX_ATTEMPTS,
    logger: silentLogger,
    requestHandler: {
      connectionTimeout: timeoutsMs.connect,
      socketTimeout: timeoutsMs.idle,
      httpAgent: new HttpAgent(sockets),
      httpsAgent: new HttpsAgent({ ...sockets, ...(caCertificates === null ? {} : { ca: [...caCertificates] }) }),
    },
  });
}

const at = ({ bucket }: Connection, key: string) => ({ Bucket: bucket, Key: key });

/** Sends a request within the concurrency limit. @throws EvidenceUnavailableError for any failure */
async function send<T>({ limit, silence }: Connection, what: string, request: () => Promise<T>): Promise<T> {
  try {
    return await limit.run(() => silence.requests.run(request));
  } catch (error) {
    throw toUnavailable(what, error);
  }
}

/** Sends a request without a body, and ends it if its response does not begin in time, whatever its attempts. */
async function beforeDeadline<T>(
  { responseMs, timer }: Connection,
  request: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController();
  const cancel = timer(responseMs / 1_000, () => deadline.abort());
  try {
    return await request(deadline.signal);
  } catch (error) {
    throw deadline.signal.aborted ? new StorageTimeoutError(responseMs) : error;
  } finally {
    // The body of a download may take longer.
    cancel();
  }
}

async function headObject(connection: Connection, key: string): Promise<StoredObject | null> {
  const { requests, limit, silence } = connection;
  try {
    const command = new HeadObjectCommand({ ...at(connection, key), ChecksumMode: "ENABLED" });
    const response = await limit.run(() =>
      silence.requests.run(() => beforeDeadline(connection, (abortSignal) => requests.send(command, { abortSignal }))),
    );
    const { ContentLength: size, ETag: etag } = response;
    if (size === undefined || etag === undefined) throw new Error(NOT_S3);
    return {
      size,
      checksum: checksumOf(response.ChecksumSHA256),
      modifiedAt: toSeconds(response.LastModified),
      etag,
    };
  } catch (error) {
    if (error instanceof S3ServiceException && error.$metadata.httpStatusCode === 404) return null;
    if (isRefusedWithoutCode(error)) await askForReason(connection, key);
    throw toUnavailable(`HEAD ${key}`, error);
  }
}

/**
 * Asks for the listing of a key whose HEAD was refused, because the response to a listing says why.
 * @throws EvidenceUnavailableError if the listing is refused too
 */
async function askForReason(connection: Connection, key: string): Promise<void> {
  try {
    await listPage(connection, { Prefix: key, MaxKeys: 1 });
  } catch (error) {
    if (error instanceof EvidenceUnavailableError)
      throw new EvidenceUnavailableError(`HEAD ${key} was refused; ${error.why}`);
    throw error;
  }
}

async function getObject(
  connection: Connection,
  key: string,
  range: ByteRange | null,
): Promise<{ body: Readable; total: number } | "too short" | null> {
  const rangeHeader = range ? { Range: `bytes=${range.start}-${range.end}` } : {};
  try {
    const command = new GetObjectCommand({ ...at(connection, key), ...rangeHeader });
    const response = await connection.silence.downloads.run(() =>
      beforeDeadline(connection, (abortSignal) => connection.downloads.send(command, { abortSignal })),
    );
    const total = range ? totalOf(response) : response.ContentLength;
    const { Body: body } = response;
    if (!(body instanceof Readable) || response.ETag === undefined || !Number.isSafeInteger(total)) {
      if (body instanceof Readable) body.destroy();
      throw new Error(NOT_S3);
    }
    // The reader sees an error when it reads; without a listener, an earlier error would end the process.
    body.on("error", () => undefined);
    return { body, total: total as number };
  } catch (error) {
    if (error instanceof S3ServiceException && error.name === "NoSuchKey") return null;
    if (error instanceof S3ServiceException && error.name === "InvalidRange") return "too short";
    throw toUnavailable(`GET ${key}`, error);
  }
}

/** The size of the whole object from a response with a range ("bytes 0-9/100"); NaN when it does not say. */
const totalOf = ({ ContentRange }: GetObjectCommandOutput): number =>
  Number(/\/(\d+)$/.exec(ContentRange ?? "")?.[1] ?? Number.NaN);

async function putObject(
  connection: Connection,
  key: string,
  { content, digest }: { content: Buffer; digest: string },
): Promise<void> {
  const command = new PutObjectCommand({
    ...at(connection, key),
    Body: content,
    ContentLength: content.length,
    ChecksumSHA256: Buffer.from(digest, "hex").toString("base64"),
  });
  // The signature covers this hash, and stores of every age compare the body with it.
  command.middlewareStack.add(
    (next) => (args) => {
      (args.request as { headers: Record<string, string> }).headers["x-amz-content-sha256"] = digest;
      return next(args);
    },
    { step: "build", name: "contentHash" },
  );
  await send(connection, `PUT ${key}`, () => connection.requests.send(command));
}

async function putObjectInParts(
  connection: Connection,
  key: string,
  { content, size }: { content: AsyncIterable<Buffer>; size: number },
): Promise<void> {
  const upload = new Upload({
    client: connection.requests,
    partSize: Math.max(PART_BYTES, Math.ceil(size / MAX_PARTS)),
    queueSize: MAX_CONCURRENT_PARTS,
    params: {
      ...at(connection, key),
      Body: Readable.from(content, { objectMode: false }),
      ContentLength: size,
      ChecksumAlgorithm: "SHA256",
    },
  });
  await send(connection, `upload of ${key}`, () => upload.done());
}

async function* listObjects(
  connection: Connection,
  prefix: string,
  pageSize: number,
): AsyncGenerator<ListedObject[], void, undefined> {
  for (let after = "", more = true; more; ) {
    // Continues after the last key instead of with a token of the store: a listing that takes hours outlives tokens.
    const page = await listPage(connection, {
      Prefix: prefix,
      MaxKeys: pageSize,
      ...(after === "" ? {} : { StartAfter: after }),
    });
    yield page.objects;
    after = page.objects.at(-1)?.key ?? "";
    more = page.more && after !== "";
  }
}

async function listPage(
  connection: Connection,
  query: { Prefix: string; MaxKeys: number; StartAfter?: string },
): Promise<{ objects: ListedObject[]; more: boolean }> {
  const { bucket, requests } = connection;
  const command = new ListObjectsV2Command({ Bucket: bucket, ...query });
  const response = await send(connection, `listing ${query.Prefix}`, () =>
    beforeDeadline(connection, (abortSignal) => requests.send(command, { abortSignal })),
  );
  const { Name, KeyCount, Contents = [], IsTruncated } = response;
  // A response that is not a listing has no objects either, and must not read as an empty store.
  if (Name === undefined && KeyCount === undefined)
    throw new EvidenceUnavailableError(`listing ${query.Prefix}: ${NOT_S3}`);
  const objects = Contents.map(({ Key = "", Size = 0, LastModified }) => ({
    key: Key,
    size: Size,
    modifiedAt: toSeconds(LastModified),
  }));
  return { objects, more: IsTruncated === true };
}

/** Keeps the library from writing to the console. */
const silentLogger = { debug() {}, info() {}, warn() {}, error() {}, trace() {} };

const toSeconds = (date: Date | undefined): number => (date?.getTime() ?? 0) / 1000;

/** The checksum of a whole object in hex; null for none, and for a checksum of the parts' checksums ("...-7"). */
const checksumOf = (base64: string | undefined): string | null =>
  base64 === undefined || base64.includes("-") ? null : Buffer.from(base64, "base64").toString("hex");
