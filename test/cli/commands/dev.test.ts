import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createPasswordHasher } from "../../../src/auth/password-hashing.ts";
import { auditOf, cli, countRows, inDirectory, look, start } from "../in-process.ts";

const test = suite("cli/commands/dev");

/** Starts and stops the server, and returns its --json output. */
async function run(directory: string, ...options: string[]) {
  const server = start(["dev", "--json", "--listen", "127.0.0.1:0", ...options], { cwd: directory });
  await server.wrote(/\n/);
  const fields = JSON.parse(server.out());
  const response = await fetch(`${fields.listening}/api/v2/organizations/acme`, {
    headers: { Authorization: `Bearer ${fields.api_key}` },
  });
  await response.arrayBuffer();
  const { code, err } = await server.stop();
  assert.equal({ code, err }, { code: 0, err: "" }, "the log level is warn");
  return { ...fields, status: response.status };
}

const isPassword = (data: string, password: string): Promise<boolean> =>
  createPasswordHasher().verify(
    password,
    look(data, (store) => store.passwords.find(store.users.find("dev")?.id ?? 0)),
  );

test("the first start creates an organization, a user and a key; later starts print the same key", () =>
  inDirectory(async (directory) => {
    const first = await run(directory);
    assert.is(first.status, 200);
    assert.equal(readdirSync(directory), [".assay-dev"]);
    const data = join(directory, ".assay-dev");
    assert.is(statSync(join(data, "dev-key")).mode & 0o777, 0o600);
    assert.is(readFileSync(join(data, "dev-key"), "utf8"), `${first.api_key}\n`);
    const { listening, base_url, reference, pages, script, ...rest } = first;
    assert.equal(
      { base_url, reference, pages },
      { base_url: listening, reference: `${listening}/api/v2/doc/`, pages: `${listening}/acme` },
    );
    assert.match(script, `export KOSLI_HOST='${listening}'\n`);
    assert.equal(rest, {
      user: "dev",
      organization: "acme",
      api_key: first.api_key,
      status: 200,
      environment: {
        KOSLI_HOST: listening,
        KOSLI_ORG: "acme",
        KOSLI_API_TOKEN: first.api_key,
        KOSLI_FLOW: "first-flow",
      },
    });

    assert.ok(await isPassword(data, first.api_key), "the key is the password in the web pages");

    const [rows, audit] = [countRows(data), auditOf(data)];
    const second = await run(directory);
    assert.equal({ api_key: second.api_key, status: second.status }, { api_key: first.api_key, status: 200 });
    assert.equal({ countRows: countRows(data), auditOf: auditOf(data) }, { countRows: rows, auditOf: audit });
  }));

test("keeps the developer's changes and replaces a revoked, lost or damaged key", () =>
  inDirectory(async (directory) => {
    const first = await run(directory, "--data", "d");
    const data = join(directory, "d");
    await cli(["apply", "-", "--data", data], {
      stdin: "organizations: [{name: acme, public: true, features: {controls: false}}]",
    });
    look(data, (_, db) => db.exec("UPDATE api_keys SET revoked_at = 1"));
    const second = await run(directory, "--data", "d");
    assert.is(second.status, 200);
    assert.is.not(second.api_key, first.api_key);
    assert.equal(
      look(data, (store) => [
        store.organizations.find("acme")?.is_public,
        store.organizations.find("acme")?.controls_enabled,
      ]),
      [1, 0],
    );
    const created = 'dev api_key.created - {"user":"dev","key_id":ID,"description":"assay dev","expires_at":0}';
    assert.is(auditOf(data).at(-2), created);
    assert.match(String(auditOf(data).at(-1)), /^dev password\.set /);
    assert.ok(await isPassword(data, second.api_key), "the new key is the password");

    writeFileSync(join(data, "dev-key"), "not a key");
    const third = await run(directory, "--data", "d");
    assert.is(third.status, 200);
    assert.is.not(third.api_key, second.api_key);
  }));

test("refuses data that was set up otherwise, and does not change it", () =>
  inDirectory(async (data) => {
    await cli(["init", "--data", data, "--org", "prod", "--user", "ops"]);
    const rows = countRows(data);
    assert.equal(await cli(["dev", "--data", data, "--listen", "127.0.0.1:0"]), {
      code: 1,
      out: "",
      err:
        `assay: ${data} was not set up by assay dev: run assay serve on it, or choose another directory with ` +
        "--data\n",
    });
    assert.equal(countRows(data), rows);
    assert.not.ok(readdirSync(data).includes("dev-key"));
  }));

test.run();
