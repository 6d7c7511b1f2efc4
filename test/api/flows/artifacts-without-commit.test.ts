/** Artifacts that were reported without a commit (wire-contract 5): taken, shown, searched, bound, packaged. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NO_COMMIT } from "../../../src/domain/commit.ts";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { unpack } from "../../audit-packages/unpack.ts";
import { signIn, visibleText } from "../../web/browser.ts";
import { running, runningIn } from "../environments/given.ts";

const test = suite("api/flows/artifacts-without-commit");
const directory = mkdtempSync(join(tmpdir(), "assay-no-commit-"));
let server: TestServer;
test.before(async () => void (server = await startServer({ directory })));
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

type At = { org: string; key: string; flow: string; trail: string };
type Fields = Record<string, unknown>;

async function place(): Promise<At> {
  const at = server.given.org();
  const flow = await server.given.flow(at, {
    template: "version: 1\ntrail:\n  artifacts:\n    - {name: app, attestations: [{name: tests, type: generic}]}\n",
  });
  return { ...at, flow, trail: fresh("trail") };
}

/** A report with only what the contract requires, and these fields. @returns its fingerprint */
async function report(at: At, fields: Fields = {}): Promise<string> {
  const fingerprint = freshFingerprint();
  const required = { filename: "app", build_url: "https://ci.test/1", commit_url: "https://git.test/x/commit/1" };
  const body = { fingerprint, ...required, trail_name: at.trail, template_reference_name: "app", ...fields };
  const answer = await server.call("POST", `/artifacts/${at.org}/${at.flow}`, { key: at.key, body });
  assert.equal({ status: answer.status, body: answer.body }, { status: 201, body: "OK" });
  return body.fingerprint;
}
const get = async (at: At, path: string, status = 200) => {
  const answer = await server.call("GET", path, { key: at.key });
  assert.is(answer.status, status, answer.text);
  return answer.body;
};
const read = (at: At, fingerprint: string) => get(at, `/artifacts/${at.org}/${at.flow}/fingerprint/${fingerprint}`);
const storedCommit = (fingerprint: string): unknown =>
  server.db.prepare("SELECT git_commit FROM artifacts WHERE fingerprint = ?").pluck().get(fingerprint);

test("a report without a commit, with null and with 40 zeros is stored as none and shown as 40 zeros", async () => {
  const at = await place();
  for (const fields of [{}, { git_commit: null }, { git_commit: NO_COMMIT }]) {
    const fingerprint = await report(at, fields);
    assert.is(storedCommit(fingerprint), null);
    const shown = await read(at, fingerprint);
    assert.equal({ commit: shown.git_commit, info: shown.git_commit_info }, { commit: NO_COMMIT, info: null });
    const [listed] = await get(at, `/artifacts/${at.org}?page=1&per_page=1`);
    assert.equal({ fingerprint: listed.fingerprint, commit: listed.git_commit }, { fingerprint, commit: NO_COMMIT });
    const { events } = await get(at, `/trails/${at.org}/${at.flow}/${at.trail}`);
    assert.is(events.at(-1).git_commit, NO_COMMIT);
  }
  const legacy = await report(at, { trail_name: null, template_reference_name: null });
  assert.equal([storedCommit(legacy), (await read(at, legacy)).git_commit], [null, NO_COMMIT]);
});

test("no search for a commit finds it, and a search for its fingerprint does", async () => {
  const at = await place();
  const fingerprint = await report(at);
  await get(at, `/search/${at.org}/sha/${NO_COMMIT}`, 404);
  await get(at, `/search/${at.org}/sha/00000`, 404);
  await get(at, `/artifacts/${at.org}/${at.flow}/commit_sha/${NO_COMMIT}`, 404);
  const { artifacts } = await get(at, `/search/${at.org}/sha/${fingerprint}`);
  assert.equal(
    artifacts.map((one: Fields) => [one["git_commit"], one["has_provenance"]]),
    [[NO_COMMIT, true]],
  );
});

test("the latest commit of a fingerprint is that of its latest report with one", async () => {
  const at = await place();
  const [fingerprint, commit] = [freshFingerprint(), freshCommit()];
  const latest = () => get(at, `/artifacts/${at.org}/${at.flow}/${fingerprint}/latest_commit`);
  await report(at, { fingerprint });
  assert.equal(await latest(), { latest_commit: null });
  await report({ ...at, trail: fresh("trail") }, { fingerprint, git_commit: commit });
  await report({ ...at, trail: fresh("trail") }, { fingerprint });
  assert.equal(await latest(), { latest_commit: commit });
});

test("an attestation that waits for a commit is not bound to it, until it is reported with that commit", async () => {
  const at = await place();
  const commit = freshCommit();
  for (const sha1 of [commit, NO_COMMIT])
    await server.given.attestation(at, { flow: at.flow, trail: at.trail, name: "tests", target: "app", commit: sha1 });
  const fingerprint = await report(at);
  const evidence = async (): Promise<string[]> => Object.keys((await read(at, fingerprint)).evidence);
  assert.equal(await evidence(), []);
  await report(at, { fingerprint, git_commit: commit });
  assert.equal(await evidence(), ["tests"]);
});

