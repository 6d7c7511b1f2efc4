/** The store on failing S3 storage: it acknowledges nothing that is not stored, and calls nothing stored missing. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname } from "node:path";
import { buffer } from "node:stream/consumers";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { DamagedEvidenceError, EvidenceUnavailableError, MissingEvidenceError } from "../../src/evidence/errors.ts";
import { parseS3Url } from "../../src/evidence/s3-store.ts";
import { AUTHORITY, CERTIFICATE, KEY } from "../notifications/certificates.ts";
import { bell } from "../notifications/given.ts";
import { chunks, contentOf, digestOf, gate, rejection, removeRoots } from "./given.ts";
import { respondWithError, freePort, givenS3Store, KEYS, startStorage } from "./s3-server.ts";
import type { Fault, Storage } from "./s3-server.ts";

const NOW = Math.floor(Date.now() / 1000);
const DAY = 86_400;
const LARGE = 9 * 1_048_576;

let storage: Storage;
const test = suite("evidence/s3-store");
test.before(async () => {
  storage = await startStorage();
});
test.before.each(() => void storage.requests());
test.after(async () => {
  await storage.stop();
  removeRoots();
});

/** Injects a fault into the first `times` requests of that method. */
function firstRequests(method: string, times: number, fault: Fault): Fault {
  let left = times;
  return (incoming, outgoing, pass) => {
    if (incoming.method !== method || left === 0) return pass();
    left -= 1;
    fault(incoming, outgoing, pass);
  };
}

const reset: Fault = (incoming) => void incoming.socket.destroy();
/** Reads the first bytes of a body, then cuts the connection. */
const cutUpload: Fault = (incoming) => void incoming.once("data", () => incoming.socket.destroy());
const s3Error =
  (status: number, code: string): Fault =>
  (incoming, outgoing) => {
    incoming.resume();
    respondWithError(outgoing, status, code);
  };
/** A 404 of a proxy between us and the storage. */
const proxy404: Fault = (incoming, outgoing) => {
  incoming.resume();
  outgoing.writeHead(404, { "content-type": "text/html" });
  outgoing.end("<html><body>Not Found</body></html>");
};
/** Passes `bytes` of the response on, then cuts the connection. */
const cutAfter =
  (bytes: number): Fault =>
  (incoming, outgoing) => {
    const { port } = new URL(storage.direct);
    const passed = request(
      { port, host: "127.0.0.1", method: incoming.method, path: incoming.url, headers: incoming.headers },
      (reply) => {
        outgoing.writeHead(reply.statusCode ?? 500, reply.headers);
        let given = 0;
        reply.on("data", (chunk: Buffer) => {
          if (given >= bytes) return;
          const part = chunk.subarray(0, bytes - given);
          given += part.length;
          outgoing.write(part, () => given >= bytes && incoming.socket.destroy());
        });
      },
    );
    passed.end();
  };

const leftoversOf = (staging: string): string[] => readdirSync(staging);

async function isUnavailable(promise: Promise<unknown>): Promise<EvidenceUnavailableError> {
  const error = await rejection(promise);
  assert.instance(error, EvidenceUnavailableError, String(error.stack));
  assert.is((error as EvidenceUnavailableError).code, "unavailable");
  assert.is((error as EvidenceUnavailableError).headers["Retry-After"], "10");
  return error as EvidenceUnavailableError;
}

async function received(stream: Readable): Promise<{ error: Error; bytes: Buffer }> {
  const bytes: Buffer[] = [];
  const error = await rejection(
    (async () => {
      for await (const chunk of stream) bytes.push(chunk as Buffer);
    })(),
  );
  return { error, bytes: Buffer.concat(bytes) };
}

