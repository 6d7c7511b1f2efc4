/** Evaluations of Rego policies on trails (newer-clients 4 and 6): requests, verdicts, reads, and what is refused. */
import { createHash } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { untar } from "../../../src/archive/untar.ts";
import { readEngineFacts } from "../../../src/rego/engine-module.ts";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { UNAUTHENTICATED, entriesOf, refused } from "../administration.ts";
import { COMPLIANT, ENDLESS, SLOW, constant, regoClient } from "./rego-given.ts";
import type { At, Json } from "./rego-given.ts";

const test = suite("api/policies/rego-evaluations");
let server: TestServer;
let rego: ReturnType<typeof regoClient>;
test.before(async () => {
  server = await startServer();
  rego = regoClient(server);
});
test.after(() => server.stop());

const FAILED = "Input payload validation failed";
const DENIED = { status: 403, body: { message: "You don't have permission to access this resource" } };
const invalid = (errors: Record<string, string>) => ({ status: 400, body: { message: FAILED, errors } });
const bad = (message: string) => ({ status: 400, body: { message } });
const missing = (message: string) => ({ status: 404, body: { message } });
const inline = (source: string) => ({ files: { "p.rego": source } });

test("answers a create as pending, and a read with the verdict and everything that it was made from", async () => {
  const at = await rego.world();
  const policy = inline(COMPLIANT);
  const created = await rego.evaluate(at, { context: { trails: at.trails }, policy, params: { minimum: 2 } });
  const { id, requested_at: requestedAt } = created.body;
  assert.equal(
    { status: created.status, body: created.body },
    { status: 201, body: { id, status: "pending", requested_at: requestedAt, recorded_at: requestedAt } },
  );
  // A read is held for five seconds, which a busy machine may use up.
  const body = await rego.ended(at, id);
  assert.ok(body.recorded_at > requestedAt);
  assert.ok(body.duration_ms > 0);
  const input = await rego.evaluations(at, `/${id}/input`);
  const part = await fetch(`${server.url}/api/v2/evaluations/${at.org}/${id}/input`, {
    headers: { Authorization: `Bearer ${at.key}`, Range: "bytes=3-20" },
  });
  assert.equal([part.status, await part.text()], [206, input.text.slice(3, 21)]);
  const href = `http://assay.test/api/v2/evaluations/${at.org}/${id}`;
  assert.equal(body, {
    id,
    status: "completed",
    requested_at: requestedAt,
    recorded_at: body.recorded_at,
    result: { allow: true, violations: [] },
    policy: { source: "inline", sha256: body.policy.sha256 },
    engine: body.engine,
    input_sha256: createHash("sha256").update(input.text).digest("hex"),
    trails: [{ ...at.trails[0], moment_number: 1 }],
    params: { minimum: 2 },
    requested_by: `${at.org}-admin`,
    duration_ms: body.duration_ms,
    _links: { input: { href: `${href}/input` }, bundle: { href: `${href}/bundle` } },
  });
  const { opa, sha256 } = readEngineFacts();
  assert.is(body.engine, `opa ${opa} sha256:${sha256}`);
});

test("a denial is completed too, with its violations and further outputs flat in the result", async () => {
  const at = await rego.world();
  const source = `# METADATA
# entrypoint: true
package p

# METADATA
# entrypoint: true
allow := false

# METADATA
# entrypoint: true
violations contains message if some message in ["b", "a", {"n": 1.50}]

# METADATA
# entrypoint: true
large := data.params.large

# METADATA
# entrypoint: true
undefined_one if false
`;
  const created = await server.call("POST", `/evaluations/${at.org}`, {
    key: at.key,
    raw:
      `{"context":${JSON.stringify({ trails: at.trails })},"policy":${JSON.stringify(inline(source))},` +
      '"params":{"large":12345678901234567890.10}}',
    headers: { "Content-Type": "application/json" },
  });
  const read = await rego.evaluations(at, `/${created.body.id}`);
  assert.is(read.body.status, "completed", read.text);
  assert.match(read.text, /"large":12345678901234567890\.10?\b/, "numbers to the digit");
  assert.match(read.text, /"params":\{"large":12345678901234567890\.10\}/, "as they were sent");
  const { large: _large, ...rest } = read.body.result;
  assert.equal(rest, { violations: ["a", "b", '{"n":1.50}'], allow: false });
});

