/** What a backup holds, and that nothing passes for one that is not whole, wherever it was changed. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { checkArchive } from "../../src/backup/check.ts";
import { DamagedBackupError, NewerBackupError } from "../../src/backup/format.ts";
import { BackupError } from "../../src/backup/make.ts";
import { RestoreError } from "../../src/backup/restore.ts";
import { memberHeader } from "../../src/archive/tar.ts";
import { DamagedDatabaseError } from "../../src/store/db/database-copy.ts";
import { NewerDatabaseError, openDatabase, schemaVersion } from "../../src/store/db/database.ts";
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
/** The error with which reading those bytes ends. */
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

test("an archive is one that tar unpacks to a data directory and sha256sum checks", () => {
  const directory = newDirectory();
  execFileSync("tar", ["-xf", "-"], { cwd: directory, input: archive });
  execFileSync("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"], { cwd: directory });
  assert.equal([...evidenceIn(directory).keys()].sort(), EVIDENCE.map(sha256).sort());
  const db = openDatabase(directory, AT);
  assert.is(db.prepare("SELECT count(*) FROM attestations").pluck().get(), 5);
  db.close();
});

test("it begins with what it is, has each file once, and ends with counts and hashes", () => {
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

test("the same state gives the same bytes", async () => {
  assert.ok((await backUp(given)).archive.equals(archive));
});

test("restored, everything is there: rows, evidence byte for byte, and a lock that nobody holds", async () => {
  const { directory, manifest: told } = await restore(archive);
  assert.equal(told, manifest);
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

test("compressed it is read as well, whatever it is called", async () => {
  const { manifest: told } = await restore(gzipSync(archive));
  assert.equal(told, manifest);
});

test("one changed bit anywhere outside of the contents is found", async () => {
  // Every byte of the headers of three members and of what follows them, and of all that comes after the last evidence.
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

test("and so is one in the contents", async () => {
  const missed: number[] = [];
  for (let place = 100; place < archive.length; place += 50_021)
    if (!((await damage(flipped(place, 0x80))) instanceof DamagedBackupError)) missed.push(place);
  assert.equal(missed, []);
});

test("cut off anywhere it is no backup", async () => {
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

test("and so it is with anything behind its end", async () => {
  for (const more of [Buffer.alloc(1), Buffer.alloc(512), Buffer.from("x"), archive])
    assert.match((await damage(Buffer.concat([archive, more])))?.message ?? "", "there is more after its end");
  const packed = gzipSync(archive);
  for (const more of [Buffer.from("garbage"), Buffer.alloc(100), packed])
    assert.ok((await damage(Buffer.concat([packed, more]))) instanceof DamagedBackupError, `${more.length} bytes`);
  for (const length of [10, 1000, packed.length - 1])
    assert.ok((await damage(packed.subarray(0, length))) instanceof DamagedBackupError, `${length} bytes`);
  assert.ok((await damage(Buffer.from("neither tar nor gzip"))) instanceof DamagedBackupError);
});

test("whatever is damaged, a restore leaves nothing and no directory", async () => {
  for (const place of [0, 600, 2_000, archive.length - 400_000, archive.length - 3_000, archive.length - 1])
    assert.ok((await refused(flipped(place))) instanceof DamagedBackupError, `byte ${place}`);
  assert.ok((await refused(archive.subarray(0, 700_000))) instanceof DamagedBackupError);
  assert.ok((await refused(gzipSync(archive).subarray(0, 20_000))) instanceof DamagedBackupError);
});

/** Members in an order, or of a kind, that Assay never writes: each with the words that it is refused with. */
const [first = "", second = "", third = ""] = evidenceNames;
const moved: readonly [string, Part[], RegExp][] = [
  ["without the first member", without("assay-backup.json"), /where assay-backup.json should be/],
  ["without the database", without("assay.db"), /where assay.db should be/],
  ["without an evidence file", without(second), /SHA256SUMS does not agree/],
  ["without sums", without("SHA256SUMS"), /where SHA256SUMS should be/],
  ["without a manifest", without("manifest.json"), /it ends without manifest.json/],
  [
    "with two evidence files swapped",
    [...parts.slice(0, 2), at(second), at(first), ...parts.slice(4)],
    /stands where it does not belong/,
  ],
  [
    "with an evidence file twice",
    [...parts.slice(0, 3), at(first), ...parts.slice(3)],
    /stands where it does not belong/,
  ],
  [
    "with evidence that nobody named",
    [...parts.slice(0, 5), { name: `evidence/ff/${"f".repeat(62)}`, content: Buffer.alloc(0) }, ...parts.slice(5)],
    /is not what its name says/,
  ],
  [
    "with a member that is nothing",
    [...parts.slice(0, 5), { name: "notes.txt", content: Buffer.from("hello") }, ...parts.slice(5)],
    /where SHA256SUMS should be is "notes.txt"/,
  ],
  [
    "with a member behind the manifest",
    [...parts, { name: "more", content: Buffer.alloc(0) }],
    /more stands after its end/,
  ],
  ["with a second manifest", [...parts, at("manifest.json")], /stands after its end/],
  [
    "with a path that leaves the directory",
    [...parts.slice(0, 2), { name: "evidence/../../etc/passwd", content: Buffer.from("x") }, ...parts.slice(3)],
    /should be/,
  ],
  [
    "with an absolute path",
    [...parts.slice(0, 2), { name: "/etc/passwd", content: Buffer.from("x") }, ...parts.slice(3)],
    /should be/,
  ],
];
for (const [what, members, words] of moved)
  test(`an archive ${what} is refused`, async () => {
    const error = await refused(pack(members));
    assert.instance(error, DamagedBackupError);
    assert.match(error.message, words);
  });

test("evidence whose content is not its name is refused, also when everything else agrees with it", async () => {
  const changed = parts.map((part) =>
    part.name === third ? { ...part, content: Buffer.from("something else") } : part,
  );
  assert.match((await refused(repack(changed))).message, /the content of evidence\/.* is not what its name says/);
});

test("links, devices and other owners are no archives of ours", async () => {
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
      /what stands at byte 0 is not what Assay writes there/,
      text,
    );
  }
});

test("counts that do not match are refused, whoever wrote them", async () => {
  const lies: [(told: any) => void, RegExp][] = [
    [(told) => (told.database.rows.attestations = 6), /the table attestations has 5 rows instead of 6/],
    [(told) => delete told.database.rows.users, /the table users has 1 rows instead of none/],
    [(told) => (told.database.rows.ghosts = 1), /the table ghosts has no rows instead of 1/],
    [(told) => (told.database.bytes += 1), /manifest.json does not agree/],
    [(told) => (told.files.count += 1), /manifest.json does not agree/],
    [(told) => (told.files.bytes -= 1), /manifest.json does not agree/],
    [(told) => (told.sums_sha256 = "0".repeat(64)), /manifest.json does not agree/],
    [(told) => (told.schema_version -= 1), /manifest.json does not agree/],
    [(told) => (told.files.missing = ["a".repeat(64)]), /it holds other evidence than its database names/],
  ];
  for (const [lie, words] of lies) assert.match((await refused(repack(parts, lie))).message, words);
});

test("an archive that lacks evidence of its database is refused, though it agrees with itself", async () => {
  assert.match(
    (await refused(repack(without(second)))).message,
    new RegExp(
      `evidence ${sha256(EVIDENCE.find((content) => second.endsWith(sha256(content).slice(2))) as Buffer)} is missing`,
    ),
  );
});

test("and so is one with evidence that its database does not name", async () => {
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
  assert.match((await refused(repack(ordered))).message, /it holds other evidence than its database names/);
});

const withDatabase = (content: Buffer): Buffer =>
  repack(parts.map((part) => (part.name === "assay.db" ? { ...part, content } : part)));

test("a database that is damaged is refused, however its hash was made", async () => {
  const content = Buffer.from(at("assay.db").content);
  content.fill(0xff, 8192, 8192 + 2048);
  assert.instance(await refused(withDatabase(content)), DamagedDatabaseError);
  assert.instance(await refused(withDatabase(Buffer.from("no database"))), DamagedDatabaseError);
  assert.instance(await refused(withDatabase(Buffer.alloc(0))), DamagedBackupError);
});

test("and so is one whose rows name rows that are not there", async () => {
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

test("later formats and schemas are refused before anything is unpacked", async () => {
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
  assert.match(later.message, /format 2, and this program knows formats up to 1/);
  const schema = await refused(headed((head) => (head.schema_version = 99)));
  assert.instance(schema, NewerDatabaseError);
  assert.match(schema.message, /schema version 99/);
  assert.match(
    (await refused(headed((head) => (head.schema_version -= 1)))).message,
    /its database has schema version \d+ instead of/,
  );
  assert.match(
    (await refused(headed((head) => (head.created_at = "yesterday")))).message,
    /assay-backup.json is not as it was written/,
  );
  assert.match((await refused(headed((head) => (head.format = "zip")))).message, /it is no backup of Assay/);
  assert.match((await refused(pack(parts, AT + 1))).message, /assay-backup.json has another time/);
});

test("a database alone says so, and is taken by who says so", async () => {
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
  assert.match((await refused(archive, { withoutEvidence: true })).message, /the backup has its evidence/);
});

test("members of more than eight gigabytes are read as they are written", async () => {
  const [pax = Buffer.alloc(0), records = Buffer.alloc(0), head = Buffer.alloc(0)] = [
    ...memberHeader({ name: "assay.db", size: 10 * 2 ** 30, mtime: AT, mode: 0o600 }),
  ].map((piece) => Buffer.from(piece));
  const until = archive.subarray(0, 1024);
  // It ends where the content should be: the head was understood.
  assert.match(
    (await damage(Buffer.concat([until, pax, records, head])))?.message ?? "",
    /it is cut off after 2560 bytes/,
  );
  const other = Buffer.from(records);
  other.write("21 size=10737418240 \n", 0, "latin1");
  assert.match((await damage(Buffer.concat([until, pax, other, head])))?.message ?? "", /what stands at byte 1024/);
});

test("too little room is told before anything is written, and what the server needs is no room", async () => {
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
        "the 1073741824 MB that stay free for the server not counted; give a place with more room$",
    ),
  );
  assert.equal(readdirSync(root), []);
  await backUp(given, { target });
  assert.equal(readdirSync(root), ["b.tar"]);
  assert.match((await refused(archive, { size: 2 ** 60 })).message, /the backup needs \d+ MB, and \d+ MB are free/);
});

test("a directory of that name that holds something is not touched", async () => {
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
