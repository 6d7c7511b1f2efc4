import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/flows/artifacts");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string };
type Fields = Record<string, unknown>;
const ID = /^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{8}$/;
const TEMPLATE = `version: 1
trail:
  attestations:
    - {name: review, type: generic}
  artifacts:
    - name: server
      attestations:
        - {name: tests, type: generic}
        - {name: scan, type: snyk}
    - name: client
      attestations:
        - {name: tests, type: generic}
`;

async function place(template?: string): Promise<Place> {
  const at = server.given.org();
  return { ...at, flow: await server.given.flow(at, template === undefined ? {} : { template }) };
}

const post = (at: Place, body: unknown): Promise<Answer> =>
  server.call("POST", `/artifacts/${at.org}/${at.flow}`, { key: at.key, body });
const minimal = (fields: Fields = {}) => ({
  fingerprint: freshFingerprint(),
  filename: "app.tar",
  git_commit: freshCommit(),
  build_url: "https://ci/1",
  commit_url: "https://git/1",
  ...fields,
});
/** Reports an artifact. @returns the body sent */
async function report(at: Place, fields: Fields = {}): Promise<Fields & { fingerprint: string; git_commit: string }> {
  const body = minimal({ trail_name: "t", ...fields });
  const answer = await post(at, body);
  assert.is(answer.status, 201, answer.text);
  assert.is(answer.body, "OK");
  return body as Fields & { fingerprint: string; git_commit: string };
}
const get = (at: Place, path: string) => server.call("GET", `/artifacts/${at.org}${path}`, { key: at.key });
const read = async (at: Place, fingerprint: string, query = "") =>
  (await get(at, `/${at.flow}/fingerprint/${fingerprint}${query}`)).body;
const attest = async (at: Place, fields: Fields, kind = "generic", trail = "t") => {
  const json = { ...(kind === "generic" ? { is_compliant: true } : {}), ...fields };
  const answer = await server.call("POST", `/attestations/${at.org}/${at.flow}/trail/${trail}/${kind}`, {
    key: at.key,
    form: { json },
  });
  assert.is(answer.status, 201, answer.text);
};
const trailOf = async (at: Place, trail = "t") =>
  (await server.call("GET", `/trails/${at.org}/${at.flow}/${trail}`, { key: at.key })).body;
const rows = (table: string): number => server.db.prepare(`SELECT count(*) AS n FROM ${table}`).pluck().get() as number;
const rejected = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });
const missing = (at: Place, fingerprint: string, flow = at.flow) => ({
  message:
    `Artifact with fingerprint '${fingerprint}' does not exist in flow '${flow}' belonging to organization ` +
    `'${at.org}'`,
});

test("shows every reported field of an artifact and its state", async () => {
  const at = await place(TEMPLATE);
  const commit = { sha1: freshCommit(), message: "m", author: "Ada", branch: "main", timestamp: 1_700_000_000 };
  const sent = await report(at, {
    trail_name: "release-1",
    template_reference_name: "server",
    description: "the server",
    git_commit_info: commit,
    repo_info: {
      id: "R1",
      name: "acme/app",
      url: "https://git.example.com/acme/app",
      provider: "github",
      description: "app",
      namespace_path: ["acme"],
      additional_info: { a: 1 },
    },
    repo_url: "https://git.example.com/acme/app",
    external_urls: { sbom: { href: "https://x/sbom", fingerprint: "b".repeat(64) } },
    annotations: { stage: "prod" },
    user_data: { anything: [1] },
  });
  const body = await read(at, sent.fingerprint);
  const { id, created_at, last_modified_at, state_info, ...rest } = body;
  assert.match(id, ID);
  assert.match(created_at, /^\d+(\.\d+)?$/);
  assert.is(last_modified_at, created_at);
  assert.equal(state_info.split("\n"), [
    "Attestation 'tests' of artifact 'server' is missing; the template expects type 'generic'",
    "Attestation 'scan' of artifact 'server' is missing; the template expects type 'snyk'",
    "Attestation 'review' of the trail is missing; the template expects type 'generic'",
  ]);
  assert.equal(rest, {
    fingerprint: sent.fingerprint,
    filename: "app.tar",
    flow_name: at.flow,
    trail_name: "release-1",
    template_reference_name: "server",
    git_commit: sent.git_commit,
    git_commit_info: commit,
    repo_info: { name: "acme/app", url: "https://git.example.com/acme/app", id: "R1", description: "app" },
    commit_url: "https://git/1",
    build_url: "https://ci/1",
    repo_url: "https://git.example.com/acme/app",
    html_url: `http://assay.test/${at.org}/flows/${at.flow}/artifacts/${sent.fingerprint}?artifact_id=${id}`,
    api_url: `http://assay.test/api/v2/artifacts/${at.org}/${at.flow}/fingerprint/${sent.fingerprint}`,
    user_data: { anything: [1] },
    external_urls: { sbom: { href: "https://x/sbom", fingerprint: "b".repeat(64) } },
    annotations: { stage: "prod" },
    state: "INCOMPLETE",
    deployments: [],
    evidence: {},
    template: ["tests", "scan"],
    approvals: [],
    running: [],
    exited: [],
    history: [{ event: "server reported", timestamp: Number(created_at) }],
    commit_lead_times: {},
    build_lead_times: {},
  });

  const trail = await trailOf(at, "release-1");
  assert.is(trail.repo_ids.length, 1);
  const { org_id, flow_id, trail_id, ...event } = trail.events[1];
  for (const one of [org_id, flow_id, trail_id]) assert.match(one, ID);
  assert.equal(event, {
    type: "artifact_creation_reported",
    timestamp: Number(created_at),
    artifact_id: id,
    artifact_name: "app.tar",
    artifact_fingerprint: sent.fingerprint,
    template_reference_name: "server",
    git_commit: sent.git_commit,
    git_commit_info: commit,
    repo_info: {
      name: "acme/app",
      url: "https://git.example.com/acme/app",
      id: "R1",
      description: "app",
      provider: "github",
    },
  });
});

