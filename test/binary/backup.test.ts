// The executable saves and restores: under load, killed at any moment, through pipes, by the clock and on a signal.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { APPLY_FILE, apiOf, attestationsSince, missingOf } from "../crash/ledger.ts";
import type { Entry } from "../crash/ledger.ts";
import { prepare, writeUntilGone, writers } from "../crash/load.ts";
import { look } from "../cli/in-process.ts";
import { EXECUTABLE, inDirectory, run, start } from "./executable.ts";
import type { Running } from "./executable.ts";

const test = suite("executable saves and restores");

const LANES = 6;
/** Milliseconds by which each kill comes later than the one before. */
const STEP = 40;
/** Writes that are acknowledged before a backup under load begins. */
const WRITTEN = 150;

const serve = (data: string, ...words: string[]): Promise<Running> =>
  start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "info", ...words]);

/** A server on a new data directory, with something in it. */
async function served(
  directory: string,
  ...words: string[]
): Promise<{ data: string; server: Running; entries: Entry[] }> {
  const data = join(directory, "data");
  writeFileSync(join(directory, "apply.yaml"), APPLY_FILE);
  const server = await serve(data, "--bootstrap", join(directory, "apply.yaml"), ...words);
  return { data, server, entries: await prepare(apiOf(server.url)) };
}

/** Resolves when `entries` has so many. */
async function until(entries: readonly unknown[], count: number): Promise<void> {
  while (entries.length < count) await new Promise((resolve) => setImmediate(resolve));
}

/** What a server does not know of `entries`. */
async function lost({ url }: Running, entries: readonly Entry[]): Promise<string[]> {
  const api = apiOf(url);
  const records = await attestationsSince(api, 0);
  const texts: string[] = [];
  for (const entry of entries) {
    const text = await missingOf(api, entry, records);
    if (text !== null) texts.push(text);
  }
  return texts;
}

test("under load, everything that was acknowledged before a backup began is in it", () =>
  inDirectory(async (directory) => {
    const { data, server, entries } = await served(directory);
    const load = writeUntilGone(writers(apiOf(server.url), LANES, 1), entries);
    await until(entries, WRITTEN);
    const before = [...entries];
    const made = await run(["backup", join(directory, "b.tar"), "--data", data, "--json"]);
    assert.is(made.code, 0, made.stderr);
    const then = entries.length;
    assert.ok(then > before.length, "it was written to meanwhile");
    await server.stop("SIGKILL");
    assert.equal(await load, []);

    const restored = await run(["restore", join(directory, "b.tar"), "--data", join(directory, "r"), "--json"]);
    assert.is(restored.code, 0, restored.stderr);
    assert.is(JSON.parse(restored.stdout).rows, JSON.parse(made.stdout).rows);
    const back = await serve(join(directory, "r"));
    assert.equal(await lost(back, before), []);
    assert.is((await back.stop()).code, 0);
    // And one of the directory whose server was killed, its log included.
    const after = await run(["backup", join(directory, "c.tar"), "--data", data]);
    assert.is(after.code, 0, after.stderr);
    assert.is((await run(["restore", join(directory, "c.tar"), "--data", join(directory, "s")])).code, 0);
    const last = await serve(join(directory, "s"));
    assert.equal(await lost(last, entries), []);
    await last.stop();
  }));