test("a policy that fails is failed with kind and text, and has no verdict", async () => {
  const at = await rego.world();
  for (const [source, kind, message] of [
    ["package p\n\nallow := 1\n", "result_shape", /allow/],
    ["package p\n\nallow if {\n", "compile", /^p\.rego:\d+: /],
    ["package p\n\ndeny := true\n", "entrypoint", /allow/],
    ["package p\n\nallow := x if some x in [true, false]\n", "evaluate", /conflict/],
  ] as const) {
    const created = await rego.evaluate(at, { context: { trails: at.trails }, policy: inline(source) });
    const { body } = await rego.evaluations(at, `/${created.body.id}`);
    assert.equal([body.status, body.error?.kind, body.result], ["failed", kind, undefined], source);
    assert.match(body.error.message, message);
    assert.is(typeof body._links.bundle.href, "string");
  }
});

test("reads several trails at one moment, each once, with the attestations of their entries", async () => {
  const at = await rego.world();
  const other = await server.given.trail(at, { flow: at.flow });
  await server.given.attestation(at, { flow: at.flow, trail: at.trail, name: "scan", user_data: { count: 3 } });
  const trails = [{ flow: at.flow, trail: other }, ...at.trails, ...at.trails];
  const created = await rego.evaluate(at, { context: { trails }, policy: inline(COMPLIANT) });
  const input = (await rego.evaluations(at, `/${created.body.id}/input`)).body;
  assert.equal(Object.keys(input), ["trails"], "`trail` is there for a single one only");
  assert.equal(
    input.trails.map(({ trail_name, moment_number }: Json) => [trail_name, moment_number]),
    [
      [other, 1],
      [at.trail, 2],
    ],
  );
  const [, trail] = input.trails;
  const { scan } = trail.compliance_status.attestations_statuses;
  assert.equal([scan.attestation_name, scan.attestation_type, scan.user_data], ["scan", "generic", { count: 3 }]);
  assert.equal([trail.flow_name, trail.name, trail.flow.name], [at.flow, at.trail, at.flow]);
  assert.is(trail.created_at, trail.last_modified_at);
  assert.is(trail.template_id, trail.compliance_status.flow_template_id);
  assert.equal(
    trail.events.map(({ type }: Json) => type),
    ["trail_reported", "trail_attestation_reported"],
  );
  const { body } = await rego.evaluations(at, `/${created.body.id}`);
  assert.equal(body.trails, [
    { flow: at.flow, trail: other, moment_number: 1 },
    { flow: at.flow, trail: at.trail, moment_number: 2 },
  ]);
});

test("an attestation between the create and the evaluation does not count", async () => {
  const at = await rego.world();
  const first = await rego.evaluate(at, { context: { trails: at.trails }, policy: inline(SLOW) });
  // The caller's second one waits for the first.
  const source =
    'package p\n\ndefault allow := false\n\nallow if input.trail.compliance_status.attestations_statuses["late"]\n';
  const second = await rego.evaluate(at, { context: { trails: at.trails }, policy: inline(source) });
  await server.given.attestation(at, { flow: at.flow, trail: at.trail, name: "late" });
  assert.is((await rego.ended(at, second.body.id)).result.allow, false);
  assert.is((await rego.ended(at, first.body.id)).status, "completed");
  const third = await rego.evaluate(at, { context: { trails: at.trails }, policy: inline(source) });
  assert.is((await rego.ended(at, third.body.id)).result.allow, true);
});

test("a repeated create is answered with the first one while that is pending", async () => {
  const at = await rego.world();
  const slow = await rego.evaluate(at, { context: { trails: at.trails }, policy: inline(SLOW) });
  const body = { context: { trails: at.trails }, policy: inline(COMPLIANT), params: { n: 1 } };
  const first = await rego.evaluate(at, body);
  await refused(server, () => rego.evaluate(at, body), { status: 201, body: first.body });
  const different = await rego.evaluate(at, { ...body, params: { n: 2 } });
  assert.is.not(different.body.id, first.body.id);
  for (const { body: created } of [slow, first, different]) await rego.ended(at, created.id);
  const repeated = await rego.evaluate(at, body);
  assert.is.not(repeated.body.id, first.body.id, "once it has ended, it is another one");
});

