/** The content of a backup, and that any changed, truncated or incomplete archive is detected. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { checkArchive } from "../../src/backup/check.ts";
import { DamagedBackupError, NewerBackupError } from "../../src/backup/format.ts";
import { BackupError } from "../../src/backup/errors.ts";
import { RestoreError } from "../../src/backup/restore.ts";
import { memberHeader } from "../../src/archive/tar.ts";
import { openCopy } from "../../src/store/db/connection.ts";
import { DamagedDatabaseError, NewerDatabaseError, openDatabase, schemaVersion } from "../../src/store/db/database.ts";
import {
  AT,
  EVIDENCE,
  backUp,
  evidenceIn,
  givenData,
  newDirectory,
  pack,
  partsOf,
  refused,
  removeDirectories,
  repack,
  restore,
  sha256,
} from "./given.ts";
import type { Part } from "./given.ts";

const test = suite("backup/archive");

const given = await givenData();
const { archive, manifest } = await backUp(given);
const parts = await partsOf(archive);
test.after(async () => {
  await given.server.stop();
  removeDirectories();
});

const signal = new AbortController().signal;
const check = (bytes: Uint8Array): Promise<unknown> =>
  checkArchive(
    (async function* () {
      yield bytes;
    })(),
    signal,
  );
/** The error with which reading those bytes fails, null when it succeeds. */
const damage = (bytes: Uint8Array): Promise<Error | null> =>
  check(bytes).then(
    () => null,
    (error: Error) => error,
  );
const flipped = (at: number, bits = 1): Buffer => {
  const bytes = Buffer.from(archive);
  bytes[at] = (bytes[at] ?? 0) ^ bits;
  return bytes;
};
const at = (name: string): Part => parts.find((part) => part.name === name) as Part;
const without = (name: string): Part[] => parts.filter((part) => part.name !== name);
const evidenceNames = EVIDENCE.map(sha256)
  .sort()
  .map((digest) => `evidence/${digest.slice(0, 2)}/${digest.slice(2)}`);

test("tar unpacks an archive to a data directory that sha256sum verifies", () => {
  const directory = newDirectory();
  execFileSync("tar", ["-xf", "-"], { cwd: directory, input: archive });
  execFileSync("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"], { cwd: directory });
  assert.equal([...evidenceIn(directory).keys()].sort(), EVIDENCE.map(sha256).sort());
  const db = openDatabase(directory, AT);
  assert.is(db.prepare("SELECT count(*) FROM attestations").pluck().get(), 5);
  db.close();
});

test("an archive begins with its head, contains each file once, and ends with counts and hashes", () => {
  assert.equal(
    parts.map(({ name }) => name),
    ["assay-backup.json", "assay.db", ...evidenceNames, "SHA256SUMS", "manifest.json"],
  );
  const head = {
    format: "assay-backup",
    format_version: 1,
    created_at: "2026-01-02T03:04:05Z",
    program: { version: "1.2.3", commit: null },
    schema_version: schemaVersion(),
    evidence: true,
  };
  assert.equal(JSON.parse(at("assay-backup.json").content.toString()), head);
  const { database, files, sums_sha256, ...rest } = manifest;
  assert.equal(rest, head);
  assert.equal(
    { bytes: database.bytes, sha256: database.sha256 },
    { bytes: at("assay.db").content.length, sha256: sha256(at("assay.db").content) },
  );
  assert.equal(
    {
      attestations: database.rows["attestations"],
      organizations: database.rows["organizations"],
      deliveries: database.rows["deliveries"],
    },
    { attestations: 5, organizations: 1, deliveries: 0 },
  );
  assert.equal(files, { count: 3, bytes: 1 + 513 + 300_000, missing: [] });
  assert.is(sums_sha256, sha256(at("SHA256SUMS").content));
});

test("backups of the same state have the same bytes", async () => {
  assert.ok((await backUp(given)).archive.equals(archive));
});

