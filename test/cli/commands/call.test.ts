/** `assay call`: any operation, over HTTP with a key or on a data directory as the operator. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations, operatorOperations } from "../../../src/api/index.ts";
import { callFieldsOf } from "../../../src/cli/call/fields.ts";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { auditOf, cli, inDirectory, look, start } from "../in-process.ts";
import type { Surroundings } from "../in-process.ts";

const test = suite("cli/commands/call");

let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const callable = [...operations, ...operatorOperations].filter(
  ({ status, permission }) => status !== "removed" && permission !== "signed",
);

/** A call over HTTP with the key of the admin of a new organization. */
function given() {
  const { org, key } = server.given.org();
  const env = { KOSLI_HOST: server.url, KOSLI_API_TOKEN: key, KOSLI_ORG: org };
  const call = (words: string[], more: Surroundings = {}) => cli(["call", ...words], { env, ...more });
  return { org, key, call };
}

/** A call on a data directory with the organization acme and its admin ops. */
const onData = (
  body: (call: (words: string[], more?: Surroundings) => ReturnType<typeof cli>, data: string) => Promise<void>,
) =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await cli(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    await body((words, more = {}) => cli(["call", ...words, "--data", data], { cwd: directory, ...more }), data);
  });

test("every operation that a person or program may call has help, and a flag of its own for each field", async () => {
  const reserved = ["help", "json", "data", "url", "key-file", "ca-file", "body"];
  for (const operation of callable) {
    const flags = callFieldsOf(operation).map(({ flag }) => flag);
    assert.is(new Set([...flags, ...reserved]).size, flags.length + reserved.length, operation.id);
    const { code, out, err } = await cli(["call", operation.id, "--help"]);
    assert.equal({ code, err }, { code: 0, err: "" }, operation.id);
    assert.ok(out.startsWith(`Usage: assay call ${operation.id} `) && out.includes(operation.summary), operation.id);
    for (const flag of flags) assert.ok(out.includes(`  --${flag} `), `${operation.id}: ${flag}`);
    assert.equal((await cli(["help", "call", operation.id])).out, out);
  }
});

test("lists the operations, but not those of other products and those that are gone", async () => {
  const { out } = await cli(["call", "--json"]);
  const listed = (JSON.parse(out) as { operations: { id: string }[] }).operations.map(({ id }) => id);
  assert.equal(listed, callable.map(({ id }) => id).sort());
  assert.not.ok(listed.includes("sonar_qube_webhook"));
  assert.match((await cli(["call"])).out, /^OPERATION +PERMISSION +SUMMARY\nallow_artifact_for_env +allowlist:write /);
});

test("calls with a key whatever the key may, with fields as flags and files", () =>
  inDirectory(async (cwd) => {
    const { org, call } = given();
    writeFileSync(join(cwd, "flow.yml"), "version: 1\n");
    writeFileSync(join(cwd, "report.xml"), "<testsuite/>");
    const flow = await call(
      ["create_flow_with_template", "--name", "backend", "--description", "It's ours", "--template-file", "flow.yml"],
      { cwd },
    );
    assert.equal({ code: flow.code, err: flow.err }, { code: 0, err: "" });
    const at = ["--flow-name", "backend", "--trail-name", "t1"];
    const data = '{"big":9007199254740993,"one":1.0}';
    const attested = await call(
      [
        "post_generic_attestation",
        ...at,
        ...["--attestation-name", "tests", "--is-compliant", "false", "--user-data", data],
        ...["--attachment-file", "report.xml"],
      ],
      { cwd },
    );
    assert.equal({ code: attested.code, err: attested.err }, { code: 0, err: "" });
    const read = await call(["get_trail_attestation", ...at, "--attestation-name", "tests"]);
    assert.ok(read.out.includes(data), read.out);
    assert.is(
      server.store.flows.find(server.store.organizations.find(org)?.id ?? 0, "backend")?.description,
      "It's ours",
    );
  }));

test("repeats a flag for a list, takes JSON from flags, files and standard input, and the whole body from a file", () =>
  inDirectory(async (cwd) => {
    const { org, call } = given();
    const env = async (name: string, ...words: string[]) => {
      const made = await call(["create_env", ...words], { cwd });
      assert.equal({ code: made.code, err: made.err }, { code: 0, err: "" }, name);
    };
    await env("prod", "--name", "prod", "--type", "K8S", "--description", "");
    await env("test", "--name", "test", "--type", "server", "--description", "");
    writeFileSync(join(cwd, "env.json"), '{"name":"whole","type":"K8S","description":""}');
    await env("whole", "--body", "env.json");
    writeFileSync(join(cwd, "tags.json"), '{"tier":"1"}');
    const tag = ["patch_tags", "--resource-type", "environment", "--resource-id", "prod"];
    assert.is((await call([...tag, "--set-tags", "@tags.json"], { cwd })).code, 0);
    assert.is((await call([...tag, "--set-tags", "-"], { stdin: '{"owner":"ops"}' })).code, 0);
    assert.is((await call([...tag, "--set-tags", '{"a":"b"}', "--remove-tags", "tier"])).code, 0);
    const read = JSON.parse((await call(["get_environment", "--env-name", "prod"])).out) as { tags: object };
    assert.equal(read.tags, { owner: "ops", a: "b" });
    const names = JSON.parse((await call(["list_envs"])).out) as { name: string }[];
    assert.equal(names.map(({ name }) => name).sort(), ["prod", "test", "whole"], org);
  }));

