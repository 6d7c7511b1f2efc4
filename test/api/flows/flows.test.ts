import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pageCounts, definePaging } from "../../../src/api/paging.ts";
import { presentPagination } from "../../../src/http/pagination.ts";
import { EPOCH, fresh, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/flows/flows");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const TEMPLATE = "# flow\nversion: 1\r\ntrail:\n  attestations:\n  - {name: review, type: pull_request}\n\n";
const PATTERN = String.raw`'^[a-zA-Z0-9][a-zA-Z0-9\.\-_~]*$'`;

/** PUT template_file; `file` null: without a file part. */
const put = (at: At, json: unknown, file: string | Buffer | null = null): Promise<Answer> =>
  server.call("PUT", `/flows/${at.org}/template_file`, {
    key: at.key,
    form: {
      json,
      ...(file === null ? {} : { file: { name: "template_file", filename: "template.yml", content: file } }),
    },
  });
const get = (at: At, name: string): Promise<Answer> => server.call("GET", `/flows/${at.org}/${name}`, { key: at.key });
const list = (at: At, query = ""): Promise<Answer> => server.call("GET", `/flows/${at.org}${query}`, { key: at.key });
const rename = (at: At, name: string, new_name: unknown): Promise<Answer> =>
  server.call("PUT", `/flows/${at.org}/${name}/rename`, { key: at.key, body: { new_name } });
const archive = (at: At, name: string): Promise<Answer> =>
  server.call("PUT", `/flows/${at.org}/${name}/archive`, { key: at.key });
const namesOf = (answer: Answer): string[] => answer.body.map((flow: { name: string }) => flow.name);
const count = (table: string): number => server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number;

const missing = (at: At, name: string) => ({
  message: `Flow named '${name}' does not exist for organization '${at.org}'`,
});
const archived = (at: At, name: string) => ({
  message: `Flow named '${name}' has been archived for organization '${at.org}'`,
});
const refused = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });

function answers(answer: Answer, status: number, body: unknown): void {
  assert.equal(answer.body, body);
  assert.is(answer.status, status);
}

/** Asserts a refusal that leaves nothing behind. */
async function refuses(call: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const tables = ["flows", "templates", "flow_aliases", "flow_tags", "audit_log"];
  const before = tables.map(count);
  answers(await call(), status, body);
  assert.equal(tables.map(count), before);
}

test("a new flow gets 201, and a read returns every byte of its template", async () => {
  const at = server.given.org();
  answers(await put(at, { name: "pay", description: "Payments" }, TEMPLATE), 201, "OK");
  answers(await get(at, "pay"), 200, {
    name: "pay",
    description: "Payments",
    visibility: "private",
    org: at.org,
    template: TEMPLATE,
    repo_url: null,
    tags: {},
    last_deployment_at: null,
  });
});

test("an update gets 200, replaces description and template, and clears absent ones", async () => {
  const at = server.given.org();
  await put(at, { name: "pay", description: "Payments", visibility: "public" }, TEMPLATE);
  answers(await put(at, { name: "pay", description: "Other" }, "version: 1\ntrail:\n"), 200, "OK");
  assert.equal(pick((await get(at, "pay")).body), ["Other", "public", "version: 1\ntrail:\n"]);
  answers(await put(at, { name: "pay" }), 200, "OK");
  assert.equal(pick((await get(at, "pay")).body), ["", "public", "version: 1"]);
  answers(await put(at, { name: "pay", visibility: "private" }), 200, "OK");
  assert.equal(pick((await get(at, "pay")).body), ["", "private", "version: 1"]);
});
const pick = (flow: any) => [flow.description, flow.visibility, flow.template];

test("visibility null equals absent", async () => {
  const at = server.given.org();
  answers(await put(at, { name: "a", visibility: null, template: null }), 201, "OK");
  assert.is((await get(at, "a")).body.visibility, "private");
});

test("an unchanged template is not stored again", async () => {
  const at = server.given.org();
  await put(at, { name: "a" }, TEMPLATE);
  const before = count("templates");
  await put(at, { name: "a", description: "new" }, TEMPLATE);
  assert.is(count("templates"), before);
});

