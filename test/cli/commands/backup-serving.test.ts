/** Scheduled and requested backups of a running server, made in a thread. */
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { lastBackup } from "../../../src/server/backup-schedule.ts";
import { lockEvidence } from "../../../src/store/db/data-directory-lock.ts";
import { newDirectory, removeDirectories } from "../../backup/given.ts";
import { cli, look, start } from "../in-process.ts";
import type { Started } from "../in-process.ts";

const test = suite("cli/commands/backup-serving");
test.after(removeDirectories);

/** A data directory with an organization. */
async function initialized(): Promise<{ root: string; data: string }> {
  const root = newDirectory();
  const data = join(root, "data");
  assert.is((await cli(["init", "--data", data, "--org", "acme", "--user", "ops"])).code, 0);
  return { root, data };
}
const serve = (data: string, ...words: string[]): Started =>
  start(["serve", "--data", data, "--listen", "127.0.0.1:0", ...words]);
const backupsIn = (directory: string): string[] =>
  readdirSync(directory).filter((name) => !name.startsWith("assay-schema"));

test("a start removes what a killed backup left, and leaves the backups", async () => {
  const { root, data } = await initialized();
  const target = join(root, "target");
  mkdirSync(target);
  for (const name of ["assay-backup.partial", "assay-backup.partial-db", "assay-backup-20260101T000000Z.tar", "other"])
    writeFileSync(join(target, name), "left");
  const server = serve(data, "--backup-directory", target);
  await server.wrote(/"msg":"removed what killed backups had left"/);
  assert.is((await server.stop()).code, 0);
  assert.equal(readdirSync(target).sort(), ["assay-backup-20260101T000000Z.tar", "other"]);
});

test("makes a backup on SIGUSR1 that assay restore accepts", async () => {
  const { root, data } = await initialized();
  const server = serve(data, "--metrics-key", "metrics-key-0123456789");
  const [, url = ""] = /listening on (\S+)/.exec(await server.wrote(/API reference/)) ?? [];
  const told = async (): Promise<string | undefined> => {
    const text = await (
      await fetch(`${url}/metrics`, { headers: { Authorization: "Bearer metrics-key-0123456789" } })
    ).text();
    return /^assay_backup_last_success_timestamp_seconds (\S+)$/m.exec(text)?.[1];
  };
  assert.is(await told(), undefined);
  server.signal("SIGUSR1");
  await server.wrote(/"msg":"made a backup"/);
  assert.is(Number(await told()), lastBackup(join(data, "backups"))?.time);
  const [name = "", ...others] = backupsIn(join(data, "backups"));
  assert.match(name, /^assay-backup-\d{8}T\d{6}Z\.tar$/);
  assert.equal(others, []);
  const { code, err } = await server.stop();
  assert.is(code, 0);
  const line = err.split("\n").find((text) => text.includes("made a backup"));
  const { level, file, reason, rows, files, missing } = JSON.parse(line ?? "{}");
  assert.equal(
    { level, file, reason, files, missing },
    { level: "info", file: join(data, "backups", name), reason: "signal", files: 0, missing: 0 },
  );
  assert.ok(rows > 10);
  const target = join(root, "t");
  assert.is((await cli(["restore", file, "--data", target])).code, 0);
  assert.is(
    look(target, (store) => store.organizations.find("acme")?.name),
    "acme",
  );
});

test("makes a scheduled backup in the configured directory, and no second one after a restart", async () => {
  const { root, data } = await initialized();
  const elsewhere = join(root, "disk");
  mkdirSync(elsewhere);
  const options = ["--backup-every", "24h", "--backup-directory", elsewhere];
  const server = serve(data, ...options);
  await server.wrote(/"msg":"made a backup"/);
  await server.stop();
  const names = backupsIn(elsewhere);
  assert.is(names.length, 1);
  const again = serve(data, ...options);
  await again.wrote(/API reference/);
  const { err } = await again.stop();
  assert.not.match(err, /(made|make|no) (a )?backup/);
  assert.equal(backupsIn(elsewhere), names);
});

test("removes no evidence while a backup runs", async () => {
  const { data } = await initialized();
  const shard = join(data, "evidence", "aa");
  mkdirSync(shard, { recursive: true });
  const old = join(shard, "a".repeat(62));
  writeFileSync(old, "old");
  utimesSync(old, 1, 1);
  const lock = lockEvidence(data);
  const server = serve(data);
  await server.wrote(/API reference/);
  await server.stop();
  assert.ok(existsSync(old));
  lock?.release();
  const next = serve(data);
  await next.wrote(/deleted evidence that no record references/);
  await next.stop();
  assert.not.ok(existsSync(old));
});

test("logs a failed backup and keeps running", async () => {
  const { root, data } = await initialized();
  const server = serve(data, "--backup-every", "24h", "--backup-directory", join(root, "not-mounted"));
  const text = await server.wrote(
    /"msg":"the backup failed[^]*API reference|API reference[^]*"msg":"the backup failed/,
  );
  const { level, error } = JSON.parse(text.split("\n").find((line) => line.includes("the backup failed")) ?? "{}");
  assert.equal(
    { level, error },
    { level: "error", error: `there is no directory ${join(root, "not-mounted")}; create it first` },
  );
  assert.is((await server.stop()).code, 0);
});

test("logs missing evidence and makes the incomplete backup", async () => {
  const { data } = await initialized();
  const digest = "ab".repeat(32);
  look(data, (_, db) => {
    // Only the row matters, not the object that it belongs to.
    db.pragma("foreign_keys = OFF");
    const columns = db
      .prepare<[], { name: string; type: string; notnull: number; pk: number }>(
        "SELECT name, type, \"notnull\", pk FROM pragma_table_info('attestations')",
      )
      .all()
      .filter(({ notnull, pk }) => notnull && !pk);
    const names = [...columns.map(({ name }) => name), "evidence_digest", "evidence_size"];
    db.pragma("ignore_check_constraints = ON");
    db.prepare(`INSERT INTO attestations (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`).run(
      ...columns.map(({ type }) => (type === "TEXT" ? "x" : 1)),
      digest,
      5,
    );
  });
  const server = serve(data);
  await server.wrote(/API reference/);
  server.signal("SIGUSR1");
  const text = await server.wrote(/the backup lacks evidence/);
  const { problems, missing } = JSON.parse(text.split("\n").find((line) => line.includes("lacks evidence")) ?? "{}");
  assert.equal({ problems, missing }, { problems: [`evidence ${digest} is missing`], missing: 1 });
  assert.match(backupsIn(join(data, "backups")).join(), /^assay-backup-\d{8}T\d{6}Z\.incomplete\.tar$/);
  await server.stop();
});

test.run();
