/** `kosli evaluate --server-side` and `evaluate policy`: the released client against a server (newer-clients 4.3). */
import { writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ENDLESS, constant, regoClient } from "../api/policies/rego-given.ts";
import type { At } from "../api/policies/rego-given.ts";
import { inDirectory, run } from "../binary/executable.ts";
import type { Result } from "../binary/executable.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { holdings } from "../http/socket.ts";
import { worksHere } from "./programs.ts";

const test = suite("integration/kosli-evaluate");
let server: TestServer;
let rego: ReturnType<typeof regoClient>;
test.before(async () => {
  server = await startServer();
  rego = regoClient(server);
});
test.after(() => server.stop());

// Older releases have no such command, or cannot evaluate on a server.
const hasCli = worksHere("kosli", "evaluate", "policy", "--help");
if (!hasCli) console.log("skipped: kosli evaluate policy, for want of kosli 2.43 or later");
const withCli = hasCli ? test : test.skip;

const POLICIES: Readonly<Record<string, string>> = {
  "allow.rego": constant(true),
  "deny.rego":
    "package policy\n\ndefault allow := false\n\n" +
    'violations contains message if some message in ["too old", "no scan"]\n',
  "broken.rego": "package policy\n\nallow if {\n",
  "endless.rego": ENDLESS,
};

type World = At & { flow: string; trail: string };

/** An organization with a trail and the control C1. */
async function world(): Promise<World> {
  const at = await rego.world();
  await server.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: "C1", name: "One" } });
  return at;
}

/** Runs the client where the files of POLICIES and the further ones are. */
const kosli = (
  at: At,
  words: readonly string[],
  { url = server.url, files = {} }: { url?: string; files?: Record<string, string> } = {},
): Promise<Result> =>
  inDirectory(async (cwd) => {
    for (const [name, text] of Object.entries({ ...POLICIES, ...files })) writeFileSync(join(cwd, name), text);
    const to = ["--host", url, "--org", at.org, "--api-token", at.key, "--max-api-retries", "0"];
    const env = { PATH: process.env["PATH"] ?? "", HOME: cwd };
    return run(["evaluate", ...words, ...to], { executable: "kosli", cwd, env });
  });
const evaluatePolicy = (at: World, policy: string, ...more: string[]): string[] => [
  ...["policy", "--context", `trail=${at.flow}/${at.trail}`, "--policy", policy],
  ...more,
];
const onServer = (at: World, command: "trail" | "trails", policy: string, ...more: string[]): string[] => [
  ...[command, at.trail, "--flow", at.flow, "--policy", policy, "--server-side"],
  ...more,
];
const decisionFlags = (at: World, control = "C1"): string[] => [
  ...["--control", control, "--flow", at.flow, "--trail", at.trail, "--name", "gate"],
];
const decisionIds = async (at: At): Promise<string[]> => {
  const { body } = await server.call("GET", `/controls/${at.org}/C1/decisions`, { key: at.key });
  return body.decisions.map(({ id }: { id: string }) => id);
};

