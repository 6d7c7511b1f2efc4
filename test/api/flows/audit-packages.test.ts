/** Audit packages and reports: they contain what the API shows, and mark what they leave out. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync, unlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { evidencePath } from "../../../src/evidence/layout.ts";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { sha256, unpack } from "../../audit-packages/unpack.ts";
import { running, runningIn } from "../environments/given.ts";

const test = suite("api/flows/audit-packages");
const directory = mkdtempSync(join(tmpdir(), "assay-packages-"));
let server: TestServer;
test.before(async () => void (server = await startServer({ directory, limits: { smallEvidence: 0 } })));
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

type At = { org: string; key: string };
type Place = At & { flow: string; trail: string };

const TEMPLATE = `version: 1 # ünchanged
trail:
  attestations:
    - {name: review, type: pull_request}
  artifacts:
    - name: server
      attestations:
        - {name: tests, type: junit}
        - {name: scan, type: snyk}
`;

async function place(name = fresh("trail")): Promise<Place> {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  return { ...at, flow, trail: await server.given.trail(at, { flow, name }) };
}

/** A request with the bytes of its response. */
async function get(at: At, path: string, init: { method?: string; headers?: Record<string, string> } = {}) {
  const response = await fetch(`${server.url}/api/v2${path}`, {
    method: init.method ?? "GET",
    headers: { Authorization: `Bearer ${at.key}`, ...init.headers },
  });
  return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
}
const trailPath = ({ org, flow, trail }: Place, what = "audit_package"): string =>
  `/trails/${org}/${flow}/${trail}/${what}`;
async function download(at: At, path: string): Promise<Buffer> {
  const { status, bytes } = await get(at, path);
  assert.is(status, 200, bytes.toString("utf8", 0, 500));
  return bytes;
}
const file = (content: string | Buffer, filename = "evidence.txt") => ({ name: "attachment_file", filename, content });
const attest = (
  at: Place,
  fields: {
    name?: string;
    kind?: string;
    file?: ReturnType<typeof file>;
    fingerprint?: string;
    [field: string]: unknown;
  },
): Promise<string> => server.given.attestation(at, { flow: at.flow, trail: at.trail, ...fields });
const without = (record: Record<string, unknown>, ...names: string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)));
/** The error lines of the log. */
const errors = (): any[] => server.lines.map((line) => JSON.parse(line)).filter(({ level }) => level === "error");

/** A release with everything that a package can contain. */
async function release() {
  const at = await place();
  const fingerprint = freshFingerprint();
  const artifact = { flow: at.flow, trail: at.trail, name: "server", fingerprint, commit: freshCommit() };
  await server.given.artifact(at, artifact);
  await server.given.artifact(at, { flow: at.flow, trail: at.trail, filename: "another.bin" });
  await attest(at, { kind: "pull_request", name: "review", git_provider: "github", pull_requests: [] });
  await attest(at, {
    kind: "pull_request",
    name: "review",
    git_provider: "github",
    pull_requests: [
      {
        url: "https://git.test/pull/7",
        merge_commit: artifact.commit,
        state: "MERGED",
        author: "ada",
        approvers: [{ username: "grace", state: "APPROVED", timestamp: 1 }],
        commits: [],
      },
    ],
  });
  await attest(at, {
    kind: "junit",
    name: "tests",
    fingerprint,
    junit_results: [{ name: "unit", failures: 1, errors: 0, skipped: 0, total: 7, duration: 1.5 }],
    file: file("<testsuite/>", "Prüfbericht 日本.xml"),
  });
  await attest(at, {
    kind: "override",
    name: "tests",
    fingerprint,
    reason: "the test is wrong",
    new_compliance_status: true,
    original_attestation_type: "junit",
  });
  await attest(at, {
    kind: "snyk",
    name: "scan",
    fingerprint,
    snyk_results: { schema_version: 1, tool: { name: "snyk", version: "1" }, results: [] },
    file: file("<testsuite/>", "copy.xml"),
  });
  const world = runningIn(server);
  const environment = world.environment(at);
  const yaml =
    "artifacts:\n  provenance:\n    required: true # rÜle\n  attestations:\n    - {name: scan, type: snyk}\n   " +
    " - {name: nothing, type: generic}\n";
  const policy = await server.given.policy(at, { yaml });
  world.attach(at, environment, policy);
  world.report(at, environment, [running("server", fingerprint)]);
  world.allow(at, environment, fingerprint);
  return {
    ...at,
    fingerprint,
    environment,
    policy,
    policyText: `_schema: https://assay.example.com/schemas/policy/v1\n${yaml}`,
  };
}

