/** Decisions on a control (semantics 7.2): the list, its filters, and single decisions. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/policies/control-decisions");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string; flow: string; trail: string };
type Json = Record<string, any>;

async function setUp(): Promise<At> {
  const at = server.given.org();
  await server.given.control(at, { identifier: "C-1" });
  return { ...at, flow: await server.given.flow(at), trail: fresh("trail") };
}
/** Reports a decision and returns its id. */
const decide = (at: At, is_compliant: boolean, fields: Json = {}): Promise<string> =>
  server.given.attestation(at, {
    kind: "system",
    flow: at.flow,
    trail: at.trail,
    name: "go",
    type_name: "decision",
    control: "C-1",
    attestation_data: { is_compliant },
    ...fields,
  });
const overrideDecision = (
  at: At,
  name: string,
  new_compliance_status: boolean,
  original_attestation_type = "decision",
): Promise<string> =>
  server.given.attestation(at, {
    kind: "override",
    flow: at.flow,
    trail: at.trail,
    name,
    reason: "the board said so",
    new_compliance_status,
    original_attestation_type,
  });
const get = (at: At, path = ""): Promise<Answer> =>
  server.call("GET", `/controls/${at.org}/C-1/decisions${path}`, { key: at.key });
const ids = async (at: At, query = ""): Promise<string[]> =>
  (await get(at, query)).body.decisions.map(({ id }: Json) => id);

test("shows all fields of a decision", async () => {
  const at = await setUp();
  const id = await decide(at, true, {
    description: "fine",
    origin_url: "https://ci.test/1",
    user_data: { minutes: [1] },
    annotations: { who: "board" },
    file: { name: "attachment_file", filename: "m.txt", content: "x" },
  });
  const list = await get(at);
  assert.equal(
    {
      status: list.status,
      page: list.body.page,
      per_page: list.body.per_page,
      total_pages: list.body.total_pages,
      total_count: list.body.total_count,
    },
    { status: 200, page: 1, per_page: 15, total_pages: 1, total_count: 1 },
  );
  const [decision] = list.body.decisions;
  const {
    id: own,
    timestamp,
    attestation_type,
    attestation_name,
    is_compliant,
    control,
    control_version,
    flow_name,
    trail_name,
    artifact_name,
    artifact_fingerprint,
    description,
    origin_url,
    user_data,
    attestation_data,
    html_url,
    original_attestation_id,
    reported_by,
    annotations,
    _links,
  } = decision;
  assert.equal(
    {
      own,
      attestation_type,
      attestation_name,
      is_compliant,
      control,
      control_version,
      flow_name,
      trail_name,
      artifact_name,
      artifact_fingerprint,
    },
    {
      own: id,
      attestation_type: "system:decision",
      attestation_name: "go",
      is_compliant: true,
      control: "C-1",
      control_version: 1,
      flow_name: at.flow,
      trail_name: at.trail,
      artifact_name: null,
      artifact_fingerprint: null,
    },
  );
  assert.equal(
    {
      description,
      origin_url,
      user_data,
      attestation_data,
      html_url,
      original_attestation_id,
      reported_by,
      annotations,
    },
    {
      description: "fine",
      origin_url: "https://ci.test/1",
      user_data: { minutes: [1] },
      attestation_data: { is_compliant: true },
      original_attestation_id: null,
      html_url: `http://assay.test/${at.org}/flows/${at.flow}/trails/${at.trail}?attestation_id=${id}`,
      reported_by: `${at.org}-admin`,
      annotations: { who: "board" },
    },
  );
  assert.is(
    _links.evidence.href,
    `http://assay.test/api/v2/attestations/${at.org}/${at.flow}/trail/${at.trail}/attestation/${id}/evidence`,
  );
  const { body: attestation } = await server.call("GET", `/attestations/${at.org}?attestation_id=${id}`, {
    key: at.key,
  });
  assert.is(timestamp, attestation.data[0].created_at);
  const one = await get(at, `/${id}`);
  assert.equal({ status: one.status, body: one.body }, { status: 200, body: decision });
});

test("shows the artifact of a decision once it is reported", async () => {
  const at = await setUp();
  const commit = freshCommit();
  const early = await decide(at, true, { target: "app", commit });
  const shown = async (id: string) => {
    const { artifact_name, artifact_fingerprint } = (await get(at, `/${id}`)).body;
    return [artifact_name, artifact_fingerprint];
  };
  assert.equal(await shown(early), [null, null]);
  const fingerprint = await server.given.artifact(at, {
    flow: at.flow,
    trail: at.trail,
    name: "app",
    filename: "registry/app:1",
    commit,
  });
  assert.equal(await shown(early), ["registry/app:1", fingerprint]);
  assert.equal(await shown(await decide(at, true, { fingerprint })), ["registry/app:1", fingerprint]);
  const rebuilt = await server.given.artifact(at, {
    flow: at.flow,
    trail: at.trail,
    name: "app",
    filename: "registry/app:2",
    commit,
  });
  assert.equal(await shown(early), ["registry/app:2", rebuilt], "of several the latest");
});

