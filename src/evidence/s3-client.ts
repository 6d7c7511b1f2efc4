// A bucket of an S3-compatible store, with the few requests that the vault needs. Only this file knows the client
// library, and it is loaded only where such a store is configured.
//
// What an answer means is decided here. "There is no such object" is said by the store in its own words (NoSuchKey), or
// by a complete answer to a listing; every other 404 may come from something between us and it, or mean the bucket. All
// that is no clear answer becomes EvidenceUnavailableError, so nobody takes a store that cannot be reached for an empty
// one.
//
// Requests are repeated by the library: three attempts with a growing random pause, and none any more while most fail.
// All of them may be repeated: an object's name is the hash of its content.
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { Readable } from "node:stream";
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { EvidenceUnavailableError } from "./errors.ts";
import { createConcurrencyLimit } from "../workers/concurrency-limit.ts";

export type S3Settings = {
  bucket: string;
  /** Where the store is; null: Amazon's, by its region. */
  endpoint: string | null;
  region: string;
  accessKey: string;
  secretKey: string;
  /** Of credentials that are handed out for a time; null without. */
  sessionToken: string | null;
  /** All authorities to trust, in PEM; null: those of Node. */
  caCertificates: readonly string[] | null;
  /** Milliseconds; see TIMEOUTS. */
  timeoutsMs?: typeof TIMEOUTS_MS;
};

/** An object as it lies there. `checksum`: the SHA-256 in hex that the store computed, null where it kept none. */
export type StoredObject = { size: number; checksum: string | null; modifiedAt: number; etag: string };

/** How long to wait for a connection, and for any byte on one, in milliseconds. */
const TIMEOUTS_MS = { connect: 5_000, idle: 30_000 };

const MAX_ATTEMPTS = 3;

/**
 * Connections at once. Downloads have theirs to themselves: each is held for as long as its client takes, and uploads,
 * which somebody waits for, must not queue behind them.
 */
const MAX_CONNECTIONS = { requests: 64, downloads: 256 };
/** Requests at once, so that none has to wait for a connection, which would count as a store that does not answer. */
const MAX_CONCURRENT_REQUESTS = 48;

/**
 * Bytes of a part of a large upload, and what may be sent in one request; two parts of an upload are under way at once.
 */
export const PART_BYTES = 8 * 1_048_576;
const MAX_CONCURRENT_PARTS = 2;
/** The most parts that an upload may have; a larger file has larger parts. */
const MAX_PARTS = 10_000;

