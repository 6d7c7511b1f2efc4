/** Large answers over HTTP: made in the reader thread, from files, and the same as those that are made here. */
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { getRepoLiveArtifacts } from "../../src/api/flows/repo-releases.ts";
import { presentSnapshot } from "../../src/contract/present-snapshot.ts";
import { urlsFor } from "../../src/contract/urls.ts";
import { MAX_INLINE_ANSWER_BYTES } from "../../src/http/answers/large-answers.ts";
import { jsonPieces } from "../../src/json/text.ts";
import { openSecondWriter } from "../../src/store/db/connection.ts";
import { openStore } from "../../src/store/index.ts";
import { freshCommit, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { until } from "../patience.ts";
import { running, runningIn } from "./environments/given.ts";

const test = suite("api/large-reads");
const directory = mkdtempSync(join(tmpdir(), "assay-large-reads-"));
let server: TestServer;
/** With the same records in memory, where every answer is made on the main thread. */
let plain: TestServer;
let at: { org: string; key: string };
let names: Awaited<ReturnType<typeof prepare>>;

const ARTIFACTS = 900;
const ATTESTATIONS = 8;
const EVENTS = 1_200;

async function prepare() {
  const world = runningIn(server);
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const artifact = await server.given.artifact(at, { flow, trail, name: "app", commit: freshCommit() });
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: {required: true}\n" });
  const environment = world.environment(at);
  world.attach(at, environment, policy);
  const other = world.environment(at);
  const group = world.environment(at, { type: "logical", members: [environment, other] });
  const strays = Array.from({ length: ARTIFACTS }, (_, n) => running(`stray-${n}`, n.toString(16).padStart(64, "d")));
  world.report(at, environment, [running("app", artifact), ...strays]);
  world.report(at, other, strays.slice(0, 2));
  world.report(at, environment, [running("app", artifact), ...strays.slice(7)]);
  for (let n = 0; n < ATTESTATIONS; n += 1)
    await server.call("POST", `/attestations/${at.org}/${flow}/trail/${trail}/generic`, {
      key: at.key,
      form: { json: { attestation_name: "tests", is_compliant: true, user_data: { n, text: "é".repeat(150_000) } } },
    });
  const { id } = server.store.trails.find(server.store.flows.require(organization(server), flow).id, trail) as {
    id: number;
  };
  server.db.transaction(() => {
    for (let number = 0; number < EVENTS; number += 1)
      server.store.trails.addEvent(id, {
        type: "trail_reported",
        at: 1_700_000_000 + number,
        event: { template_id: "", setting_user_id: "x".repeat(1_000), git_commit_info: null, repo_info: null },
      });
  })();
  return { flow, trail, environment, group, to: `${server.clock.at}.0` };
}

const organization = ({ store }: TestServer) => {
  const row = store.organizations.find(at.org);
  assert.ok(row);
  return row;
};

test.before(async () => {
  server = await startServer({ directory });
  server.db.pragma("synchronous = OFF");
  at = server.given.org();
  names = await prepare();
  const image = server.image();
  // Without a write-ahead log, which a database in memory cannot have (bytes 18 and 19 of the file format).
  image.database.fill(1, 18, 20);
  plain = await startServer({ from: image });
  plain.clock.at = server.clock.at;
});
test.after(async () => {
  await plain?.stop();
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** Paths whose answers are larger than a megabyte. */
const paths = (): string[] => {
  const { flow, trail, environment, group, to } = names;
  const path = (...parts: string[]): string => `/${parts.map(encodeURIComponent).join("/")}`;
  return [
    path("snapshots", at.org, environment, "-1"),
    path("snapshots", at.org, environment, "#1"),
    path("snapshots", at.org, environment, "@{now}"),
    path("snapshots", at.org, group, "-1"),
    `${path("env-diff", at.org)}?snappish1=${environment}%231&snappish2=${environment}`,
    `${path("env-diff", at.org)}?snappish1=${group}&snappish2=${environment}`,
    `${path("snapshot-diff", at.org)}?snappish1=${environment}%231&snappish2=${environment}&per_page=100`,
    `${path("snapshot-diff", at.org)}?snappish1=${group}&snappish2=${environment}&per_page=100`,
    `${path("attestations", at.org)}?per_page=50`,
    `${path("attestations", at.org, flow)}?per_page=50`,
    path("attestations", at.org, flow, "trail", trail),
    path("attestations", at.org, flow, "trail", trail, "tests"),
    path("trails", at.org, flow, trail),
    path("trails", at.org, flow),
    `${path("trails", at.org, flow)}?per_page=20`,
    path("trails", at.org),
    `${path("explanations", at.org, "environments", environment, "-1")}?per_page=50`,
    `${path("changes", at.org)}?environment=${environment}&from=2023-01-01&to=2030-01-01&per_page=200`,
    `${path("audit-binder", at.org)}?environment=${environment}&from=2023-01-01&to=${to}`,
    `${path("audit-binder", at.org)}?flow=${flow}&from=2023-01-01&to=${to}`,
  ];
};

const staged = (): string[] => readdirSync(join(directory, "staging"));
const get = (path: string, headers: Record<string, string> = {}) =>
  server.call("GET", path, { key: at.key, headers: { "Accept-Encoding": "identity", ...headers } });

/** A request whose answer is not read until the test reads it. */
function ask(path: string, { method = "GET", headers = {} } = {}): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = request(`${server.url}/api/v2${path}`, {
      method,
      agent: false,
      headers: { Authorization: `Bearer ${at.key}`, ...headers },
    });
    sent.once("response", resolve).once("error", reject).end();
  });
}

