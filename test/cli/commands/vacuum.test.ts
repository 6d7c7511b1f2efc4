import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { loadAddon } from "../../../src/store/db/native-addon.ts";
import { openDatabase } from "../../../src/store/db/database.ts";
import { lockDirectory } from "../../../src/store/db/data-directory-lock.ts";
import { NoSpaceForVacuumError, vacuumDatabase } from "../../../src/store/db/vacuum.ts";
import { cli, inDirectory, look } from "../in-process.ts";

const test = suite("cli/commands/vacuum");

/**
 * A data directory whose database has `rows` pages, most of them free; `old`: created without incremental
 * vacuum.
 */
async function given(directory: string, { rows = 2000, old = false } = {}): Promise<string> {
  const data = join(directory, "data");
  await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
  const db = new Database(join(data, "assay.db"), { nativeBinding: loadAddon() as unknown as string });
  if (old) {
    db.pragma("journal_mode = DELETE");
    db.pragma("auto_vacuum = NONE");
    db.exec("VACUUM");
    assert.is(db.pragma("auto_vacuum", { simple: true }), 0);
  }
  // A table of another program that a start accepts.
  db.exec("CREATE TABLE _litestream_filler (id INTEGER PRIMARY KEY, text TEXT)");
  const insert = db.prepare("INSERT INTO _litestream_filler (text) VALUES (?)");
  db.transaction(() => {
    for (let row = 0; row < rows; row += 1) insert.run(`${row} `.repeat(500));
  })();
  db.exec("DELETE FROM _litestream_filler WHERE id % 10 > 0");
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.close();
  return data;
}

const vacuum = (data: string, ...words: string[]) => cli(["vacuum", "--data", data, ...words]);
const sum = (data: string): unknown =>
  look(data, (_, db) => db.prepare("SELECT count(*), sum(id), sum(length(text)) FROM _litestream_filler").raw().get());

for (const old of [false, true]) {
  test(`shrinks the file to its content${old ? " and enables incremental vacuum" : ""}`, () =>
    inDirectory(async (directory) => {
      const data = await given(directory, { old });
      const [before, content] = [statSync(join(data, "assay.db")).size, sum(data)];
      const { code, out, err } = await vacuum(data, "--json");
      assert.is(code, 0, err);
      const after = statSync(join(data, "assay.db")).size;
      assert.equal(JSON.parse(out), { bytes_before: before, bytes_after: after });
      assert.ok(after < before / 2, `${before} ${after}`);
      assert.equal(sum(data), content);
      assert.equal(readdirSync(data).sort(), ["assay.commits", "assay.db", "assay.lock", "evidence", "staging"]);
      look(data, (_, db) => {
        assert.equal(
          {
            "pragma auto_vacuum": db.pragma("auto_vacuum", { simple: true }),
            "pragma freelist_count": db.pragma("freelist_count", { simple: true }),
            "pragma integrity_check": db.pragma("integrity_check", { simple: true }),
          },
          { "pragma auto_vacuum": 2, "pragma freelist_count": 0, "pragma integrity_check": "ok" },
        );
        assert.equal(db.pragma("foreign_key_check"), []);
      });
      lockDirectory(data).release();
      assert.is((await vacuum(data)).out, `database: ${after} bytes before, ${after} bytes now\n`);
    }));
}

test("refuses a directory in use, a missing one, and one without data", () =>
  inDirectory(async (directory) => {
    const data = await given(directory, { rows: 10 });
    const before = readFileSync(join(data, "assay.db"));
    const lock = lockDirectory(data);
    const { code, out, err } = await vacuum(data);
    lock.release();
    assert.equal({ code, out }, { code: 4, out: "" });
    assert.match(err, "is in use by another Assay process");
    assert.ok(readFileSync(join(data, "assay.db")).equals(before));
    mkdirSync(join(directory, "empty"));
    for (const name of ["none", "empty"]) {
      const refused = await vacuum(join(directory, name));
      assert.equal({ code: refused.code, out: refused.out }, { code: 1, out: "" });
      assert.match(refused.err, /(no|not a) data directory/);
    }
    assert.not(existsSync(join(directory, "empty", "assay.lock")));
  }));

