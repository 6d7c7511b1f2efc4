import { hash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { migrations, schemaVersion } from "../../../src/store/db/database.ts";
import { place } from "../../upgrades/fixture.ts";
import { readBuildInfo } from "../../../src/assets.ts";
import type { Store } from "../../../src/store/index.ts";
import { lockDirectory } from "../../../src/store/db/data-directory-lock.ts";
import { until } from "../../patience.ts";
import { cli, inDirectory, look, start } from "../in-process.ts";
import type { Started } from "../in-process.ts";

const test = suite("cli/commands/serve");

const LISTEN = ["--listen", "127.0.0.1:0"];

const urlOf = async (server: Started): Promise<string> =>
  /listening on (\S+)/.exec(await server.wrote(/API reference/))?.[1] ?? "";

async function get(url: string, key: string | null = null): Promise<{ status: number; text: string }> {
  const response = await fetch(url, { headers: key === null ? {} : { Authorization: `Bearer ${key}` } });
  return { status: response.status, text: await response.text() };
}

test("prints its addresses to stdout, logs to stderr, and leaves nothing behind", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "deep", "data");
    const server = start(["serve", "--data", data, ...LISTEN]);
    const url = await urlOf(server);
    const token = join(data, "setup-token");
    assert.is(
      server.out(),
      `listening on ${url}\nAPI reference: ${url}/api/v2/doc/\n` +
        `there are no accounts yet: create the first administrator at ${url}/setup with this one-time token, which ` +
        `is also in ${token}\n${readFileSync(token, "utf8")}`,
    );
    assert.equal(await get(`${url}/ready`), { status: 200, text: "OK" });
    // The base URL is derived from the bound port.
    assert.equal(JSON.parse((await get(`${url}/api/v2/openapi.json`)).text).servers, [{ url: `${url}/api/v2` }]);
    const { code, out, err } = await server.stop();
    assert.is(code, 0, err);
    assert.is(out, server.out());
    const lines = err
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.equal(
      lines.map(({ level, msg }) => `${level} ${msg}`).sort(),
      ["info request", "info started", "info stopping"],
      "probes are not logged",
    );
    await fetch(`${url}/ready`).then(
      () => assert.unreachable("it still listens"),
      () => undefined,
    );

    assert.equal(
      readdirSync(data).sort(),
      ["assay.commits", "assay.db", "assay.lock", "evidence", "evidence.lock", "setup-token", "staging"],
      "no journal, no WAL",
    );
    assert.equal(readdirSync(join(data, "staging")), []);
    lockDirectory(data).release();
    assert.is(
      look(data, (_, db) => db.pragma("integrity_check", { simple: true })),
      "ok",
    );
  }));

/** Returns the log lines with this message, without level, time and message. */
const loggedAs = (err: string, msg: string): Record<string, unknown>[] =>
  err
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line))
    .filter((line) => line.msg === msg)
    .map(({ level: _level, time: _time, msg: _msg, ...fields }) => fields);

test("logs one line about its start: version, data, addresses, and the source of each option", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    writeFileSync(join(directory, "assay.yml"), "base_url: https://assay.example.com\nkey_rate: 600\n");
    const env = { ASSAY_METRICS_KEY: "a-secret-of-many-characters-0123456789", ASSAY_DATA: "data" };
    const server = start(["serve", "--config", "assay.yml", ...LISTEN, "--key-rate", "700"], { cwd: directory, env });
    const url = await urlOf(server);
    const { err } = await server.stop();
    const { version, commit } = readBuildInfo();
    assert.equal(loggedAs(err, "started"), [
      {
        version,
        commit,
        schema: schemaVersion(),
        data,
        listening: [url],
        base_url: "https://assay.example.com",
        options: [
          { option: "data", value: "data", source: "variable ASSAY_DATA" },
          { option: "listen", value: "127.0.0.1:0", source: "flag --listen" },
          { option: "base-url", value: "https://assay.example.com", source: "file assay.yml line 1" },
          { option: "config", value: "assay.yml", source: "flag --config" },
          { option: "metrics-key", value: "(secret)", source: "variable ASSAY_METRICS_KEY" },
          { option: "key-rate", value: "700", source: "flag --key-rate" },
        ],
      },
    ]);
    assert.not.match(err, /a-secret-of-many/);
    assert.equal(loggedAs(err, "upgrading the database"), [], "a new database is no upgrade");
  }));