test("the package of a trail holds what the API shows and everything else recorded", async () => {
  const at = await release();
  const path = trailPath(at);
  const { status, headers, bytes } = await get(at, path);
  assert.equal(
    [
      status,
      ...[
        "Content-Type",
        "Content-Encoding",
        "Content-Disposition",
        "Content-Length",
        "X-Content-Type-Options",
        "Cache-Control",
      ].map((name) => headers.get(name)),
    ],
    [
      200,
      "application/gzip",
      null,
      `attachment; filename="audit-package-${at.flow}-${at.trail}.tar.gz"`,
      null,
      "nosniff",
      "private, no-cache",
    ],
  );
  const members = await unpack(bytes);
  assert.is(members.directory, `audit-package-${at.flow}-${at.trail}`, "named as the file without its ending");
  const { body: trail } = await server.call("GET", `/trails/${at.org}/${at.flow}/${at.trail}`, { key: at.key });
  const templateId = trail.compliance_status.flow_template_id;
  const digest = sha256("<testsuite/>");
  assert.equal(members.names, [
    "SHA256SUMS",
    "manifest.json",
    "README.txt",
    "trail-page.pdf",
    "flow.json",
    "trail.json",
    "artifacts.json",
    "attestations.json",
    "environments.json",
    "deployments.json",
    "allowlist.json",
    "policies.json",
    `policies/${at.policy}/v1.yml`,
    "controls.json",
    "custom-types.json",
    `templates/${templateId}.yml`,
    `evidence/${digest}/Prüfbericht 日本.xml`,
    `evidence/${digest}/copy.xml`,
  ]);

  const trailJson = members.json("trail.json");
  assert.equal(without(trailJson, "audit"), trail);
  assert.is(trail.events.length, 9);
  assert.equal(trailJson.audit, {
    trail_id: trailJson.events[0].trail_id,
    reasons: [],
    template_inherited: true,
    template_file: `templates/${templateId}.yml`,
  });
  assert.is(members.text(`templates/${templateId}.yml`), TEMPLATE);

  const { body: list } = await server.call("GET", `/attestations/${at.org}?per_page=100`, { key: at.key });
  const records = members.json<any[]>("attestations.json");
  assert.equal(
    records.map((record) => without(record, "audit")),
    [...list.data].reverse(),
  );
  assert.equal(
    records.map(({ attestation_name, is_compliant }) => [attestation_name, is_compliant]),
    [
      ["review", false],
      ["review", true],
      ["tests", false],
      ["tests", true],
      ["scan", true],
    ],
  );
  const [, , tests, override] = records;
  assert.equal(tests.audit, {
    reasons: ["Suite 'unit' has 1 failure and 0 errors"],
    scope: "artifact",
    belongs_to: [at.fingerprint],
    git_commit: null,
    repo_info: null,
    overridden_type: null,
    original_attestation_id: null,
    control: null,
    control_version: null,
    custom_type_version: null,
    evidence: {
      member: `evidence/${digest}/Prüfbericht 日本.xml`,
      state: "included",
      uploaded_as: "Prüfbericht 日本.xml",
      content_type: "application/octet-stream",
      size: 12,
      sha256: digest,
    },
  });
  assert.equal(
    {
      overridden_type: override.audit.overridden_type,
      original_attestation_id: override.audit.original_attestation_id,
      reason: override.reason,
      evidence: override.audit.evidence,
    },
    {
      overridden_type: "junit",
      original_attestation_id: tests.attestation_id,
      reason: "the test is wrong",
      evidence: null,
    },
  );
  assert.is(members.text(`evidence/${digest}/copy.xml`), "<testsuite/>");

  const { body: shown } = await server.call("GET", `/artifacts/${at.org}/${at.flow}/fingerprint/${at.fingerprint}`, {
    key: at.key,
  });
  const artifacts = members.json<any[]>("artifacts.json");
  assert.is(artifacts.length, 2);
  assert.equal(without(artifacts[0], "audit"), shown);
  assert.equal(
    artifacts[0].audit.attestations_statuses.map(({ attestation_name, status }: any) => [attestation_name, status]),
    [
      ["tests", "COMPLETE"],
      ["scan", "COMPLETE"],
    ],
  );

  const runs = members.json<any[]>("environments.json");
  assert.equal(
    runs.map(({ environment, first_snapshot, last_snapshot, verdict, event }) => [
      environment.name,
      first_snapshot.index,
      last_snapshot?.index ?? null,
      verdict,
      event.type,
    ]),
    [
      [at.environment, 1, 1, "NON-COMPLIANT", "started-non-compliant"],
      [at.environment, 2, null, "COMPLIANT", "became-compliant"],
    ],
  );
  const [before, after] = runs;
  assert.equal(before.reasons, [
    `Policy '${at.policy}' requires a compliant generic attestation named 'nothing', but none was reported in ` +
      `trail '${at.trail}' of flow '${at.flow}'.`,
  ]);
  assert.equal(
    before.policies.map(({ policy, version, text, status, rules }: any) => [
      policy,
      version,
      text,
      status,
      rules.map((rule: any) => rule.satisfied),
    ]),
    [[at.policy, 1, `policies/${at.policy}/v1.yml`, "NON-COMPLIANT", [true, null, true, false]]],
  );
  assert.equal(
    before.judged_on.map(({ flow, trail: name, attestations }: any) => [flow, name, attestations.length]),
    [[at.flow, at.trail, 3]],
  );
  const [allowance] = members.json("allowlist.json");
  assert.equal(
    {
      "before.allowlist_entry": before.allowlist_entry,
      "after.allowlist_entry": after.allowlist_entry,
      "allowance.description": allowance.description,
    },
    {
      "before.allowlist_entry": null,
      "after.allowlist_entry": allowance.public_id,
      "allowance.description": "because",
    },
  );
  assert.is(members.text(`policies/${at.policy}/v1.yml`), at.policyText);
  assert.equal(
    members.json("policies.json").map(({ policy, version, text }: any) => [policy, version, text]),
    [[at.policy, 1, `policies/${at.policy}/v1.yml`]],
  );
  const { body: deployments } = await server.call("GET", `/deployments/${at.org}?from=0&to=9999999999`, {
    key: at.key,
  });
  assert.equal(members.json("deployments.json"), deployments.deployments);

  const manifest = members.json("manifest.json");
  assert.equal(without(manifest, "members", "as_of"), {
    format: "assay-audit-package",
    format_version: 2,
    not_included: [],
    about: {
      kind: "trail",
      organization: at.org,
      flow: at.flow,
      trail: at.trail,
      trail_id: trailJson.audit.trail_id,
      url: `http://assay.test/${at.org}/flows/${at.flow}/trails/${at.trail}`,
    },
  });
  assert.match(
    members.text("README.txt"),
    `Audit package of trail '${at.trail}' in flow '${at.flow}'\nOrganization '${at.org}'\n`,
  );
  assert.match(
    members.text("README.txt"),
    "9 events, 2 artifact records, 5 attestations, 2 evidence files (24 bytes).",
  );

  const header = (name: string) => members.headers.get(name);
  for (const name of members.names)
    assert.equal(
      {
        mode: header(name)?.mode,
        uid: header(name)?.uid,
        gid: header(name)?.gid,
        uname: header(name)?.uname,
        gname: header(name)?.gname,
      },
      { mode: 0o644, uid: 0, gid: 0, uname: "", gname: "" },
      name,
    );
  assert.is(header("trail.json")?.mtime?.getTime(), Math.floor(manifest.as_of) * 1000);
  assert.is(header(`evidence/${digest}/copy.xml`)?.mtime?.getTime(), Math.floor(records[4].created_at) * 1000);

  const pdf = await get(at, trailPath(at, "audit_pdf"));
  assert.equal(
    { status: pdf.status, "Content-Type": pdf.headers.get("Content-Type"), ETag: pdf.headers.get("ETag") },
    { status: 200, "Content-Type": "application/pdf", ETag: `"${sha256(members.bytes("trail-page.pdf"))}"` },
  );
  assert.ok(pdf.bytes.equals(members.bytes("trail-page.pdf")));
  assert.equal(errors(), []);
});

