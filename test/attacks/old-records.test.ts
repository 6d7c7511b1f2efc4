/**
 * Records of older versions, which bounded bodies and not their fields: what is read alone comes whole, lists show a
 * placeholder, and no read holds the main thread. Written to the database directly, into the world of test/whole.
 *
 * A column gets a short value, then a long one: the two answers must be the same but for it, character by character.
 */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openCopy } from "../../src/store/db/connection.ts";
import type { Db } from "../../src/store/db/types.ts";
import { createWorld } from "../whole/world.ts";
import { MAX_BUSY_MS } from "./loop-delay.ts";
import { startProbedOver } from "./probed.ts";

const MB = 1_048_576;
const BYTES = 31 * MB;
const MAX_TRIES = 4;

const test = suite("attacks/old-records");
let directory = "";
let key = "";
let db: Db;
let server: Awaited<ReturnType<typeof startProbedOver>>;
test.before(async () => {
  directory = mkdtempSync(join(tmpdir(), "assay-old-"));
  const world = await createWorld();
  cpSync(world.image.directory, directory, { recursive: true });
  writeFileSync(join(directory, "assay.db"), world.image.database);
  key = world.keys.admin;
  await world.stop();
  server = await startProbedOver(directory);
  db = openCopy(join(directory, "assay.db"), { readonly: false });
  db.pragma("synchronous = OFF");
});
test.after(async () => {
  db.close();
  await server.stop();
  rmSync(directory, { recursive: true });
});

/** Values that differ in nothing but their length. */
type Values = readonly [short: string, long: string];

const SHORT = "short and unique";
/** A JSON text with many values: parsed, it would take a gigabyte. */
const values = (bytes: number): string => `[${"{},".repeat(bytes / 3 - 1)}{}]`;
const text = (bytes: number): string => `"${"x".repeat(bytes - 2)}"`;
const LIST: Values = [`["${SHORT}"]`, values(BYTES)];
const TEXT: Values = [`"${SHORT}"`, text(BYTES)];
/** Column values and answers around the same part. */
const around = ([short, long]: Values, before: string, after: string): Values => [
  `${before}${short}${after}`,
  `${before}${long}${after}`,
];
const plain = (all: Values): Values => all.map((json) => JSON.parse(json) as string) as unknown as Values;

type Case = {
  /** `table.column` */
  column: string;
  /** The row: its `id`, and what stands in the paths. */
  row: string;
  stored: Values;
  /** How answers show it; as stored unless given. */
  shown?: Values;
  /** Paths of reads that show it whole, and of lists. */
  alone: readonly string[];
  lists?: readonly string[];
  /** What lists show of so many bytes. */
  placeholder?: (bytes: number) => string;
};

const reason = "This field has 31.0 MB: fields of more than 8.0 MB are not shown here";
const object = (bytes: number): string => JSON.stringify({ unreadable: reason, bytes });
const members = (bytes: number): string => object(bytes).slice(1, -1);
const commit = (all: Values): Values =>
  around(
    all,
    '{"sha1":"1111111111111111111111111111111111111111","message":',
    ',"author":"a","branch":"b","timestamp":1}',
  );

const attestation = (where: string): string =>
  `SELECT att.id, att.public_id AS attestation, att.name, att.control, f.name AS flow, t.name AS trail, a.fingerprint
   FROM attestations att JOIN flows f ON f.id = att.flow_id JOIN trails t ON t.id = att.trail_id
     LEFT JOIN attestation_bindings b ON b.attestation_id = att.id LEFT JOIN artifacts a ON a.id = b.artifact_id
   WHERE ${where} LIMIT 1`;
const ARTIFACT = `SELECT a.id, a.public_id AS artifact, a.fingerprint, f.name AS flow, t.name AS trail
   FROM artifacts a JOIN flows f ON f.id = a.flow_id JOIN trails t ON t.id = a.trail_id WHERE t.name = 'release-1'`;
