/** A server with evidence on S3-compatible storage: what clients see, also when the storage fails. */
import { mkdtempSync, readdirSync, rmSync, truncateSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startPackageWorker } from "../../../src/server/worker-threads.ts";
import { EvidenceUnavailableError } from "../../../src/evidence/errors.ts";
import { createPackageMaker } from "../../../src/audit-packages/package-maker.ts";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { sha256, unpack } from "../../audit-packages/unpack.ts";
import { contentOf, digestOf, givenLocalStore, rejection, removeRoots } from "../../evidence/given.ts";
import { respondWithError, givenS3Store, startStorage } from "../../evidence/s3-server.ts";
import type { Fault, Storage } from "../../evidence/s3-server.ts";

const test = suite("api/attestations/evidence-elsewhere");
const directory = mkdtempSync(join(tmpdir(), "assay-elsewhere-"));
const PREFIX = "server";
let storage: Storage;
let server: TestServer;
test.before(async () => {
  storage = await startStorage();
  server = await startServer({
    directory,
    limits: { smallEvidence: 0 },
    openRemoteEvidence: () => givenS3Store({ storage, prefix: PREFIX, root: directory }).store,
  });
});
test.after(async () => {
  await server.stop();
  await storage.stop();
  rmSync(directory, { recursive: true, force: true });
  removeRoots();
});

const UNAVAILABLE = { message: "Evidence storage cannot be reached. Please try again" };
const refuse: Fault = (incoming, outgoing) => {
  incoming.resume();
  respondWithError(outgoing, 403, "AccessDenied");
};
const fileOf = (digest: string): string => storage.fileOf(`${PREFIX}/${digest.slice(0, 2)}/${digest.slice(2)}`);

/** A trail with an attestation for each content. */
async function trailWith(...contents: Buffer[]) {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const ids: string[] = [];
  for (const content of contents)
    ids.push(await server.given.attestation(at, { flow, trail, file: fileWith(content) }));
  const organization = server.store.organizations.find(at.org) as { id: number };
  const { id: flowId } = server.store.flows.find(organization.id, flow) as { id: number };
  const { id } = server.store.trails.find(flowId, trail) as { id: number };
  return {
    at,
    flow,
    trail,
    evidence: ids.map(
      (one) => `${server.url}/api/v2/attestations/${at.org}/${flow}/trail/${trail}/attestation/${one}/evidence`,
    ),
    headers: { Authorization: `Bearer ${at.key}` },
    package: `${server.url}/api/v2/trails/${at.org}/${flow}/${trail}/audit_package`,
    request: {
      organizationId: organization.id,
      subject: { kind: "trail" as const, trailId: id },
      baseUrl: "http://assay.test",
      caller: "ada",
    },
  };
}
const fileWith = (content: Buffer) => ({ name: "attachment_file", filename: "report.bin", content });

test("stores evidence before acknowledging its attestation, and serves it whole and in ranges", async () => {
  const content = contentOf(300_000, 1);
  const {
    evidence: [url = ""],
    headers,
  } = await trailWith(content);
  assert.is(sha256(content), digestOf(content));
  assert.ok(
    readdirSync(join(directory, "evidence")).length === 0 && readdirSync(join(directory, "staging")).length === 0,
  );
  const whole = await fetch(url, { headers });
  assert.equal(
    { status: whole.status, "content-length": whole.headers.get("content-length"), etag: whole.headers.get("etag") },
    { status: 200, "content-length": "300000", etag: `"${digestOf(content)}"` },
  );
  assert.ok(Buffer.from(await whole.arrayBuffer()).equals(content));
  const part = await fetch(url, { headers: { ...headers, Range: "bytes=100000-199999" } });
  assert.equal(
    { status: part.status, "content-range": part.headers.get("content-range") },
    { status: 206, "content-range": "bytes 100000-199999/300000" },
  );
  assert.ok(Buffer.from(await part.arrayBuffer()).equals(content.subarray(100_000, 200_000)));
  const known = await fetch(url, { headers: { ...headers, "If-None-Match": `"${digestOf(content)}"` } });
  assert.is(known.status, 304);
});

