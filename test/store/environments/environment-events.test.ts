import { suite } from "uvu";
import * as assert from "uvu/assert";
import { MAX_SEARCHED_EVENTS } from "../../../src/store/environments/environment-events.ts";
import { runtime } from "../../runtime.ts";
import { opened, plan } from "../given.ts";

const test = suite("store/environments/environment-events");
const A = "a".repeat(64);
const B = "b".repeat(64);
const C = "c".repeat(64);
const EVERYTHING = { first: 1, last: 1_000, repoIds: null };

/** prod: A starts with 2 instances; B joins; A stops and C starts; everything stops. */
function openWorld() {
  const world = opened();
  const { report, environment } = runtime(world);
  const prod = environment(world.organizationId, "prod");
  const a = { name: "a", fingerprint: A, instances: 2 };
  const b = { name: "b", fingerprint: B };
  report(prod, [a]);
  report(prod, [a, b], "ada");
  report(prod, [b, { name: "c", fingerprint: C }]);
  report(prod, []);
  return { ...world, report, environment, prod: () => world.store.environments.get(prod) };
}
const short = ({
  snapshot_index,
  name,
  annotation,
  was,
  now,
}: {
  snapshot_index: number;
  name: string;
  annotation: string;
  was: number;
  now: number;
}) => `${snapshot_index} ${name} ${annotation} ${was}-${now}`;
const LOG = [
  "1 a started-unknown 0-2",
  "2 b started-unknown 0-1",
  "3 c started-unknown 0-1",
  "3 a exited 2-0",
  "4 b exited 1-0",
  "4 c exited 1-0",
];

test("lists events newest first, or reversed, with what a snapshot shows of them", () => {
  const { store, prod } = openWorld();
  assert.equal(
    store.environmentEvents.list(prod(), EVERYTHING, { reverse: true, limit: 100, offset: 0 }).map(short),
    LOG,
  );
  const newest = store.environmentEvents.list(prod(), EVERYTHING, { reverse: false, limit: 100, offset: 0 });
  assert.equal(newest.map(short), [...LOG].reverse());
  const { id, timestamp, ...rest } = newest.at(-2) as (typeof newest)[number];
  assert.equal(
    { "typeof id": typeof id, timestamp },
    { "typeof id": "number", timestamp: store.snapshots.find(prod().id, 2)?.timestamp },
  );
  assert.equal(rest, {
    position: 2,
    environment_id: prod().id,
    environment_name: "prod",
    snapshot_index: 2,
    snapshot_compliant: null,
    user_name: "ada",
    fingerprint: B,
    name: "b",
    started_index: 2,
    annotation: "started-unknown",
    was: 0,
    now: 1,
    compliant: null,
    facts_json: '{"flows":[]}',
  });
});

test("pages, ranges and counts events", () => {
  const { store, prod } = openWorld();
  const page = (filter: { first: number; last: number }, reverse: boolean, limit: number, offset: number) =>
    store.environmentEvents.list(prod(), { ...filter, repoIds: null }, { reverse, limit, offset }).map(short);
  assert.equal(page(EVERYTHING, false, 2, 0), [LOG[5], LOG[4]]);
  assert.equal(page(EVERYTHING, false, 2, 4), [LOG[1], LOG[0]]);
  assert.equal(page(EVERYTHING, true, 4, 4), [LOG[4], LOG[5]]);
  assert.equal(page(EVERYTHING, false, 2, 6), []);
  assert.equal(page({ first: 2, last: 3 }, true, 100, 0), LOG.slice(1, 4));
  assert.equal(page({ first: 4, last: 1 }, true, 100, 0), []);
  const count = (first: number, last: number) => store.environmentEvents.count(prod(), { first, last, repoIds: null });
  assert.equal(
    { "count 1 4": count(1, 4), "count 2 3": count(2, 3), "count 4 1": count(4, 1), "count 5 9": count(5, 9) },
    { "count 1 4": 6, "count 2 3": 3, "count 4 1": 0, "count 5 9": 0 },
  );
});

test("an artifact that keeps running is not an event, whatever its instances", () => {
  const { store, report, prod } = openWorld();
  report(prod().id, [{ name: "a", fingerprint: A }]);
  report(prod().id, [
    { name: "a", fingerprint: A, instances: 3 },
    { name: "b", fingerprint: B },
  ]);
  assert.equal(
    store.environmentEvents
      .list(prod(), { first: 6, last: 6, repoIds: null }, { reverse: true, limit: 100, offset: 0 })
      .map(short),
    ["6 b started-unknown 0-1"],
  );
});