test("evaluates published policies in every spelling of identifier and version", async () => {
  const at = await rego.world();
  await rego.publish(at, "gate", inline(constant(true)));
  await rego.publish(at, "gate", inline(constant(false)));
  const context = { trails: at.trails };
  for (const [body, version] of [
    [{ context, policy: { identifier: "gate" } }, 2],
    [{ context, policy: { identifier: "gate", version: 1 } }, 1],
    [{ context, policy: { identifier: "gate", version: "1" } }, 1],
    [{ context, policy: { identifier: "gate", version: "v1" } }, 1],
    [{ context, policy: { identifier: "gate@v1" } }, 1],
    [{ context, policy: { identifier: "gate@1" } }, 1],
    [{ context, identifier: "gate", version: 1 }, 1],
    [{ context, identifier: "gate@v2" }, 2],
  ] as const) {
    const created = await rego.evaluate(at, body);
    assert.is(created.status, 201, created.text);
    const read = await rego.ended(at, created.body.id);
    assert.equal(
      { allow: read.result.allow, policy: read.policy },
      {
        allow: version === 1,
        policy: { source: "published", identifier: "gate", version, sha256: read.policy.sha256 },
      },
    );
  }
});

test("refuses two spellings that name different policies or versions", async () => {
  const at = await rego.world();
  await rego.publish(at, "gate", inline(constant(true)));
  await rego.publish(at, "gate", inline(constant(false)));
  const context = { trails: at.trails };
  const extra = (value: unknown) =>
    `Extra inputs are not permitted [input: ${value}]; possible keys: context, policy, params, decision`;
  const two = "Input should be a valid integer [input: 2 in the identifier, 1 in the version]";
  for (const [body, errors] of [
    [{ policy: { identifier: "gate@v2", version: 1 } }, { "policy.version": two }],
    [{ policy: { identifier: "gate@v2" }, version: "v1" }, { "policy.version": two }],
    [{ identifier: "gate@2", version: 1 }, { "policy.version": two }],
    [{ policy: { identifier: "gate", version: 2 }, version: 1 }, { version: extra(1) }],
    [{ policy: { identifier: "gate" }, identifier: "other" }, { identifier: extra("other") }],
  ] as const)
    await refused(server, () => rego.evaluate(at, { context, ...body }), invalid(errors));
  const twice = { context, version: 2, policy: { identifier: "gate@v2", version: 2 } };
  const { body } = await rego.evaluate(at, twice);
  assert.is((await rego.ended(at, body.id))["policy"].version, 2);
});