test("keeps a byte order mark", async () => {
  const at = server.given.org();
  const text = "\ufeffversion: 1\n";
  answers(await put(at, { name: "a" }, text), 201, "OK");
  assert.is((await get(at, "a")).body.template, text);
});

test("a list of names gives the legacy template in both forms; a file takes precedence", async () => {
  const at = server.given.org();
  const legacy =
    "version: 1\ntrail:\n  artifacts:\n    - name: artifact\n      attestations:\n        - name: unit\n       " +
    '   type: "*"\n        - name: scan\n          type: "*"\n';
  const names = ["artifact", "unit", "scan"];
  answers(await put(at, { name: "form", template: names }), 201, "OK");
  assert.is((await get(at, "form")).body.template, legacy);
  const body = { name: "json", description: "d", visibility: "public", template: names };
  answers(await server.call("PUT", `/flows/${at.org}`, { key: at.key, body }), 201, "OK");
  answers(await server.call("PUT", `/flows/${at.org}`, { key: at.key, body }), 200, "OK");
  const { body: read } = await get(at, "json");
  assert.equal(pick(read), ["d", "public", legacy]);
  await put(at, { name: "form", template: names }, TEMPLATE);
  assert.is((await get(at, "form")).body.template, TEMPLATE);
});

test("the legacy form defaults to the empty template; repo_url is repaired on read and stays if absent", async () => {
  const at = server.given.org();
  const apply = (fields: object) =>
    server.call("PUT", `/flows/${at.org}`, { key: at.key, body: { name: "a", description: "", ...fields } });
  const repoUrl = async () => (await get(at, "a")).body.repo_url;
  answers(await apply({ repo_url: "git@github.com:acme/pay.git" }), 201, "OK");
  assert.is((await get(at, "a")).body.template, "version: 1");
  assert.is(await repoUrl(), "https://github.com/acme/pay");
  await apply({});
  await put(at, { name: "a" });
  assert.is(await repoUrl(), "https://github.com/acme/pay");
  assert.is((await list(at)).body[0].repo_url, "https://github.com/acme/pay");
  for (const nothing of [null, "", "N/A"]) {
    await apply({ repo_url: nothing });
    assert.is(await repoUrl(), null);
  }
});

test("names all invalid fields, and stores nothing", async () => {
  const at = server.given.org();
  const form: [unknown, Record<string, string>][] = [
    [{}, { name: "Field required" }],
    [{ name: "-a" }, { name: `String should match pattern ${PATTERN} [input: -a]` }],
    [{ name: "a\n" }, { name: `String should match pattern ${PATTERN} [input: a\\u000a]` }],
    [{ name: "" }, { name: `String should match pattern ${PATTERN} [input: ]` }],
    [{ name: "a", visibility: "secret" }, { visibility: "Input should be 'public' or 'private' [input: secret]" }],
    [{ name: "a", description: null }, { description: "Input should be a valid string [input: null]" }],
    [{ name: "a".repeat(257) }, { name: `String should have at most 256 characters [input: ${"a".repeat(257)}]` }],
    [{ name: "a", visability: "public" }, { visability: "Extra inputs are not permitted. Did you mean 'visibility'?" }],
    [{ name: "a", template: ["artifact", ""] }, { "template.1": "String should have at least 1 character [input: ]" }],
    [
      { name: "a", template: ["a b"] },
      { "template.0": "String should match pattern '^[a-zA-Z0-9\\-_,]+$' [input: a b]" },
    ],
    [{ name: "a", template: "unit" }, { template: "Input should be a valid array [input: unit]" }],
    [
      { name: 7, colour: "red", Template: [] },
      {
        name: "Input should be a valid string [input: 7]",
        Template: "Extra inputs are not permitted. Did you mean 'template'?",
      },
    ],
    [["a"], { data_json: 'Input should be a valid object [input: ["a"]]' }],
  ];
  for (const [json, errors] of form) await refuses(() => put(at, json), 400, refused(errors));
  const legacy: [unknown, Record<string, string>][] = [
    [{ name: "a" }, { description: "Field required" }],
    [
      { name: "a", description: "", template: [""] },
      { "template.0": "String should have at least 1 character [input: ]" },
    ],
    [
      { name: "a", description: "", repourl: "" },
      { repourl: "Extra inputs are not permitted. Did you mean 'repo_url'?" },
    ],
    [{ name: "a/b", description: "" }, { name: `String should match pattern ${PATTERN} [input: a/b]` }],
  ];
  for (const [body, errors] of legacy)
    await refuses(() => server.call("PUT", `/flows/${at.org}`, { key: at.key, body }), 400, refused(errors));
});