test("shows running artifacts with the current name of their flow and the name that the policies saw", async () => {
  const at = await release();
  const present = `${at.flow}-moved`;
  const renamed = await server.call("PUT", `/flows/${at.org}/${at.flow}/rename`, {
    key: at.key,
    body: { new_name: present },
  });
  assert.is(renamed.status, 200, renamed.text);
  await server.given.flow(at, { name: at.flow });
  const members = await unpack((await get(at, `/trails/${at.org}/${present}/${at.trail}/audit_package`)).bytes);
  const [before] = members.json<any[]>("environments.json");
  assert.equal(before.reasons, [
    `Policy '${at.policy}' requires a compliant generic attestation named 'nothing', but none was reported in ` +
      `trail '${at.trail}' of flow '${present}'.`,
  ]);
  assert.equal(
    before.judged_on.map(({ flow, flow_when_evaluated }: any) => ({ flow, flow_when_evaluated })),
    [{ flow: present, flow_when_evaluated: at.flow }],
  );
  const outcomes = JSON.stringify(before.policies[0].rules.map((rule: any) => rule.outcomes));
  assert.ok(outcomes.includes(`flow '${present}'`) && !outcomes.includes(`flow '${at.flow}'`), outcomes);
});

test("the package of an artifact holds all its records in the flow and the basis of its verdicts", async () => {
  const at = await release();
  const second = await server.given.trail(at, { flow: at.flow });
  await server.given.artifact(at, { flow: at.flow, trail: second, name: "server", fingerprint: at.fingerprint });
  const other = await server.given.flow(at);
  const elsewhere = await server.given.trail(at, { flow: other });
  await server.given.artifact(at, { flow: other, trail: elsewhere, fingerprint: at.fingerprint });
  const path = (prefix: string): string => `/artifacts/${at.org}/${at.flow}/${prefix}/audit_package`;
  const { status, headers, bytes } = await get(at, path(at.fingerprint));
  assert.equal(
    {
      status,
      "Content-Type": headers.get("Content-Type"),
      "Content-Encoding": headers.get("Content-Encoding"),
      "Content-Disposition": headers.get("Content-Disposition"),
    },
    {
      status: 200,
      "Content-Type": "application/octet-stream",
      "Content-Encoding": "gzip",
      "Content-Disposition": `attachment; filename="audit-package-${at.flow}-${at.fingerprint.slice(0, 12)}.tar"`,
    },
  );
  // fetch decoded the content.
  assert.is(bytes.toString("latin1", 257, 262), "ustar");
  const members = await unpack(bytes);
  assert.is(members.directory, `audit-package-${at.flow}-${at.fingerprint.slice(0, 12)}`);
  assert.equal(members.names.slice(0, 8), [
    "SHA256SUMS",
    "manifest.json",
    "README.txt",
    "artifact-page.pdf",
    "flow.json",
    "artifacts.json",
    "trails.json",
    "attestations.json",
  ]);
  assert.equal(
    members.json("artifacts.json").map(({ trail_name, flow_name }: any) => [trail_name, flow_name]),
    [
      [at.trail, at.flow],
      [second, at.flow],
    ],
  );
  const trails = members.json("trails.json");
  assert.equal(
    trails.map(({ name, compliance_state }: any) => [name, compliance_state]),
    [
      [at.trail, "COMPLIANT"],
      [second, "INCOMPLETE"],
    ],
  );
  assert.equal(trails[1].audit.reasons.length, 3);
  // The trail's own records count for the artifact.
  assert.equal(
    members.json("attestations.json").map(({ attestation_name, audit }: any) => [attestation_name, audit.scope]),
    [
      ["review", "trail"],
      ["review", "trail"],
      ["tests", "artifact"],
      ["tests", "artifact"],
      ["scan", "artifact"],
    ],
  );
  const flows = new Set(
    members.json<any[]>("environments.json").flatMap(({ judged_on }) => judged_on.map(({ flow }: any) => flow)),
  );
  assert.equal([...flows], [at.flow]);
  assert.is(members.names.filter((name) => name.startsWith("evidence/")).length, 2);
  const { about } = members.json("manifest.json");
  assert.equal(
    { kind: about.kind, fingerprint: about.fingerprint, flow: about.flow },
    { kind: "artifact", fingerprint: at.fingerprint, flow: at.flow },
  );

  assert.ok(
    (await download(at, path(at.fingerprint.slice(0, 63)).replace(at.fingerprint.slice(0, 63), at.fingerprint))).equals(
      bytes,
    ),
  );
});

