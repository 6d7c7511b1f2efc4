/** The storage probe: what it reads, and how often. */
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openStorageProbe } from "../../src/server/storage-probe.ts";
import { openDatabase } from "../../src/store/db/database.ts";

const test = suite("server/storage-probe");

async function inDirectory(body: (directory: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "assay-probe-"));
  try {
    await body(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** The locks on a file, as the kernel lists them, without their sequence numbers. */
const locksOn = (file: string): string[] =>
  readFileSync("/proc/locks", "utf8")
    .split("\n")
    .filter((line) => line.includes(`:${statSync(file).ino} `))
    .map((line) => line.replace(/^\d+: /, ""));

test("reports no problem with a readable database, with and without a write-ahead log", () =>
  inDirectory(async (directory) => {
    const db = openDatabase(directory, 1);
    const clock = { ms: 0 };
    const probe = openStorageProbe(directory, { milliseconds: () => clock.ms, random: () => 0.5 });
    assert.is(await probe.check(), null);
    db.exec("UPDATE clock SET good_at = 1; INSERT INTO clock (id, good_at) VALUES (1, 1)");
    assert.ok(statSync(join(directory, "assay.db-wal")).size > 0);
    clock.ms += 1_000;
    assert.is(await probe.check(), null);
    db.close();
    probe.close();
    assert.is(await probe.check(), "the server is stopping");
  }));

test("reads the disk at most once a second, and parallel probes share one result", () =>
  inDirectory(async (directory) => {
    writeFileSync(join(directory, "assay.db"), Buffer.alloc(40_960));
    const clock = { ms: 0 };
    const pages: number[] = [];
    const probe = openStorageProbe(directory, {
      milliseconds: () => clock.ms,
      random() {
        pages.push(clock.ms);
        return 0.999;
      },
    });
    await Promise.all([probe.check(), probe.check(), probe.check()]);
    clock.ms = 999;
    await probe.check();
    assert.equal(pages, [0]);
    clock.ms = 1_000;
    await probe.check();
    assert.equal(pages, [0, 1_000]);
    probe.close();
  }));

test("a disk that was good stays so until a probe has taken two seconds", () =>
  inDirectory(async (directory) => {
    writeFileSync(join(directory, "assay.db"), Buffer.alloc(40_960));
    const clock = { ms: 0 };
    let hangs = false;
    let goOn = (): void => undefined;
    const read = (): Promise<void> => (hangs ? new Promise((resolve) => (goOn = resolve)) : Promise.resolve());
    const probe = openStorageProbe(directory, { milliseconds: () => clock.ms, random: () => 0, readPage: read });
    // Keeps the process alive, which the timers of a probe do not.
    const alive = setInterval(() => undefined, 10);
    assert.is(await probe.check(), null);
    hangs = true;
    clock.ms = 1_000;
    assert.is(await probe.check(), null);
    clock.ms = 2_999;
    const late = "the disk did not answer for 2 seconds";
    assert.is(await probe.check(), late);
    clock.ms = 3_000;
    assert.is(await probe.check(), late);
    hangs = false;
    goOn();
    while ((await probe.check()) === late);
    assert.is(await probe.check(), null);
    clearInterval(alive);
    probe.close();
  }));

test("tolerates a truncated file and a page beyond its end", () =>
  inDirectory(async (directory) => {
    const file = join(directory, "assay.db");
    writeFileSync(file, Buffer.alloc(40_960));
    const probe = openStorageProbe(directory, { milliseconds: () => 0, random: () => 1 });
    truncateSync(file, 100);
    assert.is(await probe.check(), null);
    probe.close();
  }));

test("SQLite's locks on the database survive every probe", () =>
  inDirectory(async (directory) => {
    const db = openDatabase(directory, 1);
    db.exec("INSERT INTO clock (id, good_at) VALUES (1, 1)");
    const before = locksOn(join(directory, "assay.db"));
    const clock = { ms: 0 };
    const probe = openStorageProbe(directory, { milliseconds: () => clock.ms, random: () => 0 });
    for (let round = 0; round < 3; round += 1, clock.ms += 5_000) assert.is(await probe.check(), null);
    // Without its lock, another process would believe that it is alone and remove the write-ahead log.
    assert.equal(locksOn(join(directory, "assay.db")), before);
    assert.is(before.length, 1);
    db.close();
    probe.close();
  }));

test.run();
