/** Bodies that report ignore keys that the server does not know; admins see what was ignored (newer-clients 3.2). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { MAX_UNKNOWN_INPUTS } from "../../../src/store/accounts/unknown-inputs.ts";
import { fresh, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { signIn, visibleText } from "../../web/browser.ts";

const test = suite("api/accounts/unknown-inputs");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Fields = Record<string, unknown>;
const CLI = { "User-Agent": "Kosli/v2.60.1+abc" };
const SCRIPT = { "User-Agent": "curl/8.5.0" };

/** Saves what was counted, as the server does once a minute, and lists it for an admin. */
async function listed(at: At): Promise<Fields[]> {
  await server.writer.run(() => server.store.unknownInputs.flush(1_700_000_000));
  const { status, body, text } = await server.call("GET", `/unknown-inputs/${at.org}`, { key: at.key });
  assert.is(status, 200, text);
  return body;
}
const inShort = async (at: At): Promise<string[]> =>
  (await listed(at)).map(({ client, operation, name, count }) => `${client} ${operation} ${name} ${count}`).sort();
const rows = (): number => server.db.prepare("SELECT total_changes()").pluck().get() as number;

const artifact = (fields: Fields = {}) => ({
  fingerprint: freshFingerprint(),
  filename: "app",
  build_url: "https://ci.test/1",
  commit_url: "https://git.test/1",
  ...fields,
});

/** One request for every body that ignores unknown keys, with one such key. */
async function reports(at: At) {
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  await server.call("POST", `/service-accounts/${at.org}`, { key: at.key, body: { name: "bot" } });
  await server.call("POST", `/custom-attestation-types/${at.org}`, { key: at.key, form: { json: { name: "t" } } });
  const attestation = (kind: string, fields: Fields, isForm = true) => ({
    operation: `post_${kind}_attestation`,
    send: (headers: Record<string, string>, more: Fields): Promise<Answer> => {
      const json = { attestation_name: "a", ...fields, ...more };
      const body = isForm ? { form: { json } } : { body: json };
      const path = `/attestations/${at.org}/${flow}/trail/${trail}/${kind}`;
      return server.call("POST", path, { key: at.key, headers, ...body });
    },
  });
  const json = (operation: string, [method, path]: [string, string], fields: Fields) => ({
    operation,
    send: (headers: Record<string, string>, more: Fields): Promise<Answer> =>
      server.call(method, path, { key: at.key, headers, body: { ...fields, ...more } }),
  });
  const form = (operation: string, path: string, fields: Fields) => ({
    operation,
    send: (headers: Record<string, string>, more: Fields): Promise<Answer> =>
      server.call("PUT", path, { key: at.key, headers, form: { json: { ...fields, ...more } } }),
  });
  const environment = async (type: string): Promise<string> => {
    const name = fresh("env");
    await server.given.environment(at, { name, type });
    return `/environments/${at.org}/${name}/report/${type}`;
  };
  return [
    json("create_artifact", ["POST", `/artifacts/${at.org}/${flow}`], artifact()),
    form("create_trail", `/trails/${at.org}/${flow}`, { name: "t2" }),
    form("create_flow_with_template", `/flows/${at.org}/template_file`, { name: fresh("flow") }),
    json("create_flow", ["PUT", `/flows/${at.org}`], { name: fresh("flow"), description: "" }),
    json("create_service_account", ["POST", `/service-accounts/${at.org}`], { name: "bot2" }),
    json("create_service_account_api_key", ["POST", `/service-accounts/${at.org}/bot/api-keys`], { description: "d" }),
    json("create_user_api_key", ["POST", "/user/api-keys"], { description: "d" }),
    attestation("generic", { is_compliant: true }),
    attestation("custom", { type_name: "t", attestation_data: {} }),
    attestation("jira", { jira_results: [] }),
    attestation("junit", {
      junit_results: [{ name: "s", failures: 0, errors: 0, skipped: 0, total: 1, duration: 1 }],
    }),
    attestation("pull_request", { git_provider: "github", pull_requests: [] }),
    attestation("snyk", {
      snyk_results: {
        schema_version: 1,
        tool: { name: "snyk", version: "1" },
        results: [{ high_count: 0, medium_count: 0, low_count: 0 }],
      },
    }),
    attestation("override", { reason: "r", new_compliance_status: true, original_attestation_type: "snyk" }, false),
    json("k8s_report", ["PUT", await environment("K8S")], { artifacts: [] }),
    json("docker_report", ["PUT", await environment("docker")], { artifacts: [] }),
  ];
}

test("a key that the server does not know is ignored and counted, whichever report it comes with", async () => {
  const at = server.given.org();
  const all = await reports(at);
  for (const { operation, send } of all) {
    const { status, text } = await send(CLI, { carbon_footprint: { grams: 5 } });
    assert.ok(status === 200 || status === 201, `${operation}: ${status} ${text}`);
  }
  const expected = all
    // Keys of a user belong to no organization.
    .filter(({ operation }) => operation !== "create_user_api_key")
    .map(({ operation }) => `Kosli/v2.60.1 ${operation} carbon_footprint 1`)
    .sort();
  assert.equal(await inShort(at), expected);
});

