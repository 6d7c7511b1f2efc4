// Evidence on S3-compatible storage through the executable: with the client library that is packed into it, moved there
// and back, killed in the middle, and taken over by a second machine from a copy of the database that was made while
// the first one ran.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { loadAddon } from "../../src/store/db/native-addon.ts";
import { evidencePath } from "../../src/evidence/layout.ts";
import { unpack } from "../audit-packages/unpack.ts";
import { contentOf, digestOf, removeRoots } from "../evidence/given.ts";
import { BUCKET, KEYS, startStorage } from "../evidence/s3-server.ts";
import type { Storage } from "../evidence/s3-server.ts";
import { createClient, expectStatus } from "../binary/client.ts";
import type { Client } from "../binary/client.ts";
import { EXECUTABLE, inDirectory, run, start } from "../binary/executable.ts";
import type { Running } from "../binary/executable.ts";

const KEY = "ci-key-of-the-vault-test-0123456789";
const APPLY = `
organizations:
  - name: acme
    service_accounts:
      - {name: ci-bot, privilege: member, api_keys: [{description: ci, key: "${KEY}"}]}
`;
const EVIDENCE = "/attestations/acme/payments/trail/release-1";
const LARGE = 9 * 1_048_576;

let storage: Storage;
const test = suite("integration/vault");
test.before(async () => {
  storage = await startStorage();
});
test.after(async () => {
  await storage.stop();
  removeRoots();
});

const s3Environment = (): Record<string, string> => ({
  ASSAY_S3_ENDPOINT: storage.endpoint,
  ASSAY_S3_ACCESS_KEY: KEYS.accessKey,
  ASSAY_S3_SECRET_KEY: KEYS.secretKey,
});

/** Serves `data` with its evidence at `location` (null: in the data directory), and creates a trail to report to. */
async function serve(
  data: string,
  location: string | null,
  ...more: string[]
): Promise<{ server: Running; client: Client }> {
  const apply = `${data}.yml`;
  writeFileSync(apply, APPLY);
  const words = [
    "serve",
    "--data",
    data,
    "--listen",
    "127.0.0.1:0",
    "--bootstrap",
    apply,
    "--small-evidence",
    "0",
    ...more,
  ];
  const server = await start(
    location === null ? words : [...words, "--evidence-store", location],
    location === null ? {} : { env: s3Environment() },
  );
  const client = createClient(server.url, KEY);
  await client.form("PUT", "/flows/acme/template_file", "data_json", { name: "payments", description: "" });
  await client.form("PUT", "/trails/acme/payments", "data_json", { name: "release-1" });
  return { server, client };
}

const report = (client: Client, name: string, content: Buffer) =>
  client.form(
    "POST",
    `${EVIDENCE}/generic`,
    "data_json",
    { attestation_name: name, is_compliant: true },
    { part: "attachment_file", name: "report.bin", content },
  );

/** Downloads the evidence of every attestation. Returns the SHA-256 of each by attestation name. */
async function downloadAll(client: Client): Promise<Record<string, string>> {
  const { data } = await expectStatus(client.json("GET", "/attestations/acme?per_page=100"), 200);
  const found: Record<string, string> = {};
  for (const { attestation_name, attestation_id } of data) {
    const { status, bytes } = await client.json("GET", `${EVIDENCE}/attestation/${attestation_id}/evidence`);
    assert.is(status, 200, attestation_name);
    found[attestation_name] = createHash("sha256").update(bytes).digest("hex");
  }
  return found;
}

