import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/flows/trail-events");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

/** A trail with some events, among them the start and stop of an artifact between reports. */
async function given() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "app" });
  const environment = await server.given.environment(at);
  const report = (artifacts: unknown[]) =>
    server.call("PUT", `/environments/${at.org}/${environment}/report/K8S`, {
      key: at.key,
      body: { type: "K8S", artifacts },
    });
  const pod = { digests: { app: fingerprint }, creationTimestamp: 1_700_000_000, podName: "app-1", namespace: "n" };
  assert.is((await report([pod])).status, 201);
  await server.given.attestation(at, { flow, trail, name: "one" });
  assert.is((await report([])).status, 201);
  for (const name of ["two", "three"]) await server.given.attestation(at, { flow, trail, name });
  const path = `/trails/${at.org}/${flow}/${trail}`;
  const read = async (query = "") => (await server.call("GET", `${path}${query}`, { key: at.key })).body;
  return { at, flow, trail, path, read };
}

test("the pages of the history join to the history of the trail, in either order", async () => {
  const { read } = await given();
  const { events } = await read();
  assert.equal(
    events.map(({ type }: { type: string }) => type),
    [
      "trail_reported",
      "artifact_creation_reported",
      "artifact_started_running",
      "trail_attestation_reported",
      "artifact_stopped_running",
      "trail_attestation_reported",
      "trail_attestation_reported",
    ],
  );
  for (const perPage of [1, 2, 3, 7, 100])
    for (const order of ["oldest", "newest"]) {
      const all: unknown[] = [];
      for (let page = 1; page <= Math.ceil(events.length / perPage); page += 1) {
        const answer = await read(`/events?order=${order}&page=${page}&per_page=${perPage}`);
        assert.equal(answer.pagination, {
          total: events.length,
          page,
          per_page: perPage,
          page_count: Math.ceil(events.length / perPage),
        });
        all.push(...answer.data);
      }
      assert.equal(all, order === "oldest" ? events : [...events].reverse(), `${perPage} ${order}`);
    }
});

test("the newest events come first, and a page beyond the end is empty", async () => {
  const { read } = await given();
  const first = await read("/events");
  assert.equal([first.data.length, first.data[0].template_reference_name], [7, "three"]);
  for (const order of ["newest", "oldest"]) assert.equal((await read(`/events?page=1000000&order=${order}`)).data, []);
});

test("a trail without its history is the trail with an empty list of events", async () => {
  const { read } = await given();
  const { events, ...whole } = await read("?events=true");
  assert.is(events.length, 7);
  assert.equal(await read("?events=false"), { ...whole, events: [] });
});

test("an unknown trail, order or page size is refused", async () => {
  const { at, flow, path } = await given();
  const status = async (address: string) => (await server.call("GET", address, { key: at.key })).status;
  assert.equal(
    [
      await status(`/trails/${at.org}/${flow}/none/events`),
      await status(`${path}/events?order=random`),
      await status(`${path}/events?per_page=101`),
      await status(`${path}?events=maybe`),
    ],
    [404, 400, 400, 400],
  );
});

test.run();