test("refuses in the order of the contract, each with its text, and leaves nothing behind", async () => {
  const at = await rego.world();
  const reader = server.given.user(at.org, "reader");
  await server.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: "C1", name: "One" } });
  await server.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: "C2", name: "Two" } });
  await server.call("POST", `/controls/${at.org}/C2/archive`, { key: at.key });
  const gone = await server.given.flow(at);
  await server.given.trail(at, { flow: gone, name: "t" });
  await server.call("PUT", `/flows/${at.org}/${gone}/archive`, { key: at.key });
  const fingerprint = "a".repeat(64);
  // Each has all later mistakes, too: the first one is told.
  const decision = { control: "none", name: "d", flow: "no-flow", trail: "no-trail", fingerprint };
  const wrong = {
    context: { trails: [{ flow: at.flow, trail: "t-1" }, ...at.trails, { flow: "f-1", trail: at.trail }] },
    policy: { identifier: "no-policy", version: 3 },
    decision,
  };
  const send =
    (body: unknown, key = at.key) =>
    () =>
      rego.evaluate({ org: at.org, key }, body);
  await refused(server, send(wrong, ""), { status: 401, body: UNAUTHENTICATED });
  await refused(server, send(wrong, server.given.user(at.org, null)), DENIED);
  await refused(server, send({ ...wrong, context: 1 }, reader), DENIED);
  await refused(
    server,
    send({ ...wrong, context: { trails: [] }, more: 1 }),
    invalid({
      "context.trails": "List should have at least 1 item [input: []]",
      more: "Extra inputs are not permitted [input: 1]; possible keys: context, policy, params, decision",
    }),
  );
  const organization = server.store.organizations.find(at.org) as { id: number };
  const settings = { isPublic: false, controlsEnabled: true };
  server.store.organizations.updateSettings(organization.id, { ...settings, evaluationsEnabled: false });
  await refused(server, send(wrong), {
    status: 403,
    body: { message: "Server-side evaluation is not enabled for this organization" },
  });
  server.store.organizations.updateSettings(organization.id, { ...settings, evaluationsEnabled: true });
  await refused(
    server,
    send(wrong),
    missing(`These trails do not exist in org '${at.org}': ${at.flow}/t-1, f-1/${at.trail}`),
  );
  const good = { ...wrong, context: { trails: at.trails } };
  await refused(server, send(good), missing(`Rego policy 'no-policy' does not exist in org '${at.org}'`));
  await rego.publish(at, "gate", inline(constant(true)));
  await refused(
    server,
    send({ ...good, policy: { identifier: "gate", version: 3 } }),
    missing("Rego policy 'gate' has no version 3"),
  );
  const known = { ...good, policy: { identifier: "gate" } };
  await refused(server, send(known), missing(`Control 'none' does not exist in org '${at.org}'`));
  const to = (more: object) => send({ ...known, decision: { ...decision, control: "C1", ...more } });
  await refused(server, to({ control: "C2" }), bad(`Control 'C2' has been archived in org '${at.org}'`));
  await refused(server, to({ flow: gone }), bad(`Flow named '${gone}' has been archived for organization '${at.org}'`));
  await refused(server, to({}), missing(`Flow named 'no-flow' does not exist for organization '${at.org}'`));
  await refused(
    server,
    to({ flow: at.flow }),
    missing(`Trail with name 'no-trail' does not exist for Organization '${at.org}' and Flow '${at.flow}'`),
  );
  await refused(
    server,
    to({ flow: at.flow, trail: at.trail }),
    missing(
      `Artifact with fingerprint ${fingerprint} does not exist in trail "${at.trail}" of flow "${at.flow}" ` +
        `belonging to organization "${at.org}"`,
    ),
  );
});

test("refuses bodies that are not as they should be, each field with its text", async () => {
  const at = await rego.world();
  const context = { trails: at.trails };
  const policy = inline(COMPLIANT);
  const send = (body: unknown) => () => rego.evaluate(at, body);
  const deep = (levels: number): unknown => (levels === 0 ? 1 : { a: deep(levels - 1) });
  const trails = Array.from({ length: 101 }, () => at.trails[0]);
  const mistakes: readonly (readonly [body: object, errors: Record<string, string>])[] = [
    [{}, { context: "Field required", policy: "Field required" }],
    [{ context, policy, params: null }, { params: "Input should be a valid object [input: null]" }],
    [{ context, policy, params: [] }, { params: "Input should be a valid object [input: []]" }],
    [
      { context: { trails: [{ flow: "a/b", trail: "" }] }, policy },
      {
        "context.trails.0.flow": String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\.\-_~]*$' [input: a/b]`,
        "context.trails.0.trail": String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$' [input: ]`,
      },
    ],
    [{ context: { trails: [{ flow: "f" }] }, policy }, { "context.trails.0.trail": "Field required" }],
    [{ context: { trails }, policy }, { "context.trails": "List should have at most 100 items" }],
    [
      { context, policy: { files: { "p.rego": 1 } } },
      { "policy.files.p.rego": "Input should be a valid string [input: 1]" },
    ],
    [{ context, policy: { files: {} } }, { "policy.files": "Input must NOT have fewer than 1 properties [input: {}]" }],
    [
      { context, policy: { identifier: "x", ...policy } },
      { "policy.identifier": "Extra inputs are not permitted [input: x]; possible keys: files" },
    ],
    [
      { context, policy: { identifier: "x", version: 0 } },
      { "policy.version": "Input should be greater than or equal to 1 [input: 0]" },
    ],
    [
      { context, policy, decision: { control: "c" } },
      {
        "decision.name": "Field required",
        "decision.flow": "Field required",
        "decision.trail": "Field required",
      },
    ],
    [{ context, policy: inline("\u0000") }, { "policy.files.p.rego": "String should not contain a NUL character" }],
    [
      { context, policy: inline("\ud800") },
      { "policy.files.p.rego": "String should be valid Unicode without lone surrogates" },
    ],
    [
      { context, policy: { files: { "p\u0000": "" } } },
      { "policy.files": "A key of the object is not acceptable: String should not contain a NUL character" },
    ],
  ];
  for (const [body, errors] of mistakes) await refused(server, send(body), invalid(errors));
  await refused(server, send({ context, policy, params: { a: "x".repeat(9 << 20) } }), {
    status: 413,
    body: { message: "Request body size exceeds the 8MB limit" },
  });
  await refused(
    server,
    send({ context, policy, params: { a: "x".repeat(262_144) } }),
    invalid({ params: "The parameters are over the limit of 262144 bytes" }),
  );
  await refused(
    server,
    send({ context, policy, params: deep(101) }),
    invalid({ params: "The parameters nest deeper than 100 levels" }),
  );
  await refused(
    server,
    send({ context, policy: inline("x".repeat(1_048_571)) }),
    bad("policy bundle is 1048577 bytes, over the 1048576 byte limit"),
  );
  for (const count of [101, 10_000]) {
    const files = Object.fromEntries(Array.from({ length: count }, (_, n) => [`f${n}`, ""]));
    await refused(
      server,
      send({ context, policy: { files } }),
      bad(`policy bundle holds ${count} files, over the limit of 100`),
    );
  }
  await refused(
    server,
    send({ context, policy: { files: { "../x.rego": "" } } }),
    invalid({ "policy.files.../x.rego": "The path must not contain '..'" }),
  );
});