test("a page of a snapshot is made there when it is chosen from more than 10,000 artifacts", async () => {
  const world = runningIn(server);
  const environment = world.environment(at);
  const strays = Array.from({ length: 10_001 }, (_, n) => running(`many-${n}`, n.toString(16).padStart(64, "e")));
  for (const [count, hasValidator] of [
    [10_000, true],
    [10_001, false],
  ] as const) {
    world.report(at, environment, strays.slice(0, count));
    const page = await get(`/snapshots/${at.org}/${environment}/-1?per_page=2`);
    assert.is(page.status, 200);
    const { artifacts, pagination } = page.body as { artifacts: { name: string }[]; pagination: { total: number } };
    assert.is(artifacts.length, 2);
    assert.is(pagination.total, count);
    assert.is(page.headers.has("ETag"), hasValidator, `${count} artifacts`);
  }
});

test("snapshots are compared there when more than 12,000 rows of artifacts have to be read", async () => {
  const world = runningIn(server);
  const [one, two] = [world.environment(at), world.environment(at)];
  const strays = Array.from({ length: 12_000 }, (_, n) =>
    running(`many-${n}`, (n + 65_536).toString(16).padStart(64, "f")),
  );
  const compare = (from: string, to: string, more = "") =>
    get(`/snapshot-diff/${at.org}?snappish1=${from}&snappish2=${to}${more}`);
  const isThere = async (...sides: Parameters<typeof compare>): Promise<boolean> => {
    const { status, headers } = await compare(...sides);
    assert.is(status, 200);
    return !headers.has("ETag");
  };
  world.report(at, one, strays.slice(1));
  world.report(at, two, strays.slice(0, 1));
  assert.is(await isThere(one, two), false);
  world.report(at, one, strays);
  assert.is(await isThere(one, two), true, "12,001 on both sides");
  assert.is(await isThere(`${one}~1`, one), false, "most of them are the same row");
  assert.is(await isThere(`${one}~1`, one, "&kind=unchanged"), true);
  assert.is(await isThere(`${one}~1`, one, "&search=many-11"), true);
  world.report(at, one, strays.slice(2));
  assert.is(await isThere(`${one}~1`, one), true, "rows of what exited, too");
  const { counts } = (await compare(`${one}~1`, one)).body as { counts: Record<string, number> };
  const { counts: whole } = (await compare(`${one}~1`, one, "&kind=unchanged")).body as typeof counts & {
    counts: typeof counts;
  };
  assert.equal([counts["exited"], counts["unchanged"], whole], [2, 11_998, counts]);
});

