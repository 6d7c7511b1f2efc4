import { closeSync, ftruncateSync, mkdirSync, openSync, readdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Readable } from "node:stream";
import { Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { Worker } from "node:worker_threads";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { DamagedEvidenceError, MissingEvidenceError } from "../../src/evidence/errors.ts";
import { evidencePath } from "../../src/evidence/layout.ts";
import { createEvidenceReader, EvidenceWorkerError } from "../../src/evidence/reader.ts";
import { contentOf, digestOf, givenMemoryRoot, givenRoot, rejection, removeRoots } from "./given.ts";

const ENTRY = new URL("../../src/evidence/reader-worker.ts", import.meta.url);
const CHUNK = 128 * 1024;
const LARGE = contentOf(10 * CHUNK + 77, 1);

const test = suite("evidence/reader");

/** A reader over a fresh root; `store` writes content there, under its own or another digest. */
function givenReader(root = givenRoot()) {
  const workers: Worker[] = [];
  const reader = createEvidenceReader({
    root,
    start(options) {
      const worker = new Worker(ENTRY, options);
      workers.push(worker);
      return worker;
    },
  });
  const store = (content: Buffer, digest = digestOf(content)) => {
    const path = evidencePath(root, digest);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    return digest;
  };
  /** Requests are served in order: once a later one is answered, the earlier ones are done. */
  const settle = async () => {
    await rejection(reader.open({ digest: "0".repeat(64) }));
  };
  return { reader, workers, store, settle, root };
}

/** Shared by tests that do not end its thread, because starting one takes longer than most of them. */
let shared: ReturnType<typeof givenReader>;
test.before(() => {
  shared = givenReader();
});
test.after(async () => {
  await shared.reader.close();
  removeRoots();
});

const descriptors = () => readdirSync("/proc/self/fd").length;

/** Reads a stream until it fails; `received` is what came before. */
async function failure(stream: Readable): Promise<{ error: Error; received: Buffer }> {
  const received: Buffer[] = [];
  const error = await rejection(
    (async () => {
      for await (const chunk of stream) received.push(chunk);
    })(),
  );
  return { error, received: Buffer.concat(received) };
}

for (const size of [0, 1, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK, 5 * CHUNK, LARGE.length]) {
  test(`a file of ${size} bytes arrives unchanged`, async () => {
    const { reader, store } = shared;
    const content = LARGE.subarray(0, size);
    const digest = store(content);
    assert.ok((await buffer(await reader.open({ digest, size }))).equals(content));
    assert.ok((await buffer(await reader.open({ digest }))).equals(content));
  });
}

test("serves ranges by their first and last byte", async () => {
  const { reader, store } = shared;
  const digest = store(LARGE);
  const end = LARGE.length - 1;
  for (const [from, to] of [
    [0, 0],
    [5, 5],
    [0, end],
    [1, end],
    [end, end],
    [CHUNK - 1, CHUNK],
    [CHUNK, 3 * CHUNK - 1],
    [7, 900_001],
  ] as const) {
    const part = await buffer(await reader.open({ digest, start: from, end: to }));
    assert.ok(part.equals(LARGE.subarray(from, to + 1)), `${from}-${to}`);
  }
  assert.ok((await buffer(await reader.open({ digest, start: 100 }))).equals(LARGE.subarray(100)));
  assert.ok((await buffer(await reader.open({ digest, end: 99 }))).equals(LARGE.subarray(0, 100)));
});

test("refuses ranges that are invalid or outside of the file", async () => {
  const { reader, store } = shared;
  const digest = store(contentOf(100));
  for (const range of [
    { start: -1 },
    { start: 5, end: 4 },
    { start: 0.5 },
    { start: Number.NaN },
    { end: Number.NaN },
    { end: 100 },
    { start: 101 },
  ]) {
    assert.instance(await rejection(reader.open({ digest, ...range })), RangeError, JSON.stringify(range));
  }
  for (const malformed of ["", "../../etc/passwd", "A".repeat(64)]) {
    assert.instance(await rejection(reader.open({ digest: malformed })), RangeError);
  }
});

test("twenty concurrent streams share one thread and do not mix", async () => {
  const { reader, store, workers } = shared;
  const contents = Array.from({ length: 20 }, (_, n) => contentOf(n * 40_000 + 13, n));
  const digests = contents.map((content) => store(content));
  const received = await Promise.all(digests.map(async (digest) => buffer(await reader.open({ digest }))));
  assert.ok(received.every((bytes, n) => bytes.equals(contents[n] as Buffer)));
  assert.is(workers.length, 1);
});

test("reports a file that does not exist as missing", async () => {
  const { reader } = shared;
  const digest = digestOf(Buffer.from("never stored"));
  const error = await rejection(reader.open({ digest }));
  assert.instance(error, MissingEvidenceError);
  assert.is((error as MissingEvidenceError).digest, digest);
});

test("refuses a file of another size than promised before its first byte", async () => {
  const { reader, store } = shared;
  const digest = store(contentOf(100));
  for (const request of [
    { digest, size: 101 },
    { digest, size: 99, start: 0, end: 5 },
  ]) {
    const error = await rejection(reader.open(request));
    assert.instance(error, DamagedEvidenceError);
    assert.is(error.message, `evidence ${digest} is damaged: it has 100 bytes instead of ${request.size}`);
  }
});

for (const size of [0, 10, CHUNK, LARGE.length]) {
  test(`a damaged file of ${size} bytes fails before its last bytes`, async () => {
    const { reader, store } = shared;
    const damaged = Buffer.from(LARGE.subarray(0, size));
    if (size > 0) damaged[0] = (damaged[0] ?? 0) ^ 1;
    const digest = store(damaged, digestOf(Buffer.from("something else")));
    const { error, received } = await failure(await reader.open({ digest, size }));
    assert.instance(error, DamagedEvidenceError);
    assert.is(error.message, `evidence ${digest} is damaged: its content has the digest ${digestOf(damaged)}`);
    assert.ok(received.length < size || size === 0);
  });
}

test("verifies a range that covers the whole file", async () => {
  const { reader, store } = shared;
  const digest = store(contentOf(1000), digestOf(Buffer.from("something else")));
  assert.instance((await failure(await reader.open({ digest, start: 0, end: 999 }))).error, DamagedEvidenceError);
});

test("refuses every range of a small damaged file before its first byte", async () => {
  const { reader, store, root } = shared;
  const content = contentOf(100_000, 5);
  const digest = store(content);
  assert.equal(await buffer(await reader.open({ digest, start: 10, end: 19 })), content.subarray(10, 20));
  // Another file under the name, and one that was changed in place.
  for (const change of [
    () => store(contentOf(100_000, 6), digest),
    () => writeFileSync(evidencePath(root, digest), contentOf(100_000, 7)),
  ]) {
    change();
    for (const range of [{ start: 0, end: 998 }, { start: 99_999 }]) {
      const error = await rejection(reader.open({ digest, ...range }));
      assert.instance(error, DamagedEvidenceError);
      assert.match(error.message, "its content has the digest");
    }
  }
  store(content, digest);
  assert.equal(await buffer(await reader.open({ digest, start: 99_990 })), content.subarray(99_990));
});

test("sends ranges of a large file unchecked", async () => {
  const { reader, store } = shared;
  const content = contentOf(4 * 1024 * 1024 + 1, 8);
  const digest = store(content, digestOf(Buffer.from("another large file")));
  assert.equal(await buffer(await reader.open({ digest, start: 5, end: 14 })), content.subarray(5, 15));
});

test("fails when a file shrinks while it is read", async () => {
  const { reader, store, root } = shared;
  const digest = store(LARGE);
  const stream = await reader.open({ digest, start: 1 });
  const fd = openSync(evidencePath(root, digest), "r+");
  ftruncateSync(fd, 6 * CHUNK);
  closeSync(fd);
  const { error } = await failure(stream);
  assert.instance(error, DamagedEvidenceError);
  assert.match(error.message, `it ends after ${6 * CHUNK} bytes`);
});

test("passes on the code of system errors", async () => {
  const { reader, root } = shared;
  const digest = digestOf(Buffer.from("a directory"));
  mkdirSync(evidencePath(root, digest), { recursive: true });
  const error = await rejection(reader.open({ digest, start: 0, end: 5 }));
  assert.is(error.code, "EISDIR");
});

test("a client that disconnects ends the read and closes the descriptor", async () => {
  const { reader, store, settle } = shared;
  const digest = store(LARGE);
  await settle();
  const before = descriptors();
  const idle = await reader.open({ digest });
  const streams = [idle, ...(await Promise.all([1, 2, 3].map(() => reader.open({ digest }))))];
  assert.is(descriptors(), before + 4);
  for (const stream of streams.slice(1)) {
    for await (const chunk of stream) {
      assert.is(chunk.length, CHUNK);
      break;
    }
    assert.ok(stream.destroyed);
  }
  await settle();
  assert.is(descriptors(), before + 1);
  idle.destroy();
  await settle();
  assert.is(descriptors(), before);
});

test("an error is kept until the stream is read", async () => {
  const { reader, store, settle } = shared;
  const digest = store(contentOf(1000, 3), digestOf(Buffer.from("no listener yet")));
  const stream = await reader.open({ digest });
  await settle();
  assert.not.ok(stream.destroyed);
  assert.instance((await failure(stream)).error, DamagedEvidenceError);
});

test("every stream that ended has closed its descriptor", async () => {
  const { reader, store, settle } = shared;
  const whole = store(LARGE);
  const damaged = store(LARGE, digestOf(Buffer.from("something else")));
  await settle();
  const before = descriptors();
  await buffer(await reader.open({ digest: whole }));
  await failure(await reader.open({ digest: damaged }));
  await rejection(reader.open({ digest: whole, size: 5 }));
  await rejection(reader.open({ digest: whole, start: LARGE.length + 1 }));
  await settle();
  assert.is(descriptors(), before);
});

test("a client that does not read blocks no other, and receives everything once it reads", async () => {
  const { reader, store } = shared;
  const digest = store(LARGE);
  const slow = await reader.open({ digest });
  assert.ok((await buffer(await reader.open({ digest }))).equals(LARGE));
  assert.ok((await buffer(slow)).equals(LARGE));
});

test("a dying thread fails its streams and closes its descriptors; the next stream starts a new thread", async () => {
  const { reader, store, workers, settle } = givenReader();
  const digest = store(LARGE);
  await settle();
  const streams = await Promise.all([1, 2].map(() => reader.open({ digest })));
  const failures = Promise.all(streams.map(failure));
  const opening = rejection(reader.open({ digest: "1".repeat(64) }));
  await workers[0]?.terminate();
  for (const { error } of await failures) assert.instance(error, EvidenceWorkerError);
  await opening;
  assert.ok((await buffer(await reader.open({ digest }))).equals(LARGE));
  assert.is(workers.length, 2);
  await reader.close();
});

test("every attempt fails while the thread cannot be started", async () => {
  const entries = ["throw new Error('broken entry')", null];
  const reader = createEvidenceReader({
    root: givenRoot(),
    start(options) {
      const source = entries.shift() ?? null;
      if (source === null) throw new Error("no threads left");
      return new Worker(source, { ...options, eval: true });
    },
  });
  const broken = await rejection(reader.open({ digest: "1".repeat(64) }));
  assert.instance(broken, EvidenceWorkerError);
  assert.is((broken.cause as Error).message, "broken entry");
  const none = await rejection(reader.open({ digest: "1".repeat(64) }));
  assert.instance(none, EvidenceWorkerError);
  assert.is((none.cause as Error).message, "no threads left");
  await reader.close();
});

test("close fails open streams, ends the thread and refuses later calls", async () => {
  const { reader, store, workers } = givenReader();
  const digest = store(LARGE);
  const open = failure(await reader.open({ digest }));
  await reader.close();
  assert.instance((await open).error, EvidenceWorkerError);
  assert.is(workers[0]?.threadId, -1);
  assert.instance(await rejection(reader.open({ digest })), EvidenceWorkerError);
  await reader.close();
});

test("streaming 1 GB needs less than 50 MB", async () => {
  const { reader, root } = givenReader(givenMemoryRoot());
  const size = 2 ** 30;
  // SHA-256 of that many zeros: the file is a hole and costs no disk.
  const digest = "49bc20df15e412a64472421e13fe86ff1c5165e18b2afccf160d4dc19fe68a14";
  mkdirSync(dirname(evidencePath(root, digest)));
  const fd = openSync(evidencePath(root, digest), "w");
  ftruncateSync(fd, size);
  closeSync(fd);
  await buffer(await reader.open({ digest, start: 0, end: 9 }));
  const before = process.memoryUsage.rss();
  let highest = before;
  let received = 0;
  const client = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      received += chunk.length;
      highest = Math.max(highest, process.memoryUsage.rss());
      setImmediate(callback);
    },
  });
  await pipeline(await reader.open({ digest, size }), client);
  assert.is(received, size);
  assert.ok(highest - before < 50_000_000, `${highest - before} bytes more`);
  await reader.close();
});

test.run();