const bundleOf = async (at: At, id: string): Promise<[string, string][]> => {
  const response = await fetch(`${server.url}/api/v2/evaluations/${at.org}/${id}/bundle`, {
    headers: { Authorization: `Bearer ${at.key}` },
  });
  assert.is(response.headers.get("content-type"), "application/gzip");
  return [...untar(gunzipSync(Buffer.from(await response.arrayBuffer())))].map(({ name, content }) => [
    name,
    content.toString(),
  ]);
};
const bundleNames = async (at: At, id: string): Promise<string[]> => (await bundleOf(at, id)).map(([name]) => name);

test("a full queue is answered with 503 and a failed record, and delays no other caller", async () => {
  const busy = await startServer();
  try {
    const client = regoClient(busy);
    const at = await client.world();
    await busy.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: "C1", name: "One" } });
    const context = { trails: at.trails };
    const ids: string[] = [];
    // One runs, and sixteen wait.
    for (let number = 0; number < 17; number += 1) {
      const created = await client.evaluate(at, { context, policy: inline(ENDLESS), params: { number } });
      assert.is(created.status, 201, created.text);
      ids.push(created.body.id);
    }
    const decision = { control: "C1", name: "gate", flow: at.flow, trail: at.trail };
    const refusal = await client.evaluate(at, { context, policy: inline(constant(true)), decision });
    const [failed] = (await client.evaluations(at, "?status=failed")).body.evaluations;
    assert.equal(
      { status: refusal.status, body: refusal.body, retryAfter: refusal.headers.get("Retry-After") },
      { status: 503, body: { message: `Evaluation '${failed.id}' could not be queued` }, retryAfter: "5" },
    );
    assert.equal(failed, {
      id: failed.id,
      status: "failed",
      requested_at: failed.requested_at,
      recorded_at: failed.requested_at,
      error: { kind: "enqueue_failed", message: "Too many evaluations are waiting. Please try again" },
      policy: failed.policy,
      trails: at.trails,
      params: {},
      decision,
      requested_by: `${at.org}-admin`,
      _links: { bundle: failed._links.bundle },
    });
    const decisions = await busy.call("GET", `/controls/${at.org}/C1/decisions`, { key: at.key });
    assert.equal(decisions.body.decisions, []);

    const colleague = { org: at.org, key: busy.given.user(at.org, "member") };
    for (const other of [{ ...at, ...colleague }, await client.world()]) {
      const created = await client.evaluate(other, {
        context: { trails: other.trails },
        policy: inline(constant(true)),
      });
      const verdict = await client.ended(other, created.body.id);
      assert.equal(verdict["result"], { allow: true, violations: [] });
      const { evaluations } = (await client.evaluations(at, "?per_page=100")).body;
      const first = evaluations.find(({ id }: Json) => id === ids[0]);
      assert.ok(
        first.status === "pending" || first.recorded_at >= verdict["recorded_at"],
        "the first one takes longer",
      );
    }
  } finally {
    await busy.stop();
  }
});