test("the same records give the same bytes, also after a restart and unrelated changes", async () => {
  const at = await release();
  const paths = [
    trailPath(at),
    trailPath(at, "audit_pdf"),
    `/artifacts/${at.org}/${at.flow}/${at.fingerprint}/audit_package`,
  ];
  const all = () => Promise.all(paths.map((path) => download(at, path)));
  const first = await all();
  await attest(await place(), { file: file("elsewhere") });
  const second = await all();
  await server.stop();
  server = await startServer({ directory, limits: { smallEvidence: 0 } });
  const third = await all();
  for (const [place, bytes] of first.entries())
    assert.ok(bytes.equals(second[place] as Buffer) && bytes.equals(third[place] as Buffer), paths[place]);
  await attest(at, {});
  assert.not.ok((await download(at, trailPath(at))).equals(first[0] as Buffer));
});

test("names of uploads never lead out of the directory of their content", async () => {
  const at = await place();
  const names: [stored: string, member: string][] = [
    ["../../../etc/passwd", "___.._.._etc_passwd"],
    ["..", "__"],
    [".", "_"],
    ["/etc/shadow", "_etc_shadow"],
    ["a\\..\\b.txt", "a_.._b.txt"],
    ["C:evil.exe", "C_evil.exe"],
    ["", "file"],
    ["line\nbreak\tand\0zero", "line_break_and_zero"],
    ["gnp\u202etxt.exe", "gnp_txt.exe"],
    ["trailing. . ", "trailing"],
    [".hidden", "_hidden"],
    ["-rf", "_rf"],
    ["con.txt", "_con.txt"],
    [`${"é".repeat(200)}.json`, `${"é".repeat(57)}.json`],
    ["emoji 😀.txt", "emoji 😀.txt"],
  ];
  for (const [stored] of names) {
    const id = await attest(at, { file: file(fresh("content")) });
    server.db.prepare("UPDATE attestations SET evidence_filename = ? WHERE public_id = ?").run(stored, id);
  }
  const members = await unpack(await download(at, trailPath(at)));
  for (const name of members.names)
    assert.ok(
      !name.startsWith("/") && !name.split("/").some((part) => part === "" || part === "." || part === ".."),
      name,
    );
  const parts = members.names.filter((name) => name.startsWith("evidence/")).map((name) => name.split("/"));
  assert.ok(parts.every(({ length }) => length === 3));
  const expected = new Set(names.map(([, member]) => member));
  assert.equal(
    parts.map(([, , name]) => name).filter((name) => !expected.has(name as string)),
    [],
  );
  assert.is(parts.length, names.length);
});

