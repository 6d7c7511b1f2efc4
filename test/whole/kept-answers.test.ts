/**
 * Answers that the response cache keeps are those that a fresh read gives, after whatever was written. Every operation
 * that changes something is called with generated requests; after each of them all questions are asked twice, once
 * under a new address.
 */
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../src/api/index.ts";
import { isReading } from "../../src/http/operation.ts";
import { fresh, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { explain } from "../store/given.ts";
import { createClient, valid, write } from "./requests.ts";
import { createWatcher } from "./watch.ts";
import { createWorld } from "./world.ts";
import type { World } from "./world.ts";

/** Requests for each operation that changes something. */
const WRITES = 3;
/** Questions for each cacheable operation, and as many more as generated ones are answered with 200. */
const QUESTIONS = 60;
const MAX_ANSWERED = 8;

const test = suite("whole/kept-answers");
const watcher = createWatcher();
const cacheable = operations.filter((one) => one.cacheable);
let world: World;
let server: TestServer;
let key: string;
test.before(async () => {
  world = await createWorld();
  server = await startServer({ from: world.image, wrapDatabase: watcher.watch });
  // Its own, so that no generated request revokes it.
  key = server.given.user(world.org, "admin");
});
test.after(async () => {
  await server.stop();
  await world.stop();
});

type Client = ReturnType<typeof createClient>;
const ask = (client: Client, target: string) =>
  client.send({ method: "GET", target, headers: { Authorization: `Bearer ${key}` }, body: null });

/** Addresses of cacheable operations that are answered with 200, and may be kept. */
async function questions(client: Client): Promise<string[]> {
  const answered: string[] = [];
  for (const operation of cacheable) {
    const drafts = fc.sample(valid(operation, world), { seed: 5, numRuns: QUESTIONS });
    const targets = new Set(drafts.map((draft) => write(draft, world).target));
    const found: string[] = [];
    for (const target of targets)
      if (found.length < MAX_ANSWERED && (await ask(client, target)).status === 200) found.push(target);
    assert.ok(found.length > 2, `${operation.id} was answered ${found.length} times`);
    answered.push(...found);
  }
  return answered;
}

const underNewAddress = (target: string): string => `${target}${target.includes("?") ? "&" : "?"}${fresh("new")}=1`;

test("a kept answer is that of a fresh read, after any request to any operation", async () => {
  const client = createClient(server.url);
  const targets = await questions(client);
  const writes = operations
    .filter((one) => !isReading(one) && one.status !== "removed")
    .flatMap((operation) => fc.sample(valid(operation, world), { seed: 11, numRuns: WRITES }));
  // Not one operation after the other: most changes matter only after others.
  const order = fc.sample(fc.shuffledSubarray(writes, { minLength: writes.length }), { seed: 3, numRuns: 1 })[0] ?? [];
  const changed = new Set<string>();
  let last: string[] = [];
  for (const draft of order) {
    const { status } = await client.send(write({ ...draft, role: "admin" }, world));
    await server.settled();
    const now: string[] = [];
    for (const target of targets) {
      const [kept, read] = [await ask(client, target), await ask(client, underNewAddress(target))];
      const where = `${target} after ${draft.operation.id} (${status})`;
      assert.equal({ status: kept.status, text: kept.text }, { status: read.status, text: read.text }, where);
      now.push(read.text);
    }
    if (last.length > 0 && now.some((text, n) => text !== last[n])) changed.add(draft.operation.id);
    last = now;
  }
  client.close();
  assert.ok(changed.size >= 5, `only these changed an answer: ${[...changed].join(", ")}`);
});

test("an answer is read from memory while other trails are written", async () => {
  const at = { org: world.org, key };
  const flow = await server.given.flow(at);
  const trails = [await server.given.trail(at, { flow }), await server.given.trail(at, { flow })] as const;
  const fingerprint = await server.given.artifact(at, { flow, trail: trails[0], name: "one" });
  const paths = [
    `/artifacts/${world.org}/${flow}/fingerprint/${fingerprint}`,
    `/asserts/${world.org}/fingerprint/${fingerprint}`,
  ];
  for (const path of paths) await server.call("GET", path, { key });
  const attest = (trail: string) =>
    server.given.attestation(at, {
      flow,
      trail,
      file: { name: "attachment_file", filename: "evidence", content: fresh("evidence") },
    });
  const reads = async (): Promise<number[]> => {
    const counts: number[] = [];
    for (const path of paths) counts.push((await watcher.during(() => server.call("GET", path, { key }))).length);
    return counts;
  };
  assert.equal(await reads(), [1, 1], "nothing but the look for other processes");
  await attest(trails[1]);
  await server.given.artifact(at, { flow, trail: trails[1], name: "two" });
  await server.given.trail(at, { flow });
  assert.equal(await reads(), [1, 1]);
  await attest(trails[0]);
  assert.ok((await reads()).every((count) => count > 1));
  assert.equal(await reads(), [1, 1]);
});

test("cacheable operations read no table whose changes do not count", async () => {
  const client = createClient(server.url);
  const targets = await questions(client);
  const ran = await watcher.during(async () => {
    for (const target of targets) await ask(client, underNewAddress(target));
  });
  client.close();
  const watched = new Set(
    server.db
      .prepare<[], string>("SELECT DISTINCT tbl_name FROM temp.sqlite_schema WHERE sql LIKE '%INSERT ON%'")
      .pluck()
      .all(),
  );
  const reads = ran.filter((sql) => /^\s*(SELECT|WITH)/i.test(sql));
  assert.ok(reads.length > 10);
  const unwatched = reads.flatMap((sql) => tablesRead(sql).filter((table) => !watched.has(table)));
  assert.equal([...new Set(unwatched)], []);
});

/** The tables that a statement opens, found in its program. */
function tablesRead(sql: string): string[] {
  const byRoot = new Map(
    server.db
      .prepare<[], { rootpage: number; tbl_name: string }>("SELECT rootpage, tbl_name FROM main.sqlite_schema")
      .all()
      .map(({ rootpage, tbl_name }) => [rootpage, tbl_name]),
  );
  return explain(server.db, sql)
    .filter(({ opcode, p3 }) => opcode === "OpenRead" && p3 === 0)
    .map(({ p2 }) => byRoot.get(p2) ?? `page ${p2}`);
}

test.run();
