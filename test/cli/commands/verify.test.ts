/** Plants every kind of damage in a copy of an intact directory and expects verify to name it. */
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import Database from "better-sqlite3";
import { withDataReadOnly } from "../../../src/cli/data-directory.ts";
import { verifyInstallation as inspect } from "../../../src/diagnostics/verify/verify.ts";
import { loadAddon } from "../../../src/store/db/native-addon.ts";
import { openLocalStore } from "../../../src/evidence/local-store.ts";
import { createClient } from "../../binary/client.ts";
import { place } from "../../upgrades/fixture.ts";
import { cli, inDirectory, joinPatterns, start } from "../in-process.ts";
import { newPublicId } from "../../../src/clock.ts";

const test = suite("cli/commands/verify");

const sound = mkdtempSync(join(tmpdir(), "assay-verify-"));
let key = "";
test.before(async () => {
  ({ key } = place(3, join(sound, "data")));
  assert.is((await cli(["member", "list", "--org", "acme", "--data", join(sound, "data")])).code, 0);
  mkdirSync(join(sound, "data", "staging"), { recursive: true });
});
test.after(() => rmSync(sound, { recursive: true, force: true }));

/** Calls `body` with a copy of the intact directory. */
const inCopy = (body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (home) => {
    const data = join(home, "data");
    cpSync(join(sound, "data"), data, { recursive: true, preserveTimestamps: true });
    await body(data);
  });

/** Changes rows directly in the database. Each statement must change something. */
function tamper(data: string, ...statements: string[]): void {
  const db = new Database(join(data, "assay.db"), { nativeBinding: loadAddon() as unknown as string });
  db.pragma("foreign_keys = OFF");
  db.pragma("ignore_check_constraints = ON");
  for (const sql of statements)
    if (/^(DROP|CREATE|PRAGMA)/.test(sql)) db.exec(sql);
    else assert.ok(db.prepare(sql).run().changes > 0, `changes nothing: ${sql}`);
  db.close();
}

/** Returns the paths of all evidence files. */
const files = (data: string): string[] =>
  readdirSync(join(data, "evidence")).flatMap((shard) =>
    readdirSync(join(data, "evidence", shard)).map((name) => join(data, "evidence", shard, name)),
  );
const digestOf = (path: string): string => path.split("/").slice(-2).join("");

/** Returns everything about a directory that a command could have changed. */
const state = (data: string): string[] =>
  (readdirSync(data, { recursive: true }) as string[]).sort().map((path) => {
    const { size, mtimeMs, mode } = statSync(join(data, path));
    return `${path} ${size} ${mtimeMs} ${mode}`;
  });

test("passes an intact directory with one line per check and a summary, and changes nothing", () =>
  inCopy(async (data) => {
    const before = state(data);
    const { code, out, err } = await cli(["verify", "--data", data]);
    assert.equal({ code, err }, { code: 0, err: "" }, out);
    const lines = out.trimEnd().split("\n");
    assert.equal(
      lines.slice(0, -1).map((line) => line.slice(0, 23).trim()),
      [
        "ok      integrity",
        "ok      foreign keys",
        "ok      schema",
        "ok      derived tables",
        "ok      trails",
        "ok      snapshots",
        "ok      evaluations",
        "ok      audit log",
        "ok      evidence",
        "ok      staging",
      ],
    );
    assert.is(lines.at(-1), "All 10 checks passed.");
    assert.match(out, /evidence +4 files, 76 bytes read/);
    assert.match(out, /trails +3 artifacts, 12 attestations, 2 trails/);
    assert.equal(state(data), before);

    const json = JSON.parse((await cli(["verify", "--data", data, "--json"])).out);
    assert.equal(
      { data: json.data, quick: json.quick, damage: json.damage, "checks.length": json.checks.length },
      { data, quick: false, damage: 0, "checks.length": 10 },
    );
    assert.equal(json.checks[8], {
      check: "evidence",
      ok: true,
      looked_at: { files: 4, "bytes read": 76 },
      damage: 0,
      findings: [],
      noted: 0,
      notes: [],
    });
    const quick = await cli(["verify", "--data", data, "--quick"]);
    assert.match(quick.out, /evidence +4 files\n/);
    assert.match(quick.out, /All 10 checks passed; the contents of evidence were not read\.\n$/);
  }));

