import { createHash, randomBytes } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openHashing } from "../../src/server/worker-threads.ts";
import { HashingError } from "../../src/evidence/hashing.ts";

const test = suite("evidence/hash-threads");
const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
/** A buffer that owns its memory. */
const block = (bytes: Buffer): Buffer => {
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
};

test("hashes several contents concurrently and returns each block unchanged", async () => {
  const hashing = openHashing();
  const contents = Array.from({ length: 5 }, () => Array.from({ length: 8 }, () => randomBytes(10_000)));
  const digests = await Promise.all(
    contents.map(async (pieces) => {
      const hash = hashing.begin();
      for (const piece of pieces) {
        const given = block(piece);
        const back = await hash.update(given, 9_000);
        assert.is(given.length, 0, "its memory moved");
        assert.ok(back.equals(piece));
      }
      return hash.digest();
    }),
  );
  assert.equal(
    digests,
    contents.map((pieces) => sha256(Buffer.concat(pieces.map((piece) => piece.subarray(0, 9_000))))),
  );
  await hashing.close();
});

test("hashes empty content", async () => {
  const hashing = openHashing();
  assert.is(await hashing.begin().digest(), sha256(Buffer.alloc(0)));
  await hashing.close();
});

test("content fails once it is abandoned or the thread is closed", async () => {
  const hashing = openHashing();
  const [begun, abandoned] = [hashing.begin(), hashing.begin()];
  await begun.update(block(Buffer.from("a")), 1);
  abandoned.abandon();
  abandoned.abandon();
  const fails = (work: Promise<unknown>) =>
    work.then(
      () => null,
      (error: unknown) => error,
    );
  assert.instance(await fails(abandoned.update(block(Buffer.from("b")), 1)), HashingError);
  await hashing.close();
  assert.instance(await fails(begun.digest()), HashingError);
});

test.run();
