/** Migrates databases of all released schemas: nothing is lost, and every response stays the same. */
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { checkForeignKeys, checkIntegrity } from "../../src/diagnostics/verify/integrity.ts";
import { readFileHeader, schemaVersion } from "../../src/store/db/database.ts";
import Database from "better-sqlite3";
import { loadAddon } from "../../src/store/db/native-addon.ts";
import { createClient } from "../binary/client.ts";
import { cli, inDirectory, start } from "../cli/in-process.ts";
import { AGAIN, VINTAGE, WITHOUT_TRAIL, WITHOUT_TRAILS } from "../cases/upgrades/story.ts";
import { BASE_URL, fixtureVersions, lost, MOVES, place } from "./fixture.ts";
import type { Db } from "../../src/store/db/types.ts";

const test = suite("upgrades/upgrades");
/** The first schema whose program evaluated under the rules of today (0005-corrections.sql). */
const CORRECTED = 5;
/** The first schema that no release contains: a release changes it (CONTRIBUTING.md). */
const FIRST_UNRELEASED = 12;

test("there is a fixture of every released schema", () => {
  const changelog = readFileSync(join(import.meta.dirname, "..", "..", "CHANGELOG.md"), "utf8");
  const newest = /^## (.+)$/m.exec(changelog)?.[1];
  // A schema is released with the first release that contains it; until then it needs no fixture.
  const released = newest === "Unreleased" ? FIRST_UNRELEASED - 1 : schemaVersion();
  const missing = Array.from({ length: released }, (_, place) => place + 1).filter(
    (version) => !fixtureVersions().includes(version),
  );
  assert.equal(missing, [], "run make fixture with the program that is released, and commit test/cases/upgrades");
});

test("the comparison finds missing and changed values", () => {
  const before = { a: 1, list: [{ b: "x" }], none: null };
  assert.equal(lost(before, { a: 1, list: [{ b: "x", more: 1 }], none: null, added: true }), []);
  assert.equal(lost(before, { a: 2, list: [{ b: "x" }], none: null }, "/p"), ["/p.a: 1 became 2"]);
  assert.equal(lost(before, { a: 1, list: [], none: undefined }), [
    ".list: a list of 1 became []",
    ".none: null became undefined",
  ]);
  assert.equal(lost(before, { a: 1, list: [{}] }), ['.list[0].b: "x" is gone', ".none: null is gone"]);
});