test("reports altered, missing and truncated evidence files with the records that reference them", async () => {
  await inCopy(async (data) => {
    const [path = ""] = files(data).filter((file) => readFileSync(file, "utf8") === "the notes\n");
    const bytes = readFileSync(path);
    bytes[0] = (bytes[0] as number) ^ 1;
    rmSync(path);
    writeFileSync(path, bytes);
    const { code, out } = await cli(["verify", "--data", data]);
    assert.is(code, 5);
    assert.match(
      out,
      new RegExp(
        `DAMAGE  evidence .*\\n +evidence ${digestOf(path)}: is damaged: its content has the digest ` +
          "[0-9a-f]{64}; named by attestation \\S+ \\('notes' of acme/shop/release-1\\)\\n",
      ),
    );
    assert.match(out, /Damage: 1 problem in evidence\. Leave the directory as it is and read assay help verify\.\n$/);
    assert.is((await cli(["verify", "--data", data, "--quick"])).code, 0, "its size is right");
  });
  for (const quick of [[], ["--quick"]]) {
    await inCopy(async (data) => {
      const [gone = "", short = ""] = files(data);
      unlinkSync(gone);
      const was = statSync(short).size;
      rmSync(short);
      writeFileSync(short, "x");
      const { code, out } = await cli(["verify", "--data", data, ...quick]);
      assert.is(code, 5);
      assert.match(out, new RegExp(`evidence ${digestOf(gone)}: is missing; named by attestation `));
      assert.match(
        out,
        new RegExp(`evidence ${digestOf(short)}: has 1 bytes, but its rows say ${was}; named by attestation `),
      );
      assert.match(out, /Damage: 2 problems in evidence/);
    });
  }
  await inCopy(async (data) => {
    rmSync(join(data, "evidence"), { recursive: true });
    const { code, out } = await cli(["verify", "--data", data]);
    assert.is(code, 5);
    assert.is(out.match(/is missing; named by/g)?.length, 4);
  });
});

test("checks the content of small evidence in the database, and names the records of what is altered or unnamed", () =>
  inCopy(async (data) => {
    const [path = ""] = files(data).filter((file) => readFileSync(file, "utf8") === "the notes\n");
    const digest = digestOf(path);
    tamper(data, `INSERT INTO small_evidence (digest, content) VALUES ('${digest}', CAST('the notes\n' AS BLOB))`);
    unlinkSync(path);
    const intact = await cli(["verify", "--data", data]);
    assert.is(intact.code, 0, intact.out);
    assert.match(intact.out, /evidence +4 files, 76 bytes read/);

    tamper(
      data,
      "DROP TRIGGER small_evidence_is_final",
      "UPDATE small_evidence SET content = CAST('the nutes\n' AS BLOB)",
      `INSERT INTO small_evidence (digest, content) VALUES ('${"0".repeat(64)}', x'01')`,
    );
    const { code, out } = await cli(["verify", "--data", data]);
    assert.is(code, 5);
    assert.match(
      out,
      new RegExp(
        `evidence ${digest}: is damaged: its content in the database has the digest [0-9a-f]{64}; ` +
          "named by attestation \\S+ \\('notes' of acme/shop/release-1\\)\\n",
      ),
    );
    assert.match(out, new RegExp(`evidence ${"0".repeat(64)}: is in the database, although no attestation names it`));
  }));

test("notes unreferenced and staged evidence with its age, but not as damage", () =>
  inCopy(async (data) => {
    const digest = createHash("sha256").update("orphan").digest("hex");
    const orphan = join(data, "evidence", digest.slice(0, 2), digest.slice(2));
    mkdirSync(join(data, "evidence", digest.slice(0, 2)), { recursive: true });
    writeFileSync(orphan, "orphan");
    const threeHours = Date.now() / 1000 - 3 * 3600;
    utimesSync(orphan, threeHours, threeHours);
    writeFileSync(join(data, "staging", "upload-1"), "half");
    const { code, out } = await cli(["verify", "--data", data]);
    assert.is(code, 0, out);
    assert.match(
      out,
      new RegExp(
        `note: evidence ${digest} is not named by any record: 6 bytes, 3 hours old; the server removes such ` +
          "files after a day\n",
      ),
    );
    assert.match(
      out,
      joinPatterns(
        /note: staging\/upload-1 4 bytes, \d+ seconds? old: a running or interrupted upload; the/,
        / next start removes it\n/,
      ),
    );
    const json = JSON.parse((await cli(["verify", "--data", data, "--json"])).out);
    assert.equal(
      json.checks.map(({ noted }: { noted: number }) => noted),
      [0, 0, 0, 0, 0, 0, 0, 0, 1, 1],
    );
  }));