test("accepts the largest legacy list, and refuses a larger one", async () => {
  const at = server.given.org();
  const names = Array.from({ length: 1_999 }, (_, index) => `check-${index}`);
  answers(await put(at, { name: "a", template: names }), 201, "OK");
  await refuses(
    () => put(at, { name: "b", template: [...names, "one"] }),
    400,
    refused({ template: "List should have at most 1999 items" }),
  );
});

test("refuses an invalid template with every problem and its position", async () => {
  const at = server.given.org();
  const cases: [string | Buffer, string][] = [
    [
      "version: 2\ntrail: {attestations: [{name: '', type: junit}]}\n",
      [
        "2 validation errors for Template",
        "version",
        "  Input should be 1 [input: 2] (line 1, column 10)",
        "trail.attestations.0.name",
        "  String should have at least 1 character [input: ] (line 2, column 31)",
      ].join("\n"),
    ],
    [
      "",
      "1 validation errors for Template\ntemplate_file\n  Input should be a valid object [input: null] (line 1" +
        ", column 1)",
    ],
    [
      "version: 1\n#\0\n",
      "1 validation errors for Template\ntemplate_file\n  Not YAML: the character U+0000 is not allowed in " +
        "YAML (line 2, column 2)",
    ],
    [
      Buffer.from("version: 1\n# gr\xfc\xdf\n", "latin1"),
      "1 validation errors for Template\ntemplate_file\n  Not UTF-8: save the file with this encoding (line 2, " +
        "column 5)",
    ],
    [
      Buffer.from("# \u20ac").subarray(0, 4),
      "1 validation errors for Template\ntemplate_file\n  Not UTF-8: save the file with this encoding (line 1, " +
        "column 3)",
    ],
  ];
  for (const [file, text] of cases)
    await refuses(() => put(at, { name: "a" }, file), 400, refused({ template_file: text }));
});

test("refuses a file over 10 MB, naming the limit", async () => {
  const at = server.given.org();
  await refuses(() => put(at, { name: "a" }, Buffer.alloc(10 * 1_048_576 + 1, "#")), 413, {
    message: "File size exceeds the 10MB limit",
  });
});

test("fifty concurrent creations create one flow: one 201, forty-nine 200", async () => {
  const at = server.given.org();
  const all = await Promise.all(Array.from({ length: 50 }, () => put(at, { name: "one", description: "" }, TEMPLATE)));
  const statuses = all.map(({ status }) => status).sort();
  assert.equal(statuses, [...Array<number>(49).fill(200), 201]);
  assert.equal(namesOf(await list(at)), ["one"]);
});

test("flows of other organizations are unknown", async () => {
  const [here, there] = [server.given.org(), server.given.org()];
  await put(there, { name: "pay" });
  answers(await get(here, "pay"), 404, missing(here, "pay"));
});

test("a renamed flow is found under both names until another flow takes the former one", async () => {
  const at = server.given.org();
  await put(at, { name: "a", description: "first" });
  answers(await rename(at, "a", "b"), 200, "OK");
  for (const name of ["a", "b"]) {
    const { status, body } = await get(at, name);
    assert.equal(
      { status, name: body.name, description: body.description },
      { status: 200, name: "b", description: "first" },
    );
  }
  assert.equal(namesOf(await list(at)), ["b"]);
  answers(await put(at, { name: "a", description: "second" }), 201, "OK");
  assert.is((await get(at, "a")).body.description, "second");
  assert.is((await get(at, "b")).body.description, "first");
});

test("a rename can take a former name of another flow, or of the flow itself", async () => {
  const at = server.given.org();
  await put(at, { name: "a", description: "first" });
  await put(at, { name: "x", description: "second" });
  await rename(at, "a", "b");
  answers(await rename(at, "a", "a"), 200, "OK"); // addressed by its old name, gets it back
  assert.is((await get(at, "b")).body.name, "a");
  await rename(at, "a", "c");
  answers(await rename(at, "x", "a"), 200, "OK");
  assert.is((await get(at, "a")).body.description, "second");
  for (const name of ["b", "c"]) assert.is((await get(at, name)).body.description, "first");
});

