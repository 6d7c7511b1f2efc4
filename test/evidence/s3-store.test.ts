/**
 * The vault on S3-compatible storage when that fails: nothing is acknowledged that is not there, nothing that is there
 * is called missing.
 */
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
import { chunks, contentOf, digestOf, gate, rejection, removeRoots } from "./given.ts";
import { answer, freePort, givenS3Vault, KEYS, startStorage } from "./s3-server.ts";
import type { Fault, Storage } from "./s3-server.ts";

const NOW = Math.floor(Date.now() / 1000);
const DAY = 86_400;
const LARGE = 9 * 1_048_576;

let storage: Storage;
const test = suite("vault: s3");
test.before(async () => {
  storage = await startStorage();
});
test.before.each(() => void storage.requests());
test.after(async () => {
  await storage.stop();
  removeRoots();
});

/** Breaks the first `times` requests of that method. */
function some(method: string, times: number, fault: Fault): Fault {
  let left = times;
  return (incoming, outgoing, pass) => {
    if (incoming.method !== method || left === 0) return pass();
    left -= 1;
    fault(incoming, outgoing, pass);
  };
}

const reset: Fault = (incoming) => void incoming.socket.destroy();
/** Takes the first bytes of a body and then cuts the connection. */
const cutUpload: Fault = (incoming) => void incoming.once("data", () => incoming.socket.destroy());
const says =
  (status: number, code: string): Fault =>
  (incoming, outgoing) => {
    incoming.resume();
    answer(outgoing, status, code);
  };
/** What stands between us and the store says 404 in its own words. */
const strangers404: Fault = (incoming, outgoing) => {
  incoming.resume();
  outgoing.writeHead(404, { "content-type": "text/html" });
  outgoing.end("<html><body>Not Found</body></html>");
};
/** Passes so many bytes of the answer on, then cuts the connection. */
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

test("an upload states its hash, by which the store checks it, and is looked at afterwards", async () => {
  const { store, keyOf, vault } = givenS3Vault({ storage });
  const headers: Record<string, unknown>[] = [];
  const end = storage.breaks((incoming, _, pass) => {
    if (incoming.method === "PUT") headers.push(incoming.headers);
    pass();
  });
  for (const size of [10, 300_000]) {
    const content = contentOf(size, size);
    const digest = await store(content);
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
    // Again: one look, and no second version.
    await store(content);
    assert.equal(storage.requests(), [`HEAD /${keyOf(digest)}`]);
  }
  end();
  await vault.close();
});

test("a large file goes in parts with a checksum each", async () => {
  const { store, keyOf, vault } = givenS3Vault({ storage });
  const parts: unknown[] = [];
  const end = storage.breaks((incoming, _, pass) => {
    if (incoming.method === "PUT") parts.push(incoming.headers["x-amz-checksum-sha256"]);
    pass();
  });
  const content = contentOf(LARGE);
  const digest = await store(content);
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
  await vault.close();
});

const BROKEN: [string, Fault, number[]][] = [
  ["a reset connection", reset, [10]],
  ["a connection cut in the middle of an upload", cutUpload, [300_000, LARGE]],
  ["an overloaded store", says(503, "SlowDown"), [10]],
  ["a broken store", says(500, "InternalError"), [LARGE]],
];
for (const [what, fault, sizes] of BROKEN) {
  for (const size of sizes) {
    test(`${what} is survived by ${size} bytes, and told when it lasts`, async () => {
      const { store, files, vault, staging } = givenS3Vault({ storage });
      const content = contentOf(size, 1);
      const endOnce = storage.breaks(some("PUT", 1, fault));
      await store(content);
      endOnce();
      assert.equal(await files(), [digestOf(content)]);

      const endAlways = storage.breaks(some("PUT", Number.POSITIVE_INFINITY, fault));
      await isUnavailable(store(contentOf(size, 2)));
      endAlways();
      assert.equal(await files(), [digestOf(content)]);
      assert.equal(leftoversOf(staging), []);
      // The same content later, as a client that comes again.
      assert.is(await vault.verify(await store(contentOf(size, 2))), "ok");
      await vault.close();
    });
  }
}

test("a large upload that failed takes its parts away", async () => {
  const { store, vault } = givenS3Vault({ storage });
  const end = storage.breaks(some("PUT", Number.POSITIVE_INFINITY, says(500, "InternalError")));
  await isUnavailable(store(contentOf(LARGE)));
  end();
  assert.ok(storage.requests().some((line) => line.startsWith("DELETE ")));
  await vault.close();
});

