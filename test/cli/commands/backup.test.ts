import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { lockEvidence } from "../../../src/store/db/data-directory-lock.ts";
import { schemaVersion } from "../../../src/store/db/database.ts";
import {
  EVIDENCE,
  evidenceIn,
  givenData,
  newDirectory,
  partsOf,
  removeDirectories,
  sha256,
} from "../../backup/given.ts";
import { cli, look, start } from "../in-process.ts";

const test = suite("cli/commands/backup");

const given = await givenData();
const { data } = given;
test.after(async () => {
  await given.server.stop();
  removeDirectories();
});

const backup = (file: string, ...words: string[]) => cli(["backup", file, "--data", data, ...words]);
const restore = (file: string, directory: string, ...words: string[]) =>
  cli(["restore", file, "--data", directory, ...words]);
/** Makes a directory and a backup of all its data. */
async function saved(): Promise<{ root: string; file: string }> {
  const root = newDirectory();
  const file = join(root, "b.tar");
  const { code, err } = await backup(file);
  assert.is(code, 0, err);
  return { root, file };
}

test("backup beside a running server and restore print summaries", async () => {
  const root = newDirectory();
  const file = join(root, "b.tar");
  const made = await backup(file);
  assert.equal({ code: made.code, err: made.err }, { code: 0, err: "" });
  assert.match(
    made.out,
    new RegExp(
      `^backup of ${data} at \\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ: ${file}\n` +
        `schema ${schemaVersion()}, \\d+ rows, 3 evidence files \\(0\\.3 MB\\)\n` +
        `\\d+\\.\\d MB in \\d+\\.\\d s, SHA-256 ${sha256(readFileSync(file))}\n$`,
    ),
  );
  assert.is(statSync(file).mode & 0o777, 0o600);
  assert.equal(readdirSync(root), ["b.tar"]);
  assert.not.ok(existsSync(join(data, "backups")));

  const target = join(root, "target");
  const read = await restore(file, target);
  assert.equal({ code: read.code, err: read.err }, { code: 0, err: "" });
  assert.match(
    read.out,
    new RegExp(
      `^restored ${target} as of .*Z, from a backup of Assay \\d.*\n` +
        `schema ${schemaVersion()}, \\d+ rows, 3 evidence files: all counts and hashes verified \\(\\d+\\.\\d ` +
        "s\\)\n$",
    ),
  );
  assert.equal(readdirSync(root).sort(), ["b.tar", "target"]);
  assert.is(statSync(target).mode & 0o777, 0o700);
  assert.is(statSync(join(target, "assay.db")).mode & 0o777, 0o600);
  assert.is(
    look(target, (_, db) => db.prepare("SELECT count(*) FROM attestations").pluck().get()),
    5,
  );
  assert.equal([...evidenceIn(target).keys()].sort(), EVIDENCE.map(sha256).sort());
});

test("both print their summaries as JSON", async () => {
  const { root, file } = await saved();
  const made = JSON.parse((await backup(join(root, "c.tgz"), "--json", "--verify")).out);
  const { created_at, seconds, rows, ...rest } = made;
  const bytes = readFileSync(join(root, "c.tgz"));
  assert.equal(rest, {
    file: join(root, "c.tgz"),
    schema_version: schemaVersion(),
    evidence: { count: 3, bytes: 1 + 513 + 300_000, missing: [] },
    bytes: bytes.length,
    sha256: sha256(bytes),
  });
  assert.ok(Number.isFinite(seconds) && rows > 10 && Date.parse(created_at) > 0);
  assert.ok(bytes.length < statSync(file).size / 2, "it is compressed");
  const read = JSON.parse((await restore(join(root, "c.tgz"), join(root, "t"), "--json")).out);
  assert.equal(
    {
      directory: read.directory,
      created_at: read.created_at,
      schema_version: read.schema_version,
      rows: read.rows,
      evidence: read.evidence,
    },
    { directory: join(root, "t"), created_at, schema_version: schemaVersion(), rows, evidence: rest.evidence },
  );
});

