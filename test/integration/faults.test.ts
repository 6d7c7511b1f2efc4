// The executable on failing storage: a disk that is really full (a small tmpfs in its own mount namespace), and system
// calls that fail on chosen files (faults.c, preloaded before the C library). In every case what was acknowledged is
// there, what was refused is not, partly written evidence is never visible, and the server recovers by itself when the
// storage does.

import { createHash } from "node:crypto";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import {
  existsSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import Database from "better-sqlite3";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { loadAddon } from "../../src/store/db/native-addon.ts";
import { createClient, expectStatus } from "../binary/client.ts";
import type { Client } from "../binary/client.ts";
import { until } from "../patience.ts";
import { EXECUTABLE, inDirectory, run, start } from "../binary/executable.ts";
import type { Running } from "../binary/executable.ts";

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
const MB = 1_048_576;
const sha256 = (content: Buffer | string): string => createHash("sha256").update(content).digest("hex");

/** Creates the flow and the trail that the attestations go to. */
async function createTrail(client: Client): Promise<void> {
  await expectStatus(
    client.form("PUT", "/flows/acme/template_file", "data_json", { name: "backend", description: "" }),
    201,
  );
  await expectStatus(client.form("PUT", "/trails/acme/backend", "data_json", { name: "release-1" }), 201);
}

const evidenceOf = (name: string, size: number): Buffer => Buffer.alloc(size, `${name} `);

const attest = (client: Client, name: string, size = 20_000) =>
  client.form(
    "POST",
    "/attestations/acme/backend/trail/release-1/generic",
    "data_json",
    { attestation_name: name, is_compliant: true, user_data: {} },
    {
      part: "attachment_file",
      name: `${name}.bin`,
      content: evidenceOf(name, size),
    },
  );

/** Expects exactly the acknowledged attestations (name -> size of the evidence), each with complete evidence. */
async function expectEvidence(client: Client, data: string, acknowledged: ReadonlyMap<string, number>): Promise<void> {
  for (const [name, size] of acknowledged) {
    const [row] = await expectStatus(client.json("GET", `/attestations/acme/backend/trail/release-1/${name}`), 200);
    const file = await client.json(
      "GET",
      `/attestations/acme/backend/trail/release-1/attestation/${row.attestation_id}/evidence`,
    );
    assert.is(file.status, 200, name);
    assert.ok(
      file.bytes.equals(evidenceOf(name, size)),
      `${name} came back with ${file.bytes.length} bytes of other content`,
    );
  }
  for (const digest of evidenceFiles(data))
    assert.is(
      sha256(readFileSync(join(data, "evidence", digest.slice(0, 2), digest.slice(2)))),
      digest,
      "the content of an evidence file differs from the digest in its name",
    );
}

/** The digests of all evidence files, in order. */
function evidenceFiles(data: string): string[] {
  const root = join(data, "evidence");
  return readdirSync(root)
    .filter((name) => name.length === 2)
    .flatMap((shard) => readdirSync(join(root, shard)).map((name) => shard + name))
    .sort();
}

/** The digests of what `attest` stored (name -> size of the evidence), in order. */
const digestsOf = (acknowledged: ReadonlyMap<string, number>): string[] =>
  [...acknowledged].map(([name, size]) => sha256(evidenceOf(name, size))).sort();

/** Expects the database of a stopped server to be sound and to have exactly these attestations. */
function expectDatabase(data: string, names: readonly string[]): void {
  // Works on a copy, because SQLite does not open files through the root of another process.
  const copy = mkdtempSync(join(tmpdir(), "assay-faults-"));
  copyFileSync(join(data, "assay.db"), join(copy, "assay.db"));
  const db = new Database(join(copy, "assay.db"), { nativeBinding: loadAddon() as unknown as string });
  try {
    assert.equal(db.pragma("integrity_check", { simple: true }), "ok");
    assert.equal(db.pragma("foreign_key_check"), []);
    assert.equal(db.prepare("SELECT name FROM attestations ORDER BY name").pluck().all(), [...names].sort());
  } finally {
    db.close();
    rmSync(copy, { recursive: true });
  }
}

const keyOf = (init: { code: number | null; stdout: string; stderr: string }): string => {
  assert.is(init.code, 0, init.stderr);
  return init.stdout.trim();
};

const INIT = ["init", "--org", "acme", "--user", "ops"];
const ENTERED_READ_ONLY = /"reason":"([^"]*)"[^\n]*entered read-only mode/;
const LEFT_READ_ONLY = /left read-only mode/;