test("reports a damaged database with exit code 5 and does not change it", () =>
  inDirectory(async (directory) => {
    const data = await given(directory);
    const file = join(data, "assay.db");
    const size = statSync(file).size;
    const descriptor = openSync(file, "r+");
    for (let at = 4096 * 40; at < size; at += 4096 * 7) writeSync(descriptor, Buffer.alloc(64, 0xff), 0, 64, at);
    const before = readFileSync(file);
    const { code, out, err } = await vacuum(data);
    assert.equal({ code, out }, { code: 5, out: "" }, err);
    assert.match(err, "the database is damaged; nothing was changed");
    assert.ok(readFileSync(file).equals(before));
  }));

test("does not begin without free space of twice the size", () =>
  inDirectory(async (directory) => {
    const data = await given(directory);
    const before = readFileSync(join(data, "assay.db"));
    const db = openDatabase(data, 1);
    assert.throws(
      () => vacuumDatabase(db, { directory: data, scratch: data, free: () => 9 << 20 }),
      (error: Error) =>
        error instanceof NoSpaceForVacuumError &&
        /takes \d+\.\d MB beside it for a while, and \S+ has 9\.0 MB; nothing was changed/.test(error.message),
    );
    db.close();
    assert.ok(readFileSync(join(data, "assay.db")).equals(before));
  }));

test("--evidence removes evidence that is unreferenced for a day", () =>
  inDirectory(async (directory) => {
    const data = await given(directory, { rows: 10 });
    const place = join(data, "evidence", "ab");
    mkdirSync(place, { recursive: true });
    for (const [name, age] of [
      ["old", 90_000],
      ["young", 10],
    ] as const) {
      const path = join(place, (name === "old" ? "1" : "2").repeat(62));
      writeFileSync(path, "12345");
      const at = Date.now() / 1000 - age;
      utimesSync(path, at, at);
    }
    assert.not.match((await vacuum(data)).out, "evidence");
    assert.is(readdirSync(place).length, 2);
    assert.match((await vacuum(data, "--evidence")).out, "evidence: 1 files removed, 5 bytes\n");
    assert.equal(readdirSync(place), ["2".repeat(62)]);
  }));

test("leaves the database intact when killed half way", () =>
  inDirectory(async (directory) => {
    const data = await given(directory, { rows: 20_000, old: true });
    const content = sum(data);
    const program = `
      import { openDatabase } from ${JSON.stringify(join(import.meta.dirname, "../../../src/store/db/database.ts"))};
      import { vacuumDatabase } from ${JSON.stringify(join(import.meta.dirname, "../../../src/store/db/vacuum.ts"))};
      const db = openDatabase(${JSON.stringify(data)}, 1);
      process.stdout.write("begun");
      for (;;) vacuumDatabase(db, ${JSON.stringify({ directory: data, scratch: data })});`;
    for (let kill = 0; kill < 4; kill += 1) {
      const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      await once(child.stdout, "data");
      // At an arbitrary step: reading the directory a few times takes as long as some steps.
      for (let looks = 0; looks < 300 * (kill + 1); looks += 1) readdirSync(data);
      child.kill("SIGKILL");
      const [, signal] = (await once(child, "close")) as [number | null, string | null];
      assert.is(signal, "SIGKILL", "it was still compacting");
      assert.equal(sum(data), content);
      look(data, (_, db) => assert.is(db.pragma("integrity_check", { simple: true }), "ok"));
    }
    assert.is((await vacuum(data)).code, 0);
    assert.equal(sum(data), content);
    assert.equal(
      readdirSync(data).sort(),
      ["assay.commits", "assay.db", "assay.lock", "evidence", "staging"],
      "no temporary file is left",
    );
  }));

test.run();