test("uploads, downloads, ranges and audit packages use the storage, and evidence moves there and back", () =>
  inDirectory(async (directory) => {
    const [data, place] = [join(directory, "data"), `s3://${BUCKET}/moving`];
    const contents: Record<string, Buffer> = {
      small: contentOf(10, 1),
      middle: contentOf(300_000, 2),
      large: contentOf(LARGE, 3),
    };
    const expected = Object.fromEntries(Object.entries(contents).map(([name, content]) => [name, digestOf(content)]));
    const first = await serve(data, place);
    for (const [name, content] of Object.entries(contents))
      await expectStatus(report(first.client, name, content), 201);
    assert.equal(readdirSync(join(data, "evidence")), []);
    assert.equal(await downloadAll(first.client), expected);
    const {
      data: [{ attestation_id }],
    } = await expectStatus(first.client.json("GET", "/attestations/acme?per_page=1"), 200);
    const part = await fetch(`${first.server.url}/api/v2${EVIDENCE}/attestation/${attestation_id}/evidence`, {
      headers: { Authorization: `Bearer ${KEY}`, Range: "bytes=8388600-8388620" },
    });
    assert.equal(
      {
        status: part.status,
        isRequestedRange: Buffer.from(await part.arrayBuffer()).equals(
          (contents["large"] as Buffer).subarray(8_388_600, 8_388_621),
        ),
      },
      { status: 206, isRequestedRange: true },
    );
    const packageFromStorage = (await first.client.json("GET", "/trails/acme/payments/release-1/audit_package")).bytes;
    await unpack(packageFromStorage);
    assert.is((await first.server.stop()).code, 0);

    const env = s3Environment();
    const back = await run(["vault", "migrate", "--to", "directory", "--data", data, "--remove-source", "--json"], {
      env,
    });
    assert.equal(
      { code: back.code, removed: JSON.parse(back.stdout).removed, stderr: back.stderr },
      { code: 0, removed: 3, stderr: "" },
    );
    const refused = await run(["serve", "--data", data, "--listen", "127.0.0.1:0", "--evidence-store", place], { env });
    assert.is(refused.code, 1);
    assert.match(refused.stderr, "assay vault migrate --to");
    const second = await serve(data, null);
    assert.equal(await downloadAll(second.client), expected);
    await unpack((await second.client.json("GET", "/trails/acme/payments/release-1/audit_package")).bytes);
    // Copying beside the server leaves only the file uploaded afterwards to the migration itself.
    assert.is(
      JSON.parse((await run(["vault", "copy", "--to", place, "--data", data, "--json"], { env })).stdout).copied,
      3,
    );
    await expectStatus(report(second.client, "last", contentOf(500, 4)), 201);
    assert.is((await run(["vault", "migrate", "--to", place, "--data", data], { env })).code, 4);
    await second.server.stop();
    assert.is(
      JSON.parse(
        (await run(["vault", "migrate", "--to", place, "--data", data, "--remove-source", "--json"], { env })).stdout,
      ).copied,
      1,
    );
    const third = await serve(data, place);
    assert.equal(await downloadAll(third.client), { ...expected, last: digestOf(contentOf(500, 4)) });
    await third.server.stop();
  }));

test("scheduled and manual backups contain the evidence of the storage, and verify reads it there", () =>
  inDirectory(async (directory) => {
    const [data, place, env] = [join(directory, "data"), `s3://${BUCKET}/saved`, s3Environment()];
    const { server, client } = await serve(data, place, "--backup-every", "24h");
    const digests: string[] = [];
    for (const size of [10, 300_000, LARGE]) {
      await expectStatus(report(client, `report-${size}`, contentOf(size, 50)), 201);
      digests.push(digestOf(contentOf(size, 50)));
    }
    await server.wrote(/"msg":"made a backup"/);
    process.kill(server.pid, "SIGUSR1");
    await server.wrote(/"msg":"made a backup"[^]*"msg":"made a backup"/);
    const byHand = join(directory, "by-hand.tar");
    assert.is((await run(["backup", byHand, "--data", data, "--verify"], { env })).code, 0);
    assert.is((await run(["verify", "--data", data], { env })).code, 0);
    await server.stop();
    const names = readdirSync(join(data, "backups")).sort();
    for (const [index, file] of [join(data, "backups", names.at(-1) ?? ""), byHand].entries()) {
      const target = join(directory, `restored-${index}`);
      const restored = await run(["restore", file, "--data", target]);
      assert.is(restored.code, 0, restored.stderr);
      for (const digest of digests)
        assert.is(digestOf(readFileSync(evidencePath(join(target, "evidence"), digest))), digest);
      assert.is((await run(["verify", "--data", target])).code, 0);
    }
  }));

test("a server that is killed during an upload leaves no row without its object", () =>
  inDirectory(async (directory) => {
    const [data, place] = [join(directory, "data"), `s3://${BUCKET}/killed`];
    const expected: Record<string, string> = {};
    // Killed during the upload, and after it but before its check.
    for (const [round, moment] of ["PUT", "HEAD"].entries()) {
      const { server, client } = await serve(data, place);
      await expectStatus(report(client, `stored-${round}`, contentOf(1000, round)), 201);
      expected[`stored-${round}`] = digestOf(contentOf(1000, round));
      let puts = 0;
      const end = storage.inject((incoming, _, pass) => {
        if (incoming.method === "PUT") puts += 1;
        if (incoming.method === moment && puts > 0) void server.stop("SIGKILL");
        else pass();
      });
      const outcome = await report(client, `lost-${round}`, contentOf(300_000, 10 + round)).then(
        () => "acknowledged",
        () => "cut",
      );
      await server.exited;
      end();
      assert.is(outcome, "cut");
    }
    const { server, client } = await serve(data, place);
    assert.equal(await downloadAll(client), expected);
    assert.equal(readdirSync(join(data, "staging")), []);
    await server.stop();
  }));

