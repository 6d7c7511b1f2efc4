import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  CommandError,
  EXIT,
  reportProblems,
  runCli,
  listTopicNames,
  findTopicText,
  topicTitle,
} from "../../src/cli/framework.ts";
import type { Command, Io } from "../../src/cli/framework.ts";
import { renderOptionsHelp } from "../../src/config/resolve.ts";

const capture = () => {
  const out: string[] = [];
  const err: string[] = [];
  const io: Io = {
    stdout: (text) => void out.push(text),
    stderr: (text) => void err.push(text),
    written: () => Promise.resolve(),
    stdin: (async function* () {})(),
    env: {},
    cwd: "/",
    pid: 1,
    forget: () => undefined,
    becomeUser: () => undefined,
    isTty: false,
    stdinIsTty: false,
    askHidden: async () => null,
    stderrIsTty: false,
    writeBytes: () => Promise.resolve(),
    onSignal: () => undefined,
    stopRequested: () => Promise.resolve("SIGTERM"),
    onCrash: () => undefined,
  };
  return { io, out, err };
};

const command = (name: string, more: Partial<Command> = {}): Command => ({
  name,
  summary: `Do ${name}`,
  usage: "",
  options: {},
  takesConfig: false,
  run: async (_, io) => {
    io.stdout(`ran ${name}\n`);
    return EXIT.done;
  },
  ...more,
});

const COMMANDS: Command[] = [
  command("serve", { takesConfig: true, usage: "[OPTIONS]" }),
  command("verify", { run: async () => EXIT.damaged }),
  command("version"),
  command("key create", {
    usage: "USER --description TEXT",
    options: { description: { kind: "text", placeholder: "TEXT", description: "What the key is for" } },
    positionals: { min: 1, max: 1, names: ["USER"] },
    run: async (args, io) => {
      io.stdout(`${args.positionals.join()} ${args.texts.get("description")?.join()} ${args.switches.has("json")}\n`);
      return EXIT.done;
    },
  }),
  command("key list"),
  command("key revoke", {
    run: async () => {
      throw new CommandError("API key not found");
    },
  }),
  command("locked", {
    run: async () => {
      throw new CommandError("the data directory is in use", EXIT.dataInUse);
    },
  }),
  command("missing", {
    run: async () => {
      throw Object.assign(new Error("ENOENT: no such file"), { code: "ENOENT" });
    },
  }),
  command("buggy", {
    run: async () => {
      throw new TypeError("oops");
    },
  }),
  command("throws", {
    run: () => {
      throw "text";
    },
  }),
];

const run = async (...argv: string[]) => {
  const { io, out, err } = capture();
  const code = await runCli(COMMANDS, argv, io);
  return { code, out: out.join(""), err: err.join("") };
};

const width = Math.max(...listTopicNames().map((name) => name.length)) + 2;
const TOPICS = listTopicNames()
  .map((name) => `  ${name.padEnd(width)}${topicTitle(name)}\n`)
  .join("");

const OVERVIEW = `Usage: assay COMMAND [OPTIONS]

Commands:
  serve       Do serve
  verify      Do verify
  version     Do version
  key create  Do key create
  key list    Do key list
  key revoke  Do key revoke
  locked      Do locked
  missing     Do missing
  buggy       Do buggy
  throws      Do throws

Topics:
${TOPICS}
assay help COMMAND    show the usage and options of a command
assay help TOPIC      read a topic of the operator's guide
assay help WORD       search topics, commands and options for a word
`;

const KEY_HELP = `Usage: assay key COMMAND [OPTIONS]

Commands:
  key create  Do key create
  key list    Do key list
  key revoke  Do key revoke
`;

const CREATE_HELP = `Usage: assay key create USER --description TEXT

Do key create

Options:
  --description TEXT  What the key is for
  --help              Show this help
  --json              Write results and errors as JSON
`;

const test = suite("cli/framework");

test("prints every form of help to stdout", async () => {
  const table: [string[], string][] = [
    [[], OVERVIEW],
    [["help"], OVERVIEW],
    [["--help"], OVERVIEW],
    [["-h"], OVERVIEW],
    [["help", "--json"], OVERVIEW],
    [["help", "key"], KEY_HELP],
    [["key", "--help"], KEY_HELP],
    [["key", "-h"], KEY_HELP],
    [["key", "nope", "--help"], KEY_HELP],
    [["help", "key", "create"], CREATE_HELP],
    [["key", "create", "--help"], CREATE_HELP],
    [["key", "create", "--nope", "-h"], CREATE_HELP],
  ];
  for (const [argv, out] of table) assert.equal(await run(...argv), { code: 0, out, err: "" }, argv.join(" "));
});

test("lists the configuration options in the help of a command that takes them", async () => {
  const { code, out } = await run("serve", "--help");
  assert.is(code, 0);
  assert.ok(out.endsWith(`\nConfiguration:\n${renderOptionsHelp()}`));
});

test("runs commands with their arguments and returns their exit code", async () => {
  assert.equal(await run("serve", "--listen", "h:1"), { code: 0, out: "ran serve\n", err: "" });
  assert.equal(await run("--version"), { code: 0, out: "ran version\n", err: "" });
  assert.equal(await run("key", "create", "ops", "--description=x", "--json"), {
    code: 0,
    out: "ops x true\n",
    err: "",
  });
  assert.equal(await run("key", "create", "--description=x", "--", "--help"), {
    code: 0,
    out: "--help x false\n",
    err: "",
  });
  assert.equal(await run("verify"), { code: 5, out: "", err: "" });
});