test("- writes to and reads from a pipe, with the summary on stderr", async () => {
  const running = start(["backup", "-", "--data", data]);
  const { code, out, err } = await running.ended;
  assert.equal({ code, out }, { code: 0, out: "" });
  assert.match(err, new RegExp(`: stdout\n[^]*SHA-256 ${sha256(running.bytes())}\n$`));
  assert.equal((await partsOf(running.bytes())).length, 7);
  assert.equal(readdirSync(join(data, "backups")), [], "its copy of the database is gone");
  rmSync(join(data, "backups"), { recursive: true });
  const target = join(newDirectory(), "target");
  assert.is((await cli(["restore", "-", "--data", target], { stdin: running.bytes() })).code, 0);
  assert.ok(existsSync(join(target, "assay.db")));
});

test("refuses contradictory arguments as wrong usage", async () => {
  const refusals: [string[], RegExp, object?][] = [
    [["backup", "--data", data], /argument FILE is missing/],
    [["backup", "-", "--data", data], /stdout is a terminal/, { isTty: true }],
    [
      ["backup", "-", "--overwrite", "--verify", "--data", data],
      /--overwrite needs a file name in place of -\n.*--verify needs/,
    ],
    [["backup", "b.tar", "--without-evidence", "--allow-missing", "--data", data], /--allow-missing has no effect/],
    [["backup", "b.tar"], /data is not set/],
    [["restore", "-", "--data", "x"], /stdin is a terminal/, { stdinIsTty: true }],
  ];
  for (const [words, problem, surroundings] of refusals) {
    const { code, err } = await cli(words, { cwd: newDirectory(), ...surroundings });
    assert.is(code, 2, words.join(" "));
    assert.match(err, problem);
  }
});

test("--service names a unit, needs systemd, and touches nothing where either is missing", async () => {
  const { root, file } = await saved();
  const wrong = await restore(file, join(root, "t"), "--service", "assay; reboot");
  assert.is(wrong.code, 2);
  assert.match(wrong.err, '--service: "assay; reboot" is not the name of a unit\n');
  const unknown = await restore(file, join(root, "t"), "--service", "assay-of-no-machine");
  assert.is(unknown.code, 1);
  assert.match(
    unknown.err,
    /^assay: (there is no (systemctl|unit assay-of-no-machine)|systemctl show .* failed|--service needs root)/,
  );
  assert.equal(readdirSync(root), ["b.tar"]);
});

test("keeps an existing file unless --overwrite is given", async () => {
  const { root, file } = await saved();
  writeFileSync(file, "precious");
  const { code, err } = await backup(file);
  assert.equal({ code, readFileSync: readFileSync(file, "utf8") }, { code: 1, readFileSync: "precious" });
  assert.is(err, `assay: ${file} already exists; give another name, or --overwrite to replace it\n`);
  assert.is((await backup(file, "--overwrite")).code, 0);
  assert.is((await restore(file, join(root, "t"))).code, 0);
  assert.match((await backup(root)).err, /is not a file; give the name of one/);
  assert.match((await backup(join(root, "nowhere", "b.tar"))).err, /there is no directory .*nowhere; create it first/);
  assert.equal(readdirSync(root).sort(), ["b.tar", "t"]);
});

test("replaces the remains of a killed backup and nothing else", async () => {
  const { root, file } = await saved();
  for (const name of ["c.tar.partial", "c.tar.partial-db", "c.tar.partial-db-journal", "other.tar.partial"])
    writeFileSync(join(root, name), "left");
  assert.is((await backup(join(root, "c.tar"))).code, 0);
  assert.equal(readdirSync(root).sort(), ["b.tar", "c.tar", "other.tar.partial"]);
  assert.ok(existsSync(file));
});