test("a rename to the current name changes nothing", async () => {
  const at = server.given.org();
  await put(at, { name: "a" });
  const before = count("flow_aliases");
  answers(await rename(at, "a", "a"), 200, "OK");
  assert.is(count("flow_aliases"), before);
  assert.equal(namesOf(await list(at)), ["a"]);
});

test("a rename checks the grammar first, then the flow, then the availability of the name", async () => {
  const at = server.given.org();
  await put(at, { name: "a" });
  await put(at, { name: "b" });
  await put(at, { name: "gone" });
  await archive(at, "gone");
  const suffixed = suffixedName(at, "gone");
  const malformed = refused({ new_name: `String should match pattern ${PATTERN} [input: b c]` });
  await refuses(() => rename(at, "nobody", "b c"), 400, malformed);
  await refuses(() => rename(at, "a", "b c"), 400, malformed);
  await refuses(() => rename(at, "nobody", "b"), 404, missing(at, "nobody"));
  await refuses(() => rename(at, "gone", "z"), 404, archived(at, "gone"));
  await refuses(() => rename(at, suffixed, "z"), 404, archived(at, suffixed));
  for (const taken of ["b", suffixed])
    await refuses(
      () => rename(at, "a", taken),
      400,
      refused({ new_name: `A flow with this name already exists [input: ${taken}]` }),
    );
  await refuses(() => rename(at, "a", undefined), 400, refused({ new_name: "Field required" }));
  answers(await rename(at, "a", "gone"), 200, "OK");
});

const suffixedName = (at: At, name: string): string =>
  server.db
    .prepare(
      "SELECT f.name FROM flows f JOIN organizations o ON o.id = f.organization_id WHERE o.name = ? AND " +
        "f.archived_name = ? ORDER BY f.id DESC",
    )
    .pluck()
    .get(at.org, name) as string;

test("an archived flow leaves the list, frees its name, and is readable under its suffixed name only", async () => {
  const at = server.given.org();
  await put(at, { name: "a", description: "old" }, TEMPLATE);
  answers(
    await server.call("PUT", `/flows/${at.org}/a/archive`, {
      key: at.key,
      raw: "null",
      headers: { "Content-Type": "application/json" },
    }),
    200,
    "OK",
  );
  answers(await list(at), 200, []);
  answers(await get(at, "a"), 404, archived(at, "a"));
  await refuses(() => archive(at, "a"), 404, archived(at, "a"));
  const suffixed = suffixedName(at, "a");
  assert.match(suffixed, /^a-archived-at-17\d{8}$/);
  assert.ok(Number(suffixed.split("-").at(-1)) > EPOCH);
  const { body } = await get(at, suffixed);
  assert.equal(
    { name: body.name, description: body.description, template: body.template },
    { name: suffixed, description: "old", template: TEMPLATE },
  );
  answers(await put(at, { name: "a", description: "new" }), 201, "OK");
  assert.is((await get(at, "a")).body.description, "new");
});

test("an archived flow refuses every write under its suffixed name", async () => {
  const at = server.given.org();
  await put(at, { name: "a" });
  await archive(at, "a");
  const name = suffixedName(at, "a");
  await refuses(() => archive(at, name), 404, archived(at, name));
  await refuses(() => put(at, { name }), 404, archived(at, name));
  await refuses(
    () => server.call("PUT", `/flows/${at.org}`, { key: at.key, body: { name, description: "" } }),
    404,
    archived(at, name),
  );
  await refuses(
    () => server.call("PATCH", `/tags/${at.org}/flow/${name}`, { key: at.key, body: { set_tags: { a: "b" } } }),
    404,
    archived(at, name),
  );
});

test("former names of an archived flow report that it was archived, until they are taken", async () => {
  const at = server.given.org();
  await put(at, { name: "a" });
  await rename(at, "a", "b");
  await archive(at, "a");
  for (const name of ["a", "b"]) answers(await get(at, name), 404, archived(at, name));
  answers(await put(at, { name: "a" }), 201, "OK");
  assert.is((await get(at, "a")).body.name, "a");
});