// ---- a full disk

const canMount =
  process.getuid?.() === 0 &&
  spawnSync("unshare", ["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], { env: { PATH } }).status === 0;
const fullDisk = suite("integration/faults: a full disk");
const testFullDisk = canMount ? fullDisk : fullDisk.skip;
if (!canMount) console.log("skipped: this process may not mount a file system in its own namespace");

/** Mounts a file system of `size` bytes at /mnt of a mount namespace that exists until `end`. */
async function mountSmallDisk(size: number) {
  const holder: ChildProcess = spawn(
    "unshare",
    [
      "-m",
      "sh",
      "-c",
      `mount -t tmpfs -o size=${size} tmpfs /mnt && mkdir -m 700 /mnt/data && echo ready && exec sleep 600`,
    ],
    { env: { PATH }, stdio: ["ignore", "pipe", "ignore"] },
  );
  await new Promise((resolve, reject) => {
    holder.stdout?.once("data", resolve);
    holder.once("exit", () => reject(new Error("no file system could be mounted")));
  });
  const root = `/proc/${holder.pid}/root/mnt`;
  const inside = (args: readonly string[]): readonly string[] => ["-t", String(holder.pid), "-m", EXECUTABLE, ...args];
  const options = { executable: "/usr/bin/nsenter", cwd: "/" };
  return {
    /** Path of the data directory from outside the namespace. */
    data: join(root, "data"),
    free: (): number => {
      const { bavail, bsize } = statfsSync(root);
      return bavail * bsize;
    },
    /** Fills the disk until this many bytes are free. */
    fill(left: number): void {
      const ballast = join(root, "ballast");
      const { bavail, bsize } = statfsSync(root);
      execFileSync("sh", ["-c", `head -c ${Math.max(0, bavail * bsize - left)} /dev/zero >>"$0" || true`, ballast], {
        stdio: "ignore",
      });
    },
    clear: (): void => rmSync(join(root, "ballast"), { force: true }),
    run: (args: readonly string[]) =>
      run(inside(args.includes("--data") ? args : [...args, "--data", "/mnt/data"]), options),
    serve: (reserve: string, ...more: string[]): Promise<Running> =>
      start(
        inside(["serve", "--data", "/mnt/data", "--listen", "127.0.0.1:0", "--disk-reserve", reserve, ...more]),
        options,
      ),
    end: (): void => void holder.kill("SIGKILL"),
  };
}

testFullDisk("a first start without space says so, leaves nothing, and succeeds once there is space", async () => {
  const disk = await mountSmallDisk(16 * MB);
  try {
    // From no space for the first file, through a database that cannot get its tables, to one that cannot be closed.
    for (const left of [0, 8_192, 65_536, 400_000, 1_000_000, 1_200_000]) {
      disk.fill(left);
      for (const command of [INIT, ["serve", "--listen", "127.0.0.1:0", "--log-level", "error"]]) {
        const { code, stdout, stderr } = await disk.run([...command, "--data", "/mnt/new/data"]);
        assert.equal({ left, command, code, stdout }, { left, command, code: 1, stdout: "" }, stderr);
        assert.match(stderr, /^assay: [^\n]*\/mnt\/new\/data[^\n]*no space is left on the disk[^\n]*\n$/);
        assert.is(existsSync(join(disk.data, "..", "new")), false, `${command[0]} with ${left} bytes`);
      }
      disk.clear();
    }
    keyOf(await disk.run([...INIT, "--data", "/mnt/new/data"]));
  } finally {
    disk.end();
  }
});

testFullDisk("below the reserve it refuses writes with 507, serves reads, and recovers by itself", async () => {
  const disk = await mountSmallDisk(64 * MB);
  try {
    const key = keyOf(await disk.run(INIT));
    const server = await disk.serve("16MB");
    const client = createClient(server.url, key);
    await createTrail(client);
    await expectStatus(attest(client, "before"), 201);
    // An upload that would use up the reserve is refused before it starts.
    const large = await attest(client, "large", 48 * MB);
    assert.is(large.status, 507);
    assert.match(large.body.message, "has no space for 48 MB beyond its reserve of 16 MB");

    disk.fill(12 * MB);
    await server.wrote(ENTERED_READ_ONLY);
    const refused = await attest(client, "during");
    assert.is(refused.status, 507);
    // The server may have measured while the disk was being filled.
    assert.match(
      refused.body.message,
      new RegExp(
        "^The server is in read-only mode: the disk of the data directory has 1[0-5] MB free, " +
          "less than the reserve of 16 MB \\(disk-reserve\\)\\. Nothing was stored$",
      ),
    );
    assert.is(refused.headers.get("Retry-After"), "60");
    await expectEvidence(client, disk.data, new Map([["before", 20_000]]));

    disk.clear();
    await server.wrote(LEFT_READ_ONLY);
    await expectStatus(attest(client, "after"), 201);
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    expectDatabase(disk.data, ["after", "before"]);
  } finally {
    disk.end();
  }
});

testFullDisk(
  "a disk that fills up under load loses nothing acknowledged, not even on kill -9, and the server starts on it",
  async () => {
    const disk = await mountSmallDisk(48 * MB);
    try {
      const key = keyOf(await disk.run(INIT));
      let server = await disk.serve("1MB");
      let client = createClient(server.url, key);
      await createTrail(client);
      const acknowledged = new Map<string, number>();
      const statuses = new Set<number>();
      let sent = 0;
      const lane = async (): Promise<void> => {
        // Each lane stops at its third refusal.
        for (let refusals = 0; refusals < 3 && sent < 20_000; ) {
          const name = `a${(sent += 1)}`;
          const { status } = await attest(client, name, 40_000);
          statuses.add(status);
          if (status === 201) acknowledged.set(name, 40_000);
          else refusals += 1;
          if (acknowledged.size === 40) disk.fill(0);
        }
      };
      await Promise.all(Array.from({ length: 6 }, lane));
      for (const status of statuses)
        assert.ok([201, 503, 507].includes(status), `status ${status}\n${server.output().slice(-3000)}`);
      assert.ok(statuses.size > 1);
      await server.wrote(ENTERED_READ_ONLY);
      await expectEvidence(client, disk.data, acknowledged);
      disk.fill(0);
      await server.stop("SIGKILL");

      // Reads work, because SQLite reuses the index of the write-ahead log that a killed process leaves behind.
      server = await disk.serve("1MB");
      client = createClient(server.url, key);
      await expectEvidence(client, disk.data, acknowledged);
      // Sweeping the staging directory freed some space.
      disk.fill(0);
      await server.wrote(ENTERED_READ_ONLY);
      assert.is((await attest(client, "refused")).status, 507);
      disk.clear();
      await server.wrote(LEFT_READ_ONLY);
      await expectStatus(attest(client, "after"), 201);
      acknowledged.set("after", 20_000);
      await expectEvidence(client, disk.data, acknowledged);
      assert.equal(readdirSync(join(disk.data, "staging")), []);
      assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
      expectDatabase(disk.data, [...acknowledged.keys()]);
    } finally {
      disk.end();
    }
  },
);

testFullDisk("uploads whose commit has no space are 507, and their evidence files go at once", async () => {
  const disk = await mountSmallDisk(48 * MB);
  try {
    const key = keyOf(await disk.run(INIT));
    const server = await disk.serve("1MB", "--small-evidence", "0");
    const client = createClient(server.url, key);
    await createTrail(client);
    const acknowledged = new Map<string, number>();
    const upload = async (name: string): Promise<number> => {
      const { status } = await client.form(
        "POST",
        "/attestations/acme/backend/trail/release-1/generic",
        "data_json",
        { attestation_name: name, is_compliant: true, user_data: { filler: "x".repeat(300_000) } },
        { part: "attachment_file", name: `${name}.bin`, content: evidenceOf(name, 20_000) },
      );
      if (status === 201) acknowledged.set(name, 20_000);
      return status;
    };
    disk.fill(2 * MB);
    // Each of them fits, and the files of all of them, but not all the rows.
    const statuses = await Promise.all(Array.from({ length: 20 }, (_, index) => upload(`a${index}`)));
    assert.equal([...new Set(statuses.filter((status) => status !== 201))], [507], server.output().slice(-3000));
    assert.match(server.output(), /"reason":"[^"]*SQLITE_FULL/);
    assert.equal(evidenceFiles(disk.data), digestsOf(acknowledged));
    assert.equal(readdirSync(join(disk.data, "staging")), []);
    disk.clear();
    await server.wrote(LEFT_READ_ONLY);
    assert.is(await upload("after"), 201);
    await expectEvidence(client, disk.data, acknowledged);
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    assert.equal(evidenceFiles(disk.data), digestsOf(acknowledged));
    expectDatabase(disk.data, [...acknowledged.keys()]);
  } finally {
    disk.end();
  }
});

testFullDisk("a first start on a full disk fails with a clear message, and a later start succeeds", async () => {
  const disk = await mountSmallDisk(8 * MB);
  try {
    disk.fill(0);
    const refused = await disk.run(["serve", "--listen", "127.0.0.1:0"]);
    assert.is(refused.code, 1, refused.stderr);
    assert.match(
      refused.stderr,
      /^assay: cannot [^:]* \/mnt\/data[^:]*: no space is left on the disk \([^;]*; free some space/,
    );
    disk.clear();
    keyOf(await disk.run(INIT));
  } finally {
    disk.end();
  }
});

testFullDisk("on a full disk each command says what it could not write, where and why", async () => {
  const disk = await mountSmallDisk(16 * MB);
  const elsewhere = mkdtempSync(join(tmpdir(), "assay-faults-"));
  try {
    keyOf(await disk.run(INIT));
    const other = join(elsewhere, "data");
    keyOf(await run([...INIT, "--data", other]));
    assert.is((await run(["backup", join(disk.data, "../backup.tar"), "--data", other])).code, 0);
    disk.fill(0);
    const NO_SPACE = "no space is left on the disk";
    for (const [argv, expected] of [
      [["serve", "--listen", "127.0.0.1:0"], "cannot use the database /mnt/data/assay.lock"],
      [["user", "create", "ann"], "cannot use the database /mnt/data/assay.db"],
      [[...INIT, "--data", "/mnt/new"], "cannot use the database /mnt/new/assay.lock"],
      [["restore", "/mnt/backup.tar", "--data", "/mnt/restored"], "cannot write to /mnt/restored.restore-unfinished/"],
    ] as const) {
      const { code, stderr } = await disk.run(argv);
      assert.equal({ argv: argv.join(" "), code }, { argv: argv.join(" "), code: 1 }, stderr);
      assert.match(
        stderr,
        new RegExp(`^assay: ${expected}[^\n]*(${NO_SPACE}|has no space left) \\([A-Z_]+\\); free some`),
      );
      assert.is(stderr.trimEnd().split("\n").length, 1, stderr);
    }
  } finally {
    rmSync(elsewhere, { recursive: true });
    disk.end();
  }
});

fullDisk.run();

// ---- system calls that fail

const libraries = mkdtempSync(join(tmpdir(), "assay-faults-"));
const [shim, slowSync] = [join(libraries, "faults.so"), join(libraries, "slow-sync.so")];
const compiled = [shim, slowSync].every((library) => {
  const source = join(import.meta.dirname, basename(library).replace(".so", ".c"));
  return spawnSync("cc", ["-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], { env: { PATH } }).status === 0;
});
const systemCalls = suite("integration/faults: failing system calls");
const testFaults = compiled ? systemCalls : systemCalls.skip;
if (!compiled) console.log("skipped: making system calls fail needs a C compiler");
systemCalls.after(() => rmSync(libraries, { recursive: true, force: true }));

const [EIO, EACCES, ENOSPC, EROFS] = [5, 13, 28, 30];
/**
 * Each fault, and the statuses that may refuse the first write. From then on the server is in read-only mode until the
 * storage works again.
 */
const CASES: readonly { what: string; rules: string; statuses: readonly number[] }[] = [
  { what: "the write-ahead log cannot be written", rules: `write assay.db-wal ${EIO}`, statuses: [503, 507] },
  { what: "the write-ahead log has no space", rules: `write assay.db-wal ${ENOSPC}`, statuses: [507] },
  { what: "evidence cannot be written", rules: `write /staging/ ${EIO}`, statuses: [503, 507] },
  { what: "evidence has no space", rules: `write /staging/ ${ENOSPC}`, statuses: [507] },
  { what: "evidence cannot be synced", rules: `fsync /staging/ ${EIO}`, statuses: [503, 507] },
  {
    what: "evidence cannot be renamed into place",
    rules: `rename /evidence/ ${EACCES}\nwrite /evidence/trial ${EACCES}`,
    statuses: [503, 507],
  },
  { what: "the evidence directory cannot be synced", rules: `fsync /evidence/ ${EIO}`, statuses: [503, 507] },
  {
    what: "the file system became read-only",
    rules: `write /data/ ${EROFS}\nfsync /data/ ${EROFS}\nrename /data/ ${EROFS}`,
    statuses: [503, 507],
  },
];

/** A server with one trail, whose system calls fail, or are slow, as the text in the file `control` says. */
async function startFaulty(directory: string, library = shim) {
  const data = join(directory, "data");
  const control = join(directory, "control");
  writeFileSync(control, "");
  const key = keyOf(await run([...INIT, "--data", data]));
  const serve = (): Promise<Running> =>
    start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--small-evidence", "0"], {
      env: { LD_PRELOAD: library, FAULTS: control, SLOW_SYNC: control },
    });
  const server = await serve();
  const client = createClient(server.url, key);
  await createTrail(client);
  return { data, control, key, server, client, serve };
}

testFaults("each fault refuses the write and leaves nothing of it, reads still work, and the server recovers", () =>
  inDirectory(async (directory) => {
    const { data, control, server, client } = await startFaulty(directory);
    const acknowledged = new Map<string, number>();
    for (const [index, { what, rules, statuses }] of CASES.entries()) {
      writeFileSync(control, rules);
      // Too large to be buffered in memory, so that staging writes it at once.
      const refused = await attest(client, `refused-${index}`, 400_000);
      assert.ok(statuses.includes(refused.status), `${what}: ${refused.status} ${refused.bytes}`);
      assert.ok(typeof refused.body.message === "string" && !("errors" in refused.body), what);
      // After other failures of the log, the write may come back with a kill until the next commit.
      if (!rules.includes("-wal") || rules.endsWith(String(ENOSPC)))
        assert.equal(evidenceFiles(data), digestsOf(acknowledged), what);
      await server.wrote(new RegExp(`(?:entered read-only mode[^]*){${index + 1}}`));
      const second = await attest(client, `second-${index}`);
      assert.is(second.status, 507, `${what}: ${second.bytes}`);
      await expectEvidence(client, data, acknowledged);
      writeFileSync(control, "");
      await server.wrote(new RegExp(`(?:left read-only mode[^]*){${index + 1}}`));
      const name = `accepted-${index}`;
      await expectStatus(attest(client, name, 400_000), 201);
      acknowledged.set(name, 400_000);
    }
    await expectEvidence(client, data, acknowledged);
    assert.equal(readdirSync(join(data, "staging")), []);
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    assert.equal(evidenceFiles(data), digestsOf(acknowledged));
    // It logs each transition once per fault.
    for (const line of ["entered read-only mode", "left read-only mode"])
      assert.is(server.output().split(line).length - 1, CASES.length, line);
    expectDatabase(data, [...acknowledged.keys()]);
  }),
);

testFaults("a log that cannot be synced ends the server before anything is acknowledged, and a start goes on", () =>
  inDirectory(async (directory) => {
    const { data, control, key, server, client, serve } = await startFaulty(directory);
    await expectStatus(attest(client, "accepted", 400_000), 201);
    writeFileSync(control, `fsync assay.db-wal ${EIO}`);
    const refused = await attest(client, "refused").then(
      ({ status }) => status,
      () => "no answer",
    );
    assert.is(refused, "no answer");
    assert.equal(await server.exited, { code: 1, signal: null }, server.output());
    assert.match(server.output(), "the write-ahead log could not be synced to disk (EIO)");
    writeFileSync(control, "");
    const next = await serve();
    const again = createClient(next.url, key);
    await expectEvidence(again, data, new Map([["accepted", 400_000]]));
    await expectStatus(attest(again, "later", 400_000), 201);
    assert.equal(await next.stop(), { code: 0, signal: null }, next.output());
    assert.not.match(next.output(), "commits are missing");
  }),
);

testFaults("while the disk takes seconds for a sync, reads and health probes do not wait for a write", () =>
  inDirectory(async (directory) => {
    const { control, server, client } = await startFaulty(directory, slowSync);
    await expectStatus(attest(client, "accepted"), 201);
    writeFileSync(control, "3000");
    let isAnswered = false;
    const write = attest(client, "slow").finally(() => (isAnswered = true));
    let probes = 0;
    for (; !isAnswered && probes < 200; probes += 1)
      assert.is((await fetch(`${server.url}/healthz`)).status, 200, String(probes));
    assert.is(isAnswered, false, "two hundred probes were answered before the disk was");
    await expectStatus(write, 201);
    writeFileSync(control, "");
    await server.stop();
  }),
);

testFaults("while checkpoints fail, writes continue in the write-ahead log and nothing is lost", () =>
  inDirectory(async (directory) => {
    const { data, control, key, server: failing, client } = await startFaulty(directory);
    writeFileSync(control, `write /assay.db$ ${EIO}\nfsync /assay.db$ ${EIO}`);
    const names = Array.from({ length: 700 }, (_, index) => `n${index}`);
    // More than enough for several checkpoints; ten at a time, as from pipelines.
    for (let from = 0; from < names.length; from += 10) {
      await Promise.all(
        names.slice(from, from + 10).map((name) =>
          expectStatus(
            client.form("POST", "/attestations/acme/backend/trail/release-1/generic", "data_json", {
              attestation_name: name,
              is_compliant: true,
              user_data: { filler: "x".repeat(2_000) },
            }),
            201,
          ),
        ),
      );
    }
    assert.ok(statSync(join(data, "assay.db-wal")).size > 1_000_000);
    // Stopping loses nothing either, although its checkpoint fails.
    assert.equal(await failing.stop(), { code: 0, signal: null }, failing.output().slice(-3_000));
    assert.match(failing.output(), /SQLITE_IOERR/);
    const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    assert.is(
      (
        await expectStatus(
          createClient(server.url, key).json("GET", "/attestations/acme/backend/trail/release-1/n699"),
          200,
        )
      ).length,
      1,
    );
    await server.stop();
    expectDatabase(data, names);
  }),
);

testFaults("an unreadable file gives 503 or a truncated download, and is served once it is readable again", () =>
  inDirectory(async (directory) => {
    const { data, control, key, serve, ...first } = await startFaulty(directory);
    await expectStatus(attest(first.client, "readable"), 201);
    await first.server.stop();
    // A new process has not cached any of the database yet.
    const server = await serve();
    const client = createClient(server.url, key);
    writeFileSync(control, `read assay.db ${EIO}`);
    const answer = await client.json("GET", "/trails/acme/backend/release-1");
    assert.is(answer.status, 503, String(answer.bytes));
    assert.match(answer.body.message, "The server's storage failed (SQLITE_CORRUPT)");
    writeFileSync(control, "");
    await expectStatus(client.json("GET", "/trails/acme/backend/release-1"), 200);
    const [row] = await expectStatus(client.json("GET", "/attestations/acme/backend/trail/release-1/readable"), 200);
    const path = `/attestations/acme/backend/trail/release-1/attestation/${row.attestation_id}/evidence`;
    writeFileSync(control, `read /evidence/ ${EIO}`);
    const unread = await client.json("GET", path).catch((error: unknown) => error);
    assert.ok(unread instanceof Error || (unread as { status: number }).status === 503, JSON.stringify(unread));
    writeFileSync(control, "");
    assert.ok((await client.json("GET", path)).bytes.equals(evidenceOf("readable", 20_000)));
    await server.stop();
  }),
);

testFaults(
  "/ready and /readyz answer 503 with the reason while the database cannot be read, even if all of it is cached",
  () =>
    inDirectory(async (directory) => {
      const { control, server, client } = await startFaulty(directory);
      await expectStatus(attest(client, "readable"), 201);
      const probe = async (path: string): Promise<{ status: number; text: string }> => {
        const response = await fetch(`${server.url}${path}`);
        return { status: response.status, text: await response.text() };
      };
      /** Polls /ready until it has this status, and returns its text: the server checks the disk once a second. */
      const waitForStatus = async (status: number): Promise<string> => {
        const answer = await until(`/ready answered ${status}`, async () => {
          const got = await probe("/ready");
          return got.status === status && got;
        });
        return answer.text;
      };
      assert.equal(await probe("/ready"), { status: 200, text: "OK" });
      for (const file of ["/assay.db$", "/assay.db-wal"]) {
        writeFileSync(control, `read ${file} ${EIO}`);
        const reason = "Storage failure: the database cannot be read (EIO)";
        assert.is(await waitForStatus(503), reason, file);
        const { status, text } = await probe("/readyz");
        const { state, reason: shownReason } = JSON.parse(text);
        assert.equal({ status, state, shownReason }, { status: 503, state: "unavailable", shownReason: reason });
        assert.equal(await probe("/healthz"), { status: 200, text: "OK" });
        writeFileSync(control, "");
        assert.is(await waitForStatus(200), "OK");
      }
      writeFileSync(control, `write assay.db-wal ${EIO}`);
      assert.ok([503, 507].includes((await attest(client, "refused")).status));
      const { status, text } = await probe("/readyz");
      assert.equal({ status, state: JSON.parse(text).state }, { status: 200, state: "read-only" });
      assert.match(
        JSON.parse(text).reason,
        new RegExp(
          "^The server is in read-only mode: (the last write|a test write) failed \\(\\w*IO\\w*\\); " +
            "(a test write follows|it is retried) in a few seconds$",
        ),
      );
      writeFileSync(control, "");
      await server.stop();
    }),
);

testFaults("creates a data directory only if every parent directory that gained an entry can be synced", () =>
  inDirectory(async (root) => {
    const control = join(root, "control");
    const env = { LD_PRELOAD: shim, FAULTS: control };
    const above = join(root, "above");
    const data = join(above, "inner", "data");
    const failAt = (directory: string): void => writeFileSync(control, `fsync ${directory}$ ${EIO}`);
    const commands: readonly (readonly string[])[] = [
      [...INIT, "--data", data],
      ["serve", "--data", data, "--listen", "127.0.0.1:0"],
      ["dev", "--data", data, "--listen", "127.0.0.1:0"],
    ];
    for (const command of commands) {
      for (const directory of [root, above, join(above, "inner"), data]) {
        rmSync(above, { recursive: true, force: true });
        failAt(directory);
        const { code, stderr } = await run(command, { env });
        assert.is(code, 1, `${command[0]} when ${directory} cannot be synced`);
        assert.match(stderr, /EIO/);
      }
    }
    // The process that created the directories may have died before it synced them, so the next one syncs them too.
    for (const unsynced of [data, join(above, "inner")]) {
      rmSync(above, { recursive: true, force: true });
      mkdirSync(data, { recursive: true });
      failAt(unsynced);
      const { code } = await run([...INIT, "--data", data], { env });
      assert.is(code, 1, `init when ${unsynced} cannot be synced`);
    }
    rmSync(above, { recursive: true, force: true });
    writeFileSync(control, "");
    keyOf(await run([...INIT, "--data", data], { env }));

    const backup = join(root, "backup.tar");
    assert.is((await run(["backup", backup, "--data", data])).code, 0);
    for (const target of [join(above, "restored"), join(above, "empty")]) {
      if (target.endsWith("empty")) mkdirSync(target);
      failAt(above);
      const { code, stderr } = await run(["restore", backup, "--data", target], { env });
      assert.is(code, 1, `restore into ${target} when its parent cannot be synced`);
      assert.match(stderr, /EIO/);
    }
  }),
);

systemCalls.run();