test("an upload sends its hash, which the storage verifies, and is checked afterwards", async () => {
  const { put, keyOf, store } = givenS3Store({ storage });
  const headers: Record<string, unknown>[] = [];
  const end = storage.inject((incoming, _, pass) => {
    if (incoming.method === "PUT") headers.push(incoming.headers);
    pass();
  });
  for (const size of [10, 300_000]) {
    const content = contentOf(size, size);
    const digest = await put(content);
    const stated = headers.pop() ?? {};
    assert.is(stated["x-amz-content-sha256"], digest);
    assert.is(stated["x-amz-checksum-sha256"], Buffer.from(digest, "hex").toString("base64"));
    assert.is(stated["content-length"], String(size));
    assert.is(stated["content-encoding"], undefined, "no aws-chunked");
    assert.equal(
      storage.requests(),
      ["HEAD", "PUT", "HEAD"].map((method) => `${method} /${keyOf(digest)}`),
    );
    assert.ok(readFileSync(storage.fileOf(keyOf(digest))).equals(content));
    // Published again: one request, and no second version.
    await put(content);
    assert.equal(storage.requests(), [`HEAD /${keyOf(digest)}`]);
  }
  end();
  await store.close();
});

test("a large file is sent in parts with a checksum each", async () => {
  const { put, keyOf, store } = givenS3Store({ storage });
  const parts: unknown[] = [];
  const end = storage.inject((incoming, _, pass) => {
    if (incoming.method === "PUT") parts.push(incoming.headers["x-amz-checksum-sha256"]);
    pass();
  });
  const content = contentOf(LARGE);
  const digest = await put(content);
  end();
  assert.equal(
    storage.requests().map((line) => line.split(" ")[0]),
    ["HEAD", "POST", "PUT", "PUT", "POST", "HEAD"],
  );
  const part = 8 * 1_048_576;
  assert.equal(
    [...parts].sort(),
    [content.subarray(0, part), content.subarray(part)]
      .map((one) => Buffer.from(digestOf(one), "hex").toString("base64"))
      .sort(),
  );
  assert.ok(readFileSync(storage.fileOf(keyOf(digest))).equals(content));
  await store.close();
});

const BROKEN: [string, Fault, number[]][] = [
  ["a reset connection", reset, [10]],
  ["a connection cut in the middle of an upload", cutUpload, [300_000, LARGE]],
  ["an overloaded store", s3Error(503, "SlowDown"), [10]],
  ["a broken store", s3Error(500, "InternalError"), [LARGE]],
];
for (const [what, fault, sizes] of BROKEN) {
  for (const size of sizes) {
    test(`an upload of ${size} bytes survives ${what} and fails when it persists`, async () => {
      const { put, files, store, staging } = givenS3Store({ storage });
      const content = contentOf(size, 1);
      const endOnce = storage.inject(firstRequests("PUT", 1, fault));
      await put(content);
      endOnce();
      assert.equal(await files(), [digestOf(content)]);

      const endAlways = storage.inject(firstRequests("PUT", Number.POSITIVE_INFINITY, fault));
      await isUnavailable(put(contentOf(size, 2)));
      endAlways();
      assert.equal(await files(), [digestOf(content)]);
      assert.equal(leftoversOf(staging), []);
      // The same content later, as a client that retries.
      assert.is(await store.verify(await put(contentOf(size, 2))), "ok");
      await store.close();
    });
  }
}

test("a failed large upload removes its parts", async () => {
  const { put, store } = givenS3Store({ storage });
  const end = storage.inject(firstRequests("PUT", Number.POSITIVE_INFINITY, s3Error(500, "InternalError")));
  await isUnavailable(put(contentOf(LARGE)));
  end();
  assert.ok(storage.requests().some((line) => line.startsWith("DELETE ")));
  await store.close();
});

test("an upload that the storage accepted and then lost or truncated is not published", async () => {
  const { put, store, keyOf } = givenS3Store({ storage });
  const content = contentOf(1000);
  const endLost = storage.inject(
    firstRequests("PUT", 1, (incoming, outgoing) => {
      incoming.resume();
      outgoing.end();
    }),
  );
  assert.match((await isUnavailable(put(content))).why, "the stored object is another one");
  endLost();

  const path = storage.fileOf(keyOf(digestOf(content)));
  const endCut = storage.inject(
    firstRequests("PUT", 1, (incoming, outgoing) => {
      incoming.resume();
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, content.subarray(0, 100));
      outgoing.end();
    }),
  );
  await isUnavailable(put(content));
  endCut();
  await put(content);
  assert.ok(readFileSync(path).equals(content));
  await store.close();
});

