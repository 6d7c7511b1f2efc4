/** The story that `make fixture` tells at the next release, told to this program: a fixture is never made again. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openDatabase, schemaVersion } from "../../src/store/db/database.ts";
import { createClient } from "../binary/client.ts";
import { ACCOUNTS, ask, BOT_KEY, scan, tell } from "../cases/upgrades/story.ts";
import type { Door } from "../cases/upgrades/story.ts";
import { cli, inDirectory, start } from "../cli/in-process.ts";
import { BASE_URL, lost, MOVES } from "./fixture.ts";

const test = suite("upgrades/story");

/** Tables that the story leaves empty, and why. */
const EMPTY: Readonly<Record<string, string>> = {
  allowlist_ends: "no entry of the story ends",
  api_key_warnings: "a warning is due days later",
  evidence_place: "evidence was never elsewhere",
  identities: "a person signs in with OpenID Connect",
  legal_holds: "the operator sets them",
  passwords: "the operator sets the first one",
  retention_rules: "the operator sets them",
  retention_runs: "a rule deletes something days later",
  sessions: "a person signs in",
  snapshot_setbacks: "a clock was wrong",
  tombstones: "a rule deletes something days later",
};

/** Starts the server on that directory, calls `body` with its URL, and stops it. */
async function serving<T>(data: string, body: (url: string) => Promise<T>): Promise<T> {
  const network = ["--listen", "127.0.0.1:0", "--base-url", BASE_URL];
  const bootstrap = ["--bootstrap", join(data, "apply.yml")];
  const server = start(["serve", "--data", data, ...bootstrap, ...network, "--log-level", "error"]);
  const url = /listening on (http:\/\/[^\s"]+)/.exec(await server.wrote(/listening on/))?.[1] ?? "";
  try {
    return await body(url);
  } finally {
    assert.is((await server.stop()).code, 0);
  }
}

test("the story fills the tables of this schema, and its answers stay the same after a restart", () =>
  inDirectory(async (home) => {
    const data = join(home, "data");
    const era = schemaVersion();
    const key = (await cli(["init", "--data", data, "--org", "acme", "--user", "ops"])).out.trim();
    writeFileSync(join(data, "apply.yml"), ACCOUNTS);
    const webhook = await cli(["webhook", "enable", "sonar", "--data", data, "--org", "acme", "--json"]);
    const told = await serving(data, async (url) => {
      const client = createClient(url, key);
      await tell(client, createClient(url, BOT_KEY), era);
      await scan(url, JSON.parse(webhook.out) as Door);
      return ask(client, era);
    });
    const again = await serving(data, (url) => ask(createClient(url, key), era));
    assert.equal(
      lost(told, again).filter((problem) => !MOVES.test(problem)),
      [],
    );

    const db = openDatabase(data, 0);
    const tables = db
      .prepare<[], string>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
      )
      .pluck()
      .all();
    const empty = tables.filter((name) => db.prepare(`SELECT 1 FROM "${name}" LIMIT 1`).get() === undefined);
    db.close();
    assert.equal(empty, Object.keys(EMPTY).sort());
  }));

test.run();
