/** The tables of list commands, and the sentences for empty lists. */
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { COMMANDS } from "../../src/cli/commands.ts";
import { renderTable } from "../../src/cli/table.ts";
import { cli, inDirectory } from "./in-process.ts";

const test = suite("cli/lists");

/**
 * The arguments of each list command besides --data, and its text and JSON output on data with an organization and
 * nothing else.
 */
const EMPTY: Record<string, { words: string[]; text: string; json: object }> = {
  "user list": { words: [], text: "no users\n", json: { users: [] } },
  "session list": { words: [], text: "no open sessions\n", json: { sessions: [] } },
  "member list": {
    words: ["--org", "acme"],
    text: "acme has no members\n",
    json: { organization: "acme", members: [] },
  },
  "service-account list": {
    words: ["--org", "bare"],
    text: "bare has no service accounts\n",
    json: { organization: "bare", service_accounts: [] },
  },
  "key list": { words: ["--org", "acme", "--service-account", "ci"], text: "no valid keys\n", json: { keys: [] } },
  "webhook list": { words: ["--org", "acme"], text: "acme has no inbound webhooks\n", json: { webhooks: [] } },
  "deliveries list": { words: [], text: "no messages\n", json: { deliveries: [] } },
  "retention list": {
    words: [],
    text: "no rules: everything is kept\n\nno legal holds\n",
    json: { rules: [], holds: [] },
  },
  "retention deleted": { words: ["--org", "acme"], text: "nothing was deleted\n", json: { deleted: [] } },
};

test("every list command is covered here", () => {
  const lists = COMMANDS.map(({ name }) => name).filter((name) => / list$/.test(name) || name === "retention deleted");
  assert.equal(lists.sort(), Object.keys(EMPTY).sort());
});

test("prints a sentence for an empty list, and an empty array with --json", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const made = await cli(["apply", "-", "--data", data], {
      stdin: "organizations: [{name: acme, service_accounts: [{name: ci}]}, {name: bare}]",
    });
    assert.is(made.code, 0, made.err);
    for (const [name, { words, text, json }] of Object.entries(EMPTY)) {
      const argv = [...name.split(" "), ...words, "--data", data];
      assert.equal(await cli(argv), { code: 0, out: text, err: "" }, name);
      assert.equal(await cli([...argv, "--json"]), { code: 0, out: `${JSON.stringify(json)}\n`, err: "" }, name);
    }
  }));

test("makes columns as wide as their widest cell in characters, and keeps untrusted text on its line", () => {
  const rows = [
    ["a", "zo\u00eb\n\u001b[31m", "x"],
    ["\u{1f600}\u{1f600}", "b", ""],
  ];
  assert.is(
    renderTable(["H", "NAME", "LAST"], rows, "none"),
    "H   NAME                 LAST\na   zo\u00eb\\u000a\\u001b[31m  x\n\u{1f600}\u{1f600}  b\n",
  );
  assert.is(renderTable(["H"], [], "none"), "none\n");
});

test.run();