test("existing content without a checksum is read back once, and kept", async () => {
  const first = givenS3Store({ storage });
  const content = contentOf(5000);
  const digest = await first.put(content);
  await first.store.close();
  const { put, store, keyOf } = givenS3Store({ storage, prefix: first.prefix });
  storage.requests();
  await put(content);
  await put(content);
  assert.equal(
    storage.requests(),
    ["HEAD", "GET", "HEAD"].map((method) => `${method} /${keyOf(digest)}`),
  );
  await store.close();
});

test("a response of the right size alone is not believed: what is not there is uploaded", async () => {
  const { put, store, keyOf, repaired } = givenS3Store({ storage });
  const content = contentOf(5000);
  const digest = digestOf(content);
  const end = storage.inject(
    firstRequests("HEAD", 1, (incoming, outgoing) => {
      incoming.resume();
      outgoing.writeHead(200, { "content-length": "5000", etag: '"of-a-proxy"' });
      outgoing.end();
    }),
  );
  await put(content);
  end();
  assert.ok(readFileSync(storage.fileOf(keyOf(digest))).equals(content));
  assert.is(await store.verify(digest), "ok");
  assert.equal(repaired, []);
  await store.close();
});

test("content whose storage does not answer when it is read back is not published", async () => {
  const first = givenS3Store({ storage });
  const content = contentOf(5000);
  await first.put(content);
  await first.store.close();
  const { put, store } = givenS3Store({ storage, prefix: first.prefix });
  const end = storage.inject((incoming, outgoing, pass) => {
    if (incoming.method === "GET") reset(incoming, outgoing, pass);
    else pass();
  });
  await isUnavailable(put(content));
  end();
  await store.close();
});

test("refuses every range of a small damaged object, and sends those of a large one unchecked", async () => {
  const { put, store, keyOf } = givenS3Store({ storage });
  const content = contentOf(5000);
  const digest = await put(content);
  const reopened = givenS3Store({ storage, prefix: keyOf("").split("/")[0] ?? "" }).store;
  const damaged = Buffer.from(content);
  damaged.write("oops", 4000);
  writeFileSync(storage.fileOf(keyOf(digest)), damaged);
  for (const range of [{ start: 0, end: 9 }, { start: 4990 }, { start: 5, end: 4999, size: 5000 }])
    assert.instance(await rejection(reopened.open({ digest, ...range })), DamagedEvidenceError);
  writeFileSync(storage.fileOf(keyOf(digest)), content);
  storage.requests();
  for (let count = 0; count < 2; count += 1)
    assert.equal(await buffer(await reopened.open({ digest, start: 5, end: 9 })), content.subarray(5, 10));
  assert.equal(storage.requests().filter((line) => line.startsWith("GET")).length, 3, "it is compared once");
  await reopened.close();
  const large = contentOf(4 * 1_048_576 + 1, 3);
  const largeDigest = await put(large);
  const changed = Buffer.from(large);
  changed.write("oops", 10);
  writeFileSync(storage.fileOf(keyOf(largeDigest)), changed);
  const sent = await buffer(await store.open({ digest: largeDigest, start: 10, end: 13, size: large.length }));
  assert.is(sent.toString(), "oops");
  await store.close();
});

test("trusts a checksum of the storage over the size", async () => {
  const { put, store, prefix } = givenS3Store({ storage });
  const digest = await put(contentOf(100));
  const tell = (checksum: string): (() => void) =>
    storage.inject((incoming, outgoing, pass) => {
      if (incoming.method === "HEAD")
        outgoing.setHeader("x-amz-checksum-sha256", Buffer.from(checksum, "hex").toString("base64"));
      pass();
    });
  const endGood = tell(digest);
  storage.requests();
  assert.is(await store.isIntact(digest, 100), true);
  assert.equal(
    storage.requests().map((line) => line.split(" ")[0]),
    ["HEAD"],
    `nothing of ${prefix} is read`,
  );
  endGood();
  const endBad = tell("0".repeat(64));
  assert.is(await store.isIntact(digest, 100), false);
  await isUnavailable(put(contentOf(100)));
  assert.ok(
    storage.requests().some((line) => line.startsWith("PUT ")),
    "it is uploaded again",
  );
  endBad();
  await store.close();
});