const evidenceAt = (digest: string): string => evidencePath(join(directory, "evidence"), digest);
/** Changes a stored file, which the server never does. */
function overwrite(digest: string, content: string | Buffer): void {
  unlinkSync(evidenceAt(digest));
  writeFileSync(evidenceAt(digest), content);
  chmodSync(evidenceAt(digest), 0o600);
}

test("leaves out a missing file, and marks it everywhere", async () => {
  const at = await place();
  const [lost, short, kept] = [fresh("lost content"), fresh("content that is cut off"), fresh("kept")];
  const id = await attest(at, { name: "lost", file: file(lost, "lost.txt") });
  await attest(at, { name: "short", file: file(short, "short.txt") });
  await attest(at, { name: "kept", file: file(kept, "kept.txt") });
  unlinkSync(evidenceAt(sha256(lost)));
  overwrite(sha256(short), short.slice(1));
  const members = await unpack(await download(at, trailPath(at)));
  assert.equal(
    members.names.filter((name) => name.startsWith("evidence/")),
    [`evidence/${sha256(kept)}/kept.txt`],
  );
  const missing = [
    { name: `evidence/${sha256(lost)}/lost.txt`, size: lost.length, sha256: sha256(lost), reason: "missing" },
    { name: `evidence/${sha256(short)}/short.txt`, size: short.length, sha256: sha256(short), reason: "damaged" },
  ].sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1));
  assert.equal(members.json("manifest.json").not_included, missing);
  const record = members.json<any[]>("attestations.json").find(({ attestation_id }) => attestation_id === id);
  assert.equal(
    { member: record.audit.evidence.member, state: record.audit.evidence.state, sha256: record.audit.evidence.sha256 },
    { member: null, state: "missing", sha256: sha256(lost) },
  );
  assert.match(members.text("README.txt"), `missing  evidence/${sha256(lost)}/lost.txt (${lost.length} bytes)`);
  assert.match(members.text("README.txt"), `damaged  evidence/${sha256(short)}/short.txt`);
  assert.equal(errors(), []);
});

/** Incompressible bytes. */
function noise(size: number): Buffer {
  const content = Buffer.alloc(size);
  for (let index = 0, state = 1; index < size; index += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    content[index] = state >>> 24;
  }
  content.write(fresh("content"));
  return content;
}

for (const [size, what] of [
  [900_000, "cuts the package"],
  [900, "fails the package before its first byte"],
] as const)
  test(`a damaged file ${what}; the next package leaves it out and marks it; a repaired one is included`, async () => {
    const at = await place();
    const content = noise(size);
    const digest = sha256(content);
    await attest(at, { file: file(content, "large.bin") });
    const damaged = Buffer.from(content);
    damaged[size - 1] = (damaged[size - 1] ?? 0) ^ 1;
    overwrite(digest, damaged);
    const answer = await get(at, trailPath(at)).catch((error: Error) => error);
    if (size > 1000) assert.instance(answer, Error);
    else assert.is((answer as { status: number }).status, 500);
    assert.is(
      errors().at(-1).err.message,
      `evidence ${digest} is damaged: this was found while a package was being made`,
    );
    server.lines.length = 0;

    const members = await unpack(await download(at, trailPath(at)));
    assert.equal(members.json("manifest.json").not_included, [
      { name: `evidence/${digest}/large.bin`, size, sha256: digest, reason: "damaged" },
    ]);
    assert.equal(members.json("attestations.json")[0].audit.evidence.state, "damaged");

    overwrite(digest, content);
    const repaired = await unpack(await download(at, trailPath(at)));
    assert.ok(repaired.bytes(`evidence/${digest}/large.bin`).equals(content));
    assert.equal(repaired.json("manifest.json").not_included, []);
  });