test("a restore brings back all rows and all evidence byte for byte, and holds no lock", async () => {
  const { directory, manifest: restored } = await restore(archive);
  assert.equal(restored, manifest);
  const evidence = evidenceIn(directory);
  assert.is(evidence.size, 3);
  for (const content of EVIDENCE) assert.ok(evidence.get(sha256(content))?.equals(content));
  const db = openDatabase(directory, AT);
  for (const table of ["attestations", "organizations", "users", "audit_log", "trails"]) {
    const rows = (from: typeof db): unknown[] => from.prepare(`SELECT * FROM ${table}`).raw().all();
    assert.equal(rows(db), rows(given.server.db), table);
  }
  db.close();
});

test("a compressed archive is recognized by its content, not by its name", async () => {
  const { manifest: restored } = await restore(gzipSync(archive));
  assert.equal(restored, manifest);
});

test("detects one changed bit anywhere outside of the contents", async () => {
  // Samples the headers, the small members with their padding, and everything after the last evidence file.
  const places: number[] = [];
  let start = 0;
  for (const { name, content } of parts) {
    const end = start + 512 + content.length;
    const padded = Math.ceil(end / 512) * 512;
    if (name !== "assay.db" && content.length < 10_000)
      for (let place = start; place < padded; place += 11) places.push(place);
    else for (let place = start; place < start + 512; place += 11) places.push(place);
    start = padded;
  }
  for (let place = start; place < archive.length; place += 11) places.push(place);
  const missed: number[] = [];
  for (const place of places)
    if (!((await damage(flipped(place, 1 << (place % 8)))) instanceof DamagedBackupError)) missed.push(place);
  assert.equal(missed, []);
});

test("detects one changed bit in the contents", async () => {
  const missed: number[] = [];
  for (let place = 100; place < archive.length; place += 50_021)
    if (!((await damage(flipped(place, 0x80))) instanceof DamagedBackupError)) missed.push(place);
  assert.equal(missed, []);
});

test("refuses an archive that is cut off anywhere", async () => {
  const missed: number[] = [];
  for (
    let length = 0;
    length < archive.length;
    length += length < 4096 || length > archive.length - 8192 ? 512 : 512 * 201
  )
    if (!((await damage(archive.subarray(0, length))) instanceof DamagedBackupError)) missed.push(length);
  for (const length of [1, 511, archive.length - 1])
    if (!((await damage(archive.subarray(0, length))) instanceof DamagedBackupError)) missed.push(length);
  assert.equal(missed, []);
});

test("refuses an archive with data after its end", async () => {
  for (const more of [Buffer.alloc(1), Buffer.alloc(512), Buffer.from("x"), archive])
    assert.match((await damage(Buffer.concat([archive, more])))?.message ?? "", "there is more after its end");
  const packed = gzipSync(archive);
  for (const more of [Buffer.from("garbage"), Buffer.alloc(100), packed])
    assert.ok((await damage(Buffer.concat([packed, more]))) instanceof DamagedBackupError, `${more.length} bytes`);
  for (const length of [10, 1000, packed.length - 1])
    assert.ok((await damage(packed.subarray(0, length))) instanceof DamagedBackupError, `${length} bytes`);
  assert.ok((await damage(Buffer.from("neither tar nor gzip"))) instanceof DamagedBackupError);
});

test("a restore of a damaged archive leaves nothing behind", async () => {
  for (const place of [0, 600, 2_000, archive.length - 400_000, archive.length - 3_000, archive.length - 1])
    assert.ok((await refused(flipped(place))) instanceof DamagedBackupError, `byte ${place}`);
  assert.ok((await refused(archive.subarray(0, 700_000))) instanceof DamagedBackupError);
  assert.ok((await refused(gzipSync(archive).subarray(0, 20_000))) instanceof DamagedBackupError);
});