test("a result that cannot be written makes a success a failure, and is reported", async () => {
  const error = Object.assign(new Error("ENOSPC"), { code: "ENOSPC", syscall: "write" });
  const told =
    "cannot write to standard output: no space is left on the disk (ENOSPC); free some space, or use another disk";
  const fails = async (...argv: string[]) => {
    const { io, err } = capture();
    const code = await runCli(COMMANDS, argv, { ...io, written: () => Promise.reject(error) });
    return { code, err: err.join("") };
  };
  for (const argv of [["version"], [], ["help", "key"], ["key", "--help"]])
    assert.equal(await fails(...argv), { code: 1, err: `assay: ${told}\n` }, argv.join(" "));
  assert.equal(await fails("version", "--json"), { code: 1, err: `{"error":"${told}"}\n` });
  assert.equal(await fails("verify"), { code: 5, err: `assay: ${told}\n` });
});

test("explains wrong usage on stderr with exit code 2", async () => {
  const table: [string[], string][] = [
    [["srve"], 'assay: unknown command "srve"; did you mean serve?\n'],
    [["ver"], 'assay: unknown command "ver"; did you mean verify or version?\n'],
    [["frobnicate"], 'assay: unknown command "frobnicate"; see assay help\n'],
    [[""], 'assay: unknown command ""; see assay help\n'],
    [["keys"], 'assay: unknown command "keys"; did you mean key?\n'],
    [["key"], "assay: key needs a subcommand: key create, key list, key revoke\n"],
    [["key", "--json"], '{"error":"key needs a subcommand: key create, key list, key revoke"}\n'],
    [["key", "creat"], 'assay: unknown command "key creat"; did you mean key create?\n'],
    [["help", "key", "creat"], 'assay: unknown command "key creat"; did you mean key create?\n'],
    [["help", "xyzzy"], 'assay: unknown command "xyzzy"; see assay help\n'],
    [["help", "verfy"], 'assay: unknown command "verfy"; did you mean verify?\n'],
    [["help", "key", "xyzzy"], 'assay: unknown command "key xyzzy"; see assay help\n'],
    [["help", "verify", "xyzzy"], 'assay: there is no command "verify xyzzy"; see assay help verify\n'],
    [["help", "--"], "assay: options come after the command: assay COMMAND --; see assay help\n"],
    [["--json", "serve"], '{"error":"options come after the command: assay COMMAND --json; see assay help"}\n'],
    [["serve", "now"], 'assay: unexpected argument "now"\nassay: see assay help serve\n'],
    [["key", "list", "--listen=x"], "assay: unknown option --listen\nassay: see assay help key list\n"],
    [
      ["key", "create", "--json", "--x"],
      '{"error":"unknown option --x; argument USER is missing; see assay help key create"}\n',
    ],
  ];
  for (const [argv, err] of table) {
    assert.equal(await run(...argv), { code: 2, out: "", err }, argv.join(" "));
  }
});

test("refuses --version if there is no version command", async () => {
  const { io, err } = capture();
  assert.is(await runCli([command("serve")], ["--version"], io), 2);
  assert.equal(err, ["assay: options come after the command: assay COMMAND --version; see assay help\n"]);
});

test("maps errors of commands to messages and exit codes", async () => {
  assert.equal(await run("key", "revoke"), { code: 1, out: "", err: "assay: API key not found\n" });
  assert.equal(await run("key", "revoke", "--json"), { code: 1, out: "", err: '{"error":"API key not found"}\n' });
  assert.equal(await run("locked"), { code: 4, out: "", err: "assay: the data directory is in use\n" });
  assert.equal(await run("missing"), { code: 1, out: "", err: "assay: ENOENT: no such file\n" });
  assert.equal(await run("throws"), { code: 1, out: "", err: "assay: unexpected failure: text\n" });
  const { code, err } = await run("buggy");
  assert.is(code, 1);
  assert.match(err, /^assay: unexpected failure: TypeError: oops\n {4}at /);
});

test("reports problems as lines or one JSON object, with control characters escaped", () => {
  const { io, err } = capture();
  reportProblems(io, ["a", "b\u001b[31m\rc"], { json: false });
  reportProblems(io, ["a", 'b "c"'], { json: true });
  assert.equal(err, ["assay: a\n", "assay: b\\u001b[31m\\u000dc\n", '{"error":"a; b \\"c\\""}\n']);
});

test("keeps the exit codes", () => {
  assert.equal(EXIT, { done: 0, failed: 1, usage: 2, newerDatabase: 3, dataInUse: 4, damaged: 5 });
});

test("gives every topic a short title", () => {
  for (const name of listTopicNames()) assert.match(topicTitle(name), /^\S.{8,70}$/, name);
});

test("prints a topic unchanged, after the help of the command with the same name", async () => {
  const text = findTopicText("configuration") as string;
  assert.match(text, /^# \S/);
  assert.equal(await run("help", "configuration"), { code: 0, out: text, err: "" });
  assert.equal(await run("help", "Configuration"), { code: 0, out: text, err: "" });
  assert.match(
    (await run("help", "configuratio")).out,
    /^No topic or command is named "configuratio"\. Matches:\n\nTopics:\n {2}configuration {2,}\S/,
  );
  const named = { ...(COMMANDS[0] as Command), name: "configuration" };
  const { io, out } = capture();
  assert.is(await runCli([named], ["help", "configuration"], io), 0);
  assert.ok(out.join("").startsWith("Usage: assay configuration") && out.join("").endsWith(`\n${text}`), out.join(""));
});

test.run();