export function openS3Client({
  bucket: Bucket,
  endpoint,
  region,
  accessKey,
  secretKey,
  sessionToken,
  caCertificates: authorities,
  timeoutsMs: timeouts = TIMEOUTS_MS,
}: S3Settings) {
  const requests = client(MAX_CONNECTIONS.requests);
  const downloads = client(MAX_CONNECTIONS.downloads);
  const places = createConcurrencyLimit(MAX_CONCURRENT_REQUESTS);

  function client(maxSockets: number): S3Client {
    const sockets = { keepAlive: true, maxSockets };
    return new S3Client({
      region,
      ...(endpoint === null ? {} : { endpoint, forcePathStyle: true }),
      // Said outright, so that nothing asks files in somebody's home or the address of a cloud's metadata for them.
      credentials: {
        accessKeyId: accessKey,
        secretAccessKey: secretKey,
        ...(sessionToken === null ? {} : { sessionToken }),
      },
      // Older stores do not know checksums behind the body; every upload states its own in front.
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
      logger: silent,
      requestHandler: {
        connectionTimeout: timeouts.connect,
        socketTimeout: timeouts.idle,
        httpAgent: new HttpAgent(sockets),
        httpsAgent: new HttpsAgent({ ...sockets, ...(authorities === null ? {} : { ca: [...authorities] }) }),
      },
    });
  }

  /** @throws EvidenceUnavailableError for whatever goes wrong with a request */
  async function asked<T>(what: string, request: () => Promise<T>): Promise<T> {
    try {
      return await places.run(request);
    } catch (error) {
      throw unavailable(what, error);
    }
  }

  const at = (Key: string) => ({ Bucket, Key });

  async function listed(what: { Prefix: string; MaxKeys: number; StartAfter?: string }) {
    const {
      Name,
      KeyCount,
      Contents = [],
      IsTruncated,
    } = await asked(`listing ${what.Prefix}`, () => requests.send(new ListObjectsV2Command({ Bucket, ...what })));
    // What has no objects because it is no listing must not read as an empty store.
    if (Name === undefined && KeyCount === undefined)
      throw new EvidenceUnavailableError(`listing ${what.Prefix}: ${NOT_S3}`);
    const found = Contents.map(({ Key = "", Size = 0, LastModified }) => ({
      key: Key,
      size: Size,
      modifiedAt: secondsOf(LastModified),
    }));
    return { found, more: IsTruncated === true };
  }

  return {
    /**
     * Looks at an object; null when the store says 404, which something between us and it may have said (see
     * `missing`).
     */
    async head(key: string): Promise<StoredObject | null> {
      try {
        const found = await places.run(() =>
          requests.send(new HeadObjectCommand({ ...at(key), ChecksumMode: "ENABLED" })),
        );
        const { ContentLength: size, ETag: etag } = found;
        if (size === undefined || etag === undefined) throw new Error(NOT_S3);
        return { size, checksum: hexOf(found.ChecksumSHA256), modifiedAt: secondsOf(found.LastModified), etag };
      } catch (error) {
        if (error instanceof S3ServiceException && error.$metadata.httpStatusCode === 404) return null;
        throw unavailable(`HEAD ${key}`, error);
      }
    },

    /** Whether the store itself says, in a complete answer, that there is no such object. */
    async missing(key: string): Promise<boolean> {
      const { found } = await listed({ Prefix: key, MaxKeys: 1 });
      return found.every((object) => object.key !== key);
    },

    /**
     * The content of an object, from byte `start` to `end` (inclusive) when given. `total` is the size of the whole
     * object. Null when the store says that there is none, "too short" when the range begins behind its end.
     */
    async get(
      key: string,
      range: { start: number; end: number } | null,
    ): Promise<{ body: Readable; total: number } | "too short" | null> {
      try {
        const found = await downloads.send(
          new GetObjectCommand({ ...at(key), ...(range ? { Range: `bytes=${range.start}-${range.end}` } : {}) }),
        );
        const total = range
          ? Number(/\/(\d+)$/.exec(found.ContentRange ?? "")?.[1] ?? Number.NaN)
          : found.ContentLength;
        if (
          !(found.Body instanceof Readable) ||
          found.ETag === undefined ||
          total === undefined ||
          !Number.isSafeInteger(total)
        ) {
          if (found.Body instanceof Readable) found.Body.destroy();
          throw new Error(NOT_S3);
        }
        // What goes wrong is told to whoever reads; nobody may be reading yet.
        found.Body.on("error", () => undefined);
        return { body: found.Body, total };
      } catch (error) {
        if (error instanceof S3ServiceException && error.name === "NoSuchKey") return null;
        if (error instanceof S3ServiceException && error.name === "InvalidRange") return "too short";
        throw unavailable(`GET ${key}`, error);
      }
    },

    /** Stores content that is in memory. `digest` is its SHA-256 in hex, by which the store checks what arrived. */
    async put(key: string, content: Buffer, digest: string): Promise<void> {
      const command = new PutObjectCommand({
        ...at(key),
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
      await asked(`PUT ${key}`, () => requests.send(command));
    },

    /**
     * Stores what `content` gives in parts, each with its own checksum. When it fails, or the store does, what is there
     * of it is removed.
     */
    async putParts(key: string, content: AsyncIterable<Buffer>, size: number): Promise<void> {
      const upload = new Upload({
        client: requests,
        partSize: Math.max(PART_BYTES, Math.ceil(size / MAX_PARTS)),
        queueSize: MAX_CONCURRENT_PARTS,
        params: {
          ...at(key),
          Body: Readable.from(content, { objectMode: false }),
          ContentLength: size,
          ChecksumAlgorithm: "SHA256",
        },
      });
      await asked(`upload of ${key}`, () => upload.done());
    },

    /** All objects below a prefix in the order of their keys, in pages. */
    async *list(
      prefix: string,
      pageSize: number,
    ): AsyncGenerator<{ key: string; size: number; modifiedAt: number }[], void, undefined> {
      for (let after = "", more = true; more; ) {
        // By the last key and not by a token of the store: a listing that takes hours outlives tokens.
        const page = await listed({
          Prefix: prefix,
          MaxKeys: pageSize,
          ...(after === "" ? {} : { StartAfter: after }),
        });
        yield page.found;
        after = page.found.at(-1)?.key ?? "";
        more = page.more && after !== "";
      }
    },

    async remove(key: string): Promise<void> {
      await asked(`DELETE ${key}`, () => requests.send(new DeleteObjectCommand(at(key))));
    },

    /** Ends all connections, also those of downloads that somebody still reads. */
    close(): void {
      requests.destroy();
      downloads.destroy();
    },
  };
}

/** A page of a proxy, say: whatever has the status of a success, but not what every S3 store tells with it. */
const NOT_S3 = "the answer is not one of an S3 store";

/** What the library would tell the console. */
const silent = { debug() {}, info() {}, warn() {}, error() {}, trace() {} };

const secondsOf = (date: Date | undefined): number => (date?.getTime() ?? 0) / 1000;

/** A checksum of a whole object as hex; null for none, and for one made of those of its parts ("...-7"). */
const hexOf = (base64: string | undefined): string | null =>
  base64 === undefined || base64.includes("-") ? null : Buffer.from(base64, "base64").toString("hex");

function unavailable(what: string, error: unknown): EvidenceUnavailableError {
  if (error instanceof EvidenceUnavailableError) return error;
  const { name, message, code } = error as Error & { code?: string };
  const status = error instanceof S3ServiceException ? ` (status ${error.$metadata.httpStatusCode ?? "unknown"})` : "";
  return new EvidenceUnavailableError(
    `${what}: ${[code ?? name, message].filter((text) => text !== undefined && text !== "").join(": ")}${status}`,
  );
}