test("fifty concurrent downloads give the same bytes", async () => {
  const at = await release();
  await attest(at, { file: file(noise(700_000), "large.bin") });
  const all = await Promise.all(Array.from({ length: 50 }, () => download(at, trailPath(at))));
  assert.is(new Set(all.map(sha256)).size, 1);
  await unpack(all[0] as Buffer);
});

test("an empty trail has a package", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const members = await unpack(await download(at, `/trails/${at.org}/${flow}/${trail}/audit_package`));
  for (const name of [
    "artifacts",
    "attestations",
    "environments",
    "deployments",
    "allowlist",
    "policies",
    "controls",
    "custom-types",
  ])
    assert.equal(members.json(`${name}.json`), [], name);
  assert.equal(
    members.json("trail.json").events.map(({ type }: any) => type),
    ["trail_reported"],
  );
});

test("a report shows a stored URL as text and not as a link, whatever its scheme", async () => {
  const at = await place();
  server.db.prepare("UPDATE trails SET origin_url = 'javascript:alert(1)' WHERE name = ?").run(at.trail);
  const pdf = (await download(at, trailPath(at, "audit_pdf"))).toString("latin1");
  assert.is(pdf.slice(0, 5), "%PDF-");
  assert.not.match(pdf, /\/(?:URI|Annots|JavaScript|JS)\b/);
});

test("an artifact without a trail has a package", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const fingerprint = await server.given.artifact(at, { flow, trail: null });
  const members = await unpack(await download(at, `/artifacts/${at.org}/${flow}/${fingerprint}/audit_package`));
  assert.equal(
    [members.json("trails.json"), members.json("attestations.json"), members.json("artifacts.json")[0].trail_name],
    [[], [], null],
  );
});

test("serves archived flows under their new name, and shortens long names in file names", async () => {
  const at = await place("t".repeat(250));
  await server.given.artifact(at, { flow: at.flow, trail: at.trail, filename: `${"directory/".repeat(300)}x` });
  await server.call("PUT", `/flows/${at.org}/${at.flow}/archive`, { key: at.key, body: null });
  const archived = server.db.prepare("SELECT name FROM flows WHERE archived_name = ?").pluck().get(at.flow) as string;
  assert.match(archived, /-archived-at-\d+$/);
  const path = `/trails/${at.org}/${archived}/${at.trail}`;
  const members = await unpack(await download(at, `${path}/audit_package`));
  assert.equal(
    [members.json("flow.json").archived, members.json("flow.json").name, members.json("trail.json").name],
    [true, archived, at.trail],
  );
  assert.is((await download(at, `${path}/audit_pdf`)).toString("latin1", 0, 5), "%PDF-");
});

test("a damaged record is marked without affecting others", async () => {
  const at = await release();
  const [first] = server.db
    .prepare("SELECT id FROM attestations WHERE trail_id = (SELECT id FROM trails WHERE name = ?) ORDER BY id")
    .pluck()
    .all(at.trail) as number[];
  server.db.prepare("UPDATE attestations SET payload_json = '{', reasons_json = 'x' WHERE id = ?").run(first);
  server.db
    .prepare(
      "UPDATE trail_events SET event_json = '[' WHERE id = (SELECT min(id) FROM trail_events WHERE trail_id = " +
        "(SELECT id FROM trails WHERE name = ?))",
    )
    .run(at.trail);
  server.db
    .prepare(
      "UPDATE evaluations SET verdicts_json = '', facts_json = '[]' WHERE id IN (SELECT evaluation_id FROM " +
        "snapshot_artifacts WHERE fingerprint = ?)",
    )
    .run(at.fingerprint);
  const members = await unpack(await download(at, trailPath(at)));
  const [record] = members.json("attestations.json");
  assert.match(record.description, "damaged");
  assert.is(record.audit.reasons, null);
  const [event] = members.json("trail.json").events;
  assert.equal({ type: event.type, unreadable: event.unreadable }, { type: "trail_reported", unreadable: true });
  assert.equal(
    members.json("environments.json").map(({ policies, judged_on }: any) => [policies, judged_on]),
    [
      [null, null],
      [null, null],
    ],
  );
});