test("accepts a minimal report, and no text that clients rely on is null", async () => {
  const at = await place();
  const sent = await report(at, {
    repo_url: "",
    build_url: "",
    commit_url: "",
    git_commit_info: null,
    repo_info: null,
    commits_list: null,
    template_reference_name: null,
    annotations: null,
    user_data: null,
    external_urls: null,
  });
  const artifact = await read(at, sent.fingerprint);
  assert.equal(
    {
      filename: artifact.filename,
      commit_url: artifact.commit_url,
      build_url: artifact.build_url,
      repo_url: artifact.repo_url,
      state: artifact.state,
      running: artifact.running,
      exited: artifact.exited,
      template: artifact.template,
      state_info: artifact.state_info,
    },
    {
      filename: "app.tar",
      commit_url: "",
      build_url: "",
      repo_url: "",
      state: "COMPLIANT",
      running: [],
      exited: [],
      template: [],
      state_info: null,
    },
  );
  assert.equal(
    {
      git_commit_info: artifact.git_commit_info,
      repo_info: artifact.repo_info,
      annotations: artifact.annotations,
      user_data: artifact.user_data,
      external_urls: artifact.external_urls,
    },
    { git_commit_info: null, repo_info: null, annotations: null, user_data: null, external_urls: null },
  );
  assert.equal(artifact.history[0].event, "app.tar reported");
  assert.is((await trailOf(at)).compliance_status.artifacts_statuses[sent.fingerprint].unexpected, true);
});

test("shows the latest evidence of each attestation name; the history has all", async () => {
  const at = await place(TEMPLATE);
  const { fingerprint } = await report(at, { template_reference_name: "server" });
  await attest(at, { attestation_name: "review" });
  await attest(at, { attestation_name: "tests", artifact_fingerprint: fingerprint, is_compliant: false });
  assert.is((await read(at, fingerprint)).state, "NON-COMPLIANT");
  await attest(at, {
    attestation_name: "tests",
    artifact_fingerprint: fingerprint,
    origin_url: "https://ci/7",
    user_data: { k: 1 },
    description: "d",
    git_commit_info: { sha1: "c".repeat(40) },
  });
  await attest(
    at,
    {
      attestation_name: "scan",
      artifact_fingerprint: fingerprint,
      snyk_results: { schema_version: 1, tool: { name: "s", version: "1" }, results: [] },
    },
    "snyk",
  );

  const artifact = await read(at, fingerprint);
  assert.is(artifact.state, "COMPLIANT");
  assert.is(artifact.state_info, null);
  assert.equal(Object.keys(artifact.evidence).sort(), ["scan", "tests"]);
  const { created_at, ...tests } = artifact.evidence.tests;
  assert.type(created_at, "string");
  assert.equal(tests, {
    evidence_type: "generic",
    is_compliant: true,
    description: "d",
    build_url: "https://ci/7",
    commit_sha: "c".repeat(40),
    user_data: { k: 1 },
    has_audit_package: true,
    evidence_archive_fingerprint: null,
    evidence_url: null,
    evidence_fingerprint: null,
  });
  assert.is(artifact.evidence.scan.evidence_type, "snyk");
  assert.equal(artifact.evidence.scan.snyk_results.results, []);
  assert.equal(
    artifact.history.map(({ event }: { event: string }) => event),
    ["server reported", "tests evidence received", "tests evidence received", "scan evidence received"],
  );
  assert.ok(Number(artifact.last_modified_at) > Number(artifact.created_at));
  const [item] = (await get(at, "")).body;
  assert.equal(item.evidence, artifact.evidence);
});