test("reads all events in pieces", () => {
  const { store, prod } = openWorld();
  for (const size of [1, 2, 3, 100]) {
    const read: string[] = [];
    let from = { first: 1, last: 4, id: 0 };
    for (;;) {
      const rows = store.environmentEvents.listAfter(prod(), from, size);
      read.push(...rows.map(short));
      const last = rows.at(-1);
      if (!last) break;
      from = { ...from, first: last.position, id: last.id };
    }
    assert.equal(read, LOG, `in pieces of ${size}`);
  }
});

test("finds the snapshots between two times, both inclusive", () => {
  const { store, prod } = openWorld();
  const at = (index: number) => store.snapshots.find(prod().id, index)?.timestamp ?? 0;
  const between = (from: number, to: number) => store.environmentEvents.findRange(prod(), { from, to, now: 9e9 });
  assert.equal(between(-Infinity, Infinity), { first: 1, last: 4 });
  assert.equal(between(at(2), at(3)), { first: 2, last: 3 });
  assert.equal(between(at(2) + 0.001, at(4) - 0.001), { first: 3, last: 3 });
  assert.equal(between(at(4) + 1, Infinity), { first: 5, last: 4 });
  assert.equal(between(-Infinity, at(1) - 1), { first: 1, last: 0 });
});

test("the events of a logical environment are those of the member snapshots that caused its own", () => {
  const { store, organizationId, environment, report } = openWorld();
  const [one, two] = [environment(organizationId, "one"), environment(organizationId, "two")];
  report(one, [{ name: "early", fingerprint: A }]);
  const all = environment(organizationId, "all", "logical", [one, two]);
  report(two, [{ name: "b", fingerprint: B }]);
  report(one, [
    { name: "early", fingerprint: A },
    { name: "c", fingerprint: C },
  ]);
  report(two, []);
  const logical = store.environments.get(all);
  const rows = store.environmentEvents.list(logical, EVERYTHING, { reverse: true, limit: 100, offset: 0 });
  assert.equal(
    rows.map((row) => [row.position, row.environment_name, short(row)]),
    [
      [1, "two", "1 b started-unknown 0-1"],
      [2, "one", "2 c started-unknown 0-1"],
      [3, "two", "2 b exited 1-0"],
    ],
  );
  assert.equal(
    store.environmentEvents
      .list(logical, { first: 2, last: 2, repoIds: null }, { reverse: false, limit: 100, offset: 0 })
      .map(short),
    ["2 c started-unknown 0-1"],
  );
  assert.is(store.environmentEvents.count(logical, EVERYTHING), 3);
  assert.equal(
    store.environmentEvents.listAfter(logical, { first: 1, last: 3, id: 0 }, 2).map(short),
    rows.slice(0, 2).map(short),
  );
  const last = rows[1] as (typeof rows)[number];
  assert.equal(
    store.environmentEvents.listAfter(logical, { first: last.position, last: 3, id: last.id }, 2).map(short),
    rows.slice(2).map(short),
  );
});

test("a repository filter uses the provenance of that time", () => {
  const { store, organizationId, environment, report, flow, trail, artifact, db } = openWorld();
  const repo = (externalId: string) =>
    store.repos.capture(organizationId, {
      externalId,
      provider: "",
      name: externalId,
      url: "https://x",
      description: "",
      namespacePath: null,
      additionalInfoJson: null,
    });
  const [first, second] = [repo("first"), repo("second")];
  const [f, g] = [flow("f"), flow("g")];
  artifact(f.id, trail(f.id, "t").id, A, { repo_id: first });
  const env = environment(organizationId, "stage");
  report(env, [
    { name: "a", fingerprint: A },
    { name: "b", fingerprint: B },
  ]);
  // B gets its provenance after it stopped, so earlier events have none.
  report(env, [{ name: "a", fingerprint: A }]);
  artifact(g.id, trail(g.id, "t").id, B, { repo_id: second });
  report(env, [{ name: "b", fingerprint: B }]);
  const stage = store.environments.get(env);
  const of = (...repoIds: number[]) =>
    store.environmentEvents
      .list(stage, { first: 1, last: 9, repoIds }, { reverse: true, limit: 100, offset: 0 })
      .map(short);
  assert.equal(of(first), ["1 a started-unknown 0-1", "3 a exited 1-0"]);
  assert.equal(of(second), ["3 b started-unknown 0-1"]);
  assert.equal(of(first, second), ["1 a started-unknown 0-1", "3 b started-unknown 0-1", "3 a exited 1-0"]);
  assert.equal(of(99), []);
  assert.is(store.environmentEvents.count(stage, { first: 1, last: 9, repoIds: [first, second] }), 3);
  // The filter reads no facts, so damaged ones hide no events; and an artifact with damaged facts can still exit.
  db.prepare(
    `UPDATE evaluations SET facts_json = '{' WHERE id = (SELECT evaluation_id FROM snapshot_artifacts
        WHERE environment_id = ? AND name = 'a' LIMIT 1)`,
  ).run(env);
  assert.equal(of(first, second), ["1 a started-unknown 0-1", "3 b started-unknown 0-1", "3 a exited 1-0"]);
  db.prepare("UPDATE evaluations SET facts_json = '{' WHERE environment_id = ?").run(env);
  report(env, []);
  assert.equal(of(second), ["3 b started-unknown 0-1"]);
  assert.is(store.environmentEvents.count(stage, { first: 1, last: 9, repoIds: null }), 6);
});

