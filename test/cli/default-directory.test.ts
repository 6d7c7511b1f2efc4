/** The data directory of commands that are not given one. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { COMMANDS } from "../../src/cli/commands.ts";
import { cli, inDirectory, start } from "./in-process.ts";

const test = suite("cli/default-directory");

/** A home in which Assay has the data of organization acme. */
async function home(directory: string): Promise<{ env: { HOME: string }; data: string }> {
  const env = { HOME: directory };
  const made = await cli(["init", "--org", "acme", "--user", "ops"], { env });
  const data = join(directory, ".local", "state", "assay");
  assert.is(
    made.err,
    `created organization acme with admin ops in ${data}; this API key is not shown again:\n`,
    made.out,
  );
  return { env, data };
}

test("assay serve runs without options, and says where its data are", () =>
  inDirectory(async (directory) => {
    const { env, data } = await home(directory);
    const server = start(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"], { env });
    await server.wrote(/API reference/);
    assert.match(server.out(), `data directory: ${data} (the default; --data names another)\nlistening on http://`);
    await server.stop();
    const json = start(["serve", "--listen", "127.0.0.1:0", "--json"], { env });
    await json.wrote(/listening/);
    assert.is(JSON.parse(json.out()).data, data);
    await json.stop();
    const named = start(["serve", "--listen", "127.0.0.1:0", "--json", "--data", data], { env });
    await named.wrote(/listening/);
    assert.is(JSON.parse(named.out()).data, undefined);
    await named.stop();
  }));

test("other commands use the same directory, which the environment decides", () =>
  inDirectory(async (directory) => {
    const { env } = await home(directory);
    assert.match((await cli(["user", "list"], { env })).out, /^ops /m);
    assert.match((await cli(["config", "show"], { env })).out, /^data +\S+\/\.local\/state\/assay +\[default\]$/m);
    const elsewhere = join(directory, "xdg", "assay");
    assert.equal(await cli(["user", "list"], { env: { ...env, XDG_STATE_HOME: join(directory, "xdg") } }), {
      code: 1,
      out: "",
      err:
        `assay: there is no data directory ${elsewhere}; give another with --data (assay dev keeps its own in ` +
        ".assay-dev of its working directory), or create one with assay serve, assay dev, assay init or assay apply\n",
    });
  }));

/** What the commands without a default are called with. */
const NAMED: Readonly<Record<string, readonly string[]>> = {
  apply: ["-"],
  restore: ["-"],
  "accept-loss": [],
  "retention run": ["--plan", `1-${"0".repeat(24)}`],
};

test("what could do harm in a wrong directory has no default, and says so in its help", () =>
  inDirectory(async (directory) => {
    const { env, data } = await home(directory);
    const before = readdirSync(data);
    assert.equal(
      new Set(COMMANDS.filter(({ namesData }) => namesData === true).map(({ name }) => name)),
      new Set(Object.keys(NAMED)),
    );
    for (const [name, args] of Object.entries(NAMED)) {
      const { code, out, err } = await cli([...name.split(" "), ...args], { env, stdin: "organizations: []" });
      assert.equal({ code, out }, { code: 2, out: "" }, name);
      assert.match(err, /^assay: data is not set: give the path of a directory with --data DIRECTORY or /, name);
      assert.match(
        (await cli(["help", ...name.split(" ")])).out,
        / {2}Directory of the database and the evidence \(ASSAY/,
      );
    }
    assert.equal(readdirSync(data), before);
  }));

test("every usage says whether the directory has to be named", () => {
  for (const { name, usage, options, namesData = false } of COMMANDS) {
    if (!("data" in options)) continue;
    assert.is(/(?<!\[)--data DIRECTORY/.test(usage), namesData, `${name} ${usage}`);
    assert.is(/\[--data DIRECTORY\]/.test(usage), !namesData, `${name} ${usage}`);
  }
});

test("without a home there is no default", () =>
  inDirectory(async (directory) => {
    const { code, err } = await cli(["serve"], { cwd: directory });
    assert.is(code, 2);
    assert.match(err, /^assay: data is not set: give the path of a directory with --data DIRECTORY or ASSAY_DATA or /);
    assert.not.ok(existsSync(join(directory, ".local")));
  }));

test.run();