test("fails with exit code 5 on missing and damaged evidence, or leaves it out with --allow-missing", async () => {
  const { root } = await saved();
  const [one, block, large] = EVIDENCE.map(given.pathOf) as [string, string, string];
  const [missing, short] = [sha256(EVIDENCE[0]), sha256(EVIDENCE[1])];
  renameSync(one, `${one}.away`);
  chmodSync(block, 0o600);
  writeFileSync(block, "short");
  const file = join(root, "c.tar");
  try {
    const refused = await backup(file);
    assert.equal({ code: refused.code, out: refused.out }, { code: 5, out: "" });
    assert.equal(
      refused.err.split("\n").sort(),
      [
        "",
        ...[missing, short]
          .map((digest) =>
            digest === missing
              ? `assay: evidence ${digest} is missing`
              : `assay: evidence ${digest} has 5 bytes instead of 513`,
          )
          .sort(),
        "assay: no archive was written; --allow-missing makes a backup without these files",
      ].sort(),
    );
    // The right size with the wrong content.
    chmodSync(large, 0o600);
    writeFileSync(large, Buffer.alloc(300_000, "other"));
    const allowed = await backup(file, "--allow-missing");
    assert.is(allowed.code, 0, allowed.err);
    assert.match(allowed.out, /0 evidence files[^]*it lacks 3 evidence files/);
  } finally {
    renameSync(`${one}.away`, one);
    writeFileSync(block, EVIDENCE[1]);
    writeFileSync(large, EVIDENCE[2]);
  }
  const target = join(root, "t");
  const refused = await restore(file, target);
  assert.is(refused.code, 1);
  assert.match(refused.err, /the backup lacks 3 evidence files .*--allow-missing/);
  assert.not.ok(existsSync(target));
  const taken = await restore(file, target, "--allow-missing");
  assert.is(taken.code, 0, taken.err);
  assert.match(taken.out, /the backup lacks 3 evidence files/);
});

test("leaves no archive when evidence turns out to be damaged while it is written", async () => {
  const { root } = await saved();
  const large = given.pathOf(EVIDENCE[2]);
  chmodSync(large, 0o600);
  writeFileSync(large, Buffer.alloc(300_000, "other"));
  try {
    const { code, err } = await backup(join(root, "c.tar"));
    assert.is(code, 5);
    assert.match(err, new RegExp(`evidence ${sha256(EVIDENCE[2])} is damaged`));
    assert.equal(readdirSync(root), ["b.tar"]);
  } finally {
    writeFileSync(large, EVIDENCE[2]);
  }
});

test("a signal stops both commands, and nothing is left", async () => {
  const root = newDirectory();
  const running = start(["backup", join(root, "b.tar"), "--data", data]);
  const { code, err } = await running.stop();
  assert.equal({ code, err }, { code: 1, err: "assay: stopped by SIGTERM; no archive was written\n" });
  assert.equal(readdirSync(root), []);
  const { file } = await saved();
  const restoring = await start(["restore", file, "--data", join(root, "t")]).stop();
  assert.equal(
    { code: restoring.code, err: restoring.err },
    { code: 1, err: "assay: stopped by SIGTERM; nothing was restored\n" },
  );
  assert.equal(readdirSync(root), []);
});

test("refuses to back up a directory without data", async () => {
  const root = newDirectory();
  const { code, err } = await cli(["backup", "b.tar", "--data", join(root, "nowhere")], { cwd: root });
  assert.is(code, 1);
  assert.match(err, /there is no data directory/);
  assert.equal(readdirSync(root), []);
});

test("waits while evidence is being removed", async () => {
  const lock = lockEvidence(data);
  const root = newDirectory();
  const running = start(["backup", join(root, "b.tar"), "--data", data]);
  assert.is(lockEvidence(data), null);
  lock?.release();
  assert.is((await running.ended).code, 0);
});

test("restores into an empty directory and keeps lost+found", async () => {
  const { root, file } = await saved();
  const target = join(root, "volume");
  mkdirSync(join(target, "lost+found"), { recursive: true });
  assert.is((await restore(file, target)).code, 0);
  assert.equal(readdirSync(target).sort(), ["assay.db", "evidence", "lost+found"]);
  const again = await restore(file, target);
  assert.is(again.code, 1);
  assert.match(again.err, /is not empty: it holds assay.db, evidence; restore into an empty directory/);
});