test("a repeated report without a commit is no new one: it triggers nothing and is audited as an update", async () => {
  const at = await place();
  const fingerprint = await report(at);
  await report(at, { fingerprint });
  const created = server.db
    .prepare("SELECT detail_json ->> 'created' FROM audit_log WHERE detail_json ->> 'artifact_fingerprint' = ?")
    .pluck()
    .all(fingerprint);
  assert.equal(created, [1, 0]);
});

test("another attestation of its fingerprint is bound to its second name, too", async () => {
  const at = await place();
  const fingerprint = await report(at);
  await server.given.attestation(at, { flow: at.flow, trail: at.trail, name: "tests", fingerprint });
  await report(at, { fingerprint, template_reference_name: "other" });
  assert.equal(Object.keys((await read(at, fingerprint)).evidence), ["tests"]);
});

test("annotations are any JSON object, and are returned as they were sent", async () => {
  const at = await place();
  const annotations = { "build.command": "make", seconds: 12.5, nested: { a: [1, null, true] }, none: null, "": "x" };
  const fingerprint = await report(at, { annotations });
  assert.equal((await read(at, fingerprint)).annotations, annotations);
  // The longest command of a build that the CLI sends (newer-clients 1).
  const command = { build_command: "x".repeat(65_536), build_duration_seconds: 12.5 };
  const built = await report(at, { annotations: command });
  assert.equal((await read(at, built)).annotations, command);
  for (const wrong of [["a"], "text", 5]) {
    const body = { fingerprint, filename: "a", build_url: "x", commit_url: "x", annotations: wrong };
    const { status, body: refusal } = await server.call("POST", `/artifacts/${at.org}/${at.flow}`, {
      key: at.key,
      body,
    });
    assert.is(status, 400);
    assert.equal(Object.keys(refusal.errors), ["annotations"]);
  }
  const page = await (await signIn(server, `${at.org}-admin`)).get(
    `/${at.org}/flows/${at.flow}/artifacts/${fingerprint}`,
  );
  for (const text of ["build.command make", "seconds 12.5", 'nested {"a":[1,null,true]}', "Commit no commit"])
    assert.ok(visibleText(page).includes(text), `${text} in ${visibleText(page)}`);
});

test("a snapshot, its explanation, CSV file, deployments and builds show no commit and no comparison", async () => {
  const at = await place();
  const in_ = runningIn(server);
  const environment = in_.environment(at);
  const fields = { git_commit_info: { sha1: "abc", timestamp: 1_689_999_000 }, repo_url: "https://github.com/x/y" };
  const before = await report(at, { ...fields, git_commit: freshCommit() });
  in_.report(at, environment, [running("app", before)]);
  const fingerprint = await report(at, fields);
  in_.report(at, environment, [running("app", fingerprint)]);
  const { artifacts } = await get(at, `/snapshots/${at.org}/${environment}/-1`);
  const shown = artifacts.find((one: Fields) => one["fingerprint"] === fingerprint);
  const { git_commit, deployment_diff, flows, commit_lead_time } = shown;
  assert.equal(
    { git_commit, diff: deployment_diff.diff_url, inFlow: flows[0].git_commit, commit_lead_time },
    { git_commit: NO_COMMIT, diff: null, inFlow: NO_COMMIT, commit_lead_time: 1_000 },
    "a lead time follows from the commit's time",
  );
  const explained = await get(at, `/explanations/${at.org}/environments/${environment}/-1`);
  const why = explained.snapshot.artifacts.find((one: Fields) => one["fingerprint"] === fingerprint);
  assert.is(why.flows[0].git_commit, NO_COMMIT);
  const csv = await server.call("GET", `/environments/${at.org}/${environment}/auditlog`, { key: at.key });
  assert.match(csv.text, `${fingerprint},UNKNOWN,${at.flow},${NO_COMMIT},`);
  const window = "start_ts=0&end_ts=9999999999";
  const { deployments } = await get(at, `/deployments/${at.org}?${window}`);
  const deployment = deployments.find((one: Fields) => one["fingerprint"] === fingerprint);
  assert.equal([deployment.git_commit, deployment.replaced.diff_url], [NO_COMMIT, null]);
  const { builds } = await get(at, `/builds/${at.org}?${window}`);
  assert.is(builds.find((one: Fields) => one["fingerprint"] === fingerprint).git_commit, NO_COMMIT);
  assert.is((await read(at, fingerprint)).commit_lead_times[environment], 1_000);
  assert.is((await get(at, `/asserts/${at.org}/fingerprint/${fingerprint}`)).compliant, false);
});

test("audit packages hold 40 zeros, as the API does", async () => {
  const at = await place();
  const fingerprint = await report(at);
  const path = `${server.url}/api/v2/trails/${at.org}/${at.flow}/${at.trail}/audit_package`;
  const response = await fetch(path, { headers: { Authorization: `Bearer ${at.key}` } });
  assert.is(response.status, 200);
  const records = (await unpack(Buffer.from(await response.arrayBuffer()))).json("artifacts.json");
  assert.equal(
    records.map((one: Fields) => [one["fingerprint"], one["git_commit"]]),
    [[fingerprint, NO_COMMIT]],
  );
});

test.run();