test("binds an attestation to the artifact of its name and commit, in either order", async () => {
  const at = await place(TEMPLATE);
  const sha1 = freshCommit();
  const early = { target_artifacts: ["server"], git_commit_info: { sha1 } };
  await attest(at, { attestation_name: "tests", is_compliant: true, ...early });
  await attest(at, { attestation_name: "tests", is_compliant: false, ...early });
  await attest(at, {
    attestation_name: "extra",
    target_artifacts: ["server"],
    git_commit_info: { sha1: freshCommit() },
  });

  const other = await report(at, { template_reference_name: "client", git_commit: sha1 });
  assert.equal((await read(at, other.fingerprint)).evidence, {}, "another name receives nothing");
  const { fingerprint } = await report(at, { template_reference_name: "server", git_commit: sha1 });
  const artifact = await read(at, fingerprint);
  assert.equal(Object.keys(artifact.evidence), ["tests"]);
  assert.is(artifact.evidence.tests.is_compliant, false, "the later of two counts");
  assert.is(artifact.state, "NON-COMPLIANT");

  // A second artifact of that name and commit receives them as well.
  const rebuilt = await report(at, { template_reference_name: "server", git_commit: sha1 });
  assert.is((await read(at, rebuilt.fingerprint)).evidence.tests.is_compliant, false);
});

test("a repeated report updates its record and adds to the history; another name creates another record", async () => {
  const at = await place(TEMPLATE);
  const first = await report(at, { template_reference_name: "server", user_data: { n: 1 }, description: "x" });
  const id = (await read(at, first.fingerprint)).id;
  const late = freshCommit();
  await attest(at, { attestation_name: "tests", target_artifacts: ["server"], git_commit_info: { sha1: late } });
  await report(at, {
    fingerprint: first.fingerprint,
    template_reference_name: "server",
    filename: "renamed",
    git_commit: late,
  });
  const again = await read(at, first.fingerprint);
  assert.equal(
    { id: again.id, filename: again.filename, git_commit: again.git_commit, user_data: again.user_data },
    { id, filename: "renamed", git_commit: late, user_data: null },
  );
  assert.ok(Number(again.last_modified_at) > Number(again.created_at));
  assert.equal(Object.keys(again.evidence), ["tests"], "the new commit brings what waited for it");

  await attest(at, { attestation_name: "signed", artifact_fingerprint: first.fingerprint });
  await report(at, { fingerprint: first.fingerprint, template_reference_name: "client" });
  const latest = await read(at, first.fingerprint);
  assert.is.not(latest.id, id);
  assert.equal(
    { template_reference_name: latest.template_reference_name, template: latest.template },
    { template_reference_name: "client", template: ["tests"] },
  );
  assert.equal(
    Object.keys(latest.evidence),
    ["signed"],
    "what was attested for the fingerprint belongs to each record of it",
  );
  const types = (await trailOf(at)).events.map((event: { type: string }) => event.type);
  assert.equal(types.filter((type: string) => type === "artifact_creation_reported").length, 3);
  assert.is((await get(at, `?flow_name=${at.flow}`)).body.length, 2);
});

test("a report without a trail belongs to the flow alone", async () => {
  const at = await place(TEMPLATE);
  const commits = [{ sha1: freshCommit(), branch: "main", parents: [freshCommit()] }];
  const body = minimal({ repo_url: "", commits_list: commits });
  const trails = rows("trails");
  assert.is((await post(at, body)).status, 201);
  assert.is(rows("trails"), trails);
  const artifact = await read(at, body.fingerprint);
  assert.equal(
    {
      trail_name: artifact.trail_name,
      template_reference_name: artifact.template_reference_name,
      state: artifact.state,
    },
    { trail_name: null, template_reference_name: null, state: "INCOMPLETE" },
  );
  assert.equal(artifact.template, ["review", "tests", "scan"]);
  assert.match(artifact.state_info, /^Attestation 'review' of the artifact is missing\n/);
  assert.equal(artifact.evidence, {});
  assert.equal(artifact.history, [{ event: "app.tar reported", timestamp: Number(artifact.created_at) }]);

  const cases: [Fields, string, string[]][] = [
    [{ trail_name: null, template: [] }, "COMPLIANT", []],
    [{ template: ["artifact"] }, "COMPLIANT", ["artifact"]],
    [{ template: "artifact, unit , unit" }, "INCOMPLETE", ["artifact", "unit"]],
    [{ template: [], is_compliant: true }, "COMPLIANT", []],
    [{ template: ["unit"], is_compliant: false }, "NON-COMPLIANT", ["unit"]],
  ];
  for (const [fields, state, template] of cases) {
    assert.is((await post(at, { ...body, ...fields })).status, 201);
    const shown = await read(at, body.fingerprint);
    assert.equal({ id: shown.id, state: shown.state, template: shown.template }, { id: artifact.id, state, template });
  }
  const { body: flows } = await server.call("GET", `/flows/${at.org}`, { key: at.key });
  assert.is(flows[0].latest_state, "NON-COMPLIANT");
});

