/** Bounds on the values of JSON, and the budget for large bodies, over real sockets. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { dial, head } from "./socket.ts";

const test = suite("http/large-bodies");
let server: TestServer;
/** Has room for one large body at a time, and abandons one that stalls for two seconds. */
let narrow: TestServer;
test.before(async () => {
  server = await startServer();
  narrow = await startServer({ memory: { bodies: 200_000 }, limits: { stallTimeoutS: 2, lingerS: 0.2 } });
});
test.after(async () => {
  await server.stop();
  await narrow.stop();
});

const list = (count: number, item = "1"): string => `[${`${item},`.repeat(count - 1)}${item}]`;

test("JSON of a flow has at most 1 MB and 50,000 values, whatever they are", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const rename = (raw: string) => server.call("PUT", `/flows/${at.org}/${flow}/rename`, { key: at.key, raw });
  // The object, its key, the list and its items.
  assert.equal((await rename(`{"new_name":${list(49_997)}}`)).body, {
    message: "Input payload validation failed",
    errors: { new_name: "Input should be a valid string [input: list of 49997 items]" },
  });
  for (const raw of [
    `{"new_name":${list(49_998)}}`,
    `{"new_name":${list(60_000, "{}")}}`,
    `{"new_name":${list(60_000, '"é"')}}`,
  ]) {
    const { status, body } = await rename(raw);
    assert.equal(
      { status, body },
      {
        status: 413,
        body: { message: "The request body has more than 50000 values, which is the most that this operation takes" },
      },
    );
  }
  const { status, body } = await rename(`{"new_name":"${"x".repeat(1 << 20)}"}`);
  assert.equal({ status, body }, { status: 413, body: { message: "Request body size exceeds the 1MB limit" } });
});

test("the JSON part of a generic attestation has at most 700,000 scalars, and is stored as sent", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const report = (json: string) =>
    server.call("POST", `/attestations/${at.org}/${flow}/trail/t/generic`, { key: at.key, form: { json } });
  const json = (userData: string): string => `{"attestation_name":"a","is_compliant":true,"user_data": ${userData}}`;
  const refused = await report(json(list(700_000)));
  assert.equal(
    { status: refused.status, body: refused.body },
    {
      status: 413,
      body: {
        message:
          "Part 'data_json' has more than 700000 texts, numbers and words, which is the most that this operation takes",
      },
    },
  );
  assert.is((await report(json(`[{"x" : "é"}, ${list(190_000)}]`))).status, 201);
  const stored = server.db.prepare("SELECT user_data_json FROM attestations").pluck().get();
  assert.is(stored, `[{"x":"é"},${list(190_000)}]`);
});

test("the promised sizes are reached: 4 MB of a bill of materials, 8 MB of unit tests and of issues", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const report = (kind: string, json: string) =>
    server.call("POST", `/attestations/${at.org}/${flow}/trail/t/${kind}`, { key: at.key, form: { json } });
  /** A list of as many items as fit into that many megabytes. */
  const fill = (megabytes: number, item: (n: number) => string): string => {
    const length = Math.floor((megabytes * 1_048_576) / (item(99_999).length + 1));
    return `[${Array.from({ length }, (_, n) => item(n)).join(",")}]`;
  };
  const component = (n: number): string =>
    JSON.stringify({
      type: "library",
      "bom-ref": `ref-${n}`,
      name: `name-${n}`,
      version: `1.${n}.0`,
      purl: `pkg:npm/name-${n}@1.${n}.0`,
      scope: "required",
      licenses: [{ license: { id: "MIT" } }],
      hashes: [{ alg: "SHA-256", content: String(n).padStart(64, "0") }],
      properties: [{ name: "p", value: "q" }],
    });
  await server.call("POST", `/custom-attestation-types/${at.org}`, { key: at.key, form: { json: { name: "sbom" } } });
  const suite = (n: number): string =>
    `{"name":"suite ${n}","failures":0,"errors":0,"skipped":0,"total":1,"duration":0.5}`;
  const issue = (n: number): string =>
    `{"issue_id":"A-${n}","issue_url":"https://jira.example.com/A-${n}","issue_exists":true,"issue_fields":` +
    `{"summary":"${"x".repeat(120)}"}}`;
  for (const [kind, fields] of [
    ["custom", `"type_name":"sbom","attestation_data":{"components":${fill(3.99, component)}}`],
    ["junit", `"junit_results":${fill(7.99, suite)}`],
    ["jira", `"jira_results":${fill(7.99, issue)}`],
  ] as const) {
    const { status, text } = await report(kind, `{"attestation_name":"a",${fields}}`);
    assert.is(status, 201, `${kind}: ${text}`);
  }
  assert.equal(
    server.db
      .prepare(
        "SELECT DISTINCT is_compliant FROM attestations " +
          "WHERE organization_id = (SELECT id FROM organizations WHERE name = ?)",
      )
      .pluck()
      .all(at.org),
    [1],
  );
});

test("a large body is refused with the same text as a small one", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const padding = " ".repeat(300_000);
  const report = (json: string) =>
    server.call("POST", `/attestations/${at.org}/${flow}/trail/t/generic`, { key: at.key, form: { json } });
  for (const json of [
    '{"attestation_name":"a","x":1}',
    '{"attestation_name":"a~!","is_compliant":7}',
    "null",
    "[]",
    '{"attestation_name":"\\ud800"}',
    '{"a":}',
  ]) {
    const small = await report(json);
    const large = await report(json + padding);
    assert.equal({ status: large.status, body: large.body }, { status: 400, body: small.body }, json);
  }
  const deep = (levels: number): string =>
    `{"attestation_name":"a","is_compliant":true,"user_data":${"[".repeat(levels)}${"]".repeat(levels)}}`;
  assert.equal((await report(deep(128) + padding)).body, (await report(deep(128))).body);
  assert.is((await report(deep(127) + padding)).status, 201);
});

test("large bodies wait for room, small ones do not, and one that stalls gives its room back", async () => {
  const [one, other] = [narrow.given.org(), narrow.given.org()];
  const body = `{"new_name":"${"x".repeat(150_000)}"}`;
  const put = (at: { org: string; key: string }, length: number): string =>
    head("PUT", `/flows/${at.org}/flow/rename`, {
      Authorization: `Bearer ${at.key}`,
      "Content-Type": "application/json",
      "Content-Length": length,
    });
  await narrow.given.flow(one, { name: "flow" });
  await narrow.given.flow(other, { name: "flow" });
  const stalling = await dial(narrow.url);
  await stalling.send(put(one, body.length) + body.slice(0, 1000));
  const waiting = await dial(narrow.url);
  void waiting.send(put(other, body.length) + body);
  let isAnswered = false;
  const answering = waiting.answer().finally(() => (isAnswered = true));
  assert.is(
    (await narrow.call("PUT", `/flows/${other.org}/flow/rename`, { key: other.key, body: { new_name: "renamed" } }))
      .status,
    200,
  );
  assert.not(isAnswered);
  const refused = await stalling.answer();
  assert.equal(
    { status: refused.status, body: refused.body },
    {
      status: 408,
      body: { message: "The request body did not arrive in time: nothing was received for 2 seconds" },
    },
  );
  const answer = await answering;
  assert.equal({ status: answer.status, field: Object.keys(answer.body.errors) }, { status: 400, field: ["new_name"] });
  stalling.vanish();
  waiting.vanish();
});

test.run();
