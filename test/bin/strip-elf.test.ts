import { readFileSync } from "node:fs";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { stripElf } from "../../bin/strip-elf.ts";

const test = suite("bin/strip-elf");

test("keeps every loaded byte of Node in its place and drops more than ten megabytes", () => {
  const image = readFileSync(process.execPath);
  const stripped = stripElf(image);
  assert.ok(image.length - stripped.length > 10e6, `${image.length} -> ${stripped.length} bytes`);
  const segments = Number(image.readBigUInt64LE(32));
  for (let index = 0; index < image.readUInt16LE(56); index++) {
    const entry = segments + index * image.readUInt16LE(54);
    const offset = Number(image.readBigUInt64LE(entry + 8));
    const end = offset + Number(image.readBigUInt64LE(entry + 32));
    // The file header is in the first segment; only its three fields about sections (40..48, 58..64) may differ.
    const from = Math.max(offset, 64);
    assert.is(Buffer.compare(stripped.subarray(from, end), image.subarray(from, end)), 0, `segment ${index}`);
  }
  assert.equal(stripElf(stripped), stripped, "a second time changes nothing");
});

for (const [what, image] of [
  ["an empty file", Buffer.alloc(0)],
  ["a script", Buffer.from("#!/bin/sh\n".padEnd(100))],
  ["a 32-bit file", Buffer.from(Uint8Array.of(0x7f, 0x45, 0x4c, 0x46, 1, 1, ...new Array<number>(100).fill(0)))],
] as const) {
  test(`refuses ${what}`, () => {
    assert.throws(
      () => stripElf(image),
      (error: Error) => error.message === "not a 64-bit little-endian ELF file",
    );
  });
}

test.run();
