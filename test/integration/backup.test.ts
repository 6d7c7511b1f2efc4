// Backup and restore of the executable: under load, killed at any moment, through pipes, on a schedule and on a signal.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { APPLY_FILE, apiOf, attestationsSince, missingOf, ORG, sha256 } from "../crash/ledger.ts";
import type { Entry } from "../crash/ledger.ts";
import { form, prepare, writeUntilGone, writers } from "../crash/load.ts";
import { look } from "../cli/in-process.ts";
import { until } from "../patience.ts";
import { EXECUTABLE, inDirectory, run, start } from "../binary/executable.ts";
import type { Running } from "../binary/executable.ts";

const test = suite("integration/backup");

const LANES = 6;
/** How much later each kill comes than the one before it. */
const KILL_STEP_MS = 40;
/** A directory with one of these files is the work directory of a restore, which the next one may remove. */
const RESTORE_MARKS = ["restore-unfinished", "restore-finished"];
/** Number of acknowledged writes before a backup under load begins. */
const WRITES_BEFORE_BACKUP = 150;

const serve = (data: string, ...words: string[]): Promise<Running> =>
  start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "info", ...words]);

/** Starts a server on a new data directory and writes the first entries. */
async function serveNew(
  directory: string,
  ...words: string[]
): Promise<{ data: string; server: Running; entries: Entry[] }> {
  const data = join(directory, "data");
  writeFileSync(join(directory, "apply.yaml"), APPLY_FILE);
  const server = await serve(data, "--bootstrap", join(directory, "apply.yaml"), ...words);
  return { data, server, entries: await prepare(apiOf(server.url)) };
}

/** Resolves when there are `count` entries. */
const waitForCount = (entries: readonly unknown[], count: number): Promise<boolean> =>
  until(`${count} entries were written`, () => entries.length >= count);

/** Describes every entry that the server has lost. */
async function findLost({ url }: Running, entries: readonly Entry[]): Promise<string[]> {
  const api = apiOf(url);
  const records = await attestationsSince(api, 0);
  const texts: string[] = [];
  for (const entry of entries) {
    const text = await missingOf(api, entry, records);
    if (text !== null) texts.push(text);
  }
  return texts;
}

test("a backup under load contains everything acknowledged before it began", () =>
  inDirectory(async (directory) => {
    const { data, server, entries } = await serveNew(directory);
    const load = writeUntilGone(writers(apiOf(server.url), LANES, 1), entries);
    await waitForCount(entries, WRITES_BEFORE_BACKUP);
    const before = [...entries];
    const made = await run(["backup", join(directory, "b.tar"), "--data", data, "--json"]);
    assert.is(made.code, 0, made.stderr);
    assert.ok(entries.length > before.length, "writes went on during the backup");
    await server.stop("SIGKILL");
    assert.equal(await load, []);

    const restored = await run(["restore", join(directory, "b.tar"), "--data", join(directory, "r"), "--json"]);
    assert.is(restored.code, 0, restored.stderr);
    assert.is(JSON.parse(restored.stdout).rows, JSON.parse(made.stdout).rows);
    const back = await serve(join(directory, "r"));
    assert.equal(await findLost(back, before), []);
    assert.is((await back.stop()).code, 0);
    // A backup of the killed server's directory, write-ahead log included.
    const after = await run(["backup", join(directory, "c.tar"), "--data", data]);
    assert.is(after.code, 0, after.stderr);
    assert.is((await run(["restore", join(directory, "c.tar"), "--data", join(directory, "s")])).code, 0);
    const last = await serve(join(directory, "s"));
    assert.equal(await findLost(last, entries), []);
    await last.stop();
  }));

/** Answers name it, so that they are the same on any port. */
const BASE_URL = ["--base-url", "https://assay.example.com"];