test("archiving an unknown flow is a 404 with the name", async () => {
  const at = server.given.org();
  await refuses(() => archive(at, "nobody"), 404, missing(at, "nobody"));
  await refuses(() => archive(at, "no%20body"), 404, missing(at, "no body"));
});

test("every change is in the audit log with its flow", async () => {
  const at = server.given.org();
  await put(at, { name: "a" });
  await rename(at, "a", "b");
  await archive(at, "b");
  const { id } = server.store.organizations.find(at.org) as { id: number };
  const entries = server.store.auditLog
    .listLatest(id, 10)
    .map(({ event, detail_json }) => [event, JSON.parse(detail_json ?? "{}")]);
  assert.equal(entries, [
    ["flow.archived", { flow: "b", archived_as: suffixedName(at, "b") }],
    ["flow.renamed", { from: "a", to: "b" }],
    ["flow.applied", { flow: "a", created: true }],
  ]);
});

// --- The list
// ------------------------------------------------------------------------------------------------------------

/** An organization with these flows. */
async function withFlows(...names: string[]): Promise<At> {
  const at = server.given.org();
  for (const name of names) await put(at, { name });
  return at;
}

test("an organization without flows has empty lists, bare and paged", async () => {
  const at = server.given.org();
  answers(await list(at), 200, []);
  answers(await list(at, "?page=1"), 200, { data: [], pagination: { total: 0, page: 1, per_page: 20, page_count: 0 } });
});

test("lists flows with tags, activity and state", async () => {
  const at = server.given.org();
  await put(at, { name: "a", description: "d", visibility: "public" }, TEMPLATE);
  const item = {
    name: "a",
    description: "d",
    visibility: "public",
    org: at.org,
    template: TEMPLATE,
    repo_url: null,
    tags: {},
    latest_activity_at: null,
    latest_state: null,
  };
  answers(await list(at), 200, [item]);
  const { id } = server.store.flows.require(server.store.organizations.find(at.org) as never, "a");
  server.store.flows.touch(id, 1_700_000_000.25, "COMPLIANT");
  server.store.flows.patchTags(id, { set: { "managed-by": "terraform", "b.c": '"ü"' }, remove: [] });
  const after = {
    ...item,
    tags: { "b.c": '"ü"', "managed-by": "terraform" },
    latest_activity_at: 1_700_000_000.25,
    latest_state: "COMPLIANT",
  };
  answers(await list(at), 200, [after]);
  answers(await list(at, "?per_page=1"), 200, {
    data: [after],
    pagination: { total: 1, page: 1, per_page: 1, page_count: 1 },
  });
});

test("either paging parameter adds the envelope; a page beyond the end is empty and echoed", async () => {
  const at = await withFlows("a", "b", "c");
  const page = async (query: string) => {
    const { status, body } = await list(at, query);
    assert.is(status, 200);
    return [namesOf({ body: body.data } as Answer), body.pagination];
  };
  assert.equal(await page("?page=1"), [["a", "b", "c"], { total: 3, page: 1, per_page: 20, page_count: 1 }]);
  assert.equal(await page("?per_page=2"), [["a", "b"], { total: 3, page: 1, per_page: 2, page_count: 2 }]);
  assert.equal(await page("?per_page=2&page=2"), [["c"], { total: 3, page: 2, per_page: 2, page_count: 2 }]);
  assert.equal(await page("?per_page=2&page=3"), [[], { total: 3, page: 3, per_page: 2, page_count: 2 }]);
  assert.equal(await page("?per_page=100&page=9007199254740991"), [
    [],
    { total: 3, page: 9007199254740991, per_page: 100, page_count: 1 },
  ]);
  assert.equal(await page("?page=1&search_by_name=b"), [["b"], { total: 1, page: 1, per_page: 20, page_count: 1 }]);
});