const TRAIL = `SELECT t.id, f.name AS flow, t.name AS trail FROM trails t JOIN flows f ON f.id = t.flow_id
   WHERE t.name = 'release-1'`;

const BY_ID = "/attestations/acme?attestation_id={attestation}";
const BY_NAME = "/attestations/acme/{flow}/trail/{trail}/{name}";
const ALL = "/attestations/acme?per_page=100";
const OF_ARTIFACT = "/artifacts/acme/{flow}/fingerprint/{fingerprint}";
const ARTIFACTS = "/artifacts/acme/{flow}?per_page=50";
const OF_TRAIL = "/trails/acme/{flow}/{trail}";
const TRAILS = "/trails/acme/{flow}";
const SNAPSHOT = "/snapshots/acme/{environment}/-1";

const CASES: readonly Case[] = [
  {
    column: "attestations.user_data_json",
    row: attestation("att.type = 'sonar'"),
    stored: LIST,
    alone: [BY_ID, BY_NAME, "/attestations/acme/{flow}/trail/{trail}?attestation_id={attestation}"],
    lists: [ALL, "/attestations/acme/{flow}", "/attestations/acme/{flow}/trail/{trail}"],
    placeholder: object,
  },
  {
    column: "attestations.user_data_json",
    row: attestation("att.type = 'junit' AND b.artifact_id IS NOT NULL"),
    stored: LIST,
    alone: [OF_ARTIFACT, "/attestations/acme/{flow}/artifact/{fingerprint}/{name}"],
    lists: [ARTIFACTS],
    placeholder: object,
  },
  {
    column: "attestations.payload_json",
    row: attestation("att.type = 'custom:coverage'"),
    stored: around(LIST, '{"type_name":"coverage","attestation_data":', ',"rules":[],"summary":null}'),
    shown: around(LIST, '"attestation_data":', ',"rules":[],"summary":null'),
    alone: [BY_ID, BY_NAME],
    lists: [ALL],
    placeholder: members,
  },
  {
    column: "attestations.payload_json",
    row: attestation("att.type = 'system:decision'"),
    stored: around(LIST, '{"attestation_data":{"found":', "}}"),
    shown: around(LIST, '"attestation_data":{"found":', "}"),
    alone: [BY_ID, "/controls/acme/{control}/decisions/{attestation}"],
    lists: ["/controls/acme/{control}/decisions"],
    placeholder: members,
  },
  {
    column: "attestations.payload_json",
    row: attestation("att.type = 'pull_request'"),
    stored: around(
      ['["ada"]', `[${'"ada",'.repeat(BYTES / 6)}"ada"]`],
      '{"git_provider":"github","pull_requests":[{"url":"https://git.test/1","approvers":',
      ',"commits":[{"sha1":"1"}]},{"url":"https://git.test/2"}]}',
    ),
    // As readers of the newer shape expect it (wire-contract 6.2).
    shown: around(
      ['[{"username":"ada"}]', `[${'{"username":"ada"},'.repeat(BYTES / 6)}{"username":"ada"}]`],
      '"pull_requests":[{"url":"https://git.test/1","approvers":',
      ',"commits":[{"author_username":null,"sha1":"1"}],"author":""},' +
        '{"url":"https://git.test/2","author":"","approvers":[],"commits":[]}]',
    ),
    alone: [BY_ID],
  },
  {
    column: "attestations.annotations_json",
    row: attestation("att.type = 'sonar'"),
    stored: [`{"a":"${SHORT}"}`, `{${'"a":"b",'.repeat(BYTES / 8 - 1)}"a":"b"}`],
    alone: [BY_ID],
    lists: [ALL],
    placeholder: () => JSON.stringify({ unreadable: reason }),
  },
  {
    column: "attestations.git_commit_info_json",
    row: attestation("att.type = 'sonar'"),
    stored: commit(TEXT),
    alone: [BY_ID, OF_TRAIL],
    lists: [ALL, "/trails/acme/{flow}/{trail}/events?per_page=100"],
    placeholder: () => `"message":"${reason}"`,
  },
  {
    column: "attestations.description",
    row: attestation("att.type = 'sonar'"),
    stored: plain(TEXT),
    shown: TEXT,
    alone: [BY_ID],
    lists: [ALL],
    placeholder: () => `"description":"${reason}"`,
  },
  {
    column: "artifacts.user_data_json",
    row: ARTIFACT,
    stored: LIST,
    alone: [OF_ARTIFACT, `${OF_ARTIFACT}?artifact_id={artifact}`],
    lists: [ARTIFACTS],
    placeholder: object,
  },
  {
    column: "artifacts.git_commit_info_json",
    row: ARTIFACT,
    stored: commit(TEXT),
    alone: [OF_ARTIFACT],
    lists: [ARTIFACTS, SNAPSHOT.replace("{environment}", "production")],
    placeholder: () => `"message":"${reason}"`,
  },
  {
    column: "trails.user_data_json",
    row: TRAIL,
    stored: LIST,
    alone: [OF_TRAIL, `${OF_TRAIL}?events=false`],
    lists: [TRAILS, "/trails/acme?per_page=100"],
    placeholder: object,
  },
  {
    column: "trails.external_urls_json",
    row: TRAIL,
    stored: around(TEXT, '{"a":{"href":', "}}"),
    alone: [OF_TRAIL],
    lists: [TRAILS],
    placeholder: () => `{"${reason}":{"href":""}}`,
  },
  {
    column: "trail_events.event_json",
    row: `${TRAIL.replace("t.id,", "te.id,").replace(" WHERE", " JOIN trail_events te ON te.trail_id = t.id WHERE")}
          AND te.type = 'artifact_creation_reported'`,
    stored: around(commit(TEXT), '{"git_commit_info":', ',"repo_info":null}'),
    shown: around(commit(TEXT), '"git_commit_info":', ',"repo_info":null'),
    alone: [OF_TRAIL],
    lists: ["/trails/acme/{flow}/{trail}/events?per_page=100"],
    placeholder: () => `"unreadable":"${reason}"`,
  },
  {
    column: "templates.content",
    row: "SELECT template_id AS id, name AS flow FROM flows WHERE name = 'backend'",
    stored: [`version: 1 # ${SHORT}`, `version: 1 # ${"x".repeat(BYTES)}`],
    shown: [`"version: 1 # ${SHORT}"`, `"version: 1 # ${"x".repeat(BYTES)}"`],
    alone: ["/flows/acme/{flow}", "/trails/acme/{flow}/release-0?events=false"],
  },
  {
    column: "policy_versions.policy_yaml",
    row: "SELECT id FROM policy_versions WHERE version = 2",
    stored: plain(TEXT),
    shown: TEXT,
    alone: ["/policies/acme/tested?files=2"],
  },
  {
    column: "custom_type_versions.schema_json",
    row: "SELECT v.id, t.name FROM custom_type_versions v JOIN custom_types t ON t.id = v.type_id WHERE v.version = 1",
    stored: around(LIST, '{"enum":', "}"),
    alone: ["/custom-attestation-types/acme/{name}?version=1"],
  },
  {
    column: "snapshot_artifacts.instances_json",
    row: `SELECT sa.id, env.name AS environment, sa.fingerprint FROM snapshot_artifacts sa
          JOIN environments env ON env.id = sa.environment_id WHERE env.name = 'cluster' AND sa.last_index > 100`,
    stored: around(
      [
        `{"${SHORT}":{}}`,
        `{${Array.from({ length: BYTES / 31 }, (_, n) => `"pod-${String(n).padStart(23, "0")}":{}`).join(",")}}`,
      ],
      '{"created":[1690000000],"pods":',
      "}",
    ),
    shown: around(
      [
        `{"${SHORT}":{}}`,
        `{${Array.from({ length: BYTES / 31 }, (_, n) => `"pod-${String(n).padStart(23, "0")}":{}`).join(",")}}`,
      ],
      '"creationTimestamp":[1690000000],"pods":',
      "",
    ),
    alone: [SNAPSHOT, `${SNAPSHOT}?per_page=100`],
  },
  ...(
    [
      ["environments.description", "name = 'production'", "/environments/acme/production"],
      ["policies.description", "name = 'tested'", "/policies/acme/tested"],
      ["flows.description", "name = 'backend'", "/flows/acme/backend"],
      ["controls.description", "identifier = 'SOC-1'", "/controls/acme/SOC-1"],
      ["control_versions.description", "version = 1", "/controls/acme/SOC-1/versions/1"],
      ["actions.created_by", "number = 1", "/actions/acme/1"],
    ] as const
  ).map(
    ([column, where, path]): Case => ({
      column,
      row: `SELECT id FROM ${column.split(".")[0]} WHERE ${where}`,
      stored: plain(TEXT),
      shown: TEXT,
      alone: [path],
    }),
  ),
  {
    column: "artifacts.commit_url",
    row: `${ARTIFACT} AND a.fingerprint IN (SELECT fingerprint FROM deployments)`,
    stored: plain(TEXT),
    shown: TEXT,
    alone: ["/deployments/acme/production/{fingerprint}"],
  },
];