test("an upload that the store accepted and lost, or cut, is not published", async () => {
  const { store, vault, keyOf } = givenS3Vault({ storage });
  const content = contentOf(1000);
  const endLost = storage.breaks(
    some("PUT", 1, (incoming, outgoing) => {
      incoming.resume();
      outgoing.end();
    }),
  );
  assert.match((await isUnavailable(store(content))).why, "what lies there is not it");
  endLost();

  const path = storage.fileOf(keyOf(digestOf(content)));
  const endCut = storage.breaks(
    some("PUT", 1, (incoming, outgoing) => {
      incoming.resume();
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, content.subarray(0, 100));
      outgoing.end();
    }),
  );
  await isUnavailable(store(content));
  endCut();
  await store(content);
  assert.ok(readFileSync(path).equals(content));
  await vault.close();
});

test("a checksum that the store tells is believed rather than the size", async () => {
  const { store, vault, prefix } = givenS3Vault({ storage });
  const digest = await store(contentOf(100));
  const tell = (checksum: string): (() => void) =>
    storage.breaks((incoming, outgoing, pass) => {
      if (incoming.method === "HEAD")
        outgoing.setHeader("x-amz-checksum-sha256", Buffer.from(checksum, "hex").toString("base64"));
      pass();
    });
  const endGood = tell(digest);
  storage.requests();
  assert.is(await vault.isIntact(digest, 100), true);
  assert.equal(
    storage.requests().map((line) => line.split(" ")[0]),
    ["HEAD"],
    `nothing of ${prefix} is read`,
  );
  endGood();
  const endBad = tell("0".repeat(64));
  assert.is(await vault.isIntact(digest, 100), false);
  await isUnavailable(store(contentOf(100)));
  assert.ok(
    storage.requests().some((line) => line.startsWith("PUT ")),
    "it is uploaded again",
  );
  endBad();
  await vault.close();
});

test("a download that breaks off goes on where it stopped", async () => {
  const { store, vault } = givenS3Vault({ storage });
  const content = contentOf(500_000);
  const digest = await store(content);
  for (const [request, expected] of [
    [{ digest, size: content.length }, content],
    [{ digest, size: content.length, start: 1000, end: 400_000 }, content.subarray(1000, 400_001)],
  ] as const) {
    let cuts = 0;
    const ranges: unknown[] = [];
    const end = storage.breaks((incoming, outgoing, pass) => {
      if (incoming.method !== "GET") return pass();
      ranges.push(incoming.headers.range);
      cuts += 1;
      if (cuts <= 6) cutAfter(50_000)(incoming, outgoing, pass);
      else pass();
    });
    assert.ok((await buffer(await vault.open(request))).equals(expected));
    end();
    assert.is(ranges.length, 7);
    assert.ok(ranges.slice(1).every((range) => typeof range === "string"));
  }
  await vault.close();
});

test("a download that brings nothing any more ends with an error, and never as if it were whole", async () => {
  const { store, vault } = givenS3Vault({ storage });
  const content = contentOf(300_000);
  const digest = await store(content);
  let first = true;
  const end = storage.breaks((incoming, outgoing, pass) => {
    if (incoming.method !== "GET") return pass();
    const fault = first ? cutAfter(100_000) : reset;
    first = false;
    fault(incoming, outgoing, pass);
  });
  const { error, bytes } = await received(await vault.open({ digest, size: content.length }));
  end();
  assert.instance(error, EvidenceUnavailableError);
  assert.ok(bytes.length <= 100_000 && bytes.equals(content.subarray(0, bytes.length)));
  await vault.close();
});

test("damage shows before the last bytes, a wrong size before the first", async () => {
  const { store, vault, keyOf } = givenS3Vault({ storage });
  const content = contentOf(300_000);
  const digest = await store(content);
  const path = storage.fileOf(keyOf(digest));
  const damaged = Buffer.from(content);
  damaged[5] = (damaged[5] ?? 0) ^ 1;
  writeFileSync(path, damaged);
  const { error, bytes } = await received(await vault.open({ digest, size: content.length }));
  assert.instance(error, DamagedEvidenceError);
  assert.ok(bytes.length < content.length);
  // A part cannot be checked: it is what lies there.
  assert.ok(
    (await buffer(await vault.open({ digest, size: content.length, start: 0, end: 9 }))).equals(
      damaged.subarray(0, 10),
    ),
  );

  truncateSync(path, 1000);
  for (const range of [{}, { start: 0, end: 9 }, { start: 200_000 }]) {
    assert.instance(
      await rejection(vault.open({ digest, size: content.length, ...range })),
      DamagedEvidenceError,
      JSON.stringify(range),
    );
  }
  await vault.close();
});

