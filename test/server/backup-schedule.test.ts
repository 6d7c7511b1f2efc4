/** Scheduled backups: when they are due, which are kept, and how failures are handled. Clock and backups are faked. */
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { BackupError, IncompleteEvidenceError } from "../../src/backup/errors.ts";
import { backupDirectory, createScheduledBackups, lastBackup } from "../../src/server/backup-schedule.ts";
import { newDirectory, removeDirectories } from "../backup/given.ts";

const test = suite("server/backup-schedule");
test.after(removeDirectories);

/** 2026-01-01T00:00:00Z */
const START = 1_767_225_600;
const HOUR = 3600;
const MADE = { bytes: 3, sha256: "0".repeat(64), rows: 1, files: 0, missing: 0 };

/** A schedule over a new directory. The next attempts fail with the errors in `fail`. */
function scheduled({
  every = HOUR as number | null,
  keep = 3,
  directory = join(newDirectory(), "backups"),
  own = true,
} = {}) {
  const clock = { at: START };
  const fail: Error[] = [];
  const log: [string, string, any][] = [];
  const runs: { name: string; allowMissing: boolean }[] = [];
  const logger = (level: string) => (fields: object, text: string) => void log.push([level, text, fields]);
  const create = () =>
    createScheduledBackups({
      directory,
      isInDataDirectory: own,
      intervalS: every,
      keepCount: keep,
      now: () => clock.at,
      logger: { info: logger("info"), error: logger("error") } as never,
      async run({ file, partial, allowMissing, at }) {
        assert.equal({ partial, at }, { partial: join(directory, "assay-backup.partial"), at: clock.at });
        runs.push({ name: file.slice(directory.length + 1), allowMissing });
        const error = fail.shift();
        if (error) throw error;
        writeFileSync(file, "tar");
        return MADE;
      },
    });
  let backups = create();
  return {
    directory,
    clock,
    fail,
    log,
    runs,
    files: () => readdirSync(directory).sort(),
    restart: () => void (backups = create()),
    make: () => backups.make("signal"),
    close: () => backups.close(),
    /** Advances the clock by so many seconds and checks once whether a backup is due. */
    async after(seconds: number) {
      clock.at += seconds;
      await backups.runIfDue();
    },
  };
}

test("makes the first backup at once and the next ones at the interval, and removes the oldest", async () => {
  const world = scheduled();
  for (const seconds of [0, 10, HOUR - 11, 1, HOUR, HOUR, HOUR]) await world.after(seconds);
  assert.equal(world.files(), [
    "assay-backup-20260101T020000Z.tar",
    "assay-backup-20260101T030000Z.tar",
    "assay-backup-20260101T040000Z.tar",
  ]);
  assert.is(world.runs.length, 5);
  assert.equal(
    world.log.filter(([, text]) => text === "removed old backups").map(([, , { files }]) => files),
    [["assay-backup-20260101T000000Z.tar"], ["assay-backup-20260101T010000Z.tar"]],
  );
  const [level, text, fields] = world.log[0] ?? [];
  assert.equal(
    { level, text, fields },
    {
      level: "info",
      text: "made a backup",
      fields: { file: join(world.directory, "assay-backup-20260101T000000Z.tar"), ...MADE, reason: "schedule" },
    },
  );
});

test("a restart neither delays, skips nor repeats a backup", async () => {
  const world = scheduled();
  await world.after(0);
  for (let minute = 1; minute < 60; minute += 1) {
    world.restart();
    await world.after(60);
  }
  assert.is(world.runs.length, 1);
  world.restart();
  await world.after(60);
  assert.is(world.runs.length, 2);
  // Down for a day: one backup at once, and the next an hour later.
  world.restart();
  await world.after(24 * HOUR);
  await world.after(HOUR - 1);
  assert.is(world.runs.length, 3);
  await world.after(1);
  assert.is(world.runs.length, 4);
});

test("counts and removes only complete backups with the names of this server", async () => {
  const world = scheduled({ keep: 1 });
  mkdirSync(world.directory);
  const others = [
    "assay-backup-20250101T000000Z.tar.gz",
    "assay-backup-20250101T000000Z.tar.partial",
    "my-assay-backup-20250101T000000Z.tar",
    "assay-backup-20251399T000000Z.tar",
    "assay-schema-3-before-4-20250101T000000Z.db",
    "notes",
  ];
  for (const name of [...others, "assay-backup-20250101T000000Z.tar"]) writeFileSync(join(world.directory, name), "");
  await world.after(0);
  assert.equal(world.files(), [...others, "assay-backup-20260101T000000Z.tar"].sort());
});

test("a manual backup also resets the interval", async () => {
  const world = scheduled();
  await world.after(0);
  world.clock.at += HOUR - 60;
  await world.make();
  await world.after(60);
  assert.is(world.runs.length, 2);
  assert.is(world.log.at(-1)?.[2].reason, "signal");
});

