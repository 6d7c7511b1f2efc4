import { statSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { TooLargeError } from "../../src/evidence/errors.ts";
import {
  chunks,
  contentOf,
  digestOf,
  givenRoot,
  givenLocalStore,
  rejection,
  removeRoots,
  interceptedDisk,
} from "./given.ts";

const KB = 1024;
/** In memory, exactly at its limit, one byte over it, one file block, several blocks and a remainder. */
const SIZES = [0, 1, 999, 128 * KB, 128 * KB + 1, 256 * KB, 700_001];
const LARGE = 300 * KB;

const test = suite("evidence/stage");
test.after(removeRoots);

for (const size of SIZES) {
  test(`content of ${size} bytes is received, published and verified`, async () => {
    const { store, files, leftovers } = givenLocalStore();
    const content = contentOf(size);
    const staged = await store.stage(chunks(content), { limit: size });
    assert.is(staged.digest, digestOf(content));
    assert.is(staged.size, size);
    assert.equal(files(), []);
    await store.publish([staged]);
    assert.equal(files(), [staged.digest]);
    assert.equal(leftovers(), []);
    assert.equal(await store.describe(staged.digest), { size });
    assert.is(await store.verify(staged.digest), "ok");
    await store.close();
  });

  if (size > 0) {
    test(`content of ${size} bytes exceeds a limit of one byte less, and leaves nothing`, async () => {
      const { store, leftovers } = givenLocalStore();
      const source = Readable.from(chunks(contentOf(size)), { objectMode: false });
      const error = await rejection(store.stage(source, { limit: size - 1 }));
      assert.instance(error, TooLargeError);
      assert.is((error as TooLargeError).limit, size - 1);
      assert.equal(leftovers(), []);
      assert.ok(source.destroyed);
      await store.close();
    });
  }
}

test("stops reading an endless source at the limit", async () => {
  const { store, leftovers } = givenLocalStore();
  let given = 0;
  async function* endless() {
    for (;;) {
      given += 1;
      yield Buffer.alloc(64 * KB);
    }
  }
  assert.instance(await rejection(store.stage(endless(), { limit: LARGE })), TooLargeError);
  assert.is(given, 5);
  assert.equal(leftovers(), []);
  await store.close();
});

for (const size of [10, LARGE]) {
  test(`a source that fails after ${size} bytes leaves nothing, and its error is passed on`, async () => {
    const { store, leftovers } = givenLocalStore();
    async function* failing() {
      yield contentOf(size);
      throw new Error("the client's disk is gone");
    }
    const error = await rejection(store.stage(failing(), { limit: LARGE }));
    assert.is(error.message, "the client's disk is gone");
    assert.equal(leftovers(), []);
    await store.close();
  });

  test(`a stream destroyed after ${size} bytes, without an error, leaves nothing`, async () => {
    const { store, leftovers } = givenLocalStore();
    const source = new PassThrough();
    const receiving = rejection(store.stage(source, { limit: LARGE }));
    source.write(contentOf(size), () => source.destroy());
    assert.is((await receiving).code, "ERR_STREAM_PREMATURE_CLOSE");
    assert.equal(leftovers(), []);
    await store.close();
  });
}

test("refuses a stream that was destroyed before", async () => {
  const { store, leftovers } = givenLocalStore();
  const source = new PassThrough();
  source.destroy();
  assert.is((await rejection(store.stage(source, { limit: 10 }))).code, "ERR_STREAM_PREMATURE_CLOSE");
  assert.equal(leftovers(), []);
  await store.close();
});

for (const size of SIZES) {
  test(`content of ${size} bytes in memory is staged as the same content from a stream, and copied`, async () => {
    const { store, files, leftovers } = givenLocalStore();
    const bytes = contentOf(size);
    const digest = digestOf(bytes);
    const staged = await store.stageBytes(bytes);
    bytes.fill(0);
    assert.equal({ digest: staged.digest, size: staged.size }, { digest, size });
    await store.publish([staged]);
    assert.equal(files(), [digest]);
    assert.is(await store.verify(digest), "ok");
    await store.discard([await store.stageBytes(contentOf(size))]);
    assert.equal(leftovers(), []);
    await store.close();
    assert.is((await rejection(store.stageBytes(bytes))).message, "the evidence store is closed");
  });
}

for (const step of ["open staging", "write staging"]) {
  test(`a full disk at "${step}" leaves nothing`, async () => {
    const root = givenRoot();
    const disk = interceptedDisk(root, (call) => {
      if (call.startsWith(step)) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    });
    const { store, leftovers } = givenLocalStore({ root, disk });
    assert.is((await rejection(store.stage(chunks(contentOf(LARGE)), { limit: LARGE }))).code, "ENOSPC");
    assert.is((await rejection(store.stageBytes(contentOf(LARGE)))).code, "ENOSPC");
    assert.equal(leftovers(), []);
    const small = await store.stage(chunks(contentOf(10)), { limit: LARGE });
    assert.is((await rejection(store.publish([small]))).code, "ENOSPC");
    assert.equal(leftovers(), []);
    await store.close();
  });
}

test("small content beyond the memory limit goes to files and is stored completely", async () => {
  const { store, leftovers, files } = givenLocalStore();
  const staged = [];
  for (let seed = 0; seed < 130; seed += 1) {
    const content = Buffer.alloc(128 * KB, seed);
    staged.push(await store.stage(chunks(content, 128 * KB), { limit: 128 * KB }));
  }
  assert.is(leftovers().length, 2);
  await store.publish(staged);
  assert.equal(leftovers(), []);
  assert.equal(files().sort(), staged.map(({ digest }) => digest).sort());
  await store.discard([await store.stage(chunks(contentOf(10)), { limit: 10 })]);
  assert.equal(leftovers(), []);
  await store.close();
});

test("only the owner can access directories and files, and files are read-only", async () => {
  const { store, directory, staging, pathOf, put } = givenLocalStore();
  for (const size of [10, LARGE]) {
    const digest = await put(contentOf(size));
    assert.is(statSync(pathOf(digest)).mode & 0o777, 0o400);
    assert.is(statSync(join(directory, digest.slice(0, 2))).mode & 0o777, 0o700);
  }
  assert.is(statSync(directory).mode & 0o777, 0o700);
  assert.is(statSync(staging).mode & 0o777, 0o700);
  await store.close();
});

test.run();