for (const version of fixtureVersions()) {
  test(`schema ${version} migrates in one step, and responses stay the same`, () =>
    inDirectory(async (home) => {
      const data = join(home, "data");
      const { key, answers } = place(version, data);
      const original = readFileSync(join(data, "assay.db"));
      const server = start([
        "serve",
        "--data",
        data,
        "--listen",
        "127.0.0.1:0",
        "--base-url",
        BASE_URL,
        "--log-level",
        "error",
      ]);
      const url = /listening on (http:\/\/[^\s"]+)/.exec(await server.wrote(/listening on/))?.[1] ?? "";
      try {
        assert.is(readFileHeader(join(data, "assay.db"))?.schemaVersion, schemaVersion());
        const client = createClient(url, key);
        const problems: string[] = [];
        for (const [path, answer] of Object.entries(answers)) {
          const { status, body, bytes } = await client.json("GET", path);
          problems.push(
            ...(status === 200
              ? lost(answer, body ?? bytes.toString(), path)
              : [`${path}: ${status} ${bytes.toString("utf8", 0, 300)}`]),
          );
        }
        assert.equal(
          problems.filter((problem) => !MOVES.test(problem)),
          [],
        );
        // Work continues: a new record in an old trail.
        const body = { attestation_name: "after-the-upgrade", is_compliant: true };
        const recorded = await client.form(
          "POST",
          "/attestations/acme/shop/trail/release-1/generic",
          "data_json",
          body,
          { part: "attachment_file", name: "n.txt", content: "new" },
        );
        assert.is(recorded.status, 201, recorded.bytes.toString());
      } finally {
        assert.is((await server.stop()).code, 0);
      }
      const verified = await cli(["verify", "--data", data, "--json"]);
      assert.is(verified.code, 0, verified.out);

      const copies = existsSync(join(data, "backups")) ? readdirSync(join(data, "backups")) : [];
      if (version === schemaVersion()) return assert.equal(copies, []);
      const [copy = "", ...others] = copies;
      assert.equal(others, []);
      assert.match(copy, new RegExp(`^assay-schema-${version}-before-${schemaVersion()}-\\d{8}T\\d{6}Z\\.db$`));
      assert.is(readFileHeader(join(data, "backups", copy))?.schemaVersion, version);
      assert.equal(rowsOf(join(data, "backups", copy)), rowsOf(original));
    }));
}

for (const version of fixtureVersions().filter((each) => each >= WITHOUT_TRAILS && each < CORRECTED)) {
  test(`schema ${version}: verdicts under earlier rules stay, and the next report applies the current rules`, () =>
    inDirectory(async (home) => {
      const data = join(home, "data");
      const { key } = place(version, data);
      const server = start([
        "serve",
        "--data",
        data,
        "--listen",
        "127.0.0.1:0",
        "--base-url",
        BASE_URL,
        "--log-level",
        "error",
      ]);
      const url = /listening on (http:\/\/[^\s"]+)/.exec(await server.wrote(/listening on/))?.[1] ?? "";
      try {
        const client = createClient(url, key);
        type Told = {
          artifacts: {
            fingerprint: string;
            compliant: boolean;
            annotation: { type: string };
            flows: { trail_name: string | null }[];
          }[];
        };
        const vintage = async (index: number) => {
          const { artifacts } = (await client.json("GET", `/snapshots/acme/vintage/${index}`)).body as Told;
          return Object.fromEntries(
            artifacts.map(({ fingerprint, compliant, annotation, flows }) => [
              fingerprint,
              { compliant, annotation: annotation.type, trail: flows[0]?.trail_name },
            ]),
          );
        };
        assert.equal(await vintage(1), {
          [WITHOUT_TRAIL]: { compliant: false, annotation: "started-non-compliant", trail: null },
          [AGAIN]: { compliant: true, annotation: "started-compliant", trail: "second" },
        });
        const reported = await client.json("PUT", "/environments/acme/vintage/report/docker", VINTAGE);
        assert.is(reported.status, 201, reported.bytes.toString());
        assert.equal(await vintage(2), {
          [WITHOUT_TRAIL]: { compliant: true, annotation: "became-compliant", trail: null },
          [AGAIN]: { compliant: true, annotation: "updated-provenance", trail: "first" },
        });
        const lacking = (await client.json("GET", `/asserts/acme/fingerprint/${"07".repeat(32)}`)).body as any;
        assert.equal(lacking.compliance_status.attestations_statuses, [
          {
            attestation_name: "scan",
            attestation_type: "*",
            attestation_id: null,
            overridden_attestation_id: null,
            status: "MISSING",
            is_compliant: null,
            unexpected: false,
          },
        ]);
      } finally {
        assert.is((await server.stop()).code, 0);
      }
      for (const index of [1, 2]) {
        const explained = await cli(["explain", `vintage#${index}`, "--data", data, "--org", "acme"]);
        assert.is(explained.code, 0, explained.out);
      }
      const verified = await cli(["verify", "--data", data, "--json"]);
      assert.is(verified.code, 0, verified.out);
    }));
}

/** All rows that a copy has, of all tables of a database, which must pass the integrity check. */
function rowsOf(source: string | Buffer): Record<string, unknown[]> {
  const db: Db = new Database(source as string, { nativeBinding: loadAddon() as unknown as string });
  const problems: string[] = [];
  const sink = {
    damage: (about: string, problem: string) => void problems.push(`${about}: ${problem}`),
    note: () => undefined,
    count: () => undefined,
  };
  checkIntegrity(db, sink);
  checkForeignKeys(db, sink);
  assert.equal(problems, []);
  // A copy forgets which commit it is of: it counts its own (store/db/commit-number.ts).
  const names = db
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'commit_number' ORDER BY name",
    )
    .pluck()
    .all();
  const rows = Object.fromEntries(names.map((name) => [name, db.prepare(`SELECT t.* FROM ${name} t`).raw().all()]));
  db.close();
  return rows;
}

test.run();