test("two backups in one second get two names", async () => {
  const world = scheduled();
  await world.make();
  await world.make();
  assert.equal(world.files(), ["assay-backup-20260101T000000Z.tar", "assay-backup-20260101T000001Z.tar"]);
});

test("without an interval only manual backups are made", async () => {
  const world = scheduled({ every: null });
  await world.after(0);
  await world.after(1000 * HOUR);
  assert.is(world.runs.length, 0);
  await world.make();
  assert.is(world.runs.length, 1);
});

test("never runs two backups at a time", async () => {
  const world = scheduled();
  await Promise.all([world.make(), world.make(), world.after(0)]);
  assert.is(world.runs.length, 1);
  assert.equal(world.log.map(([, text]) => text).sort(), [
    "a backup is already running; no other is started",
    "made a backup",
  ]);
});

test("a failed backup is logged as an error, removes no old one, and is retried after 15 minutes", async () => {
  const world = scheduled({ keep: 1 });
  await world.after(0);
  world.fail.push(new BackupError("no room"), new Error("EIO"));
  await world.after(HOUR);
  assert.equal(world.log.at(-1), [
    "error",
    "the backup failed and will be retried",
    { error: "no room", reason: "schedule", directory: world.directory },
  ]);
  await world.after(899);
  assert.is(world.runs.length, 2);
  await world.after(1);
  assert.is(world.log.at(-1)?.[2].err.message, "EIO");
  assert.equal(world.files(), ["assay-backup-20260101T000000Z.tar"]);
  await world.after(900);
  assert.equal(world.files(), ["assay-backup-20260101T013000Z.tar"]);
  await world.after(HOUR - 1);
  assert.is(world.runs.length, 4);
});

test("keeps one incomplete backup when evidence is damaged, and never counts it as a good one", async () => {
  const world = scheduled({ keep: 1 });
  await world.after(0);
  const incomplete = new IncompleteEvidenceError(["evidence aa is missing"]);
  for (const seconds of [HOUR, HOUR]) {
    world.fail.push(incomplete);
    await world.after(seconds);
  }
  assert.equal(
    world.runs.map(({ allowMissing }) => allowMissing),
    [false, false, true, false, true],
  );
  assert.equal(world.files(), ["assay-backup-20260101T000000Z.tar", "assay-backup-20260101T020000Z.incomplete.tar"]);
  const [level, text, { problems }] = world.log.at(-1) ?? ["", "", {}];
  assert.equal({ level, problems }, { level: "error", problems: ["evidence aa is missing"] });
  assert.match(text, "the backup lacks evidence");
  assert.is(lastBackup(world.directory)?.file, "assay-backup-20260101T000000Z.tar");
  // Not sooner than a good one. The evidence is repaired by then, and a good backup replaces the incomplete one.
  await world.after(HOUR - 1);
  assert.is(world.runs.length, 5);
  await world.after(1);
  assert.equal(world.files(), ["assay-backup-20260101T030000Z.tar"]);
});

test("backups named under a wrong clock neither delay nor displace others", async () => {
  const world = scheduled({ keep: 1 });
  mkdirSync(world.directory);
  writeFileSync(join(world.directory, "assay-backup-20300101T000000Z.tar"), "");
  await world.after(0);
  await world.after(HOUR);
  assert.equal(world.files(), ["assay-backup-20260101T010000Z.tar", "assay-backup-20300101T000000Z.tar"]);
});

test("does not create a configured directory: its disk may not be mounted", async () => {
  const directory = join(newDirectory(), "mnt");
  const world = scheduled({ directory, own: false });
  await world.after(0);
  assert.is(world.log.at(-1)?.[0], "error");
  assert.throws(() => readdirSync(directory));
});

test("a backup interrupted by the stop of the server is not a failure", async () => {
  const world = scheduled();
  world.fail.push(new Error("the server is stopping"));
  world.close();
  await world.make();
  assert.equal(
    world.log.map(([level, text]) => [level, text]),
    [["info", "the backup was aborted because the server is stopping"]],
  );
});

test("finds the last good backup from the directory alone", async () => {
  const world = scheduled();
  assert.is(lastBackup(world.directory), null);
  await world.after(0.5);
  await world.after(HOUR);
  assert.equal(lastBackup(world.directory), {
    file: "assay-backup-20260101T010000Z.tar",
    time: START + HOUR,
    bytes: 3,
  });
  assert.is(readFileSync(join(world.directory, "assay-backup-20260101T010000Z.tar"), "utf8"), "tar");
  rmSync(world.directory, { recursive: true });
  assert.is(lastBackup(world.directory), null);
  assert.equal(
    [backupDirectory({ backupDirectory: null }, "/data"), backupDirectory({ backupDirectory: "/mnt/b" }, "/data")],
    ["/data/backups", "/mnt/b"],
  );
});

test.run();
