import { statSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { TooLargeError } from "../../src/evidence/errors.ts";
import { chunks, contentOf, digestOf, givenRoot, givenVault, rejection, removeRoots, watchedDisk } from "./given.ts";

const KB = 1024;
/** Held in memory; exactly at the boundary; one byte over it; several blocks of a file and an odd rest. */
const SIZES = [0, 1, 999, 128 * KB, 128 * KB + 1, 256 * KB, 700_001];
const LARGE = 300 * KB;

const test = suite("vault: stage");
test.after(removeRoots);

for (const size of SIZES) {
  test(`content of ${size} bytes is received, published and verified`, async () => {
    const { vault, files, leftovers } = givenVault();
    const content = contentOf(size);
    const staged = await vault.stage(chunks(content), { limit: size });
    assert.is(staged.digest, digestOf(content));
    assert.is(staged.size, size);
    assert.equal(files(), []);
    await vault.publish([staged]);
    assert.equal(files(), [staged.digest]);
    assert.equal(leftovers(), []);
    assert.equal(await vault.describe(staged.digest), { size });
    assert.is(await vault.verify(staged.digest), "ok");
    await vault.close();
  });

  if (size > 0) {
    test(`content of ${size} bytes does not pass a limit of one byte less, and leaves nothing`, async () => {
      const { vault, leftovers } = givenVault();
      const source = Readable.from(chunks(contentOf(size)), { objectMode: false });
      const error = await rejection(vault.stage(source, { limit: size - 1 }));
      assert.instance(error, TooLargeError);
      assert.is((error as TooLargeError).limit, size - 1);
      assert.equal(leftovers(), []);
      assert.ok(source.destroyed);
      await vault.close();
    });
  }
}

test("the limit strikes before the rest of an endless source is read", async () => {
  const { vault, leftovers } = givenVault();
  let given = 0;
  async function* endless() {
    for (;;) {
      given += 1;
      yield Buffer.alloc(64 * KB);
    }
  }
  assert.instance(await rejection(vault.stage(endless(), { limit: LARGE })), TooLargeError);
  assert.is(given, 5);
  assert.equal(leftovers(), []);
  await vault.close();
});

for (const size of [10, LARGE]) {
  test(`a source that fails after ${size} bytes leaves nothing and its error comes through`, async () => {
    const { vault, leftovers } = givenVault();
    async function* failing() {
      yield contentOf(size);
      throw new Error("the client's disk is gone");
    }
    const error = await rejection(vault.stage(failing(), { limit: LARGE }));
    assert.is(error.message, "the client's disk is gone");
    assert.equal(leftovers(), []);
    await vault.close();
  });

  test(`a stream destroyed after ${size} bytes, without an error, leaves nothing`, async () => {
    const { vault, leftovers } = givenVault();
    const source = new PassThrough();
    const receiving = rejection(vault.stage(source, { limit: LARGE }));
    source.write(contentOf(size), () => source.destroy());
    assert.is((await receiving).code, "ERR_STREAM_PREMATURE_CLOSE");
    assert.equal(leftovers(), []);
    await vault.close();
  });
}

test("a stream that was destroyed before is refused", async () => {
  const { vault, leftovers } = givenVault();
  const source = new PassThrough();
  source.destroy();
  assert.is((await rejection(vault.stage(source, { limit: 10 }))).code, "ERR_STREAM_PREMATURE_CLOSE");
  assert.equal(leftovers(), []);
  await vault.close();
});

for (const step of ["open staging", "write staging"]) {
  test(`a full disk at "${step}" leaves nothing`, async () => {
    const root = givenRoot();
    const disk = watchedDisk(root, (call) => {
      if (call.startsWith(step)) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    });
    const { vault, leftovers } = givenVault({ root, disk });
    assert.is((await rejection(vault.stage(chunks(contentOf(LARGE)), { limit: LARGE }))).code, "ENOSPC");
    assert.equal(leftovers(), []);
    const small = await vault.stage(chunks(contentOf(10)), { limit: LARGE });
    assert.is((await rejection(vault.publish([small]))).code, "ENOSPC");
    assert.equal(leftovers(), []);
    await vault.close();
  });
}

test("small content beyond the memory that may be held goes to files, and all of it arrives", async () => {
  const { vault, leftovers, files } = givenVault();
  const staged = [];
  for (let seed = 0; seed < 130; seed += 1) {
    const content = Buffer.alloc(128 * KB, seed);
    staged.push(await vault.stage(chunks(content, 128 * KB), { limit: 128 * KB }));
  }
  assert.is(leftovers().length, 2);
  await vault.publish(staged);
  assert.equal(leftovers(), []);
  assert.equal(files().sort(), staged.map(({ digest }) => digest).sort());
  await vault.discard([await vault.stage(chunks(contentOf(10)), { limit: 10 })]);
  assert.equal(leftovers(), []);
  await vault.close();
});

test("directories and files are the owner's only, and files are read-only", async () => {
  const { vault, directory, staging, pathOf, store } = givenVault();
  for (const size of [10, LARGE]) {
    const digest = await store(contentOf(size));
    assert.is(statSync(pathOf(digest)).mode & 0o777, 0o400);
    assert.is(statSync(join(directory, digest.slice(0, 2))).mode & 0o777, 0o700);
  }
  assert.is(statSync(directory).mode & 0o777, 0o700);
  assert.is(statSync(staging).mode & 0o777, 0o700);
  await vault.close();
});

test.run();
