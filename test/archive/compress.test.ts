import { gunzipSync, gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { gunzipWhole, gzipWhole } from "../../src/archive/compress.ts";

const test = suite("archive/compress");

const SMALL = "a little ".repeat(10);
const LARGE = Array.from({ length: 20_000 }, (_, n) => `line ${n} of many\n`).join("");

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => null,
    (error: unknown) => error,
  );

test("a small text is compressed at once, a large one in the thread pool", async () => {
  const small = gzipWhole(SMALL);
  assert.ok(Buffer.isBuffer(small));
  assert.equal(gunzipSync(small).toString(), SMALL);
  const large = gzipWhole(LARGE, { level: 9 });
  assert.not.ok(Buffer.isBuffer(large));
  assert.equal(await large, gzipSync(LARGE, { level: 9 }));
});

test("what was compressed is unpacked to the byte", async () => {
  for (const text of [SMALL, LARGE])
    assert.equal((await gunzipWhole(gzipSync(text), text.length)).toString(), text, `${text.length} characters`);
});

test("one byte more than the limit is a RangeError, however small the compressed form is", async () => {
  const bomb = gzipSync(Buffer.alloc(1 << 20));
  assert.ok(bomb.length < 2_000);
  for (const packed of [bomb, gzipSync(LARGE)]) {
    const { length } = gunzipSync(packed);
    assert.instance(await failureOf(gunzipWhole(packed, length - 1)), RangeError);
  }
  assert.ok(gzipSync(LARGE).length > 16_384);
});

test("bytes that are no gzip stream are an error", async () => {
  for (const length of [10, 100_000])
    assert.match(String(await failureOf(gunzipWhole(Buffer.alloc(length, 7), 1_000))), /incorrect header check/);
});

test.run();
