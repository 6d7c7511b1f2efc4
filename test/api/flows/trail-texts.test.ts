import { suite } from "uvu";
import * as assert from "uvu/assert";
import { singleAllowance } from "../../../src/contract/large-json.ts";
import { presentAllTrails, presentTrailPage, presentTrailText } from "../../../src/contract/trail-texts.ts";
import { urlsFor } from "../../../src/contract/urls.ts";
import { AppError } from "../../../src/errors.ts";
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

/** Finishes the steps. @param between runs between two of them; `pauses` counts how often */
function finish(steps: Generator<undefined, string[]>, between: (n: number) => void = () => {}) {
  for (let pauses = 0; ; pauses += 1) {
    const step = steps.next();
    if (step.done) return { value: JSON.parse(step.value.join("")) as unknown, pauses };
    between(pauses);
  }
}
const numbers = ({ events }: Trail): number[] => events.map(({ number }) => number);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n + 1);

test("a short list is one step", () => {
  const { store, context, flow, filter, addEvents, trail } = world();
  const { id } = trail(flow.id, "t");
  addEvents(id, 1, 3);
  const { value, pauses } = finish(presentTrailPage(context, store.trails.listIds(filter, { limit: 20, offset: 0 })));
  assert.equal((value as Trail[]).map(numbers), [[1, 2, 3]]);
  assert.is(pauses, 0);
});

test("histories that end inside, at and after a slice are complete and in order", () => {
  for (const count of [0, 1, 199, 200, 201, 400, 401, 950]) {
    const { context, flow, addEvents, trail } = world();
    const [one, other] = [trail(flow.id, "one").id, trail(flow.id, "other").id];
    addEvents(one, 1, count);
    addEvents(other, 1, 1);
    const { value } = finish(presentTrailText(context, one));
    assert.equal(numbers(value as Trail), upTo(count), `${count} events`);
  }
});

test("a long history is presented in steps, none longer than 200 events after 256 Ki characters", () => {
  const { context, flow, addEvents, trail } = world();
  const { id } = trail(flow.id, "t");
  addEvents(id, 1, 2000, 1000);
  const { value, pauses } = finish(presentTrailText(context, id));
  assert.equal(numbers(value as Trail), upTo(2000));
  // 200 events have more than 200,000 characters, 400 more than 256 Ki: a pause after every second slice.
  assert.is(pauses, 5);
});

test("reports between two steps change nothing of a trail or a page that is being written", () => {
  const { db, store, context, flow, filter, addEvents, trail } = world();
  const ids = ["a", "b", "c"].map((name) => trail(flow.id, name).id);
  for (const id of ids) addEvents(id, 1, 600, 1000);
  const disturb = (n: number): void => {
    for (const id of ids) addEvents(id, 10_000 + n, 10_000 + n);
    db.prepare("UPDATE trails SET state = 'COMPLIANT'").run();
    if (!store.trails.find(flow.id, `later-${n}`)) trail(flow.id, `later-${n}`);
  };
  const before = ids.map((id) => finish(presentTrailText(context, id)).value);
  const newest = store.trails.listIds(filter, { limit: 20, offset: 0 });
  const page = finish(presentTrailPage(context, newest), disturb);
  assert.ok(page.pauses > 2, String(page.pauses));
  assert.equal(page.value, [...before].reverse());
  const [first] = ids as [number];
  const whole = finish(presentTrailText(context, first)).value;
  assert.equal(finish(presentTrailText(context, first), disturb).value, whole);
});

test("a list without pages has each trail once while trails begin, and none in another state than it asks for", () => {
  const { db, context, flow, filter, addEvents, trail } = world();
  const names = Array.from({ length: 250 }, (_, n) => `t${n}`);
  for (const name of names) addEvents(trail(flow.id, name).id, 1, 20, 1000);
  const all = finish(presentAllTrails(context, filter), (n) => trail(flow.id, `later-${n}`));
  assert.ok(all.pauses > 10, String(all.pauses));
  assert.equal(
    (all.value as Trail[]).map(({ name }) => name),
    [...names].reverse(),
  );

  db.prepare("UPDATE trails SET state = 'NON-COMPLIANT'").run();
  const red = finish(presentAllTrails(context, { ...filter, state: "NON-COMPLIANT" }), (n) => {
    if (n === 0) db.prepare("UPDATE trails SET state = 'COMPLIANT' WHERE name = 't0'").run();
  });
  const shown = (red.value as Trail[]).filter(({ name }) => names.includes(name));
  assert.is(shown.length, 249);
  assert.equal([...new Set((red.value as Trail[]).map(({ compliance_state: state }) => state))], ["NON-COMPLIANT"]);
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
  const { value } = finish(presentAllTrails(context, filter));
  assert.equal(
    (value as Trail[]).map(({ name }) => name),
    Array.from({ length: 5002 }, (_, n) => `t${5001 - n}`),
  );
});

test("a damaged event makes its trail a placeholder in a list, whatever was presented before it", () => {
  const { db, store, context, flow, filter, addEvents, trail } = world();
  const [good, bad] = [trail(flow.id, "good").id, trail(flow.id, "bad").id];
  for (const id of [good, bad]) addEvents(id, 1, 500, 1000);
  db.prepare("UPDATE trail_events SET event_json = '{' WHERE id = (SELECT max(id) FROM trail_events)").run();
  const { value } = finish(presentTrailPage(context, store.trails.listIds(filter, { limit: 20, offset: 0 })));
  const [first, second] = value as [Trail & { description: string }, Trail];
  assert.is(first.name, "bad");
  assert.match(first.description, /^This record is damaged/);
  assert.equal(first.events, []);
  assert.equal(numbers(second), upTo(500));
  assert.throws(() => finish(presentTrailText(context, bad)), /an event of trail \d+ is damaged/);
});

test("a history that exceeds one answer is refused, with what to do instead", () => {
  const { context, flow, addEvents, trail } = world();
  const { id } = trail(flow.id, "t");
  addEvents(id, 1, 300, 1000);
  assert.throws(
    () => finish(presentTrailText(context, id, { ...singleAllowance(), characters: 250_000 })),
    (error: unknown) =>
      error instanceof AppError &&
      error.code === "invalid" &&
      error.message ===
        "The history of this trail is too long for one answer: read it with `events=false`, and its events in pages",
  );
});

test.run();
