import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseArguments } from "../../src/cli/args.ts";
import type { CommandOption } from "../../src/cli/args.ts";
import { findNearestNames } from "../../src/domain/text/near-names.ts";

const OPTIONS: Record<string, CommandOption> = {
  help: { kind: "switch", description: "" },
  json: { kind: "switch", description: "" },
  description: { kind: "text", placeholder: "TEXT", description: "" },
  tag: { kind: "text", placeholder: "TAG", repeatable: true, description: "" },
};

const parse = (
  argv: string[],
  { takesConfig = true, least = 0, most = 0, words = undefined as string[] | undefined } = {},
) =>
  parseArguments(argv, {
    options: OPTIONS,
    takesConfig,
    positionals: { min: least, max: most, names: ["FIRST", "SECOND"], ...(words && { words }) },
  });

const test = suite("cli/args");

test("separates switches, texts, configuration options and positionals", () => {
  const { args, problems } = parse(
    [
      "ops",
      "--json",
      "--description",
      "my laptop",
      "--listen=h:1",
      "--tag",
      "a",
      "--tag=b",
      "--data",
      "d",
      "--",
      "--json",
    ],
    { least: 1, most: 2 },
  );
  assert.equal(problems, []);
  assert.equal(args, {
    switches: new Set(["json"]),
    texts: new Map([
      ["description", ["my laptop"]],
      ["tag", ["a", "b"]],
    ]),
    flags: { listen: "h:1", data: "d" },
    positionals: ["ops", "--json"],
  });
});

test("accepts no arguments, a repeated switch, -h, a lone dash, and empty and dashed values", () => {
  assert.equal(parse([]).args, { switches: new Set(), texts: new Map(), flags: {}, positionals: [] });
  assert.equal(parse(["-h", "--json", "--json"]).args.switches, new Set(["help", "json"]));
  assert.equal(parse(["-"], { most: 1 }).args.positionals, ["-"]);
  assert.equal(parse(["--data", "-", "--description=", "--listen=-x"]).args, {
    switches: new Set(),
    texts: new Map([["description", [""]]]),
    flags: { data: "-", listen: "-x" },
    positionals: [],
  });
});

test("reports each kind of mistake", () => {
  const table: [string[], string[]][] = [
    [
      ["--lisen", "x"],
      ["unknown option --lisen; did you mean --listen?", 'unexpected argument "x"'],
    ],
    [["--zzzzzz"], ["unknown option --zzzzzz"]],
    [["-x"], ["unknown option -x"]],
    [["-json"], ["unknown option -j", "unknown option -s", "unknown option -o", "unknown option -n"]],
    [["--no-json"], ["unknown option --no-json"]],
    [["--no-json=1"], ["unknown option --no-json"]],
    [["--json=yes"], ["--json takes no value"]],
    [["--data"], ["--data needs a value; write --data=VALUE if the value begins with a dash"]],
    [["--data", "--json"], ["--data needs a value; write --data=VALUE if the value begins with a dash"]],
    [
      ["--data", "--", "x"],
      ["--data needs a value; write --data=VALUE if the value begins with a dash", 'unexpected argument "x"'],
    ],
    [["--data", "a", "--data=b", "--data=c"], ["--data is given more than once"]],
    [["--description=a", "--description", "b"], ["--description is given more than once"]],
    [
      ["--__proto__=x", "--toString"],
      ["unknown option --__proto__", "unknown option --toString"],
    ],
    [["a", "b"], ['unexpected argument "a"']],
    [["--"], []],
    [[""], ['unexpected argument ""']],
  ];
  for (const [argv, expected] of table) assert.equal(parse(argv).problems, expected, argv.join(" "));
});

test("reports all mistakes at once", () => {
  assert.equal(parse(["--json=1", "--nope", "x", "--data"]).problems, [
    "--json takes no value",
    "unknown option --nope",
    "--data needs a value; write --data=VALUE if the value begins with a dash",
    'unexpected argument "x"',
  ]);
});

test("also returns the valid part of a line with mistakes", () => {
  const { args } = parse(["--nope", "--data", "d", "--description=x", "--json=1", "a"], { most: 1 });
  assert.equal([args.flags, [...args.texts], args.positionals], [{ data: "d" }, [["description", ["x"]]], ["a"]]);
});

test("refuses configuration options for a command without configuration", () => {
  assert.equal(parse(["--listen=x"], { takesConfig: false }).problems, ["unknown option --listen"]);
});

test("checks the number of positionals", () => {
  assert.equal(parse([], { least: 1, most: 1 }).problems, ["argument FIRST is missing"]);
  assert.equal(parse([], { least: 2, most: 2 }).problems, ["argument FIRST is missing", "argument SECOND is missing"]);
  assert.equal(parse(["a"], { least: 2, most: 3 }).problems, ["argument SECOND is missing"]);
  assert.equal(parse([], { least: 1, most: 1, words: ["a", "b", "c"] }).problems, [
    "argument FIRST is missing: give a, b or c",
  ]);
  assert.equal(parse(["a", "b"], { least: 1, most: 1 }).problems, ['unexpected argument "b"']);
});

test("truncates long words in messages", () => {
  const [problem] = parse([`--${"x".repeat(5000)}`]).problems;
  assert.is(problem, `unknown option --${"x".repeat(98)}...`);
});

test("suggests at most three near names by prefix and edit distance, nearest first", () => {
  const names = ["serve", "backup", "restore", "version", "verify", "key"];
  const table: [string, string[]][] = [
    ["serv", ["serve"]],
    ["sevre", ["serve"]],
    ["ver", ["verify", "version"]],
    ["kye", ["key"]],
    ["backpu", ["backup"]],
    ["restart", ["restore"]],
    ["", []],
    ["frobnicate", []],
    ["x".repeat(41), []],
  ];
  for (const [word, expected] of table) assert.equal(findNearestNames(word, names), expected, word);
  assert.equal(findNearestNames("a", ["a4", "a3", "a2", "a1"]), ["a1", "a2", "a3"]);
});

test.run();