test("a pending and a failed evaluation show all that is known of them, with input and bundle", async () => {
  const at = await rego.world();
  await rego.publish(at, "gate", inline(constant(true)));
  const slow = await rego.evaluate(at, { context: { trails: at.trails }, policy: inline(SLOW) });
  // The caller's next ones wait for the first.
  const params = { minimum: 2 };
  const waiting = (await rego.evaluate(at, { context: { trails: at.trails }, policy: { identifier: "gate" }, params }))
    .body;
  const broken = (await rego.evaluate(at, { context: { trails: at.trails }, policy: inline("package p\n") })).body;
  const pending = (await rego.evaluations(at, "?status=pending")).body.evaluations.find(
    ({ id }: Json) => id === waiting.id,
  );
  const linksOf = (id: string) => {
    const href = `http://assay.test/api/v2/evaluations/${at.org}/${id}`;
    return { input: { href: `${href}/input` }, bundle: { href: `${href}/bundle` } };
  };
  const input = (await rego.evaluations(at, `/${waiting.id}/input`)).text;
  const bundle = await bundleOf(at, waiting.id);
  const { version } = (await rego.policies(at, "/gate")).body;
  const input_sha256 = createHash("sha256").update(input).digest("hex");
  const known = {
    ...waiting,
    policy: { source: "published", identifier: "gate", version: 1, sha256: version.sha256 },
    input_sha256,
    trails: [{ ...at.trails[0], moment_number: 1 }],
    params,
    requested_by: `${at.org}-admin`,
    _links: linksOf(waiting.id),
  };
  assert.equal(pending, known);
  server.store.regoEvaluations.removeOld(Infinity, 1_000);
  assert.equal(await rego.evaluations(at, `/${waiting.id}/input`).then(({ status }) => status), 200, "retention waits");
  const ended = await rego.ended(at, waiting.id);
  assert.equal(ended, {
    ...known,
    status: "completed",
    recorded_at: ended["recorded_at"],
    result: { allow: true, violations: [] },
    engine: ended["engine"],
    duration_ms: ended["duration_ms"],
  });
  assert.is((await rego.evaluations(at, `/${waiting.id}/input`)).text, input);
  const [[, readme] = [], ...documents] = bundle;
  assert.match(readme ?? "", /\nVerdict: +pending\nEngine: +not run\n/);
  const [, ...later] = await bundleOf(at, waiting.id);
  assert.equal(later, documents);

  const failed = await rego.ended(at, broken.id);
  assert.equal(failed, {
    ...broken,
    status: "failed",
    recorded_at: failed["recorded_at"],
    error: { kind: "entrypoint", message: "No package declares a rule named allow" },
    policy: { source: "inline", sha256: failed["policy"].sha256 },
    engine: ended["engine"],
    input_sha256,
    trails: known.trails,
    params: {},
    requested_by: known.requested_by,
    duration_ms: failed["duration_ms"],
    _links: linksOf(broken.id),
  });
  assert.equal(await bundleNames(at, broken.id), ["README.txt", "data.json", "input.json", "policy/p.rego"]);
  assert.is((await rego.ended(at, slow.body.id)).status, "completed");
});

test("an input over its limit ends the evaluation at once, with a reason", async () => {
  const at = await rego.world();
  const large = "x".repeat(3_900_000);
  for (const name of ["a", "b", "c", "d", "e"])
    await server.given.attestation(at, { flow: at.flow, trail: at.trail, name, user_data: { large } });
  const created = await rego.evaluate(at, { context: { trails: at.trails }, policy: inline(COMPLIANT) });
  assert.is(created.status, 201);
  const { body } = await rego.evaluations(at, `/${created.body.id}`);
  assert.equal(
    [body.status, body.error],
    ["failed", { kind: "input_shape", message: "The input document of 1 trail is over the limit of 33554432 bytes" }],
  );
  assert.equal(Object.keys(body._links), ["bundle"]);
  await refused(
    server,
    () => rego.evaluations(at, `/${created.body.id}/input`),
    missing(`Evaluation '${created.body.id}' has no input`),
  );
  const names = await bundleNames(at, created.body.id);
  assert.equal(names, ["README.txt", "data.json", "policy/p.rego"]);
});

