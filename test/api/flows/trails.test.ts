import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/flows/trails");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string };
const ID = /^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{8}$/;
const TEMPLATE = "version: 1\ntrail:\n  attestations:\n    - name: review\n      type: generic\n";
const OTHER = "version: 1\ntrail:\n  attestations:\n    - name: scan\n      type: snyk\n";
const REPO = { id: "R1", name: "acme/payments", url: "https://git.example.com/acme/payments", provider: "github" };

async function place(template?: string): Promise<Place> {
  const at = server.given.org();
  return { ...at, flow: await server.given.flow(at, template === undefined ? {} : { template }) };
}

const begin = (at: Place, json: unknown, template?: string | Buffer): Promise<Answer> =>
  server.call("PUT", `/trails/${at.org}/${at.flow}`, {
    key: at.key,
    form: {
      json,
      ...(template === undefined ? {} : { file: { name: "template_file", filename: "t.yml", content: template } }),
    },
  });
const read = async (at: Place, trail: string) =>
  (await server.call("GET", `/trails/${at.org}/${at.flow}/${trail}`, { key: at.key })).body;
const report = (at: Place, fields: Record<string, unknown>) =>
  server.call("POST", `/artifacts/${at.org}/${at.flow}`, {
    key: at.key,
    body: {
      fingerprint: freshFingerprint(),
      filename: "app",
      git_commit: freshCommit(),
      build_url: "",
      commit_url: "",
      ...fields,
    },
  });
const attest = (at: Place, trail: string, json: Record<string, unknown>) =>
  server.call("POST", `/attestations/${at.org}/${at.flow}/trail/${trail}/generic`, {
    key: at.key,
    form: { json: { is_compliant: true, ...json } },
  });
const setTemplate = (at: Place, template: string) =>
  server.call("PUT", `/flows/${at.org}/template_file`, {
    key: at.key,
    form: {
      json: { name: at.flow, description: "" },
      file: { name: "template_file", filename: "t.yml", content: template },
    },
  });
const rows = (table: string): number => server.db.prepare(`SELECT count(*) AS n FROM ${table}`).pluck().get() as number;
const everything = () => ["trails", "trail_events", "templates", "repos", "audit_log"].map(rows);
const rejected = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });

test("begins a trail with 201, updates it with 200, and shows every reported field", async () => {
  const at = await place(TEMPLATE);
  const sha1 = freshCommit();
  const first = await begin(at, {
    name: "release-1",
    description: "First release",
    git_commit_info: {
      sha1,
      message: "Round half to even",
      author: "Ada <ada@example.com>",
      branch: "main",
      timestamp: 1_700_000_000,
      url: "https://git.example.com/c/1",
    },
    repo_info: REPO,
    origin_url: "https://ci.example.com/1",
    external_urls: { ticket: { href: "https://tickets.example.com/1", fingerprint: "a".repeat(64) } },
    user_data: { stage: "prod" },
  });
  assert.is(first.status, 201);
  assert.is(first.body, "OK");

  const { created_at, last_modified_at, repo_ids, compliance_status, events, ...rest } = await read(at, "release-1");
  const commit = {
    sha1,
    message: "Round half to even",
    author: "Ada <ada@example.com>",
    branch: "main",
    timestamp: 1_700_000_000,
    url: "https://git.example.com/c/1",
  };
  assert.equal(rest, {
    name: "release-1",
    description: "First release",
    git_commit_info: commit,
    origin_url: "https://ci.example.com/1",
    user_data: { stage: "prod" },
    created_by: `${at.org}-admin`,
    flow: { name: at.flow, tags: {} },
    external_urls: { ticket: { href: "https://tickets.example.com/1", fingerprint: "a".repeat(64) } },
    html_url: `http://assay.test/${at.org}/flows/${at.flow}/trails/release-1`,
    template: {
      version: 1,
      trail: { attestations: [{ name: "review", type: "generic" }], artifacts: [] },
      content: TEMPLATE,
    },
    compliance_state: "INCOMPLETE",
    is_compliant: false,
  });
  assert.is(last_modified_at, created_at);
  assert.is(repo_ids.length, 1);
  assert.match(repo_ids[0], ID);
  const templateId = compliance_status.flow_template_id;
  assert.match(templateId, ID);
  assert.equal(compliance_status, {
    status: "INCOMPLETE",
    is_compliant: false,
    attestations_statuses: [
      {
        attestation_name: "review",
        attestation_type: "generic",
        attestation_id: null,
        overridden_attestation_id: null,
        status: "MISSING",
        is_compliant: null,
        unexpected: false,
      },
    ],
    artifacts_statuses: {},
    evaluated_at: created_at,
    flow_template_id: templateId,
  });
  const [event] = events;
  for (const id of ["org_id", "flow_id", "trail_id", "setting_user_id"]) assert.match(event[id], ID);
  assert.equal(events, [
    {
      type: "trail_reported",
      timestamp: created_at,
      org_id: event.org_id,
      flow_id: event.flow_id,
      trail_id: event.trail_id,
      template_id: templateId,
      setting_user_id: event.setting_user_id,
      git_commit_info: commit,
      repo_info: { name: REPO.name, url: REPO.url, id: REPO.id, description: "", provider: REPO.provider },
    },
  ]);

  const again = await begin(at, { name: "release-1", description: "Second thoughts", git_commit_info: null });
  assert.is(again.status, 200);
  assert.is(again.body, "OK");
  const updated = await read(at, "release-1");
  assert.is(updated.description, "Second thoughts");
  assert.equal(updated.git_commit_info, commit);
  assert.is(updated.created_at, created_at);
  assert.ok(updated.last_modified_at > created_at);
  assert.is(updated.compliance_status.evaluated_at, updated.last_modified_at);
  assert.equal(updated.events.length, 2);
  const { type, changes, git_commit_info, timestamp } = updated.events[1];
  assert.equal(
    { type, changes, git_commit_info, timestamp },
    { type: "trail_updated", changes: ["description"], git_commit_info: null, timestamp: updated.last_modified_at },
  );
});