test("a download that breaks off resumes where it stopped", async () => {
  const { put, store } = givenS3Store({ storage });
  const content = contentOf(500_000);
  const digest = await put(content);
  for (const [request, expected] of [
    [{ digest, size: content.length }, content],
    [{ digest, size: content.length, start: 1000, end: 400_000 }, content.subarray(1000, 400_001)],
  ] as const) {
    let cuts = 0;
    const ranges: unknown[] = [];
    const end = storage.inject((incoming, outgoing, pass) => {
      if (incoming.method !== "GET") return pass();
      ranges.push(incoming.headers.range);
      cuts += 1;
      if (cuts <= 6) cutAfter(50_000)(incoming, outgoing, pass);
      else pass();
    });
    assert.ok((await buffer(await store.open(request))).equals(expected));
    end();
    assert.is(ranges.length, 7);
    assert.ok(ranges.slice(1).every((range) => typeof range === "string"));
  }
  await store.close();
});

test("a download that stalls fails and never looks complete", async () => {
  const { put, store } = givenS3Store({ storage });
  const content = contentOf(300_000);
  const digest = await put(content);
  let first = true;
  const end = storage.inject((incoming, outgoing, pass) => {
    if (incoming.method !== "GET") return pass();
    const fault = first ? cutAfter(100_000) : reset;
    first = false;
    fault(incoming, outgoing, pass);
  });
  const { error, bytes } = await received(await store.open({ digest, size: content.length }));
  end();
  assert.instance(error, EvidenceUnavailableError);
  assert.ok(bytes.length <= 100_000 && bytes.equals(content.subarray(0, bytes.length)));
  await store.close();
});

test("detects damage before the last bytes, and a wrong size before the first", async () => {
  const { put, store, keyOf } = givenS3Store({ storage });
  const content = contentOf(300_000);
  const digest = await put(content);
  const path = storage.fileOf(keyOf(digest));
  const damaged = Buffer.from(content);
  damaged[5] = (damaged[5] ?? 0) ^ 1;
  writeFileSync(path, damaged);
  const { error, bytes } = await received(await store.open({ digest, size: content.length }));
  assert.instance(error, DamagedEvidenceError);
  assert.ok(bytes.length < content.length);
  // A range cannot be checked: it is returned as stored.
  assert.ok(
    (await buffer(await store.open({ digest, size: content.length, start: 0, end: 9 }))).equals(
      damaged.subarray(0, 10),
    ),
  );

  truncateSync(path, 1000);
  for (const range of [{}, { start: 0, end: 9 }, { start: 200_000 }]) {
    assert.instance(
      await rejection(store.open({ digest, size: content.length, ...range })),
      DamagedEvidenceError,
      JSON.stringify(range),
    );
  }
  await store.close();
});

test("serves ranges by their first and last byte, and refuses invalid ones", async () => {
  const { put, store } = givenS3Store({ storage });
  const content = contentOf(200_000);
  const digest = await put(content);
  for (const [start, end] of [
    [0, 1],
    [0, 199_999],
    [199_999, 199_999],
    [5, 150_000],
  ] as const) {
    for (const size of [{ size: content.length }, {}]) {
      assert.ok(
        (await buffer(await store.open({ digest, start, end, ...size }))).equals(content.subarray(start, end + 1)),
        `${start}-${end}`,
      );
    }
  }
  for (const range of [{ start: -1 }, { start: 5, end: 4 }, { start: 0.5 }, { end: 200_000 }, { start: 200_000 }]) {
    assert.instance(
      await rejection(store.open({ digest, size: content.length, ...range })),
      RangeError,
      JSON.stringify(range),
    );
  }
  assert.instance(await rejection(store.open({ digest: "../x" })), RangeError);
  await store.close();
});

