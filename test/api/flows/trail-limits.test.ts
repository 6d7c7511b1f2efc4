/** Limits of a trail (domain/compliance/trail-size.ts): each report to it evaluates all of it on the main thread. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { MAX_TRAIL_CHECKS, MAX_WAITING_ATTESTATIONS } from "../../../src/domain/compliance/trail-size.ts";
import { freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/flows/trail-limits");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const NAMES = Array.from({ length: 1_990 }, (_, n) => `check-${n}`);
const TEMPLATE = `version: 1
trail:
  artifacts:
    - name: app
      attestations:
${NAMES.map((name) => `        - {name: ${name}, type: generic}\n`).join("")}`;
const TOO_MANY =
  "Trail 't' and its artifacts would have more than 10000 attestations of different names, expected or reported, " +
  "which is the most that it may have. Report to another trail";

async function givenFlow(template: string) {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template });
  const { key } = at;
  const trail = `/attestations/${at.org}/${flow}/trail/t/generic`;
  const report = (fields: object): Promise<Answer> =>
    server.call("POST", `/artifacts/${at.org}/${flow}`, {
      key,
      body: {
        fingerprint: freshFingerprint(),
        filename: "app.tar",
        git_commit: freshCommit(),
        build_url: "https://ci/1",
        commit_url: "https://git/1",
        trail_name: "t",
        ...fields,
      },
    });
  const attest = (attestation_name: string, fields: object = {}): Promise<Answer> =>
    server.call("POST", trail, { key, form: { json: { attestation_name, is_compliant: true, ...fields } } });
  const begin = (content?: string): Promise<Answer> =>
    server.call("PUT", `/trails/${at.org}/${flow}`, {
      key,
      form: {
        json: { name: "t" },
        ...(content ? { file: { name: "template_file", filename: "t.yml", content } } : {}),
      },
    });
  const read = async () => (await server.call("GET", `/trails/${at.org}/${flow}/t`, { key })).body;
  return { ...at, flow, report, attest, begin, read };
}
const expect = (answer: Answer, status: number): void => assert.is(answer.status, status, answer.text);

test("a trail refuses what would make it too large to evaluate with each report, and keeps nothing of it", async () => {
  const { org, key, flow, report, attest, read } = await givenFlow(TEMPLATE);
  const first = { fingerprint: freshFingerprint(), git_commit: freshCommit(), template_reference_name: "app" };
  expect(await report(first), 201);
  for (let n = 0; n < 4; n += 1) expect(await report({ template_reference_name: "app" }), 201);
  const before = await read();

  const fingerprint = freshFingerprint();
  const refused = await report({ fingerprint, template_reference_name: "app" });
  expect(refused, 400);
  assert.is(refused.body.message, TOO_MANY);
  assert.equal(await read(), before);
  expect(await server.call("GET", `/artifacts/${org}/${flow}/fingerprint/${fingerprint}`, { key }), 404);

  // 50 are left: of other names, in which what was reported before does not count again.
  for (let n = 0; n < 50; n += 1) expect(await attest(`other-${n}`), 201);
  const next = await attest("other-50");
  expect(next, 400);
  assert.is(next.body.message, TOO_MANY);
  expect(await attest("other-0"), 201);
  expect(await attest("check-0", { artifact_fingerprint: first.fingerprint }), 201);
  expect(await report(first), 201);
  assert.is((await read()).compliance_status.attestations_statuses.length, 50);
});

test("a name that one artifact has counts again for each other artifact that gets it", async () => {
  const { report, attest, read } = await givenFlow(TEMPLATE);
  for (let n = 0; n < 5; n += 1) expect(await report({ template_reference_name: "app" }), 201);
  const [fingerprint, git_commit] = [freshFingerprint(), freshCommit()];
  expect(await report({ fingerprint, git_commit, template_reference_name: "db" }), 201);
  for (let n = 0; n < 50; n += 1) expect(await report({ git_commit, template_reference_name: "db" }), 201);
  expect(await attest("scan", { artifact_fingerprint: fingerprint }), 201);
  const before = await read();

  const git_commit_info = { sha1: git_commit, message: "m", author: "a", branch: "b", timestamp: 1, url: "" };
  const refused = await attest("scan", { target_artifacts: ["db"], git_commit_info });
  expect(refused, 400);
  assert.is(refused.body.message, TOO_MANY);
  assert.equal(await read(), before);
  expect(await attest("scan", { artifact_fingerprint: fingerprint }), 201);
});

test("an override of a name that was not reported counts as one more", async () => {
  const { org, key, flow, report, attest } = await givenFlow(TEMPLATE);
  for (let n = 0; n < 5; n += 1) expect(await report({ template_reference_name: "app" }), 201);
  for (let n = 0; n < 50; n += 1) expect(await attest(`other-${n}`), 201);
  const override = (attestation_name: string) =>
    server.call("POST", `/attestations/${org}/${flow}/trail/t/override`, {
      key,
      body: { attestation_name, original_attestation_type: "generic", new_compliance_status: true, reason: "seen" },
    });
  expect(await override("other-0"), 201);
  const refused = await override("other-50");
  expect(refused, 400);
  assert.is(refused.body.message, TOO_MANY);
});

test("a trail refuses a template that its artifacts make too large, and keeps the one that it has", async () => {
  const { report, begin, read } = await givenFlow("version: 1\n");
  for (let n = 0; n < 6; n += 1) expect(await report({ template_reference_name: "app" }), 201);
  const before = await read();
  const refused = await begin(TEMPLATE);
  expect(refused, 400);
  assert.is(refused.body.message, TOO_MANY);
  assert.equal(await read(), before);
  expect(await begin(), 200);
});

test("a template of more entries, which an earlier version took, refuses no report of what it expects", async () => {
  const { org, flow, report, attest, begin, read } = await givenFlow("version: 1\n");
  const attestations = Array.from({ length: MAX_TRAIL_CHECKS }, (_, n) => ({ name: `check-${n}`, type: "generic" }));
  const artifacts = [{ name: "app", attestations: [{ name: "scan", type: "generic" }] }];
  const parsed = JSON.stringify({ version: 1, trail: { attestations, artifacts } });
  const { id } = server.store.templates.intern("# the text takes seconds to read", null, parsed);
  const organization = server.store.organizations.find(org) as { id: number };
  const { id: flowId } = server.store.flows.find(organization.id, flow) as { id: number };
  server.db.prepare("UPDATE flows SET template_id = ? WHERE id = ?").run(id, flowId);
  expect(await begin(), 201);
  expect(await attest("check-0"), 201);
  const fingerprint = freshFingerprint();
  expect(await report({ fingerprint, template_reference_name: "app" }), 201);
  expect(await attest("scan", { artifact_fingerprint: fingerprint }), 201);
  const { compliance_status: status } = await read();
  assert.is(status.attestations_statuses.length, MAX_TRAIL_CHECKS);
  assert.is(status.artifacts_statuses.app.attestations_statuses.length, 1);

  const before = await read();
  const more = [await attest("other"), await report({ template_reference_name: "app" })];
  for (const refused of more) {
    expect(refused, 400);
    assert.is(refused.body.message, TOO_MANY.replace("10000", "10001"));
  }
  assert.equal(await read(), before);
});

test("an artifact for which too many attestations wait is refused", async () => {
  const { report, attest, read } = await givenFlow("version: 1\ntrail:\n  artifacts:\n    - name: app\n");
  const git_commit = freshCommit();
  const commit = { sha1: git_commit, message: "m", author: "a", branch: "b", timestamp: 1, url: "" };
  const wait = async (): Promise<void> =>
    expect(await attest("scan", { target_artifacts: ["app"], git_commit_info: commit }), 201);
  await wait();
  for (let n = 0; n < MAX_WAITING_ATTESTATIONS / 50; n += 1) await Promise.all(Array.from({ length: 50 }, wait));
  const before = await read();
  const refused = await report({ git_commit, template_reference_name: "app" });
  expect(refused, 400);
  assert.is(
    refused.body.message,
    "More than 1000 earlier attestations of trail 't' would be bound to this artifact. Report it to another trail",
  );
  assert.equal(await read(), before);
  expect(await report({ template_reference_name: "app" }), 201);
});

test.run();