test("finds records by id", () => {
  const { store, flow, trail, artifact } = opened();
  const f = flow("f");
  const id = artifact(f.id, trail(f.id, "t").id, A, { repo_url: "https://git.example.com/x" });
  const { public_id } = store.artifacts.get(id);
  assert.equal(
    [...store.environmentEvents.findRecords([id, 99, id])],
    [
      [
        id,
        { id, public_id, flow_name: "f", repo_id: null, repo_url: "https://git.example.com/x", selector_json: "{}" },
      ],
    ],
  );
  assert.is(store.environmentEvents.findRecords([]).size, 0);
});

test("pages and counts walk the index of the events, and rows are read only for what is shown", () => {
  const { db, sql } = opened();
  const isSearch = (text: string): boolean => text.includes(`LIMIT ${MAX_SEARCHED_EVENTS}) page`);
  const searches = sql.filter(isSearch);
  assert.is(searches.length, 12);
  for (const text of searches)
    assert.equal(
      plan(db, text).filter((step) => /^SCAN (?!page$|\w+ VIRTUAL TABLE)/.test(step)),
      [],
      text,
    );
  const statements = sql.filter(
    (text) =>
      !isSearch(text) &&
      (/AS id, (event\.first_index|s\.idx) AS position/.test(text) ||
        /count\(.*\) AS n FROM (snapshots s|snapshot_artifacts event|environment_event_repos event)/.test(text)),
  );
  assert.is(statements.length, 20);
  for (const text of statements) {
    const steps = plan(db, text).map((step) => step.replace("COVERING ", ""));
    const several = text.includes("@repos");
    const events = text.includes("environment_event_repos")
      ? "SEARCH event USING PRIMARY KEY (environment_id=? AND repo_id=? AND first_index"
      : "SEARCH event USING INDEX snapshot_artifacts_events (environment_id=? AND first_index";
    const walk = text.includes("snapshots s CROSS JOIN")
      ? ["SEARCH s USING PRIMARY KEY (environment_id=? AND idx>? AND idx<?)", `${events}=?)`]
      : [`${events}>? AND first_index<?)`];
    for (const step of walk) assert.ok(steps.includes(step), `${text}\n${steps.join("\n")}`);
    assert.equal(
      steps.filter((step) => /^SCAN (?!\w+ VIRTUAL TABLE)/.test(step)),
      [],
      text,
    );
    // The events of several repositories are sorted; those of one, or of all, follow the index.
    if (!several) assert.equal(steps, walk, text);
  }
  const shown = sql.filter((text) => text.includes("AS snapshot_compliant"));
  assert.equal(
    shown.map((text) => plan(db, text).slice(1)),
    [
      [
        "SEARCH sa USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH ev USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH s USING PRIMARY KEY (environment_id=? AND idx=?)",
        "SEARCH env USING INTEGER PRIMARY KEY (rowid=?)",
      ],
    ],
  );
  const times = sql.filter((text) => /^SELECT idx FROM snapshots .* LIMIT 1$/s.test(text));
  assert.ok(times.length >= 2);
  for (const text of times)
    assert.match(
      plan(db, text).join(),
      /^SEARCH snapshots USING COVERING INDEX snapshots_by_time \(environment_id=\? AND timestamp[<>]\?\)$/,
    );
  const records = sql.filter((text) =>
    text.includes("FROM json_each(?) wanted CROSS JOIN artifacts a ON a.id = wanted.value CROSS JOIN flows"),
  );
  assert.equal(
    records.map((text) =>
      plan(db, text)
        .slice(1)
        .filter((step) => step.startsWith("S")),
    ),
    [
      [
        "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH f USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH same USING COVERING INDEX artifacts_by_flow_fingerprint (flow_id=? AND fingerprint=?)",
        "SEARCH same USING COVERING INDEX artifacts_identity (trail_id=? AND fingerprint=?)",
        "SEARCH trails USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH trails USING INTEGER PRIMARY KEY (rowid=?)",
      ],
    ],
  );
});

test.run();