test("windows and counts of other styles: an empty page, no maximum, a full last page", () => {
  const builds = definePaging({ perPage: 15, maxPerPage: 50, minPerPage: 0 });
  assert.equal(builds.window({}), { page: 1, perPage: 15, limit: 15, offset: 0 });
  assert.equal(builds.window({ page: 4, per_page: 0 }), { page: 4, perPage: 0, limit: 0, offset: 0 });
  assert.equal(pageCounts(31, 4, 0), { page: 4, per_page: 0, total_pages: 0, total_count: 31 });
  assert.equal(pageCounts(30, 2, 15), { page: 2, per_page: 15, total_pages: 2, total_count: 30 });
  assert.equal(presentPagination(31, 3, 15), { total: 31, page: 3, per_page: 15, page_count: 3 });
  const most = Number.MAX_SAFE_INTEGER;
  assert.equal(definePaging({ perPage: 15, maxPerPage: null }).window({ page: most, per_page: most }), {
    page: most,
    perPage: most,
    limit: most,
    offset: most,
  });
});

test("refuses numbers out of range, naming the parameter", async () => {
  const at = server.given.org();
  const cases: [string, Record<string, string>][] = [
    ["page=0", { page: "Input should be greater than or equal to 1 [input: 0]" }],
    [
      "page=9007199254740993",
      { page: "Input should be less than or equal to 9007199254740991 [input: 9007199254740992]" },
    ],
    ["page=", { page: "Input should be a valid integer [input: ]" }],
    ["page=two", { page: "Input should be a valid integer [input: two]" }],
    ["page=1.5", { page: "Input should be a valid integer [input: 1.5]" }],
    ["per_page=0", { per_page: "Input should be greater than or equal to 1 [input: 0]" }],
    ["per_page=101", { per_page: "Input should be less than or equal to 100 [input: 101]" }],
    ["per_page=", { per_page: "Input should be a valid integer [input: ]" }],
    ["case_sensitive=maybe", { case_sensitive: "Input should be a valid boolean [input: maybe]" }],
    ["sort=age", { sort: "Input should be 'name' or 'latest_activity' [input: age]" }],
    ["sort_direction=", { sort_direction: "Input should be 'asc' or 'desc' [input: ]" }],
  ];
  for (const [query, errors] of cases) await refuses(() => list(at, `?${query}`), 400, refused(errors));
});

test("search_by_name matches part of the name, case-sensitively by default, without wildcards", async () => {
  const at = await withFlows("Pay-out", "pay_in.v2~x", "shop");
  const find = async (text: string, more = "") =>
    namesOf(await list(at, `?search_by_name=${encodeURIComponent(text)}${more}`));
  assert.equal(await find("pay"), ["pay_in.v2~x"]);
  assert.equal(await find("PAY", "&case_sensitive=false"), ["Pay-out", "pay_in.v2~x"]);
  assert.equal(await find("pay", "&case_sensitive=true"), ["pay_in.v2~x"]);
  assert.equal(await find(""), ["Pay-out", "pay_in.v2~x", "shop"]);
  for (const part of ["_in", ".v2", "~x", "_"]) assert.equal(await find(part), ["pay_in.v2~x"]);
  assert.equal(await find("-"), ["Pay-out"]);
  for (const none of ["%", "p%", "?", "*", "' OR 1=1 --"]) assert.equal(await find(none), []);
});

test("tag filters accept a key or a key with its value, and all must match", async () => {
  const at = await withFlows("a", "b", "c");
  const organization = server.store.organizations.find(at.org) as { id: number; name: string };
  const tag = (name: string, set: Record<string, string>) =>
    server.store.flows.patchTags(server.store.flows.require(organization, name).id, { set, remove: [] });
  tag("a", { team: "pay", tier: "1", url: "https://x:1/y" });
  tag("b", { team: "shop", tier: "1", none: "" });
  const find = async (query: string) => namesOf(await list(at, `?${query}`));
  assert.equal(await find("tag=team"), ["a", "b"]);
  assert.equal(await find("tag=team:pay"), ["a"]);
  assert.equal(await find("tag=tier:1&tag=team"), ["a", "b"]);
  assert.equal(await find("tag=tier:1&tag=team:shop"), ["b"]);
  assert.equal(await find("tag=tier:1,team:shop"), ["b"]);
  assert.equal(await find("tag=url:https%3A%2F%2Fx%3A1%2Fy"), ["a"]);
  assert.equal(await find("tag=none:"), ["b"]);
  for (const none of [
    "tag=team:",
    "tag=TEAM",
    "tag=team:PAY",
    "tag=team:pay&tag=team:shop",
    "tag=",
    "tag=team&tag=",
    "tag=:pay",
    "tag=%22%5D",
  ])
    assert.equal(await find(none), []);
  const many = Array.from({ length: 3_000 }, () => "tag=team").join("&");
  assert.is((await list(at, `?${many.slice(0, 12_000)}`)).status, 200);
  const { body } = await list(at, "?tag=tier&per_page=1");
  assert.equal(body.pagination, { total: 2, page: 1, per_page: 1, page_count: 2 });
});

