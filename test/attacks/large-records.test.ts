/**
 * Records that an older version accepted with megabytes in one field: every list that shows them responds in bounded
 * memory, with a mark in place of the field. Written to the database directly, because reports are bounded now.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readFreeForm } from "../../src/contract/reported-json.ts";
import { StoredJsonError } from "../../src/domain/stored-json.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const test = suite("attacks/large-records");
const MB = 1_048_576;
const RECORDS = 20;
const COMMIT = "c".repeat(40);
/** Parsed and serialized again, 9 MB of this would take 300 MB. */
const braces = (bytes: number): string => `[${"{},".repeat(bytes / 3 - 1)}{}]`;
const mark = (text: string) => ({
  unreadable: `This field has ${(text.length / MB).toFixed(1)} MB: fields of more than 8.0 MB are not shown here`,
  bytes: text.length,
});

let directory = "";
let server: TestServer;
let at: { org: string; key: string };
let flow = "";
test.before(async () => {
  directory = mkdtempSync(join(tmpdir(), "assay-large-"));
  server = await startServer({ directory });
  server.db.pragma("synchronous = OFF");
  at = server.given.org();
  flow = await server.given.flow(at);
  for (let index = 0; index < RECORDS; index += 1) {
    const trail_name = await server.given.trail(at, { flow, name: `t${index}` });
    const fingerprint = String(index).padStart(2, "0").repeat(32);
    const links = { build_url: "https://ci.example.com/1", commit_url: "https://git.example.com/1" };
    await server.call("POST", `/artifacts/${at.org}/${flow}`, {
      key: at.key,
      body: { fingerprint, filename: "app", git_commit: COMMIT, ...links, trail_name, template_reference_name: "app" },
    });
    const data = {
      attestation_name: "check",
      is_compliant: true,
      artifact_fingerprint: fingerprint,
      git_commit_info: { sha1: COMMIT },
    };
    const attested = await server.call("POST", `/attestations/${at.org}/${flow}/trail/${trail_name}/generic`, {
      key: at.key,
      form: { json: data },
    });
    assert.is(attested.status, 201, attested.text);
    await server.call("POST", `/attestations/${at.org}/${flow}/trail/t0/generic`, {
      key: at.key,
      form: { json: { attestation_name: "again", is_compliant: true } },
    });
  }
});
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true });
});

/** Writes the text to all records of a table while `body` runs. */
async function planted(table: string, text: string, body: () => Promise<void>): Promise<void> {
  server.db.prepare(`UPDATE ${table} SET user_data_json = ?`).run(text);
  await body();
  server.db.prepare(`UPDATE ${table} SET user_data_json = NULL`).run();
}

/** Every list that shows user_data, and the path to its records. */
const LISTS: Readonly<
  Record<string, { bytes: number; lists: () => readonly [path: string, records: (body: any) => any[]][] }>
> = {
  artifacts: {
    bytes: 9 * MB,
    lists: () => [
      [`/artifacts/${at.org}?flow_name=${flow}&per_page=50`, (body) => body],
      [`/artifacts/${at.org}?per_page=50`, (body) => body],
      [`/artifacts/${at.org}/${flow}?per_page=50`, (body) => body],
      [`/artifacts/${at.org}/${flow}/commit_sha/${COMMIT}`, (body) => body],
    ],
  },
  trails: {
    bytes: 9 * MB,
    lists: () => [
      [`/trails/${at.org}/${flow}`, (body) => body],
      [`/trails/${at.org}/${flow}?per_page=100`, ({ data }) => data],
      [`/trails/${at.org}?per_page=100`, ({ data }) => data],
    ],
  },
  attestations: {
    bytes: 9 * MB,
    lists: () => [
      [`/attestations/${at.org}?per_page=20`, ({ data }) => data],
      [`/attestations/${at.org}/${flow}?per_page=20`, ({ data }) => data],
      [`/attestations/${at.org}/${flow}/trail/t0/again`, (body) => body],
      [`/attestations/${at.org}/list_attestations_for_criteria?commit_list=${COMMIT}`, (body) => body[COMMIT]],
      [`/artifacts/${at.org}/${flow}?per_page=50`, (body) => body.map((artifact: any) => artifact.evidence.check)],
    ],
  },
};

for (const [table, { bytes, lists }] of Object.entries(LISTS))
  test(`${RECORDS} ${table} with ${bytes / MB} MB of user_data each: lists respond in little memory`, async () => {
    const text = braces(bytes);
    await planted(table, text, async () => {
      for (const [path, records] of lists()) {
        const before = process.memoryUsage().rss;
        const answer = await server.call("GET", path, { key: at.key });
        assert.is(answer.status, 200, path);
        const shown = records(answer.body);
        assert.is(shown.length, RECORDS, path);
        for (const record of shown) assert.equal(record.user_data, mark(text), path);
        assert.ok(
          process.memoryUsage().rss - before < 100 * MB,
          `${path} took ${(process.memoryUsage().rss - before) / MB} MB`,
        );
      }
    });
  });

test("a single read returns the whole field as it is stored", async () => {
  const text = braces(31 * MB);
  server.db.prepare("UPDATE trails SET user_data_json = ? WHERE name = 't3'").run(text);
  const answer = await fetch(`${server.url}/api/v2/trails/${at.org}/${flow}/t3`, {
    headers: { Authorization: `Bearer ${at.key}` },
  });
  assert.is(answer.status, 200);
  const body = await answer.text();
  assert.ok(body.includes(`"user_data":${text},`));
});