test("absent and null fields keep the stored value; empty values are stored", async () => {
  const at = await place();
  await begin(at, {
    name: "t",
    description: "d",
    user_data: { a: 1 },
    external_urls: { x: { href: "https://x" } },
    origin_url: "https://o",
  });
  await begin(at, { name: "t" });
  await begin(at, {
    name: "t",
    description: null,
    user_data: null,
    external_urls: null,
    origin_url: null,
    git_commit_info: null,
    repo_info: null,
  });
  const stored = await read(at, "t");
  assert.equal(
    {
      description: stored.description,
      user_data: stored.user_data,
      external_urls: stored.external_urls,
      origin_url: stored.origin_url,
    },
    { description: "d", user_data: { a: 1 }, external_urls: { x: { href: "https://x" } }, origin_url: "https://o" },
  );
  assert.equal(
    stored.events.map((event: { changes?: string[] }) => event.changes),
    [undefined, [], []],
  );

  await begin(at, { name: "t", description: "", user_data: {}, external_urls: {}, origin_url: "" });
  const emptied = await read(at, "t");
  assert.equal(
    {
      description: emptied.description,
      user_data: emptied.user_data,
      external_urls: emptied.external_urls,
      origin_url: emptied.origin_url,
    },
    { description: "", user_data: {}, external_urls: {}, origin_url: "" },
  );
  assert.equal(emptied.events.at(-1).changes, ["description", "origin_url", "external_urls", "user_data"]);

  await begin(at, { name: "t", user_data: [1, "two"], repo_info: REPO });
  await begin(at, { name: "t", user_data: [1, "two"], repo_info: REPO });
  const list = await read(at, "t");
  assert.equal(list.user_data, [1, "two"]);
  assert.equal(
    list.events.slice(-2).map((event: { changes: string[] }) => event.changes),
    [["user_data", "repo_info"], []],
  );
  assert.is(list.events.at(-1).repo_info.provider, REPO.provider);
  const { provider: _, ...untold } = REPO;
  await begin(at, { name: "t", repo_info: untold });
  assert.is((await read(at, "t")).events.at(-1).repo_info.provider, null);
});

