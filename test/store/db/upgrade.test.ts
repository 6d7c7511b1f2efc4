/** The effect of migrations on existing data. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import Database from "better-sqlite3";
import { buildLegacyAttestationStatuses } from "../../../src/domain/compliance/artifact.ts";
import { deriveNamespace, foldCase, vcsInstanceOf } from "../../../src/domain/network/repository-url.ts";
import { loadAddon } from "../../../src/store/db/native-addon.ts";
import { applyMigrations, migrations } from "../../../src/store/db/database.ts";
import type { Db } from "../../../src/store/db/types.ts";

const test = suite("store/db/upgrade");

/** A database with the schema before the migration with that number. */
function before(version: number): { db: Db; rest: () => void } {
  const db: Db = new Database(":memory:", { nativeBinding: loadAddon() as unknown as string });
  applyMigrations(
    db,
    migrations().filter((step) => step.version < version),
  );
  db.exec(`INSERT INTO organizations (id, public_id, name, kind, created_at, last_modified_at) VALUES (1, 'o1',
      'acme', 'shared', 0, 0), (2, 'o2', 'globex', 'shared', 0, 0);
    INSERT INTO templates (id, public_id, content) VALUES (1, 't', 'version: 1');
    INSERT INTO flows (id, public_id, organization_id, name, visibility, template_id, created_at,
    last_modified_at) VALUES (1, 'f1', 1, 'f', 'private', 1, 0, 0), (2, 'f2', 2, 'f', 'private', 1, 0, 0)`);
  return {
    db,
    rest: () =>
      applyMigrations(
        db,
        migrations().filter((step) => step.version >= version),
      ),
  };
}

test("0003 derives the filter columns of each repository as reports do", () => {
  const { db, rest } = before(3);
  const cases: [name: string, url: string, path: string | null][] = [
    ["acme/Shop", "https://GitHub.com/acme/shop", null],
    ["acme/web/cart", "https://git.test:8443/x", '["acme","web"]'],
    ["plain", "https://git.test", null],
    ["collection/project/repo", "https://ada@dev.azure.test/x?y=1#z", '["collection","project"]'],
    ["a/b", "ssh://git@git.test/a/b.git", "[]"],
    ["a/c", "https://git.test?x", null],
    ["a/d", "https://git.test#x", '["", "told"]'],
    ["a/e", "https://git.test/a@b", "{"],
  ];
  const insert = db.prepare(
    `INSERT INTO repos (public_id, organization_id, external_id, name, url, namespace_path_json, created_at,
        last_modified_at) VALUES (@id, 1, @id, @name, @url, @path, 5, 6)`,
  );
  for (const [index, [name, url, path]] of cases.entries()) insert.run({ id: `r${index}`, name, url, path });
  rest();
  const rows = db
    .prepare("SELECT name, search_name, vcs_instance, namespace, latest_activity_at FROM repos ORDER BY id")
    .all();
  const pathOf = (path: string | null): string[] | null =>
    path === null || path === "{" ? null : (JSON.parse(path) as string[]);
  assert.equal(
    rows,
    cases.map(([name, url, path]) => ({
      name,
      search_name: foldCase(name),
      vcs_instance: vcsInstanceOf(url),
      namespace: deriveNamespace(name, pathOf(path)),
      latest_activity_at: 6,
    })),
  );
});

test("0003 finds the builds among the artifacts, and the activity of their repositories", () => {
  const { db, rest } = before(3);
  db.exec(
    `INSERT INTO repos (id, public_id, organization_id, external_id, name, url, created_at, last_modified_at)
        VALUES (1, 'r', 1, 'x', 'n', 'https://git.test', 5, 6)`,
  );
  const insert = db.prepare(
    `INSERT INTO artifacts (id, public_id, organization_id, flow_id, fingerprint, reference_name, filename,
        git_commit, repo_id, build_url, commit_url, template_json, created_by,
                            created_at, last_modified_at, state, attestations_json, reasons_json, trail_id)
     VALUES (@id, 'a' || @id, @org, @org, @fingerprint, 'n' || @id, 'app', 'c', @repo, '', '', '[]', '', @at,
     @at + 1, 'COMPLIANT', '[]', '[]', @org)`,
  );
  db.exec(
    `INSERT INTO trails (id, public_id, organization_id, flow_id, name, template_id, template_inherited,
        created_by, created_at, last_modified_at, state, compliance_json, reasons_json) VALUES (1, 't1', 1, 1,
        't', 1, 1, '', 0, 0, 'COMPLIANT', '{}', '[]'), (2, 't2', 2, 2, 't', 1, 1, '', 0, 0, 'COMPLIANT', '{}',
        '[]')`,
  );
  const [a, b] = ["a".repeat(64), "b".repeat(64)];
  insert.run({ id: 11, org: 1, fingerprint: a, repo: null, at: 100 });
  insert.run({ id: 12, org: 1, fingerprint: a, repo: 1, at: 200 });
  insert.run({ id: 13, org: 2, fingerprint: a, repo: null, at: 300 });
  insert.run({ id: 14, org: 1, fingerprint: b, repo: 1, at: 400 });
  rest();
  assert.equal(
    db.prepare("SELECT artifact_id, organization_id, repo_id, created_at FROM builds ORDER BY artifact_id").all(),
    [
      { artifact_id: 11, organization_id: 1, repo_id: null, created_at: 100 },
      { artifact_id: 13, organization_id: 2, repo_id: null, created_at: 300 },
      { artifact_id: 14, organization_id: 1, repo_id: 1, created_at: 400 },
    ],
  );
  assert.is(db.prepare("SELECT latest_activity_at FROM repos").pluck().get(), 401);
});