test("ranges are cut by their first and last byte, and refused where they are none", async () => {
  const { store, vault } = givenS3Vault({ storage });
  const content = contentOf(200_000);
  const digest = await store(content);
  for (const [start, end] of [
    [0, 1],
    [0, 199_999],
    [199_999, 199_999],
    [5, 150_000],
  ] as const) {
    for (const size of [{ size: content.length }, {}]) {
      assert.ok(
        (await buffer(await vault.open({ digest, start, end, ...size }))).equals(content.subarray(start, end + 1)),
        `${start}-${end}`,
      );
    }
  }
  for (const range of [{ start: -1 }, { start: 5, end: 4 }, { start: 0.5 }, { end: 200_000 }, { start: 200_000 }]) {
    assert.instance(
      await rejection(vault.open({ digest, size: content.length, ...range })),
      RangeError,
      JSON.stringify(range),
    );
  }
  assert.instance(await rejection(vault.open({ digest: "../x" })), RangeError);
  await vault.close();
});

const NO_ANSWERS: Record<string, Fault> = {
  "a 404 of something in between": strangers404,
  "a bucket that is gone": says(404, "NoSuchBucket"),
  "a refused key": says(403, "AccessDenied"),
  "a broken store": says(500, "InternalError"),
  "a reset connection": reset,
  "a page of something in between": (incoming, outgoing) => {
    incoming.resume();
    outgoing.writeHead(200, { "content-type": "text/html", "content-length": "39" });
    outgoing.end(incoming.method === "HEAD" ? undefined : "<html><body>Please log in</body></html>");
  },
};
for (const [what, fault] of Object.entries(NO_ANSWERS)) {
  test(`${what} never reads as missing, nor as an empty store`, async () => {
    const { store, vault, files } = givenS3Vault({ storage });
    const digest = await store(contentOf(100));
    const end = storage.breaks(fault);
    await isUnavailable(vault.open({ digest, size: 100 }));
    await isUnavailable(vault.describe(digest));
    await isUnavailable(vault.verify(digest));
    await isUnavailable(vault.isIntact(digest, 100));
    await isUnavailable(vault.stat(digest));
    await isUnavailable(files());
    await isUnavailable(vault.sweep({ isReferenced: () => false, olderThan: NOW + DAY }));
    await isUnavailable(vault.probe());
    end();
    await vault.probe();
    assert.is(await vault.verify(digest), "ok");
    await vault.close();
  });
}

test("what the store says is missing is missing", async () => {
  const { vault } = givenS3Vault({ storage });
  const digest = digestOf(Buffer.from("never stored"));
  assert.instance(await rejection(vault.open({ digest, size: 5 })), MissingEvidenceError);
  assert.is(await vault.stat(digest), null);
  await vault.close();
});

test("a store that is down when the vault opens is used when it is up", async () => {
  const port = await freePort();
  const down = givenS3Vault({ storage: { endpoint: `http://127.0.0.1:${port}` } });
  assert.match((await isUnavailable(down.vault.probe())).why, "ECONNREFUSED");
  await isUnavailable(down.store(contentOf(10)));
  assert.equal(leftoversOf(down.staging), []);
  await down.vault.close();
  const { vault, store } = givenS3Vault({ storage });
  const end = storage.breaks(reset);
  await isUnavailable(vault.probe());
  end();
  assert.is(await vault.verify(await store(contentOf(10))), "ok");
  await vault.close();
});

test("a store that keeps silent is given up", async () => {
  const { vault, store } = givenS3Vault({ storage, timeoutsMs: { connect: 1000, idle: 100 } });
  const digest = await store(contentOf(100));
  const end = storage.breaks((incoming) => void incoming.resume());
  await isUnavailable(vault.open({ digest, size: 100 }));
  await isUnavailable(store(contentOf(50)));
  end();
  await vault.close();
});