test("an evaluation reads and replays the same after a backup and a restore, large input and bundle included", () =>
  inDirectory(async (directory) => {
    const { data, server } = await serveNew(directory, ...BASE_URL);
    const api = apiOf(server.url);
    const expect = async (status: number, method: string, path: string, body?: FormData | object) => {
      const answer = await api.call(method, path, body);
      assert.is(answer.status, status, `${method} ${path}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    };
    await expect(201, "PUT", `/flows/${ORG}/template_file`, form({ name: "judged" }));
    await expect(201, "PUT", `/trails/${ORG}/judged`, form({ name: "t" }));
    // Random, so that packed it is too large for a row of the database.
    const text = randomBytes(200_000).toString("hex");
    const report = { attestation_name: "scan", is_compliant: true, user_data: { text } };
    await expect(201, "POST", `/attestations/${ORG}/judged/trail/t/generic`, form(report));
    const files = { "gate.rego": `package gate\n\n# ${text}\nallow if input.trail.name == "t"\n` };
    await expect(201, "PUT", `/rego-policies/${ORG}/gate`, { name: "Gate", files });
    const context = { trails: [{ flow: "judged", trail: "t" }] };
    const { id } = await expect(201, "POST", `/evaluations/${ORG}`, { context, policy: { identifier: "gate" } });
    const path = `/evaluations/${ORG}/${id}`;
    await until("the evaluation ended", async () => (await api.call("GET", path)).body.status === "completed");
    const readAll = async (from: Running) => {
      const paths = [path, `${path}/input`, `${path}/bundle`, `/rego-policies/${ORG}/gate/versions/1/bundle`];
      const answers = await Promise.all(paths.map((one) => apiOf(from.url).call("GET", one)));
      return answers.map(({ status, bytes }, index) => [paths[index], status, bytes.length, sha256(bytes)]);
    };
    const before = await readAll(server);
    assert.is((await run(["backup", join(directory, "b.tar"), "--data", data])).code, 0);
    await server.stop();
    const target = join(directory, "r");
    assert.is((await run(["restore", join(directory, "b.tar"), "--data", target])).code, 0);
    const replayed = await run(["explain", "evaluation", id, "--replay", "--json", "--data", target]);
    assert.equal(JSON.parse(replayed.stdout).replay.differences, [], replayed.stdout + replayed.stderr);
    const back = await serve(target, ...BASE_URL);
    assert.equal(await readAll(back), before);
    await back.stop();
  }));

/** Runs a command, killing it after this many milliseconds. `signal` is null when it ended before that. */
async function runKilled(
  milliseconds: number,
  words: readonly string[],
): Promise<{ signal: NodeJS.Signals | null; stderr: string }> {
  const child = spawn(EXECUTABLE, words, { stdio: ["ignore", "ignore", "pipe"], env: {} });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const timer = setTimeout(() => child.kill("SIGKILL"), milliseconds);
  const [, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  clearTimeout(timer);
  return { signal, stderr };
}

test("a backup or restore killed at any moment leaves nothing that looks complete, and the next one succeeds", () =>
  inDirectory(async (directory) => {
    const { data, server, entries } = await serveNew(directory);
    const load = writeUntilGone(writers(apiOf(server.url), LANES, 2), entries);
    await waitForCount(entries, WRITES_BEFORE_BACKUP);
    await server.stop("SIGKILL");
    await load;
    const file = join(directory, "b.tar");
    const target = join(directory, "r");
    let kills = 0;
    // Kills come later and later until the command finishes first.
    for (let after = 60; ; after += KILL_STEP_MS) {
      const { signal, stderr } = await runKilled(after, ["backup", file, "--data", data]);
      kills += Number(signal !== null);
      // A file under the final name is complete, as the restore below shows; a later kill does no harm.
      if (existsSync(file)) break;
      assert.is(signal, "SIGKILL", stderr);
    }
    assert.equal(
      readdirSync(directory).filter((name) => name.startsWith("b.")),
      ["b.tar"],
      "the successful backup removed what the killed ones left",
    );
    for (let after = 60; ; after += KILL_STEP_MS) {
      const { signal, stderr } = await runKilled(after, ["restore", file, "--data", target]);
      kills += Number(signal !== null);
      if (existsSync(target)) break;
      assert.is(signal, "SIGKILL", stderr);
      const left = `${target}.restore-unfinished`;
      if (!existsSync(join(left, "restore-unfinished"))) continue;
      const refused = await run(["serve", "--data", left, "--listen", "127.0.0.1:0"]);
      assert.is(refused.code, 1);
      assert.match(refused.stderr, /a restore began and did not end/);
    }
    assert.ok(kills > 2, `${kills} kills`);
    const back = await serve(target);
    assert.equal(await findLost(back, entries), []);
    await back.stop();
    assert.equal(
      readdirSync(directory).filter((name) => name.startsWith("r")),
      ["r"],
    );
  }));

test("a restore killed while it removes what an earlier one left leaves the next one free to start over", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await run(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    const file = join(directory, "b.tar");
    assert.is((await run(["backup", file, "--data", data])).code, 0);
    const target = join(directory, "r");
    const left = `${target}.restore-unfinished`;
    let kills = 0;
    for (let after = 100; ; after += KILL_STEP_MS / 2) {
      mkdirSync(join(left, "evidence"), { recursive: true });
      writeFileSync(join(left, "restore-unfinished"), "");
      for (let index = 0; index < 4_000; index += 1) writeFileSync(join(left, "evidence", String(index)), "");
      const { signal, stderr } = await runKilled(after, ["restore", file, "--data", target]);
      if (existsSync(target)) break;
      assert.is(signal, "SIGKILL", stderr);
      kills += 1;
      const names = existsSync(left) ? readdirSync(left) : [];
      const isOurs = names.length === 0 || RESTORE_MARKS.some((mark) => names.includes(mark));
      assert.ok(isOurs, `after ${after} ms: ${names.join(", ")}`);
    }
    assert.ok(kills > 2, `${kills} kills`);
    assert.not.ok(existsSync(left));
  }));

test("backs up and restores through pipes, and refuses to restore into a data directory that is in use", () =>
  inDirectory(async (directory) => {
    const { data, server, entries } = await serveNew(directory);
    const target = join(directory, "r");
    const shell = async (script: string): Promise<number | null> => {
      const child = spawn("sh", ["-c", script, "sh", EXECUTABLE, data, target], {
        stdio: "ignore",
        env: { PATH: process.env["PATH"] ?? "" },
      });
      return ((await once(child, "close")) as [number | null])[0];
    };
    assert.is(await shell('mkdir "$3" && "$1" backup - --data "$2" | gzip | "$1" restore - --data "$3"'), 0);
    const back = await serve(target);
    assert.equal(await findLost(back, entries), []);
    const file = join(directory, "b.tgz");
    assert.is((await run(["backup", file, "--data", target, "--verify"])).code, 0);
    const refused = await run(["restore", file, "--data", target]);
    assert.is(refused.code, 1);
    assert.match(refused.stderr, /is not empty: it holds assay\./);
    await back.stop();
    // When the reader goes away the backup ends with exit code 1 and leaves nothing.
    assert.is(await shell('{ "$1" backup - --data "$2"; echo $? >"$3.code"; } | head -c 100000 >/dev/null'), 0);
    assert.is(readFileSync(`${target}.code`, "utf8"), "1\n");
    assert.equal(readdirSync(join(data, "backups")), []);
    await server.stop();
  }));

test("a serving process backs up on schedule and on SIGUSR1, and SIGUSR1 does not open Node's debugger", () =>
  inDirectory(async (directory) => {
    const { data, server, entries } = await serveNew(directory, "--backup-every", "24h", "--backup-keep", "2");
    await server.wrote(/"msg":"made a backup"/);
    const load = writeUntilGone(writers(apiOf(server.url), LANES, 3), entries);
    const listBackups = (): string[] => readdirSync(join(data, "backups")).sort();
    const [first = ""] = listBackups();
    for (const made of [2, 3]) {
      await waitForCount(entries, entries.length + 50);
      process.kill(server.pid, "SIGUSR1");
      await server.wrote(new RegExp(`(?:"msg":"(?:made a backup|the backup failed)[^]*){${made}}`));
    }
    await server.wrote(/"msg":"removed old backups"/);
    assert.not.match(server.output(), "the backup failed");
    assert.equal(
      { backups: listBackups().length, isFirstLeft: listBackups().includes(first) },
      { backups: 2, isFirstLeft: false },
    );
    // A stop in the middle of a backup.
    process.kill(server.pid, "SIGUSR1");
    assert.equal(await server.stop(), { code: 0, signal: null });
    assert.equal(await load, []);
    assert.not.match(server.output(), /[Dd]ebugger|inspector/);
    assert.ok(
      listBackups().length <= 2 && listBackups().every((name) => /^assay-backup-\d{8}T\d{6}Z\.tar$/.test(name)),
      listBackups().join(),
    );
    for (const name of listBackups()) {
      assert.is(statSync(join(data, "backups", name)).mode & 0o777, 0o600);
      const target = join(directory, `of-${name}`);
      const { code, stderr } = await run(["restore", join(data, "backups", name), "--data", target]);
      assert.is(code, 0, stderr);
      assert.is(
        look(target, (_, db) => db.pragma("integrity_check", { simple: true })),
        "ok",
      );
    }
  }));

test.run();
