import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { COMMANDS } from "../../../src/cli/commands.ts";
import { createVocabulary } from "../../../src/cli/install/completion-words.ts";
import { OPTION_ROWS } from "../../../src/config/options.ts";
import { cli, inDirectory } from "../in-process.ts";

const test = suite("cli/commands/completion");

const shell = (name: string) => {
  const found = spawnSync(name, ["--version"]).status === 0;
  if (!found) console.log(`skipped: completion in ${name}, which is not here`);
  return found ? test : test.skip;
};
const inBash = shell("bash");
const inZsh = shell("zsh");
const inFish = shell("fish");

const script = async (name: string): Promise<string> => {
  const { code, out, err } = await cli(["completion", name]);
  assert.equal({ code, err }, { code: 0, err: "" });
  return out;
};

/** Returns a shell's completions of the last word of a line. */
type Offers = (line: string) => string[];

/** Checks the cases that all shells share. */
const CASES: readonly (readonly [string, readonly string[]])[] = [
  ["assay syst", ["systemd"]],
  ["assay key ", ["create", "list", "revoke"]],
  ["assay key re", ["revoke"]],
  ["assay key create --desc", ["--description"]],
  ["assay serve --log-level ", ["debug", "error", "fatal", "info", "trace", "warn"]],
  ["assay config show --smtp-t", ["--smtp-tls"]],
  ["assay completion ", ["bash", "fish", "zsh"]],
  ["assay config explain smtp", ["smtp-from", "smtp-tls", "smtp-url"]],
  ["assay help inst", ["installing"]],
  ["assay apply a", ["apply.yml"]],
  ["assay version --listen", []],
  ["assay nonsense --", []],
];

function tryCases(offers: Offers): void {
  for (const [line, expected] of CASES) assert.equal(offers(line).sort(), expected, line);
}

const inFiles = (body: (directory: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    writeFileSync(join(directory, "apply.yml"), "");
    mkdirSync(join(directory, "state"));
    writeFileSync(join(directory, "stray"), "");
    await body(directory);
  });

inBash("bash offers commands, options, words, files and directories", () =>
  inFiles(async (directory) => {
    const file = join(directory, ".script");
    writeFileSync(file, await script("bash"));
    const ask =
      'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _assay; printf "%s\\n" "${COMPREPLY[@]}"';
    const words = (list: readonly string[]): string[] => {
      const { stdout, stderr } = spawnSync("bash", ["--norc", "-c", ask, "bash", file, ...list], {
        cwd: directory,
        encoding: "utf8",
      });
      assert.is(stderr, "");
      return stdout.split("\n").filter((word) => word !== "");
    };
    tryCases((line) => words(line.split(" ")));
    assert.equal(words(["assay", "serve", "--data", "st"]), ["state"]);
    assert.equal(words(["assay", "serve", "--log-level", "=", "w"]), ["warn"], "bash splits at the equals sign");
    assert.equal(words(["assay", "serve", "--log-level", "="]).length, 6);
    assert.equal(words(["assay", "serve", "--base-url", ""]), [], "nobody can guess a URL");
    const options = words(["assay", "serve", "--"]);
    assert.equal(
      OPTION_ROWS.filter(({ flag }) => !options.includes(`--${flag}`)).map(({ flag }) => flag),
      [],
    );
    const complete = spawnSync("bash", ["--norc", "-c", `source "$1"; complete -p assay`, "bash", file], {
      encoding: "utf8",
    });
    assert.is(complete.stdout, "complete -F _assay assay\n");
  }),
);

inFish("fish offers the same", () =>
  inFiles(async (directory) => {
    const file = join(directory, ".script");
    writeFileSync(file, await script("fish"));
    // One shell for all lines, because starting one is slow.
    const lines = [...CASES.map(([line]) => line), "assay serve --data st"];
    const ask = 'source $argv[1]; for line in $argv[2..]; echo "> $line"; complete -C $line; end';
    const { stdout, stderr, status } = spawnSync("fish", ["--no-config", "-c", ask, file, ...lines], {
      cwd: directory,
      encoding: "utf8",
      env: { ...process.env, HOME: directory },
    });
    assert.equal({ status, stderr }, { status: 0, stderr: "" });
    const answers = new Map(
      stdout
        .split("> ")
        .slice(1)
        .map((part) => {
          const [line = "", ...offers] = part.trimEnd().split("\n");
          return [line.trimEnd(), offers.map((offer) => offer.split("\t")[0] as string)];
        }),
    );
    tryCases((line) => answers.get(line.trimEnd()) ?? ["no answer"]);
    assert.equal(answers.get("assay serve --data st"), ["state/"]);
  }),
);

inZsh("zsh takes the script, and defines the function", async () =>
  inDirectory(async (directory) => {
    const file = join(directory, "_assay");
    const text = await script("zsh");
    assert.match(text, /^#compdef assay\n/);
    writeFileSync(file, text);
    assert.equal(spawnSync("zsh", ["-f", "-n", file], { encoding: "utf8" }).stderr, "");
    // compinit reads the first line of each file in $fpath.
    const ask = "fpath=($1 $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[assay]";
    assert.is(spawnSync("zsh", ["-f", "-c", ask, "zsh", directory], { encoding: "utf8" }).stdout, "_assay\n");
  }),
);

test("every script contains every command and option", async () => {
  for (const name of ["bash", "zsh", "fish"]) {
    const text = await script(name);
    const flags = [...OPTION_ROWS.map(({ flag }) => flag), ...COMMANDS.flatMap(({ options }) => Object.keys(options))];
    assert.equal(
      flags.filter((flag) => !text.includes(name === "fish" ? `-l ${flag} ` : `--${flag}`)),
      [],
      name,
    );
    assert.equal(
      COMMANDS.filter((command) => !text.includes(command.name)).map((command) => command.name),
      [],
      name,
    );
  }
});

test("derives the kind of a value from placeholders and descriptions", () => {
  const { commands, config } = createVocabulary(COMMANDS);
  const kindOf = (flag: string) => config.find((option) => option.flag === flag)?.value;
  assert.equal(["data", "config", "tls-key", "backup-directory", "base-url", "listen"].map(kindOf), [
    "directory",
    "file",
    "file",
    "directory",
    "text",
    "text",
  ]);
  assert.equal(kindOf("smtp-tls"), ["required", "optional", "off"]);
  assert.equal(kindOf("checkpoints"), ["own", "external"]);
  const positional = (name: string) => commands.find((command) => command.name === name)?.positional;
  assert.equal(["apply", "docker", "serve", "member add"].map(positional), ["file", "directory", null, "text"]);
});

test("no command is also a group, which the scripts could not distinguish", () => {
  const groups = COMMANDS.flatMap(({ name }) => (name.includes(" ") ? [name.split(" ")[0]] : []));
  assert.equal(
    COMMANDS.filter(({ name }) => groups.includes(name)).map(({ name }) => name),
    [],
  );
});

test("refuses an unknown shell", async () => {
  for (const name of ["tcsh", "constructor"]) {
    assert.equal(await cli(["completion", name]), {
      code: 2,
      out: "",
      err: `assay: there is no completion for "${name}": give bash, zsh or fish\nassay: see assay help completion\n`,
    });
  }
});

test.run();
