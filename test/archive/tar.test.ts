/** Other programs read our archives: GNU tar and tar-stream, gzip and zlib. */
import { execFileSync } from "node:child_process";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { gzip } from "../../src/archive/gzip.ts";
import { tar } from "../../src/archive/tar.ts";
import { untar } from "../audit-packages/unpack.ts";

const test = suite("archive/tar");

const entry = (name: string, content: string | Buffer, mtime = 1_700_000_000.75) => {
  const bytes = Buffer.from(content);
  return { name, size: bytes.length, mtime, content: [bytes] };
};
const concat = (pieces: Iterable<Uint8Array>): Buffer => Buffer.concat([...pieces].map((piece) => Buffer.from(piece)));

const NAMES = [
  "a.txt",
  "directory/b",
  "x".repeat(100),
  "x".repeat(101),
  `${"d".repeat(90)}/${"e".repeat(90)}`,
  "ünïcödé/日本.xml",
  "emoji 😀",
  `${"é".repeat(60)}.txt`,
  "spaces and 'quotes'",
];

test("stores names of any length and script, with owner, mode and time", async () => {
  const bytes = concat(tar(NAMES.map((name) => entry(name, name))));
  assert.is(bytes.length % 512, 0);
  const members = await untar(bytes);
  assert.equal(members.names, NAMES);
  for (const name of NAMES) {
    assert.is(members.text(name), name);
    const { mode, uid, gid, mtime } = members.headers.get(name) as {
      mode: number;
      uid: number;
      gid: number;
      mtime: Date;
    };
    assert.equal(
      { mode, uid, gid, mtimeMs: mtime.getTime() },
      { mode: 0o644, uid: 0, gid: 0, mtimeMs: 1_700_000_000_000 },
    );
  }
  assert.equal(
    execFileSync("tar", ["--quoting-style=literal", "-tf", "-"], {
      input: bytes,
      env: { ...process.env, LC_ALL: "C.UTF-8" },
    })
      .toString()
      .split("\n")
      .slice(0, -1),
    NAMES,
  );
});

for (const size of [0, 1, 511, 512, 513, 100_000])
  test(`pads a member of ${size} bytes`, async () => {
    const content = Buffer.alloc(size, "x");
    const members = await untar(concat(tar([entry("first", content), entry("second", "second")])));
    assert.ok(members.bytes("first").equals(content));
    assert.is(members.text("second"), "second");
  });

test("stores a size above eight gigabytes in a pax record", () => {
  const size = 10 * 2 ** 30;
  const archive = tar([{ name: "large", size, mtime: 0, content: [] }]);
  const head = Buffer.concat(
    [archive.next().value, archive.next().value, archive.next().value].map((piece) => Buffer.from(piece as Uint8Array)),
  );
  assert.match(head.toString("latin1", 512, 1024), `20 size=${size}\n`);
  assert.throws(() => archive.next(), /'large' has 0 bytes instead of/);
});

test("clamps times before 1970 and beyond the range of a header", async () => {
  const members = await untar(concat(tar([entry("early", "", -5), entry("late", "", 1e15)])));
  assert.equal(
    ["early", "late"].map((name) => (members.headers.get(name)?.mtime?.getTime() ?? Number.NaN) / 1000),
    [0, 0o77777777777],
  );
});

test("throws when the content does not have the declared size", () => {
  assert.throws(
    () => concat(tar([{ ...entry("a", "four"), size: 5 }])),
    (error: Error) => error.message === "'a' has 4 bytes instead of 5",
  );
});

/** Pieces of that size, all in the same memory. */
function* inOneBuffer(content: Buffer, size: number): Generator<Uint8Array> {
  const memory = Buffer.alloc(size);
  for (let start = 0; start < content.length; start += size)
    yield memory.subarray(0, content.copy(memory, 0, start, start + size));
}
const noise = Buffer.alloc(900_000);
for (let index = 0, state = 1; index < noise.length; index += 1)
  noise[index] = (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) >>> 24;
const text = Buffer.from(
  Array.from({ length: 40_000 }, (_, line) => `line ${line}: ${Math.imul(line, 7919)}\n`).join(""),
);

for (const [what, content] of Object.entries({
  nothing: Buffer.alloc(0),
  "one byte": Buffer.from("x"),
  text,
  noise,
  both: Buffer.concat([text.subarray(0, 300_001), noise, text]),
}))
  test(`gzip: zlib and gzip restore ${what}`, () => {
    const packed = concat(gzip(inOneBuffer(content, 77_777)));
    assert.ok(gunzipSync(packed).equals(content));
    assert.ok(execFileSync("gzip", ["-dc"], { input: packed, maxBuffer: 1 << 26 }).equals(content));
    assert.ok(packed.equals(concat(gzip(inOneBuffer(content, 1_000_000)))), "how the input is cut changes nothing");
    assert.equal([...packed.subarray(0, 10)], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
  });

test("gzip: compresses text, and hardly enlarges incompressible bytes", () => {
  assert.ok(concat(gzip([text])).length < text.length / 3);
  assert.ok(concat(gzip([noise])).length < noise.length + 500);
});

test("an abandoned archive closes the content that it was reading", () => {
  let ended = false;
  function* content() {
    try {
      for (;;) yield new Uint8Array(100_000);
    } finally {
      ended = true;
    }
  }
  const bytes = gzip(tar([{ name: "endless", size: 1e12, mtime: 0, content: content() }]));
  bytes.next();
  bytes.next();
  bytes.return();
  assert.ok(ended);
});

test.run();