test("a key one or two letters off a known one is refused from others, and nothing of the report is left", async () => {
  const at = server.given.org();
  const slips: Record<string, [slip: string, meant: string]> = {
    create_artifact: ["trail_nam", "trail_name"],
    create_trail: ["Description", "description"],
    create_flow_with_template: ["visiblity", "visibility"],
    create_flow: ["repourl", "repo_url"],
    create_service_account: ["priviledge", "privilege"],
    create_service_account_api_key: ["expires_on", "expires_at"],
    create_user_api_key: ["expire_at", "expires_at"],
    override: ["reasons", "reason"],
  };
  for (const { operation, send } of await reports(at)) {
    const [slip, meant] =
      slips[operation] ??
      (operation.endsWith("_report") ? ["artifact", "artifacts"] : ["artefact_fingerprint", "artifact_fingerprint"]);
    const before = rows();
    const refused = await send(SCRIPT, { [slip]: "x" });
    const errors = { [slip]: `Extra inputs are not permitted. Did you mean '${meant}'?` };
    assert.equal(
      { status: refused.status, body: refused.body },
      { status: 400, body: { message: "Input payload validation failed", errors } },
      operation,
    );
    assert.is(rows(), before, operation);
    const taken = await send({ "User-Agent": "Kosli/dev" }, { [slip]: "x" });
    assert.ok(taken.status === 200 || taken.status === 201, `${operation}: ${taken.text}`);
    // The bytes of this report are known by now.
    assert.is((await send(SCRIPT, { [slip]: "x" })).status, 400, operation);
  }
});

test("a refusal for another reason names the slip, too, whoever sent it", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const { filename: _, ...body } = artifact({ file_name: "app", colour: "red" });
  const refused = await server.call("POST", `/artifacts/${at.org}/${flow}`, { key: at.key, headers: CLI, body });
  assert.is(refused.status, 400);
  assert.equal(refused.body.errors, {
    filename: "Field required",
    file_name: "Extra inputs are not permitted. Did you mean 'filename'?",
  });
  assert.equal(await listed(at), [], "a refused body is not counted");
});

test("a large body is read in a thread and treated alike", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const post = (headers: Record<string, string>, fields: Fields) =>
    server.call("POST", `/artifacts/${at.org}/${flow}`, {
      key: at.key,
      headers,
      body: artifact({ user_data: { text: "x".repeat(300_000) }, ...fields }),
    });
  assert.is((await post(SCRIPT, { colour: "red" })).status, 201);
  const refused = await post(SCRIPT, { comit_url: "x" });
  assert.equal(refused.body.errors, { comit_url: "Extra inputs are not permitted. Did you mean 'commit_url'?" });
  assert.equal(await inShort(at), ["other create_artifact colour 1"]);
});

test("the rest of a body stays closed, and a body has at most 100 unknown keys", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const post = (fields: Fields) =>
    server.call("POST", `/artifacts/${at.org}/${flow}`, { key: at.key, headers: CLI, body: artifact(fields) });
  const many = (count: number): Fields => Object.fromEntries(Array.from({ length: count }, (_, i) => [`key-${i}`, i]));
  assert.equal((await post({ external_urls: { a: { href: "https://x.test", more: 1 } } })).body.errors, {
    "external_urls.a.more": "Extra inputs are not permitted [input: 1]; possible keys: href, fingerprint",
  });
  assert.equal((await post(many(101))).body.errors, { body: "Object should have at most 100 unknown keys" });
  assert.is((await post(many(100))).status, 201);
  for (const [path, body, keys] of [
    [
      `/environments/${at.org}`,
      { name: "e", type: "K8S", description: "", colour: "red" },
      "name, type, description, include_scaling, require_provenance, included_environments, policies",
    ],
    [`/flows/${at.org}/${flow}/rename`, { new_name: "f2", colour: "red" }, "new_name"],
  ] as const)
    assert.equal((await server.call("PUT", path, { key: at.key, headers: CLI, body })).body.errors, {
      colour: `Extra inputs are not permitted [input: red]; possible keys: ${keys}`,
    });
});

test("names are shown escaped and short; what is below the top level is never looked at", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const keys = { "\u001b[31m<b>\n": 1, __proto__x: 2, ["y".repeat(500)]: 3 };
  const body = artifact({ ...keys, user_data: { filenam: "kept", unknown: { a: 1 } } });
  const { status, text } = await server.call("POST", `/artifacts/${at.org}/${flow}`, {
    key: at.key,
    headers: CLI,
    body,
  });
  assert.is(status, 201, text);
  assert.equal(
    (await listed(at)).map(({ name }) => name).sort(),
    ["\\u001b[31m<b>\\u000a", "__proto__x", "y".repeat(64)].sort(),
  );
  const read = await server.call("GET", `/artifacts/${at.org}/${flow}/fingerprint/${body.fingerprint}`, {
    key: at.key,
  });
  assert.equal(read.body.user_data, { filenam: "kept", unknown: { a: 1 } });
});