const ALLOWED = "RESULT:  ALLOWED\n";
const DENIED = "RESULT:      DENIED\nVIOLATIONS:  no scan\n             too old\n";
const DENIED_TEXT = /policy denied: \[no scan too old\]\n$/;
const COMPILE_TEXT = /server-side evaluation failed \(compile\): broken\.rego:\d+: rego_parse_error: [^]*allow if \{/;

/** Expects that the client ended with this code, wrote this to stdout, and to stderr nothing or what matches. */
function expectEnd(result: Result, code: number, stdout: string, stderr: RegExp | null = null): void {
  assert.equal({ code: result.code, stdout: result.stdout }, { code, stdout }, result.stderr);
  if (stderr === null) assert.is(result.stderr, "");
  else assert.match(result.stderr, stderr);
}

for (const [name, words, code, stdout, stderr] of [
  ["evaluate policy allows", (at: World) => evaluatePolicy(at, "allow.rego"), 0, ALLOWED, null],
  ["evaluate policy --assert allows", (at: World) => evaluatePolicy(at, "allow.rego", "--assert"), 0, ALLOWED, null],
  ["evaluate policy denies", (at: World) => evaluatePolicy(at, "deny.rego"), 0, DENIED, null],
  [
    "evaluate policy --assert denies",
    (at: World) => evaluatePolicy(at, "deny.rego", "--assert"),
    1,
    DENIED,
    DENIED_TEXT,
  ],
  ["evaluate trail allows", (at: World) => onServer(at, "trail", "allow.rego"), 0, ALLOWED, null],
  ["evaluate trail denies", (at: World) => onServer(at, "trail", "deny.rego"), 1, DENIED, DENIED_TEXT],
  [
    "evaluate trail --no-assert denies",
    (at: World) => onServer(at, "trail", "deny.rego", "--no-assert"),
    0,
    DENIED,
    null,
  ],
  ["evaluate trails allows", (at: World) => onServer(at, "trails", "allow.rego"), 0, ALLOWED, null],
  ["evaluate trails denies", (at: World) => onServer(at, "trails", "deny.rego"), 1, DENIED, DENIED_TEXT],
  [
    "evaluate trails --no-assert denies",
    (at: World) => onServer(at, "trails", "deny.rego", "--no-assert"),
    0,
    DENIED,
    null,
  ],
  ["evaluate policy fails", (at: World) => evaluatePolicy(at, "broken.rego"), 1, "", COMPILE_TEXT],
  [
    "evaluate trail --no-assert fails",
    (at: World) => onServer(at, "trail", "broken.rego", "--no-assert"),
    1,
    "",
    COMPILE_TEXT,
  ],
] as const)
  withCli(`the client ends as its verdict: ${name}`, async () => {
    const at = await world();
    expectEnd(await kosli(at, words(at)), code, stdout, stderr);
    assert.equal(await decisionIds(at), []);
  });

withCli("the client prints verdicts as JSON, an empty list of violations as null", async () => {
  const at = await world();
  const json = ["--output", "json"];
  const allowed = await kosli(at, evaluatePolicy(at, "allow.rego", ...json));
  assert.equal([allowed.code, JSON.parse(allowed.stdout)], [0, { allow: true, violations: null }]);
  const denied = await kosli(at, onServer(at, "trail", "deny.rego", ...json));
  assert.equal([denied.code, JSON.parse(denied.stdout)], [1, { allow: false, violations: ["no scan", "too old"] }]);
});

withCli("the client names parameters and several trails, which the policy sees", async () => {
  const at = await world();
  const other = await server.given.trail(at, { flow: at.flow });
  const files = {
    "policy.rego":
      "package policy\n\ndefault allow := false\n\n" +
      "allow if [trail.trail_name | some trail in input.trails] == data.params.names\n",
  };
  const params = ["--params", JSON.stringify({ names: [at.trail, other] })];
  const words = evaluatePolicy(at, "policy.rego", "--context", `trail=${at.flow}/${other}`, ...params);
  expectEnd(await kosli(at, words, { files }), 0, ALLOWED);
});

withCli("a decision is recorded once for each verdict, and the client prints its id", async () => {
  const at = await world();
  const allowed = await kosli(at, evaluatePolicy(at, "allow.rego", ...decisionFlags(at)));
  const [first] = await decisionIds(at);
  expectEnd(allowed, 0, `RESULT:    ALLOWED\nDECISION:  ${first}\n`);

  const denied = await kosli(at, evaluatePolicy(at, "deny.rego", "--assert", ...decisionFlags(at)));
  const [second, ...rest] = await decisionIds(at);
  assert.equal(rest, [first]);
  expectEnd(denied, 1, `${DENIED}DECISION:    ${second}\n`, DENIED_TEXT);

  const json = await kosli(at, evaluatePolicy(at, "allow.rego", "--output", "json", ...decisionFlags(at)));
  const [third, ...earlier] = await decisionIds(at);
  assert.equal(earlier, [second, first]);
  assert.equal(JSON.parse(json.stdout), { allow: true, violations: null, decision_attestation_id: third });

  const failed = await kosli(at, evaluatePolicy(at, "broken.rego", ...decisionFlags(at)));
  expectEnd(failed, 1, "", COMPILE_TEXT);
  assert.equal(await decisionIds(at), [third, second, first]);

  const { body } = await server.call("GET", `/attestations/${at.org}?attestation_id=${second}`, { key: at.key });
  const [{ attestation_name: name, attestation_type: type, is_compliant, attestation_data }] = body.data;
  assert.equal({ name, type, is_compliant }, { name: "gate", type: "system:decision", is_compliant: false });
  assert.equal(
    [attestation_data.evaluation.policy.source, attestation_data.evaluation.violations],
    ["inline", ["no scan", "too old"]],
  );
});

const NO_ACCESS = "403: You don't have permission to access this resource";
const FINGERPRINT = "a".repeat(64);
type Refusal = (at: World) => { words: string[]; key?: string; params?: unknown; text: string };
const REFUSALS: Readonly<Record<string, Refusal>> = {
  "an unknown key": (at) => ({
    words: evaluatePolicy(at, "allow.rego"),
    key: "unknown",
    text: "401: Authentication credentials are missing or invalid",
  }),
  "a caller from outside": (at) => ({
    words: evaluatePolicy(at, "allow.rego"),
    key: server.given.user(at.org, null),
    text: NO_ACCESS,
  }),
  "a decision of a reader": (at) => ({
    words: evaluatePolicy(at, "allow.rego", ...decisionFlags(at)),
    key: server.given.user(at.org, "reader"),
    text: NO_ACCESS,
  }),
  "trails that are not there": (at) => ({
    words: evaluatePolicy({ ...at, trail: "none" }, "allow.rego", "--context", "trail=f-1/t"),
    text: `404: These trails do not exist in org '${at.org}': ${at.flow}/none, f-1/t`,
  }),
  "a trail of evaluate trail that is not there": (at) => ({
    words: onServer({ ...at, trail: "none" }, "trail", "allow.rego"),
    text: `404: These trails do not exist in org '${at.org}': ${at.flow}/none`,
  }),
  "the name of no trail": (at) => ({
    words: evaluatePolicy({ ...at, trail: "a b" }, "allow.rego"),
    text: "400: Input payload validation failed: map[context.trails.0.trail:String should match pattern ",
  }),
  "parameters over their limit": (at) => ({
    words: evaluatePolicy(at, "allow.rego", "--params", "@params.json"),
    params: { text: "x".repeat(300 << 10) },
    text: "400: Input payload validation failed: map[params:The parameters are over the limit of 262144 bytes]",
  }),
  "a body over its limit": (at) => ({
    words: evaluatePolicy(at, "allow.rego", "--params", "@params.json"),
    params: { text: "x".repeat(9 << 20) },
    text: "413: Request body size exceeds the 8MB limit",
  }),
  "an unknown control": (at) => ({
    words: evaluatePolicy(at, "allow.rego", ...decisionFlags(at, "none")),
    text: `404: Control 'none' does not exist in org '${at.org}'`,
  }),
  "a decision on no flow": (at) => ({
    words: evaluatePolicy(at, "allow.rego", ...decisionFlags({ ...at, flow: "none" })),
    text: `404: Flow named 'none' does not exist for organization '${at.org}'`,
  }),
  "a decision on no artifact": (at) => ({
    words: evaluatePolicy(at, "allow.rego", ...decisionFlags(at), "--fingerprint", FINGERPRINT),
    text: `404: Artifact with fingerprint ${FINGERPRINT} does not exist in trail "${at.trail}"`,
  }),
};
for (const [name, refusal] of Object.entries(REFUSALS))
  withCli(`the client prints why a create is refused, and nothing of it is left: ${name}`, async () => {
    const at = await world();
    const { words, key = at.key, params = {}, text } = refusal(at);
    const before = holdings(server);
    const result = await kosli({ org: at.org, key }, words, { files: { "params.json": JSON.stringify(params) } });
    expectEnd(result, 1, "", /the Kosli server answered /);
    assert.ok(result.stderr.includes(`the Kosli server answered ${text}`), result.stderr);
    assert.equal(holdings(server), before);
  });

withCli("the client prints that a decision needs a published policy where the organization wants that", async () => {
  const at = await world();
  const settings = { decisions_need_published_policy: true };
  await server.call("PATCH", `/organizations/${at.org}/settings`, { key: at.key, body: settings });
  const result = await kosli(at, evaluatePolicy(at, "allow.rego", ...decisionFlags(at)));
  expectEnd(result, 1, "", /answered 400: A decision can only be recorded with a published policy\n$/);
  assert.equal(await decisionIds(at), []);
  expectEnd(await kosli(at, evaluatePolicy(at, "allow.rego")), 0, ALLOWED);
});

/** Calls `body` with the address of a relay to the server, which calls `beforeRead` before it passes on each GET. */
async function throughRelay<T>(beforeRead: () => Promise<void>, body: (url: string) => Promise<T>): Promise<T> {
  const relay = createServer(async (incoming, outgoing) => {
    const { method, headers, url } = incoming;
    if (method === "GET") await beforeRead();
    const passed = request(`${server.url}${url}`, { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  try {
    return await body(`http://127.0.0.1:${(relay.address() as AddressInfo).port}`);
  } finally {
    relay.closeAllConnections();
    relay.close();
  }
}

withCli("the client prints that its evaluation is gone when it reads it", async () => {
  const at = await world();
  let id: unknown;
  const remove = async (): Promise<void> => {
    await server.rego.evaluator.whenIdle();
    id = (await rego.evaluations(at)).body.evaluations[0].id;
    server.store.regoEvaluations.removeOld(Infinity, 1_000);
  };
  const result = await throughRelay(remove, (url) => kosli(at, evaluatePolicy(at, "allow.rego"), { url }));
  const reason = `Evaluation '${id}' does not exist in org '${at.org}'`;
  expectEnd(result, 1, "", /could not read server-side evaluation /);
  assert.ok(result.stderr.includes(`could not read server-side evaluation ${id} back: ${reason}`), result.stderr);
});

withCli("the client prints that its caller may not read the evaluation any more", async () => {
  const at = await world();
  const key = server.given.user(at.org, "member");
  const { id } = server.store.organizations.find(at.org) as { id: number };
  const member = server.store.organizations.listMembers(id).find(({ role }) => role === "member");
  const leave = async (): Promise<void> => {
    server.store.organizations.removeMember(id, { id: member?.user_id ?? 0 }, { changedBy: "test" });
  };
  const words = evaluatePolicy(at, "allow.rego");
  const result = await throughRelay(leave, (url) => kosli({ org: at.org, key }, words, { url }));
  expectEnd(result, 1, "", /could not read server-side evaluation \S+ back: You don't have permission to access this /);
});

withCli("the client waits beyond one held read for the reason of a failure", async () => {
  // A read is held for five seconds.
  const slow = await startServer({ rego: { regoTime: 6 } });
  try {
    const client = regoClient(slow);
    const at = await client.world();
    const result = await kosli(at, onServer(at, "trail", "endless.rego"), { url: slow.url });
    expectEnd(result, 1, "", /server-side evaluation failed \(evaluate\): The evaluation took longer than 6 s\n$/);
  } finally {
    await slow.stop();
  }
});

withCli("the client gives up when the queue of its caller is full", async () => {
  const busy = await startServer();
  try {
    const client = regoClient(busy);
    const at = await client.world();
    const files = { "p.rego": ENDLESS };
    // One runs, and sixteen wait.
    for (let number = 0; number < 17; number += 1) {
      const created = await client.evaluate(at, {
        context: { trails: at.trails },
        policy: { files },
        params: { number },
      });
      assert.is(created.status, 201, created.text);
    }
    const result = await kosli(at, evaluatePolicy(at, "allow.rego"), { url: busy.url });
    expectEnd(result, 1, "", /giving up after 1 attempt\(s\)/);
    const failed = (await client.evaluations(at, "?status=failed")).body.evaluations;
    assert.equal(
      failed.map(({ error }: { error: { kind: string } }) => error.kind),
      ["enqueue_failed"],
    );
  } finally {
    await busy.stop();
  }
});

test.run();
