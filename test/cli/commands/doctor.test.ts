/** `assay doctor` on installations with one fault each, none of which it may change. */
import { generateKeyPairSync } from "node:crypto";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import Database from "better-sqlite3";
import { resolveConfig } from "../../../src/config/resolve.ts";
import { checkCertificate } from "../../../src/diagnostics/doctor/certificate.ts";
import { realMachine as real } from "../../../src/diagnostics/doctor/check.ts";
import type { Check, Machine } from "../../../src/diagnostics/doctor/check.ts";
import { diagnose } from "../../../src/diagnostics/doctor/doctor.ts";
import { checkSocket, findLockHolder } from "../../../src/diagnostics/doctor/process.ts";
import { findSocketDenial } from "../../../src/diagnostics/doctor/rights.ts";
import { loadAddon } from "../../../src/store/db/native-addon.ts";
import { lockDirectory } from "../../../src/store/db/data-directory-lock.ts";
import { CERTIFICATE, KEY } from "../../notifications/certificates.ts";
import { age, place } from "../../upgrades/fixture.ts";
import { cli, inDirectory, joinPatterns, start } from "../in-process.ts";

const test = suite("cli/commands/doctor");

const GB = 1024 ** 3;
/** A time after everything in the fixture. */
const NOW = Date.UTC(2030, 0, 1) / 1000;
const MOUNTED = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";
/** A healthy machine, independent of the one that runs the tests. */
const healthy: Machine = {
  ...real,
  now: () => NOW,
  fileSystemSpace: () => ({ type: 0xef53, size: 100 * GB, free: 50 * GB, files: 1e6, freeFiles: 9e5 }),
  readText: (path) =>
    ({
      "/proc/self/mountinfo": MOUNTED,
      "/proc/meminfo": "MemTotal:       8000000 kB\nMemAvailable:   4000000 kB\n",
      "/proc/self/limits": "Max open files            1048576              1048576              files\n",
      "/sys/fs/cgroup/memory.max": "max\n",
      "/run/systemd/timesync/synchronized": "",
    })[path] ?? null,
  unitText: () => null,
};

/** Calls `body` with an intact data directory with the right permissions; `data` of an organization. */
const installed = (body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (home) => {
    const data = join(home, "data");
    place(3, data);
    mkdirSync(join(data, "staging"));
    assert.is((await cli(["member", "list", "--org", "acme", "--data", data])).code, 0);
    chmodSync(data, 0o700);
    await body(data);
  });

async function checksOf(
  data: string,
  machine: Machine = healthy,
  flags: Record<string, string> = {},
): Promise<Record<string, Check>> {
  const resolution = resolveConfig({
    flags: { listen: "127.0.0.1:0", data, ...flags },
    env: {},
    fileText: null,
    fileName: null,
  });
  if (resolution.problems !== null) throw new Error(resolution.problems.join());
  const { checks } = await diagnose({
    directory: data,
    config: resolution.config,
    files: [],
    become() {
      throw new Error("the process of the tests stays what it is");
    },
    certificate: () => null,
    evidence: async () => ({ name: "evidence store", level: "ok", found: "here", todo: null }),
    machine,
  });
  return Object.fromEntries(checks.map((check) => [check.name, check]));
}
const describeCheck = (check: Check | undefined): string => `${check?.level}: ${check?.found}`;

function change(data: string, ...statements: string[]): void {
  const db = new Database(join(data, "assay.db"), { nativeBinding: loadAddon() as unknown as string });
  for (const sql of statements) assert.ok(db.prepare(sql).run().changes > 0, sql);
  db.close();
}

/** Returns everything about a directory that a command could have changed. */
const state = (data: string): string[] =>
  [".", ...(readdirSync(data, { recursive: true }) as string[]).sort()].map((path) => {
    const { size, mtimeMs, ctimeMs, mode, ino } = statSync(join(data, path));
    return `${path} ${size} ${mtimeMs} ${ctimeMs} ${mode} ${ino}`;
  });