test("lists show fields of today's sizes unchanged, up to 64 MB in total", async () => {
  const other = server.given.org();
  const name = await server.given.flow(other);
  const user_data = { log: "x".repeat(4 * MB - 10) };
  for (let index = 0; index < 17; index += 1)
    await server.given.trail(other, { flow: name, name: `t${index}`, user_data });
  const { body } = await server.call("GET", `/trails/${other.org}/${name}?per_page=100`, { key: other.key });
  const [oldest, ...newer] = body.data.reverse();
  assert.equal(
    newer.map((trail: any) => trail.user_data.log?.length),
    Array(16).fill(4 * MB - 10),
  );
  assert.equal(oldest.user_data, {
    unreadable:
      "This field has 4.0 MB: too much in addition to the other fields of this response. Read the record alone",
    bytes: 4 * MB,
  });
});

test("a long field that is not JSON turns only its own record into a placeholder", async () => {
  const other = server.given.org();
  const name = await server.given.flow(other);
  for (const trail of ["good", "bad"])
    await server.given.trail(other, { flow: name, name: trail, user_data: { log: "x".repeat(100_000) } });
  server.db.prepare("UPDATE trails SET user_data_json = substr(user_data_json, 1, 80000) WHERE name = 'bad'").run();
  const { body } = await server.call("GET", `/trails/${other.org}/${name}`, { key: other.key });
  const shown = Object.fromEntries(
    body.map((trail: any) => [trail.name, { description: trail.description, characters: trail.user_data?.log.length }]),
  );
  assert.match(shown.bad.description, "damaged");
  assert.is(shown.bad.characters, undefined);
  assert.is(shown.good.characters, 100_000);
});

test("audit packages parse whole records, so that damage in a long field is found before the record is written", () => {
  assert.throws(
    () => readFreeForm(`[${"1,".repeat(50_000)}`),
    (error: unknown) => error instanceof StoredJsonError,
  );
  assert.equal(readFreeForm(`[${"1,".repeat(50_000)}1]`), Array(50_001).fill(1));
});

test("shows fields with millions of values as they are stored", async () => {
  const other = server.given.org();
  const name = await server.given.flow(other);
  await server.given.trail(other, { flow: name, name: "t" });
  await server.call("POST", `/attestations/${other.org}/${name}/trail/t/generic`, {
    key: other.key,
    form: { json: { attestation_name: "many", is_compliant: true } },
  });
  const facts = braces(7 * MB);
  server.db.prepare("UPDATE attestations SET payload_json = ? WHERE name = 'many'").run(`{"facts":${facts}}`);
  const answer = await fetch(`${server.url}/api/v2/attestations/${other.org}?per_page=20`, {
    headers: { Authorization: `Bearer ${other.key}` },
  });
  const text = await answer.text();
  assert.is(answer.status, 200);
  assert.ok(text.startsWith(`{"data":[{"facts":${facts},"schema_version":2,`), text.slice(0, 200));
});

test("marks flows and versions whose templates and schemas no longer fit, and shows the others", async () => {
  const other = server.given.org();
  const names = [];
  for (const name of ["a", "b", "c", "d"])
    names.push(await server.given.flow(other, { name, template: `# ${name}\nversion: 1\n` }));
  const long = `# ${"x".repeat(30 * MB)}\nversion: 1\n`;
  server.db.prepare("UPDATE templates SET content = ? WHERE content LIKE '# %' AND content NOT LIKE '# d%'").run(long);
  const flows = await server.call("GET", `/flows/${other.org}`, { key: other.key });
  assert.is(flows.status, 200);
  const full = "The list is too long to show this record: ask for smaller pages, or read the record alone";
  assert.equal(
    flows.body.map(({ name, description, template }: any) => ({
      name,
      isFull: description === full,
      characters: template.length,
    })),
    [
      { name: "a", isFull: false, characters: long.length },
      { name: "b", isFull: false, characters: long.length },
      { name: "c", isFull: true, characters: 0 },
      { name: "d", isFull: false, characters: "# d\nversion: 1\n".length },
    ],
  );

  for (let version = 1; version <= 3; version += 1) {
    const created = await server.call("POST", `/custom-attestation-types/${other.org}`, {
      key: other.key,
      form: {
        json: { name: "coverage", description: `${version}` },
        file: { name: "type_schema", filename: "s.json", content: `{"title":"${version}"}` },
      },
    });
    assert.is(created.status, 201, created.text);
  }
  server.db
    .prepare("UPDATE custom_type_versions SET schema_json = ?")
    .run(JSON.stringify({ title: "x".repeat(30 * MB) }));
  const types = await server.call("GET", `/custom-attestation-types/${other.org}`, { key: other.key });
  assert.is(types.status, 200);
  assert.equal(
    types.body[0].versions.map(({ version, comment, type_schema }: any) => ({
      version,
      comment,
      characters: type_schema?.title.length,
    })),
    [
      { version: 3, comment: undefined, characters: 30 * MB },
      { version: 2, comment: undefined, characters: 30 * MB },
      { version: 1, comment: full, characters: undefined },
    ],
  );
});

test.run();