/** Archives with an order or kind of members that Assay never writes, each with its error message. */
const [first = "", second = "", third = ""] = evidenceNames;
const malformed: readonly [string, Part[], RegExp][] = [
  ["without the first member", without("assay-backup.json"), /expected assay-backup.json, found/],
  ["without the database", without("assay.db"), /expected assay.db, found/],
  ["without an evidence file", without(second), /SHA256SUMS does not agree/],
  ["without sums", without("SHA256SUMS"), /expected SHA256SUMS, found/],
  ["without a manifest", without("manifest.json"), /it ends without manifest.json/],
  [
    "with two evidence files swapped",
    [...parts.slice(0, 2), at(second), at(first), ...parts.slice(4)],
    /is out of place/,
  ],
  ["with an evidence file twice", [...parts.slice(0, 3), at(first), ...parts.slice(3)], /is out of place/],
  [
    "with evidence whose name does not match its content",
    [...parts.slice(0, 5), { name: `evidence/ff/${"f".repeat(62)}`, content: Buffer.alloc(0) }, ...parts.slice(5)],
    /does not match its name/,
  ],
  [
    "with an unknown member",
    [...parts.slice(0, 5), { name: "notes.txt", content: Buffer.from("hello") }, ...parts.slice(5)],
    /expected SHA256SUMS, found "notes.txt"/,
  ],
  ["with a member after the manifest", [...parts, { name: "more", content: Buffer.alloc(0) }], /more follows the end/],
  ["with a second manifest", [...parts, at("manifest.json")], /manifest.json follows the end/],
  [
    "with a path that leaves the directory",
    [...parts.slice(0, 2), { name: "evidence/../../etc/passwd", content: Buffer.from("x") }, ...parts.slice(3)],
    /expected SHA256SUMS, found/,
  ],
  [
    "with an absolute path",
    [...parts.slice(0, 2), { name: "/etc/passwd", content: Buffer.from("x") }, ...parts.slice(3)],
    /expected SHA256SUMS, found/,
  ],
];
for (const [what, members, words] of malformed)
  test(`an archive ${what} is refused`, async () => {
    const error = await refused(pack(members));
    assert.instance(error, DamagedBackupError);
    assert.match(error.message, words);
  });

test("refuses evidence that does not match its name, even when sums and manifest agree with it", async () => {
  const changed = parts.map((part) =>
    part.name === third ? { ...part, content: Buffer.from("something else") } : part,
  );
  assert.match((await refused(repack(changed))).message, /the content of evidence\/.* does not match its name/);
});

test("refuses headers with links, devices and other owners", async () => {
  const [head = Buffer.alloc(0)] = [
    ...memberHeader({
      name: "assay-backup.json",
      size: at("assay-backup.json").content.length,
      mtime: AT,
      mode: 0o600,
    }),
  ];
  for (const [place, text] of [
    [156, "2"],
    [156, "3"],
    [156, "5"],
    [156, "L"],
    [157, "/etc/passwd"],
    [265, "root"],
    [108, "0001750\0"],
    [345, "prefix"],
  ] as const) {
    const changed = Buffer.from(head);
    changed.write(text, place, "latin1");
    changed.write("        ", 148, "latin1");
    changed.write(
      `${changed
        .reduce((sum, byte) => sum + byte, 0)
        .toString(8)
        .padStart(6, "0")}\0 `,
      148,
      "latin1",
    );
    assert.match(
      (await damage(Buffer.concat([changed, archive.subarray(512)])))?.message ?? "",
      /the header at byte 0 is not one that Assay writes/,
      text,
    );
  }
});