test("prints a line for each check of a healthy installation, exits with 0 and changes nothing", () =>
  installed(async (data) => {
    writeFileSync(join(data, "backups", "assay-backup-20260101T000000Z.tar"), "backup");
    const before = state(data);
    const checks = await checksOf(data);
    assert.equal(
      Object.values(checks).filter(({ level }) => level !== "ok"),
      [],
    );
    assert.equal(Object.keys(checks), [
      "data directory",
      "file system",
      "disk space",
      "native library",
      "server user",
      "permissions",
      "server",
      "database",
      "write-ahead log",
      "free pages",
      "schema",
      "commits",
      "deliveries",
      "jobs",
      "clients",
      "clock",
      "backup",
      "copies before upgrades",
      "evidence store",
      "open files",
      "memory",
      "address",
    ]);
    assert.match(describeCheck(checks["database"]), /^ok: schema \d+, [\d.]+ [KM]B$/);
    assert.is(describeCheck(checks["server"]), "ok: does not run");
    assert.match(describeCheck(checks["clock"]), /synchronized by systemd-timesyncd$/);
    assert.match(describeCheck(checks["copies before upgrades"]), /^ok: 1 in backups\//);
    assert.is(describeCheck(checks["disk space"]), "ok: 50.0 GB free of 100 GB");

    const { code, out, err } = await cli(["doctor", "--data", data, "--listen", "127.0.0.1:0"]);
    assert.equal({ code, err }, { code: 0, err: "" }, out);
    assert.match(out, /^ok {4}data directory +\//);
    assert.match(out, /(All 22 checks passed|22 checks: 0 failed, \d with a warning)\.\n$/);
    const json = JSON.parse((await cli(["doctor", "--data", data, "--listen", "127.0.0.1:0", "--json"])).out);
    assert.equal(
      { data: json.data, failures: json.failures, "checks.length": json.checks.length },
      { data, failures: 0, "checks.length": 22 },
    );
    assert.equal(json.checks[0], { check: "data directory", level: "ok", found: data, todo: null });
    assert.equal(state(data), before);
  }));

test("names what newer releases of the CLI sent lately, and does not warn of other clients", () =>
  installed(async (data) => {
    const clients = async () => describeCheck((await checksOf(data))["clients"]);
    assert.is(await clients(), "ok: sent nothing unknown in the last 30 days");
    const add = (client: string, kind: string, operation: string, name: string, last: number, count = 1) =>
      change(
        data,
        `INSERT INTO unknown_inputs (client, kind, operation, name, count, first_at, last_at)
         VALUES ('${client}', '${kind}', '${operation}', '${name}', ${count}, 0, ${last})`,
      );
    add("other", "key", "create_artifact", "colour", NOW - 10);
    add("Kosli/v2.60.1", "key", "create_trail", "old", NOW - 31 * 86_400);
    assert.is(await clients(), "ok: other sent the unknown key 'colour' to create_artifact (1 time)");
    add("Kosli/v2.60.1", "key", "create_trail", "stage", NOW - 5, 7);
    add("Kosli/v2.60.1", "route", "PUT /seals/*/*", "", NOW - 5);
    add("Kosli/v2.61.0", "attestation_kind", "POST /attestations/*/*/trail/*/*", "provenance", NOW - 5, 2);
    assert.is(
      await clients(),
      "warn: Kosli/v2.61.0 asked for the attestation kind 'provenance' (2 times); " +
        "Kosli/v2.60.1 sent the unknown key 'stage' to create_trail (7 times); " +
        "Kosli/v2.60.1 asked for PUT /seals/*/* (1 time); and 1 more",
    );
  }));

test("says how much evidence the database holds", () =>
  installed(async (data) => {
    change(
      data,
      "INSERT INTO small_evidence (digest, content) SELECT evidence_digest, x'00' FROM attestations " +
        "WHERE evidence_digest IS NOT NULL LIMIT 1",
    );
    const { out } = await cli(["doctor", "--data", data, "--listen", "127.0.0.1:0"]);
    assert.match(out, /ok +evidence store +.*\/evidence; 1 MB of small files are in the database\n/);
  }));

test("names the process of a running server and creates nothing", () =>
  installed(async (data) => {
    const server = start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"]);
    await server.wrote(/listening on/);
    try {
      const names = readdirSync(data).sort();
      const { server: found, address, database } = await checksOf(data, real);
      assert.match(describeCheck(found), /^ok: runs/);
      assert.match(describeCheck(address), /; the server runs$/);
      assert.is(database?.level, "ok");
      assert.equal(readdirSync(data).sort(), names);
    } finally {
      await server.stop();
    }
    const lock = lockDirectory(data);
    const inode = statSync(join(data, "assay.lock")).ino;
    const locks =
      `1: POSIX  ADVISORY  READ 11 fe:00:${inode} 1 2\n` +
      `2: POSIX  ADVISORY  WRITE 4711 fe:00:${inode} 1073741824 1073742335\n` +
      "3: FLOCK  ADVISORY  WRITE 12 fe:00:9 0 EOF\n";
    const text = (path: string): string | null =>
      path === "/proc/locks"
        ? locks
        : path === "/proc/4711/status"
          ? "Name:\tassay\nUid:\t998\t998\t998\t998\n"
          : healthy.readText(path);
    assert.equal(findLockHolder(join(data, "assay.lock"), { readText: text }), { pid: 4711, uid: 998 });
    assert.is(
      describeCheck((await checksOf(data, { ...healthy, readText: text }))["server"]),
      "ok: runs as process 4711 of user 998",
    );
    assert.is(
      describeCheck(
        (
          await checksOf(data, {
            ...healthy,
            readText: (path) => (path === "/proc/4711/limits" ? "Max open files 1024 1024 files" : text(path)),
          })
        )["open files"],
      ),
      "warn: at most 1024 at a time",
    );
    lock.release();
  }));

test("reports a missing directory, an empty one, and a file", () =>
  inDirectory(async (home) => {
    const none = await cli(["doctor", "--data", join(home, "none"), "--listen", "127.0.0.1:0"]);
    assert.is(none.code, 1);
    assert.match(none.out, /^FAIL {2}data directory +there is no .*\/none\n +-> correct --data; /);
    assert.match((await checksOf(home))["data directory"]?.found ?? "", /holds no assay\.db$/);
    writeFileSync(join(home, "file"), "");
    assert.match(
      describeCheck((await checksOf(join(home, "file")))["data directory"]),
      /^fail: .* is not a directory$/,
    );
    assert.is((await cli(["doctor"])).code, 2);
    assert.is(
      (await cli(["doctor", "--data", home, "--tls-cert", "c.pem"])).code,
      2,
      "the whole configuration is judged",
    );
    assert.equal(readdirSync(home), ["file"]);
  }));

test("reports lax permissions and files of another owner", () =>
  installed(async (data) => {
    chmodSync(data, 0o755);
    assert.match(
      describeCheck((await checksOf(data))["permissions"]),
      /^fail: .* has mode 0755: every user of this machine can read it$/,
    );
    chmodSync(data, 0o750);
    assert.match(
      describeCheck((await checksOf(data))["permissions"]),
      /^warn: .* has mode 0750: its group can read it$/,
    );
    chmodSync(data, 0o700);
    const owner = statSync(data).uid;
    const other = await checksOf(data, { ...healthy, uid: owner + 1 });
    assert.equal(other["server user"], {
      name: "server user",
      level: "warn",
      found: `${owner}, the owner of the data directory, and this is user ${owner + 1}: permissions are not checked`,
      todo: `run this command as root or as user ${owner}`,
    });
    assert.is(other["permissions"], undefined);
  }));

test("compares free space with the reserve, and files with inodes", () =>
  installed(async (data) => {
    const space = (free: number, freeFiles = 9e5): Machine => ({
      ...healthy,
      fileSystemSpace: () => ({ type: 0xef53, size: 100 * GB, free, files: 1e6, freeFiles }),
    });
    const MB = 1024 ** 2;
    assert.match(
      describeCheck((await checksOf(data, space(200 * MB)))["disk space"]),
      /^fail: 200 MB free of 100 GB: below the 256 MB of --disk-reserve, the server is read-only$/,
    );
    assert.match(
      describeCheck((await checksOf(data, space(900 * MB)))["disk space"]),
      /^warn: 900 MB free of 100 GB; below 256 MB the server becomes read-only$/,
    );
    assert.match(
      describeCheck((await checksOf(data, space(50 * GB, 5)))["disk space"]),
      /^fail: .* room for 5 more files$/,
    );
    assert.match(
      describeCheck((await checksOf(data, space(200 * MB), { "disk-reserve": "10MB" }))["disk space"]),
      /^ok: /,
    );
    assert.match(
      describeCheck((await checksOf(data, space(10_000)))["backup"]),
      /^warn: none in .*; one more needs up to [\d.]+ [KM]B, and 9\.8 KB are free$/,
    );
    assert.is(
      describeCheck((await checksOf(data, { ...healthy, fileSystemSpace: () => null }))["disk space"]),
      "warn: cannot be determined",
    );
  }));

test("compares the age of backups in their directory with the schedule", () =>
  installed(async (data) => {
    const elsewhere = join(data, "..", "elsewhere");
    mkdirSync(elsewhere);
    const file = join(elsewhere, "assay-backup-20260101T000000Z.tar");
    writeFileSync(file, "x".repeat(2048));
    const hours = (count: number): void => utimesSync(file, NOW - count * 3600, NOW - count * 3600);
    const flags = { "backup-directory": elsewhere, "backup-every": "24h" };
    hours(3);
    assert.is(
      describeCheck((await checksOf(data, healthy, flags))["backup"]),
      `ok: the latest of 1 in ${elsewhere} is 3 hours old, 2.0 KB`,
    );
    hours(72);
    assert.match(
      describeCheck((await checksOf(data, healthy, flags))["backup"]),
      /^fail: the latest of 1 in .* is 3 days old, 2\.0 KB, although one is due every 24 hours$/,
    );
    unlinkSync(file);
    assert.match(describeCheck((await checksOf(data, healthy, flags))["backup"]), /^warn: none in /);
  }));

test("compares the clock with rows, files and the last known time", () =>
  installed(async (data) => {
    const at = NOW;
    assert.match(
      describeCheck((await checksOf(data, { ...healthy, now: () => 1_700_000_000 }))["clock"]),
      joinPatterns(
        /^fail: it is 2023-11-14T22:13:20\.000Z, and the latest change in the database is \d+ days in the future: the/,
        / clock was set back$/,
      ),
    );
    utimesSync(join(data, "assay.db"), at + 7260, at + 7260);
    assert.match(
      describeCheck((await checksOf(data, healthy))["clock"]),
      /^warn: .* assay\.db was written 2 hours in the future/,
    );
    utimesSync(join(data, "assay.db"), at, at);
    change(data, "UPDATE audit_log SET timestamp = timestamp + 1000 WHERE id = 10");
    utimesSync(join(data, "assay.db"), at, at);
    assert.match(
      describeCheck((await checksOf(data, { ...healthy, now: () => at + 5000 }))["clock"]),
      /^warn: .*; the latest changes contain steps back in time of up to 1\d minutes$/,
    );
  }));

test("changes made under a clock that ran ahead are a failure while it does, and a warning afterwards", () =>
  installed(async (data) => {
    const [day, ahead] = [86_400, NOW + 730 * 86_400];
    change(
      data,
      `INSERT OR REPLACE INTO clock (id, good_at, jump_from, jump_to, is_open) VALUES (1, ${NOW}, ${NOW}, ${ahead}, 1)`,
    );
    change(data, `UPDATE audit_log SET timestamp = ${ahead} WHERE id = (SELECT max(id) FROM audit_log)`);
    utimesSync(join(data, "assay.db"), NOW, NOW);
    const checked = async (now: number) =>
      describeCheck((await checksOf(data, { ...healthy, now: () => now }))["clock"]);
    assert.match(
      await checked(ahead + 60),
      /^fail: it is \S+, 730 days past the last known good time, and changes were recorded under this clock$/,
    );
    assert.match(
      await checked(NOW + day / 2),
      joinPatterns(
        /^warn: it is \S+, and the latest change in the database is 730 days in the future:/,
        / it was recorded under a clock that ran ahead$/,
      ),
    );
    change(data, "UPDATE clock SET is_open = 0");
    utimesSync(join(data, "assay.db"), NOW, NOW);
    assert.match(await checked(NOW + day / 2), /^warn: .*: it was recorded under a clock that ran ahead$/);
    change(data, "UPDATE clock SET jump_from = NULL, jump_to = NULL");
    utimesSync(join(data, "assay.db"), NOW, NOW);
    assert.match(await checked(NOW + day / 2), /^fail: .*: the clock was set back$/);
  }));

test("warns of dead letters and of jobs that wait too long, with a remedy", () =>
  installed(async (data) => {
    change(data, "UPDATE deliveries SET state = 'dead', finished_at = 1", "UPDATE jobs SET due_at = 1000");
    const { deliveries, jobs } = await checksOf(data);
    assert.match(describeCheck(deliveries), /^warn: 0 waiting, \d+ dead/);
    assert.match(deliveries?.todo ?? "", /^assay deliveries list /);
    assert.match(describeCheck(jobs), /^warn: 1 waiting, the oldest is overdue by \d+ days$/);
    assert.is(jobs?.todo, "the server runs them once it is started");
  }));

test("checks the database: older and newer schema, foreign file, empty file, log left by a crash", async () => {
  await installed(async (data) => {
    const pages = statSync(join(data, "assay.db")).size / 4096;
    truncateSync(join(data, "assay.db"), (pages - 1) * 4096);
    assert.match(describeCheck((await checksOf(data))["database"]), /^fail: .* was cut: it has \d+ bytes of \d+$/);
    truncateSync(join(data, "assay.db"), 0);
    const lost = (await checksOf(data))["data directory"];
    assert.match(
      describeCheck(lost),
      /^fail: \/.* holds evidence and backups, but no database: assay\.db is missing or empty$/,
    );
    assert.is(lost?.todo, "move assay.db back or restore a backup: see assay help database-files");
    for (const name of ["evidence", "backups"]) rmSync(join(data, name), { recursive: true });
    assert.match(describeCheck((await checksOf(data))["database"]), /^warn: is empty/);
    writeFileSync(join(data, "assay.db"), "x".repeat(8192));
    assert.match(describeCheck((await checksOf(data))["database"]), /^fail: .* it is not an SQLite database$/);
  });
  await installed(async (data) => {
    age(data, 99);
    const before = state(data);
    const { code, out } = await cli(["doctor", "--data", data, "--listen", "127.0.0.1:0"]);
    assert.is(code, 3);
    assert.match(
      out,
      joinPatterns(
        /FAIL {2}database +schema 99, but this program knows versions up to \d+\n +-> start the program that wrote/,
        / it, or restore the copy from before the upgrade: see assay help upgrade\n/,
      ),
    );
    assert.equal(state(data), before);
  });
  await inDirectory(async (home) => {
    place(2, join(home, "old"));
    assert.match(describeCheck((await checksOf(join(home, "old")))["database"]), /^warn: schema 2 of \d+, /);
    const full: Machine = {
      ...healthy,
      fileSystemSpace: () => ({ type: 0xef53, size: GB, free: 1000, files: 0, freeFiles: 0 }),
    };
    assert.match(
      describeCheck((await checksOf(join(home, "old"), full))["database"]),
      /^fail: schema 2 of \d+; the next start copies it first, which takes \d+ KB, and 1000 bytes are free$/,
    );
  });
  await installed(async (data) => {
    writeFileSync(join(data, "assay.db-wal"), "left by a crash");
    const before = state(data);
    const checks = await checksOf(data);
    assert.match(describeCheck(checks["write-ahead log"]), /^warn: 15 bytes, and no server runs/);
    assert.match(describeCheck(checks["contents"]), /^warn: not checked/);
    assert.equal(state(data), before);
    truncateSync(join(data, "assay.db-wal"), 300 * 1024 ** 2);
    assert.match(describeCheck((await checksOf(data))["write-ahead log"]), /^warn: 300 MB$/);
    assert.match(
      (await checksOf(data, healthy, { checkpoints: "external" }))["write-ahead log"]?.found ?? "",
      /--checkpoints external leaves checkpoints to another process/,
    );
  });
});

test("checks memory, limits and the listen address", () =>
  installed(async (data) => {
    const text = (path: string, value: string): Machine => ({
      ...healthy,
      readText: (asked) => (asked === path ? value : healthy.readText(asked)),
    });
    assert.match(
      describeCheck((await checksOf(data, text("/sys/fs/cgroup/memory.max", "268435456\n")))["memory"]),
      /^warn: 256 MB for this container or service/,
    );
    assert.match(
      describeCheck(
        (await checksOf(data, text("/proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 50000 kB\n")))["memory"],
      ),
      /^warn: /,
    );
    assert.match(
      describeCheck(
        (await checksOf(data, text("/proc/self/limits", "Max open files  1024  4096  files\n")))["open files"],
      ),
      /^warn: at most 1024/,
    );
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as AddressInfo;
    assert.is(
      describeCheck((await checksOf(data, healthy, { listen: `127.0.0.1:${port}` }))["address"]),
      `fail: 127.0.0.1:${port} is used by another process`,
    );
    await new Promise((resolve) => taken.close(resolve));
    assert.match(
      describeCheck((await checksOf(data, healthy, { listen: "192.0.2.1:80" }))["address"]),
      /^fail: 192\.0\.2\.1:80 is not an address of this machine$/,
    );
  }));

test("checks a Unix socket: free, stale, not a socket, missing directory", () =>
  inDirectory(async (home) => {
    const at = async (path: string): Promise<string> =>
      describeCheck(checkSocket(join(home, path), null, findSocketDenial(join(home, path), null, null)));
    assert.match(await at("s"), /^ok: unix:.*\/s can be created$/);
    writeFileSync(join(home, "file"), "");
    assert.match(await at("file"), /^fail: unix:.*\/file is a file and not a socket$/);
    assert.match(
      await at("no/s"),
      /^fail: the server's user cannot create a socket in .*\/no: it, or a directory .* not exist \(ENOENT\)$/,
    );
  }));

test("checks the expiry, the key and the absence of the certificate", () =>
  installed(async (data) => {
    const [certificate = "", key = "", other = ""] = ["cert.pem", "key.pem", "other.pem"].map((name) =>
      join(data, "..", name),
    );
    writeFileSync(certificate, CERTIFICATE);
    writeFileSync(key, KEY);
    writeFileSync(
      other,
      generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "pem", type: "pkcs8" }),
    );
    const { out } = await cli([
      "doctor",
      "--data",
      data,
      "--listen",
      "127.0.0.1:0",
      "--tls-cert",
      certificate,
      "--tls-key",
      key,
      "--json",
    ]);
    assert.equal(JSON.parse(out).checks.at(-1), {
      check: "certificate",
      level: "ok",
      found: "is valid until 2120-01-01",
      todo: null,
    });
    const at = (day: string, files = { certificate, key }): string =>
      describeCheck(checkCertificate(files, Date.parse(day) / 1000));
    assert.match(at("2119-12-20"), /^warn: the certificate in .*cert\.pem expires on 2120-01-01, in 12 days$/);
    assert.match(
      at("2120-01-01"),
      /^fail: the certificate in .*cert\.pem expired on 2120-01-01: clients will refuse it$/,
    );
    assert.match(
      at("2019-12-31"),
      /^fail: the certificate in .*cert\.pem is not valid before 2020-01-01: clients will refuse it$/,
    );
    assert.match(
      at("2026-01-01", { certificate, key: other }),
      /^fail: the key in .*other\.pem does not belong to the certificate in .*cert\.pem$/,
    );
    rmSync(certificate);
    assert.match(
      at("2026-01-01"),
      /^fail: cannot open .*cert\.pem: it, or a directory above it, does not exist \(ENOENT\); check the path$/,
    );
  }));

test.run();
