/** The reaction of every command in the table to an invalid command line. */
import { readdirSync } from "node:fs";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { COMMANDS } from "../../src/cli/commands.ts";
import { cli, inDirectory } from "./in-process.ts";

const test = suite("cli/usage");

const words = (name: string): string[] => name.split(" ");

/** Returns the problems of a run as lines without the program's name. */
async function problemsOf(argv: readonly string[], cwd: string): Promise<string[]> {
  const { code, out, err } = await cli(argv, { cwd });
  assert.equal({ code, out }, { code: 2, out: "" }, `assay ${argv.join(" ")}: ${err}`);
  return err
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/^assay: /, ""));
}

/** Parses the required options and words of a usage line, each as its alternatives: (a | b) has two. */
function demandedBy(usage: string): string[][] {
  const demanded: string[][] = [];
  const rest = usage.replace(/\[[^\]]*(?:\[[^\]]*\][^\]]*)*\]/g, " ").replace(/\(([^)]*)\)/g, (_, choice: string) => {
    demanded.push(choice.split("|").map((one) => one.trim().split(" ")[0] ?? ""));
    return " ";
  });
  // The usage line of session revoke has alternatives without parentheses.
  if (/ \| /.test(rest))
    return [...demanded, [rest.split(" ")[0] ?? ""], ...(rest.includes("--data") ? [["--data"]] : [])];
  for (const match of rest.matchAll(/(--[a-z-]+)(?: [A-Za-z|-]+)?|([A-Z][A-Z|.-]*|bash\|zsh\|fish)/g))
    demanded.push([match[1] ?? match[2] ?? ""]);
  return demanded;
}

test("these tests can parse the usage lines", () => {
  assert.equal(demandedBy("ID (--user NAME | --org NAME --service-account NAME) --data DIRECTORY"), [
    ["--user", "--org"],
    ["ID"],
    ["--data"],
  ]);
  assert.equal(demandedBy("--org NAME [--flow NAME [--trail NAME]] --reason TEXT [--by NAME] --data DIRECTORY"), [
    ["--org"],
    ["--reason"],
    ["--data"],
  ]);
  assert.equal(demandedBy("ENV[#N] [FINGERPRINT] [--org NAME] --data DIRECTORY"), [["ENV"], ["--data"]]);
  assert.equal(demandedBy("[OPTIONS]"), []);
});

test("positionals have the names of the usage line", () => {
  for (const { name, usage, positionals } of COMMANDS) {
    for (const word of positionals?.names ?? []) assert.ok(usage.includes(word), `${name}: ${word} is not in ${usage}`);
    assert.ok((positionals?.names.length ?? 0) >= (positionals?.min ?? 0), name);
  }
});

for (const { name, usage } of COMMANDS) {
  const demanded = demandedBy(usage);
  if (demanded.length === 0) continue;

  test(`assay ${name} without arguments names every missing one, and creates nothing`, () =>
    inDirectory(async (cwd) => {
      const problems = await problemsOf(words(name), cwd);
      for (const alternatives of demanded) {
        const isNamed = alternatives.some((word) =>
          problems.some((problem) => problem.includes(word.replace(/\|-$/, ""))),
        );
        assert.ok(isNamed, `${alternatives.join(" or ")} is not named in: ${problems.join(" / ")}`);
      }
      assert.equal(readdirSync(cwd), []);
    }));

  test(`assay ${name} reports an unknown option together with missing ones`, () =>
    inDirectory(async (cwd) => {
      const alone = await problemsOf(words(name), cwd);
      const both = await problemsOf([...words(name), "--frobnicate"], cwd);
      assert.is(both[0], "unknown option --frobnicate");
      for (const problem of alone) assert.ok(both.includes(problem), `${problem} is not in: ${both.join(" / ")}`);
    }));
}