test("refuses counts that do not match the content", async () => {
  const lies: [(manifest: any) => void, RegExp][] = [
    [(manifest) => (manifest.database.rows.attestations = 6), /the table attestations has 5 rows instead of 6/],
    [(manifest) => delete manifest.database.rows.users, /the table users has 1 rows instead of none/],
    [(manifest) => (manifest.database.rows.ghosts = 1), /the table ghosts has no rows instead of 1/],
    [(manifest) => (manifest.database.bytes += 1), /manifest.json does not agree/],
    [(manifest) => (manifest.files.count += 1), /manifest.json does not agree/],
    [(manifest) => (manifest.files.bytes -= 1), /manifest.json does not agree/],
    [(manifest) => (manifest.sums_sha256 = "0".repeat(64)), /manifest.json does not agree/],
    [(manifest) => (manifest.schema_version -= 1), /manifest.json does not agree/],
    [(manifest) => (manifest.files.missing = ["a".repeat(64)]), /its evidence is not that which its database names/],
  ];
  for (const [lie, words] of lies) assert.match((await refused(repack(parts, lie))).message, words);
});

test("refuses a manifest of another form, which a forger wrote with a matching checksum", async () => {
  const lies: [(manifest: any) => void, string][] = [
    [(manifest) => (manifest.files = null), "files must be object"],
    [(manifest) => (manifest.files = []), "files must be object"],
    [(manifest) => delete manifest.files, "it must have required property 'files'"],
    [(manifest) => delete manifest.files.missing, "files must have required property 'missing'"],
    [(manifest) => (manifest.files.missing = {}), "files/missing must be array"],
    [(manifest) => (manifest.files.missing = [7]), "files/missing/0 must be string"],
    [(manifest) => (manifest.files.missing = ["../../etc/passwd"]), "files/missing/0 must match pattern"],
    [(manifest) => delete manifest.database, "it must have required property 'database'"],
    [(manifest) => (manifest.database = "assay.db"), "database must be object"],
    [(manifest) => (manifest.database.rows = null), "database/rows must be object"],
    [(manifest) => (manifest.database.rows.users = -1), "database/rows/users must be >= 0"],
    [(manifest) => (manifest.database.rows.users = "1"), "database/rows/users must be integer"],
    [(manifest) => (manifest.database.bytes = 1e300), "database/bytes must be <= 9007199254740991"],
    [(manifest) => (manifest.format_version = -5), "format_version must be >= 1"],
    [(manifest) => (manifest.format_version = 2), "format_version must be <= 1"],
    [(manifest) => (manifest.schema_version = null), "schema_version must be integer"],
    [(manifest) => (manifest.program = null), "program must be object"],
    [(manifest) => (manifest.program.version = "\u001b[2J"), "program/version must match pattern"],
    [(manifest) => (manifest.evidence = 1), "evidence must be boolean"],
    [(manifest) => (manifest.note = "kept"), 'it must not contain "note"'],
    [(manifest) => (manifest.files.more = 1), 'files must not contain "more"'],
  ];
  for (const [lie, words] of lies) {
    const error = await refused(repack(parts, lie));
    assert.instance(error, DamagedBackupError, words);
    assert.match(error.message, `manifest.json does not have the form of a backup: ${words}`);
  }
});

test("refuses a database whose schema is not that of its version, even when sums and manifest agree", async () => {
  const forged: readonly (readonly [statement: string, problem: string])[] = [
    [
      "CREATE TRIGGER promote AFTER INSERT ON memberships BEGIN UPDATE memberships SET role = 'admin'; END",
      "trigger promote was not created by this program",
    ],
    ["CREATE VIEW keys AS SELECT * FROM api_keys", "view keys was not created by this program"],
    ["CREATE TABLE notes (text TEXT) STRICT", "table notes was not created by this program"],
    ['CREATE TABLE "a""b" (text TEXT) STRICT', 'table a"b was not created by this program'],
    ["CREATE INDEX by_time ON audit_log (timestamp)", "index by_time was not created by this program"],
    ["DROP TRIGGER small_evidence_is_final", "trigger small_evidence_is_final is missing"],
  ];
  for (const [statement, problem] of forged) {
    const file = join(newDirectory(), "assay.db");
    writeFileSync(file, at("assay.db").content);
    const db = openCopy(file, { readonly: false });
    db.exec(statement);
    db.close();
    const changed = parts.map((part) => (part.name === "assay.db" ? { ...part, content: readFileSync(file) } : part));
    const error = await refused(
      repack(changed, (one) => {
        if (statement.startsWith("CREATE TABLE")) one.database.rows.notes = 0;
      }),
    );
    assert.instance(error, DamagedDatabaseError, statement);
    assert.equal((error as DamagedDatabaseError).problems, [problem]);
  }
});