test("logs an upgrade: the schemas, the copy, and the duration of each migration", () =>
  inDirectory(async (data) => {
    place(3, data);
    const bytes = statSync(join(data, "assay.db")).size;
    const server = start(["serve", "--data", data, ...LISTEN]);
    await urlOf(server);
    const { err } = await server.stop();
    const to = schemaVersion();
    assert.equal(loggedAs(err, "upgrading the database"), [{ from_schema: 3, to_schema: to }]);
    const [copy] = loggedAs(err, "copied the database before its upgrade");
    assert.match(
      String(copy?.["file"]),
      new RegExp(`^${data}/backups/assay-schema-3-before-${to}-\\d{8}T\\d{6}Z\\.db$`),
    );
    assert.equal(
      { bytes: copy?.["bytes"], "typeof duration_ms": typeof copy?.["duration_ms"] },
      { bytes: statSync(String(copy?.["file"])).size, "typeof duration_ms": "number" },
    );
    assert.ok(Number(copy?.["bytes"]) > 0 && Number(copy?.["bytes"]) <= bytes);
    const applied = loggedAs(err, "applied a migration");
    assert.equal(
      applied.map(({ migration, schema, duration_ms }) => [migration, schema, typeof duration_ms]),
      migrations()
        .slice(3)
        .map(({ name, version }) => [name, version, "number"]),
    );
    const [whole] = loggedAs(err, "upgraded the database");
    assert.equal(
      {
        from_schema: whole?.["from_schema"],
        to_schema: whole?.["to_schema"],
        "typeof duration_ms": typeof whole?.["duration_ms"],
      },
      { from_schema: 3, to_schema: to, "typeof duration_ms": "number" },
    );

    const again = start(["serve", "--data", data, ...LISTEN]);
    await urlOf(again);
    assert.equal(loggedAs((await again.stop()).err, "upgrading the database"), []);
  }));

test("accepts --json, --base-url and a configuration file", () =>
  inDirectory(async (directory) => {
    writeFileSync(
      join(directory, "assay.yml"),
      "data: data\nlisten: 127.0.0.1:0\nbase_url: https://assay.example.com/x/\nlog_level: warn\n",
    );
    const server = start(["serve", "--json", "--config", "assay.yml"], { cwd: directory });
    await server.wrote(/\n/);
    const { listening, ...rest } = JSON.parse(server.out());
    const file = join(directory, "data", "setup-token");
    assert.equal(rest, {
      base_url: "https://assay.example.com/x",
      reference: "https://assay.example.com/x/api/v2/doc/",
      setup: "https://assay.example.com/x/setup",
      setup_token_file: file,
      setup_token: readFileSync(file, "utf8").trim(),
    });
    assert.equal(JSON.parse((await get(`${listening}/api/v2/openapi.json`)).text).servers, [
      { url: "https://assay.example.com/x/api/v2" },
    ]);
    const { code, err } = await server.stop();
    assert.equal({ code, err }, { code: 0, err: "" });
    assert.ok(existsSync(join(directory, "data", "assay.db")));
  }));

test("reports all configuration mistakes at once with exit code 2 and creates nothing", () =>
  inDirectory(async (directory) => {
    const { code, out, err } = await cli(["serve", "--listen", "nowhere", "--evidence-limit", "5"], {
      cwd: directory,
      env: { ASSAY_LISTN: "x" },
    });
    assert.equal({ code, out }, { code: 2, out: "" });
    assert.equal(
      err.split("\n").map((line) => line.split(":")[1]),
      [
        " listen (flag --listen)",
        " evidence-limit (flag --evidence-limit)",
        " unknown variable ASSAY_LISTN; did you mean ASSAY_LISTEN?",
        " data is not set",
        undefined,
      ],
    );
    assert.equal(readdirSync(directory), []);
  }));

test("refuses a second server on the same data with exit code 4", () =>
  inDirectory(async (data) => {
    const server = start(["serve", "--data", data, ...LISTEN]);
    const url = await urlOf(server);
    assert.equal(await cli(["serve", "--data", data, ...LISTEN]), {
      code: 4,
      out: "",
      err:
        `assay: the data directory ${data} is in use by another Assay process. Stop that process first, or give ` +
        "this one a data directory of its own with --data\n",
    });
    assert.is((await get(`${url}/ready`)).status, 200);
    assert.is((await server.stop()).code, 0);
  }));

