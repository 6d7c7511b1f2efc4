/**
 * Reads of attestations: by name, by flow, by organization, by commit; pages, filters, and records that are
 * damaged.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EPOCH, fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/attestations/reads");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string };
type Json = Record<string, any>;

async function place(): Promise<Place> {
  const at = server.given.org();
  return { ...at, flow: await server.given.flow(at) };
}
const attest = (at: Place, fields: Json = {}): Promise<string> =>
  server.given.attestation(at, { flow: at.flow, trail: "t", name: "scan", ...fields });
const get = (at: Place, rest = ""): Promise<Answer> =>
  server.call("GET", `/attestations/${at.org}${rest}`, { key: at.key });
const ids = (records: Json[]): string[] => records.map((record) => record["attestation_id"]);
const found = async (at: Place, query: string): Promise<string[]> => {
  const { status, body } = await get(at, query);
  assert.is(status, 200, JSON.stringify(body));
  return ids(body.data);
};
const timeOf = async (at: Place, id: string): Promise<number> =>
  (await get(at, `?attestation_id=${id}`)).body.data[0].created_at;
const refused = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });
async function refuses(at: Place, rest: string, errors: Record<string, string>): Promise<void> {
  const answer = await get(at, rest);
  assert.equal({ status: answer.status, body: answer.body }, { status: 400, body: refused(errors) }, rest);
}
const noFlow = (at: Place, flow: string) => ({
  message: `Flow named '${flow}' does not exist for organization '${at.org}'`,
});
const TYPES =
  "'generic', 'junit', 'snyk', 'pull_request', 'jira', 'sonar', 'decision', 'sbom', 'override' or 'custom:<name>'";
const OVERRIDE = { kind: "override", reason: "r", new_compliance_status: true, original_attestation_type: "snyk" };
const SNYK = {
  kind: "snyk",
  snyk_results: { tool: { name: "s", version: "1" }, results: [{ low_count: 0, medium_count: 0, high_count: 1 }] },
};

test("by name on a trail: lists the trail's own records, newest first, and nothing under other names", async () => {
  const at = await place();
  const [first, second] = [await attest(at), await attest(at, { is_compliant: false })];
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: "t", name: "app" });
  const onArtifact = await attest(at, { fingerprint });
  await attest(at, { trail: "other" });
  const read = await get(at, `/${at.flow}/trail/t/scan`);
  assert.is(read.status, 200);
  assert.equal(ids(read.body), [second, first]);
  assert.equal(read.body[0], (await get(at, `?attestation_id=${second}`)).body.data[0]);
  assert.is(read.body[0].git_commit_info, null);
  for (const name of ["nothing", "SCAN", "app.scan", "100%25", "x"])
    assert.equal((await get(at, `/${at.flow}/trail/t/${name}`)).body, [], name);
  assert.equal(ids((await get(at, `/${at.flow}/artifact/${fingerprint}/scan`)).body), [onArtifact]);
});

test("by name on an artifact: searches all trails of the flow, also by prefix", async () => {
  const at = await place();
  const fingerprint = freshFingerprint().replace(/^a{8}/, "0123abcd");
  const report = (trail: string, flow = at.flow) =>
    server.given.artifact(at, { flow, trail, name: "app", fingerprint });
  const otherFlow = await server.given.flow(at);
  await Promise.all([report("t"), report("u"), report("t", otherFlow)]);
  const [first, second] = [await attest(at, { fingerprint }), await attest(at, { fingerprint, trail: "u" })];
  await attest(at, { fingerprint, flow: otherFlow });
  await attest(at);
  for (const prefix of [fingerprint, "0123a", "0123abcda"])
    assert.equal(ids((await get(at, `/${at.flow}/artifact/${prefix}/scan`)).body), [second, first]);
  assert.equal((await get(at, `/${at.flow}/artifact/${fingerprint}/nothing`)).body, []);

  await server.given.artifact(at, { flow: at.flow, trail: "t", fingerprint: `0123a${"e".repeat(59)}` });
  const unknown = freshFingerprint();
  for (const missing of ["0123a", "99999", unknown]) {
    const answer = await get(at, `/${at.flow}/artifact/${missing}/scan`);
    const message =
      `Artifact with fingerprint '${missing}' does not exist in flow '${at.flow}' belonging to organization ` +
      `'${at.org}'`;
    assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } });
  }
  await refuses(at, `/${at.flow}/artifact/0123/scan`, {
    fingerprint: "String should match pattern '^[a-f0-9]{5,64}$' [input: 0123]",
  });
});

test("by name: unknown flows and trails are 404", async () => {
  const at = await place();
  for (const [rest, message] of [
    [`/nothing/trail/t/scan`, noFlow(at, "nothing").message],
    [`/nothing/artifact/${freshFingerprint()}/scan`, noFlow(at, "nothing").message],
    [
      `/${at.flow}/trail/nothing/scan`,
      `Trail with name 'nothing' does not exist for Organization '${at.org}' and Flow '${at.flow}'`,
    ],
  ] as const) {
    const answer = await get(at, rest);
    assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } });
  }
});

test("of a flow: newest first, in numbered pages, always with commit and annotations", async () => {
  const at = await place();
  const all: string[] = [];
  for (let index = 0; index < 5; index += 1)
    all.unshift(await attest(at, index === 2 ? { git_commit_info: { sha1: freshCommit(), branch: "main" } } : {}));
  await attest(at, { flow: await server.given.flow(at) });
  const pages = [1, 2, 3, 4].map((page) => get(at, `/${at.flow}?page=${page}&per_page=2`));
  const bodies = (await Promise.all(pages)).map(({ body }) => body);
  assert.equal(
    bodies.flatMap(({ data }) => ids(data)),
    all,
  );
  assert.equal(
    bodies.map(({ pagination }) => pagination),
    [1, 2, 3, 4].map((page) => ({ total: 5, page, per_page: 2, page_count: 3 })),
  );
  const { body } = await get(at, `/${at.flow}`);
  assert.equal(body.pagination, { total: 5, page: 1, per_page: 20, page_count: 1 });
  assert.equal(
    body.data.map((record: Json) => record["git_commit_info"].branch),
    ["", "", "main", "", ""],
  );
  assert.equal(body.data[0].git_commit_info, { branch: "" });
  assert.equal(
    body.data.map((record: Json) => record["annotations"]),
    Array(5).fill({}),
  );
  assert.equal(
    body.data.map((record: Json) => typeof record["created_at"]),
    Array(5).fill("number"),
  );
});

test("of a flow: filters by a time window, inclusive at both ends", async () => {
  const at = await place();
  const all = [await attest(at), await attest(at), await attest(at)];
  const times = await Promise.all(all.map((id) => timeOf(at, id)));
  const window = async (query: string) => {
    const { body } = await get(at, `/${at.flow}?${query}`);
    assert.is(body.pagination.total, body.data.length);
    return ids(body.data).map((id) => all.indexOf(id));
  };
  assert.equal(await window(`from_timestamp=${times[1]}`), [2, 1]);
  assert.equal(await window(`to_timestamp=${times[1]}`), [1, 0]);
  assert.equal(await window(`from_timestamp=${times[1]}&to_timestamp=${times[1]}`), [1]);
  assert.equal(await window(`from_timestamp=${(times[2] as number) + 1}`), []);
  assert.equal(await window("from_timestamp=-5&to_timestamp=99999999999999"), [2, 1, 0]);
  assert.ok((times[0] as number) > EPOCH);
});

test("of a flow: refuses numbers out of range, and a page far beyond the end is empty", async () => {
  const at = await place();
  await attest(at);
  await refuses(at, `/${at.flow}?page=0`, { page: "Input should be greater than or equal to 1 [input: 0]" });
  await refuses(at, `/${at.flow}?per_page=0`, { per_page: "Input should be greater than or equal to 1 [input: 0]" });
  await refuses(at, `/${at.flow}?per_page=`, { per_page: "Input should be a valid integer [input: ]" });
  await refuses(at, `/${at.flow}?from_timestamp=1.5`, {
    from_timestamp: "Input should be a valid integer [input: 1.5]",
  });
  await refuses(at, `/${at.flow}?to_timestamp=now`, { to_timestamp: "Input should be a valid integer [input: now]" });
  for (const page of ["9007199254740991", "100"]) {
    const { status, body } = await get(at, `/${at.flow}?page=${page}&per_page=9007199254740991`);
    assert.equal(
      { status, data: body.data, page: body.pagination.page },
      { status: 200, data: [], page: Number(page) },
    );
  }
  assert.is((await get(at, `/${at.flow}?page=1e30`)).status, 400);
  assert.is((await get(at, `/${at.flow}?page=1&per_page=1000`)).body.data.length, 1);
  assert.equal((await get(at, "/nothing")).body, noFlow(at, "nothing"));
});

test("of an organization: looks up an id; an unknown or malformed one gives an empty list", async () => {
  const [at, other] = [await place(), await place()];
  const id = await attest(at);
  const foreign = await attest(other);
  assert.equal(await found(at, `?attestation_id=${id}`), [id]);
  for (const nothing of [foreign, "", "x", "%C3%BC", "00000000-0000-0000-0000-00000000", "0' OR 1=1 --", `${id}0`])
    assert.equal(await found(at, `?attestation_id=${nothing}`), [], nothing);
  assert.equal(await found(at, `?attestation_id=${id}&is_compliant=false`), []);
  const { body } = await get(at, `?attestation_id=${id}`);
  assert.equal(body._links, {
    self: { href: `http://assay.test/api/v2/attestations/${at.org}?attestation_id=${id}&per_page=20` },
    next: null,
  });
});

test("of an organization: filters alone and combined, in both spellings of lists", async () => {
  const at = await place();
  const second = await server.given.flow(at);
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: "t", name: "app" });
  const a = await attest(at, { name: "unit-tests" });
  const b = await attest(at, { name: "unit", is_compliant: false, fingerprint });
  const c = await attest(at, { name: "Unit", flow: second, ...SNYK });
  const d = await attest(at, { name: "Unit", flow: second, ...OVERRIDE });
  const e = await attest(at, { name: "jira", kind: "jira", jira_results: [] });
  const [timeB, timeD] = [await timeOf(at, b), await timeOf(at, d)];
  const cases: [query: string, expected: string[]][] = [
    ["", [e, d, c, b, a]],
    ["?name=unit", [b]],
    ["?name=uni", []],
    ["?name=", []],
    ["?name_regex=unit", [b, a]],
    ["?name_regex=^unit$", [b]],
    ["?name_regex=(?i)UNIT", [d, c, b, a]],
    ["?name_regex=", [e, d, c, b, a]],
    ["?name_regex=nothing", []],
    [`?flow=${at.flow}`, [e, b, a]],
    [`?flow=${at.flow}&flow=${second}`, [e, d, c, b, a]],
    [`?flow=${second},${at.flow}`, [e, d, c, b, a]],
    [`?flow=nothing&flow=${second}`, [d, c]],
    ["?flow=nothing", []],
    ["?type=generic", [b, a]],
    ["?type=generic&type=jira", [e, b, a]],
    ["?type=generic,jira", [e, b, a]],
    ["?type=snyk", [d, c]],
    ["?type=override", [d]],
    ["?type=decision", []],
    ["?type=custom:cov", []],
    ["?is_compliant=true", [d, a]],
    ["?is_compliant=false", [e, c, b]],
    [`?from_timestamp=${timeB}&to_timestamp=${timeD}`, [d, c, b]],
    [`?from_timestamp=${timeD + 1}`, [e]],
    [`?type=snyk&is_compliant=false&flow=${second}&name=Unit&from_timestamp=${timeB}`, [c]],
    ["?unknown=1", [e, d, c, b, a]],
  ];
  for (const [query, expected] of cases) assert.equal(await found(at, query), expected, query);
});

test("of an organization: filters by a commit, in pages and together with other filters", async () => {
  const [at, other] = [await place(), await place()];
  const commit = "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112";
  const a = await attest(at, { commit });
  const b = await attest(at, { commit, is_compliant: false });
  await attest(at);
  const c = await attest(at, { commit });
  await attest(other, { commit });
  assert.equal(await found(at, `?commit=${commit}`), [c, b, a]);
  assert.equal(await found(at, `?commit=${commit}&is_compliant=true`), [c, a]);
  assert.equal(await found(at, `?commit=${commit}&to_timestamp=${(await timeOf(at, b)) - 1}`), [a]);
  assert.equal(await found(at, `?commit=${"0".repeat(40)}`), []);
  const first = (await get(at, `?commit=${commit}&per_page=2`)).body;
  assert.equal(first.data.length, 2);
  assert.equal(await found(at, `?commit=${commit}&per_page=2&after=${first._links.next.after}`), [a]);
  for (const wrong of ["", "0f5c9a1", "x".repeat(40), commit.toUpperCase()])
    assert.is((await get(at, `?commit=${wrong}`)).status, 400, wrong);
});

test("of an organization: finds an archived flow under its new name, a renamed one under both", async () => {
  const at = await place();
  const id = await attest(at);
  const renamed = fresh("renamed");
  await server.call("PUT", `/flows/${at.org}/${at.flow}/rename`, { key: at.key, body: { new_name: renamed } });
  assert.equal(
    {
      "by the former name": await found(at, `?flow=${at.flow}`),
      "by the new name": await found(at, `?flow=${renamed}`),
    },
    { "by the former name": [id], "by the new name": [id] },
  );
  await server.call("PUT", `/flows/${at.org}/${renamed}/archive`, { key: at.key });
  const suffixed = server.db.prepare("SELECT name FROM flows WHERE archived_name = ?").pluck().get(renamed) as string;
  assert.equal(
    {
      "by the new name": await found(at, `?flow=${renamed}`),
      "by the suffixed name": await found(at, `?flow=${suffixed}`),
      "without a filter": await found(at, ""),
    },
    { "by the new name": [], "by the suffixed name": [id], "without a filter": [id] },
  );
});

test("of an organization: the cursor keeps the filters and reaches the end while records arrive", async () => {
  const at = await place();
  const all: string[] = [];
  for (let index = 0; index < 7; index += 1) all.unshift(await attest(at, { name: index % 2 ? "odd" : "even" }));
  const walk = async (query: string): Promise<string[]> => {
    const seen: string[] = [];
    for (let path: string | null = `/attestations/${at.org}${query}`; path !== null; ) {
      const { status, body }: Answer = await server.call("GET", path, { key: at.key });
      assert.is(status, 200);
      seen.push(...ids(body.data));
      const next: { href: string; after: string } | null = body._links.next;
      if (next) {
        assert.is(new URL(next.href).searchParams.get("after"), next.after);
        await attest(at, { name: "even" });
      }
      path = next?.href.replace("http://assay.test/api/v2", "") ?? null;
    }
    return seen;
  };
  assert.equal(await walk("?per_page=3"), all);
  assert.equal(
    await walk("?per_page=2&name=odd&type=generic&type=snyk"),
    all.filter((_, index) => index % 2),
  );
  const { body } = await get(at, `?per_page=1&type=generic,jira&flow=${at.flow}`);
  assert.is(
    body._links.next.href,
    `http://assay.test/api/v2/attestations/${at.org}?flow=${at.flow}&type=generic&type=jira&per_page=1` +
      `&after=${body._links.next.after}`,
  );
  assert.equal((await get(at, "?per_page=100")).body._links.next, null);
});

test("of an organization: refuses invalid parameters by name", async () => {
  const at = await place();
  await attest(at);
  const both = await get(at, "?name=a&name_regex=b");
  assert.equal(
    { status: both.status, body: both.body },
    { status: 400, body: { message: "Only one of 'name' and 'name_regex' can be given" } },
  );
  for (const word of ["nothing", "*", "custom", "system:nothing", "pull-request", ""])
    await refuses(at, `?type=generic&type=${word}`, { type: `Input should be ${TYPES} [input: ${word}]` });
  await refuses(at, "?per_page=101", { per_page: "Input should be less than or equal to 100 [input: 101]" });
  await refuses(at, "?per_page=0", { per_page: "Input should be greater than or equal to 1 [input: 0]" });
  await refuses(at, "?is_compliant=maybe", { is_compliant: "Input should be a valid boolean [input: maybe]" });
  await refuses(at, "?is_compliant=", { is_compliant: "Input should be a valid boolean [input: ]" });
  for (const cursor of [
    "",
    "x",
    "1",
    "YQ",
    Buffer.from("a-1").toString("base64url"),
    Buffer.from(`a${"9".repeat(16)}`).toString("base64url"),
  ])
    await refuses(at, `?after=${cursor}`, { after: `Input should be the token of a previous page [input: ${cursor}]` });
  for (const pattern of ["(", "(?=a)", "a{1000}{1000}", "[", "x".repeat(1001)]) {
    const { status, body } = await get(at, `?name_regex=${encodeURIComponent(pattern)}`);
    assert.equal(
      { status, "keys of body.errors": Object.keys(body.errors) },
      { status: 400, "keys of body.errors": ["name_regex"] },
    );
    assert.match(
      body.errors.name_regex,
      /^Input should be a valid RE2 expression: the regular expression .* \[input: /,
    );
  }
});

test("of an organization: refuses an expression that would block the server, and accepts a usual one", async () => {
  const at = await place();
  const id = await attest(at, { name: "unit-tests" });
  const columns = "organization_id, flow_id, type, overridden_type, is_compliant";
  // The names in use come from the series.
  server.db
    .prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
       INSERT INTO attestation_series (name, ${columns}) SELECT hex(zeroblob(100)) || i, ${columns}
       FROM n, attestation_series WHERE id = (SELECT max(id) FROM attestation_series)`,
    )
    .run();
  assert.equal(await found(at, "?name_regex=(?i)^unit[-_]tests?$"), [id]);
  const pattern = "(0?){600}x";
  const { status, body } = await get(at, `?name_regex=${encodeURIComponent(pattern)}`);
  assert.equal(
    { status, body },
    {
      status: 400,
      body: refused({
        name_regex:
          "Input should be a valid RE2 expression: the regular expression is too large to match against 3001 " +
          `names [input: ${pattern}]`,
      }),
    },
  );
});

const criteria = (at: Place, query: string): Promise<Answer> => get(at, `/list_attestations_for_criteria?${query}`);
const byCommit = async (at: Place, query: string): Promise<Record<string, string[]>> => {
  const { status, body } = await criteria(at, query);
  assert.is(status, 200, JSON.stringify(body));
  return Object.fromEntries(
    Object.entries(body as Record<string, Json[]>).map(([sha, records]) => [sha, ids(records)]),
  );
};

test("by commit: lists every requested commit, overrides before the overridden, narrowed by filters", async () => {
  const at = await place();
  const second = await server.given.flow(at);
  const [one, two, none] = [freshCommit(), freshCommit(), freshCommit()];
  const PR = { kind: "pull_request", git_provider: "github", pull_requests: [] };
  const pr = await attest(at, { name: "pr", commit: one, ...PR });
  const generic = await attest(at, { name: "scan", commit: one });
  const override = await attest(at, { name: "pr", ...OVERRIDE, original_attestation_type: "pull_request" });
  const elsewhere = await attest(at, { name: "pr", commit: one, flow: second, ...PR });
  const other = await attest(at, { name: "pr", commit: two, ...PR });
  await attest(at, { name: "pr", ...PR, trail: "without" });

  assert.equal(await byCommit(at, `commit_list=${one}&commit_list=${two}&commit_list=${none}`), {
    [one]: [elsewhere, override, generic, pr],
    [two]: [other],
    [none]: [],
  });
  assert.equal(await byCommit(at, `commit_list=${one},${none}&flow_name=${at.flow}&attestation_type=pull_request`), {
    [one]: [override, pr],
    [none]: [],
  });
  assert.equal(await byCommit(at, `commit_list=${one}&attestation_name=scan`), { [one]: [generic] });
  assert.equal(await byCommit(at, `commit_list=${one}&attestation_type=override`), { [one]: [override] });
  assert.equal(await byCommit(at, `commit_list=${one}&flow_name=nothing`), { [one]: [] });
  assert.equal(await byCommit(at, `commit_list=${one}&attestation_name=nothing`), { [one]: [] });
  assert.equal(await byCommit(at, `commit_list=${two}&commit_list=${two}&attestation_id=${pr}`), { [two]: [other] });
  const { body } = await criteria(at, `commit_list=${one}&flow_name=${at.flow}&attestation_type=pull_request`);
  assert.equal(body[one][0], (await get(at, `?attestation_id=${override}`)).body.data[0]);
  assert.equal(
    {
      attestation_type: body[one][0].attestation_type,
      sha1: body[one][0].git_commit_info.sha1,
      pull_requests: body[one][1].pull_requests,
    },
    { attestation_type: "override", sha1: one, pull_requests: [] },
  );
});

test("by commit: does not find records of other organizations", async () => {
  const [at, other] = [await place(), await place()];
  const commit = freshCommit();
  await attest(other, { commit });
  assert.equal(await byCommit(at, `commit_list=${commit}`), { [commit]: [] });
});

test("by commit: refuses missing and invalid commits", async () => {
  const at = await place();
  const sha = freshCommit();
  const pattern = "String should match pattern '^[a-f0-9]{40}$'";
  await refuses(at, "/list_attestations_for_criteria", { commit_list: "Field required" });
  await refuses(at, `/list_attestations_for_criteria?attestation_type=generic`, { commit_list: "Field required" });
  await refuses(at, `/list_attestations_for_criteria?commit_list=`, { "commit_list.0": `${pattern} [input: ]` });
  await refuses(at, `/list_attestations_for_criteria?commit_list=${sha},abc`, {
    "commit_list.1": `${pattern} [input: abc]`,
  });
  await refuses(at, `/list_attestations_for_criteria?commit_list=${sha}&attestation_type=nothing`, {
    attestation_type: `Input should be ${TYPES} [input: nothing]`,
  });
});

test("a damaged record becomes a marked placeholder in every list, without affecting others", async () => {
  const at = await place();
  const commit = freshCommit();
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: "t", name: "app" });
  const reports = [
    { commit, file: { name: "attachment_file", filename: "e", content: fresh("x") } },
    { commit },
    { fingerprint },
    { fingerprint },
  ] as const;
  const [damaged, sound, damagedOnArtifact, soundOnArtifact] = (await reports.reduce<Promise<string[]>>(
    async (before, report) => [...(await before), await attest(at, { ...report, annotations: { a: "b" } })],
    Promise.resolve([]),
  )) as [string, string, string, string];
  const columns = [
    "payload_json",
    "annotations_json",
    "git_commit_info_json",
    "target_artifacts_json",
    "external_urls_json",
    "user_data_json",
  ];
  for (const column of columns) {
    server.db
      .prepare(`UPDATE attestations SET ${column} = '{"cut' WHERE public_id IN (?, ?)`)
      .run(damaged, damagedOnArtifact);
    const lists = [
      [(await get(at, `/${at.flow}/trail/t/scan`)).body, [sound, damaged]],
      [(await get(at, `/${at.flow}/artifact/${fingerprint}/scan`)).body, [soundOnArtifact, damagedOnArtifact]],
      [(await get(at, `/${at.flow}`)).body.data, [soundOnArtifact, damagedOnArtifact, sound, damaged]],
      [(await get(at)).body.data, [soundOnArtifact, damagedOnArtifact, sound, damaged]],
      [(await get(at, `?attestation_id=${damaged}`)).body.data, [damaged]],
      [(await criteria(at, `commit_list=${commit}`)).body[commit], [sound, damaged]],
    ] as const;
    for (const [records, expected] of lists) {
      assert.equal(ids(records), expected);
      const marked = records.at(-1) as Json;
      assert.is(marked["unreadable"], true);
      assert.match(marked["description"], /^This record is damaged and cannot be shown/);
      assert.equal(
        {
          attestation_name: marked["attestation_name"],
          is_compliant: marked["is_compliant"],
          annotations: marked["annotations"],
          attestation_type: marked["attestation_type"],
        },
        { attestation_name: "scan", is_compliant: true, annotations: {}, attestation_type: "generic" },
      );
    }
  }
  const [marked] = (await get(at, `?attestation_id=${damaged}`)).body.data;
  assert.match(marked.evidence_archive_fingerprint, /^[a-f0-9]{64}$/);
});

test("an empty organization has empty lists", async () => {
  const at = await place();
  assert.equal((await get(at)).body, {
    data: [],
    _links: { self: { href: `http://assay.test/api/v2/attestations/${at.org}?per_page=20` }, next: null },
  });
  assert.equal((await get(at, `/${at.flow}`)).body, {
    data: [],
    pagination: { total: 0, page: 1, per_page: 20, page_count: 0 },
  });
  assert.equal((await get(at, "?name_regex=.")).body.data, []);
});

test.run();
