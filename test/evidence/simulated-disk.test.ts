/**
 * The simulated disk of the power cuts (test/crash): what survives a cut, from traces written by hand, and that the
 * recorder sees every change that a program makes.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { LOSSES, RECORDER_SOURCE, filesOf, inodesOf, simulateDisk } from "../crash/simulated-disk.ts";
import type { Loss, Pretends } from "../crash/simulated-disk.ts";
import { randomOf } from "../crash/load.ts";

const test = suite("evidence/simulated-disk");
let directory = "";
test.before.each(() => {
  directory = mkdtempSync(join(tmpdir(), "assay-disk-"));
  mkdirSync(join(directory, "empty"));
});
test.after.each(() => rmSync(directory, { recursive: true }));

const ROOT = "/disk";
const [CREATE, MKDIR, WRITE, TRUNCATE, SYNC_BEGIN, SYNC_END, RENAME, UNLINK] = [1, 2, 3, 4, 5, 6, 7, 9];
type Step = { kind: number; file?: number; at?: number; path?: string; other?: string; data?: string | Buffer };

/** A record in the format of record-disk.c. */
function recordOf({ kind, file = 0, at = 0, path = "", other = "", data = "" }: Step): Buffer {
  const head = Buffer.alloc(25);
  const parts = [Buffer.from(path), Buffer.from(other), Buffer.from(data)];
  head.writeUInt32LE(25 + parts.reduce((sum, part) => sum + part.length, 0), 0);
  head.writeUInt8(kind, 4);
  head.writeBigUInt64LE(BigInt(file), 5);
  head.writeBigUInt64LE(BigInt(at), 13);
  head.writeUInt16LE(parts[0]?.length ?? 0, 21);
  head.writeUInt16LE(parts[1]?.length ?? 0, 23);
  return Buffer.concat([head, ...parts]);
}

/** A sync of a file by its inode. */
const ROOT_INODE = 1;
let syncs = 0;
const sync = (file: number): Step[] => [
  { kind: SYNC_BEGIN, file, at: (syncs += 1) },
  { kind: SYNC_END, file, at: syncs },
];
const create = (file: number, name: string): Step => ({ kind: CREATE, file, path: `${ROOT}/${name}` });
const write = (file: number, data: string | Buffer, at = 0): Step => ({ kind: WRITE, file, at, data });

/** The files that survive a cut after these steps. */
function left(
  steps: readonly Step[],
  loss: Loss = "all",
  { random = () => 0.9, pretends }: { random?: () => number; pretends?: Pretends } = {},
): Record<string, string> {
  const target = join(directory, `cut-${(syncs += 1)}`);
  const base = { path: join(directory, "empty"), inodes: new Map([["", BigInt(ROOT_INODE)]]) };
  simulateDisk({
    trace: Buffer.concat(steps.map(recordOf)),
    root: ROOT,
    base,
    ...(pretends ? { pretends } : {}),
  }).writeTo(target, loss, random);
  return Object.fromEntries([...filesOf(target)].map(([name, bytes]) => [name, bytes.toString()]));
}

test("a synced file is lost while its name in the directory is not synced", () => {
  const steps = [create(2, "a"), write(2, "content"), ...sync(2)];
  assert.equal(left(steps), {});
  assert.equal(left(steps, "nothing"), { a: "content" });
  assert.equal(left([...steps, ...sync(ROOT_INODE)]), { a: "content" });
});

test("a synced name keeps only synced content", () => {
  const named = [create(2, "a"), write(2, "first"), ...sync(ROOT_INODE)];
  assert.equal(left(named), { a: "" });
  assert.equal(left([...named, ...sync(2), write(2, " second", 5)]), { a: "first" });
  assert.equal(left([...named, ...sync(2), { kind: TRUNCATE, file: 2, at: 2 }]), { a: "first" });
  assert.equal(left([...named, ...sync(2), { kind: TRUNCATE, file: 2, at: 2 }, ...sync(2)]), { a: "fi" });
});

test("a sync does not cover writes that happen while it runs", () => {
  const [begin, end] = sync(2) as [Step, Step];
  assert.equal(left([create(2, "a"), ...sync(ROOT_INODE), write(2, "one"), begin, write(2, "two"), end]), { a: "one" });
});

test("a directory whose parent was not synced is lost with its content", () => {
  const steps = [{ kind: MKDIR, file: 2, path: `${ROOT}/d` }, create(3, "d/a"), write(3, "x"), ...sync(3), ...sync(2)];
  assert.equal(left(steps), {});
  assert.equal(left([...steps, ...sync(ROOT_INODE)]), { "d/a": "x" });
});

test("a rename within a directory is atomic", () => {
  const steps = [
    create(2, "old"),
    create(3, "new"),
    write(2, "2"),
    write(3, "3"),
    ...sync(2),
    ...sync(3),
    ...sync(ROOT_INODE),
    { kind: RENAME, path: `${ROOT}/new`, other: `${ROOT}/old` },
  ];
  assert.equal(left(steps), { old: "2", new: "3" });
  assert.equal(left(steps, "any part", { random: () => 0.9 }), { old: "3" });
  assert.equal(left(steps, "any part", { random: () => 0.1 }), { old: "2", new: "3" });
  assert.equal(left([...steps, ...sync(ROOT_INODE)]), { old: "3" });
});

