/** The clock of the machine under watch: what is logged, what is believed, what is remembered over restarts. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClockWatch } from "../../src/server/clock-watch.ts";
import { createLogger } from "../../src/log.ts";
import { openMemory } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";

const test = suite("clock watch");

const [HOUR, DAY] = [3_600, 86_400];
const YEARS = 730 * DAY;
const T = 1_700_000_000;

function world() {
  const db = openMemory();
  const clock = { wall: T, monotonic: 1_000 };
  const store = openStore(db, { now: () => clock.wall, newId: () => "unused" });
  const lines: { level: string; msg: string; [field: string]: unknown }[] = [];
  const logger = createLogger({ level: "info", destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const start = () =>
    createClockWatch({
      store,
      writer: new GroupCommitWriter(db),
      logger,
      now: () => clock.wall,
      monotonic: () => clock.monotonic,
    });
  return {
    db,
    store,
    clock,
    start,
    /** So many seconds go by. */
    pass(seconds: number): void {
      clock.wall += seconds;
      clock.monotonic += seconds;
    },
    change: (): void =>
      store.auditLog.append({
        organizationId: null,
        actor: { kind: "operator", publicId: "", name: "test", keyPublicId: "" },
        operation: "test",
        event: "test",
        target: "",
        requestId: "",
        detail: null,
      }),
    /** What was logged since this was asked last, as level and the beginning of the message. */
    logged: (): string[] => lines.splice(0).map(({ level, msg }) => `${level}: ${msg}`),
    lines,
  };
}

test("a clock that runs as it should is right, and stores the good time once an hour", async () => {
  const { store, start, pass, logged, clock, db } = world();
  const watch = start();
  await watch.look();
  assert.is(store.clock.read()?.goodAt, T);
  const changes = db.prepare("SELECT total_changes()").pluck();
  const before = changes.get();
  pass(HOUR - 1);
  await watch.look();
  assert.is(changes.get(), before);
  pass(1);
  await watch.look();
  assert.is(store.clock.read()?.goodAt, T + HOUR);
  clock.wall += 20 * HOUR;
  await watch.look();
  assert.equal(
    { report: watch.report(), trusted: watch.trusted() },
    { report: { state: "right", problem: null }, trusted: T + 21 * HOUR },
    "less than a day",
  );
  assert.equal(logged(), []);
});

test("a change under a clock two years ahead is an error line, once and then every hour, until the clock is right", async () => {
  const { store, start, pass, change, logged, lines, clock } = world();
  change();
  const watch = start();
  await watch.look();
  clock.wall += YEARS;
  await watch.look();
  assert.match(
    logged().join("\n"),
    /^warn: the clock shows 2025-\S+, 730 days past the last known good time \(2023-11-14T22:13:20\.000Z\); see assay help troubleshooting$/,
  );
  assert.equal(watch.trusted(), T);
  change();
  await watch.look();
  const [line] = lines;
  assert.equal(
    { level: line?.level, off_by_s: line?.["off_by_s"], last_known_good: line?.["last_known_good"] },
    {
      level: "error",
      off_by_s: YEARS,
      last_known_good: "2023-11-14T22:13:20.000Z",
    },
  );
  assert.match(
    logged().join("\n"),
    /^error: changes are recorded under a clock that is not believed: the clock shows /,
  );
  pass(600);
  change();
  await watch.look();
  assert.equal(logged(), []);
  assert.equal(watch.report().state, "ahead");
  assert.match(watch.report().problem ?? "", /^the clock shows \S+, 730 days past the last known good time \(\S+\)$/);
  assert.is(watch.trusted(), T + 600, "by the clock that nobody can set");
  pass(HOUR);
  await watch.look();
  assert.equal(
    logged().map((text) => text.slice(0, 30)),
    ["error: changes are recorded un"],
  );
  assert.is(store.clock.read()?.goodAt, T + 600 + HOUR, "the good time is reckoned on");

  clock.wall -= YEARS;
  await watch.look();
  assert.equal(logged(), ["warn: the clock is right again"]);
  assert.equal(watch.report(), { state: "right", problem: null });
  assert.equal(
    { isOpen: store.clock.read()?.isOpen, goodAt: store.clock.read()?.goodAt },
    { isOpen: false, goodAt: T + 600 + HOUR },
  );
});

