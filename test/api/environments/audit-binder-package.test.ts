/** Audit binders as packages: the same content as the document, with the evidence, verified without the server. */
import { mkdtempSync, rmSync, unlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { evidencePath } from "../../../src/evidence/layout.ts";
import { sha256, unpack } from "../../audit-packages/unpack.ts";
import type { Package } from "../../audit-packages/unpack.ts";
import { freshCommit, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { running, runningIn } from "./given.ts";

const test = suite("api/environments/audit-binder-package");
const directory = mkdtempSync(join(tmpdir(), "assay-binders-"));
let server: TestServer;
test.before(async () => void (server = await startServer({ directory, limits: { smallEvidence: 0 } })));
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

type At = { org: string; key: string };
type Json = Record<string, any>;

const POLICY = "artifacts:\n  attestations:\n    - type: decision\n      for_control: C-1\n";

async function get(at: At, query: Record<string, string>) {
  const response = await fetch(`${server.url}/api/v2/audit-binder/${at.org}/package?${new URLSearchParams(query)}`, {
    headers: { Authorization: `Bearer ${at.key}` },
  });
  return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
}
async function download(at: At, query: Record<string, string>): Promise<Package> {
  const { status, bytes } = await get(at, query);
  assert.is(status, 200, bytes.toString("utf8", 0, 500));
  return unpack(bytes);
}
const read = async (at: At, query: Record<string, string>): Promise<Json> =>
  (await server.call("GET", `/audit-binder/${at.org}?${new URLSearchParams(query)}`, { key: at.key })).body;

async function release() {
  const at = server.given.org();
  await server.given.control(at, { identifier: "C-1" });
  const [flow, prod] = [await server.given.flow(at), await server.given.environment(at)];
  const policy = await server.given.policy(at, { yaml: POLICY });
  const { report } = runningIn(server);
  report(at, prod, []);
  await server.call("POST", `/environments/${at.org}/${prod}/policies`, {
    key: at.key,
    body: { policy_names: [policy] },
  });
  const print = await server.given.artifact(at, { flow, trail: "one", name: "shop", commit: freshCommit() });
  const decision = {
    kind: "system",
    flow,
    trail: "one",
    name: "go",
    type_name: "decision",
    control: "C-1",
    attestation_data: { is_compliant: true },
  };
  const file = (content: string) => ({ name: "attachment_file", filename: "minutes.txt", content });
  await server.given.attestation(at, { ...decision, file: file(`Approved ${flow}`) });
  await server.given.attestation(at, {
    flow,
    trail: "one",
    kind: "generic",
    name: "tests",
    file: file(`green ${flow}`),
  });
  report(at, prod, [running("shop:1", print)]);
  const to = `${server.clock.at}.0`;
  return { at, flow, prod, policy, to, minutes: sha256(`Approved ${flow}`), tests: sha256(`green ${flow}`) };
}

test("a control's package has its document, its decisions, the rules in force and the evidence", async () => {
  const { at, policy, to, minutes, tests } = await release();
  const query = { control: "C-1", from: "2023-01-01", to };
  const binder = await read(at, query);
  const packed = await download(at, query);
  assert.equal(packed.names.slice(0, 5), [
    "SHA256SUMS",
    "manifest.json",
    "README.txt",
    "binder.json",
    "attestations.json",
  ]);
  assert.equal(packed.json("binder.json"), binder, "the same content as the operation");
  assert.equal(
    packed
      .json<Json[]>("attestations.json")
      .map(({ attestation_name, audit }) => [attestation_name, audit.evidence.member]),
    [["go", `evidence/${minutes}/minutes.txt`]],
  );
  assert.ok(packed.names.includes(`evidence/${minutes}/minutes.txt`));
  assert.not.ok(packed.names.includes(`evidence/${tests}/minutes.txt`), "only decisions belong to a control");
  const rule = binder["rules"].items[0];
  assert.is(sha256(packed.text(`policies/${policy}/v1.yml`)), rule.sha256);
  assert.equal(
    packed.json<Json[]>("controls.json").map(({ identifier }) => identifier),
    ["C-1"],
  );
  const manifest = packed.json("manifest.json");
  assert.equal(manifest.about, {
    kind: "binder",
    organization: at.org,
    of: "control",
    name: "C-1",
    from: binder["from"],
    to: binder["to"],
    url: `http://assay.test/${at.org}/audit-binder?${new URLSearchParams({
      control: "C-1",
      from: new Date(binder["from"] * 1000).toISOString(),
      to: new Date(binder["to"] * 1000).toISOString(),
    })}`,
  });
  assert.is(
    packed.directory,
    `audit-binder-C-1-2023-01-01-${new Date(binder["to"] * 1000).toISOString().slice(0, 10)}`,
  );
  const readme = packed.text("README.txt");
  assert.match(readme, "Audit binder of control 'C-1'");
  assert.ok(readme.replaceAll("\n", " ").includes(binder["summary"]));
  assert.match(readme, "1 attestation and 1 evidence file");
});

test("the packages of an environment and a flow have all attestations of what started and began", async () => {
  const { at, flow, prod, to, minutes, tests } = await release();
  for (const query of [{ environment: prod }, { flow }] as Record<string, string>[]) {
    const period = { ...query, from: "2023-01-01", to };
    const packed = await download(at, period);
    assert.equal(packed.json("binder.json"), await read(at, period));
    assert.equal(
      packed.names.filter((name) => name.startsWith("evidence/")).sort(),
      [minutes, tests].map((digest) => `evidence/${digest}/minutes.txt`).sort(),
    );
  }
});

test("the same records give the same bytes, and a file that is missing is listed", async () => {
  const { at, flow, to, tests } = await release();
  const query = { flow, from: "2023-01-01", to };
  const [first, second] = [await get(at, query), await get(at, query)];
  assert.ok(first.bytes.equals(second.bytes));
  assert.match(String(first.headers.get("Content-Disposition")), /audit-binder-.*\.tar\.gz/);
  unlinkSync(evidencePath(join(directory, "evidence"), tests));
  const packed = await download(at, query);
  assert.equal(
    packed.json("manifest.json").not_included.map(({ sha256: digest, reason }: Json) => [digest, reason]),
    [[tests, "missing"]],
  );
  assert.match(packed.text("README.txt"), "Missing evidence");
});

test("an auditor's package has no members and keys; wrong filters are refused before a byte is sent", async () => {
  const { at, to } = await release();
  const auditor = { org: at.org, key: server.given.user(at.org, "reader") };
  const query = { control: "C-1", from: "2023-01-01", to };
  await server.call("POST", `/service-accounts/${at.org}`, { key: at.key, body: { name: "bot", privilege: "member" } });
  const changes = (packed: Package): Json => packed.json("binder.json").changes;
  const later = { ...query, to: `${server.clock.at}.0` };
  assert.ok(changes(await download(at, later))["items"].some(({ kind }: Json) => kind === "member"));
  const own = changes(await download(auditor, later));
  assert.is(own["people_since"], null);
  assert.not.ok(own["items"].some(({ kind }: Json) => kind === "member" || kind === "key"));
  for (const [wrong, status] of [
    [{}, 400],
    [{ control: "C-1", flow: "x" }, 400],
    [{ control: "C-1", from: "nonsense" }, 400],
    [{ control: "C-2" }, 404],
    [{ environment: "nowhere" }, 404],
  ] as [Record<string, string>, number][])
    assert.is((await get(at, wrong)).status, status, JSON.stringify(wrong));
  assert.is((await get({ org: at.org, key: server.given.org().key }, query)).status, 403);
});

test.run();