test("leaves an existing directory unchanged when the archive is damaged", async () => {
  const { root, file } = await saved();
  const bytes = readFileSync(file);
  bytes[bytes.length - 5000] = (bytes[bytes.length - 5000] ?? 0) ^ 1;
  writeFileSync(file, bytes);
  mkdirSync(join(root, "empty"));
  for (const name of ["empty", "missing"]) {
    const { code, out, err } = await restore(file, join(root, name));
    assert.equal({ code, out }, { code: 5, out: "" });
    assert.match(err, new RegExp(`^assay: ${file} is damaged or is not a backup: `));
  }
  assert.equal(
    { "readdirSync root": readdirSync(root).sort(), "readdirSync join": readdirSync(join(root, "empty")) },
    { "readdirSync root": ["b.tar", "empty"], "readdirSync join": [] },
  );
});

test("explains an invalid or missing archive and an unusable directory", async () => {
  const { root, file } = await saved();
  writeFileSync(join(root, "file"), "");
  assert.match(
    (await restore(join(root, "nothing"), join(root, "t"))).err,
    /cannot read .*nothing: it, or a directory above it, does not exist \(ENOENT\)/,
  );
  assert.match(
    (await restore(root, join(root, "t"))).err,
    `cannot read ${root}: it is a directory (EISDIR); give the path of a file\n`,
  );
  assert.match((await restore(file, join(root, "file"))).err, /file is not a directory/);
  assert.match((await restore(file, join(root, "no", "where"))).err, /there is no directory .*no; create it first/);
  const { code, err } = await restore(join(root, "file"), join(root, "t"));
  assert.equal(
    { code, err },
    { code: 5, err: `assay: ${join(root, "file")} is damaged or is not a backup: it is cut off after 0 bytes\n` },
  );
  assert.equal(readdirSync(root).sort(), ["b.tar", "file"]);
});

for (const inside of [false, true])
  test(`a restore killed ${inside ? "in" : "beside"} the directory leaves no data; the next starts over`, async () => {
    const { root, file } = await saved();
    const target = join(root, "t");
    const left = inside ? join(target, "restore-unfinished") : `${target}.restore-unfinished`;
    mkdirSync(join(left, "evidence", "ab"), { recursive: true });
    writeFileSync(join(left, "restore-unfinished"), "");
    writeFileSync(join(left, "assay.db"), "half");
    if (inside) mkdirSync(join(target, "evidence"));
    for (const directory of inside ? [target, left] : [left]) {
      for (const words of [
        ["serve", "--listen", "127.0.0.1:0"],
        ["key", "list", "--user", "x"],
        ["init", "--org", "a", "--user", "b"],
        ["backup", join(root, "x.tar")],
      ]) {
        const { code, err } = await cli([...words, "--data", directory]);
        assert.is(code, 1, words.join(" "));
        assert.match(
          err,
          /holds part of a backup: a restore began and did not end|is no data directory: it holds no assay.db/,
          words.join(" "),
        );
      }
    }
    const { code, err } = await restore(file, target);
    assert.is(code, 0, err);
    assert.is(
      look(target, (_, db) => db.prepare("SELECT count(*) FROM attestations").pluck().get()),
      5,
    );
    assert.equal(readdirSync(root).sort(), ["b.tar", "t"]);
    assert.not.ok(existsSync(join(target, "restore-unfinished")));
  });

test("a restore killed before the directory has its name is started over by the next", async () => {
  const { root, file } = await saved();
  const left = join(root, "t.restore-unfinished");
  assert.is((await restore(file, left)).code, 0);
  writeFileSync(join(left, "restore-finished"), "");
  const { code, err } = await restore(file, join(root, "t"));
  assert.is(code, 0, err);
  assert.equal(readdirSync(root).sort(), ["b.tar", "t"]);
  assert.not.ok(existsSync(join(root, "t", "restore-finished")));
});

test("does not remove files that no restore created", async () => {
  const { root, file } = await saved();
  mkdirSync(join(root, "t.restore-unfinished"));
  writeFileSync(join(root, "t.restore-unfinished", "mine"), "");
  const { code, err } = await restore(file, join(root, "t"));
  assert.is(code, 1);
  assert.match(err, /t.restore-unfinished is in the way, and no restore created it/);
  assert.equal(readdirSync(join(root, "t.restore-unfinished")), ["mine"]);
});

test.run();