test("each is the answer that the main thread makes, with its length and without a validator", async () => {
  for (const path of paths()) {
    const answer = await get(path, { "If-None-Match": "*" });
    assert.is(answer.status, 200, path);
    const length = Number(answer.headers.get("Content-Length"));
    assert.is(length, Buffer.byteLength(answer.text), path);
    if (!/^.(env-diff|snapshot-diff|explanations|changes|audit-binder)/.test(path))
      assert.ok(length > MAX_INLINE_ANSWER_BYTES, `${path}: ${length}`);
    assert.equal(
      ["ETag", "Cache-Control", "Content-Type", "Vary"].map((name) => answer.headers.get(name)),
      [null, "private, no-cache", "application/json; charset=utf-8", "Accept-Encoding"],
      path,
    );
    const expected = await plain.call("GET", path, { key: at.key });
    assert.ok(answer.text === expected.text, path);
  }
  assert.equal(staged(), []);
});

test("a client that accepts gzip gets the same bytes compressed", async () => {
  for (const path of paths()) {
    const response = await ask(path, { headers: { "Accept-Encoding": "gzip" } });
    assert.is(response.headers["content-encoding"], "gzip", path);
    const bytes = await buffer(response);
    assert.is(bytes.length, Number(response.headers["content-length"]), path);
    assert.ok(gunzipSync(bytes).toString() === (await get(path)).text, path);
  }
});

test("HEAD makes no answer, and refusals are the same as for GET", async () => {
  for (const path of paths()) {
    const response = await ask(path, { method: "HEAD" });
    assert.is(response.statusCode, 200, path);
    assert.is(response.headers["content-type"], "application/json; charset=utf-8", path);
    assert.is((await buffer(response)).length, 0);
  }
  const refused: readonly [path: string, status: number][] = [
    [`/snapshots/${at.org}/${names.environment}/77`, 404],
    [`/snapshots/${at.org}/${names.environment}/nonsense`, 400],
    [`/env-diff/${at.org}?snappish1=${names.environment}&snappish2=missing`, 404],
    [`/snapshot-diff/${at.org}?snappish1=${names.environment}&snappish2=missing`, 404],
    [`/trails/${at.org}/${names.flow}/missing`, 404],
    [`/changes/${at.org}?environment=missing`, 404],
    [`/changes/${at.org}?from=yesterday`, 400],
    [`/audit-binder/${at.org}?flow=missing`, 404],
    [`/audit-binder/${at.org}`, 400],
  ];
  for (const [path, status] of refused) {
    assert.is((await ask(path, { method: "HEAD" })).statusCode, status, path);
    const answer = await get(path);
    assert.is(answer.status, status, path);
    assert.equal(answer.body, (await plain.call("GET", path, { key: at.key })).body, path);
  }
});

test("the main thread reads no more of a large answer than it would make itself", async () => {
  const { largeJson, trails } = server.store;
  const { findText } = largeJson;
  const { listEventTexts } = trails;
  let bytes = 0;
  let events = 0;
  largeJson.findText = (...place) => {
    const text = findText(...place);
    bytes += text?.length ?? 0;
    return text;
  };
  trails.listEventTexts = function* (...slice) {
    for (const text of listEventTexts(...slice)) {
      events += 1;
      yield text;
    }
  };
  try {
    for (const path of paths()) {
      [bytes, events] = [0, 0];
      assert.is((await get(path)).status, 200, path);
      assert.ok(bytes <= MAX_INLINE_ANSWER_BYTES, `${path}: ${bytes} bytes of long texts`);
      assert.ok(events <= EVENTS, `${path}: ${events} events`);
    }
  } finally {
    Object.assign(largeJson, { findText });
    Object.assign(trails, { listEventTexts });
  }
});