test("a client that goes away gives the connection back, also when it never read", async () => {
  const { vault, store } = givenS3Vault({ storage });
  const digest = await store(contentOf(5_000_000));
  const closed = [gate(), gate()];
  let opened = 0;
  const end = storage.breaks((_, outgoing, pass) => {
    const mine = closed[opened];
    opened += 1;
    outgoing.once("close", () => mine?.open());
    pass();
  });
  const [untouched, begun] = [
    await vault.open({ digest, size: 5_000_000 }),
    await vault.open({ digest, size: 5_000_000 }),
  ];
  for await (const _ of begun) break;
  untouched.destroy();
  await Promise.all(closed.map(({ passed }) => passed));
  end();
  await vault.close();
});

test("a hundred uploads at once all have their turn", async () => {
  const { vault, files } = givenS3Vault({ storage, timeoutsMs: { connect: 1000, idle: 5000 } });
  const staged = await Promise.all(
    Array.from({ length: 100 }, (_, n) => vault.stage(chunks(contentOf(50, n)), { limit: 50 })),
  );
  await vault.publish(staged);
  assert.equal(await files(), staged.map(({ digest }) => digest).sort());
  await vault.close();
});

test("a file of 256 MB streams through less than half of that, the store in this process included", async () => {
  const { vault } = givenS3Vault({ storage });
  const size = 256 * 1_048_576;
  const block = Buffer.alloc(1_048_576);
  const hash = createHash("sha256");
  for (let at = 0; at < size; at += block.length) hash.update(block);
  const digest = hash.digest("hex");
  const end = storage.breaks((_, outgoing) => {
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
  await pipeline(await vault.open({ digest, size }), client);
  end();
  assert.is(seen, size);
  assert.ok(highest - before < size / 2, `${highest - before} bytes more`);
  await vault.close();
});

test("content that is published while it is swept is there afterwards", async () => {
  const { vault, store } = givenS3Vault({ storage });
  const content = contentOf(100);
  const digest = await store(content);
  const [removing, mayRemove] = [gate(), gate()];
  const end = storage.breaks((incoming, _, pass) => {
    if (incoming.method !== "DELETE") return pass();
    removing.open();
    void mayRemove.passed.then(pass);
  });
  const sweeping = vault.sweep({ isReferenced: () => false, olderThan: NOW + DAY });
  await removing.passed;
  const publishing = vault.publish([await vault.stage(chunks(content), { limit: 100 })]);
  mayRemove.open();
  await publishing;
  end();
  assert.equal(await sweeping, { removed: 1, bytes: 100 });
  assert.is(await vault.verify(digest), "ok");
  await vault.close();
});

test("only objects below the prefix are the vault's", async () => {
  const [outer, inner] = [givenS3Vault({ storage, prefix: "" }), givenS3Vault({ storage, prefix: "other/place" })];
  const theirs = await inner.store(contentOf(10, 7));
  const ours = await outer.store(contentOf(10, 8));
  assert.equal(await inner.files(), [theirs]);
  assert.ok((await outer.files()).includes(ours));
  assert.not.ok((await outer.files()).includes(theirs));
  await outer.vault.close();
  await inner.vault.close();
});

test("keys of an hour are sent with their token", async () => {
  const { vault } = givenS3Vault({ storage, ...KEYS, sessionToken: "of the hour" });
  let token: unknown = null;
  const end = storage.breaks((incoming, _, pass) => {
    token = incoming.headers["x-amz-security-token"];
    pass();
  });
  await vault.probe();
  end();
  assert.is(token, "of the hour");
  await vault.close();
});

test("a given authority is trusted, and names are checked", async () => {
  const server = createServer({ cert: CERTIFICATE, key: KEY }, (_, outgoing) => outgoing.end());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const secure = { endpoint: `https://127.0.0.1:${(server.address() as AddressInfo).port}` };
  const [stranger, friend] = [
    givenS3Vault({ storage: secure }),
    givenS3Vault({ storage: secure, caCertificates: [AUTHORITY] }),
  ];
  assert.match((await isUnavailable(stranger.vault.probe())).why, "UNABLE_TO_VERIFY_LEAF_SIGNATURE");
  // The certificate is for other names: that is what is found next.
  assert.match((await isUnavailable(friend.vault.probe())).why, "ERR_TLS_CERT_ALTNAME_INVALID");
  for (const { vault } of [stranger, friend]) await vault.close();
  server.closeAllConnections();
  server.close();
});

test("an address is bucket and prefix", () => {
  assert.equal(parseS3Url("s3://evidence"), { bucket: "evidence", prefix: "" });
  assert.equal(parseS3Url("s3://evidence/assay/prod"), { bucket: "evidence", prefix: "assay/prod" });
});

test.run();
