/**
 * A clock that is wrong once does not distort the history of environments: two years ahead for one report, then right
 * again.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Findings } from "../../src/diagnostics/verify/check.ts";
import { checkEnvironments } from "../../src/diagnostics/verify/environments.ts";
import { verifyInstallation } from "../../src/diagnostics/verify/verify.ts";
import { freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const test = suite("api/clock");

const DAY = 86_400;
const HOUR = 3_600;
const YEARS = 730 * DAY;

let server: TestServer;
let directory = "";
test.before(async () => {
  directory = mkdtempSync(join(tmpdir(), "assay-clock-"));
  server = await startServer({ directory });
});
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

/**
 * An environment in a group, with five snapshots, the second by a clock two years ahead. `times` are those of
 * the clock at each report. A policy that requires provenance gives verdicts to re-evaluate.
 */
async function bent() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const known = await server.given.artifact(at, { flow, trail, name: "known" });
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" });
  const environment = await server.given.environment(at, { type: "docker", policies: [policy] });
  const group = await server.given.environment(at, { type: "logical", members: [environment] });
  const start = server.clock.at;
  const sets = [[known], [known, freshFingerprint()], [known], [known, freshFingerprint()], [known]];
  const offsets = [0, YEARS, 2 * HOUR, 4 * HOUR, 2 * DAY];
  const times: number[] = [];
  for (const [place, fingerprints] of sets.entries()) {
    server.clock.at = start + (offsets[place] as number);
    times.push(server.clock.at);
    const artifacts = fingerprints.map((fingerprint) => ({
      digests: { [`app-${fingerprint.slice(0, 4)}`]: fingerprint },
      creationTimestamp: 1,
    }));
    const { status, text } = await server.call("PUT", `/environments/${at.org}/${environment}/report/docker`, {
      key: at.key,
      body: { artifacts, type: "docker" },
    });
    assert.is(status, 201, text);
  }
  server.clock.at = start + 2 * DAY + HOUR;
  const get = (path: string) => server.call("GET", path, { key: at.key });
  const read = async (expression: string, of = environment): Promise<number | string> => {
    const { status, body } = await get(`/snapshots/${at.org}/${of}/${encodeURIComponent(expression)}`);
    return status === 200 ? body.index : `${status} ${body.message}`;
  };
  return { at, environment, group, start, times, get, read };
}

const moment = (seconds: number): string => `@{${new Date(seconds * 1000).toISOString().slice(0, 19)}}`;

test("snapshots have the times of the clock before, during and after its error", async () => {
  const { at, environment, group, times, get } = await bent();
  for (const name of [environment, group]) {
    const { body } = await get(`/snapshots/${at.org}/${name}?reverse=true`);
    assert.equal(
      body.map(({ index }: { index: number }) => index),
      [1, 2, 3, 4, 5],
    );
    body.forEach(({ from }: { from: number }, place: number) => {
      assert.ok(
        Math.abs(from - (times[place] as number)) < HOUR,
        `${name}#${place + 1} has ${from}, the clock showed ${times[place]}`,
      );
    });
    assert.equal(
      body.map(({ duration }: { duration: number }) => duration < 0),
      [false, false, false, false, false],
    );
    assert.is(body[1].duration, 0, "the snapshot of the wrong clock was followed by one of an earlier time");
  }
});

test("time expressions find the snapshot in force, in the environment and in its group", async () => {
  const { environment, group, start, read } = await bent();
  const cases: [string, number][] = [
    ["@{now}", 5],
    ["@{0.hours.ago}", 5],
    ["@{1.day.ago}", 4],
    [moment(start + 3 * HOUR), 3],
    [moment(start + 5 * HOUR), 4],
    [moment(start + HOUR), 1],
    [moment(start + 2 * DAY - HOUR), 4],
    [moment(start + YEARS + DAY), 5],
    ["-1", 5],
    ["~3", 2],
  ];
  for (const name of [environment, group])
    for (const [expression, index] of cases) assert.is(await read(expression, name), index, `${name} ${expression}`);
  assert.match(String(await read(moment(start - HOUR))), /^404 .*resolves to '.*#0'/);
});

test("the latest snapshot is the current one even if its time is in the future", async () => {
  const at = server.given.org();
  const environment = await server.given.environment(at, { type: "docker" });
  const start = server.clock.at;
  const report = (fingerprint: string) =>
    server.call("PUT", `/environments/${at.org}/${environment}/report/docker`, {
      key: at.key,
      body: { artifacts: [{ digests: { app: fingerprint }, creationTimestamp: 1 }], type: "docker" },
    });
  await report(freshFingerprint());
  server.clock.at = start + YEARS;
  await report(freshFingerprint());
  server.clock.at = start + HOUR;
  const read = async (expression: string): Promise<number> =>
    (await server.call("GET", `/snapshots/${at.org}/${environment}/${encodeURIComponent(expression)}`, { key: at.key }))
      .body.index;
  assert.equal(
    {
      now: await read("@{now}"),
      "10 minutes after the start": await read(moment(start + 600)),
      "two years after the start": await read(moment(start + 2 * YEARS)),
    },
    { now: 2, "10 minutes after the start": 1, "two years after the start": 2 },
  );
  const { body } = await server.call("GET", `/snapshots/${at.org}/${environment}`, { key: at.key });
  assert.equal(body.map(({ index, duration }: { index: number; duration: number }) => [index, duration])[0], [2, 0]);
});