const INCONCLUSIVE: Record<string, Fault> = {
  "a 404 of a proxy": proxy404,
  "a missing bucket": s3Error(404, "NoSuchBucket"),
  "refused credentials": s3Error(403, "AccessDenied"),
  "a broken store": s3Error(500, "InternalError"),
  "a reset connection": reset,
  "a page of a proxy": (incoming, outgoing) => {
    incoming.resume();
    outgoing.writeHead(200, { "content-type": "text/html", "content-length": "39" });
    outgoing.end(incoming.method === "HEAD" ? undefined : "<html><body>Please log in</body></html>");
  },
};
for (const [what, fault] of Object.entries(INCONCLUSIVE)) {
  test(`${what} never means missing or empty`, async () => {
    const { put, store, files } = givenS3Store({ storage });
    const digest = await put(contentOf(100));
    const end = storage.inject(fault);
    await isUnavailable(store.open({ digest, size: 100 }));
    await isUnavailable(store.describe(digest));
    await isUnavailable(store.verify(digest));
    await isUnavailable(store.isIntact(digest, 100));
    await isUnavailable(store.stat(digest));
    await isUnavailable(files());
    await isUnavailable(store.sweep({ isReferenced: () => false, olderThan: NOW + DAY }));
    await isUnavailable(store.probe());
    end();
    await store.probe();
    assert.is(await store.verify(digest), "ok");
    await store.close();
  });
}

for (const [code, meaning] of [
  ["SignatureDoesNotMatch", "the secret key is wrong"],
  ["InvalidAccessKeyId", "the storage does not know the access key"],
  ["AccessDenied", "the access key does not have the permission for this request"],
  ["RequestTimeTooSkewed", "the clocks of this server and of the storage differ by too much"],
] as const) {
  test(`a refused HEAD is explained by a listing: ${code}`, async () => {
    const { store } = givenS3Store({ storage });
    const end = storage.inject((incoming, outgoing) => {
      incoming.resume();
      if (incoming.method !== "HEAD") return respondWithError(outgoing, 403, code);
      outgoing.writeHead(403);
      outgoing.end();
    });
    const { why } = await isUnavailable(store.stat(digestOf(Buffer.from("any"))));
    end();
    assert.match(why, new RegExp(`^HEAD .* was refused; listing .*: ${code}: ${code} \\(status 403\\); ${meaning}$`));
    await store.close();
  });
}

test("a HEAD that is refused although listings are allowed says its status", async () => {
  const { store } = givenS3Store({ storage });
  const end = storage.inject((incoming, outgoing, pass) => {
    if (incoming.method !== "HEAD") return pass();
    outgoing.writeHead(403);
    outgoing.end();
  });
  assert.match((await isUnavailable(store.stat(digestOf(Buffer.from("any"))))).why, /^HEAD .*\(status 403\)$/);
  end();
  await store.close();
});

test("a page of a proxy is named as such, not in the words of the library", async () => {
  const { store } = givenS3Store({ storage });
  const end = storage.inject((incoming, outgoing) => {
    incoming.resume();
    outgoing.writeHead(403, { "content-type": "text/html" });
    outgoing.end("<html><body>Please <b>log in</body></html>");
  });
  const { why } = await isUnavailable(store.probe());
  end();
  assert.match(why, /^listing .*: the response is not from an S3 store \(status 403\)$/);
  await store.close();
});

test("a listing of other objects never means that one is missing", async () => {
  const { store } = givenS3Store({ storage });
  const end = storage.inject((incoming, outgoing) => {
    incoming.resume();
    outgoing.writeHead(incoming.method === "HEAD" ? 404 : 200, { "content-type": "application/xml" });
    outgoing.end(
      incoming.method === "HEAD"
        ? undefined
        : "<ListBucketResult><Name>evidence</Name><KeyCount>1</KeyCount>" +
            "<Contents><Key>other/key</Key><Size>1</Size></Contents></ListBucketResult>",
    );
  });
  const { why } = await isUnavailable(store.stat(digestOf(Buffer.from("any"))));
  end();
  assert.match(why, /the storage lists other\/key instead$/);
  await store.close();
});