test("a filter by space matches nothing, and an empty one does not filter", async () => {
  const at = await withFlows("a");
  for (const none of ["space_id=x", "space_id=x&space_id=", "space_id=x,y"])
    answers(await list(at, `?${none}`), 200, []);
  for (const all of ["space_id=", "space_id=null", "space_id=&space_id=null"])
    assert.equal(namesOf(await list(at, `?${all}`)), ["a"]);
  answers(await list(at, "?space_id=x&page=2"), 200, {
    data: [],
    pagination: { total: 0, page: 2, per_page: 20, page_count: 0 },
  });
});

test("sorts by name ascending, or by latest activity descending, by default", async () => {
  const at = await withFlows("b", "C", "a", "d");
  const organization = server.store.organizations.find(at.org) as { id: number; name: string };
  const touch = (name: string, when: number) =>
    server.store.flows.touch(server.store.flows.require(organization, name).id, when, "INCOMPLETE");
  touch("a", 20);
  touch("b", 30);
  touch("C", 10);
  const order = async (query: string) => namesOf(await list(at, query));
  assert.equal(await order(""), ["C", "a", "b", "d"]);
  assert.equal(await order("?sort=name"), ["C", "a", "b", "d"]);
  assert.equal(await order("?sort_direction=desc"), ["d", "b", "a", "C"]);
  assert.equal(await order("?sort=latest_activity"), ["b", "a", "C", "d"]);
  assert.equal(await order("?sort=latest_activity&sort_direction=asc"), ["d", "C", "a", "b"]);
});

test("a damaged record becomes a marked placeholder, and the others are listed", async () => {
  const at = await withFlows("a", "b");
  const { template_id } = server.store.flows.require(server.store.organizations.find(at.org) as never, "a");
  server.db.pragma("foreign_keys = OFF");
  server.db.prepare("DELETE FROM templates WHERE id = ?").run(template_id);
  server.db.pragma("foreign_keys = ON");
  const { status, body } = await list(at);
  assert.is(status, 200);
  assert.equal(body[0], {
    name: "a",
    description: "This record is damaged and cannot be shown. Tell the operator of the server its name",
    visibility: "private",
    org: at.org,
    template: "",
    repo_url: null,
    tags: {},
    latest_activity_at: null,
    latest_state: null,
  });
  assert.equal({ name: body[1].name, template: body[1].template }, { name: "b", template: "version: 1" });
  answers(await put(at, { name: "a" }, TEMPLATE), 200, "OK");
  assert.is((await get(at, "a")).body.template, TEMPLATE);
});

test("outsiders can read the flows of a public organization, but not write", async () => {
  const at = server.given.org({ public: true });
  await put(at, { name: "a" });
  const stranger = { org: at.org, key: server.given.user(at.org, null) };
  assert.equal(namesOf(await list(stranger)), ["a"]);
  assert.is((await get(stranger, "a")).status, 200);
  await refuses(() => put(stranger, { name: fresh("flow") }), 403, {
    message: "You don't have permission to access this resource",
  });
});

test("query booleans accept Python's spelling, and nothing else besides", async () => {
  const at = server.given.org();
  await server.given.flow(at, { name: "Upper" });
  const names = async (value: string): Promise<unknown> => {
    const { status, body } = await server.call("GET", `/flows/${at.org}?search_by_name=upper&case_sensitive=${value}`, {
      key: at.key,
    });
    return status === 200 ? body.map((flow: { name: string }) => flow.name) : body.errors;
  };
  assert.equal(await names("False"), ["Upper"]);
  assert.equal(await names("false"), ["Upper"]);
  assert.equal(await names("True"), []);
  assert.equal(await names("nope"), { case_sensitive: "Input should be a valid boolean [input: nope]" });
});

test.run();