test("reads the key from a file or standard input, and never from the command line", () =>
  inDirectory(async (cwd) => {
    const { key, org } = given();
    const words = ["call", "get_principal", "--url", server.url];
    writeFileSync(join(cwd, "key"), `${key}\n`);
    writeFileSync(join(cwd, "blank"), "\n");
    assert.is((await cli([...words, "--key-file", "key"], { cwd })).code, 0);
    assert.is((await cli([...words, "--key-file", "-"], { stdin: key })).code, 0);
    assert.equal(await cli([...words, "--key-file", "blank"], { cwd }), {
      code: 1,
      out: "",
      err: "assay: --key-file: the first line of blank is not an API key\n",
    });
    assert.equal(await cli(words), {
      code: 2,
      out: "",
      err:
        "assay: get_principal needs an API key: give --key-file FILE, or set KOSLI_API_TOKEN; " +
        "or --data DIRECTORY as operator\n",
    });
    assert.match((await cli([...words, "--key", key], { cwd })).err, "unknown option --key; did you mean --key-file?");
    assert.is((await cli(["call", "get_version", "--url", `${server.url}/`])).code, 0, `public, ${org}`);
  }));

test("writes the bytes of a file to standard output, from a server and from a data directory", () =>
  onData(async (_, data) => {
    const { key, org } = given();
    for (const [words, env] of [
      [["--url", server.url, "--org", org], { KOSLI_API_TOKEN: key }],
      [["--data", data, "--org", "acme"], {}],
    ] as const) {
      const running = start(["call", "download_audit_log", ...words], { env });
      assert.equal(await running.ended, { code: 0, out: "", err: "" });
      assert.match(running.bytes().toString(), /^\ufeff?"?[a-z_]+"?,/);
    }
  }));

test("prints the words of a refusal, and why there is no answer", async () => {
  const { call, org } = given();
  const failed = (err: string) => ({ code: 1, out: "", err });
  assert.equal(
    await call(["get_flow", "--flow-name", "nothing"]),
    failed(`assay: Flow named 'nothing' does not exist for organization '${org}' (status 404)\n`),
  );
  assert.equal(
    await call(["put_member", "--user", "x y", "--role", "admin", "--json"]),
    failed(`{"error":"User 'x y' not found (status 404)"}\n`),
  );
  const wrong = await call(["create_env", "--name", "a b", "--type", "moon", "--description", ""]);
  assert.is(wrong.code, 1);
  assert.match(wrong.err, /^assay: (name|type): .+\nassay: (name|type): /);
  assert.match(
    (await cli(["call", "get_version", "--url", "http://127.0.0.1:1"])).err,
    /^assay: http:\/\/127\.0\.0\.1:1 does not answer: .*ECONNREFUSED.*; --url names the server\n$/,
  );
});

test("suggests names of operations and fields, and reports every wrong value before anything is sent", async () => {
  const usage = async (words: string[], lines: string[], name = `call ${words[0]}`) => {
    const more = [...lines, `see assay help ${name}`].map((line) => `assay: ${line}\n`).join("");
    assert.equal(await cli(["call", ...words], { env: { KOSLI_API_TOKEN: "k" } }), { code: 2, out: "", err: more });
  };
  await usage(["put_membr", "--org", "acme"], ['there is no operation "put_membr"; did you mean put_member?'], "call");
  await usage(["zzz"], ['there is no operation "zzz"; assay call lists all'], "call");
  await usage(
    ["put_member", "--org=acme", "--usr=x", "--role=admin"],
    ["unknown option --usr; did you mean --user?", "--user is missing"],
  );
  await usage(
    ["put_retention_rule", "--org=a", "--trails-after-days=x", "--body=b.json"],
    ["--trails-after-days: give it or --body, which has the whole body"],
  );
  await usage(
    ["put_retention_rule", "--org=a", "--trails-after-days=x"],
    ['--trails-after-days: "x" is not a number', "--evidence-after-days is missing"],
  );
  await usage(
    ["update_organization_settings", "--org=a", "--is-public=yes", "--url=x"],
    [
      '--is-public: "yes" is not accepted, give true or false',
      '--url: "x" is not accepted, give http://HOST:PORT or https://HOST/BASE-PATH',
    ],
  );
  await usage(
    ["patch_tags", "--org=a", "--resource-type=flow", "--resource-id=x", "--set-tags=x"],
    [`--set-tags: "x" is not JSON; a text needs quotes of its own, like '"text"'`],
  );
  await usage(["create_user", "--name=x"], ["--data is missing: only the operator may call this, on a data directory"]);
  await usage(["get_version", "--url=http://x", "--data=d"], ["--url: give it or --data, not both"]);
});

