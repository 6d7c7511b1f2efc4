/** Documents say what the code says, and their links and commands exist. */
import { existsSync, globSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { COMMANDS } from "../../src/cli/commands.ts";
import { commandOptions } from "../../src/cli/framework.ts";
import { OPTION_ROWS } from "../../src/config/options.ts";
import { NEEDS, RUN_PAGES, findUnprinted, readInstruction } from "../guide/instructions.ts";
import { readBlocks } from "../guide/page.ts";
import {
  codeOf,
  commandLinesOf,
  commandsPage,
  fixedParts,
  linksOf,
  optionsPage,
  quotedMessages,
  readDocument,
  rolesPage,
  topicsOfGuide,
  topicsPage,
  usualOptions,
  withPart,
} from "./documentation.ts";
import { ROOT } from "./source.ts";

const test = suite("rules/documents");

/** Like a golden, in the document itself: `make golden` writes it. */
function agrees(path: string, made: string): void {
  const file = join(ROOT, path);
  if (process.env["UPDATE_GOLDENS"]) writeFileSync(file, made);
  else
    assert.fixture(
      existsSync(file) ? readDocument(path) : "",
      made,
      `${path} differs from the code; \`make golden\` rewrites it`,
    );
}

test("the page of options is the table of options", () => agrees("src/guide/options.md", optionsPage()));
test("the page of commands is the table of commands", () => agrees("src/guide/commands.md", commandsPage()));
test("the page of configuration has the usual options of the table", () =>
  agrees(
    "src/guide/configuration.md",
    withPart(readDocument("src/guide/configuration.md"), "options", usualOptions()),
  ));
test("the page of roles is the table of permissions", () => agrees("src/guide/roles.md", rolesPage()));
test("the page of topics has every page of the guide", () => agrees("src/guide/topics.md", topicsPage()));

test("the README is a page that a newcomer reads to its end", () => {
  assert.ok(readDocument("README.md").split("\n").length <= 201);
});

/** The pages about the inside, and the procedures that stand beside what they change. */
const forDevelopers = [
  "src/README.md",
  "test/README.md",
  "bin/README.md",
  "src/store/migrations/README.md",
  ...globSync("src/docs/*.md", { cwd: ROOT }),
];

test("src/README.md is read in ten minutes", () => {
  assert.ok(readDocument("src/README.md").split("\n").length <= 91);
});

test("every folder of src/ is in src/README.md, and every file that pages for developers name exists", () => {
  const areas = globSync("src/*", { cwd: ROOT })
    .map((path) => path.slice("src/".length))
    .filter((name) => name !== "README.md");
  const tree = readDocument("src/README.md");
  const missing = areas.filter((name) => !tree.includes(name.endsWith(".ts") ? `    ${name}` : `${name}/  `));
  const gone = forDevelopers.flatMap((path) =>
    [...readDocument(path).matchAll(/`((?:[a-z-]+\/)+[a-z-]+(?:\.[a-z]+)+|[a-z][a-z-]*\.ts)`/g)]
      .map((match) => match[1] as string)
      .filter((name) => globSync([name, `src/**/${name}`, `${dirname(path)}/${name}`], { cwd: ROOT }).length === 0)
      .map((name) => `${path}: ${name}`),
  );
  assert.equal({ missing, gone }, { missing: [], gone: [] });
});

test("every identifier that the pages for developers name exists in the code", () => {
  const code = codeOf("src", "test", "bin");
  const gone = forDevelopers.flatMap((path) =>
    [...readDocument(path).matchAll(/`([a-z]+[A-Z]\w*|[A-Z][a-z]\w*)(?:\(\))?`/g)]
      .map((match) => match[1] as string)
      // `xOf` stands for any function that is named so.
      .filter((name) => name !== "xOf" && !new RegExp(`\\b${name}\\b`).test(code))
      .map((name) => `${path}: ${name}`),
  );
  assert.equal(gone, []);
});

const guide = topicsOfGuide().map((name) => `src/guide/${name}.md`);

test("every page of the guide begins with its topic and is no longer than somebody on call reads", () => {
  for (const path of guide) {
    const topic = path.replace(/^.*\/|\.md$/g, "");
    assert.match(readDocument(path), new RegExp(`^# ${topic.replaceAll("-", "[- ]")}: \\S.*\n`, "i"), path);
    // A fence is nothing to read.
    const lines = readDocument(path)
      .split("\n")
      .filter((line) => !/^ *```/.test(line));
    assert.ok(lines.length <= 121, `${path} has more than 120 lines`);
  }
});

test("every message that the guide quotes is one that the program prints", () => {
  const code = codeOf("src");
  const unknown = guide.flatMap((path) =>
    quotedMessages(readDocument(path))
      .filter((message) => fixedParts(message).some((part) => !code.includes(part)))
      .map((message) => `${path}: ${message}`),
  );
  assert.equal(unknown, []);
});

test("every block of a page that make guide-run follows says whether it is run", () => {
  const used = new Set<string>();
  for (const topic of RUN_PAGES) {
    const blocks = readBlocks(topic);
    assert.ok(blocks.length > 0, topic);
    for (const block of blocks) {
      const instruction = readInstruction(block);
      if ("needs" in instruction && instruction.needs !== null) used.add(instruction.needs);
      if (instruction.kind === "text") assert.equal(commandLinesOf(block.text), [], `${topic}, line ${block.line}`);
    }
  }
  assert.equal([...used].sort(), Object.keys(NEEDS).sort());
});

test("a block without an info string, or with an unknown one, is refused", () => {
  const read = (info: string | null) => readInstruction({ info, text: "assay version\n", line: 7 });
  for (const info of [null, "", "bash", "sh later", "sh needs=luck", "sh file=/etc/x", "yaml", "console", "output now"])
    assert.throws(() => read(info), /^line 7: a block with the info string '.*' says not what it is$/, String(info));
  assert.equal(read("sh"), { kind: "run", needs: null });
  assert.equal(read("sh serves"), { kind: "serve", needs: null });
  assert.equal(read("sh needs=docker"), { kind: "run", needs: "docker" });
  assert.equal(read("yaml file=/etc/a.yaml mode=0600"), { kind: "file", path: "/etc/a.yaml", mode: 0o600 });
});

test("the output of a page may differ in numbers, times and hashes, and in nothing else", () => {
  const page = "backup of /d at 2026-01-02T03:04:05Z: /b.tar\n1204.9 MB in 6.1 s, SHA-256 3f5a...\n";
  const printed = "first\nbackup of /d at 2027-11-12T13:14:15Z: /b.tar\nmore\n0.9 MB in 12.0 s, SHA-256 00ff17\n";
  assert.is(findUnprinted(page, printed), null);
  assert.is(findUnprinted(page, printed.replace("/b.tar", "/c.tar")), page.split("\n")[0]);
  assert.is(findUnprinted(page, printed.split("\n").reverse().join("\n")), page.split("\n")[1]);
});

test("links between documents lead somewhere", () => {
  const contract = globSync("src/docs/contract/*.md", { cwd: ROOT });
  const project = ["README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"];
  const broken = [...project, ...forDevelopers, ...contract, ...guide].flatMap((path) =>
    linksOf(readDocument(path))
      .filter((link) => !existsSync(join(ROOT, dirname(path), link)))
      .map((link) => `${path}: ${link}`),
  );
  assert.equal(broken, []);
});

test("commands and options in documents exist", () => {
  const options = new Set(OPTION_ROWS.map(({ flag }) => flag));
  const groups = new Set(COMMANDS.map(({ name }) => name.split(" ")[0] ?? ""));
  const offences = ["README.md", "SECURITY.md", "CONTRIBUTING.md", ...guide].flatMap((path) =>
    commandLinesOf(readDocument(path)).flatMap((line) =>
      offenceOf(line, groups, options).map((what) => `${path}: ${line}: ${what}`),
    ),
  );
  assert.equal(offences, []);
});

/** What is wrong with a line such as `assay key create --org acme`. */
function offenceOf(line: string, groups: ReadonlySet<string>, config: ReadonlySet<string>): string[] {
  const words = line
    .replace(/\s+#.*$/, "")
    .split(/\s+/)
    .slice(1);
  const [first = ""] = words;
  if (first === "help") {
    const named = words.slice(1).join(" ");
    const known = ["", "COMMAND", "TOPIC", ...topicsOfGuide(), ...groups, ...COMMANDS.map(({ name }) => name)];
    return known.includes(named) ? [] : [`there is no topic ${named}`];
  }
  const found =
    COMMANDS.find(({ name }) => name === words.slice(0, 2).join(" ")) ?? COMMANDS.find(({ name }) => name === first);
  const command = found?.specialize?.(words.slice(1)) ?? found;
  if (!command)
    return groups.has(first) && words.length === 1 ? [] : first === "COMMAND" ? [] : [`there is no command ${first}`];
  const own = new Set(Object.keys(commandOptions(command)));
  const used = words.flatMap((word) => /^\[?--([a-z0-9-]+)/.exec(word)?.[1] ?? []);
  return used
    .filter((flag) => !own.has(flag) && !(command.takesConfig && config.has(flag)))
    .map((flag) => `there is no option --${flag}`);
}

test.run();