test("small evidence is in the database without a request to the storage, and in packages with the rest", async () => {
  const root = mkdtempSync(join(tmpdir(), "assay-elsewhere-small-"));
  const near = await startServer({
    directory: root,
    openRemoteEvidence: () => givenS3Store({ storage, prefix: "small", root }).store,
  });
  try {
    const at = near.given.org();
    const flow = await near.given.flow(at);
    const trail = await near.given.trail(at, { flow });
    const [small, large] = [contentOf(1_000, 8), contentOf(100_000, 9)];
    storage.requests();
    const id = await near.given.attestation(at, { flow, trail, file: fileWith(small) });
    const headers = { Authorization: `Bearer ${at.key}` };
    const url = `${near.url}/api/v2/attestations/${at.org}/${flow}/trail/${trail}/attestation/${id}/evidence`;
    assert.ok(Buffer.from(await (await fetch(url, { headers })).arrayBuffer()).equals(small));
    assert.equal(storage.requests(), []);
    await near.given.attestation(at, { flow, trail, file: fileWith(large) });
    const whole = await fetch(`${near.url}/api/v2/trails/${at.org}/${flow}/${trail}/audit_package`, { headers });
    const members = await unpack(Buffer.from(await whole.arrayBuffer()));
    for (const content of [small, large])
      assert.ok(members.bytes(`evidence/${digestOf(content)}/report.bin`).equals(content));
    assert.ok(!storage.requests().some((line) => line.includes(digestOf(small).slice(2))));
  } finally {
    await near.stop();
    rmSync(root, { recursive: true, force: true });
  }
});

test("an unreachable storage is 503 with Retry-After, and the report is not recorded", async () => {
  const {
    at,
    flow,
    trail,
    evidence: [url = ""],
    headers,
    package: packageUrl,
  } = await trailWith(contentOf(1000, 2));
  const end = storage.inject(refuse);
  const upload = await server.call("POST", `/attestations/${at.org}/${flow}/trail/${trail}/generic`, {
    key: at.key,
    form: { json: { attestation_name: "late", is_compliant: true }, file: fileWith(contentOf(1000, 3)) },
  });
  assert.equal(
    { status: upload.status, body: upload.body, "retry-after": upload.headers.get("retry-after") },
    { status: 503, body: UNAVAILABLE, "retry-after": "10" },
  );
  for (const target of [url, packageUrl]) {
    const refused = await fetch(target, { headers });
    assert.equal(
      { status: refused.status, refused: await refused.json(), "retry-after": refused.headers.get("retry-after") },
      { status: 503, refused: UNAVAILABLE, "retry-after": "10" },
      target,
    );
  }
  const pdf = await fetch(packageUrl.replace("audit_package", "audit_pdf"), { headers });
  assert.is(pdf.status, 503);
  // Requests without evidence keep working, and so does everything after the failure.
  const list = await server.call("GET", `/attestations/${at.org}`, { key: at.key });
  assert.equal(
    list.body.data.map(({ attestation_name }: { attestation_name: string }) => attestation_name).includes("late"),
    false,
  );
  end();
  assert.equal(readdirSync(join(directory, "staging")), []);
  assert.is((await fetch(url, { headers })).status, 200);
  const failures = server.lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === "request failed");
  assert.is(failures.length, 4);
  for (const { level, reason } of failures) {
    assert.is(level, "error");
    assert.match(
      reason,
      /^(HEAD|GET) server[^\n]*: AccessDenied: AccessDenied \(status 403\); the access key does not have [^\n]*$/,
    );
  }
  assert.not.ok(
    server.lines.some((line) => line.includes("request refused")),
    "one line says it all",
  );
  assert.not.ok(server.lines.some((line) => line.includes("unexpected error")));
});

test("a package has the same bytes as with evidence in the data directory", async () => {
  const contents = [contentOf(10, 4), contentOf(0), contentOf(700_000, 5), contentOf(9_000_000, 6)];
  const { package: url, headers, request } = await trailWith(...contents);
  const here = Buffer.from(await (await fetch(url, { headers })).arrayBuffer());
  const beside = givenLocalStore();
  for (const content of contents) await beside.put(content);
  await beside.store.close();
  const maker = createPackageMaker({
    data: { directory, evidence: beside.directory, staging: beside.staging },
    start: startPackageWorker,
  });
  assert.ok((await buffer(await maker.open(request))).equals(here));
  await maker.close();
  const members = await unpack(here);
  for (const content of contents) assert.ok(members.bytes(`evidence/${digestOf(content)}/report.bin`).equals(content));
});