test("intervals, events and the audit log keep the order of numbers and end with the current snapshot", async () => {
  const { at, environment, group, start, get } = await bent();
  const indexes = async (path: string, name = "index"): Promise<number[]> =>
    (await get(path)).body.map((row: Record<string, number>) => row[name]);
  const list = (interval: string) =>
    indexes(`/snapshots/${at.org}/${environment}?reverse=true&interval=${encodeURIComponent(interval)}`);
  assert.equal(await list("@{1.day.ago}..NOW"), [4, 5]);
  assert.equal(await list(`${moment(start + 3 * HOUR)}..@{now}`), [3, 4, 5]);
  assert.equal(await list(`1..${moment(start + 3 * HOUR)}`), [1, 2, 3]);

  const events = (query: string, of = environment) =>
    indexes(`/environments/${at.org}/${of}/events?reverse=true&per_page=100&${query}`, "snapshot_index").then((all) => [
      ...new Set(all),
    ]);
  for (const name of [environment, group]) {
    assert.equal(await events("", name), [1, 2, 3, 4, 5], name);
    assert.equal(await events(`from=${start + 3 * HOUR}`, name), [4, 5], name);
    assert.equal(await events(`to=${start + 3 * HOUR}`, name), [1, 2, 3], name);
    assert.equal(await events(`from=${start + HOUR}&to=${start + 3 * HOUR}`, name), [2, 3], name);
    assert.equal(await events("start=1day", name), [5], name);
    assert.equal(
      await events(`start=${Math.floor(start + YEARS + DAY)}`, name),
      [],
      "nothing was made since a time to come",
    );
  }
  const csv = await get(
    `/environments/${at.org}/${environment}/auditlog?from_timestamp=${start + HOUR}&to_timestamp=${start + 3 * HOUR}`,
  );
  assert.is(csv.status, 200, csv.text);
  assert.is(csv.text.trimEnd().split("\n").length, 3, csv.text);
});

test("diffs compare the snapshots that the expressions select", async () => {
  const { at, environment, get } = await bent();
  const { body } = await get(
    `/env-diff/${at.org}?snappish1=${encodeURIComponent(`${environment}@{1.day.ago}`)}` +
      `&snappish2=${encodeURIComponent(`${environment}@{now}`)}`,
  );
  assert.equal(
    { "snappish1.snapshot_id": body.snappish1.snapshot_id, "snappish2.snapshot_id": body.snappish2.snapshot_id },
    { "snappish1.snapshot_id": `${environment}#4`, "snappish2.snapshot_id": `${environment}#5` },
  );
  assert.equal(
    {
      "snappish1.artifacts.length": body.snappish1.artifacts.length,
      "not-changed.artifacts.length": body["not-changed"].artifacts.length,
    },
    { "snappish1.artifacts.length": 1, "not-changed.artifacts.length": 1 },
  );
});

test("lists starts and exits of an artifact in the order of recording", async () => {
  const { at, environment } = await bent();
  const id = (
    server.store.environments.find((server.store.organizations.find(at.org) as { id: number }).id, environment) as {
      id: number;
    }
  ).id;
  const gone = server.db
    .prepare<[number], string>(
      "SELECT fingerprint FROM snapshot_artifacts WHERE environment_id = ? AND annotation = 'exited' ORDER BY id",
    )
    .pluck()
    .get(id);
  const { transitions } = server.store.artifactLocations.findByFingerprint(
    (server.store.organizations.find(at.org) as { id: number }).id,
    gone as string,
  );
  assert.equal(
    transitions.map(({ snapshot_index, started }) => [snapshot_index, started]),
    [
      [2, true],
      [3, false],
    ],
  );
});

test("history does not run backwards when the clock steps back by less than a day", async () => {
  const { at, environment, get } = await bent();
  server.clock.at -= 3 * HOUR;
  await server.call("PUT", `/environments/${at.org}/${environment}/report/docker`, {
    key: at.key,
    body: { artifacts: [], type: "docker" },
  });
  const { body } = await get(`/snapshots/${at.org}/${environment}?per_page=2`);
  assert.equal(
    body.map(({ index }: { index: number }) => index),
    [6, 5],
  );
  assert.is(body[0].from, body[1].from);
});

test("verify finds the history intact, and every stored verdict unchanged when it is re-evaluated", async () => {
  const { environment } = await bent();
  await server.writer.idle();
  const found: string[] = [];
  const results = await verifyInstallation({
    db: server.db,
    store: server.evidenceStore,
    staged: [],
    quick: false,
    now: server.clock.at,
  });
  for (const { name: check, findings } of results)
    found.push(...findings.map(({ about, problem }) => `${check}: ${about} ${problem}`));
  assert.equal(found, []);

  const setbacks = server.db.prepare("SELECT count(*) FROM snapshot_setbacks").pluck();
  assert.ok(Number(setbacks.get()) > 0);
  const problems = async (): Promise<string[]> => {
    const all: string[] = [];
    const sink: Findings = {
      damage: (about, problem) => void all.push(`${about}: ${problem}`),
      count: () => undefined,
      note: () => undefined,
    };
    await checkEnvironments(server.db, sink);
    return all.filter((text) => text.includes(environment));
  };
  server.db.exec("SAVEPOINT damage");
  try {
    server.db
      .prepare("DELETE FROM snapshot_setbacks WHERE environment_id = (SELECT id FROM environments WHERE name = ?)")
      .run(environment);
    assert.match(
      (await problems()).join("\n"),
      /snapshot 3 is older than the one before it, and no setback is recorded/,
    );
    server.db
      .prepare("INSERT INTO snapshot_setbacks SELECT id, 4, 1 FROM environments WHERE name = ?")
      .run(environment);
    assert.match((await problems()).join("\n"), /snapshot 4 [^\n]*which contradicts its recorded setback to 1/);
  } finally {
    server.db.exec("ROLLBACK TO damage; RELEASE damage");
  }
});

test.run();