test("an object is missing when the storage says so", async () => {
  const { store } = givenS3Store({ storage });
  const digest = digestOf(Buffer.from("never stored"));
  assert.instance(await rejection(store.open({ digest, size: 5 })), MissingEvidenceError);
  assert.is(await store.stat(digest), null);
  await store.close();
});

test("a store that is down when the store opens is used when it is up", async () => {
  const port = await freePort();
  const down = givenS3Store({ storage: { endpoint: `http://127.0.0.1:${port}` } });
  assert.match((await isUnavailable(down.store.probe())).why, "ECONNREFUSED");
  await isUnavailable(down.put(contentOf(10)));
  assert.equal(leftoversOf(down.staging), []);
  await down.store.close();
  const { store, put } = givenS3Store({ storage });
  const end = storage.inject(reset);
  await isUnavailable(store.probe());
  end();
  assert.is(await store.verify(await put(contentOf(10))), "ok");
  await store.close();
});

test("gives up on storage that does not respond", async () => {
  const { put, prefix } = givenS3Store({ storage });
  const digest = await put(contentOf(100));
  const hasty = givenS3Store({ storage, prefix, timeoutsMs: { connect: 1000, idle: 100, response: 600_000 } });
  const end = storage.inject((incoming) => void incoming.resume());
  await isUnavailable(hasty.store.open({ digest, size: 100 }));
  await isUnavailable(hasty.put(contentOf(50)));
  end();
  await hasty.store.close();
});

test("one deadline ends all attempts, and a storage that stays silent is asked no more", async () => {
  let now = 0;
  const { timer, ring, waiting } = bell();
  const timeoutsMs = { connect: 600_000, idle: 600_000, response: 25_000 };
  const { store, put } = givenS3Store({ storage, timeoutsMs, clock: { milliseconds: () => now, timer } });
  const digest = await put(contentOf(100));
  const deadlines: number[] = [];
  const end = storage.inject((incoming) => {
    incoming.resume();
    deadlines.push(...waiting());
    ring();
  });
  storage.requests();
  for (const [request, method] of [
    [() => store.stat(digest), "HEAD"],
    [() => store.probe(), "listing"],
    [() => store.open({ digest, size: 100 }), "GET"],
    [() => store.stat(digest), "HEAD"],
  ] as const)
    assert.match(
      (await isUnavailable(request() as Promise<unknown>)).why,
      new RegExp(`^${method} .*: TimeoutError: no response within 25 s$`),
    );
  assert.equal(deadlines, [25, 25, 25, 25]);
  assert.is(storage.requests().length, 4);
  now = 9_999;
  assert.match(
    (await isUnavailable(store.stat(digest))).why,
    /did not answer the latest 3 requests; the next attempt is in 1 s$/,
  );
  await isUnavailable(put(contentOf(60)));
  assert.equal(storage.requests(), []);
  end();
  now = 10_000;
  assert.is((await store.stat(digest))?.size, 100);
  await store.close();
});

test("a client that disconnects releases its connection, even if it never read", async () => {
  const { store, put } = givenS3Store({ storage });
  const digest = await put(contentOf(5_000_000));
  const closed = [gate(), gate()];
  let opened = 0;
  const end = storage.inject((_, outgoing, pass) => {
    const mine = closed[opened];
    opened += 1;
    outgoing.once("close", () => mine?.open());
    pass();
  });
  const [untouched, begun] = [
    await store.open({ digest, size: 5_000_000 }),
    await store.open({ digest, size: 5_000_000 }),
  ];
  for await (const _ of begun) break;
  untouched.destroy();
  await Promise.all(closed.map(({ passed }) => passed));
  end();
  await store.close();
});

test("a hundred concurrent uploads all complete", async () => {
  const { store, files } = givenS3Store({ storage });
  const staged = await Promise.all(
    Array.from({ length: 100 }, (_, n) => store.stage(chunks(contentOf(50, n)), { limit: 50 })),
  );
  await store.publish(staged);
  assert.equal(await files(), staged.map(({ digest }) => digest).sort());
  await store.close();
});