const verdict = "CASE state WHEN 'COMPLIANT' THEN 'NON-COMPLIANT' ELSE 'COMPLIANT' END";
const DAMAGE: readonly (readonly [what: string, expected: RegExp, ...statements: string[]])[] = [
  [
    "a row that points at nothing",
    /DAMAGE {2}foreign keys .*\n +artifacts row 1: references a row of flows that does not exist/,
    "UPDATE artifacts SET flow_id = 999 WHERE id = 1",
  ],
  [
    "a value that a table does not allow",
    /DAMAGE {2}integrity .*\n +flows row 1: violates the constraint visibility IN \('public', 'private'\)/,
    "UPDATE flows SET visibility = 'secret'",
  ],
  [
    "an index is gone",
    /DAMAGE {2}schema .*\n +index attestations_by_evidence: is missing/,
    "DROP INDEX attestations_by_evidence",
  ],
  [
    "somebody's trigger",
    /trigger spy: was not created by this program/,
    "CREATE TRIGGER spy AFTER INSERT ON attestations BEGIN DELETE FROM audit_log; END",
  ],
  [
    "another column",
    /index trails_by_flow: differs from the definition in this program/,
    "DROP INDEX trails_by_flow",
    "CREATE INDEX trails_by_flow ON trails (id, flow_id)",
  ],
  [
    "another program's file",
    /assay.db: .* is not a database of Assay: its application id is 1/,
    "PRAGMA application_id = 1",
  ],

  [
    "the latest record of a name",
    joinPatterns(
      /DAMAGE {2}derived tables .*\n +current_attestations, trail 2, artifact 0, name quality: names attestation \d+,/,
      / which is not the latest of that name/,
    ),
    "UPDATE current_attestations SET attestation_id = (SELECT min(id) FROM attestations WHERE name = 'quality') " +
      "WHERE name = 'quality'",
  ],
  [
    "a name without its latest record",
    /current_attestations, trail 1, artifact 0, name review: should name attestation \d+/,
    "DELETE FROM current_attestations WHERE name = 'review'",
  ],
  [
    "a binding that waited",
    /artifact \S+: is not bound to attestation \d+, which was waiting for it/,
    "DELETE FROM attestation_bindings WHERE attestation_id = (SELECT attestation_id FROM pending_bindings)",
  ],
  [
    "a binding across trails",
    /attestation_bindings, artifact 2, attestation 1: connects records of different trails/,
    "INSERT INTO attestation_bindings (artifact_id, attestation_id) VALUES (2, 1)",
  ],
  [
    "a build",
    /builds, artifact 1: does not match the first record/,
    "UPDATE builds SET created_at = created_at - 1 WHERE artifact_id = 1",
  ],
  [
    "the stored form of a template",
    /template \S+: its stored form, which is evaluated, does not match its text/,
    "UPDATE templates SET parsed_json = '{}' WHERE id = 1",
  ],
  [
    "the stored form of a policy",
    /version 1 of policy \S+ \(1\): its stored form, which is evaluated, does not match its text/,
    "UPDATE policy_versions SET parsed_json = '{}' WHERE id = 1",
  ],
  [
    "a build is gone",
    /artifact 2: is the first record of its fingerprint, but has no matching build/,
    "DELETE FROM builds WHERE artifact_id = 2",
  ],
  [
    "a series",
    /attestation \S+: is missing from the series of its flow, name, type and verdict/,
    "DELETE FROM attestation_series_records WHERE attestation_id = 1",
  ],
  [
    "a record in another series",
    /attestation_series_records, series \d+, attestation 1: is in the wrong series/,
    "INSERT INTO attestation_series_records SELECT max(series_id), 1, 1 FROM attestation_series_records",
  ],
  [
    "the count of trails",
    /flow shop \(1\): counts 7 trails, but has 2/,
    "UPDATE flows SET trail_count = 7 WHERE id = 1",
  ],
  [
    "the totals of evidence",
    /evidence_totals: counts 5 files of 76 bytes, but records name 4 files of 76 bytes/,
    "UPDATE evidence_totals SET files = files + 1",
  ],
  [
    "the totals of evidence in the database",
    /evidence_totals: counts 1 files of 0 bytes in the database, but it has 0 files of 0 bytes/,
    "UPDATE evidence_totals SET in_database = 1",
  ],
  [
    "a policy version is gone",
    /policy tested \(1\): has 1 versions, but the last one is number 2/,
    "DELETE FROM policy_versions WHERE version = 1 AND policy_id = 1",
  ],
  [
    "an event's repository",
    /environment_event_repos, environment \d+, event \d+: is not an event of that snapshot/,
    "UPDATE environment_event_repos SET first_index = first_index + 50",
  ],

  [
    "the verdict of a trail",
    /DAMAGE {2}trails .*\n +trail release-1 \(1\): is stored as \S+, but re-evaluates to \S+/,
    `UPDATE trails SET state = ${verdict} WHERE id = 1`,
  ],
  [
    "the status of a trail",
    /trail release-1 \(1\): its stored compliance status differs from a re-evaluation/,
    "UPDATE trails SET compliance_json = json_set(compliance_json, '$.attestations_statuses[0].is_compliant', " +
      "json('false')) WHERE id = 1",
  ],
  [
    "the reasons of a trail",
    /trail release-2 \(2\): its stored reasons differ from a re-evaluation/,
    "UPDATE trails SET reasons_json = '[\"because\"]' WHERE id = 2",
  ],
  [
    "a verdict that is no JSON",
    /trail release-1 \(1\): cannot be re-evaluated: /,
    "UPDATE trails SET compliance_json = '{' WHERE id = 1",
  ],
  [
    "the verdict of an artifact",
    /artifact \S+ in trail release-1 \(1\): is stored as \S+, but re-evaluates to \S+/,
    `UPDATE artifacts SET state = ${verdict} WHERE id = 1`,
  ],
  [
    "the verdict of an artifact without a trail",
    /artifact \S+: is stored as (NON-)?COMPLIANT, but re-evaluates to \S+/,
    `UPDATE artifacts SET state = ${verdict} WHERE trail_id IS NULL`,
  ],
  [
    "a record that turned compliant",
    /DAMAGE {2}trails /,
    "UPDATE attestations SET is_compliant = 1 WHERE name = 'unit-tests' AND is_compliant = 0",
  ],
  [
    "a record out of its history",
    /attestation \S+: occurs 0 times in the history of trail 1 instead of once/,
    "DELETE FROM trail_events WHERE id = (SELECT min(id) FROM trail_events WHERE event_json ->> 'attestation_id' " +
      "IS NOT NULL)",
  ],
  [
    "a trail that never began",
    /trail release-2 \(2\): begins 0 times in its history instead of once/,
    "DELETE FROM trail_events WHERE trail_id = 2 AND type = 'trail_reported'",
  ],

  [
    "the counts of a snapshot",
    /DAMAGE {2}snapshots .*\n +environment production \(1\): snapshot 2 counts /,
    "UPDATE snapshots SET compliant_count = compliant_count + 1 WHERE environment_id = 1 AND idx = 2",
  ],
  [
    "the state of an environment",
    /environment production \(1\): state is /,
    "UPDATE environments SET state = CASE state WHEN 1 THEN 0 ELSE 1 END WHERE id = 1",
  ],
  [
    "verdicts that are no JSON",
    /environment 1: its snapshots cannot be read: malformed JSON/,
    "UPDATE evaluations SET verdicts_json = '{' WHERE id = 1",
  ],
  [
    "the policies of a snapshot that are no JSON",
    /environment 1: its snapshots cannot be read: /,
    "UPDATE snapshots SET policy_versions_json = '[' WHERE environment_id = 1 AND idx = 2",
  ],
  [
    "the verdict on what runs",
    joinPatterns(
      /DAMAGE {2}evaluations .*\n +snapshot_artifacts row \d+ \(environment 1, web:1, from snapshot 1\): evaluation/,
      / 1: the artifact is stored as \S+, but re-evaluates to \S+/,
    ),
    "UPDATE evaluations SET compliant = 1 - compliant WHERE id = 1",
  ],
  [
    "facts of a verdict",
    /evaluation 1: cannot be re-evaluated/,
    "UPDATE evaluations SET facts_json = 'nonsense' WHERE id = 1",
  ],
  [
    "a deployment",
    /deployment \d+: does not belong to an artifact that started/,
    "UPDATE deployments SET snapshot_index = 99 WHERE id = 1",
  ],

  [
    "an entry of the audit log",
    /DAMAGE {2}audit log .*\n +audit_log row 4: follows row 2: the entries between them are missing/,
    "DELETE FROM audit_log WHERE id = 3",
  ],
  ["the first entry of the audit log", /audit_log row 2: follows row 0/, "DELETE FROM audit_log WHERE id = 1"],
  [
    "an entry that is no JSON",
    /audit_log row 5 \(\S+\): its details are not valid JSON/,
    "UPDATE audit_log SET detail_json = '{' WHERE id = 5",
  ],
  [
    "a record that nobody reported",
    /attestation \S+ \('review'\): is not in the audit log: it was not recorded through the API/,
    "UPDATE audit_log SET detail_json = '{}' WHERE detail_json ->> 'attestation_name' = 'review'",
    "UPDATE audit_log SET timestamp = 1 WHERE event = 'webhook.received'",
  ],
];

