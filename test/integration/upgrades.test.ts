// The packaged executable migrates the databases of all released schemas, verifies them, reports damage, checks the
// installation, and leaves a database of a later schema unchanged.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { schemaVersion } from "../../src/store/db/database.ts";
import { age, BASE_URL, fixtureVersions, lost, MOVES, place } from "../upgrades/fixture.ts";
import { createClient } from "../binary/client.ts";
import { EXECUTABLE, inDirectory, run, start } from "../binary/executable.ts";

const test = suite("integration/upgrades");

test("migrates every released schema, which gives the same responses as before and passes verify", () =>
  inDirectory(async (home) => {
    for (const version of fixtureVersions()) {
      const data = join(home, `schema-${version}`);
      const { key, answers } = place(version, data);
      const isOld = version < schemaVersion();
      const early = await run(["verify", "--data", data]);
      assert.is(early.code, isOld ? 1 : 0, early.stderr);
      if (isOld)
        assert.match(early.stderr, new RegExp(`has schema version ${version}, but this program needs version \\d+`));
      const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--base-url", BASE_URL]);
      const client = createClient(server.url, key);
      const problems: string[] = [];
      for (const [path, answer] of Object.entries(answers)) {
        const { status, body, bytes } = await client.json("GET", path);
        problems.push(...(status === 200 ? lost(answer, body ?? bytes.toString(), path) : [`${path}: ${status}`]));
      }
      assert.equal(
        problems.filter((problem) => !MOVES.test(problem)),
        [],
      );
      const beside = await run(["verify", "--data", data, "--quick"]);
      assert.is(beside.code, 0, beside.stdout + beside.stderr);
      const doctor = JSON.parse((await run(["doctor", "--data", data, "--listen", "127.0.0.1:0", "--json"])).stdout);
      const named = (name: string) => doctor.checks.find(({ check }: { check: string }) => check === name);
      assert.match(named("server").found, new RegExp(`^runs as process ${server.pid} of user \\d+$`));
      assert.is(named("native library").level, "ok");
      assert.is(named("permissions").level, "ok");
      await server.stop();
      const verified = await run(["verify", "--data", data]);
      assert.is(verified.code, 0, verified.stdout + verified.stderr);
      const copies = existsSync(join(data, "backups")) ? readdirSync(join(data, "backups")) : [];
      if (isOld) assert.match(copies.join(), new RegExp(`^assay-schema-${version}-before-\\d+-\\d{8}T\\d{6}Z\\.db$`));
      else assert.equal(copies, []);
    }
  }));

test("damage gives exit code 5; a later schema gives exit code 3, and no byte of it changes", () =>
  inDirectory(async (home) => {
    const data = join(home, "data");
    place(3, data);
    mkdirSync(join(data, "staging"));
    assert.is((await run(["member", "list", "--org", "acme", "--data", data])).code, 0);
    const [shard = ""] = readdirSync(join(data, "evidence"));
    const [name = ""] = readdirSync(join(data, "evidence", shard));
    const file = join(data, "evidence", shard, name);
    const content = readFileSync(file);
    rmSync(file);
    writeFileSync(file, Buffer.from(content).fill(0, 0, 1));
    const damaged = await run(["verify", "--data", data, "--json"]);
    assert.is(damaged.code, 5, damaged.stderr);
    const { damage, checks } = JSON.parse(damaged.stdout);
    assert.equal(
      { damage, checks: checks.filter(({ ok }: { ok: boolean }) => !ok).map(({ check }: { check: string }) => check) },
      { damage: 1, checks: ["evidence"] },
    );
    assert.is(checks[8].findings[0].about, `evidence ${shard}${name}`);

    age(data, 99);
    const before = readFileSync(join(data, "assay.db"));
    for (const command of [
      ["serve", "--listen", "127.0.0.1:0"],
      ["verify"],
      ["member", "list", "--org", "acme"],
      ["explain", "production"],
      ["doctor", "--listen", "127.0.0.1:0"],
    ]) {
      const { code, stdout, stderr } = await run([...command, "--data", data]);
      assert.is(code, 3, stdout + stderr);
      assert.match(stdout + stderr, /schema (version )?99, (but|and) this program knows versions up to \d+/);
      assert.ok(readFileSync(join(data, "assay.db")).equals(before), command.join(" "));
    }
  }));

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
const canMount = spawnSync("unshare", ["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], { env: { PATH } }).status === 0;
if (!canMount) console.log("skipped: this process may not create a mount namespace (unshare -m)");

(canMount ? test : test.skip)("verify and doctor work on a read-only copy", () =>
  inDirectory(async (home) => {
    const data = join(home, "data");
    place(3, data);
    mkdirSync(join(data, "staging"));
    assert.is((await run(["member", "list", "--org", "acme", "--data", data])).code, 0);
    const script =
      'exec 9<"$1" && mount --bind "$2" /mnt && mount -o remount,bind,ro /mnt && shift 2 && exec /proc/self/fd/9 "$@"';
    const runReadOnly = (...words: string[]) =>
      run(["-m", "sh", "-c", script, "sh", EXECUTABLE, data, ...words, "--data", "/mnt"], {
        executable: "/usr/bin/unshare",
        env: { PATH },
      });
    const verified = await runReadOnly("verify");
    assert.is(verified.code, 0, verified.stdout + verified.stderr);
    const doctor = await runReadOnly("doctor", "--listen", "127.0.0.1:0");
    assert.is(doctor.code, 1);
    assert.match(doctor.stdout, /FAIL {2}file system +\S+ at \/mnt from \S+ is mounted read-only\n/);
    assert.match(doctor.stdout, /ok {4}database +schema /);
  }),
);

test.run();