test("lists the decisions of one control in pages, newest or oldest first", async () => {
  const at = await setUp();
  const all: string[] = [];
  for (const is_compliant of [true, false, true, true, false]) all.push(await decide(at, is_compliant));
  await decide(at, true, { control: "C-2" });
  await server.given.attestation(at, { flow: at.flow, trail: at.trail });
  const other = await setUp();
  await decide(other, true);
  assert.equal(await ids(at), [...all].reverse());
  assert.equal(await ids(at, "?sort_direction=asc"), all);
  const page = (await get(at, "?page=2&per_page=2&sort_direction=asc")).body;
  assert.equal(
    {
      decisions: page.decisions.map(({ id }: Json) => id),
      page: page.page,
      per_page: page.per_page,
      total_pages: page.total_pages,
      total_count: page.total_count,
    },
    { decisions: all.slice(2, 4), page: 2, per_page: 2, total_pages: 3, total_count: 5 },
  );
  assert.equal((await get(at, "?page=4&per_page=2")).body, {
    page: 4,
    per_page: 2,
    total_pages: 3,
    total_count: 5,
    decisions: [],
  });
});

test("applies all filters together, also to the count", async () => {
  const at = await setUp();
  const elsewhere = { ...at, flow: await server.given.flow(at) };
  const here = [await decide(at, true), await decide(at, false)] as const;
  const there = [await decide(elsewhere, true), await decide(elsewhere, false)] as const;
  const { body } = await get(at, "?sort_direction=asc");
  const times = body.decisions.map(({ timestamp }: Json) => timestamp) as number[];
  const [one, , two] = body.decisions.map(({ flow_id }: Json) => flow_id);
  const theirs = server.db
    .prepare("SELECT public_id FROM flows WHERE name = ?")
    .pluck()
    .get((await setUp()).flow);
  for (const [query, found] of [
    ["is_compliant=true", [here[0], there[0]]],
    ["is_compliant=False", [here[1], there[1]]],
    [`from_timestamp=${times[1]}`, [here[1], ...there]],
    [`to_timestamp=${times[1]}`, [...here]],
    [`from_timestamp=${times[1]}&to_timestamp=${times[1]}`, [here[1]]],
    [`from_timestamp=${(times[1] as number) + 0.5}`, [...there]],
    [`flow_id=${one}`, [...here]],
    [`flow_id=${one}&flow_id=${two}`, [...here, ...there]],
    [`flow_id=${one},${two}`, [...here, ...there]],
    [`flow_id=${two}&is_compliant=false&from_timestamp=${times[0]}`, [there[1]]],
    [`flow_id=${theirs}`, []],
    [`flow_id=${at.flow}`, []],
    ["flow_id=", []],
    [`flow_name=${at.flow}`, [...here]],
    [`flow_name=${at.flow}&is_compliant=false`, [here[1]]],
    [`flow_name=${at.flow}&flow_id=${one}&flow_id=${two}`, [...here]],
    [`flow_name=${at.flow}&flow_id=${two}`, []],
    ["flow_name=no-such-flow", []],
  ] as const) {
    assert.equal(await ids(at, `?sort_direction=asc&${query}`), found, query);
    assert.is((await get(at, `?per_page=1&${query}`)).body.total_count, found.length, query);
  }
  for (const [query, errors] of [
    ["is_compliant=maybe", { is_compliant: "Input should be a valid boolean [input: maybe]" }],
    ["from_timestamp=yesterday", { from_timestamp: "Input should be a valid number [input: yesterday]" }],
    ["sort_direction=down", { sort_direction: "Input should be 'asc' or 'desc' [input: down]" }],
    ["per_page=101", { per_page: "Input should be less than or equal to 100 [input: 101]" }],
  ] as const) {
    const answer = await get(at, `?${query}`);
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 400, body: { message: "Input payload validation failed", errors } },
    );
  }
});

test("lists overrides of decisions, but no other overrides", async () => {
  const at = await setUp();
  const original = await decide(at, false);
  await server.call("PUT", `/controls/${at.org}/C-1`, { key: at.key, body: { name: "changed" } });
  const override = await overrideDecision(at, "go", true);
  const second = await overrideDecision(at, "go", false);
  const again = await decide(at, true);
  await server.given.attestation(at, { flow: at.flow, trail: at.trail, name: "scan", is_compliant: false });
  await overrideDecision(at, "scan", true, "generic");
  await overrideDecision(at, "never-reported", true);
  const { decisions } = (await get(at)).body;
  assert.equal(
    decisions.map(
      ({
        id,
        attestation_type,
        is_compliant,
        control_version,
        original_attestation_id,
        attestation_data,
        reason,
      }: Json) => [
        id,
        attestation_type,
        is_compliant,
        control_version,
        original_attestation_id,
        attestation_data,
        reason ?? null,
      ],
    ),
    [
      [again, "system:decision", true, 2, null, { is_compliant: true }, null],
      [second, "override", false, 1, original, null, "the board said so"],
      [override, "override", true, 1, original, null, "the board said so"],
      [original, "system:decision", false, 1, null, { is_compliant: false }, null],
    ],
  );
  assert.equal((await get(at, `/${override}`)).body, decisions[2]);
  assert.equal(await ids(at, "?is_compliant=false"), [second, original]);
});

