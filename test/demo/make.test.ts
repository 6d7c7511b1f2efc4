/** The data of the demonstration: complete or not there, and sound. */
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { DemoPlaceError, makeDemo } from "../../src/demo/make.ts";
import { isDemo } from "../../src/demo/tour.ts";
import { lockDirectory, DataDirectoryInUseError } from "../../src/store/db/data-directory-lock.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { cli, look } from "../cli/in-process.ts";

const test = suite("demo/make");

/** 2026-03-29T02:30:00Z: a time of day before the morning of the story, and a change of the clocks. */
const NOW = Date.UTC(2026, 2, 29, 2, 30) / 1000;

let parent = "";
let directory = "";
let steps = 0;
test.before(async () => {
  parent = mkdtempSync(join(tmpdir(), "assay-demo-"));
  directory = join(parent, "data");
  let early = 0;
  await makeDemo({
    directory,
    now: NOW,
    developer: "dev",
    signal: new AbortController().signal,
    undo: () => assert.unreachable(),
    onStep(step, all) {
      steps = all;
      // A process that is killed between two steps leaves no data.
      if (existsSync(join(directory, "assay.db")) || readdirSync(join(directory, "staging")).length > 0) early = step;
    },
  });
  assert.is(early, 0);
});
test.after(() => rmSync(parent, { recursive: true, force: true }));

const options = (place: string) => ({ directory: place, now: NOW, developer: "dev", undo: () => undefined });
const never = new AbortController().signal;

test("all evidence is in the database, which got its name last", () => {
  assert.ok(steps > 500);
  assert.equal(readdirSync(directory).sort(), ["assay.db", "assay.lock", "evidence", "staging"]);
  assert.equal([readdirSync(join(directory, "evidence")), readdirSync(join(directory, "staging"))], [[], []]);
});

test("its verdicts hold, and nothing in it is later than now", async () => {
  const verified = await cli(["verify", "--data", directory, "--json"]);
  assert.is(verified.code, 0, verified.out + verified.err);
  const times = look(directory, (_, db) =>
    db
      .prepare<[], { name: string; field: string }>(
        `SELECT m.name, c.name AS field FROM sqlite_schema m, pragma_table_info(m.name) c
         WHERE m.type = 'table' AND (c.name = 'timestamp' OR c.name LIKE '%\\_at' ESCAPE '\\')
           AND c.name NOT LIKE '%expires%' AND c.name <> 'due_at'`,
      )
      .all()
      .map(({ name, field }) => ({
        place: `${name}.${field}`,
        latest: db.prepare<[], number | null>(`SELECT max("${field}") FROM "${name}"`).pluck().get() ?? 0,
      })),
  );
  assert.ok(times.length > 10);
  assert.equal(
    times.filter(({ latest }) => latest > NOW),
    [],
  );
  const latestOf = (wanted: string) => times.find(({ place }) => place === wanted)?.latest ?? 0;
  assert.ok(latestOf("environments.last_reported_at") > NOW - 60);
  assert.ok(latestOf("api_keys.last_used_at") > NOW - 60, "keys have been used");
});

test("has three flows, five environments with reports and one that groups them, and no jump of the clock", () => {
  const found = look(directory, (store) => {
    const { id } = store.organizations.find("acme") as { id: number };
    const rows = store.clock.read();
    return {
      demo: isDemo(store),
      role: store.organizations.findRole(id, store.users.find("dev")?.id ?? 0),
      isOpen: rows?.isOpen,
      jumpFrom: rows?.jumpFrom,
    };
  });
  assert.equal(found, { demo: true, role: "admin", isOpen: false, jumpFrom: null });
  const db = openDatabase(directory, NOW);
  const names = (table: string) =>
    db.prepare<[], string>(`SELECT name FROM ${table} ORDER BY name`).pluck().all() as string[];
  assert.equal(names("flows"), ["backend-api", "infra", "web-checkout"]);
  assert.equal(names("environments"), [
    "batch-settlement",
    "k8s-prod",
    "load-test",
    "production",
    "production-eu",
    "staging",
  ]);
  db.close();
});

test("refuses a directory with data, one that is in use, and changes neither", async () => {
  const before = readdirSync(directory);
  const refused = await makeDemo({ ...options(directory), signal: never }).catch((error: unknown) => error);
  assert.instance(refused, DemoPlaceError);
  assert.is((refused as Error).message, `${directory} has data already`);
  assert.equal(readdirSync(directory), before);

  const other = join(parent, "used");
  mkdirSync(other);
  const lock = lockDirectory(other);
  const busy = await makeDemo({ ...options(other), signal: never }).catch((error: unknown) => error);
  lock.release();
  assert.instance(busy, DataDirectoryInUseError);
  assert.not.ok(existsSync(join(other, "assay.db")));
});

test("an abort leaves no data and restores the directory", async () => {
  const place = join(parent, "aborted");
  const controller = new AbortController();
  let undone = 0;
  const aborted = await makeDemo({
    ...options(place),
    signal: controller.signal,
    onStep: (step) => void (step === 20 && controller.abort(new Error("stopped"))),
    undo() {
      undone += 1;
      assert.throws(() => lockDirectory(place), DataDirectoryInUseError.name);
    },
  }).catch((error: unknown) => error);
  assert.is((aborted as Error).message, "stopped");
  assert.is(undone, 1);
  assert.not.ok(existsSync(join(place, "assay.db")));
});

test("begins anew where an earlier process was killed while it wrote, and gives root's file to the owner", async () => {
  const place = join(parent, "killed");
  mkdirSync(join(place, "staging"), { recursive: true });
  mkdirSync(join(place, "evidence"));
  // Where this user may not, the owner stays the same.
  const owner = process.getuid?.() === 0 ? 12_345 : statSync(place).uid;
  for (const name of [".", "staging", "evidence"]) chownSync(join(place, name), owner, -1);
  writeFileSync(join(place, "staging", "demo.db"), "SQLite format 3\0 half of it");
  await makeDemo({ ...options(place), signal: never });
  assert.equal(readdirSync(join(place, "staging")), []);
  assert.is(statSync(join(place, "assay.db")).uid, owner);
  assert.ok(look(place, isDemo));
});

test.run();