test("refuses the database of a newer version with exit code 3 and does not change it", () =>
  inDirectory(async (data) => {
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    look(data, (_, db) => db.pragma("user_version = 99"));
    const commands = [
      ["serve", ...LISTEN],
      ["dev", ...LISTEN],
      ["init", "--org", "a", "--user", "b"],
      ["key", "list", "--user", "ops"],
    ];
    for (const command of commands) {
      const { code, out, err } = await cli([...command, "--data", data]);
      assert.equal({ code, out }, { code: 3, out: "" }, command.join(" "));
      assert.match(
        err,
        /^assay: the database \S+assay\.db has schema version 99, but this program knows versions up to \d+\. /,
      );
    }
    lockDirectory(data).release();
  }));

test("refuses a database with a trigger of somebody else with exit code 5 and does not change it", () =>
  inDirectory(async (data) => {
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    look(data, (_, db) => db.exec("CREATE TRIGGER promote AFTER INSERT ON memberships BEGIN SELECT 1; END"));
    const before = readFileSync(join(data, "assay.db"));
    for (const command of [
      ["serve", ...LISTEN],
      ["dev", ...LISTEN],
      ["user", "create", "eve"],
      ["key", "list", "--user", "ops"],
    ]) {
      const { code, out, err } = await cli([...command, "--data", data]);
      assert.equal(
        { code, out, err },
        {
          code: 5,
          out: "",
          err:
            "assay: the database is damaged: trigger promote was not created by this program\n" +
            "assay: keep it as it is; assay help troubleshooting says what to do\n",
        },
        command.join(" "),
      );
    }
    assert.ok(readFileSync(join(data, "assay.db")).equals(before));
    const diagnosed = await cli(["doctor", "--data", data, ...LISTEN]);
    assert.is(diagnosed.code, 1);
    assert.match(diagnosed.out, /^FAIL {2}schema +trigger promote was not created by this program$/m);
    lockDirectory(data).release();
  }));

test("explains an unavailable address and releases the data directory", () =>
  inDirectory(async (data) => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    const table: [string, string][] = [
      [
        `127.0.0.1:${port}`,
        "another program is using the port; choose another with --listen HOST:PORT or ASSAY_LISTEN",
      ],
      [
        "192.0.2.1:8001",
        "this machine does not have that address; choose another with --listen HOST:PORT or ASSAY_LISTEN",
      ],
    ];
    for (const [listen, problem] of table) {
      assert.equal(await cli(["serve", "--data", data, "--listen", listen]), {
        code: 1,
        out: "",
        err: `assay: cannot listen on ${listen}: ${problem}\n`,
      });
      lockDirectory(data).release();
    }
    await new Promise((resolve) => other.close(resolve));
  }));

test("a refused start removes the directory it created and prints none of its keys", () =>
  inDirectory(async (directory) => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const taken = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const file = join(directory, "b.yml");
    writeFileSync(
      file,
      "organizations: [{name: acme, members: [{user: ops, role: admin}]}]\n" +
        "users: [{name: ops, api_keys: [{description: first}]}]",
    );
    const refusals = [
      ["--listen", taken],
      ["--listen", taken, "--bootstrap", file],
      [...LISTEN, "--metrics-listen", taken],
      [...LISTEN, "--evidence-store", "s3://assay-evidence"],
      [...LISTEN, "--tls-cert", "missing.pem", "--tls-key", "missing.pem"],
      [...LISTEN, "--json-limit", "1"],
    ];
    const empty = join(directory, "empty");
    mkdirSync(empty);
    for (const command of ["serve", "dev"])
      for (const words of refusals) {
        const { code, out } = await cli([command, "--data", join(directory, "deep", "er", "data"), ...words], {
          cwd: directory,
        });
        assert.ok(code !== 0, words.join(" "));
        assert.is(out, "", words.join(" "));
        assert.equal(readdirSync(directory).sort(), ["b.yml", "empty"], `${command} ${words.join(" ")}`);
        assert.ok((await cli([command, "--data", empty, ...words], { cwd: directory })).code !== 0);
        assert.equal(readdirSync(empty), [], `${command} ${words.join(" ")}`);
      }
    await new Promise((resolve) => other.close(resolve));
  }));