for (const { name, options, takesConfig } of COMMANDS) {
  const data = options["data"];
  const takesData = data?.kind === "text" && data.isSetting === true;
  if (!takesConfig && !takesData) continue;

  test(`assay ${name} reports an unknown option together with invalid configuration values from every source`, () =>
    inDirectory(async (cwd) => {
      const ofFile = await problemsOf([...words(name), "--frobnicate", "--config", "missing.yaml"], cwd);
      assert.ok(
        ofFile.some((problem) => problem.startsWith("cannot read missing.yaml")),
        ofFile.join(" / "),
      );
      if (name === "systemd") return;
      const { err } = await cli([...words(name), "--frobnicate", "--data="], {
        cwd,
        env: takesConfig ? { ASSAY_LISTEN: "nowhere", ASSAY_LISTNE: "x" } : {},
      });
      assert.match(err, /unknown option --frobnicate\n/);
      assert.match(err, /data \(flag --data\): "" is not accepted/);
      if (!takesConfig) return;
      assert.match(err, /listen \(variable ASSAY_LISTEN\): "nowhere" is not accepted/);
      assert.match(err, /unknown variable ASSAY_LISTNE; did you mean ASSAY_LISTEN\?/);
    }));
}

/** Command lines with invalid values, and the beginnings of the problems that each must report. */
const WRONG_VALUES: readonly (readonly [string, readonly string[]])[] = [
  ["init --org -- --user . --email x", ["--org needs a value"]],
  ["init --org=. --user=. --email x", ["--org: give a name", "--user: give a name", "--email: give an e-mail address"]],
  ["user create .. --email x", ["NAME: give a name", "--email: give an e-mail address"]],
  ["user set ann --email a@b --no-email", ["--no-email: give it or --email"]],
  ["session revoke x --all", ["give exactly one of ID, --user USER and --all"]],
  ["member add ann --org acme --role king", ["--role: give admin, member, snapshotter or reader"]],
  ["member set-role ann --role king", ["--org: give the name", "--role: give admin"]],
  [
    "key create --user ann --org acme --expires-in soon",
    ["name the owner of the key", "--description: give a text", "--expires-in: give a duration"],
  ],
  ["webhook enable gitlab", ["--org: give the name of an organization", 'there is no webhook "gitlab"']],
  [
    "webhook enable sonar --org acme --flow-name x --flow-prefix /",
    ["--flow-name: give key or name", "--flow-prefix: give up to 100 letters"],
  ],
  ["webhook enable launch-darkly --org acme --flow-suffix x", ["--flow-suffix: only the sonar webhook"]],
  ["webhook disable gitlab --org acme", ['there is no webhook "gitlab"']],
  [
    "deliveries list --state lost --limit 0 --action x",
    ["--state: give waiting, delivered or dead", "--limit: give a number", "--action: give --org too"],
  ],
  ["deliveries retry x --org acme", ["select messages by their IDs"]],
  ["action secret acme first", ['"first" is neither the number of an action']],
  ["retention set --trails-after 1h", ["--org: give the name of an organization", "--trails-after: give whole days"]],
  ["retention hold --org acme --trail t", ["--reason: give a reason", "--trail: give --flow too"]],
  ["retention run --plan x --limit 0", ["--plan: give a plan", "--limit: give a number"]],
  [
    "retention deleted --limit x --before y",
    ["--org: give the name of an organization", "--limit: give a number", "--before: give the number"],
  ],
  ["explain #1 zz", ['"#1" is not a snapshot expression', '"zz" is not a fingerprint']],
  ["vault copy --to elsewhere", ["--to: give s3://BUCKET"]],
  ["vault migrate --to elsewhere", ["--to: give s3://BUCKET"]],
  ["backup - --overwrite", ["--overwrite needs a file name in place of -"]],
  ["config explain nothing", ['there is no option "nothing"']],
  ["completion tcsh", ['there is no completion for "tcsh": give bash, zsh or fish']],
  ["openapi --base-url x", ['--base-url: "x" is not accepted']],
  ["health --url x --timeout 1", ['--url: "x" is not accepted', '--timeout: "1" is not accepted']],
  [
    "systemd --group=- --executable assay --metrics-key x --data d",
    ["--metrics-key: every user", "--data: the service", "--group:", "--executable:"],
  ],
  ["serve --listen nowhere --json-limit 1", ["listen (flag --listen)", "json-limit (flag --json-limit)"]],
  ["config show --tls-key k.pem", ["tls-cert and tls-key belong together"]],
];

