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

test("the JSON part of an attestation has at most 200,000 values, and its user data is stored as sent", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const report = (json: string) =>
    server.call("POST", `/attestations/${at.org}/${flow}/trail/t/generic`, { key: at.key, form: { json } });
  const json = (userData: string): string => `{"attestation_name":"a","is_compliant":true,"user_data": ${userData}}`;
  const refused = await report(json(list(200_000)));
  assert.equal(
    { status: refused.status, body: refused.body },
    {
      status: 413,
      body: { message: "Part 'data_json' has more than 200000 values, which is the most that this operation takes" },
    },
  );
  assert.is((await report(json(`[{"x" : "é"}, ${list(190_000)}]`))).status, 201);
  const stored = server.db.prepare("SELECT user_data_json FROM attestations").pluck().get();
  assert.is(stored, `[{"x":"é"},${list(190_000)}]`);
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
