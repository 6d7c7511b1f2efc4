/** Pages of a snapshot's artifacts, the log of snapshots, and the verdicts of an environment over time. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { runsOf } from "../../../src/domain/snapshot/history.ts";
import { freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { running, runningIn } from "./given.ts";

const test = suite("api/environments/snapshot-history");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

type At = { org: string; key: string };
const get = (at: At, path: string): Promise<Answer> => server.call("GET", path, { key: at.key });
const names = ({ body }: Answer): string[] => body.artifacts.map(({ name }: { name: string }) => name);

/** Three artifacts, of which `b` is allowed and the others fail; then `c` exits and `d` starts. */
async function prepared() {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: {required: true}\n" });
  const name = world.environment(at);
  world.attach(at, name, policy);
  const [a, b, c, d] = [freshFingerprint(), freshFingerprint(), freshFingerprint(), freshFingerprint()];
  world.report(at, name, [running("a", a), running("b", b), running("c", c)]);
  world.allow(at, name, b);
  world.report(at, name, [running("a", a), running("b", b), running("d", d)]);
  return { at, name, policy };
}

test("a page of a snapshot has the artifacts that fail first and those that stopped last", async () => {
  const { at, name } = await prepared();
  const path = `/snapshots/${at.org}/${name}/-1`;
  const first = await get(at, `${path}?per_page=3`);
  assert.equal(names(first), ["a", "d", "b"]);
  assert.equal(first.body.pagination, { total: 4, page: 1, per_page: 3, page_count: 2 });
  assert.equal(first.body.artifact_compliance_count, { true: 1, false: 2, null: 0 });
  assert.is(first.body.applied_policies[0].failing_artifacts.length, 2);
  assert.equal(
    first.body.artifacts.map(({ allowed }: { allowed: { description: string } | null }) => allowed?.description),
    [undefined, undefined, "because"],
  );
  assert.equal(names(await get(at, `${path}?per_page=3&page=2`)), ["c"]);
  assert.equal(names(await get(at, `${path}?page=9`)), []);
  assert.equal(names(await get(at, `${path}?show=failing`)), ["a", "d"]);
  assert.equal(names(await get(at, `${path}?show=changed`)), ["d", "c"]);
  assert.equal(names(await get(at, `${path}?show=compliant`)), ["b"]);
  assert.equal(names(await get(at, `${path}?show=unknown`)), []);
  const found = await get(at, `${path}?search=A`);
  assert.equal([names(found), found.body.pagination.total], [["a"], 1]);
  const { fingerprint } = found.body.artifacts[0];
  assert.equal(names(await get(at, `${path}?search=${fingerprint.toUpperCase()}`)), ["a"]);
  assert.equal(names(await get(at, `${path}?search=${fingerprint.slice(0, 4)}`)), [], "too short for a fingerprint");
  assert.equal(names(await get(at, `${path}?search=b&show=failing`)), []);
  assert.equal(names(await get(at, `${path}?search=%25`)), [], "no wildcard");
  assert.equal(names(await get(at, `${path}?search=`)), ["a", "d", "b", "c"]);
  assert.is((await get(at, `${path}?show=some`)).status, 400);
  assert.is((await get(at, `${path}?per_page=101`)).status, 400);
});

test("without a page, a snapshot is what it always was", async () => {
  const { at, name } = await prepared();
  const { body } = await get(at, `/snapshots/${at.org}/${name}/-1`);
  assert.equal(
    body.artifacts.map((artifact: object) => Object.hasOwn(artifact, "allowed")),
    [false, false, false, false],
  );
  assert.not.ok(Object.hasOwn(body, "pagination"));
});

test("the pages of a logical snapshot go through its members in their order", async () => {
  const at = server.given.org();
  const one = world.environment(at);
  const two = world.environment(at);
  const logical = world.environment(at, { type: "logical", members: [one, two] });
  world.report(at, one, [running("z", freshFingerprint()), running("y", freshFingerprint())]);
  world.report(at, two, [running("b", freshFingerprint()), running("a", freshFingerprint())]);
  const path = `/snapshots/${at.org}/${logical}/-1`;
  assert.equal(names(await get(at, `${path}?per_page=3`)), ["y", "z", "a"]);
  const second = await get(at, `${path}?per_page=3&page=2`);
  assert.equal(names(second), ["b"]);
  assert.is(second.body.pagination.total, 4);
  assert.equal(names(await get(at, `${path}?show=changed`)), ["a", "b"]);
});