test("a refused start neither changes nor removes existing data", () =>
  inDirectory(async (directory) => {
    const [data, file] = [join(directory, "data"), join(directory, "b.yml")];
    writeFileSync(
      file,
      "organizations: [{name: acme, members: [{user: ops, role: admin}]}]\n" +
        "users: [{name: ops, api_keys: [{description: first}]}]",
    );
    assert.is((await cli(["apply", "-", "--data", data], { stdin: "organizations: []" })).code, 0);
    const refused = await cli(["serve", "--data", data, "--listen", "192.0.2.1:8001", "--bootstrap", file]);
    assert.is(refused.code, 1);
    // The changes of the bootstrap file are stored, and its key is printed only now.
    const minted = /^ {11}([\w-]{43})$/m.exec(refused.out)?.[1] ?? "";
    assert.ok(look(data, (store) => store.apiKeys.find(keyDigest(minted)) !== null));

    const server = start(["serve", "--data", data, ...LISTEN]);
    await urlOf(server);
    assert.is((await cli(["serve", "--data", data, ...LISTEN])).code, 4);
    assert.ok(existsSync(join(data, "assay.db")), "a data directory that another server uses is not removed");
    assert.is((await server.stop()).code, 0);
  }));

test("applies the bootstrap file before it listens, and prints the changes with new keys", () =>
  inDirectory(async (data) => {
    const file = join(data, "bootstrap.yml");
    writeFileSync(
      file,
      "organizations: [{name: acme, members: [{user: ops, role: admin}]}]\n" +
        `users: [{name: ops, api_keys: [{description: first}, {description: second, key: "0123456789abcdef"}]}]`,
    );
    const server = start(["serve", "--data", data, ...LISTEN, "--bootstrap", file]);
    const url = await urlOf(server);
    const minted = /^ {11}([\w-]{43})$/m.exec(server.out())?.[1] ?? "";
    assert.equal(server.out().split("\n"), [
      "created    user ops",
      "created    organization ops: personal",
      "created    member ops/ops: admin",
      "created    organization acme",
      "created    member acme/ops: admin",
      "created    API key of ops: first",
      `           ${minted}`,
      "created    API key of ops: second",
      `listening on ${url}`,
      `API reference: ${url}/api/v2/doc/`,
      "",
    ]);
    for (const key of [minted, "0123456789abcdef"])
      assert.is((await get(`${url}/api/v2/organizations/acme`, key)).status, 200);
    assert.is((await server.stop()).code, 0);

    const again = start(["serve", "--data", data, ...LISTEN, "--bootstrap", file]);
    await urlOf(again);
    assert.match(again.out(), /^listening on /);
    assert.not.match((await again.stop()).err, minted);
  }));

test("reports all mistakes of the bootstrap file with exit code 1 and applies nothing", () =>
  inDirectory(async (directory) => {
    const [data, file] = [join(directory, "data"), join(directory, "b.yml")];
    const serve = () => cli(["serve", "--data", data, ...LISTEN, "--bootstrap", "b.yml"], { cwd: directory });
    assert.match(
      (await serve()).err,
      /^assay: cannot read b\.yml: it, or a directory above it, does not exist \(ENOENT\)/,
    );
    writeFileSync(file, "users: [{name: 1}, {nam: x}]");
    const unreadable = await serve();
    assert.equal(
      { code: unreadable.code, "err.length": unreadable.err.split("\n").length },
      { code: 1, "err.length": 5 },
    );
    assert.equal(readdirSync(directory), ["b.yml"], "nothing was made for a file that cannot be right");

    writeFileSync(
      file,
      "users: [{name: new}]\norganizations: [{name: a, members: [{user: x, role: admin}, {user: y, role: admin}]}]",
    );
    assert.equal(await serve(), {
      code: 1,
      out: "",
      err: [
        "b.yml line 2 column 37: organizations[0].members[0]: User 'x' not found",
        "b.yml line 2 column 61: organizations[0].members[1]: User 'y' not found",
        "nothing was applied",
      ]
        .map((line) => `assay: ${line}\n`)
        .join(""),
    });
    assert.equal(readdirSync(directory), ["b.yml"], "nothing is left of a start that the store refused");
  }));

