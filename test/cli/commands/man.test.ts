import { spawnSync } from "node:child_process";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { COMMANDS } from "../../../src/cli/commands.ts";
import { EXIT, listTopicNames } from "../../../src/cli/framework.ts";
import { manualPage } from "../../../src/cli/commands/man.ts";
import { OPTION_ROWS } from "../../../src/config/options.ts";
import { cli } from "../in-process.ts";

const test = suite("cli/commands/man");

const groff = (...args: string[]) =>
  spawnSync("groff", ["-man", "-Tutf8", "-P-cbou", "-rLL=200n", ...args], {
    encoding: "utf8",
    input: manualPage(COMMANDS, "1.2.3"),
  });
const found = spawnSync("groff", ["--version"]).status === 0;
const formatted = found ? test : test.skip;
if (!found) console.log("skipped: the manual is not formatted without groff");

test("the page has all commands, options, exit codes and topics, and is reproducible", async () => {
  const { code, out, err } = await cli(["man"]);
  assert.equal({ code, err }, { code: 0, err: "" });
  assert.is((await cli(["man"])).out, out);
  const plain = out.replaceAll("\\-", "-");
  assert.equal(
    COMMANDS.filter(({ name }) => !plain.includes(`.SS "assay ${name}`)).map(({ name }) => name),
    [],
  );
  assert.equal(
    OPTION_ROWS.filter(({ flag, variable }) => !plain.includes(`\\fB--${flag}\\fR`) || !plain.includes(variable)).map(
      ({ flag }) => flag,
    ),
    [],
  );
  assert.equal(
    Object.values(EXIT).filter((exit) => !plain.includes(`\n.B ${exit}\n`)),
    [],
  );
  assert.equal(
    listTopicNames().filter((name) => !plain.includes(`\n.B ${name}\n`)),
    [],
  );
  assert.not.match(out, /\b20\d\d-\d\d-\d\d\b/);
});

formatted("groff formats it without a warning", () => {
  const { status, stdout, stderr } = groff("-ww");
  assert.equal({ status, stderr }, { status: 0, stderr: "" });
  assert.match(stdout, /^ASSAY\(1\) +User Commands +ASSAY\(1\)\n/);
  assert.match(stdout, /\nAssay 1\.2\.3 +ASSAY\(1\)\n/);
});

formatted("what looks like a request, an escape or a quotation to roff is text", () => {
  const odd = {
    name: "odd",
    summary: "'tis a summary",
    usage: 'A "B" \\C',
    options: {},
    takesConfig: false,
    details: [".SH NO HEADING", "a\\fBb ~ ^ `c` 'd' -- e"],
    run: async () => EXIT.done,
  };
  const { stdout, stderr } = spawnSync("groff", ["-man", "-Tutf8", "-P-cbou", "-ww"], {
    encoding: "utf8",
    input: manualPage([odd], "1"),
  });
  assert.is(stderr, "");
  for (const text of ['assay odd A "B" \\C', "'tis a summary.", ".SH NO HEADING a\\fBb ~ ^ `c` 'd' -- e"])
    assert.ok(stdout.includes(text), `${text} in\n${stdout.slice(0, 2000)}`);
});

test.run();