test("routes and kinds of attestations that a release of the CLI asks for are counted, no others", async () => {
  const at = server.given.org();
  const ask = (method: string, path: string, headers: Record<string, string>, key: string | null = at.key) =>
    server.call(method, path, { key, headers });
  const paths: [string, string, number][] = [
    ["PUT", `/rego-bundles/${at.org}/P-1`, 404],
    ["GET", `/controls/${at.org}/C1/evidence/7f3a91c2`, 404],
    ["POST", `/attestations/${at.org}/f/trail/v1.2/provenance`, 405],
    ["PUT", `/trails/${at.org}/f/t-1/seal`, 404],
  ];
  for (const [method, path, status] of paths) {
    for (const headers of [CLI, CLI, SCRIPT, { "User-Agent": "Kosli/dev" }])
      assert.is((await ask(method, path, headers)).status, status, path);
    await ask(method, path, CLI, "no-such-key");
    await ask(method, path, CLI, null);
  }
  assert.equal(
    (await listed(at)).map(({ kind, operation, name, count }) => ({ kind, operation, name, count })),
    [
      { kind: "route", operation: "PUT /trails/*/*/*/seal", name: "", count: 2 },
      { kind: "attestation_kind", operation: "POST /attestations/*/*/trail/*/*", name: "provenance", count: 2 },
      { kind: "route", operation: "GET /controls/*/*/evidence/*", name: "", count: 2 },
      { kind: "route", operation: "PUT /rego-bundles/*/*", name: "", count: 2 },
    ],
  );
});

test("each organization sees its own, admins alone, and their page says it in words", async () => {
  const [at, other] = [server.given.org(), server.given.org()];
  const flow = await server.given.flow(at);
  await server.call("POST", `/artifacts/${at.org}/${flow}`, {
    key: at.key,
    headers: CLI,
    body: artifact({ "<b>new</b>": 1 }),
  });
  assert.is((await listed(at)).length, 1);
  assert.equal(await listed(other), []);
  for (const role of ["member", "snapshotter", "reader"] as const) {
    const key = server.given.user(at.org, role);
    assert.is((await server.call("GET", `/unknown-inputs/${at.org}`, { key })).status, 403);
  }
  const browser = await signIn(server, `${at.org}-admin`);
  const page = await browser.get(`/${at.org}/settings/clients`);
  assert.is(page.status, 200);
  assert.not.ok(page.text.includes("<b>new</b>"));
  assert.ok(visibleText(page).includes("Kosli/v2.60.1 ignored field <b>new</b> create_artifact 1"), visibleText(page));
});

test("at most 100 are kept; each organization has its share, and releases of the CLI come first", async () => {
  const [flooding, quiet] = [server.given.org(), server.given.org()];
  const note = (at: At, client: string, name: string) =>
    server.store.unknownInputs.note({
      organizationId: (server.store.organizations.find(at.org) as { id: number }).id,
      client,
      kind: "key",
      operation: "create_artifact",
      name,
    });
  server.db.exec("DELETE FROM unknown_inputs");
  note(quiet, "Kosli/v2.60.1", "quiet");
  note(flooding, "Kosli/v2.60.1", "first");
  await listed(quiet);
  for (let round = 0; round < 3; round += 1) {
    for (let i = 0; i < 500; i += 1) note(flooding, "other", `junk-${round}-${i}`);
    await server.writer.run(() => server.store.unknownInputs.flush(1_700_000_100 + round));
  }
  const count = server.db.prepare("SELECT count(*) FROM unknown_inputs").pluck().get();
  assert.is(count, MAX_UNKNOWN_INPUTS);
  assert.equal(
    (await listed(quiet)).map(({ name }) => name),
    ["quiet"],
  );
  assert.is((await listed(flooding))[0]?.["name"], "first");
  await server.writer.run(() => server.store.unknownInputs.flush(1_700_000_000 + 91 * 86_400));
  assert.equal(await listed(quiet), []);
});

test("no request writes a count: it is saved with the last uses of keys, and added to what was saved", async () => {
  const at = server.given.org();
  const send = async () => {
    const path = await server.given.environment(at, { type: "docker" });
    for (let i = 0; i < 3; i += 1)
      await server.call("PUT", `/environments/${at.org}/${path}/report/docker`, {
        key: at.key,
        headers: CLI,
        body: { artifacts: [], cluster: "c" },
      });
  };
  const stored = () => server.db.prepare("SELECT sum(count) FROM unknown_inputs WHERE name = 'cluster'").pluck().get();
  await send();
  assert.is(stored(), null);
  assert.equal(await inShort(at), ["Kosli/v2.60.1 docker_report cluster 3"]);
  await send();
  assert.equal(await inShort(at), ["Kosli/v2.60.1 docker_report cluster 6"]);
});

test.run();