test("a missing description reads as an empty text, and sending an empty one is no change", async () => {
  const at = await place();
  await begin(at, { name: "t", description: null });
  await begin(at, { name: "t", description: "" });
  const { body } = await server.call("GET", `/trails/${at.org}/${at.flow}`, { key: at.key });
  assert.equal(
    body.map(({ description }: { description: unknown }) => description),
    [""],
  );
  const { description, events } = await read(at, "t");
  assert.is(description, "");
  assert.equal(
    events.map(({ type, changes }: { type: string; changes?: string[] }) => ({ type, changes })),
    [
      { type: "trail_reported", changes: undefined },
      { type: "trail_updated", changes: [] },
    ],
  );
});

const LEAST_COMMIT = { sha1: "1".repeat(40), message: "", author: "", branch: "", timestamp: 0 };
const NO_OPTIONAL_KEYS = { author_username: null, url: null, parents: null, verified: null, signature_state: null };

for (const [what, sent] of [
  ["not sent", { sha1: LEAST_COMMIT.sha1 }],
  ["sent as null", { ...LEAST_COMMIT, message: null, ...NO_OPTIONAL_KEYS }],
] as const)
  test(`omits optional keys of a commit that were ${what}`, async () => {
    const at = await place();
    await begin(at, { name: "t", git_commit_info: sent });
    const trail = await read(at, "t");
    const [listed] = (await server.call("GET", `/trails/${at.org}?flow=${at.flow}`, { key: at.key })).body.data;
    for (const { git_commit_info, events } of [trail, listed])
      assert.equal(
        { git_commit_info, "events[0].git_commit_info": events[0].git_commit_info },
        { git_commit_info: LEAST_COMMIT, "events[0].git_commit_info": LEAST_COMMIT },
      );
  });

test("a commit keeps the optional keys that were sent", async () => {
  const at = await place();
  const commit = {
    ...LEAST_COMMIT,
    author_username: "ada",
    url: "https://git.example.com/c/1",
    parents: [],
    verified: false,
    signature_state: "",
  };
  await begin(at, { name: "t", git_commit_info: commit });
  const { git_commit_info, events } = await read(at, "t");
  assert.equal({ git_commit_info, event: events[0].git_commit_info }, { git_commit_info: commit, event: commit });
});

test("older records with null for optional keys of a commit are shown without them", async () => {
  const at = await place();
  await begin(at, { name: "t", git_commit_info: LEAST_COMMIT });
  const old = JSON.stringify({ ...LEAST_COMMIT, ...NO_OPTIONAL_KEYS });
  const latest = server.db.prepare("SELECT max(id) FROM trails").pluck().get();
  server.db.prepare("UPDATE trails SET git_commit_info_json = ? WHERE id = ?").run(old, latest);
  const inEvent = "json_set(event_json, '$.git_commit_info', json(?))";
  server.db.prepare(`UPDATE trail_events SET event_json = ${inEvent} WHERE trail_id = ?`).run(old, latest);
  const trail = await read(at, "t");
  const [listed] = (await server.call("GET", `/trails/${at.org}?flow=${at.flow}`, { key: at.key })).body.data;
  for (const { git_commit_info, events } of [trail, listed])
    assert.equal(
      { git_commit_info, "events[0].git_commit_info": events[0].git_commit_info },
      { git_commit_info: LEAST_COMMIT, "events[0].git_commit_info": LEAST_COMMIT },
    );
  await begin(at, { name: "t", git_commit_info: LEAST_COMMIT });
  assert.equal((await read(at, "t")).events.at(-1).changes, [], "the same commit again is no change");
});

test("a trail without requirements is compliant at once, with a minimal report", async () => {
  const at = await place();
  assert.is((await begin(at, { name: "t" })).status, 201);
  const trail = await read(at, "t");
  assert.equal(
    {
      description: trail.description,
      git_commit_info: trail.git_commit_info,
      origin_url: trail.origin_url,
      user_data: trail.user_data,
      external_urls: trail.external_urls,
      repo_ids: trail.repo_ids,
      compliance_state: trail.compliance_state,
      is_compliant: trail.is_compliant,
    },
    {
      description: "",
      git_commit_info: null,
      origin_url: null,
      user_data: null,
      external_urls: null,
      repo_ids: [],
      compliance_state: "COMPLIANT",
      is_compliant: true,
    },
  );
  assert.equal(trail.template, { version: 1, trail: { attestations: [], artifacts: [] }, content: "version: 1" });
});