test("on a data directory it reads and configures as the operator", () =>
  onData(async (call, data) => {
    assert.is((await call(["create_user", "--name", "ann", "--email", "ann@example.com"])).code, 0);
    const member = await call(["put_member", "--org", "acme", "--user", "ann", "--role", "member"]);
    assert.match(member.out, /^\{"user":"ann","display_name":"ann",.*"role":"member".*\}\n$/);
    const listed = JSON.parse((await call(["list_members", "--org", "acme"])).out) as { data: { user: string }[] };
    assert.equal(
      listed.data.map(({ user }) => user),
      ["ann", "ops"],
    );
    assert.equal(auditOf(data).slice(-1), ['put_member member.added ann {"role":"member"}']);
    assert.equal(await call(["put_member", "--org", "acme", "--user", "ops", "--role", "reader"]), {
      code: 1,
      out: "",
      err:
        "assay: 'ops' is the last admin of 'acme': give another member the role admin first, " +
        "or use assay member with --force\n",
    });
    assert.equal(await call(["list_members", "--org", "nope"]), {
      code: 1,
      out: "",
      err: "assay: There is no organization 'nope'\n",
    });
  }));

test("on a data directory it takes files, which are checked as uploads are", () =>
  onData(async (call, data) => {
    const policy = (text: string) =>
      call(["put_policy", "--org", "acme", "--name", "tested", "--policy-file", "-"], { stdin: text });
    const wrong = await policy("version: 1\nnothing: true\n");
    assert.is(wrong.code, 1);
    assert.match(wrong.err, /^assay: policy_file: .*nothing/);
    const head = "_schema: https://kosli.com/schemas/policy/environment/v1\n";
    const right = await policy(`${head}artifacts:\n  provenance:\n    required: true\n`);
    assert.equal({ code: right.code, err: right.err }, { code: 0, err: "" });
    look(data, (store) => assert.is(store.policies.list(store.organizations.find("acme")?.id ?? 0).length, 1));
  }));

test("on a data directory it reports no evidence and makes no decision, and nothing is stored", () =>
  onData(async (call, data) => {
    const before = auditOf(data).length;
    const err = "assay: The operator reports no evidence and makes no decisions: use an API key of the organization\n";
    const at = ["--org", "acme", "--flow-name", "f"];
    for (const words of [
      ["create_trail", ...at, "--name", "t"],
      ["post_generic_attestation", ...at, "--trail-name", "t", "--attestation-name", "a", "--is-compliant", "true"],
      ["allow_artifact_for_env", "--org", "acme", "--env-name", "prod", "--body", "-"],
    ])
      assert.equal(await call(words, { stdin: "{}" }), { code: 1, out: "", err }, words[0]);
    assert.is(auditOf(data).length, before);
  }));

test("a secret comes from a file or standard input", () =>
  onData(async (call, data) => {
    const words = ["set_user_password", "--user", "ops", "--password"];
    assert.match((await call([...words, "correct horse battery"])).err, "visible to other users of the machine");
    assert.is((await call([...words, "-"], { stdin: "correct horse battery\nnot this\n" })).code, 0);
    look(data, (store) => assert.ok(store.passwords.find(store.users.find("ops")?.id ?? 0)));
    const long = await call([...words, "-"], { stdin: "x".repeat(2000) });
    assert.equal(
      long.err,
      "assay: nothing was changed: a password must have at most 1024 bytes and no control characters\n",
    );
  }));

test("works beside a running server, which shows what it changed with the next request", () =>
  onData(async (call, data) => {
    const running = start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    const url = /listening on (\S+)/.exec(await running.wrote(/API reference/))?.[1] ?? "";
    const key = (await cli(["key", "create", "--user", "ops", "--description", "d", "--data", data])).out.trim();
    const read = async () =>
      JSON.parse(
        (
          await cli(["call", "get_organization_settings", "--org", "acme", "--url", url], {
            env: { KOSLI_API_TOKEN: key },
          })
        ).out,
      );
    const others = { controls_enabled: true, evaluations_enabled: true, decisions_need_published_policy: false };
    assert.equal(await read(), { is_public: false, ...others });
    assert.is((await call(["update_organization_settings", "--org", "acme", "--is-public", "true"])).code, 0);
    assert.equal(await read(), { is_public: true, ...others });
    await running.stop();
  }));

test.run();