test("a report without a trail that names an artifact of the template has to meet its entries", async () => {
  const at = await place(TEMPLATE);
  const body = minimal({ trail_name: null });
  const shown = async (template_reference_name: string | null, more: Fields = {}) => {
    assert.is((await post(at, { ...body, template_reference_name, ...more })).status, 201);
    const {
      id,
      template,
      template_reference_name: name,
      state,
      state_info,
      history,
    } = await read(at, body.fingerprint);
    return { id, template, name, state, missing: (state_info ?? "").split("\n").length, event: history[0].event };
  };
  const first = await shown("client");
  const { id, ...rest } = first;
  assert.equal(rest, {
    template: ["review", "tests"],
    name: "client",
    state: "INCOMPLETE",
    missing: 2,
    event: "client reported",
  });
  assert.equal((await shown("server")).template, ["review", "tests", "scan"], "the name of the latest report counts");
  const all = { template: ["review", "tests", "scan"], missing: 3 };
  for (const name of [null, "unheard-of"]) {
    const { template, missing, name: kept } = await shown(name);
    assert.equal({ template, missing, kept }, { ...all, kept: name }, "no name looks better than the template");
  }
  assert.equal(await shown("client", { template: ["tests"] }), { ...first, template: ["tests"], missing: 1 });
  assert.is((await shown("client")).id, id, "one record for the fingerprint");
});

