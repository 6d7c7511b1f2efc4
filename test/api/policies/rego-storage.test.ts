/**
 * Bundles and inputs of Rego evaluations in a data directory (newer-clients 7.2): large ones are files, read in a
 * thread, packed with decisions, checked by verify, and kept by the sweep.
 */
import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { verifyInstallation } from "../../../src/diagnostics/verify/verify.ts";
import { evidencePath } from "../../../src/evidence/layout.ts";
import { listNamedFiles } from "../../../src/store/attestations/evidence-location.ts";
import { sha256, unpack } from "../../audit-packages/unpack.ts";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { COMPLIANT, regoClient } from "./rego-given.ts";
import type { At } from "./rego-given.ts";

const test = suite("api/policies/rego-storage");
const directory = mkdtempSync(join(tmpdir(), "assay-rego-"));
let server: TestServer;
let rego: ReturnType<typeof regoClient>;
test.before(async () => {
  server = await startServer({ directory });
  rego = regoClient(server);
});
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** A trail that takes more than the main thread reads itself, and more than a row of the database takes. */
async function world() {
  const at = await rego.world();
  await server.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: "C1", name: "One" } });
  await server.given.attestation(at, {
    flow: at.flow,
    trail: at.trail,
    name: "noise",
    user_data: { noise: randomBytes(1 << 20).toString("base64") },
  });
  return at;
}
const files = { files: { "p.rego": COMPLIANT } };
const inputDigest = (id: string): string =>
  server.db
    .prepare<[string], string>("SELECT input_digest FROM rego_evaluations WHERE public_id = ?")
    .pluck()
    .get(id) ?? "";
const fileOf = (digest: string): string => evidencePath(join(directory, "evidence"), digest);
const evaluate = async (at: At & { trails: unknown }, more: object = {}): Promise<string> => {
  const { body } = await rego.evaluate(at, { context: { trails: at.trails }, policy: files, ...more });
  assert.is((await rego.ended(at, body.id)).status, "completed");
  return body.id;
};
const packageOf = async (at: Awaited<ReturnType<typeof world>>) => {
  const path = `/api/v2/trails/${at.org}/${at.flow}/${at.trail}/audit_package`;
  const response = await fetch(`${server.url}${path}`, { headers: { Authorization: `Bearer ${at.key}` } });
  return unpack(Buffer.from(await response.arrayBuffer()));
};
const verify = async () =>
  (
    await verifyInstallation({
      db: server.db,
      store: server.evidenceStore,
      staged: [],
      quick: false,
      now: server.clock.at,
    })
  ).flatMap(({ findings }) => findings);

test("a large input is read in a thread, and is a file that records name", async () => {
  const at = await world();
  const id = await evaluate(at);
  const digest = inputDigest(id);
  assert.ok(existsSync(fileOf(digest)));
  const { text } = await rego.evaluations(at, `/${id}/input`);
  assert.is(sha256(text), (await rego.evaluations(at, `/${id}`)).body.input_sha256);
  assert.is(JSON.parse(text).trail.compliance_status.attestations_statuses.noise.attestation_type, "generic");
  assert.ok([...listNamedFiles(server.db)].some((file) => file.digest === digest));
  assert.equal(await verify(), []);
});

test("the sweep keeps what an evaluation names, and takes it when that is gone", async () => {
  const at = await world();
  const id = await evaluate(at);
  const path = fileOf(inputDigest(id));
  const sweep = () =>
    server.evidenceStore.sweep({ isReferenced: server.store.evidenceLocation.isReferenced, olderThan: 1_001 });
  utimesSync(path, 1_000, 1_000);
  await sweep();
  assert.ok(existsSync(path));
  server.store.regoEvaluations.removeOld(server.clock.at + 1, 1_000);
  await sweep();
  assert.not(existsSync(path));
});

test("a package of the trail has bundle and input of its decisions, as they were evaluated", async () => {
  const at = await world();
  await evaluate(at);
  const decision = { control: "C1", name: "gate", flow: at.flow, trail: at.trail };
  const id = await evaluate(at, { decision });
  const members = await packageOf(at);
  const names = members.names.filter((name) => name.startsWith("evidence/"));
  const input = `evidence/${inputDigest(id)}/input.json.gz`;
  assert.is(names.length, 2, names.join(" "));
  assert.ok(names.includes(input));
  assert.is(gunzipSync(members.bytes(input)).toString(), (await rego.evaluations(at, `/${id}/input`)).text);
  assert.ok(names.some((name) => name.endsWith("/policy.tar.gz")));
});

test("verify names the evaluation of a document that is damaged or gone", async () => {
  const at = await world();
  const id = await evaluate(at);
  const digest = inputDigest(id);
  writeFileSync(fileOf(digest), "damaged");
  const findings = await verify();
  assert.is(findings.length, 1);
  assert.is(findings[0]?.about, `evidence ${digest}`);
  assert.match(findings[0]?.problem ?? "", new RegExp(`evaluation ${id} of ${at.org}`));
  rmSync(fileOf(digest));
  assert.match((await verify())[0]?.problem ?? "", new RegExp(`evaluation ${id} of ${at.org}`));
  assert.is((await rego.evaluations(at, `/${id}`)).status, 200, "the verdict is read without it");
});

test("a bundle is stored once, whether it was published or sent with requests", async () => {
  const at = await rego.world();
  const own = { files: { "p.rego": `${COMPLIANT}# of this test alone\n` } };
  const bundleOf = (id: string): unknown =>
    server.db.prepare("SELECT bundle_digest FROM rego_evaluations WHERE public_id = ?").pluck().get(id);
  const inline = await evaluate(at, { policy: own });
  const { version } = (await rego.publish(at, "gate", own)).body;
  const published = await evaluate(at, { policy: { identifier: "gate" } });
  const digest = server.db
    .prepare("SELECT bundle_digest FROM rego_policy_versions WHERE sha256 = ?")
    .pluck()
    .get(version.sha256);
  assert.type(digest, "string");
  assert.equal([bundleOf(inline), bundleOf(published)], [digest, digest]);
});

test("a refused request leaves no file", async () => {
  const at = await world();
  const before = [...listNamedFiles(server.db)].length;
  const limited = { context: { trails: at.trails }, policy: files };
  server.db.exec("CREATE TEMP TRIGGER refuse BEFORE INSERT ON rego_evaluations BEGIN SELECT raise(ABORT, 'no'); END");
  const { status } = await rego.evaluate(at, limited);
  server.db.exec("DROP TRIGGER refuse");
  assert.is(status, 500);
  assert.is([...listNamedFiles(server.db)].length, before);
  const stored: string[] = [];
  for await (const { digest } of server.evidenceStore.list()) stored.push(digest);
  assert.is(stored.length, before);
});

test.run();
