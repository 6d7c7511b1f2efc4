import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pageCacheKib } from "../../../src/store/db/connection.ts";
import { loadAddon } from "../../../src/store/db/native-addon.ts";
import {
  NewerDatabaseError,
  applyMigrations,
  migrations,
  openDatabase,
  openMemory,
  schemaVersion,
} from "../../../src/store/db/database.ts";
import { NoSpaceForBackupError } from "../../../src/store/db/pre-migration-backup.ts";
import { DataDirectoryInUseError, lockDirectory } from "../../../src/store/db/data-directory-lock.ts";
import { walBytes } from "../../../src/store/db/wal.ts";

const test = suite("store/db/database");
const NOW = 1_700_000_000;

function inDirectory(body: (directory: string) => void): void {
  const directory = mkdtempSync(join(tmpdir(), "assay-db-"));
  try {
    body(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

test("the page cache grows with the database, from 16 to 64 MiB", () => {
  const GIB = 1024 ** 3;
  assert.equal([0, GIB / 2, GIB, 2 * GIB, 100 * GIB].map(pageCacheKib), [16_384, 16_384, 32_768, 65_536, 65_536]);
  inDirectory((directory) => {
    const db = openDatabase(directory, NOW);
    assert.is(db.pragma("cache_size", { simple: true }), -16_384);
    db.close();
  });
});

test("a new database is durable, has foreign keys checked and the current version", () => {
  inDirectory((directory) => {
    const db = openDatabase(directory, NOW);
    assert.is(db.pragma("journal_mode", { simple: true }), "wal");
    assert.is(db.pragma("synchronous", { simple: true }), 2, "FULL");
    assert.is(db.pragma("foreign_keys", { simple: true }), 1);
    assert.is(db.pragma("user_version", { simple: true }), schemaVersion());
    db.close();
    assert.is(
      readFileSync(join(directory, "assay.db")).readUInt32BE(60),
      schemaVersion(),
      "the header tells the version",
    );
    const again = openDatabase(directory, NOW);
    again.close();
    assert.equal(
      readdirSync(directory).filter((name) => name === "backups"),
      [],
      "no copy without a migration",
    );
  });
});

test("opening an existing database writes nothing", () => {
  inDirectory((directory) => {
    openDatabase(directory, NOW).close();
    const db = openDatabase(directory, NOW);
    assert.is(walBytes(directory), 0);
    assert.is(db.pragma("auto_vacuum", { simple: true }), 2, "INCREMENTAL");
    db.close();
  });
});

test("refuses a newer database untouched, naming both versions", () => {
  inDirectory((directory) => {
    const file = join(directory, "assay.db");
    openDatabase(directory, NOW).close();
    const bytes = readFileSync(file);
    bytes.writeUInt32BE(99, 60);
    writeFileSync(file, bytes);
    assert.throws(
      () => openDatabase(directory, NOW),
      (error: Error) =>
        error instanceof NewerDatabaseError &&
        /version 99/.test(error.message) &&
        error.message.includes(`up to ${schemaVersion()}`),
    );
    assert.equal(readFileSync(file), bytes);
    assert.equal(readdirSync(directory), ["assay.db"], "not even a WAL file appeared");
  });
});

test("refuses files that are not databases of Assay", () => {
  inDirectory((directory) => {
    writeFileSync(join(directory, "assay.db"), "x".repeat(200));
    assert.throws(() => openDatabase(directory, NOW), /is not a database of Assay: it is not an SQLite database/);
  });
  inDirectory((directory) => {
    const other = new Database(join(directory, "assay.db"), { nativeBinding: loadAddon() as unknown as string });
    other.exec("CREATE TABLE theirs (id INTEGER)");
    other.close();
    assert.throws(() => openDatabase(directory, NOW), /it has tables but no schema version/);
  });
});

test("migrations are all or nothing", () => {
  const db = openMemory();
  const version = db.pragma("user_version", { simple: true });
  const broken = [
    { version: 2, name: "0002-fine.sql", sql: "CREATE TABLE fine (id INTEGER) STRICT" },
    { version: 3, name: "0003-broken.sql", sql: "CREATE TABLE broken (id NOTYPE) STRICT" },
  ];
  assert.throws(() => applyMigrations(db, broken), /unknown datatype/);
  assert.is(db.pragma("user_version", { simple: true }), version);
  assert.is(db.prepare("SELECT count(*) FROM sqlite_schema WHERE name = 'fine'").pluck().get(), 0);
});

test("compiles each statement once, whatever its values: the planner sees no parameter", () => {
  const db = openMemory();
  const sql = `SELECT '? @a' AS "a?", name FROM users WHERE id = ? AND name IN (?, @b) LIMIT ?`;
  assert.is(
    db.prepare(sql).source,
    `SELECT '? @a' AS "a?", name FROM users WHERE id = +? AND name IN (+?, +@b) LIMIT +?`,
  );
  db.close();
});

test("values of every type arrive as given", () => {
  const db = openMemory();
  const bytes = Buffer.from([0, 255]);
  const row = db
    .prepare("SELECT ? AS text, ? AS number, ? AS fraction, ? AS none, ? AS bytes")
    .get("01", 7, 0.5, null, bytes);
  assert.equal(row, { text: "01", number: 7, fraction: 0.5, none: null, bytes });
  assert.equal(db.prepare("SELECT typeof(?) AS a, typeof(?) AS b, typeof(@c) AS c").get("1", bytes, { c: null }), {
    a: "text",
    b: "blob",
    c: "null",
  });
  db.close();
});

test("copies an older database completely before migrating, and copies nothing when reopening", () => {
  inDirectory((directory) => {
    const old = openDatabase(directory, NOW);
    old.prepare("INSERT INTO templates (public_id, content) VALUES ('t', 'version: 1')").run();
    old.close();
    const next = schemaVersion() + 1;
    const steps = [
      ...migrations(),
      { version: next, name: "next.sql", sql: "ALTER TABLE templates ADD COLUMN note TEXT" },
    ];
    const migrated = openDatabase(directory, NOW, { steps });
    assert.is(migrated.pragma("user_version", { simple: true }), next);
    assert.equal(migrated.prepare("SELECT content, note FROM templates").all(), [
      { content: "version: 1", note: null },
    ]);
    migrated.close();
    openDatabase(directory, NOW, { steps }).close();

    const copies = readdirSync(join(directory, "backups"));
    assert.equal(copies, [`assay-schema-${schemaVersion()}-before-${next}-20231114T221320Z.db`]);
    const copy = new Database(join(directory, "backups", copies[0] as string), {
      readonly: true,
      nativeBinding: loadAddon() as unknown as string,
    });
    assert.is(copy.pragma("user_version", { simple: true }), schemaVersion());
    assert.is(copy.pragma("integrity_check", { simple: true }), "ok");
    assert.equal(copy.prepare("SELECT content FROM templates").pluck().all(), ["version: 1"]);
    copy.close();
    assert.throws(
      () => openDatabase(directory, NOW),
      (error: Error) => error instanceof NewerDatabaseError,
    );
  });
});

test("reads large templates and policies of earlier versions once, within the limits of their time", () => {
  inDirectory((directory) => {
    const old = new Database(join(directory, "assay.db"), { nativeBinding: loadAddon() as unknown as string });
    applyMigrations(old, migrations().slice(0, 4));
    const entries = Array.from({ length: 3_000 }, (_, index) => ({ name: `check-${index}`, type: "junit" }));
    const lines = entries.map(({ name, type }) => `  - {name: ${name}, type: ${type}}\n`);
    const template = `trail:\n  attestations:\n${lines.join("")}`;
    const chain = Array(30_000).fill("true").join(" or ");
    const policy = `_schema: /v1\nartifacts: {attestations: [{type: junit, if: "${chain}"}]}`;
    const addTemplate = old.prepare("INSERT INTO templates (public_id, content) VALUES (?, ?)");
    for (const [id, text] of [
      ["small", "version: 1"],
      ["large", template],
      ["odd", `${"# x\n".repeat(5_000)}trail: [`],
    ])
      addTemplate.run(id, text);
    old.exec(`INSERT INTO organizations (id, public_id, name, kind, created_at, last_modified_at) VALUES (1, 'o',
        'acme', 'shared', 1, 1);
              INSERT INTO policies (id, public_id, organization_id, name, description, created_by, created_at,
              last_modified_at) VALUES (1, 'p', 1, 'p', '', 'ann', 1, 1)`);
    const addVersion = old.prepare(
      "INSERT INTO policy_versions (policy_id, version, timestamp, created_by, policy_yaml) VALUES (1, ?, 1, 'ann', ?)",
    );
    for (const [index, text] of [policy, "_schema: /v1", `${"# x\n".repeat(5_000)}[`].entries())
      addVersion.run(index + 1, text);
    old.close();

    const db = openDatabase(directory, NOW);
    const forms = db.prepare("SELECT public_id, parsed_json FROM templates ORDER BY id").all();
    assert.equal(forms, [
      { public_id: "small", parsed_json: null },
      {
        public_id: "large",
        parsed_json: JSON.stringify({ version: 1, trail: { attestations: entries, artifacts: [] } }),
      },
      { public_id: "odd", parsed_json: JSON.stringify({ version: 1, trail: { attestations: [], artifacts: [] } }) },
    ]);
    const rules = db
      .prepare(
        `SELECT version, parsed_json ->> '$.attestations[0].condition' AS condition
        FROM policy_versions ORDER BY version`,
      )
      .all();
    assert.equal(rules, [
      { version: 1, condition: chain },
      { version: 2, condition: null },
      { version: 3, condition: null },
    ]);
    db.close();
  });
});

test("a failed migration leaves the database as it was, with its copy beside it", () => {
  inDirectory((directory) => {
    openDatabase(directory, NOW).close();
    const steps = [
      ...migrations(),
      {
        version: schemaVersion() + 1,
        name: "broken.sql",
        sql: "CREATE TABLE half (id INTEGER) STRICT; CREATE TABLE broken (id NOTYPE) STRICT",
      },
    ];
    assert.throws(() => openDatabase(directory, NOW, { steps }), /unknown datatype/);
    const db = openDatabase(directory, NOW);
    assert.is(db.prepare("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").pluck().get(), 0);
    db.close();
    assert.is(readdirSync(join(directory, "backups")).length, 1);
  });
});

test("the copy of a failed migration is complete, including the log, and can be restored", () => {
  inDirectory((directory) => {
    const killed = openDatabase(directory, NOW);
    killed.prepare("INSERT INTO templates (public_id, content) VALUES ('t', 'in the log')").run();
    assert.ok(statSync(join(directory, "assay.db-wal")).size > 0, "the row is in the log");
    const broken = (n: number) => [
      ...migrations(),
      {
        version: schemaVersion() + 1,
        name: "broken.sql",
        sql: `DELETE FROM templates; CREATE TABLE broken${n} (id NOTYPE) STRICT`,
      },
    ];
    // The connection is left open, as by a process that was killed.
    for (const n of [1, 2, 3])
      assert.throws(() => openDatabase(directory, NOW + n, { steps: broken(n) }), /unknown datatype/);
    const copies = readdirSync(join(directory, "backups"));
    assert.equal(
      copies,
      [`assay-schema-${schemaVersion()}-before-${schemaVersion() + 1}-20231114T221323Z.db`],
      "one, however often it was tried",
    );
    assert.is(statSync(join(directory, "backups", copies[0] as string)).mode & 0o777, 0o600);
    assert.equal(killed.prepare("SELECT content FROM templates").pluck().all(), ["in the log"]);
    killed.close();
    inDirectory((other) => {
      copyFileSync(join(directory, "backups", copies[0] as string), join(other, "assay.db"));
      const back = openDatabase(other, NOW);
      assert.equal(back.prepare("SELECT content FROM templates").pluck().all(), ["in the log"]);
      back.close();
    });
  });
});

test("ignores the partial file of a killed copy, and keeps few old copies", () => {
  inDirectory((directory) => {
    openDatabase(directory, NOW).close();
    const backups = join(directory, "backups");
    mkdirSync(backups);
    const old = [
      "assay-schema-1-before-2-20200101T000000Z.db",
      "assay-schema-2-before-3-20210101T000000Z.db",
      "assay-schema-1-before-3-20220101T000000Z.db",
    ];
    for (const name of [...old, "assay-schema.partial", "assay-backup-20200101T000000Z.tar"])
      writeFileSync(join(backups, name), "old");
    const next = schemaVersion() + 1;
    openDatabase(directory, NOW, {
      steps: [...migrations(), { version: next, name: "next.sql", sql: "SELECT 1" }],
    }).close();
    assert.equal(
      readdirSync(backups).sort(),
      [
        ...old.slice(1),
        "assay-backup-20200101T000000Z.tar",
        `assay-schema-${schemaVersion()}-before-${next}-20231114T221320Z.db`,
      ].sort(),
    );
  });
});

test("does not start a migration when the copy fails", () => {
  inDirectory((directory) => {
    openDatabase(directory, NOW).close();
    const before = readFileSync(join(directory, "assay.db"));
    writeFileSync(join(directory, "backups"), "in the way");
    const steps = [
      ...migrations(),
      { version: schemaVersion() + 1, name: "next.sql", sql: "CREATE TABLE more (id INTEGER) STRICT" },
    ];
    assert.throws(() => openDatabase(directory, NOW, { steps }), /EEXIST/);
    assert.equal(readFileSync(join(directory, "assay.db")), before);
  });
});

test("names the space that is needed and the space that is free", () => {
  assert.is(
    new NoSpaceForBackupError("/data/backups", 3_000_000_000, 10_000_000).message,
    "the database must be brought up to date, and before that it is copied to /data/backups: that " +
      "needs 2862 MB, and 10 MB are free. Nothing was changed; make room and start again",
  );
});

test("allows one process per data directory", () => {
  inDirectory((directory) => {
    const lock = lockDirectory(directory);
    // A second connection stands in for a second process: SQLite excludes both in the same way.
    assert.throws(
      () => lockDirectory(directory),
      (error: Error) => error instanceof DataDirectoryInUseError && error.message.includes(directory),
    );
    lock.release();
    lockDirectory(directory).release();
  });
});

test.run();