type Row = { id: number } & Record<string, unknown>;

const pathOf = (pattern: string, row: Row): string =>
  pattern.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(row[name])));

/** An answer to a read, and how long it held the main thread: the shortest of some tries. */
async function read(path: string): Promise<{ body: string; busiest: number }> {
  let busiest = Infinity;
  let body = "";
  for (let turn = 0; turn < MAX_TRIES && busiest > MAX_BUSY_MS; turn += 1) {
    await server.reset();
    const answer = await fetch(`${server.url}/api/v2${path}`, { headers: { Authorization: `Bearer ${key}` } });
    body = await answer.text();
    assert.is(answer.status, 200, `${path}: ${body.slice(0, 300)}`);
    busiest = Math.min(busiest, (await server.report()).busiest);
  }
  return { body, busiest };
}

const occurrences = (body: string, part: string): number => body.split(part).length - 1;

for (const { column, row: sql, stored, shown = stored, alone, lists = [], placeholder } of CASES)
  test(`${column} with ${(stored[1].length / MB).toFixed(0)} MB, read by ${alone[0]}`, async () => {
    const [table, name] = column.split(".") as [string, string];
    const row = db.prepare<[], Row>(sql).get() as Row;
    const before = db.prepare<[number], unknown>(`SELECT ${name} FROM ${table} WHERE id = ?`).pluck().get(row.id);
    const write = db.prepare(`UPDATE ${table} SET ${name} = ? WHERE id = ?`);
    try {
      for (const pattern of alone) {
        const path = pathOf(pattern, row);
        write.run(stored[0], row.id);
        const { body: short } = await read(path);
        assert.ok(occurrences(short, shown[0]) > 0, `${path} does not show ${shown[0]}: ${short.slice(0, 2_000)}`);
        write.run(stored[1], row.id);
        const { body, busiest } = await read(path);
        // Not assert.is, which would compose the difference of two texts of this length.
        assert.ok(body === short.replaceAll(shown[0], () => shown[1]), `${path}: ${body.slice(0, 2_000)}`);
        assert.ok(busiest <= MAX_BUSY_MS, `${path} held the main thread for ${busiest.toFixed(0)} ms`);
      }
      for (const pattern of lists) {
        const path = pathOf(pattern, row);
        const { body, busiest } = await read(path);
        assert.ok(body.length < MB, `${path}: ${body.length} characters`);
        assert.ok(body.includes(placeholder?.(stored[1].length) as string), `${path}: ${body.slice(0, 2_000)}`);
        assert.ok(busiest <= MAX_BUSY_MS, `${path} held the main thread for ${busiest.toFixed(0)} ms`);
      }
    } finally {
      write.run(before, row.id);
    }
  });

test.run();