for (const [line, expected] of WRONG_VALUES)
  test(`reports invalid flags and values together: assay ${line}`, () =>
    inDirectory(async (cwd) => {
      for (const more of [[], ["--frobnicate"], ["--frobnicate", "--json=x"]]) {
        const problems = await problemsOf([...line.split(" "), ...more], cwd);
        const wanted = [
          ...expected,
          ...more.map((flag) => (flag === "--frobnicate" ? `unknown option ${flag}` : "--json takes no value")),
        ];
        for (const start of wanted)
          assert.ok(
            problems.some((problem) => problem.startsWith(start)),
            `${start} is not in: ${problems.join(" / ")}`,
          );
        assert.is(new Set(problems).size, problems.length, "each once");
      }
      assert.equal(readdirSync(cwd), []);
    }));

/** Words that are neither commands nor topics, and the matches that a search must show. */
const SEARCHES: readonly (readonly [string[], readonly RegExp[]])[] = [
  [["oidc"], [/^ {2}logins .*\n/m, /^ {2}--oidc-issuer URL /m, /^ {2}--oidc-client-auth METHOD /m]],
  [["OpenID"], [/^ {2}logins .*\(section OpenID Connect \(single sign-on, SSO\)\)$/m, /^ {2}user enable /m]],
  [["s3"], [/^ {2}evidence-storage /m, /^ {2}vault copy /m, /^ {2}--s3-endpoint URL /m]],
  [["exceptions"], [/^ {2}policy-recipes .*\(section A freeze with exceptions\)$/m, /^ {2}policies /m]],
  [["mistake"], [/^ {2}policy check /m, /^ {2}template check /m, /^ {2}type try /m]],
  [["groups"], [/^ {2}logins /m, /^ {2}user enable /m, /^ {2}--oidc-groups-claim /m, /^ {2}--oidc-roles /m]],
  [["SSO"], [/^ {2}logins /m]],
  [["--listen"], [/^ {2}--listen HOST:PORT /m, /^ {2}--metrics-listen /m]],
  [["ASSAY_BACKUP_EVERY"], [/^ {2}--backup-every DURATION /m]],
  [["expires"], [/^ {2}key create /m]],
  [["smtp", "tls"], [/^ {2}--smtp-tls MODE /m]],
];

for (const [argv, expected] of SEARCHES)
  test(`assay help ${argv.join(" ")} finds its matches`, async () => {
    const { code, out, err } = await cli(["help", ...argv]);
    assert.equal({ code, err }, { code: 0, err: "" });
    assert.ok(out.startsWith(`No topic or command is named ${JSON.stringify(argv.join(" "))}. Matches:\n\n`), out);
    for (const pattern of expected) assert.match(out, pattern);
  });

test("a search matches prefixes and takes special characters literally", async () => {
  for (const words of [["rocess"], ["s3", "xyzzy"], [".*"], ["("], ["\\"], ["--"], ["x".repeat(100_000)]]) {
    const { code, out } = await cli(["help", ...words]);
    assert.equal({ code, out }, { code: 2, out: "" }, words.join(" ").slice(0, 50));
  }
});

test("help exists for every match of a search", async () => {
  const { out } = await cli(["help", "evidence"]);
  const names = (part: string) =>
    (new RegExp(`^${part}:\\n((?: {2}.*\\n)+)`, "m").exec(out)?.[1] ?? "")
      .split("\n")
      .flatMap((line) => /^ {2}(\S+(?: \S+)*?)(?: {2}|$)/.exec(line)?.[1] ?? []);
  assert.ok(names("Topics").length > 3 && names("Commands").length > 3 && names("Options").length > 1, out);
  for (const name of [...names("Topics"), ...names("Commands")])
    assert.is((await cli(["help", ...name.split(" ")])).code, 0, name);
  for (const name of names("Options"))
    assert.is((await cli(["config", "explain", (name.split(" ")[0] ?? "").slice(2)])).code, 0, name);
});

test.run();