test("packages alternate while their files are in transit, and an abandoned one releases its slot", async () => {
  const { package: url, headers } = await trailWith(contentOf(2_000_000, 7), contentOf(2_000_000, 8));
  const wanted = Buffer.from(await (await fetch(url, { headers })).arrayBuffer());
  // Every other object arrives only after the request for the next one.
  let held: (() => void) | null = null;
  const end = storage.inject((incoming, _, pass) => {
    if (incoming.method !== "GET" || incoming.url?.includes("list-type")) return pass();
    const before = held;
    held = before ? null : pass;
    if (before) {
      pass();
      before();
    }
  });
  const both = await Promise.all(
    [1, 2].map(async () => Buffer.from(await (await fetch(url, { headers })).arrayBuffer())),
  );
  end();
  assert.ok(both.every((one) => one.equals(wanted)));
  const left = await fetch(url, { headers });
  await left.body?.cancel();
  assert.ok(Buffer.from(await (await fetch(url, { headers })).arrayBuffer()).equals(wanted));
});

test("leaves out and marks missing or truncated files; a file damaged inside truncates the package once", async () => {
  const [missing, short, damaged, good] = [
    contentOf(100, 9),
    contentOf(200, 10),
    contentOf(300_000, 11),
    contentOf(400, 12),
  ];
  const { package: url, headers, evidence } = await trailWith(missing, short, damaged, good);
  unlinkSync(fileOf(digestOf(missing)));
  truncateSync(fileOf(digestOf(short)), 5);
  const changed = Buffer.from(damaged);
  changed[299_999] = (changed[299_999] ?? 0) ^ 1;
  writeFileSync(fileOf(digestOf(damaged)), changed);
  await rejection(fetch(url, { headers }).then((cut) => cut.arrayBuffer()));
  await rejection(fetch(evidence[2] as string, { headers }).then((cut) => cut.arrayBuffer()));
  const omitted = (await unpack(Buffer.from(await (await fetch(url, { headers })).arrayBuffer()))).json(
    "manifest.json",
  ).not_included;
  const reasons: Record<string, string> = {
    [digestOf(missing)]: "missing",
    [digestOf(short)]: "damaged",
    [digestOf(damaged)]: "damaged",
  };
  assert.equal(
    Object.fromEntries(omitted.map((one: { sha256: string; reason: string }) => [one.sha256, one.reason])),
    reasons,
  );
  // A repaired file is included again.
  writeFileSync(fileOf(digestOf(damaged)), damaged);
  utimesSync(fileOf(digestOf(damaged)), 1_800_000_000, 1_800_000_000);
  const after = (await unpack(Buffer.from(await (await fetch(url, { headers })).arrayBuffer()))).json(
    "manifest.json",
  ).not_included;
  assert.is(after.length, 2);
});

test("a package is truncated if its storage fails midway, and the next one is complete", async () => {
  const { package: url, headers } = await trailWith(contentOf(3_000_000, 13), contentOf(3_000_000, 14));
  let reads = 0;
  const end = storage.inject((incoming, outgoing, pass) => {
    if (incoming.method !== "GET" || incoming.url?.includes("list-type")) return pass();
    reads += 1;
    if (reads === 1) pass();
    else refuse(incoming, outgoing, pass);
  });
  await rejection(fetch(url, { headers }).then((cut) => cut.arrayBuffer()));
  end();
  await unpack(Buffer.from(await (await fetch(url, { headers })).arrayBuffer()));
});

test("a package without reachable storage fails with the error of the storage", async () => {
  const { request } = await trailWith(contentOf(100, 15));
  const { store } = givenS3Store({ storage, prefix: PREFIX });
  const maker = createPackageMaker({
    data: { directory, evidence: join(directory, "evidence"), staging: join(directory, "staging") },
    remote: store,
    start: startPackageWorker,
  });
  const end = storage.inject(refuse);
  assert.instance(await rejection(maker.open(request)), EvidenceUnavailableError);
  end();
  await unpack(await buffer(await maker.open(request)));
  await maker.close();
  await store.close();
});

test.run();