test("0004 counts each evidence file once, and keeps counting", () => {
  const { db, rest } = before(4);
  db.exec(
    `INSERT INTO trails (id, public_id, organization_id, flow_id, name, template_id, template_inherited,
        created_by, created_at, last_modified_at, state, compliance_json, reasons_json) VALUES (1, 't1', 1, 1,
        't', 1, 1, '', 0, 0, 'COMPLIANT', '{}', '[]')`,
  );
  const required = db
    .prepare<[], { name: string }>(
      "SELECT name FROM pragma_table_info('attestations') WHERE \"notnull\" = 1 AND dflt_value IS NULL AND pk = 0",
    )
    .all()
    .map(({ name }) => name);
  const values: Record<string, unknown> = {
    organization_id: 1,
    flow_id: 1,
    trail_id: 1,
    scope: "trail",
    is_compliant: 1,
  };
  const names = [...required, "evidence_digest", "evidence_size", "evidence_filename", "evidence_content_type"];
  const insert = db.prepare(
    `INSERT INTO attestations (${names.join(", ")}) VALUES (${names.map((name) => `@${name}`).join(", ")})`,
  );
  let last = 0;
  const attest = (digest: string | null, size: number | null): void => {
    const textual = Object.fromEntries(
      required.map((name) => [
        name,
        name.endsWith("_json") ? "{}" : name.endsWith("_at") ? 0 : `${name} ${(last += 1)}`,
      ]),
    );
    const file = digest === null ? null : "x";
    insert.run({
      ...textual,
      ...values,
      evidence_digest: digest,
      evidence_size: size,
      evidence_filename: file,
      evidence_content_type: file,
    });
  };
  for (const [digest, size] of [
    ["a", 10],
    ["b", 5],
    ["a", 10],
    [null, null],
    ["c", 0],
  ] as const)
    attest(digest, size);
  rest();
  const totals = db.prepare("SELECT files, bytes FROM evidence_totals");
  assert.equal(totals.all(), [{ files: 3, bytes: 15 }]);
  for (const [digest, size] of [
    ["a", 10],
    ["d", 7],
  ] as const)
    attest(digest, size);
  assert.equal(totals.all(), [{ files: 4, bytes: 22 }]);
});