test("streaming 256 MB needs less than half of that in memory, including the storage in this process", async () => {
  const { store } = givenS3Store({ storage });
  const size = 256 * 1_048_576;
  const block = Buffer.alloc(1_048_576);
  const hash = createHash("sha256");
  for (let at = 0; at < size; at += block.length) hash.update(block);
  const digest = hash.digest("hex");
  const end = storage.inject((_, outgoing) => {
    outgoing.writeHead(200, { "content-length": String(size), etag: '"zeros"' });
    Readable.from(
      (function* () {
        for (let at = 0; at < size; at += block.length) yield block;
      })(),
      { highWaterMark: 1 },
    ).pipe(outgoing);
  });
  const before = process.memoryUsage.rss();
  let [highest, seen] = [before, 0];
  const client = new Writable({
    write(chunk: Buffer, _, callback) {
      seen += chunk.length;
      highest = Math.max(highest, process.memoryUsage.rss());
      setImmediate(callback);
    },
  });
  await pipeline(await store.open({ digest, size }), client);
  end();
  assert.is(seen, size);
  assert.ok(highest - before < size / 2, `${highest - before} bytes more`);
  await store.close();
});

test("content that is published during a sweep exists afterwards", async () => {
  const { store, put } = givenS3Store({ storage });
  const content = contentOf(100);
  const digest = await put(content);
  const [removing, mayRemove] = [gate(), gate()];
  const end = storage.inject((incoming, _, pass) => {
    if (incoming.method !== "DELETE") return pass();
    removing.open();
    void mayRemove.passed.then(pass);
  });
  const sweeping = store.sweep({ isReferenced: () => false, olderThan: NOW + DAY });
  await removing.passed;
  const publishing = store.publish([await store.stage(chunks(content), { limit: 100 })]);
  mayRemove.open();
  await publishing;
  end();
  assert.equal(await sweeping, { removed: 1, bytes: 100 });
  assert.is(await store.verify(digest), "ok");
  await store.close();
});

test("a store sees only objects below its prefix", async () => {
  const [outer, inner] = [givenS3Store({ storage, prefix: "" }), givenS3Store({ storage, prefix: "other/place" })];
  const theirs = await inner.put(contentOf(10, 7));
  const ours = await outer.put(contentOf(10, 8));
  assert.equal(await inner.files(), [theirs]);
  assert.ok((await outer.files()).includes(ours));
  assert.not.ok((await outer.files()).includes(theirs));
  await outer.store.close();
  await inner.store.close();
});

test("temporary credentials are sent with their token", async () => {
  const { store } = givenS3Store({ storage, ...KEYS, sessionToken: "of the hour" });
  let token: unknown = null;
  const end = storage.inject((incoming, _, pass) => {
    token = incoming.headers["x-amz-security-token"];
    pass();
  });
  await store.probe();
  end();
  assert.is(token, "of the hour");
  await store.close();
});

test("trusts a configured CA, and still checks names", async () => {
  const server = createServer({ cert: CERTIFICATE, key: KEY }, (_, outgoing) => outgoing.end());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const secure = { endpoint: `https://127.0.0.1:${(server.address() as AddressInfo).port}` };
  const [untrusting, trusting] = [
    givenS3Store({ storage: secure }),
    givenS3Store({ storage: secure, caCertificates: [AUTHORITY] }),
  ];
  assert.match((await isUnavailable(untrusting.store.probe())).why, "UNABLE_TO_VERIFY_LEAF_SIGNATURE");
  // The next problem is that the certificate is for other names.
  assert.match((await isUnavailable(trusting.store.probe())).why, "ERR_TLS_CERT_ALTNAME_INVALID");
  for (const { store } of [untrusting, trusting]) await store.close();
  server.closeAllConnections();
  server.close();
});

test("parses a URL into bucket and prefix", () => {
  assert.equal(parseS3Url("s3://evidence"), { bucket: "evidence", prefix: "" });
  assert.equal(parseS3Url("s3://evidence/assay/prod"), { bucket: "evidence", prefix: "assay/prod" });
});

test.run();