test("the bundle holds input, data and policy as OPA reads them, and the rest apart", async () => {
  const at = await rego.world();
  const files = { "lib/data.json": "{}", "main.rego": COMPLIANT, "main_test.rego": "package t\n", "notes.md": "x" };
  const created = await rego.evaluate(at, { context: { trails: at.trails }, policy: { files }, params: { a: 1 } });
  const input = await rego.evaluations(at, `/${created.body.id}/input`);
  const members = new Map(await bundleOf(at, created.body.id));
  assert.equal(
    [...members.keys()],
    [
      "README.txt",
      "data.json",
      "input.json",
      "policy/lib/data.json",
      "policy/main.rego",
      "other/main_test.rego",
      "other/notes.md",
    ],
  );
  assert.is(members.get("input.json"), input.text);
  const time = `${BigInt(Math.round(created.body.requested_at * 1e6)) * 1_000n}`;
  assert.is(members.get("data.json"), `{"params":{"a":1},"kosli":{"evaluation_time":${time}}}\n`);
  assert.match(
    members.get("README.txt") ?? "",
    /opa eval -i input\.json -d data\.json -d policy 'data\.<package>\.allow'/,
  );
});

test("lists evaluations newest first, by every filter", async () => {
  const at = await rego.world();
  const other = await server.given.trail(at, { flow: at.flow });
  await rego.publish(at, "gate", inline(constant(false)));
  await server.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: "C1", name: "One" } });
  const decision = { control: "C1", name: "gate", flow: at.flow, trail: other };
  const requests = [
    { context: { trails: at.trails }, policy: inline(constant(true)) },
    { context: { trails: [{ flow: at.flow, trail: other }] }, policy: { identifier: "gate" }, decision },
    { context: { trails: at.trails }, policy: inline("package p\n") },
  ];
  const ids: string[] = [];
  const times: number[] = [];
  for (const request of requests) {
    const { body } = await rego.evaluate(at, request);
    ids.push(body.id);
    times.push(body.requested_at);
    await rego.ended(at, body.id);
  }
  const [allowed, denied, broken] = ids as [string, string, string];
  const found = async (query: string): Promise<string[]> =>
    (await rego.evaluations(at, `?${query}`)).body.evaluations.map(({ id }: Json) => id);
  assert.equal(await found(""), [broken, denied, allowed]);
  assert.equal(await found("status=failed"), [broken]);
  assert.equal(await found("status=pending"), []);
  assert.equal(await found("status=completed"), [denied, allowed]);
  assert.equal(await found("control=C1"), [denied]);
  assert.equal(await found("control=C2"), []);
  assert.equal(await found("allow=true"), [allowed]);
  assert.equal(await found("allow=false"), [denied]);
  assert.equal(await found("identifier=gate"), [denied]);
  assert.equal(await found("identifier=gate&version=v1"), [denied]);
  assert.equal(await found("identifier=gate&version=2"), []);
  assert.equal(await found(`flow=${at.flow}`), [broken, denied, allowed]);
  assert.equal(await found("flow=none"), []);
  assert.equal(await found(`flow=${at.flow}&trail=${other}`), [denied]);
  assert.equal(await found(`trail=${other}`), [denied]);
  assert.equal(await found("identifier=none"), []);
  assert.equal(await found("identifier=gate&version=latest"), []);
  assert.equal(await found("allow=false&status=failed"), [], "all filters must match");
  assert.equal(await found(`from_timestamp=${times[1]}`), [broken, denied]);
  assert.equal(await found(`to_timestamp=${times[1]}`), [denied, allowed]);
  assert.equal(await found("per_page=1&page=2"), [denied]);
  await refused(
    server,
    () => rego.evaluations(at, "?version=2"),
    invalid({ version: "Give the identifier of the policy, too: `version` is the number of a version of it" }),
  );
  const page = (await rego.evaluations(at, "?per_page=2")).body;
  assert.equal([page.page, page.per_page, page.total_pages, page.total_count], [1, 2, 2, 3]);
  assert.equal(page.evaluations[0], (await rego.evaluations(at, `/${broken}`)).body);
  await refused(
    server,
    () => rego.evaluations(at, "/none"),
    missing(`Evaluation 'none' does not exist in org '${at.org}'`),
  );
  const elsewhere = await rego.world();
  await refused(
    server,
    () => rego.evaluations(elsewhere, `/${allowed}`),
    missing(`Evaluation '${allowed}' does not exist in org '${elsewhere.org}'`),
  );
});