test("lists decisions made before the control existed, without a version, and those on archived controls", async () => {
  const at = server.given.org();
  const there = { ...at, flow: await server.given.flow(at), trail: "t" };
  const early = await decide(there, true);
  await server.given.control(at, { identifier: "C-1" });
  await server.call("POST", `/controls/${at.org}/C-1/archive`, { key: at.key });
  const late = await decide(there, true);
  assert.equal(
    (await get(there)).body.decisions.map(({ id, control_version }: Json) => [id, control_version]),
    [
      [late, 2],
      [early, null],
    ],
  );
});

test("answers 404 for an unknown decision and for one on another control or in another organization", async () => {
  const at = await setUp();
  await server.given.control(at, { identifier: "C-2" });
  const onAnother = await decide(at, true, { control: "C-2" });
  const none = await server.given.attestation(at, { flow: at.flow, trail: at.trail });
  const theirs = await setUp().then((other) => decide(other, true));
  for (const id of [onAnother, none, theirs, "x", "%20"]) {
    const answer = await get(at, `/${id}`);
    assert.equal(
      { status: answer.status, body: answer.body },
      {
        status: 404,
        body: {
          message: `Decision '${decodeURIComponent(id)}' on control 'C-1' does not exist in organization '${at.org}'`,
        },
      },
    );
  }
});

test("the decisions of a period come as CSV, oldest first, with what was overridden", async () => {
  const at = await setUp();
  const first = await decide(at, false, { description: '=1+1, "quoted"' });
  server.clock.at += 100;
  const override = await overrideDecision(at, "go", true);
  const csv = (query = "") => server.call("GET", `/controls/${at.org}/C-1/decisions/csv${query}`, { key: at.key });
  const answer = await csv();
  assert.equal([answer.status, answer.headers.get("content-type")], [200, "text/csv; charset=utf-8"]);
  assert.match(String(answer.headers.get("content-disposition")), /-C-1-decisions\.csv/);
  const lines = answer.text.trimEnd().split("\r\n");
  assert.is(lines.length, 3, answer.text);
  assert.match(lines[0] as string, /^timestamp,time,control,control_version,decision,type,flow,trail,artifact,/);
  assert.ok((lines[1] as string).includes(`C-1,1,non-compliant,decision,${at.flow},${at.trail}`), lines[1]);
  assert.ok((lines[1] as string).includes(`"'=1+1, ""quoted"""`), lines[1]);
  assert.ok((lines[1] as string).endsWith(`${first},`), lines[1]);
  assert.ok((lines[2] as string).includes("C-1,1,compliant,override,"), lines[2]);
  assert.ok((lines[2] as string).endsWith(`${override},${first}`), lines[2]);
  const after = await csv(`?from_timestamp=${server.clock.at - 50}&is_compliant=true`);
  assert.is(after.text.trimEnd().split("\r\n").length, 2);
  assert.is((await csv("?flow_name=none")).text.trimEnd().split("\r\n").length, 1);
  assert.is((await csv("?from_timestamp=yesterday")).status, 400);
  const unknown = await server.call("GET", `/controls/${at.org}/C-9/decisions/csv`, { key: at.key });
  assert.is(unknown.status, 404);
});

test("a CSV of more decisions than are read at a time has each once, in their order", async () => {
  const at = await setUp();
  const ids: string[] = [];
  for (let n = 0; n < 401; n += 1) ids.push(await decide(at, n % 2 === 0, { attestation_name: `decision-${n}` }));
  const { text } = await server.call("GET", `/controls/${at.org}/C-1/decisions/csv`, { key: at.key });
  const found = text
    .trimEnd()
    .split("\r\n")
    .slice(1)
    .map((line) => line.split(",").at(-2));
  assert.equal(found, ids);
});

test("marks a damaged record and shows the rest of the list", async () => {
  const at = await setUp();
  const [bad, good] = [await decide(at, false), await decide(at, true)];
  server.db.prepare("UPDATE attestations SET payload_json = '{', user_data_json = '[' WHERE public_id = ?").run(bad);
  const { status, body } = await get(at);
  assert.is(status, 200);
  assert.equal(
    body.decisions.map(({ id, is_compliant, description }: Json) => [
      id,
      is_compliant,
      /damaged/.test(description ?? ""),
    ]),
    [
      [good, true, false],
      [bad, false, true],
    ],
  );
});

test.run();