test("refuses a head or a manifest that is not an object, however deep it is", async () => {
  const deep = `{"a":${"[".repeat(200_000)}${"]".repeat(200_000)}}`;
  for (const text of ["null", "7", '"text"', "[]", "{}", "[", "", deep])
    for (const name of ["assay-backup.json", "manifest.json"]) {
      const error = await refused(
        pack(parts.map((part) => (part.name === name ? { name, content: Buffer.from(text) } : part))),
      );
      assert.instance(error, DamagedBackupError, `${name} ${text.slice(0, 10)}: ${error.stack}`);
    }
});

test("refuses an archive that lacks evidence of its database, even when it is consistent in itself", async () => {
  assert.match(
    (await refused(repack(without(second)))).message,
    new RegExp(
      `evidence ${sha256(EVIDENCE.find((content) => second.endsWith(sha256(content).slice(2))) as Buffer)} is missing`,
    ),
  );
});

test("refuses an archive with evidence that its database does not name", async () => {
  const stranger = Buffer.from("stranger");
  const digest = sha256(stranger);
  const more = [...parts, { name: `evidence/${digest.slice(0, 2)}/${digest.slice(2)}`, content: stranger }].sort(
    (a, b) => (a.name.startsWith("ev") && b.name.startsWith("ev") ? (a.name < b.name ? -1 : 1) : 0),
  );
  const ordered = [
    ...more.filter(({ name }) => name.startsWith("assay")),
    ...more.filter(({ name }) => name.startsWith("evidence/")).sort((a, b) => (a.name < b.name ? -1 : 1)),
    ...more.filter(({ name }) => /^[Sm]/.test(name)),
  ];
  assert.match((await refused(repack(ordered))).message, /its evidence is not that which its database names/);
});

const withDatabase = (content: Buffer): Buffer =>
  repack(parts.map((part) => (part.name === "assay.db" ? { ...part, content } : part)));

test("refuses a damaged database, even when its hash matches", async () => {
  const content = Buffer.from(at("assay.db").content);
  content.fill(0xff, 8192, 8192 + 2048);
  assert.instance(await refused(withDatabase(content)), DamagedDatabaseError);
  assert.instance(await refused(withDatabase(Buffer.from("not a database"))), DamagedDatabaseError);
  assert.instance(await refused(withDatabase(Buffer.alloc(0))), DamagedBackupError);
});

test("refuses a database with broken foreign keys", async () => {
  const directory = newDirectory();
  writeFileSync(join(directory, "assay.db"), at("assay.db").content);
  const db = openDatabase(directory, AT);
  db.pragma("foreign_keys = OFF");
  db.prepare("UPDATE trails SET flow_id = 999").run();
  db.pragma("journal_mode = DELETE");
  const content = db.serialize();
  db.close();
  assert.match(
    (await refused(withDatabase(content))).message,
    /a row of trails refers to a row of flows that does not exist/,
  );
});