test("each role may do what the contract's matrix says", async () => {
  const at = await rego.world();
  const { org } = at;
  server.store.organizations.updateSettings((server.store.organizations.find(org) as { id: number }).id, {
    isPublic: true,
    controlsEnabled: true,
  });
  await server.call("POST", `/controls/${org}`, { key: at.key, body: { identifier: "C1", name: "One" } });
  await rego.publish(at, "gate", inline(constant(true)));
  const body = { context: { trails: at.trails }, policy: { identifier: "gate" } };
  const decision = { control: "C1", name: "gate", flow: at.flow, trail: at.trail };
  const { id } = (await rego.evaluate(at, body)).body;
  await rego.ended(at, id);
  const statuses: Json = {};
  for (const role of ["admin", "member", "snapshotter", "reader", null] as const) {
    const who = { org, key: server.given.user(org, role) };
    const answers: Answer[] = [
      await rego.evaluate(who, body),
      await rego.evaluate(who, { ...body, decision }),
      await rego.evaluations(who, `/${id}`),
      await rego.evaluations(who, `/${id}/input`),
      await rego.policies(who, "/gate/versions/1/bundle"),
      await rego.publish(who, `gate-${role}`, inline(constant(true))),
      await server.call("PUT", `/rego-policies/${org}/gate/unarchive`, { key: who.key }),
    ];
    statuses[role ?? "outsider"] = answers.map(({ status }) => status);
    // Otherwise they would end while the next test compares the tables.
    for (const answer of answers.slice(0, 2)) if (answer.status === 201) await rego.ended(at, answer.body.id);
  }
  assert.equal(statuses, {
    admin: [201, 201, 200, 200, 200, 201, 200],
    member: [201, 201, 200, 200, 200, 403, 403],
    snapshotter: [201, 403, 200, 200, 200, 403, 403],
    reader: [201, 403, 200, 200, 200, 403, 403],
    outsider: [403, 403, 200, 200, 200, 403, 403],
  });
});

test("the switch of controls stops decisions and published policies, not evaluations", async () => {
  const at = await rego.world();
  await rego.publish(at, "gate", inline(constant(true)));
  server.store.organizations.updateSettings((server.store.organizations.find(at.org) as { id: number }).id, {
    isPublic: false,
    controlsEnabled: false,
  });
  const body = { context: { trails: at.trails }, policy: { identifier: "gate" } };
  const decision = { control: "C1", name: "gate", flow: at.flow, trail: at.trail };
  await refused(server, () => rego.evaluate(at, { ...body, decision }), DENIED);
  await refused(server, () => rego.policies(at, "/gate"), DENIED);
  const created = await rego.evaluate(at, body);
  assert.is((await rego.ended(at, created.body.id)).result.allow, true);
});

test("a request is in the audit log, with the bundle that it ran", async () => {
  const at = await rego.world();
  const entries = await entriesOf(server, async () => {
    const { body } = await rego.evaluate(at, { context: { trails: at.trails }, policy: inline(COMPLIANT) });
    await rego.ended(at, body.id);
  });
  const [evaluation] = (await rego.evaluations(at)).body.evaluations;
  assert.equal(
    entries.map(({ event, target, detail }: Json) => ({ event, target, detail })),
    [
      {
        event: "evaluation.requested",
        target: `/api/v2/evaluations/${at.org}`,
        detail: { evaluation_id: evaluation.id, bundle_sha256: evaluation.policy.sha256 },
      },
    ],
  );
});

test.run();
