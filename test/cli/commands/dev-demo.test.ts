/** `assay dev --demo`: what it prints leads somewhere, and says what it promises. */
import { execFile, spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findUnprinted } from "../../guide/instructions.ts";
import { readmeBlock } from "../../rules/documentation.ts";
import { createBrowser } from "../../web/browser.ts";
import { cli, inDirectory, start } from "../in-process.ts";
import type { Started } from "../in-process.ts";

const test = suite("cli/commands/dev-demo");

const runFile = promisify(execFile);
const hasCurl = spawnSync("curl", ["--version"]).status === 0;
if (!hasCurl) console.log("skipped: running the block that assay dev prints needs curl");

type Stop = { title: string; url: string; command: string | null };
type Fields = { listening: string; api_key: string; script: string; tour?: Stop[] };

const dev = (directory: string, ...options: string[]): Started =>
  start(["dev", "--listen", "127.0.0.1:0", ...options], { cwd: directory });

/** The arguments of a printed command; none of them has a space. */
const wordsOf = (command: string): string[] => command.split(" ").slice(1);

async function checkTour(tour: readonly Stop[], key: string): Promise<void> {
  const browser = createBrowser(new URL(tour[0]?.url ?? "").origin);
  await browser.login("dev", key);
  for (const { title, url } of tour) {
    const { pathname, search } = new URL(url);
    assert.is((await browser.get(`${pathname}${search}`)).status, 200, `${title}: ${url}`);
  }
  const explained: string[] = [];
  for (const { command } of tour) {
    if (command === null) continue;
    const { code, out, err } = await cli(wordsOf(command));
    assert.equal({ code, err }, { code: 0, err: "" }, command);
    explained.push(out);
  }
  const [now = "", incident = "", end = ""] = explained;
  assert.match(now, /^'acme\/backend-api:2\.41\.0' in production-eu#213 is NON-COMPLIANT: it does not satisfy /);
  const [command = "", ...printed] = readmeBlock("text explain").split("\n");
  assert.ok(
    tour.some((stop) => command === `$ ${stop.command}`.replace(/ \S*(?=\.assay-dev$)/, " ")),
    command,
  );
  assert.is(findUnprinted(printed.join("\n"), now), null, "README.md");
  assert.match(now, "the one in trail 'release-2.41.0' of flow 'backend-api' is not compliant (by attestation ");
  assert.match(incident, /^'acme\/backend-api:2\.40\.0' in production-eu#169 is NON-COMPLIANT: it does not satisfy /);
  assert.match(
    incident,
    "    FAILED requires a compliant snyk attestation named 'snyk-container'\n" +
      "           the one in trail 'release-2.40.0' of flow 'backend-api' is not compliant (by attestation ",
  );
  assert.match(end, /^production-eu#172 is COMPLIANT: all \d+ artifacts are compliant/);
}

test("fills a new directory, and prints a tour whose pages and commands show the incident; later starts too", () =>
  inDirectory(async (directory) => {
    const server = dev(directory, "--demo", "--json");
    await server.wrote(/\n/);
    const { api_key: key, tour = [], script } = JSON.parse(server.out()) as Fields;
    assert.is(tour.length, 7);
    await checkTour(tour, key);

    if (hasCurl) {
      const { stdout } = await runFile("/bin/sh", ["-euc", script], { env: { PATH: process.env["PATH"] ?? "" } });
      assert.match(
        stdout,
        /\napp is COMPLIANT in first-flow and COMPLIANT in first-environment: open http:\S+\/first-environment, /,
      );
    }
    const { code, err } = await server.stop();
    assert.is(code, 0);
    // A busy machine logs slow requests.
    assert.not.match(err, /"level":"error"|"msg":"delivery"|clock/);

    const refused = await dev(directory, "--demo").ended;
    assert.equal(refused, {
      code: 1,
      out: "",
      err:
        `assay: ${join(directory, ".assay-dev")} has data already: run assay dev without --demo to serve it, or give ` +
        "a new directory with --data\n",
    });

    const again = dev(directory);
    const text = await again.wrote(/7\. .*\n.*\n/);
    assert.match(text, `API key: ${key}\n`);
    assert.match(
      text,
      /\nWhat to look at, in this order:\n\n1\. What runs in all environments.*\n {3}http:\S+\/acme\n\n2\. /,
    );
    assert.match(
      text,
      `   assay explain production-eu#169 3304f20 --org acme --data ${join(directory, ".assay-dev")}\n`,
    );
    assert.is((await again.stop()).code, 0);
  }));

test("a stop while it is being made leaves nothing", () =>
  inDirectory(async (directory) => {
    const server = dev(directory, "--demo");
    const { code, out, err } = await server.stop();
    assert.equal({ code, out, err }, { code: 1, out: "", err: "assay: stopped by SIGTERM; nothing was kept\n" });
    assert.equal(readdirSync(directory), []);
  }));

test("a directory that assay dev has filled without the demonstration has no tour", () =>
  inDirectory(async (directory) => {
    const server = dev(directory, "--json");
    await server.wrote(/\n/);
    assert.is((JSON.parse(server.out()) as Fields).tour, undefined);
    await server.stop();
    const { err } = await dev(directory, "--demo").ended;
    assert.match(err, "has data already");
    assert.ok(existsSync(join(directory, ".assay-dev", "assay.db")));
  }));

test.run();