test("a migration killed at any request leaves all evidence in the recorded location, and can be resumed", () =>
  inDirectory(async (directory) => {
    const [data, place] = [join(directory, "data"), `s3://${BUCKET}/interrupted`];
    const { server, client } = await serve(data, null);
    const expected: Record<string, string> = {};
    for (let n = 0; n < 6; n += 1) {
      await expectStatus(report(client, `report-${n}`, contentOf(2000, n)), 201);
      expected[`report-${n}`] = digestOf(contentOf(2000, n));
    }
    await server.stop();
    const words = [
      "vault",
      "migrate",
      "--to",
      place,
      "--data",
      data,
      "--remove-source",
      "--s3-access-key",
      KEYS.accessKey,
      "--s3-secret-key",
      KEYS.secretKey,
    ];
    // At the first file, among the uploads, and while all files are checked once more: copying a file takes seven
    // requests, skipping one takes two.
    for (const moment of [2, 20, 30]) {
      let seen = 0;
      const child = spawn(EXECUTABLE, [...words, "--s3-endpoint", storage.endpoint], { env: {}, stdio: "ignore" });
      const end = storage.inject((_, outgoing, pass) => {
        seen += 1;
        if (seen !== moment) return pass();
        child.kill("SIGKILL");
        outgoing.destroy();
      });
      await once(child, "exit");
      end();
      const db = new Database(join(data, "assay.db"), {
        nativeBinding: loadAddon(data) as unknown as string,
        readonly: true,
      });
      const recorded = db.prepare("SELECT place FROM evidence_place").pluck().get() ?? "directory";
      db.close();
      const pathOf = (digest: string): string =>
        recorded === "directory"
          ? evidencePath(join(data, "evidence"), digest)
          : storage.fileOf(`interrupted/${digest.slice(0, 2)}/${digest.slice(2)}`);
      const found = Object.entries(expected).map(([name, digest]) => [name, digestOf(readFileSync(pathOf(digest)))]);
      assert.equal(Object.fromEntries(found), expected, `killed at request ${moment}`);
    }
    const last = await run([...words, "--s3-endpoint", storage.endpoint]);
    assert.is(last.code, 0, last.stderr);
    const { server: moved, client: reading } = await serve(data, place);
    assert.equal(await downloadAll(reading), expected);
    await moved.stop();
  }));

test("a second machine takes over from a copy of the database and its log, with evidence on the storage", () =>
  inDirectory(async (directory) => {
    const [a, b, place] = [join(directory, "a"), join(directory, "b"), `s3://${BUCKET}/standby`];
    const { server, client } = await serve(a, place, "--checkpoints", "external");
    await expectStatus(report(client, "before", contentOf(3000, 20)), 201);

    // Imitates Litestream: tables of its own, a long read transaction that prevents the log from restarting, an
    // occasional row of its own, checkpoints between two read transactions, and copies of the main file and the log.
    const replica = new Database(join(a, "assay.db"), { nativeBinding: loadAddon(a) as unknown as string });
    replica.exec("CREATE TABLE IF NOT EXISTS _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)");
    replica.exec("CREATE TABLE IF NOT EXISTS _litestream_lock (id INTEGER)");
    const writeSequence = (): void =>
      void replica.exec(
        "INSERT INTO _litestream_seq (id, seq) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET seq = seq + 1",
      );
    const holdRead = (): void => void replica.exec("BEGIN; SELECT count(1) FROM _litestream_seq");
    const acknowledged: Record<string, string> = { before: digestOf(contentOf(3000, 20)) };
    writeSequence();
    holdRead();
    for (let n = 0; n < 12; n += 1) {
      await expectStatus(report(client, `report-${n}`, contentOf(2000, 30 + n)), 201);
      acknowledged[`report-${n}`] = digestOf(contentOf(2000, 30 + n));
      if (n % 4 !== 3) continue;
      replica.exec("ROLLBACK");
      replica.pragma(n === 7 ? "wal_checkpoint(TRUNCATE)" : "wal_checkpoint(PASSIVE)");
      writeSequence();
      holdRead();
    }
    // Losing the machine costs whatever is acknowledged after this copy.
    mkdirSync(b, { mode: 0o700 });
    for (const file of ["assay.db", "assay.db-wal"]) copyFileSync(join(a, file), join(b, file));
    await expectStatus(report(client, "after-the-copy", contentOf(100, 99)), 201);
    await server.stop("SIGKILL");
    replica.close();
    rmSync(a, { recursive: true });

    const status = await run(["vault", "status", "--data", b, "--json"], { env: s3Environment() });
    assert.equal(
      { code: status.code, place: JSON.parse(status.stdout).place, files: JSON.parse(status.stdout).files },
      { code: 0, place, files: 13 },
    );
    const taken = await serve(b, place, "--checkpoints", "external");
    assert.equal(await downloadAll(taken.client), acknowledged);
    await expectStatus(report(taken.client, "on-b", contentOf(100, 98)), 201);
    await unpack((await taken.client.json("GET", "/trails/acme/payments/release-1/audit_package")).bytes);
    assert.is((await taken.server.stop()).code, 0);
    // Litestream's tables disturb neither another start nor any command.
    const again = await serve(b, place);
    assert.is(Object.keys(await downloadAll(again.client)).length, 14);
    await again.server.stop();
    assert.is((await run(["vault", "migrate", "--to", "directory", "--data", b], { env: s3Environment() })).code, 0);
    assert.ok(existsSync(join(b, "evidence")));
  }));

test.run();