test("a write in the middle does not show", () => {
  const db = openSecondWriter(directory);
  try {
    const store = openStore(db, { now: () => 0, newId: () => "" });
    const row = store.organizations.find(at.org);
    assert.ok(row);
    const context = { store, organization: row, urls: urlsFor("http://assay.test") };
    const pieces = (): Generator<string> => {
      const environment = store.environments.require(row, names.environment);
      const snapshot = store.snapshots.find(environment.id, 2);
      assert.ok(snapshot);
      return jsonPieces(presentSnapshot(context, { environment, snapshot }));
    };
    db.exec("BEGIN");
    const before = [...pieces()].join("");
    let text = "";
    for (const piece of pieces()) {
      if (text === "")
        server.store.flows.rename(server.store.flows.require(organization(server), names.flow), "renamed");
      text += piece;
    }
    db.exec("COMMIT");
    assert.ok(text === before);
    assert.ok([...pieces()].join("").includes('"flow_name":"renamed"'));
  } finally {
    server.store.flows.rename(server.store.flows.require(organization(server), "renamed"), names.flow);
    db.close();
  }
});

test("a client that does not read keeps neither the log nor a file that has a name", async () => {
  const [path] = paths() as [string];
  const response = await ask(path, { headers: { "Accept-Encoding": "identity" } });
  response.pause();
  const flow = await server.given.flow(at);
  assert.ok(flow);
  const checkpoint = (): unknown => (server.db.pragma("wal_checkpoint(TRUNCATE)") as object[])[0];
  assert.equal(checkpoint(), { busy: 0, log: 0, checkpointed: 0 });
  assert.equal(staged(), []);
  assert.is((await buffer(response)).length, Number(response.headers["content-length"]));
});

const answerFiles = (): number =>
  readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).includes("/staging/answer-");
    } catch {
      return false;
    }
  }).length;

test("a client that disconnects in the middle leaves nothing open", async () => {
  for (const path of paths().slice(0, 5)) {
    const response = await ask(path, { headers: { "Accept-Encoding": "identity" } });
    response.destroy();
  }
  await until("all files are closed", () => answerFiles() === 0);
  assert.equal(staged(), []);
});

test("what runs of a repository is looked for in the reader thread where thousands of artifacts run", async () => {
  const own = server.given.org();
  const world = runningIn(server);
  const flow = await server.given.flow(own);
  const repo_info = { name: "acme/shop", url: "https://git.test/acme/shop", provider: "github", id: "R1" };
  const artifact = await server.given.artifact(own, { flow, trail: "release", name: "app", repo_info });
  const environment = world.environment(own);
  const { store } = server;
  const isLarge = (): boolean | undefined => {
    const row = store.organizations.find(own.org);
    return getRepoLiveArtifacts.isLarge?.({ store, organization: row } as never, null as never, undefined as never);
  };
  const live = async () => {
    const { status, body } = await server.call("GET", `/repos/${own.org}/live-artifacts/acme%2Fshop`, { key: own.key });
    assert.is(status, 200, JSON.stringify(body));
    const { live_artifacts, _embedded } = body;
    return {
      names: live_artifacts.map(({ artifact_name }: { artifact_name: string }) => artifact_name),
      artifacts: _embedded.artifacts.map(({ fingerprint }: { fingerprint: string }) => fingerprint),
      environments: _embedded.environments.map(({ name }: { name: string }) => name),
    };
  };
  const shop = { names: ["app", "copy of app"], artifacts: [artifact], environments: [environment] };
  world.report(own, environment, [running("app", artifact), running("copy of app", artifact)]);
  assert.equal([isLarge(), await live()], [false, shop]);
  const strays = Array.from({ length: 10_000 }, (_, n) => running(`stray-${n}`, n.toString(16).padStart(64, "e")));
  world.report(own, environment, [running("app", artifact), running("copy of app", artifact), ...strays]);
  assert.equal([isLarge(), await live()], [true, shop]);
});

test.run();
