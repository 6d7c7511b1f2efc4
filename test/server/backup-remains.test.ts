import { mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { removeBackupRemains } from "../../src/server/backup-remains.ts";
import { lockEvidence } from "../../src/store/db/data-directory-lock.ts";
import { newDirectory, removeDirectories } from "../backup/given.ts";

const test = suite("server/backup-remains");
test.after(removeDirectories);

const NOW = 1_767_225_600;

/** A backup directory with these files, last written so many seconds ago. */
function given(files: Readonly<Record<string, number>>) {
  const dataDirectory = newDirectory();
  const backups = newDirectory();
  const log: [string, object][] = [];
  for (const [name, age] of Object.entries(files)) {
    writeFileSync(join(backups, name), "left");
    utimesSync(join(backups, name), NOW - age, NOW - age);
  }
  return {
    dataDirectory,
    backups,
    log,
    files: () => readdirSync(backups).sort(),
    remove: (backupDirectory = backups) =>
      removeBackupRemains({ dataDirectory, backupDirectory, now: NOW }, {
        info: (fields: object, text: string) => void log.push([text, fields]),
        warn: (fields: object, text: string) => void log.push([text, fields]),
      } as never),
  };
}

test("removes what the server's own backup left at once, and that of commands after an hour", () => {
  const kept = {
    "assay-backup-20260101T000000Z.tar": 9000,
    "assay-backup-20260101T000000Z.incomplete.tar": 9000,
    "assay-backup-new.tar.partial": 3599,
    "assay-schema.partial": 9000,
    "monday.tar.partial": 9000,
    "my-assay-backup.partial": 9000,
  };
  const left = [
    "assay-backup.partial",
    "assay-backup.partial-db",
    "assay-backup.partial-db-journal",
    "assay-backup-old.tar.partial",
    "assay-backup-old.tar.gz.partial-db",
  ];
  const world = given({ ...kept, ...Object.fromEntries(left.map((name, index) => [name, index < 3 ? 0 : 3600])) });
  mkdirSync(join(world.backups, "assay-backup-directory.partial"));
  utimesSync(join(world.backups, "assay-backup-directory.partial"), NOW - 9000, NOW - 9000);
  world.remove();
  assert.equal(world.files(), [...Object.keys(kept), "assay-backup-directory.partial"].sort());
  const files = left.map((name) => join(world.backups, name)).sort();
  assert.equal(
    world.log.map(([text, fields]) => [text, [...(fields as { files: string[] }).files].sort()]),
    [["removed what killed backups had left", files]],
  );
});

test("removes the copy that a backup to standard output left, from the data directory", () => {
  const world = given({});
  const own = join(world.dataDirectory, "backups");
  mkdirSync(own);
  writeFileSync(join(own, "assay-backup-stream.partial-db"), "left");
  utimesSync(join(own, "assay-backup-stream.partial-db"), NOW - 3600, NOW - 3600);
  world.remove();
  assert.equal(readdirSync(own), []);
});

test("removes nothing while a backup of the data directory runs", () => {
  const world = given({ "assay-backup.partial": 0, "assay-backup-old.tar.partial": 9000 });
  const lock = lockEvidence(world.dataDirectory);
  world.remove();
  assert.is(world.files().length, 2);
  lock?.release();
  world.remove();
  assert.equal(world.files(), []);
});

test("says nothing and leaves no lock file where nothing was left, and without the directory", () => {
  const world = given({ "assay-backup-20260101T000000Z.tar": 0 });
  world.remove();
  world.remove(join(world.backups, "nowhere"));
  assert.equal(world.log, []);
  assert.equal(readdirSync(world.dataDirectory), []);
});

test.run();