test("the log lists snapshots with who or what made them, newest first", async () => {
  const { at, name } = await prepared();
  const { body } = await get(at, `/snapshot_log/${at.org}/${name}?per_page=2`);
  assert.equal(body.pagination, { total: 3, page: 1, per_page: 2, page_count: 2 });
  assert.equal(
    body.data.map(({ index, cause, compliant }: Record<string, unknown>) => [index, cause, compliant]),
    [
      [3, "report", false],
      [2, "allowlist", false],
    ],
  );
  const [latest, before] = body.data;
  assert.is(latest.next_timestamp, null);
  assert.is(before.next_timestamp, latest.timestamp);
  assert.equal(latest.artifact_compliance_count, { true: 1, false: 2, null: 0 });
  const last = await get(at, `/snapshot_log/${at.org}/${name}?per_page=2&page=2`);
  assert.is(last.body.data[0].next_timestamp, before.timestamp);
  assert.equal((await get(at, `/snapshot_log/${at.org}/${name}?page=99`)).body.data, []);
  // As of a snapshot: the later ones are not there, so the newest one that is has no next.
  const then = (await get(at, `/snapshot_log/${at.org}/${name}?until=2`)).body;
  assert.is(then.pagination.total, 2);
  assert.equal(
    then.data.map(({ index, next_timestamp: next }: Record<string, unknown>) => [index, next]),
    [
      [2, null],
      [1, before.timestamp],
    ],
  );
  assert.is((await get(at, `/snapshot_log/${at.org}/${name}?until=99`)).body.pagination.total, 3);
  assert.is((await get(at, `/snapshot_log/${at.org}/${name}?until=0`)).status, 400);
  assert.is((await get(at, `/snapshot_log/${at.org}/absent`)).status, 404);
  assert.is((await get(server.given.org(), `/snapshot_log/${at.org}/${name}`)).status, 403);
});

test("a snapshot of a logical environment names the member that made it", async () => {
  const at = server.given.org();
  const member = world.environment(at);
  const logical = world.environment(at, { type: "logical", members: [member] });
  world.report(at, member, [running("a", freshFingerprint())]);
  const { body } = await get(at, `/snapshot_log/${at.org}/${logical}`);
  assert.equal([body.data[0].cause, body.data[0].member], ["member", { name: member, index: 1 }]);
});

test("the history covers all snapshots with at most as many runs as asked for", async () => {
  const { at, name } = await prepared();
  const { body } = await get(at, `/snapshot_history/${at.org}/${name}`);
  assert.is(body.total, 3);
  assert.equal(
    body.runs.map(({ first_index, last_index }: Record<string, number>) => [first_index, last_index]),
    [
      [1, 1],
      [2, 2],
      [3, 3],
    ],
  );
  const merged = await get(at, `/snapshot_history/${at.org}/${name}?limit=2&around=1`);
  assert.equal(
    merged.body.runs.map(({ first_index, last_index }: Record<string, number>) => [first_index, last_index]),
    [[1, 3]],
  );
  const bare = world.environment(at);
  assert.equal((await get(at, `/snapshot_history/${at.org}/${bare}`)).body.runs, []);
  assert.is((await get(at, `/snapshot_history/${at.org}/${name}?limit=501`)).status, 400);
  assert.is((await get(at, `/snapshot_history/${at.org}/absent`)).status, 404);
});

test("runs keep every failure, and clocks that ran ahead give no gap", () => {
  const points = Array.from({ length: 5_000 }, (_, at) => ({
    index: at + 1,
    timestamp: at * 10,
    compliant: at % 2 === 0 ? true : at === 2_501 ? false : null,
  }));
  const runs = runsOf(points, { limit: 100, end: 60_000 });
  assert.ok(runs.length <= 100, String(runs.length));
  assert.equal([runs[0]?.first_index, runs.at(-1)?.last_index, runs.at(-1)?.to], [1, 5_000, 60_000]);
  for (const [at, run] of runs.entries()) if (at > 0) assert.is(run.first_index, (runs[at - 1]?.last_index ?? 0) + 1);
  assert.is(runs.filter(({ compliant }) => compliant === false).length, 1);
  const ahead = runsOf(
    [
      { index: 1, timestamp: 900, compliant: true },
      { index: 2, timestamp: 100, compliant: false },
    ],
    { limit: 10, end: 500 },
  );
  assert.equal(
    ahead.map(({ from, to }) => [from, to]),
    [
      [500, 500],
      [500, 500],
    ],
  );
});