test("each 512-byte sector of an unsynced write is kept or lost independently", () => {
  const steps = [
    create(2, "a"),
    write(2, Buffer.alloc(2048, "o")),
    ...sync(2),
    ...sync(ROOT_INODE),
    write(2, Buffer.alloc(1024, "n"), 256),
  ];
  const turns = [0.1, 0.9, 0.1];
  const { a = "" } = left(steps, "any part", { random: () => turns.shift() ?? 0.9 });
  assert.is(a, "o".repeat(256) + "n".repeat(256) + "o".repeat(512) + "n".repeat(256) + "o".repeat(768));
});

test("changes of one name are kept in order, never a later one without an earlier one", () => {
  const steps = [
    create(2, "a"),
    write(2, "2"),
    ...sync(2),
    { kind: UNLINK, path: `${ROOT}/a` },
    create(3, "a"),
    write(3, "3"),
    ...sync(3),
  ];
  const outcomes = new Set<string>();
  const random = randomOf(4);
  for (let round = 0; round < 50; round += 1) outcomes.add(JSON.stringify(left(steps, "any part", { random })));
  assert.equal([...outcomes].sort(), ['{"a":"2"}', '{"a":"3"}', "{}"]);
});

test("a disk that only pretends to sync loses synced data", () => {
  const steps = [
    create(2, "a"),
    write(2, "x"),
    ...sync(2),
    create(3, "b"),
    write(3, "y"),
    ...sync(3),
    ...sync(ROOT_INODE),
  ];
  assert.equal(left(steps, "all", { pretends: (path) => path === "/a" }), { a: "", b: "y" });
  assert.equal(left(steps, "all", { pretends: () => true }), {});
});

test("an inconsistent trace is an error", () => {
  assert.throws(() => left([write(9, "x")]), /a write of inode 9, which was never made/);
  assert.throws(() => left([{ kind: 13, path: `${ROOT}/a` }]), /a change that the simulation does not know/);
});

const PROGRAM = `
  const fs = require("node:fs");
  process.chdir(process.argv[1]);
  const root = process.argv[1];
  fs.mkdirSync(root + "/made/below", { recursive: true });
  fs.writeFileSync("made/relative.txt", "a".repeat(5000));
  fs.appendFileSync(root + "/was-here.txt", " and more");
  const fd = fs.openSync(root + "/made/places", "w+");
  fs.writeSync(fd, Buffer.from("placed"), 0, 6, 4096);
  fs.writevSync(fd, [Buffer.from("one"), Buffer.alloc(0), Buffer.from("two")]);
  fs.writevSync(fd, [Buffer.from("three"), Buffer.from("four")], 9000);
  fs.ftruncateSync(fd, 9005);
  fs.fsyncSync(fd);
  fs.fdatasyncSync(fd);
  fs.closeSync(fd);
  fs.writeFileSync("made/relative.txt", "shorter");
  fs.renameSync("made/relative.txt", root + "/made/below/moved.txt");
  fs.renameSync(root + "/made/below", root + "/made/renamed");
  fs.linkSync(root + "/was-here.txt", "second-name");
  fs.unlinkSync("removed.txt");
  fs.rmSync(root + "/gone", { recursive: true });
  fs.mkdtempSync(root + "/random-");
  const written = fs.createWriteStream("made/stream");
  for (let i = 0; i < 100; i++) written.write("line " + i + "\\n");
  written.end(async () => {
    await fs.promises.writeFile("made/promised", "kept");
    await fs.promises.appendFile("made/promised", " promise", { flush: true });
  });
`;

const recorder = join(mkdtempSync(join(tmpdir(), "assay-recorder-")), "record-disk.so");
const compiled = spawnSync(
  "cc",
  ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1", "-o", recorder, RECORDER_SOURCE, "-ldl"],
  { env: { PATH: "/usr/bin:/bin" } },
);
const hasCompiler = compiled.error === undefined && compiled.status !== null;
if (!hasCompiler) console.log("skipped: there is no C compiler");
test.after(() => rmSync(join(recorder, ".."), { recursive: true, force: true }));

(hasCompiler ? test : test.skip)(
  "the recorder sees every change: without loss, the simulated disk equals the real one",
  () => {
    assert.is(compiled.status, 0, String(compiled.stderr));
    const [before, root, trace] = ["before", "disk", "trace"].map((name) => join(directory, name)) as [
      string,
      string,
      string,
    ];
    mkdirSync(join(before, "gone"), { recursive: true });
    for (const name of ["was-here.txt", "removed.txt", "gone/one", "gone/two"]) writeFileSync(join(before, name), name);
    cpSync(before, root, { recursive: true });
    writeFileSync(trace, "");
    const base = { path: before, inodes: inodesOf(root) };
    const done = spawnSync(process.execPath, ["-e", PROGRAM, root], {
      env: { LD_PRELOAD: recorder, DISK_ROOT: root, DISK_TRACE: trace },
    });
    assert.is(done.status, 0, String(done.stderr));
    const disk = simulateDisk({ trace: readFileSync(trace), root, base });
    disk.writeTo(join(directory, "nothing"), "nothing", () => 0);
    assert.equal(filesOf(join(directory, "nothing")), filesOf(root));
    // Only one file and no directory was synced, so exactly the earlier files survive.
    disk.writeTo(join(directory, "all"), "all", () => 0);
    assert.equal([...filesOf(join(directory, "all")).keys()].sort(), [
      "gone/one",
      "gone/two",
      "removed.txt",
      "was-here.txt",
    ]);
    for (const loss of LOSSES) disk.writeTo(join(directory, loss), loss, randomOf(1));
  },
);

test.run();