test("a restart forgets neither the jump nor the good time", async () => {
  const { start, pass, change, logged, clock } = world();
  change();
  clock.wall += YEARS;
  change();
  const watch = start();
  await watch.look();
  assert.match(logged().join("\n"), /^error: changes are recorded under a clock that is not believed/);
  assert.is(watch.report().state, "ahead");
  pass(HOUR);
  clock.wall -= YEARS;
  const next = start();
  assert.equal(
    logged().map((text) => text.slice(0, 48)),
    ["error: the clock is behind the newest record: on"],
  );
  await next.look();
  assert.is(next.report().state, "right");
});

test("a start with the clock behind the newest record is an error line with both times", async () => {
  const { start, change, lines, clock, logged } = world();
  change();
  clock.wall -= 5;
  start();
  assert.equal(logged(), [], "clocks are coarse");
  clock.wall -= 55;
  start();
  const { level, now, newest_record, behind_by_s, msg } = lines[0] ?? { level: "", msg: "" };
  assert.equal(
    { level, now, newest_record, behind_by_s },
    {
      level: "error",
      now: "2023-11-14T22:12:20.000Z",
      newest_record: "2023-11-14T22:13:20.000Z",
      behind_by_s: 60,
    },
  );
  assert.is(msg, "the clock is behind the newest record: one of them is wrong, see assay help troubleshooting");
});

test("a server that was stopped for days is not believed at once, and after a day without a jump it is", async () => {
  const { store, start, pass, change, logged, clock } = world();
  change();
  clock.wall += 9 * DAY;
  const watch = start();
  await watch.look();
  change();
  await watch.look();
  assert.equal(
    logged().map((text) => text.slice(0, 20)),
    ["warn: the clock show", "error: changes are r"],
  );
  for (let hour = 0; hour < 23; hour += 1) {
    pass(HOUR);
    await watch.look();
  }
  assert.is(watch.report().state, "ahead");
  logged();
  pass(HOUR);
  await watch.look();
  assert.equal(logged(), ["warn: the clock has run for a day without a jump and is taken for right"]);
  assert.equal(
    { state: watch.report().state, goodAt: store.clock.read()?.goodAt, isOpen: store.clock.read()?.isOpen },
    { state: "right", goodAt: T + 10 * DAY, isOpen: false },
  );
});

test("a wrong clock that was taken for right is noticed when it comes back", async () => {
  const { store, start, pass, change, logged, clock } = world();
  change();
  const watch = start();
  await watch.look();
  clock.wall += YEARS;
  change();
  await watch.look();
  pass(DAY + 1);
  await watch.look();
  assert.is(watch.report().state, "right");
  logged();
  clock.wall -= YEARS;
  await watch.look();
  assert.equal(
    { state: watch.report().state, trusted: watch.trusted(), goodAt: store.clock.read()?.goodAt },
    { state: "right", trusted: T + DAY + 1, goodAt: T + DAY + 1 },
  );
  assert.is(store.clock.timeOfSnapshot(T + DAY + 2, T + YEARS + DAY), T + DAY + 2);
});

test("a clock that falls behind a good time is an error line, and is reported", async () => {
  const { start, pass, change, logged, clock } = world();
  change();
  const watch = start();
  await watch.look();
  clock.wall -= 9 * DAY;
  await watch.look();
  assert.match(
    logged().join("\n"),
    /^error: the clock shows \S+, 9 days before the last known good time \(\S+\); see assay help troubleshooting$/,
  );
  pass(600);
  await watch.look();
  assert.equal(logged(), []);
  assert.equal(
    { state: watch.report().state, trusted: watch.trusted() },
    { state: "behind", trusted: T + 600 - 9 * DAY },
    "nothing is deleted earlier than the clock says",
  );
});

test.run();
