import { suite } from "uvu";
import * as assert from "uvu/assert";
import { singleAllowance } from "../../../src/contract/large-json.ts";
import { listAllIds, writeTrail, writeTrails } from "../../../src/contract/trail-texts.ts";
import { urlsFor } from "../../../src/contract/urls.ts";
import { AppError } from "../../../src/errors.ts";
import { LargeAnswerError } from "../../../src/http/answers/large-answers.ts";
import type { TrailFilter } from "../../../src/store/flows/trails.ts";
import { opened } from "../../store/given.ts";

const test = suite("api/flows/trail-texts");

type Trail = { name: string; events: { type: string; number: number; text: string }[]; compliance_state: string };

function world() {
  const { db, store, organizationId, ...given } = opened();
  const organization = store.organizations.get(organizationId);
  const context = { store, organization, urls: urlsFor("https://assay.example.com") };
  const flow = given.flow("payments");
  const filter: TrailFilter = { organizationId, flowId: flow.id, flowTag: null, fingerprint: null };
  /** Adds events with the numbers `from` to `to` and about `size` characters each. */
  const addEvents = (trailId: number, from: number, to: number, size = 10): void => {
    for (let number = from; number <= to; number += 1)
      store.trails.addEvent(trailId, {
        type: "attestation_reported",
        at: 1_700_000_000 + number,
        event: { number, text: "x".repeat(size) },
      });
  };
  const trail = (flowId: number, name: string) => {
    const row = given.trail(flowId, name);
    store.trailEvaluation.evaluate(row.id, 1_700_000_000);
    return row;
  };
  return { db, store, context, flow, filter, addEvents, trail };
}

const textOf = (pieces: Iterable<string>): string => [...pieces].join("");
const parse = (pieces: Iterable<string>): Trail => JSON.parse(textOf(pieces));
const parseList = (list: ReturnType<typeof writeTrails>): Trail[] => Array.from(list, ({ text }) => JSON.parse(text));
const numbers = ({ events }: Trail): number[] => events.map(({ number }) => number);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n + 1);

test("histories that end inside, at and after a slice are complete and in order", () => {
  for (const count of [0, 1, 199, 200, 201, 400, 401, 950]) {
    const { store, context, flow, addEvents, trail } = world();
    const [one, other] = [trail(flow.id, "one").id, trail(flow.id, "other").id];
    addEvents(one, 1, count);
    addEvents(other, 1, 1);
    assert.equal(numbers(parse(writeTrail(context, store.trails.getListed(one)))), upTo(count), `${count} events`);
    assert.equal(parseList(writeTrails(context, [other, one])).map(numbers), [[1], upTo(count)], `${count} events`);
  }
});

test("a long history is read 200 events at a time while it is written", () => {
  const { store, context, flow, addEvents, trail } = world();
  const { id } = trail(flow.id, "t");
  addEvents(id, 1, 2000);
  const { listEventTexts } = store.trails;
  let slices = 0;
  store.trails.listEventTexts = (...slice) => {
    slices += 1;
    return listEventTexts(...slice);
  };
  let events = 0;
  for (const piece of writeTrail(context, store.trails.getListed(id))) {
    events += piece.includes('"number":') ? 1 : 0;
    assert.ok(slices <= 1 + events / 200, `${slices} slices after ${events} events`);
  }
  assert.is(events, 2000);
});

test("an answer that this thread may not make as a whole is given up, and no trail of it is called damaged", () => {
  const { store, context, flow, addEvents, trail } = world();
  const { id } = trail(flow.id, "t");
  addEvents(id, 1, 2000, 1000);
  const { listEventTexts } = store.trails;
  let slices = 0;
  store.trails.listEventTexts = (...slice) => {
    slices += 1;
    return listEventTexts(...slice);
  };
  const here = () => ({ ...context, answerBounds: { inlineBytes: 1 << 20, isForPage: false } });
  const isTooLarge = (error: unknown): boolean => error instanceof LargeAnswerError;
  assert.throws(() => textOf(writeTrail(here(), store.trails.getListed(id))), isTooLarge);
  // 200 events have more than 200,000 characters.
  assert.is(slices, 5);
  assert.throws(() => parseList(writeTrails(here(), [id])), isTooLarge);
  assert.is(slices, 10);
});

test("a list without pages has all trails, and of a state those in it only", () => {
  const { db, context, flow, filter, trail } = world();
  const names = Array.from({ length: 250 }, (_, n) => `t${n}`);
  for (const name of names) trail(flow.id, name);
  const all = (more: Partial<TrailFilter> = {}): string[] =>
    parseList(writeTrails(context, listAllIds(context, { ...filter, ...more }))).map(({ name }) => name);
  assert.equal(all(), [...names].reverse());
  db.prepare("UPDATE trails SET state = 'NON-COMPLIANT' WHERE name IN ('t1', 't249')").run();
  assert.equal(all({ state: "NON-COMPLIANT" }), ["t249", "t1"]);
});

test("a list without pages finds more trails than one query does", () => {
  const { db, context, flow, filter, trail } = world();
  const { id } = trail(flow.id, "t0");
  const columns = (db.pragma("table_info(trails)") as { name: string }[])
    .map(({ name }) => name)
    .filter((name) => name !== "id");
  const copied = columns.map((name) =>
    name === "name" ? "'t' || n.value" : name === "public_id" ? "'p' || n.value" : name,
  );
  db.prepare(
    `WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 5001)
     INSERT INTO trails (${columns.join(", ")}) SELECT ${copied.join(", ")} FROM n JOIN trails t ON t.id = ?`,
  ).run(id);
  assert.equal(
    parseList(writeTrails(context, listAllIds(context, filter))).map(({ name }) => name),
    Array.from({ length: 5002 }, (_, n) => `t${5001 - n}`),
  );
});

test("a damaged event makes its trail a placeholder in a list, whatever was presented before it", () => {
  const { db, store, context, flow, filter, addEvents, trail } = world();
  const [good, bad] = [trail(flow.id, "good").id, trail(flow.id, "bad").id];
  for (const id of [good, bad]) addEvents(id, 1, 500, 1000);
  db.prepare("UPDATE trail_events SET event_json = '{' WHERE id = (SELECT max(id) FROM trail_events)").run();
  const newest = store.trails.listIds(filter, { limit: 20, offset: 0 });
  const [first, second] = parseList(writeTrails(context, newest)) as [Trail & { description: string }, Trail];
  assert.is(first.name, "bad");
  assert.match(first.description, /^This record is damaged/);
  assert.equal(first.events, []);
  assert.equal(numbers(second), upTo(500));
  assert.throws(() => textOf(writeTrail(context, store.trails.getListed(bad))), /an event of trail \d+ is damaged/);
});

test("a history that exceeds one answer is refused, with what to do instead", () => {
  const { store, context, flow, addEvents, trail } = world();
  const { id } = trail(flow.id, "t");
  addEvents(id, 1, 300, 1000);
  const allowance = { ...singleAllowance({}), characters: 250_000 };
  assert.throws(
    () => textOf(writeTrail(context, store.trails.getListed(id), allowance)),
    (error: unknown) =>
      error instanceof AppError &&
      error.code === "invalid" &&
      error.message ===
        "The history of this trail is too long for one answer: read it with `events=false`, and its events in pages",
  );
});

test.run();