test("includes the custom types and controls that records and policies name", async () => {
  const at = await release();
  const { db } = server;
  const organization = db.prepare("SELECT id FROM organizations WHERE name = ?").pluck().get(at.org) as number;
  const type = Number(
    db
      .prepare(
        "INSERT INTO custom_types (public_id, organization_id, name, created_by, created_at, last_modified_at) " +
          "VALUES (?, ?, 'coverage', 'Ada', 1, 1)",
      )
      .run(fresh("type"), organization).lastInsertRowid,
  );
  const schema = '{ "type" : "object" }\n';
  for (const version of [1, 2])
    db.prepare(
      "INSERT INTO custom_type_versions (type_id, version, timestamp, created_by, schema_json, content_type, " +
        "rules_json) VALUES (?, ?, 1, 'Ada', ?, 'jq', '[\".ok\"]')",
    ).run(type, version, schema);
  const control = Number(
    db
      .prepare(
        "INSERT INTO controls (public_id, organization_id, identifier, name, name_folded, links_json, version, " +
          "created_by, created_at, last_modified_at) VALUES (?, ?, 'SDLC-1', 'Reviewed', 'reviewed', '[]', 2, " +
          "'Ada', 1, 2)",
      )
      .run(fresh("control"), organization).lastInsertRowid,
  );
  for (const [version, status] of [
    [1, "created"],
    [2, "edited"],
  ])
    db.prepare(
      "INSERT INTO control_versions (control_id, version, status, name, links_json, timestamp, created_by) " +
        "VALUES (?, ?, ?, 'Reviewed', '[]', 1, 'Ada')",
    ).run(control, version, status);
  const id = await attest(at, { name: "coverage" });
  db.prepare(
    "UPDATE attestations SET type = 'custom:coverage', type_version = 2, control = 'SDLC-1', control_version = " +
      "1 WHERE public_id = ?",
  ).run(id);
  const members = await unpack(await download(at, trailPath(at)));
  assert.is(members.text("custom-types/coverage/v2.schema.json"), schema);
  assert.equal(
    members
      .json("custom-types.json")
      .map(({ name, version, evaluator, schema: at }: any) => [name, version, evaluator, at]),
    [["coverage", 2, { content_type: "jq", rules: [".ok"] }, "custom-types/coverage/v2.schema.json"]],
  );
  assert.equal(
    members
      .json("controls.json")
      .map(({ identifier, versions }: any) => [identifier, versions.map(({ status }: any) => status)]),
    [["SDLC-1", ["created", "edited"]]],
  );
});

test("HEAD returns the headers of a package without creating it", async () => {
  const at = await place();
  const { status, headers, bytes } = await get(at, trailPath(at), { method: "HEAD" });
  assert.equal(
    {
      status,
      "Content-Type": headers.get("Content-Type"),
      "Content-Disposition": headers.get("Content-Disposition"),
      "bytes.length": bytes.length,
    },
    {
      status: 200,
      "Content-Type": "application/gzip",
      "Content-Disposition": `attachment; filename="audit-package-${at.flow}-${at.trail}.tar.gz"`,
      "bytes.length": 0,
    },
  );
});

test("serves the report with ranges, and 304 to clients that have it", async () => {
  const at = await place();
  const path = trailPath(at, "audit_pdf");
  const whole = await get(at, path);
  assert.equal(
    {
      status: whole.status,
      "Content-Length": whole.headers.get("Content-Length"),
      "Content-Disposition": whole.headers.get("Content-Disposition"),
    },
    {
      status: 200,
      "Content-Length": String(whole.bytes.length),
      "Content-Disposition": `attachment; filename="${at.flow}-${at.trail}.pdf"`,
    },
  );
  const part = await get(at, path, { headers: { Range: "bytes=0-4" } });
  assert.equal({ status: part.status, bytes: part.bytes.toString() }, { status: 206, bytes: "%PDF-" });
  const etag = whole.headers.get("ETag") as string;
  assert.equal(
    { etag, status: (await get(at, path, { headers: { "If-None-Match": etag } })).status },
    { etag: `"${sha256(whole.bytes)}"`, status: 304 },
  );
  const head = await get(at, path, { method: "HEAD" });
  assert.equal(
    { status: head.status, "Content-Length": head.headers.get("Content-Length"), "bytes.length": head.bytes.length },
    { status: 200, "Content-Length": String(whole.bytes.length), "bytes.length": 0 },
  );
});