for (const [what, expected, ...statements] of DAMAGE) {
  test(`finds damage: ${what}`, () =>
    inCopy(async (data) => {
      tamper(data, ...statements);
      const { code, out, err } = await cli(["verify", "--data", data]);
      assert.is(code, 5, err + out);
      assert.match(out, expected);
    }));
}

test("finds a damaged page and a missing first page", async () => {
  await inCopy(async (data) => {
    const file = join(data, "assay.db");
    const bytes = readFileSync(file);
    const db = new Database(file, { nativeBinding: loadAddon() as unknown as string });
    const root = db
      .prepare<[], number>("SELECT rootpage FROM sqlite_schema WHERE name = 'attestations'")
      .pluck()
      .get() as number;
    db.close();
    bytes.fill(0xa5, (root - 1) * 4096, root * 4096);
    writeFileSync(file, bytes);
    const { code, out } = await cli(["verify", "--data", data]);
    assert.is(code, 5);
    assert.match(out, /^DAMAGE {2}integrity .*\n +assay\.db: /);
    assert.match(out, /Damage: \d+ problems in integrity/);
  });
  await inCopy(async (data) => {
    const bytes = readFileSync(join(data, "assay.db"));
    bytes.fill(0, 0, 100);
    writeFileSync(join(data, "assay.db"), bytes);
    const { code, out } = await cli(["verify", "--data", data]);
    assert.is(code, 5);
    assert.match(out, /^DAMAGE {2}integrity .*\n +assay\.db: .* it is not an SQLite database\n/);
  });
  await inCopy(async (data) => {
    truncateSync(join(data, "assay.db"), statSync(join(data, "assay.db")).size / 2);
    const { code, out } = await cli(["verify", "--data", data]);
    assert.is(code, 5);
    assert.match(out, /^DAMAGE {2}integrity /);
  });
});