test("applies keys created and revoked beside it at once, and writes their last use when it stops", () =>
  inDirectory(async (data) => {
    const server = start(["serve", "--data", data, ...LISTEN]);
    const url = await urlOf(server);
    const key = (await cli(["init", "--data", data, "--org", "acme", "--user", "ops"])).out.trim();
    const made = await cli(["key", "create", "--user", "ops", "--description", "d", "--data", data]);
    const second = made.out.trim();
    const id = / ([0-9a-f-]{32}) /.exec(made.err)?.[1] ?? "";
    const ask = async (with_: string) => (await get(`${url}/api/v2/organizations/acme`, with_)).status;
    assert.equal({ "ask key": await ask(key), "ask second": await ask(second) }, { "ask key": 200, "ask second": 200 });
    await cli(["key", "revoke", id, "--user", "ops", "--data", data]);
    assert.equal({ "ask key": await ask(key), "ask second": await ask(second) }, { "ask key": 200, "ask second": 401 });
    assert.is((await server.stop()).code, 0);
    const used = look(data, (store) =>
      store.apiKeys.listByOwner({ userId: 1 }).map((row) => row.last_used_at > 1_700_000_000),
    );
    assert.equal(used, [true, true]);
  }));

test("removes leftovers at the start: staged files at once, unreferenced evidence after a day", () =>
  inDirectory(async (data) => {
    assert.is((await cli(["init", "--org", "acme", "--user", "ops", "--data", data])).code, 0);
    const shard = join(data, "evidence", "aa");
    for (const directory of [join(data, "staging"), shard]) mkdirSync(directory, { recursive: true });
    writeFileSync(join(data, "staging", "leftover"), "x");
    const [old, young] = ["0".repeat(62), "1".repeat(62)];
    for (const name of [old, young]) writeFileSync(join(shard, name), "evidence");
    const yesterday = Date.now() / 1000 - 86_460;
    utimesSync(join(shard, old), yesterday, yesterday);

    const server = start(["serve", "--data", data, ...LISTEN]);
    const written = await server.wrote(/deleted evidence that no record references/);
    assert.match(written, /"files":1,"msg":"removed files that an earlier process left in the staging directory"/);
    assert.match(written, /"files":1,"bytes":8,"msg":"deleted evidence that no record references"/);
    assert.equal(readdirSync(shard), [young]);
    assert.equal(readdirSync(join(data, "staging")), []);
    assert.is((await server.stop()).code, 0);
  }));

/** An evaluation without a decision, which ended at that time (epoch seconds). @returns its public id */
function addEvaluation(store: Store, organization: number, recordedAt: number): string {
  const content = Buffer.from("packed");
  const digest = hash("sha256", content);
  store.regoDocuments.insert({ digest, size: content.length, content });
  const { id, public_id } = store.regoEvaluations.create(
    {
      organization_id: organization,
      requested_at: recordedAt,
      caller: "u",
      requested_by: "u",
      actor_json: "{}",
      request_digest: "0",
      rego_policy_version_id: null,
      bundle_digest: digest,
      bundle_sha256: "0".repeat(64),
      input_digest: digest,
      input_sha256: "0".repeat(64),
      input_bytes: 2,
      params_json: "{}",
      trails_json: "[]",
      attestation_ids_json: "[]",
      decision: null,
      trailIds: [],
    },
    null,
  );
  const verdict = { allow: true, violations: [], outputsJson: "{}", decision: null };
  store.regoEvaluations.end(id, { recordedAt, engine: "OPA", durationMs: 1, ...verdict });
  return public_id;
}

test("deletes evaluations without a decision that ended before the time of the option, and no others", () =>
  inDirectory(async (data) => {
    const daysAgo = (days: number): number => Date.now() / 1000 - days * 86_400;
    const young = look(data, (store) => {
      const fields = { name: "acme", kind: "shared", isPublic: false, controlsEnabled: true } as const;
      const organization = store.organizations.create(fields);
      addEvaluation(store, organization, daysAgo(31));
      return addEvaluation(store, organization, daysAgo(29));
    });
    const listIds = () => look(data, (_, db) => db.prepare("SELECT public_id FROM rego_evaluations").pluck().all());
    const server = start(["serve", "--data", data, ...LISTEN, "--evaluation-retention", "30d"]);
    await urlOf(server);
    await until("the older evaluation is deleted", () => listIds().length < 2);
    assert.is((await server.stop()).code, 0);
    assert.equal(listIds(), [young]);
  }));