test("refuses unknown subjects by name", async () => {
  const at = await place();
  const refused = async (path: string, status: number, body: unknown, key: string | null = at.key) => {
    const answer = await server.call("GET", path, { key });
    assert.equal(
      { status: answer.status, body: answer.body, "Content-Disposition": answer.headers.get("Content-Disposition") },
      { status, body, "Content-Disposition": null },
      path,
    );
  };
  const message = (text: string) => ({ message: text });
  for (const what of ["audit_package", "audit_pdf"]) {
    await refused(
      `/trails/${at.org}/no-flow/${at.trail}/${what}`,
      404,
      message(`Flow named 'no-flow' does not exist for organization '${at.org}'`),
    );
    await refused(
      `/trails/${at.org}/${at.flow}/no-trail/${what}`,
      404,
      message(`Trail with name 'no-trail' does not exist for Organization '${at.org}' and Flow '${at.flow}'`),
    );
    await refused(
      trailPath(at, what),
      403,
      message("You don't have permission to access this resource"),
      server.given.user(at.org, null),
    );
    await refused(trailPath(at, what), 401, message("Authentication credentials are missing or invalid"), null);
    assert.is((await get({ ...at, key: server.given.user(at.org, "reader") }, trailPath(at, what))).status, 200);
  }
  const artifact = (flow: string, prefix: string): string => `/artifacts/${at.org}/${flow}/${prefix}/audit_package`;
  const missing = (prefix: string) =>
    message(
      `Artifact with fingerprint '${prefix}' does not exist in flow '${at.flow}' belonging to organization '${at.org}'`,
    );
  await refused(
    artifact("no-flow", "abcde"),
    404,
    message(`Flow named 'no-flow' does not exist for organization '${at.org}'`),
  );
  await refused(artifact(at.flow, "abcde"), 404, missing("abcde"));
  await refused(artifact(at.flow, "0".repeat(64)), 404, missing("0".repeat(64)));
  const twins = ["1", "2"].map((last) => `${"b".repeat(63)}${last}`);
  for (const fingerprint of twins) await server.given.artifact(at, { flow: at.flow, trail: at.trail, fingerprint });
  await refused(artifact(at.flow, "bbbbb"), 404, missing("bbbbb"));
  for (const prefix of ["abcd", "ABCDE", "ghijk"])
    assert.is((await server.call("GET", artifact(at.flow, prefix), { key: at.key })).status, 400, prefix);
  await refused(
    artifact(at.flow, twins[0] as string),
    403,
    message("You don't have permission to access this resource"),
    server.given.user(at.org, null),
  );
});

test("without the package thread only the report is unavailable", async () => {
  const alone = await startServer();
  try {
    const at = alone.given.org();
    const flow = await alone.given.flow(at);
    const trail = await alone.given.trail(at, { flow });
    const report = await alone.call("GET", `/trails/${at.org}/${flow}/${trail}/audit_pdf`, { key: at.key });
    assert.equal(
      { status: report.status, body: report.body, "Retry-After": report.headers.get("Retry-After") },
      { status: 503, body: { message: "The report cannot be created now. Please try again" }, "Retry-After": "10" },
    );
    assert.is(
      (await alone.call("GET", `/trails/${at.org}/${flow}/${trail}/audit_package`, { key: at.key })).status,
      500,
    );
    assert.is((await alone.call("GET", `/trails/${at.org}/${flow}/${trail}`, { key: at.key })).status, 200);
  } finally {
    await alone.stop();
  }
});

test("refuses a package or report with 429 while the memory is taken, and makes it when it is free", async () => {
  const own = mkdtempSync(join(tmpdir(), "assay-packages-"));
  const narrow = await startServer({ directory: own, patience: 20 });
  try {
    const at = narrow.given.org();
    const flow = await narrow.given.flow(at);
    const trail = await narrow.given.trail(at, { flow });
    const paths = ["audit_package", "audit_pdf"].map((what) => trailPath({ ...at, flow, trail }, what));
    const ask = (path: string) =>
      fetch(`${narrow.url}/api/v2${path}`, { headers: { Authorization: `Bearer ${at.key}` } });
    const others = narrow.memory.threads.take(narrow.memory.total, () => undefined);
    for (const path of paths) {
      const refusal = await ask(path);
      assert.equal(
        { status: refusal.status, retry: refusal.headers.get("retry-after"), body: await refusal.json() },
        {
          status: 429,
          retry: "10",
          body: {
            message:
              "The server is busy with too many large requests to make an audit package. " +
              "Please try again in 10 seconds",
          },
        },
      );
    }
    others?.release();
    for (const path of paths) {
      const answer = await ask(path);
      assert.is(answer.status, 200);
      assert.ok((await answer.arrayBuffer()).byteLength > 100);
    }
    const { threads } = narrow.memory.load();
    assert.equal({ bytes: threads.bytes, waiting: threads.waiting }, { bytes: 0, waiting: 0 });
  } finally {
    await narrow.stop();
    rmSync(own, { recursive: true, force: true });
  }
});

test.run();