test("works beside a server that keeps writing", () =>
  inCopy(async (data) => {
    const server = start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"]);
    const url = /listening on (\S+)/.exec(await server.wrote(/listening on/))?.[1] ?? "";
    try {
      const client = createClient(url, key);
      const records = Array.from({ length: 20 }, (_, n) =>
        client.form(
          "POST",
          "/attestations/acme/shop/trail/release-1/generic",
          "data_json",
          { attestation_name: `live-${n}`, is_compliant: true },
          { part: "attachment_file", name: "e.txt", content: `evidence ${n}` },
        ),
      );
      const outcomes = [await cli(["verify", "--data", data])];
      assert.equal(
        (await Promise.all(records)).map(({ status }) => status),
        Array.from({ length: 20 }, () => 201),
      );
      outcomes.push(await cli(["verify", "--data", data]));
      for (const { code, out } of outcomes) assert.is(code, 0, out);
      assert.match(outcomes[1]?.out ?? "", /24 files/);
    } finally {
      await server.stop();
    }
  }));

test("reads what a crash left in the write-ahead log", () =>
  inCopy(async (data) => {
    const server = start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"]);
    const url = /listening on (\S+)/.exec(await server.wrote(/listening on/))?.[1] ?? "";
    const crashed = join(data, "..", "crashed");
    try {
      const { status } = await createClient(url, key).form(
        "POST",
        "/attestations/acme/shop/trail/release-1/generic",
        "data_json",
        { attestation_name: "last-words", is_compliant: true },
      );
      assert.is(status, 201);
      // The state of the disk after a power failure at this moment.
      cpSync(data, crashed, { recursive: true, filter: (path) => !/assay\.(db-shm|lock)$/.test(path) });
    } finally {
      await server.stop();
    }
    assert.ok(statSync(join(crashed, "assay.db-wal")).size > 0);
    const { code, out } = await cli(["verify", "--data", crashed]);
    assert.is(code, 0, out);
    assert.match(out, /trails +3 artifacts, 13 attestations, 2 trails/);
  }));