test("lists of environments count what runs, if asked", async () => {
  const { at, name } = await prepared();
  const bare = world.environment(at);
  const { body } = await get(at, `/environments/${at.org}?page=1&counts=true`);
  const counts = new Map(body.environments.map((item: Record<string, unknown>) => [item["name"], item]));
  assert.equal((counts.get(name) as Record<string, unknown>)["artifact_compliance_count"], {
    true: 1,
    false: 2,
    null: 0,
  });
  assert.is((counts.get(bare) as Record<string, unknown>)["artifact_compliance_count"], null);
  const plain = await get(at, `/environments/${at.org}?page=1`);
  assert.not.ok(Object.hasOwn(plain.body.environments[0], "artifact_compliance_count"));
});

test("environments are listed by state, those that fail first, and counted by state", async () => {
  const { at, name } = await prepared();
  const bare = world.environment(at);
  const group = world.environment(at, { type: "logical" });
  await server.call("PUT", `/environments/${at.org}/${group}/join`, {
    key: at.key,
    body: { physical_env_name: name },
  });
  const list = async (query: string) => {
    const { status, body } = await get(at, `/environments/${at.org}?page=1&counts=true${query}`);
    assert.is(status, 200, JSON.stringify(body));
    return [body.environments.map((one: Record<string, unknown>) => one["name"]), body.total_count, body.states];
  };
  const states = { "NON-COMPLIANT": 2, COMPLIANT: 0, UNKNOWN: 1 };
  const failing = [name, group].sort();
  assert.equal(await list("&sort=state"), [[...failing, bare], 3, states]);
  assert.equal(await list("&sort=state&sort_direction=desc"), [[bare, ...failing], 3, states]);
  assert.equal(await list("&state=NON-COMPLIANT"), [failing, 2, states]);
  assert.equal(await list("&state=UNKNOWN&per_page=1"), [[bare], 1, states]);
  assert.equal(await list("&state=COMPLIANT"), [[], 0, states]);
  const wrong = await get(at, `/environments/${at.org}?state=GOOD`);
  assert.equal([wrong.status, Object.keys(wrong.body.errors)], [400, ["state"]]);
});

test("events are searched by name, fingerprint and kind", async () => {
  const { at, name } = await prepared();
  const read = async (query: string): Promise<[string[], string | null]> => {
    const answer = await get(at, `/environments/${at.org}/${name}/events?${query}`);
    const found = answer.body.map((event: Record<string, string>) => `${event["artifact_name"]} ${event["type"]}`);
    return [found, answer.headers.get("X-Total-Count")];
  };
  assert.equal(await read("kind=exited"), [["c exited"], "1"]);
  assert.equal(await read("search=D"), [["d started-non-compliant"], "1"]);
  assert.equal(await read("kind=started&per_page=1&page=2&reverse=true"), [["b started-non-compliant"], "4"]);
  assert.equal(await read("search=nothing"), [[], "0"]);
  assert.is((await get(at, `/environments/${at.org}/${name}/events?kind=born`)).status, 400);
});

test("a limited comparison has totals, and the same artifacts first", async () => {
  const at = server.given.org();
  const one = world.environment(at);
  const two = world.environment(at);
  world.report(
    at,
    one,
    ["a", "b", "c"].map((name) => running(name, freshFingerprint())),
  );
  world.report(at, two, []);
  const { body } = await get(at, `/env-diff/${at.org}?snappish1=${one}&snappish2=${two}&limit=2`);
  assert.is(body.snappish1.total, 3);
  assert.equal(
    body.snappish1.artifacts.map(({ name }: { name: string }) => name),
    ["a", "b"],
  );
  assert.equal(body.changed, { snapshot_id: null, artifacts: [], total: 0 });
  assert.is((await get(at, `/env-diff/${at.org}?snappish1=${one}&snappish2=${two}&limit=1001`)).status, 400);
});

test("the allowlist is read by environment, fingerprint and page, and entries that count alone", async () => {
  const { at, name } = await prepared();
  const put = (description: string, fingerprint: string): Promise<Answer> =>
    server.call("PUT", `/allowlists/${at.org}/${name}`, {
      key: at.key,
      body: { artifact_fingerprint: fingerprint, artifact_name: "x", description },
    });
  const fingerprint = freshFingerprint();
  await put("first", fingerprint);
  await put("second", fingerprint);
  const read = async (query: string): Promise<string[]> =>
    (await get(at, `/allowlists/${at.org}?${query}`)).body.map(
      ({ description }: { description: string }) => description,
    );
  assert.equal(await read(""), ["second", "first", "because"]);
  assert.equal(await read(`env_name=${name}&in_force=true`), ["second", "because"]);
  assert.equal(await read(`fingerprint=${fingerprint}&per_page=1&page=2`), ["first"]);
  assert.equal(await read("env_name=absent"), []);
});

test.run();