test("0005 numbers the reports of each fingerprint by the audit log, and marks what runs on another", () => {
  const { db, rest } = before(5);
  db.exec(`INSERT INTO trails (id, public_id, organization_id, flow_id, name, template_id, template_inherited,
      created_by, created_at, last_modified_at, state, compliance_json, reasons_json)
    VALUES (1, 't1', 1, 1, 't', 1, 1, '', 0, 0, 'COMPLIANT', '{}', '[]'), (2, 't2', 1, 1, 'u', 1, 1, '', 0, 0,
    'COMPLIANT', '{}', '[]'), (3, 't3', 2, 2, 't', 1, 1, '', 0, 0, 'COMPLIANT', '{}', '[]')`);
  const artifact = db.prepare(
    `INSERT INTO artifacts (id, public_id, organization_id, flow_id, trail_id, fingerprint, filename,
        git_commit, build_url, commit_url, template_json, created_by, created_at,
                            last_modified_at, state, attestations_json, reasons_json)
     VALUES (@id, @name, @flow, @flow, @trail, @fingerprint, 'app', 'c', '', '', @template, '', 0, 0,
     'COMPLIANT', '[]', '[]')`,
  );
  const [again, once, unknown, alone] = ["a", "b", "c", "d"].map((digit) => digit.repeat(64));
  const add = (id: number, trail: number | null, fingerprint: string | undefined, template: string[] = [], flow = 1) =>
    artifact.run({ id, name: `a${id}`, trail, fingerprint, flow, template: JSON.stringify(template) });
  add(1, 1, again);
  add(2, 2, again);
  add(3, 1, once);
  add(4, 2, once);
  add(5, 1, unknown);
  add(6, 2, unknown);
  add(7, null, alone, ["artifact", "unit", "scan", "unit"]);
  add(8, 3, again, [], 2);
  const logged = db.prepare(
    `INSERT INTO audit_log (timestamp, organization_id, actor_kind, actor_id, actor_name, key_id, operation,
        event, target, request_id, detail_json)
     VALUES (0, 1, 'user', '', '', '', '', ?, '', '', ?)`,
  );
  const report = (id: number, event = "artifact.reported") =>
    logged.run(event, JSON.stringify({ artifact_id: `a${id}` }));
  for (const id of [1, 2, 3, 4, 7, 8, 1]) report(id);
  report(3, "artifact.allowed");
  logged.run("artifact.reported", "{");
  db.exec(`INSERT INTO environments (id, public_id, organization_id, name, type, created_at, last_modified_at, revision)
    VALUES (1, 'e1', 1, 'prod', 'docker', 0, 0, 7), (2, 'e2', 1, 'calm', 'docker', 0, 0, 7), (3, 'e3', 2,
    'prod', 'docker', 0, 0, 7)`);
  db.exec(
    `INSERT INTO evaluations (id, environment_id, facts_json, verdicts_json, reasons_json) VALUES (1, 1,
        '{}', '[]', '[]')`,
  );
  const runs = db.prepare(
    `INSERT INTO snapshot_artifacts (organization_id, environment_id, first_index, last_index, fingerprint,
        name, annotation, was, now, evaluation_id, started_index, instances_json)
     VALUES (@organization, @environment, 1, @last, @fingerprint, 'x', 'started-unknown', 0, 1, 1, 1, '{}')`,
  );
  const OPEN = Number.MAX_SAFE_INTEGER;
  for (const [organization, environment, fingerprint, last] of [
    [1, 1, again, OPEN],
    [1, 1, alone, OPEN],
    [1, 1, once, OPEN],
    [1, 2, once, OPEN],
    [1, 2, again, 1],
    [1, 2, unknown, OPEN],
    [2, 3, again, OPEN],
  ] as const)
    runs.run({ organization, environment, fingerprint, last });
  rest();
  assert.equal(db.prepare("SELECT id, report_number FROM artifacts ORDER BY id").all(), [
    { id: 1, report_number: 2 },
    { id: 2, report_number: 1 },
    { id: 3, report_number: 1 },
    { id: 4, report_number: 2 },
    { id: 5, report_number: 1 },
    { id: 6, report_number: 2 },
    { id: 7, report_number: 1 },
    { id: 8, report_number: 1 },
  ]);
  assert.equal(db.prepare("SELECT environment_id, fingerprint FROM stale_artifacts ORDER BY fingerprint").all(), [
    { environment_id: 1, fingerprint: again },
    { environment_id: 1, fingerprint: alone },
  ]);
  assert.equal(db.prepare("SELECT id, revision FROM environments ORDER BY id").all(), [
    { id: 1, revision: 8 },
    { id: 2, revision: 7 },
    { id: 3, revision: 7 },
  ]);
  const entries = (id: number) =>
    db.prepare<[number], string>("SELECT attestations_json FROM artifacts WHERE id = ?").pluck().get(id);
  assert.is(entries(1), "[]");
  assert.is(
    entries(7),
    JSON.stringify(buildLegacyAttestationStatuses(["artifact", "unit", "scan"].map((name) => ({ name, type: "*" })))),
  );
});

test("0008 lets artifacts be without a commit, and keeps rows, indexes and references", () => {
  const { db, rest } = before(8);
  const insert = (id: number, commit: string | null) =>
    db
      .prepare(
        `INSERT INTO artifacts (id, public_id, organization_id, flow_id, fingerprint, filename, git_commit, build_url,
           commit_url, template_json, created_by, created_at, last_modified_at, state, attestations_json, reasons_json)
         VALUES (?, 'a' || ?, 1, 1, ?, 'app', ?, '', '', '[]', '', 0, 0, 'COMPLIANT', '[]', '[]')`,
      )
      .run(id, id, String(id).repeat(64), commit);
  insert(1, "c");
  db.exec("INSERT INTO builds (artifact_id, organization_id, created_at) VALUES (1, 1, 0)");
  assert.throws(() => insert(2, null), /NOT NULL constraint failed: artifacts.git_commit/);
  const indexes = db.prepare("SELECT name FROM pragma_index_list('artifacts') ORDER BY name").pluck();
  const before8 = indexes.all();
  rest();
  insert(2, null);
  assert.equal(db.prepare("SELECT id, git_commit FROM artifacts ORDER BY id").all(), [
    { id: 1, git_commit: "c" },
    { id: 2, git_commit: null },
  ]);
  // 0013 and 0016 add one each.
  assert.equal(indexes.all(), [...before8, "artifacts_unfinished", "artifacts_by_repo_fingerprint"].sort());
  assert.throws(() => db.exec("DELETE FROM artifacts WHERE id = 1"), /FOREIGN KEY constraint failed/);
  assert.is(db.pragma("integrity_check", { simple: true }), "ok");
});

test.run();