test("reports progress stage by stage", () =>
  inCopy(async (data) => {
    const vault = openLocalStore({
      directory: join(data, "evidence"),
      staging: join(data, "staging"),
      ids: newPublicId,
    });
    const told: [what: string, total: number, reached: number][] = [];
    const progress = {
      begin: (what: string, total: number) => void told.push([what, total, 0]),
      reach: (done: number) => void ((told.at(-1) as (typeof told)[number])[2] = done),
    };
    await withDataReadOnly(data, (db) => inspect({ db, store: vault, staged: [], quick: true, now: 0, progress }));
    await vault.close();
    assert.equal(
      told.map(([what]) => what),
      ["derived tables", "trails", "snapshots", "evaluations", "evidence"],
    );
    for (const [what, total, reached] of told)
      assert.ok(total > 0 && reached === total, `${what}: ${reached} of ${total}`);
  }));

const LITESTREAM_TABLES = [
  "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
  "CREATE TABLE _litestream_lock (id INTEGER)",
  "CREATE INDEX _litestream_seq_by_seq ON _litestream_seq (seq)",
];

test("accepts the tables of Litestream, in the database itself and in a restored backup of it", () =>
  inCopy(async (data) => {
    tamper(data, ...LITESTREAM_TABLES);
    const verified = await cli(["verify", "--data", data, "--json"]);
    assert.equal({ code: verified.code, damage: JSON.parse(verified.out).damage }, { code: 0, damage: 0 });

    const [file, restored] = [join(data, "..", "copy.tar"), join(data, "..", "restored")];
    assert.is((await cli(["backup", file, "--data", data])).code, 0);
    assert.is((await cli(["restore", file, "--data", restored])).code, 0);
    const again = await cli(["verify", "--data", restored]);
    assert.is(again.code, 0, again.out);
  }));

test("reports tables that only look like those of Litestream", () =>
  inCopy(async (data) => {
    tamper(
      data,
      "CREATE TABLE my_litestream_seq (id INTEGER)",
      "CREATE TRIGGER _litestream_spy AFTER INSERT ON flows BEGIN SELECT 1; END",
    );
    const { code, out } = await cli(["verify", "--data", data]);
    assert.is(code, 5);
    assert.match(out, /table my_litestream_seq: was not created by this program/);
    assert.match(out, /trigger _litestream_spy: was not created by this program/);
  }));

test("refuses to report on data that changed during the check", () =>
  inCopy(async (data) => {
    await withDataReadOnly(data, async () => tamper(data, "UPDATE flows SET description = 'changed'")).then(
      () => assert.unreachable("it should fail"),
      (error: Error) => assert.match(error.message, /changed while it was being read.*run this again$/),
    );
  }));

test("requires a directory with data of the current schema", () =>
  inDirectory(async (home) => {
    const none = await cli(["verify", "--data", join(home, "none")]);
    assert.equal({ code: none.code, out: none.out }, { code: 1, out: "" });
    assert.match(none.err, /^assay: there is no data directory /);
    place(2, join(home, "old"));
    const before = state(join(home, "old"));
    const old = await cli(["verify", "--data", join(home, "old")]);
    assert.equal({ code: old.code, out: old.out }, { code: 1, out: "" });
    assert.match(
      old.err,
      joinPatterns(
        /has schema version 2, but this program needs version \d+: assay serve makes a copy and upgrades the database/,
        / when it starts\n$/,
      ),
    );
    assert.equal(state(join(home, "old")), before);
    assert.is((await cli(["verify"])).code, 2);
    assert.is((await cli(["verify", "--data", home, "extra"])).code, 2);
  }));

test.run();