test("an inherited template follows the flow at the next begin, an explicit one stays", async () => {
  const at = await place(TEMPLATE);
  await begin(at, { name: "follows" });
  await begin(at, { name: "own" }, TEMPLATE);
  await attest(at, "follows", { attestation_name: "review" });
  assert.is((await read(at, "follows")).compliance_state, "COMPLIANT");

  await setTemplate(at, OTHER);
  assert.is((await read(at, "follows")).template.content, TEMPLATE, "the flow alone changes no trail");
  await begin(at, { name: "follows" });
  await begin(at, { name: "own" });

  const follows = await read(at, "follows");
  assert.is(follows.template.content, OTHER);
  assert.equal(follows.events.at(-1).changes, ["template"]);
  assert.is(follows.compliance_state, "INCOMPLETE");
  assert.equal(
    follows.compliance_status.attestations_statuses.map((entry: Record<string, unknown>) => [
      entry["attestation_name"],
      entry["status"],
      entry["unexpected"],
    ]),
    [
      ["scan", "MISSING", false],
      ["review", "COMPLETE", true],
    ],
  );
  const own = await read(at, "own");
  assert.is(own.template.content, TEMPLATE);
  assert.equal(own.events.at(-1).changes, []);

  await begin(at, { name: "own" }, OTHER);
  const replaced = await read(at, "own");
  assert.is(replaced.template.content, OTHER);
  assert.equal(replaced.events.at(-1).changes, ["template"]);
  assert.is(replaced.events.at(-1).template_id, replaced.compliance_status.flow_template_id);

  const audit = server.store.auditLog.listLatest((server.store.organizations.find(at.org) as { id: number }).id, 100);
  const decisions = audit
    .filter((entry) => entry.event === "trail.begun")
    .map((entry) => JSON.parse(entry.detail_json ?? "{}").template);
  assert.equal(decisions.reverse(), ["inherited", "given", "re-inherited", "kept", "replaced"]);
});

test("stores a template once that many trails of a flow upload", async () => {
  const at = await place(TEMPLATE);
  await begin(at, { name: "a" }, OTHER);
  const before = rows("templates");
  for (const name of ["b", "c", "d"]) await begin(at, { name }, OTHER);
  assert.is(rows("templates"), before);
});

test("the first report that names a trail creates it, and the begin that follows updates it", async () => {
  const at = await place(TEMPLATE);
  assert.is((await report(at, { trail_name: "implicit" })).status, 201);
  assert.is((await attest(at, "by-attestation", { attestation_name: "review" })).status, 201);
  const implicit = await read(at, "implicit");
  assert.equal(
    implicit.events.map((event: { type: string }) => event.type),
    ["trail_reported", "artifact_creation_reported"],
  );
  assert.is(implicit.events[0].git_commit_info, null);
  assert.is(implicit.template.content, TEMPLATE);
  assert.is((await read(at, "by-attestation")).compliance_state, "COMPLIANT");

  assert.is((await begin(at, { name: "implicit", description: "now given" })).status, 200);
  assert.is((await read(at, "implicit")).events.at(-1).type, "trail_updated");
  await setTemplate(at, OTHER);
  await begin(at, { name: "implicit" });
  assert.is((await read(at, "implicit")).template.content, OTHER);
});

test("of fifty concurrent begins of one trail, exactly one gets 201", async () => {
  const at = await place(TEMPLATE);
  const answers = await Promise.all(Array.from({ length: 50 }, () => begin(at, { name: "race" })));
  const statuses = answers.map(({ status }) => status).sort();
  assert.equal(statuses, [...Array<number>(49).fill(200), 201]);
  assert.is((await read(at, "race")).events.length, 50);
});

