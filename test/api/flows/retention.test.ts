/**
 * What a running server shows after the command line deleted records through its own connection.
 */
import { mkdtempSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { evidencePath } from "../../../src/evidence/layout.ts";
import { cli } from "../../cli/in-process.ts";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { sha256, unpack } from "../../audit-packages/unpack.ts";

const test = suite("api/flows/retention");
const directory = mkdtempSync(join(tmpdir(), "assay-retention-"));
let server: TestServer;
test.before(async () => void (server = await startServer({ directory, limits: { smallEvidence: 0 } })));
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

const retention = async (...words: string[]): Promise<any> => {
  const { code, out, err } = await cli(["retention", ...words, "--data", directory, "--json"]);
  assert.is(code, 0, err);
  return JSON.parse(out);
};
const file = (content: string) => ({ name: "attachment_file", filename: "e.txt", content });

/** The digest of a tombstone, computed from an exported package as an auditor would. */
async function digestOfPackage(path: string, key: string): Promise<string> {
  const response = await fetch(`${server.url}/api/v2${path}`, { headers: { Authorization: `Bearer ${key}` } });
  assert.is(response.status, 200);
  const members = await unpack(Buffer.from(await response.arrayBuffer()));
  const lines = members
    .json<any[]>("attestations.json")
    .map((record) =>
      JSON.stringify([
        record.attestation_id,
        record.attestation_name,
        record.is_compliant,
        record.audit.evidence?.sha256 ?? null,
      ]),
    );
  return sha256(lines.map((line) => `${line}\n`).join(""));
}

test("a deleted trail is unknown at once, shared records stay, and its package matches the tombstone", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const [gone, stays] = [await server.given.trail(at, { flow }), await server.given.trail(at, { flow })];
  const fingerprint = await server.given.artifact(at, { flow, trail: gone });
  const other = await server.given.artifact(at, { flow, trail: stays });
  const attestation = await server.given.attestation(at, {
    flow,
    trail: gone,
    fingerprint,
    name: "tests",
    file: file("only here"),
  });
  await server.given.attestation(at, { flow, trail: gone, name: "review", file: file("shared") });
  await server.given.attestation(at, { flow, trail: stays, fingerprint: other, name: "tests", file: file("shared") });
  const get = (path: string) => server.call("GET", path, { key: at.key });
  const trailPath = (trail: string): string => `/trails/${at.org}/${flow}/${trail}`;
  const paths = [
    trailPath(gone),
    `/artifacts/${at.org}/${flow}/fingerprint/${fingerprint}`,
    `/attestations/${at.org}?attestation_id=${attestation}`,
  ];
  // Twice: the second response is a cached one.
  for (const path of [...paths, ...paths, trailPath(stays)]) assert.is((await get(path)).status, 200, path);
  const digest = await digestOfPackage(`${trailPath(gone)}/audit_package`, at.key);
  const survivor = await get(trailPath(stays));
  const before = server.clock.at;
  const then = async (): Promise<string[]> =>
    (await get(`/past/${at.org}/artifacts?at=${before}`)).body.data.map((one: any) => one.fingerprint).sort();
  assert.equal(await then(), [fingerprint, other].sort());

  await retention("hold", "--org", at.org, "--flow", flow, "--trail", stays, "--reason", "case");
  await retention("set", "--org", at.org, "--trails-after", "30");
  const { plan } = await retention("plan", "--org", at.org);
  assert.equal(await retention("run", "--plan", plan, "--org", at.org), {
    plan,
    trails: 1,
    stripped: 0,
    kept: 0,
    finished: true,
  });

  assert.equal((await get(trailPath(gone))).body, {
    message: `Trail with name '${gone}' does not exist for Organization '${at.org}' and Flow '${flow}'`,
  });
  assert.is((await get(paths[1] as string)).status, 404);
  assert.equal(await then(), [other], "as of a moment at which it was there, too");
  assert.equal((await get(paths[2] as string)).body.data, []);
  assert.equal((await get(trailPath(stays))).body, survivor.body);
  assert.equal(
    (await get(`/trails/${at.org}/${flow}`)).body.length ?? (await get(`/trails/${at.org}/${flow}`)).body.data.length,
    1,
  );
  const { deleted } = await retention("deleted", "--org", at.org);
  assert.equal(
    deleted.map((entry: any) => [entry.name, entry.digest, entry.fingerprints]),
    [[gone, digest, [fingerprint]]],
  );
  assert.type(await digestOfPackage(`${trailPath(stays)}/audit_package`, at.key), "string");

  // Swept after the day of grace: only the unreferenced file, not the one that two records share.
  const [only, shared] = ["only here", "shared"].map((content) =>
    evidencePath(join(directory, "evidence"), sha256(content)),
  );
  const swept = (olderThan: number) =>
    server.evidenceStore.sweep({ isReferenced: server.store.evidenceLocation.isReferenced, olderThan });
  utimesSync(only as string, 1000, 1000);
  utimesSync(shared as string, 1000, 1000);
  assert.equal(await swept(1000), { removed: 0, bytes: 0 });
  assert.equal(await swept(1001), { removed: 1, bytes: 9 });
  assert.is(await server.evidenceStore.describe(sha256("only here")), null);
  assert.equal(await server.evidenceStore.describe(sha256("shared")), { size: 6 });

  const again = await server.given.trail(at, { flow, name: gone });
  assert.equal((await get(trailPath(again))).status, 200, "the name is free");
});

test("a record whose file was deleted shows none, its package marks it, and its digest stays", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const id = await server.given.attestation(at, { flow, trail, name: "tests", file: file("report") });
  const path = `/trails/${at.org}/${flow}/${trail}/audit_package`;
  const digest = await digestOfPackage(path, at.key);
  const verdict = (await server.call("GET", `/trails/${at.org}/${flow}/${trail}`, { key: at.key })).body
    .compliance_status;
  await retention("set", "--org", at.org, "--evidence-after", "30");
  const { plan } = await retention("plan", "--org", at.org);
  assert.is((await retention("run", "--plan", plan, "--org", at.org)).stripped, 1);
  const { body } = await server.call("GET", `/attestations/${at.org}?attestation_id=${id}`, { key: at.key });
  assert.equal(
    {
      attestation_id: body.data[0].attestation_id,
      evidence_archive_fingerprint: body.data[0].evidence_archive_fingerprint,
    },
    { attestation_id: id, evidence_archive_fingerprint: null },
  );
  assert.is(
    (await server.call("GET", `/attestations/${at.org}/${flow}/trail/${trail}/${id}/evidence`, { key: at.key })).status,
    404,
  );
  assert.equal(
    (await server.call("GET", `/trails/${at.org}/${flow}/${trail}`, { key: at.key })).body.compliance_status,
    verdict,
  );
  assert.is(await digestOfPackage(path, at.key), digest);
  const response = await fetch(`${server.url}/api/v2${path}`, { headers: { Authorization: `Bearer ${at.key}` } });
  const [record] = (await unpack(Buffer.from(await response.arrayBuffer()))).json<any[]>("attestations.json");
  assert.equal(
    { ...record.audit.evidence, deleted_at: 0 },
    {
      member: null,
      state: "deleted",
      deleted_at: 0,
      uploaded_as: "e.txt",
      content_type: "application/octet-stream",
      size: 6,
      sha256: sha256("report"),
    },
  );
});

test.run();