test("refusals name the field and leave nothing behind", async () => {
  const at = await place();
  const before = ["artifacts", "trails", "trail_events", "repos", "audit_log"].map(rows);
  const cases: [Fields, Record<string, string>][] = [
    [{ filename: "" }, { filename: "String should have at least 1 character [input: ]" }],
    [{ fingerprint: "abc" }, { fingerprint: "String should match pattern '^[a-f0-9]{64}$' [input: abc]" }],
    [
      { fingerprint: "A".repeat(64) },
      { fingerprint: `String should match pattern '^[a-f0-9]{64}$' [input: ${"A".repeat(64)}]` },
    ],
    [{ git_commit: "abc" }, { git_commit: "String should match pattern '^[a-f0-9]{40}$' [input: abc]" }],
    [{ git_commit: "" }, { git_commit: "String should match pattern '^[a-f0-9]{40}$' [input: ]" }],
    [{ build_url: undefined }, { build_url: "Field required" }],
    [
      { trail_name: "-t" },
      { trail_name: String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$' [input: -t]` },
    ],
    [
      { trail_name: "" },
      { trail_name: String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$' [input: ]` },
    ],
    [
      { template_reference_name: "a.b" },
      { template_reference_name: String.raw`String should match pattern '^[a-zA-Z0-9\-_]+$' [input: a.b]` },
    ],
    [
      { external_urls: { sbom: { href: "x", fingerprint: "no-hex" } } },
      { "external_urls.sbom.fingerprint": "String should match pattern '^[a-f0-9]{64}$' [input: no-hex]" },
    ],
    [{ annotations: [1] }, { annotations: "Input should be a valid object [input: [1]]" }],
    [{ trail: "t", trail_nam: "t" }, { trail_nam: "Extra inputs are not permitted. Did you mean 'trail_name'?" }],
    [
      { trail_name: "t", repo_info: { id: "1", name: "n", url: "nowhere" } },
      { "repo_info.url": "Input should be a valid URL with scheme and host [input: nowhere]" },
    ],
  ];
  for (const [fields, errors] of cases) {
    const answer = await post(at, minimal(fields));
    assert.is(answer.status, 400, JSON.stringify(fields));
    assert.equal(answer.body, rejected(errors));
  }
  assert.is((await post(at, null)).status, 400);
  assert.is((await post({ ...at, flow: "none" }, minimal({ trail_name: "t" }))).status, 404);
  assert.equal((await post({ ...at, flow: "none" }, minimal())).body, {
    message: `Flow named 'none' does not exist for organization '${at.org}'`,
  });
  for (const role of ["reader", "snapshotter"] as const)
    assert.is((await post({ ...at, key: server.given.user(at.org, role) }, minimal())).status, 403);
  assert.equal(["artifacts", "trails", "trail_events", "repos", "audit_log"].map(rows), before);
});

test("finds an artifact by a prefix of its fingerprint, unless it is ambiguous", async () => {
  const at = await place();
  const [one, two] = [`${"d".repeat(63)}0`, `${"d".repeat(63)}1`];
  await report(at, { fingerprint: one });
  assert.is((await read(at, "ddddd")).fingerprint, one);
  await report(at, { fingerprint: two });
  assert.is((await read(at, one)).fingerprint, one);
  for (const prefix of ["ddddd", "d".repeat(63), "eeeee", "e".repeat(64)]) {
    const answer = await get(at, `/${at.flow}/fingerprint/${prefix}`);
    assert.is(answer.status, 404);
    assert.equal(answer.body, missing(at, prefix));
  }
  for (const wrong of ["dddd", "DDDDD", `${one}0`]) {
    const answer = await get(at, `/${at.flow}/fingerprint/${wrong}`);
    assert.is(answer.status, 400);
    assert.equal(
      answer.body,
      rejected({ fingerprint: `String should match pattern '^[a-f0-9]{5,64}$' [input: ${wrong}]` }),
    );
  }
  const unknown = await get(at, `/none/fingerprint/${one}`);
  assert.is(unknown.status, 404);
  assert.equal(unknown.body, { message: `Flow named 'none' does not exist for organization '${at.org}'` });
});

test("trail and attestation_id select among the records of a fingerprint", async () => {
  const at = await place();
  const { fingerprint } = await report(at, { trail_name: "a", filename: "first" });
  await attest(at, { attestation_name: "x", artifact_fingerprint: fingerprint }, "generic", "a");
  await report(at, { trail_name: "b", filename: "second", fingerprint });
  await attest(at, { attestation_name: "on-trail" }, "generic", "b");
  await server.call("PUT", `/trails/${at.org}/${at.flow}`, { key: at.key, form: { json: { name: "empty" } } });
  const id = (name: string) =>
    server.db.prepare("SELECT public_id FROM attestations WHERE name = ? ORDER BY id DESC").pluck().get(name) as string;

  for (const [query, filename] of [
    ["", "second"],
    ["?trail=", "second"],
    ["?trail=a", "first"],
    ["?trail=b", "second"],
    [`?attestation_id=${id("x")}`, "first"],
    [`?attestation_id=${id("x")}&trail=a`, "first"],
  ])
    assert.is((await read(at, fingerprint, query)).filename, filename, query);
  for (const query of [
    "?trail=empty",
    `?attestation_id=${id("x")}&trail=b`,
    `?attestation_id=${id("on-trail")}`,
    "?attestation_id=00000000-0000-0000-0000-00000000",
  ]) {
    const answer = await get(at, `/${at.flow}/fingerprint/${fingerprint}${query}`);
    assert.is(answer.status, 404, query);
    assert.equal(answer.body, missing(at, fingerprint));
  }
  const unknown = await get(at, `/${at.flow}/fingerprint/${fingerprint}?trail=none`);
  assert.equal(
    { status: unknown.status, body: unknown.body },
    {
      status: 404,
      body: { message: `Trail with name 'none' does not exist for Organization '${at.org}' and Flow '${at.flow}'` },
    },
  );
  const uuid = "00000000-0000-0000-0000-000000000000";
  const wrong = await get(at, `/${at.flow}/fingerprint/${fingerprint}?attestation_id=${uuid}`);
  assert.is(wrong.status, 400);
  assert.match(wrong.body.errors.attestation_id, new RegExp(`\\[input: ${uuid}\\]$`));
});

test("lists the artifacts of a commit, newest first", async () => {
  const at = await place();
  const [commit, sibling] = [`${"e".repeat(39)}0`, `${"e".repeat(39)}1`];
  const one = await report(at, { git_commit: commit, trail_name: "a" });
  const two = await report(at, { git_commit: commit, trail_name: "b" });
  const of = async (sha: string, query = "") =>
    (await get(at, `/${at.flow}/commit_sha/${sha}${query}`)).body.map((artifact: Fields) => artifact["fingerprint"]);
  assert.equal(await of(commit), [two.fingerprint, one.fingerprint]);
  assert.equal(await of("eeeee"), [two.fingerprint, one.fingerprint]);
  assert.equal(await of(commit, "?trail=a"), [one.fingerprint]);
  assert.equal((await get(at, `/${at.flow}/commit_sha/${commit}`)).body[0], await read(at, two.fingerprint));
  await report(at, { git_commit: sibling });
  for (const sha of ["eeeee", "eeee", "fffff", commit.toUpperCase(), "not-hex", freshCommit()]) {
    const answer = await get(at, `/${at.flow}/commit_sha/${sha}`);
    assert.is(answer.status, 404, sha);
    assert.equal(answer.body, {
      message:
        `Artifact with git commit '${sha}' does not exist in flow '${at.flow}' belonging to organization ` +
        `'${at.org}'`,
    });
  }
  assert.is((await get(at, `/${at.flow}/commit_sha/${commit}?trail=none`)).status, 404);
  assert.is((await get(at, `/none/commit_sha/${commit}`)).status, 404);
});

test("lists artifacts of the organization, a flow or a repository, newest first, in pages", async () => {
  const at = await place();
  const second = { ...at, flow: await server.given.flow(at) };
  const other = await place();
  const repo = (id: string, provider: string) => ({
    id,
    name: "acme/lists",
    url: "https://git.example.com/x",
    provider,
  });
  const a = await report(at, { repo_info: repo("1", "github") });
  const b = await report(second, { repo_info: repo("1", "gitlab") });
  const c = await report(second);
  const foreign = await report(other, { repo_info: repo("1", "github") });
  const list = (query: string) => get(at, query);
  const fingerprints = async (query: string) =>
    (await list(query)).body.map((artifact: Fields) => artifact["fingerprint"]);
  for (const [query, expected] of [
    ["", [c, b, a]],
    ["?page=1&per_page=15", [c, b, a]],
    ["?page=2&per_page=2", [a]],
    ["?page=9007199254740991&per_page=9007199254740991", []],
    [`?flow_name=${second.flow}`, [c, b]],
    [`?flow_name=${at.flow}&repo_name=none`, [a]],
    ["?repo_name=acme/lists", [b, a]],
    ["?repo_name=acme%2Flists&per_page=1", [b]],
    ["?repo_name=", [c, b, a]],
    ["?repo_name=&flow_name=", [c, b, a]],
    [`/${at.flow}`, [a]],
    [`/${second.flow}?page=2&per_page=1`, [b]],
  ] as const)
    assert.equal(
      await fingerprints(query),
      expected.map(({ fingerprint }) => fingerprint),
      query,
    );
  assert.equal(
    (await get(other, "")).body.map((artifact: Fields) => artifact["fingerprint"]),
    [foreign.fingerprint],
  );

  const [item] = (await list(`?flow_name=${at.flow}`)).body;
  const { template, state_info, approvals, running, exited, history, commit_lead_times, build_lead_times, ...shared } =
    await read(at, a.fingerprint);
  assert.equal(item, { ...shared, releases: [] });

  for (const [query, message] of [
    ["?flow_name=none", `Flow named 'none' does not exist for organization '${at.org}'`],
    ["?flow_name=none&repo_name=acme/lists", `Flow named 'none' does not exist for organization '${at.org}'`],
    ["?repo_name=none", `Repo 'none' not found in organization '${at.org}'`],
    ["/none", `Flow named 'none' does not exist for organization '${at.org}'`],
  ]) {
    const answer = await list(query as string);
    assert.is(answer.status, 404);
    assert.equal(answer.body, { message });
  }
  for (const query of ["?page=0", "?per_page=0", "?page=", "?per_page=x", `/${at.flow}?page=0`])
    assert.is((await list(query)).status, 400, query);
});

test("lists artifacts by state and by a part of their name, and counts them if asked for an envelope", async () => {
  const at = await place(TEMPLATE);
  const second = { ...at, flow: await server.given.flow(at) };
  const foreign = await place();
  await report(foreign, { filename: "acme/api:1" });
  await report(second, { filename: "acme/API:1" });
  await report(at, { filename: "acme/api:2_x" });
  await report(at, { filename: "acme/web:1" });
  const list = async (query: string) => {
    const { status, body } = await get(at, `?envelope=true${query}`);
    assert.is(status, 200, JSON.stringify(body));
    const { data, pagination, states } = body;
    return [data.map((artifact: Fields) => artifact["filename"]), pagination.total, states];
  };
  const all = { "NON-COMPLIANT": 0, INCOMPLETE: 2, COMPLIANT: 1 };
  const [api1, api2, web] = ["acme/API:1", "acme/api:2_x", "acme/web:1"];
  assert.equal(await list(""), [[web, api2, api1], 3, all]);
  assert.equal(await list("&per_page=2&page=2"), [[api1], 3, all]);
  assert.equal(await list("&state=COMPLIANT"), [[api1], 1, all]);
  assert.equal(await list("&state=INCOMPLETE&per_page=1"), [[web], 2, all]);
  assert.equal(await list("&state=NON-COMPLIANT"), [[], 0, all]);
  assert.equal(await list("&name=Api"), [[api2, api1], 2, { ...all, INCOMPLETE: 1 }]);
  assert.equal(await list("&name=api&state=INCOMPLETE"), [[api2], 1, { ...all, INCOMPLETE: 1 }]);
  assert.equal(await list(`&name=api&flow_name=${second.flow}`), [[api1], 1, { ...all, INCOMPLETE: 0 }]);
  assert.equal(await list("&name=_"), [[api2], 1, { ...all, INCOMPLETE: 1, COMPLIANT: 0 }], "no wildcard");
  assert.equal(await list("&name=%25"), [[], 0, { ...all, INCOMPLETE: 0, COMPLIANT: 0 }]);
  const bare = (await get(at, "?name=web")).body;
  assert.equal(
    bare.map((artifact: Fields) => artifact["filename"]),
    [web],
  );
  const wrong = await get(at, "?state=GOOD");
  assert.equal([wrong.status, Object.keys(wrong.body.errors)], [400, ["state"]]);
  assert.is((await get(at, "?envelope=maybe")).status, 400);
});

test("a damaged artifact becomes a marked placeholder in lists, without affecting others", async () => {
  const at = await place();
  const good = await report(at);
  const bad = await report(at, { user_data: {}, git_commit: good.git_commit });
  server.db.prepare("UPDATE artifacts SET user_data_json = '{broken' WHERE fingerprint = ?").run(bad.fingerprint);
  for (const path of ["", `/${at.flow}`, `/${at.flow}/commit_sha/${good.git_commit}`]) {
    const { body } = await get(at, path);
    assert.equal(
      body.map((artifact: Fields) => artifact["fingerprint"]),
      [bad.fingerprint, good.fingerprint],
    );
    assert.match(body[0].annotations.unreadable, /damaged/);
    assert.is(body[1].annotations, null);
  }
});

test("the latest report, even to an earlier trail, determines the record for reads, asserts and policies", async () => {
  const at = await place(TEMPLATE);
  const fingerprint = freshFingerprint();
  const first = await report(at, { fingerprint, trail_name: "first", template_reference_name: "client" });
  await attest(at, { attestation_name: "tests", artifact_fingerprint: fingerprint }, "generic", "first");
  const second = await report(at, { fingerprint, trail_name: "second", template_reference_name: "client" });
  const policy = await server.given.policy(at, {
    yaml: "artifacts:\n  attestations: [{name: tests, type: generic}]\n",
  });

  const readEverywhere = async () => {
    const { body: asserted } = await server.call(
      "GET",
      `/asserts/${at.org}/fingerprint/${fingerprint}?policy_name=${policy}`,
      { key: at.key },
    );
    return {
      read: (await read(at, fingerprint)).trail_name,
      short: (await read(at, fingerprint.slice(0, 12))).trail_name,
      commit: (await get(at, `/${at.flow}/${fingerprint}/latest_commit`)).body.latest_commit,
      asserted: asserted.trail,
      flows: asserted.flows.map(({ trail }: Fields) => trail),
      compliant: asserted.compliant,
      evaluated: asserted.policy_evaluations[0].rule_evaluations[2].resolutions[0].context.trail_name,
    };
  };
  const expected = (trail: string, commit: string, compliant: boolean) => ({
    read: trail,
    short: trail,
    commit,
    asserted: trail,
    flows: [trail],
    compliant,
    evaluated: trail,
  });
  assert.equal(await readEverywhere(), expected("second", second.git_commit, false));
  await report(at, first);
  assert.equal(await readEverywhere(), expected("first", first.git_commit, true));
  assert.is(
    (await read(at, fingerprint, "?trail=second")).trail_name,
    "second",
    "a trail that is named is the one that is read",
  );
  await report(at, { fingerprint, trail_name: null, template: [], git_commit: second.git_commit });
  const withoutTrail = await readEverywhere();
  assert.equal({ read: withoutTrail.read, flows: withoutTrail.flows }, { read: null, flows: [null] });
  await report(at, second);
  assert.equal(await readEverywhere(), expected("second", second.git_commit, false));
});

test("in one trail, reads return the reference name that was reported last", async () => {
  const at = await place();
  const server1 = await report(at, { template_reference_name: "server" });
  await report(at, { ...server1, template_reference_name: "client" });
  const name = async () => (await read(at, server1.fingerprint, "?trail=t")).template_reference_name;
  assert.is(await name(), "client");
  await report(at, server1);
  assert.is(await name(), "server");
});

test("returns the latest commit of an artifact, also for an unescaped branch", async () => {
  const at = await place();
  const fingerprint = freshFingerprint();
  const latest = (prefix: string, query = "") => get(at, `/${at.flow}/${prefix}/latest_commit${query}`);
  const unknown = await latest(fingerprint);
  assert.equal({ status: unknown.status, body: unknown.body }, { status: 200, body: { latest_commit: null } });

  const old = await report(at, {
    fingerprint,
    trail_name: "a",
    git_commit_info: { sha1: "x", branch: "feature/one+two" },
  });
  const legacy = minimal({
    fingerprint,
    commits_list: [
      { sha1: freshCommit(), branch: "release/1.0" },
      { sha1: freshCommit(), branch: "old" },
    ],
  });
  assert.is((await post(at, legacy)).status, 201);
  const newest = await report(at, { fingerprint, trail_name: "b", git_commit_info: { sha1: "y", branch: "main" } });
  for (const [query, commit] of [
    ["", newest.git_commit],
    ["?branch=", newest.git_commit],
    ["?branch=main", newest.git_commit],
    ["?branch=feature/one+two", old.git_commit],
    ["?branch=feature%2Fone%2Btwo", old.git_commit],
    ["?branch=release/1.0", legacy.git_commit],
    ["?branch=old", legacy.git_commit],
    ["?branch=none", null],
    ["?branch=100%", null],
  ] as const) {
    assert.equal((await latest(fingerprint, query)).body, { latest_commit: commit }, query);
    assert.equal((await latest(fingerprint.slice(0, 60), query)).body, { latest_commit: commit }, query);
  }
  await post(at, { ...old, trail_name: "a" });
  assert.equal((await latest(fingerprint)).body, { latest_commit: old.git_commit }, "the latest report counts");
  const missingFlow = await get(at, `/none/${fingerprint}/latest_commit`);
  assert.equal(
    { status: missingFlow.status, body: missingFlow.body },
    { status: 404, body: { message: `Flow named 'none' does not exist for organization '${at.org}'` } },
  );
  assert.is((await latest("abcd")).status, 400);
});

test("many concurrent reports of one artifact create one record", async () => {
  const at = await place(TEMPLATE);
  const body = minimal({ trail_name: fresh("trail"), template_reference_name: "server" });
  const answers = await Promise.all(Array.from({ length: 20 }, () => post(at, body)));
  assert.equal([...new Set(answers.map(({ status }) => status))], [201]);
  assert.is((await get(at, "")).body.length, 1);
});

test("a renamed flow is found under its former name, and shows its new one", async () => {
  const at = await place();
  const { fingerprint } = await report(at);
  const renamed = fresh("renamed");
  await server.call("PUT", `/flows/${at.org}/${at.flow}/rename`, { key: at.key, body: { new_name: renamed } });
  assert.is((await read(at, fingerprint)).flow_name, renamed);
  assert.equal((await get(at, `/${at.flow}/fingerprint/fffff`)).body, missing(at, "fffff"));
});

/** The record at a URL of a response. */
async function follow(at: Place, apiUrl: string) {
  const answer = await server.call("GET", apiUrl.replace("http://assay.test/api/v2", ""), { key: at.key });
  assert.is(answer.status, 200, `${apiUrl}: ${answer.text}`);
  return answer.body;
}

test("api_url returns exactly its record, however many records the fingerprint has in the flow", async () => {
  const at = await place(TEMPLATE);
  const { fingerprint } = await report(at, { trail_name: "one", template_reference_name: "server" });
  const plain = `http://assay.test/api/v2/artifacts/${at.org}/${at.flow}/fingerprint/${fingerprint}`;
  assert.is((await read(at, fingerprint)).api_url, plain, "the only record needs no query");

  await report(at, { fingerprint, trail_name: "two", template_reference_name: "server" });
  await report(at, { fingerprint, trail_name: "two", template_reference_name: "client" });
  await report(at, { fingerprint, trail_name: null });
  type Listed = { id: string; api_url: string; trail_name: string | null; template_reference_name: string | null };
  const records: Listed[] = (await get(at, "")).body;
  const urlOf = (trail: string | null, reference: string | null) =>
    records.find((one) => one.trail_name === trail && one.template_reference_name === reference)?.api_url ?? "";
  const idOf = (url: string) => records.find(({ api_url }) => api_url === url)?.id;
  const expected = {
    one: `${plain}?trail=one`,
    twoServer: `${plain}?trail=two&artifact_id=${idOf(urlOf("two", "server"))}`,
    twoClient: `${plain}?trail=two&artifact_id=${idOf(urlOf("two", "client"))}`,
    legacy: `${plain}?artifact_id=${idOf(urlOf(null, null))}`,
  };
  assert.equal(
    {
      one: urlOf("one", "server"),
      twoServer: urlOf("two", "server"),
      twoClient: urlOf("two", "client"),
      legacy: urlOf(null, null),
    },
    expected,
  );
  for (const { id, api_url } of records) {
    const found = await follow(at, api_url);
    assert.equal({ id: found.id, api_url: found.api_url }, { id, api_url });
  }
});

test("api_url of a search result and of a build returns their record", async () => {
  const at = await place();
  const { fingerprint } = await report(at, { trail_name: "one" });
  await report(at, { fingerprint, trail_name: "two" });
  const { artifacts } = (await server.call("GET", `/search/${at.org}/sha/${fingerprint}`, { key: at.key })).body;
  for (const found of artifacts) assert.is((await follow(at, found.api_url)).html_url, found.html_url);
  const { builds } = (await server.call("GET", `/builds/${at.org}`, { key: at.key })).body;
  assert.equal(
    builds.map(({ trail_name }: { trail_name: string }) => trail_name),
    ["one"],
  );
  assert.is((await follow(at, builds[0]._links.artifact.self.href)).trail_name, "one");
});

test("artifact_id selects a record of the fingerprint; trail and attestation_id must match it", async () => {
  const at = await place(TEMPLATE);
  const { fingerprint } = await report(at, { trail_name: "one", template_reference_name: "server" });
  await attest(at, { attestation_name: "tests", artifact_fingerprint: fingerprint }, "generic", "one");
  await report(at, { fingerprint, trail_name: "two", template_reference_name: "server" });
  const [two, one] = (await get(at, "")).body;
  const { server: status } = (await trailOf(at, "one")).compliance_status.artifacts_statuses;
  const attestation = status.attestations_statuses[0].attestation_id;
  const ask = async (query: string) => {
    const { status, body } = await get(at, `/${at.flow}/fingerprint/${fingerprint}?${query}`);
    return status === 200 ? body.id : { status, body };
  };
  const none = { status: 404, body: missing(at, fingerprint) };
  const other = (await report(at, { trail_name: "one" })).fingerprint;
  const elsewhere = (await read(at, other)).id;
  assert.equal(
    {
      one: await ask(`artifact_id=${one.id}`),
      two: await ask(`artifact_id=${two.id}`),
      inItsTrail: await ask(`artifact_id=${one.id}&trail=one`),
      inAnotherTrail: await ask(`artifact_id=${one.id}&trail=two`),
      withItsAttestation: await ask(`artifact_id=${one.id}&attestation_id=${attestation}`),
      withAnothersAttestation: await ask(`artifact_id=${two.id}&attestation_id=${attestation}`),
      ofAnotherFingerprint: await ask(`artifact_id=${elsewhere}`),
    },
    {
      one: one.id,
      two: two.id,
      inItsTrail: one.id,
      inAnotherTrail: none,
      withItsAttestation: one.id,
      withAnothersAttestation: none,
      ofAnotherFingerprint: none,
    },
  );
  const malformed = await get(at, `/${at.flow}/fingerprint/${fingerprint}?artifact_id=1`);
  const pattern = "^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{8}$";
  const problem = `String should match pattern '${pattern}' [input: 1]`;
  assert.equal(
    { status: malformed.status, body: malformed.body },
    { status: 400, body: rejected({ artifact_id: problem }) },
  );
});

test.run();