/** Starts a command, kills it after so many milliseconds, and waits for its end. */
async function killedAfter(milliseconds: number, words: readonly string[]): Promise<NodeJS.Signals | null> {
  const child = spawn(EXECUTABLE, words, { stdio: "ignore", env: {} });
  const timer = setTimeout(() => child.kill("SIGKILL"), milliseconds);
  const [, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  clearTimeout(timer);
  return signal;
}

test("killed at any moment, neither leaves anything that passes for whole, and the next one succeeds", () =>
  inDirectory(async (directory) => {
    const { data, server, entries } = await served(directory);
    const load = writeUntilGone(writers(apiOf(server.url), LANES, 2), entries);
    await until(entries, WRITTEN);
    await server.stop("SIGKILL");
    await load;
    const file = join(directory, "b.tar");
    const target = join(directory, "r");
    let kills = 0;
    // From the start of the process on until they come too late.
    for (let after = 60; ; after += STEP) {
      const signal = await killedAfter(after, ["backup", file, "--data", data]);
      kills += Number(signal !== null);
      // What has the name is whole, as its restoration shows below: a kill that comes after it costs nothing.
      if (existsSync(file)) break;
      assert.is(signal, "SIGKILL");
    }
    assert.equal(
      readdirSync(directory).filter((name) => name.startsWith("b.")),
      ["b.tar"],
      "what the killed ones left is gone",
    );
    for (let after = 60; ; after += STEP) {
      const signal = await killedAfter(after, ["restore", file, "--data", target]);
      kills += Number(signal !== null);
      if (existsSync(target)) break;
      assert.is(signal, "SIGKILL");
      const left = `${target}.restore-unfinished`;
      if (!existsSync(join(left, "restore-unfinished"))) continue;
      const refused = await run(["serve", "--data", left, "--listen", "127.0.0.1:0"]);
      assert.is(refused.code, 1);
      assert.match(refused.stderr, /a restore began and did not end/);
    }
    assert.ok(kills > 2, `${kills} kills`);
    const back = await serve(target);
    assert.equal(await lost(back, entries), []);
    await back.stop();
    assert.equal(
      readdirSync(directory).filter((name) => name.startsWith("r")),
      ["r"],
    );
  }));

test("through pipes, into an existing directory, and not into one that is in use", () =>
  inDirectory(async (directory) => {
    const { data, server, entries } = await served(directory);
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
    assert.equal(await lost(back, entries), []);
    const file = join(directory, "b.tgz");
    assert.is((await run(["backup", file, "--data", target, "--verify"])).code, 0);
    const refused = await run(["restore", file, "--data", target]);
    assert.is(refused.code, 1);
    assert.match(refused.stderr, /is not empty: it holds assay.db/);
    await back.stop();
    // A reader that goes away is the end of it, and nothing is left.
    assert.is(await shell('{ "$1" backup - --data "$2"; echo $? >"$3.code"; } | head -c 100000 >/dev/null'), 0);
    assert.is(readFileSync(`${target}.code`, "utf8"), "1\n");
    assert.equal(readdirSync(join(data, "backups")), []);
    await server.stop();
  }));

test("by the clock and on SIGUSR1, in a server that goes on answering; Node's debugger stays shut", () =>
  inDirectory(async (directory) => {
    const { data, server, entries } = await served(directory, "--backup-every", "24h", "--backup-keep", "2");
    await server.wrote(/"msg":"made a backup"/);
    const load = writeUntilGone(writers(apiOf(server.url), LANES, 3), entries);
    const names = (): string[] => readdirSync(join(data, "backups")).sort();
    const [first = ""] = names();
    for (const made of [2, 3]) {
      await until(entries, entries.length + 50);
      process.kill(server.pid, "SIGUSR1");
      await server.wrote(new RegExp(`(?:"msg":"(?:made a backup|the backup failed)[^]*){${made}}`));
    }
    await server.wrote(/"msg":"removed old backups"/);
    assert.not.match(server.output(), "no backup could");
    assert.equal(
      { "names.length": names().length, "names includes": names().includes(first) },
      { "names.length": 2, "names includes": false },
    );
    // It stops in the middle of one.
    process.kill(server.pid, "SIGUSR1");
    assert.equal(await server.stop(), { code: 0, signal: null });
    assert.equal(await load, []);
    assert.not.match(server.output(), /[Dd]ebugger|inspector/);
    assert.ok(
      names().length <= 2 && names().every((name) => /^assay-backup-\d{8}T\d{6}Z\.tar$/.test(name)),
      names().join(),
    );
    for (const name of names()) {
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