test("refuses later formats and schemas before it unpacks anything", async () => {
  const headed = (change: (head: any) => void): Buffer => {
    const head = JSON.parse(at("assay-backup.json").content.toString());
    change(head);
    return repack(
      parts.map((part) =>
        part.name === "assay-backup.json"
          ? { ...part, content: Buffer.from(`${JSON.stringify(head, null, 2)}\n`) }
          : part,
      ),
    );
  };
  const later = await refused(headed((head) => (head.format_version = 2)));
  assert.instance(later, NewerBackupError);
  assert.match(later.message, /format 2, but this program knows formats up to 1/);
  const schema = await refused(headed((head) => (head.schema_version = 99)));
  assert.instance(schema, NewerDatabaseError);
  assert.match(schema.message, /schema version 99/);
  assert.match(
    (await refused(headed((head) => (head.schema_version -= 1)))).message,
    /its database has schema version \d+ instead of/,
  );
  assert.match(
    (await refused(headed((head) => (head.created_at = "yesterday")))).message,
    /assay-backup.json does not have the form of a backup: created_at must match pattern/,
  );
  for (const version of [-5, 0, 0.5, "1", null])
    assert.match(
      (await damage(headed((head) => (head.format_version = version))))?.message ?? "",
      /assay-backup.json does not have the form of a backup: format_version must be/,
    );
  assert.match((await refused(headed((head) => (head.format = "zip")))).message, /it is not a backup of Assay/);
  assert.match((await refused(pack(parts, AT + 1))).message, /assay-backup.json has another time/);
});

test("a backup without evidence is restored only with --without-evidence", async () => {
  const bare = await backUp(given, { evidence: null });
  assert.equal(
    (await partsOf(bare.archive)).map(({ name }) => name),
    ["assay-backup.json", "assay.db", "SHA256SUMS", "manifest.json"],
  );
  assert.equal(
    { evidence: bare.manifest.evidence, files: bare.manifest.files },
    { evidence: false, files: { count: 0, bytes: 0, missing: [] } },
  );
  const error = await refused(bare.archive);
  assert.instance(error, RestoreError);
  assert.match(error.message, /made without evidence; .*--without-evidence/);
  const { directory } = await restore(bare.archive, { withoutEvidence: true });
  assert.is(evidenceIn(directory).size, 0);
  assert.match((await refused(archive, { withoutEvidence: true })).message, /the backup contains its evidence/);
});

test("reads members of more than eight gigabytes", async () => {
  const [pax = Buffer.alloc(0), records = Buffer.alloc(0), head = Buffer.alloc(0)] = [
    ...memberHeader({ name: "assay.db", size: 10 * 2 ** 30, mtime: AT, mode: 0o600 }),
  ].map((piece) => Buffer.from(piece));
  const until = archive.subarray(0, 1024);
  // It ends where the content begins, so the header was understood.
  assert.match(
    (await damage(Buffer.concat([until, pax, records, head])))?.message ?? "",
    /it is cut off after 2560 bytes/,
  );
  const other = Buffer.from(records);
  other.write("21 size=10737418240 \n", 0, "latin1");
  assert.match((await damage(Buffer.concat([until, pax, other, head])))?.message ?? "", /the header at byte 1024/);
});

test("reports missing disk space before it writes anything, and does not use the reserve of the server", async () => {
  const root = newDirectory();
  const target = { file: join(root, "b.tar"), overwrite: false };
  const error = await backUp(given, { target, reserve: 2 ** 50 }).then(
    () => null,
    (thrown: Error) => thrown,
  );
  assert.instance(error, BackupError);
  assert.match(
    error?.message ?? "",
    new RegExp(
      "^the backup needs up to \\d MB in .*, where 0 MB are free, " +
        "not counting the 1073741824 MB reserved for the server; " +
        "give a directory with more space$",
    ),
  );
  assert.equal(readdirSync(root), []);
  await backUp(given, { target });
  assert.equal(readdirSync(root), ["b.tar"]);
  assert.match((await refused(archive, { size: 2 ** 60 })).message, /the backup needs \d+ MB, and \d+ MB are free/);
});

test("does not touch a directory that is not empty", async () => {
  const directory = join(newDirectory(), "target");
  mkdirSync(directory);
  writeFileSync(join(directory, "mine"), "mine");
  const error = await restore(archive, { directory }).then(
    () => null,
    (thrown: Error) => thrown,
  );
  assert.match(error?.message ?? "", /is not empty: it holds mine/);
});

test.run();