test("runs a job that a crashed process had begun", () =>
  inDirectory(async (data) => {
    look(data, (store, db) => {
      const organization = store.organizations.create({
        name: "acme",
        kind: "shared",
        isPublic: false,
        controlsEnabled: true,
      });
      const insert =
        "INSERT INTO environments (public_id, organization_id, name, type, created_at, last_modified_at) VALUES " +
        "('e', ?, 'prod', 'K8S', 1, 1)";
      const environment = Number(db.prepare(insert).run(organization).lastInsertRowid);
      store.jobs.add("reevaluate", {
        environment_id: environment,
        snapshot_count: 0,
        cause: "policy_version",
        user_id: "u",
        user_name: "u",
      });
      assert.is(store.jobs.lease("reevaluate", { at: Date.now() / 1000, seconds: 86_400, limit: 1 }).length, 1);
    });
    const server = start(["serve", "--data", data, ...LISTEN]);
    await server.wrote(/"msg":"job"/);
    const { code, err } = await server.stop();
    assert.is(code, 0, err);
    const lines = err
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.equal(
      lines.filter(({ jobs }) => jobs !== undefined).map(({ jobs, msg }) => [jobs, msg]),
      [[1, "jobs that an earlier process did not finish will run again"]],
    );
    assert.equal(
      lines.filter(({ msg }) => msg === "job").map(({ kind, attempts, outcome }) => [kind, attempts, outcome]),
      [["reevaluate", 2, "done"]],
    );
    assert.is(
      look(data, (_, db) => db.prepare("SELECT count(*) FROM jobs").pluck().get()),
      0,
    );
  }));

test("logs an uncaught error", () =>
  inDirectory(async (data) => {
    const server = start(["serve", "--data", data, ...LISTEN]);
    await urlOf(server);
    server.crash(new TypeError("oops"));
    const { err } = await server.stop();
    const fatal = err
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line))
      .filter(({ level }) => level === "fatal");
    assert.equal(
      fatal.map(({ msg, err: { type, message } }) => ({ msg, type, message })),
      [{ msg: "uncaught error, the process exits", type: "TypeError", message: "oops" }],
    );
  }));

test("warns of a secret in a flag, but not in a variable or a file", () =>
  inDirectory(async (directory) => {
    const KEY = "0123456789abcdef";
    const file = join(directory, "assay.yaml");
    writeFileSync(file, `metrics_key: "${KEY}"\n`);
    const warnings = async (name: string, words: string[], env: Record<string, string> = {}) => {
      const server = start(["serve", "--data", join(directory, name), ...LISTEN, ...words], { env });
      await urlOf(server);
      const { code, err } = await server.stop();
      assert.is(code, 0, err);
      assert.not.ok(err.includes(KEY), "the log does not show it");
      const lines = err
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
      return lines.filter(({ level }) => level === "warn").map(({ option, msg }) => ({ option, msg }));
    };
    assert.equal(await warnings("flag", ["--metrics-key", KEY]), [
      {
        option: "metrics-key",
        msg:
          "the value of --metrics-key is visible to every user of this machine in the process list: " +
          "set ASSAY_METRICS_KEY, or metrics_key in a file",
      },
    ]);
    assert.equal(await warnings("variable", [], { ASSAY_METRICS_KEY: KEY }), []);
    assert.equal(await warnings("file", ["--config", file]), []);
  }));

test("a stop signal during the start takes effect after it", () =>
  inDirectory(async (data) => {
    const { code } = await start(["serve", "--data", data, ...LISTEN]).stop();
    assert.is(code, 0);
    lockDirectory(data).release();
  }));

test("the help explains where output and log go", async () => {
  const { code, out } = await cli(["help", "serve"]);
  assert.is(code, 0);
  assert.match(out, /Writes the log to stderr, one JSON object per line\./);
});

test.run();
