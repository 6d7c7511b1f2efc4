/** Small evidence is a row of the database, written with its attestation; larger evidence is a file. */
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { unpack } from "../../audit-packages/unpack.ts";
import { evidencePath } from "../../../src/evidence/layout.ts";
import { fresh, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/attestations/small-evidence");
const LIMIT = 1_000;
const directory = mkdtempSync(join(tmpdir(), "assay-small-"));
let server: TestServer;
let off: TestServer;
test.before(async () => {
  server = await startServer({ directory, limits: { smallEvidence: LIMIT } });
  off = await startServer({ limits: { smallEvidence: 0 } });
});
test.after(async () => {
  await server.stop();
  await off.stop();
  rmSync(directory, { recursive: true, force: true });
});

type Place = { org: string; key: string; flow: string; trail: string };
const sha256 = (content: string | Buffer): string => createHash("sha256").update(content).digest("hex");
async function givenPlace(host = server): Promise<Place> {
  const at = host.given.org();
  return { ...at, flow: await host.given.flow(at), trail: fresh("trail") };
}
const attest = (at: Place, content: string | Buffer, host = server): Promise<string> =>
  host.given.attestation(at, {
    flow: at.flow,
    trail: at.trail,
    name: "scan",
    file: { name: "attachment_file", filename: "e.txt", content },
  });
async function download(at: Place, id: string, host = server) {
  const address = `/attestations/${at.org}/${at.flow}/trail/${at.trail}/attestation/${id}/evidence`;
  const response = await fetch(`${host.url}/api/v2${address}`, { headers: { Authorization: `Bearer ${at.key}` } });
  return { status: response.status, content: Buffer.from(await response.arrayBuffer()) };
}
const rowsOf = ({ db }: TestServer): string[] =>
  db.prepare<[], string>("SELECT digest FROM small_evidence ORDER BY digest").pluck().all();
const filesOf = (host: TestServer): string[] =>
  ["evidence", "staging"].flatMap((name) =>
    readdirSync(join(host.directory, name), { recursive: true, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() ? [entry.parentPath.slice(-2) + entry.name] : [],
    ),
  );
const inDatabase = (content: string | Buffer, host = server): boolean => rowsOf(host).includes(sha256(content));
const inFile = (content: string | Buffer, host = server): boolean => filesOf(host).includes(sha256(content));

/** Text of that length that no other test uses. */
const sized = (size: number): string => fresh("content ").padEnd(size, ".").slice(0, size);

for (const [size, isSmall] of [
  [0, true],
  [LIMIT, true],
  [LIMIT + 1, false],
] as const)
  test(`evidence of ${size} bytes is ${isSmall ? "a row" : "a file"} with a limit of ${LIMIT} bytes`, async () => {
    const at = await givenPlace();
    const content = sized(size);
    const id = await attest(at, content);
    assert.equal([inDatabase(content), inFile(content)], [isSmall, !isSmall]);
    assert.equal(await download(at, id), { status: 200, content: Buffer.from(content) });
  });

test("with a limit of 0 the database holds no evidence, not even an empty file", async () => {
  const at = await givenPlace(off);
  for (const content of [sized(10), ""]) {
    const id = await attest(at, content, off);
    assert.equal([rowsOf(off), inFile(content, off)], [[], true]);
    assert.equal(await download(at, id, off), { status: 200, content: Buffer.from(content) });
  }
});

test("a form that arrives in chunks is stored in the same way", async () => {
  const at = await givenPlace();
  const [small, large] = [sized(LIMIT), sized(LIMIT + 1)];
  for (const content of [small, large]) {
    const head = 'Content-Disposition: form-data; name="';
    const body =
      `--b\r\n${head}data_json"\r\n\r\n{"attestation_name":"scan","is_compliant":true}\r\n` +
      `--b\r\n${head}attachment_file"; filename="e.txt"\r\n\r\n${content}\r\n--b--\r\n`;
    const status = await new Promise((resolve, reject) => {
      const path = `/api/v2/attestations/${at.org}/${at.flow}/trail/${at.trail}/generic`;
      const headers = { Authorization: `Bearer ${at.key}`, "Content-Type": "multipart/form-data; boundary=b" };
      const sent = request(`${server.url}${path}`, { method: "POST", headers }, (answer) => {
        answer.resume();
        answer.on("end", () => resolve(answer.statusCode));
      });
      sent.on("error", reject);
      sent.write(body.slice(0, 100));
      sent.end(body.slice(100));
    });
    assert.is(status, 201);
  }
  assert.equal([inDatabase(small), inFile(small)], [true, false]);
  assert.equal([inDatabase(large), inFile(large)], [false, true]);
});

test("content that several reports bring at once is one row, which all of them name", async () => {
  const at = await givenPlace();
  const content = sized(500);
  const before = rowsOf(server).length;
  const ids = await Promise.all(Array.from({ length: 20 }, () => attest(at, content)));
  assert.is(rowsOf(server).length, before + 1);
  for (const id of ids) assert.equal((await download(at, id)).content.toString(), content);
});

test("a refused report that shares a batch with others leaves no row, and the others keep theirs", async () => {
  const at = await givenPlace();
  const contents = Array.from({ length: 9 }, () => sized(400));
  const statuses = await Promise.all(
    contents.map(async (content, n) => {
      const fields = n % 3 === 0 ? { artifact_fingerprint: freshFingerprint() } : {};
      const file = { name: "attachment_file", filename: "e.txt", content };
      const json = { attestation_name: "scan", is_compliant: true, ...fields };
      const path = `/attestations/${at.org}/${at.flow}/trail/${at.trail}/generic`;
      return (await server.call("POST", path, { key: at.key, form: { json, file } })).status;
    }),
  );
  assert.equal(statuses, [404, 201, 201, 404, 201, 201, 404, 201, 201]);
  assert.equal(
    contents.map((content) => inDatabase(content)),
    statuses.map((status) => status === 201),
  );
});

test("a row whose content was altered is not sent, and the log names it", async () => {
  const at = await givenPlace();
  const content = sized(300);
  const id = await attest(at, content);
  alter(content);
  const answer = await download(at, id);
  assert.is(answer.status, 500);
  assert.not.match(answer.content.toString(), /altered/);
  assert.match(
    server.lines.join(""),
    new RegExp(`evidence ${sha256(content)} is damaged: its content in the database`),
  );
});

/** Changes a row, as a faulty disk would. */
function alter(content: string): void {
  const trigger = server.db
    .prepare<[], string>("SELECT sql FROM sqlite_schema WHERE name = 'small_evidence_is_final'")
    .pluck()
    .get();
  server.db.exec("DROP TRIGGER small_evidence_is_final");
  const altered = Buffer.from("altered".padEnd(content.length, "."));
  server.db.prepare("UPDATE small_evidence SET content = ? WHERE digest = ?").run(altered, sha256(content));
  server.db.exec(trigger as string);
}

test("a package holds rows and files alike, and leaves out a row whose content was altered", async () => {
  const at = await givenPlace();
  const [small, large, damaged] = [sized(300), sized(3_000), sized(200)];
  for (const content of [small, large, damaged]) await attest(at, content);
  alter(damaged);
  const get = async () => {
    const address = `${server.url}/api/v2/trails/${at.org}/${at.flow}/${at.trail}/audit_package`;
    const response = await fetch(address, { headers: { Authorization: `Bearer ${at.key}` } });
    return { status: response.status, bytes: Buffer.from(await response.arrayBuffer()) };
  };
  // The damage shows while the first package is made.
  assert.is((await get()).status, 500);
  const members = await unpack((await get()).bytes);
  assert.is(members.text(`evidence/${sha256(small)}/e.txt`), small);
  assert.is(members.text(`evidence/${sha256(large)}/e.txt`), large);
  assert.equal(members.json("manifest.json").not_included, [
    { name: `evidence/${sha256(damaged)}/e.txt`, size: 200, sha256: sha256(damaged), reason: "damaged" },
  ]);
});

test("a file beside a row is a leftover, which the sweep removes after its time", async () => {
  const at = await givenPlace();
  const content = sized(200);
  const id = await attest(at, content);
  const path = evidencePath(join(directory, "evidence"), sha256(content));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  utimesSync(path, 1_000, 1_000);
  const { isReferenced } = server.store.evidenceLocation;
  await server.evidenceStore.sweep({ isReferenced, olderThan: 1_001 });
  assert.is(inFile(content), false);
  assert.equal((await download(at, id)).content.toString(), content);
});

test("evidence that was stored as a file before becomes a row with its next report", async () => {
  const at = await givenPlace();
  const content = sized(200);
  const early = await attest(at, content);
  // As if a server with a limit of 0 had stored it.
  const path = evidencePath(join(directory, "evidence"), sha256(content));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  server.db.exec("DROP TRIGGER small_evidence_is_kept");
  server.db.prepare("DELETE FROM small_evidence WHERE digest = ?").run(sha256(content));
  assert.equal((await download(at, early)).content.toString(), content, "from the file");
  assert.ok(server.store.evidenceLocation.isReferenced(sha256(content)));
  await attest(at, content);
  assert.ok(inDatabase(content));
});

test.run();
