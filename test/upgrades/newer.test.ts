/** A database with a newer schema: every command that opens it leaves it untouched, says so and exits with code 3. */
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { COMMANDS } from "../../src/cli/commands.ts";
import { OPTIONS } from "../../src/config/options.ts";
import { cli, inDirectory } from "../cli/in-process.ts";
import { age, place } from "./fixture.ts";

const test = suite("upgrades/newer");

const POLICY = "_schema: https://assay.example.com/schemas/policy/v1\n";
/** What a command reads from standard input before it opens the database; an apply file for all others. */
const INPUT: Record<string, string> = {
  "policy check": POLICY,
  "policy preview": POLICY,
  "template check": "version: 1\n",
  "type try": '{"name":"coverage"}',
};
/** The arguments that each command needs besides --data to reach the database. */
const WORDS: Record<string, readonly string[]> = {
  serve: ["--listen", "127.0.0.1:0"],
  dev: ["--listen", "127.0.0.1:0"],
  init: ["--org", "acme", "--user", "ops"],
  apply: ["-"],
  call: ["list_envs", "--org", "acme"],
  "user create": ["eve"],
  "user show": ["ops"],
  "user set": ["ops", "--display-name", "Ops"],
  "user disable": ["ops"],
  "member add": ["ops", "--org", "acme", "--role", "admin"],
  "member set-role": ["ops", "--org", "acme", "--role", "admin"],
  "member remove": ["ops", "--org", "acme"],
  "member list": ["--org", "acme"],
  "service-account create": ["ci", "--org", "acme"],
  "service-account list": ["--org", "acme"],
  "service-account delete": ["ci", "--org", "acme"],
  "key create": ["--user", "ops", "--description", "laptop"],
  "key list": ["--user", "ops"],
  "key revoke": ["0123abcd", "--user", "ops"],
  "webhook enable": ["sonar", "--org", "acme"],
  "webhook list": ["--org", "acme"],
  "webhook rotate-secret": ["sonar", "--org", "acme"],
  "webhook disable": ["sonar", "--org", "acme"],
  "deliveries show": ["0123abcd"],
  "deliveries retry": ["--org", "acme"],
  "deliveries purge": ["--org", "acme"],
  "action secret": ["acme", "1"],
  explain: ["production"],
  "policy check": ["-", "--org", "acme"],
  "policy preview": ["-", "--environment", "production"],
  "template check": ["-", "--org", "acme"],
  "type try": ["-", "--org", "acme"],
  backup: ["copy.tar"],
  "retention run": ["--plan", "1700000000-0123456789abcdef01234567"],
  "retention deleted": ["--org", "acme"],
  "retention set": ["--org", "acme", "--trails-after", "90"],
  "retention unset": ["--org", "acme"],
  "retention hold": ["--org", "acme", "--reason", "audit"],
  "retention release": ["0123abcd"],
  "session list": ["--user", "ops"],
  "session revoke": ["ops"],
  "user enable": ["ops"],
  "vault copy": ["--to", "s3://some-bucket"],
  "vault migrate": ["--to", "s3://some-bucket"],
  "user passwd": ["ops"],
};

/** The error of every command that opens the database. */
const NEWER_DATABASE = new RegExp(
  "^assay: the database .*assay\\.db has schema version 99, but this program knows versions up to \\d+\\. " +
    "It was written by a newer Assay: start that version, or restore the backup that was made before the upgrade\n$",
  "m",
);

/** Commands that accept the data options but do not open the database, or only replace it. */
const ASIDE = ["config show", "restore", "health", "systemd"];

const opening = COMMANDS.filter(
  ({ name, options, takesConfig }) => !ASIDE.includes(name) && (takesConfig || OPTIONS.data.flag in options),
);

test("there are commands to check", () => {
  assert.ok(opening.length > 20);
});

/** Every file of a directory except the empty lock, with its bytes and its modification time. */
const state = (data: string): string[] =>
  (readdirSync(data, { recursive: true }) as string[])
    .filter((path) => path !== "assay.lock" && statSync(join(data, path)).isFile())
    .sort()
    .map(
      (path) => `${path} ${statSync(join(data, path)).mtimeMs} ${readFileSync(join(data, path)).toString("base64")}`,
    );

for (const { name } of opening) {
  test(`assay ${name} refuses a newer database`, () =>
    inDirectory(async (home) => {
      const data = join(home, "data");
      place(3, data);
      mkdirSync(join(data, "staging"));
      age(data, 99);
      const before = state(data);
      const { code, out, err } = await cli([...name.split(" "), ...(WORDS[name] ?? []), "--data", data], {
        stdin: INPUT[name] ?? "organizations: []\n",
      });
      assert.is(code, 3, `${out}${err}\nif it is a new command: what it needs belongs into WORDS of this file`);
      if (name === "doctor")
        assert.match(out, /FAIL {2}database +schema 99, but this program knows versions up to \d+\n/);
      else {
        assert.match(err, NEWER_DATABASE);
        assert.is(out, "");
      }
      assert.equal(state(data), before);
      assert.not.ok(existsSync(join(data, "backups")));
    }));
}

test("leaves the log of a crashed newer program alone", () =>
  inDirectory(async (home) => {
    const data = join(home, "data");
    place(3, data);
    age(data, 99);
    writeFileSync(join(data, "assay.db-wal"), "of the newer program");
    const before = state(data);
    assert.is((await cli(["serve", "--data", data, "--listen", "127.0.0.1:0"])).code, 3);
    assert.equal(state(data), before);
  }));

test.run();