test("refusals name the field and leave nothing behind", async () => {
  const at = await place();
  const before = everything();
  const pattern = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$`;
  const cases: [unknown, Record<string, string>][] = [
    [{}, { name: "Field required" }],
    [{ name: "" }, { name: `String should match pattern '${pattern}' [input: ]` }],
    [{ name: "-x" }, { name: `String should match pattern '${pattern}' [input: -x]` }],
    [{ name: "a b" }, { name: `String should match pattern '${pattern}' [input: a b]` }],
    [{ name: "n".repeat(257) }, { name: `String should have at most 256 characters [input: ${"n".repeat(257)}]` }],
    [{ name: 7 }, { name: "Input should be a valid string [input: 7]" }],
    [{ name: "t", userdata: {} }, { userdata: "Extra inputs are not permitted. Did you mean 'user_data'?" }],
    [{ name: "t", user_data: "text" }, { user_data: "Input should be a valid object or array [input: text]" }],
    [{ name: "t", git_commit_info: {} }, { "git_commit_info.sha1": "Field required" }],
    [
      { name: "t", external_urls: { x: { href: "https://x", fingerprint: "zz" } } },
      { "external_urls.x.fingerprint": "String should match pattern '^[a-f0-9]{64}$' [input: zz]" },
    ],
    [
      { name: "t", repo_info: { name: "n", id: "1", url: "no-url" } },
      { "repo_info.url": "Input should be a valid URL with scheme and host [input: no-url]" },
    ],
    [{ name: "t", repo_info: { name: "n" } }, { "repo_info.url": "Field required" }],
  ];
  for (const [json, errors] of cases) {
    const answer = await begin(at, json);
    assert.is(answer.status, 400, JSON.stringify(json));
    assert.equal(answer.body, rejected(errors));
  }
  assert.equal(everything(), before);
});

test("refuses an invalid template with every mistake, and one that is too large with the limit", async () => {
  const at = await place();
  const before = everything();
  const wrong = await begin(
    at,
    { name: "t" },
    "version: 1\ntrail:\n  attestations:\n    - name: a\n      type: nothing\n    - type: junit\n",
  );
  assert.is(wrong.status, 400);
  assert.is(wrong.body.message, "Input payload validation failed");
  assert.equal(Object.keys(wrong.body.errors), ["template_file"]);
  assert.match(
    wrong.body.errors.template_file,
    new RegExp(
      String.raw`^2 validation errors for Template\ntrail\.attestations\.0\.type\n {2}.*\n` +
        String.raw`trail\.attestations\.1\.name\n {2}Field required`,
    ),
  );
  for (const text of ["trail: [", Buffer.from([0x61, 0xff, 0xfe]), "a: 1\n\0"]) {
    const answer = await begin(at, { name: "t" }, text);
    assert.is(answer.status, 400);
    assert.match(answer.body.errors.template_file, /^1 validation errors for Template\ntemplate_file\n {2}Not /);
  }
  const large = await begin(at, { name: "t" }, Buffer.alloc((10 << 20) + 1, "#"));
  assert.is(large.status, 413);
  assert.equal(large.body, { message: "File size exceeds the 10MB limit" });
  assert.equal(everything(), before);
});

test("an unknown flow is 404; an archived one is readable under its suffixed name only", async () => {
  const at = await place();
  const unknown = { message: `Flow named 'none' does not exist for organization '${at.org}'` };
  for (const answer of [
    await begin({ ...at, flow: "none" }, { name: "t" }),
    await begin({ ...at, flow: "none" }, { name: "t" }, TEMPLATE),
    await server.call("GET", `/trails/${at.org}/none`, { key: at.key }),
    await server.call("GET", `/trails/${at.org}/none/t`, { key: at.key }),
  ]) {
    assert.is(answer.status, 404);
    assert.equal(answer.body, unknown);
  }
  await begin(at, { name: "t" });
  await server.call("PUT", `/flows/${at.org}/${at.flow}/archive`, { key: at.key });
  const suffixed = server.db.prepare("SELECT name FROM flows WHERE archived_name = ?").pluck().get(at.flow) as string;
  assert.is((await begin(at, { name: "t" })).status, 404);
  const refused = await begin({ ...at, flow: suffixed }, { name: "t" });
  assert.is(refused.status, 404);
  assert.equal(refused.body, { message: `Flow named '${suffixed}' has been archived for organization '${at.org}'` });
  assert.is((await server.call("GET", `/trails/${at.org}/${suffixed}/t`, { key: at.key })).status, 200);
});

test("an unknown trail is 404 with the requested names", async () => {
  const at = await place();
  const answer = await server.call("GET", `/trails/${at.org}/${at.flow}/none`, { key: at.key });
  assert.is(answer.status, 404);
  assert.equal(answer.body, {
    message: `Trail with name 'none' does not exist for Organization '${at.org}' and Flow '${at.flow}'`,
  });
});

const names = (trails: { name: string }[]): string[] => trails.map(({ name }) => name);

test("lists the trails of a flow newest first, bare or as a page in an envelope", async () => {
  const at = await place();
  const list = (query: string) => server.call("GET", `/trails/${at.org}/${at.flow}${query}`, { key: at.key });
  assert.equal((await list("")).body, []);
  assert.equal((await list("?per_page=2")).body, {
    data: [],
    pagination: { total: 0, page: 1, per_page: 2, page_count: 0 },
  });
  for (const name of ["a", "b", "c"]) await begin(at, { name });
  assert.equal(names((await list("")).body), ["c", "b", "a"]);
  assert.equal(names((await list("?page=2")).body), ["c", "b", "a"]);
  assert.equal((await list("")).body[0], await read(at, "c"));
  const page = (await list("?page=2&per_page=2")).body;
  assert.equal(
    { names: names(page.data), pagination: page.pagination },
    { names: ["a"], pagination: { total: 3, page: 2, per_page: 2, page_count: 2 } },
  );
  const beyond = (await list("?page=9007199254740991&per_page=100")).body;
  assert.equal(beyond, {
    data: [],
    pagination: { total: 3, page: 9_007_199_254_740_991, per_page: 100, page_count: 1 },
  });
  for (const [query, errors] of [
    ["?per_page=101", { per_page: "Input should be less than or equal to 100 [input: 101]" }],
    ["?per_page=0", { per_page: "Input should be greater than or equal to 1 [input: 0]" }],
    ["?page=0", { page: "Input should be greater than or equal to 1 [input: 0]" }],
    ["?page=", { page: "Input should be a valid integer [input: ]" }],
  ] as const) {
    const answer = await list(query);
    assert.is(answer.status, 400);
    assert.equal(answer.body, rejected(errors));
  }
});

test("lists the trails of a flow by state and by a part of their name", async () => {
  const at = await place();
  await server.given.flow(at, {
    name: "asks",
    template: "version: 1\ntrail: {attestations: [{name: t, type: generic}]}\n",
  });
  const flow = { ...at, flow: "asks" };
  for (const name of ["Release-1", "release-2", "pr-1", "pr-2_x"]) await begin(flow, { name });
  const attest = (trail: string, is_compliant: boolean) =>
    server.given.attestation(at, { flow: "asks", trail, name: "t", is_compliant });
  await attest("Release-1", true);
  await attest("release-2", false);
  const list = async (query: string) => {
    const { status, body } = await server.call("GET", `/trails/${at.org}/asks?per_page=2${query}`, { key: at.key });
    assert.is(status, 200, JSON.stringify(body));
    return [names(body.data), body.pagination.total];
  };
  assert.equal(await list("&state=COMPLIANT"), [["Release-1"], 1]);
  assert.equal(await list("&state=NON-COMPLIANT"), [["release-2"], 1]);
  assert.equal(await list("&state=INCOMPLETE"), [["pr-2_x", "pr-1"], 2]);
  assert.equal(await list("&search_by_name=RELEASE"), [["release-2", "Release-1"], 2]);
  assert.equal(await list("&search_by_name=release&state=COMPLIANT"), [["Release-1"], 1]);
  assert.equal(await list("&search_by_name=_"), [["pr-2_x"], 1], "an underscore is no wildcard");
  assert.equal(await list("&search_by_name=%25"), [[], 0]);
  assert.equal(await list("&search_by_name=&page=2"), [["release-2", "Release-1"], 4]);
  const answer = await server.call("GET", `/trails/${at.org}/asks?per_page=2&state=GOOD`, { key: at.key });
  assert.equal([answer.status, Object.keys(answer.body.errors)], [400, ["state"]]);
});

test("summaries of trails say what is wrong with each, by name, and how many are in each state", async () => {
  const at = await place();
  const template =
    "version: 1\ntrail:\n  attestations: [{name: review, type: generic}]\n" +
    "  artifacts: [{name: a, attestations: [{name: scan, type: generic}]}, {name: b}]\n";
  const flow = { ...at, flow: await server.given.flow(at, { template }) };
  for (const name of ["one", "two"]) await begin(flow, { name });
  const fingerprint = await server.given.artifact(at, { flow: flow.flow, trail: "two", name: "a" });
  const on = { flow: flow.flow, trail: "two" };
  await server.given.attestation(at, { ...on, name: "scan", is_compliant: false, fingerprint });
  await server.given.attestation(at, { ...on, name: "extra", is_compliant: false });
  const list = (query: string) =>
    server.call("GET", `/trails/${at.org}/${flow.flow}?summaries=true${query}`, { key: at.key });
  const { body } = await list("");
  const problems = (index: number) =>
    body.data[index].problems.map(({ problem, attestation_name: name, count }: Record<string, unknown>) => [
      problem,
      name,
      count,
    ]);
  assert.equal(names(body.data), ["two", "one"]);
  assert.equal(problems(0), [
    ["failing", "extra", 1],
    ["failing", "scan", 1],
    ["missing", "review", 1],
    ["missing", null, 1],
  ]);
  assert.equal(problems(1), [
    ["missing", "review", 1],
    ["missing", null, 2],
  ]);
  assert.equal([body.data[0].problem_count, body.data[0].compliance_state], [4, "NON-COMPLIANT"]);
  const states = { "NON-COMPLIANT": 1, INCOMPLETE: 1, COMPLIANT: 0 };
  assert.equal([body.states, body.pagination], [states, { total: 2, page: 1, per_page: 20, page_count: 1 }]);
  const failing = (await list("&state=NON-COMPLIANT&per_page=1")).body;
  assert.equal([names(failing.data), failing.pagination.total, failing.states], [["two"], 1, states]);
  const found = (await list("&search_by_name=ONE")).body;
  assert.equal([names(found.data), found.states], [["one"], { ...states, "NON-COMPLIANT": 0 }]);
  assert.is((await list("&per_page=101")).status, 400);
});

test("lists the trails of an organization in pages of twenty, with combined filters", async () => {
  const at = await place();
  const second = { ...at, flow: await server.given.flow(at) };
  const other = await place();
  await server.call("PATCH", `/tags/${at.org}/flow/${second.flow}`, {
    key: at.key,
    body: { set_tags: { team: "a=b" } },
  });
  await server.call("PATCH", `/tags/${other.org}/flow/${other.flow}`, {
    key: other.key,
    body: { set_tags: { team: "a=b" } },
  });
  const fingerprint = freshFingerprint();
  await begin(at, { name: "one" });
  await report(at, { trail_name: "two", fingerprint });
  await report(second, { trail_name: "three", fingerprint });
  await begin(second, { name: "four" });
  await report(other, { trail_name: "foreign", fingerprint });

  const list = async (query: string) => (await server.call("GET", `/trails/${at.org}${query}`, { key: at.key })).body;
  assert.equal(names((await list("")).data), ["four", "three", "two", "one"]);
  assert.equal((await list("")).pagination, { total: 4, page: 1, per_page: 20, page_count: 1 });
  for (const [query, expected] of [
    ["?page=2&per_page=3", ["one"]],
    ["?page=3&per_page=3", []],
    [`?flow=${at.flow}`, ["two", "one"]],
    ["?flow=none", []],
    ["?flow=", ["four", "three", "two", "one"]],
    ["?flow_tag=team=a=b", ["four", "three"]],
    ["?flow_tag=team=", []],
    ["?flow_tag==", []],
    [`?fingerprint=${fingerprint}`, ["three", "two"]],
    [`?fingerprint=${fingerprint.slice(0, 63)}`, ["three", "two"]],
    [`?fingerprint=${fingerprint.toUpperCase()}`, []],
    ["?fingerprint=aaaa", []],
    ["?fingerprint=not-hex", []],
    [`?fingerprint=${fingerprint}&flow=${at.flow}`, ["two"]],
    [`?fingerprint=${fingerprint}&flow_tag=team=a=b`, ["three"]],
    [`?flow=${at.flow}&flow_tag=team=a=b`, []],
  ] as const)
    assert.equal(names((await list(query)).data), expected, query);

  const refused = await server.call("GET", `/trails/${at.org}?flow_tag=team`, { key: at.key });
  assert.is(refused.status, 400);
  assert.equal(refused.body, rejected({ flow_tag: "Input should be a tag as 'key=value' [input: team]" }));
});

test("a damaged trail becomes a marked placeholder in lists, without affecting others", async () => {
  const at = await place();
  for (const name of ["good", "bad"]) await begin(at, { name });
  server.db
    .prepare(
      "UPDATE trails SET compliance_json = '{broken' WHERE name = 'bad' AND flow_id = (SELECT id FROM flows " +
        "WHERE name = ?)",
    )
    .run(at.flow);
  const { body } = await server.call("GET", `/trails/${at.org}`, { key: at.key });
  assert.equal(names(body.data), ["bad", "good"]);
  assert.match(body.data[0].description, /damaged/);
  assert.equal(body.data[0].events, []);
  assert.is(body.data[1].events.length, 1);
  assert.is((await server.call("GET", `/trails/${at.org}/${at.flow}`, { key: at.key })).body.length, 2);
});

test("evaluates a trail by its expected artifacts and attestations, failures and overrides", async () => {
  const at = await place(
    "version: 1\ntrail:\n  attestations:\n    - {name: review, type: generic}\n  artifacts:\n    - name: " +
      "server\n      attestations:\n        - {name: tests, type: junit}\n",
  );
  const trail = fresh("trail");
  await begin(at, { name: trail });
  const state = async () => (await read(at, trail)).compliance_state;
  const fingerprint = freshFingerprint();
  assert.is(await state(), "INCOMPLETE");
  await attest(at, trail, { attestation_name: "review", is_compliant: false });
  assert.is(await state(), "NON-COMPLIANT");
  await attest(at, trail, { attestation_name: "review" });
  assert.is(await state(), "INCOMPLETE");
  await report(at, { trail_name: trail, template_reference_name: "server", fingerprint });
  assert.is(await state(), "INCOMPLETE");
  const junit = (failures: number) =>
    server.call("POST", `/attestations/${at.org}/${at.flow}/trail/${trail}/junit`, {
      key: at.key,
      form: {
        json: {
          attestation_name: "tests",
          artifact_fingerprint: fingerprint,
          junit_results: [{ name: "unit", failures, errors: 0, skipped: 0, total: 3, duration: 1.5 }],
        },
      },
    });
  assert.is((await junit(1)).status, 201);
  assert.is(await state(), "NON-COMPLIANT");
  await junit(0);
  assert.is(await state(), "COMPLIANT");
  const { compliance_status, events } = await read(at, trail);
  assert.is(compliance_status.artifacts_statuses.server.status, "COMPLIANT");
  assert.is(compliance_status.artifacts_statuses.server.artifact_fingerprint, fingerprint);
  assert.equal(
    events.map((event: { type: string }) => event.type),
    [
      "trail_reported",
      "trail_attestation_reported",
      "trail_attestation_reported",
      "artifact_creation_reported",
      "artifact_attestation_reported",
      "artifact_attestation_reported",
    ],
  );
});

test("readers and snapshotters can read trails, but not begin them", async () => {
  const at = await place();
  await begin(at, { name: "t" });
  for (const role of ["reader", "snapshotter"] as const) {
    const key = server.given.user(at.org, role);
    assert.is((await begin({ ...at, key }, { name: "u" })).status, 403);
    assert.is((await server.call("GET", `/trails/${at.org}/${at.flow}/t`, { key })).status, 200);
  }
  const member = server.given.user(at.org, "member");
  assert.is((await begin({ ...at, key: member }, { name: "u" })).status, 201);
});

test("removed operations are 410 for every authenticated caller, whatever the rest of the request holds", async () => {
  const at = await place();
  const fingerprint = freshFingerprint();
  for (const [method, path] of [
    ["GET", `/approvals/${at.org}/${at.flow}`],
    ["POST", `/approvals/${at.org}/${at.flow}`],
    ["GET", "/approvals/none/none/artifact-commit/production"],
    ["GET", "/approvals/none/none/x"],
    ["GET", `/artifacts/${at.org}/${at.flow}/${fingerprint}/approvals`],
  ] as const) {
    const stranger = await server.call(method, path, {
      key: server.given.user(at.org, null),
      ...(method === "POST" ? { raw: "{broken" } : {}),
    });
    assert.is(stranger.status, 410);
    assert.equal(stranger.body, { message: "This operation has been removed from the API" });
    assert.is((await server.call(method, path)).status, 401);
  }
});

test.run();
