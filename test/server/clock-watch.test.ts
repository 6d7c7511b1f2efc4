/** Watching the machine's clock: what is logged, what is trusted, and what a restart remembers. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClockWatch } from "../../src/server/clock-watch.ts";
import { closeExpiredKeys } from "../../src/jobs/expire-keys.ts";
import { createLogger } from "../../src/log.ts";
import { createAuthenticator } from "../../src/server/principals.ts";
import { keyDigest } from "../../src/store/accounts/api-keys.ts";
import { openMemory } from "../../src/store/db/database.ts";
import { watchVersions } from "../../src/store/db/versions.ts";
import { openStore } from "../../src/store/index.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";

const test = suite("server/clock-watch");

const [HOUR, DAY] = [3_600, 86_400];
const YEARS = 730 * DAY;
const T = 1_700_000_000;

function world() {
  const db = openMemory();
  const clock = { wall: T, monotonic: 1_000 };
  const store = openStore(db, { now: () => clock.wall, newId: () => "unused" });
  const lines: { level: string; msg: string; [field: string]: unknown }[] = [];
  const logger = createLogger({ level: "info", destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const writer = new GroupCommitWriter(db);
  const start = () =>
    createClockWatch({
      store,
      writer,
      logger,
      now: () => clock.wall,
      monotonic: () => clock.monotonic,
    });
  return {
    db,
    store,
    writer,
    clock,
    start,
    /** Lets so many seconds pass. */
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
    /** Log lines since the last call, as level and the beginning of the message. */
    logged: (): string[] => lines.splice(0).map(({ level, msg }) => `${level}: ${msg}`),
    lines,
  };
}

test("a correct clock is trusted, and its time is stored once an hour", async () => {
  const { store, start, pass, logged, clock, db } = world();
  const watch = start();
  await watch.check();
  assert.is(store.clock.read()?.goodAt, T);
  const changes = db.prepare("SELECT total_changes()").pluck();
  const before = changes.get();
  pass(HOUR - 1);
  await watch.check();
  assert.is(changes.get(), before);
  pass(1);
  await watch.check();
  assert.is(store.clock.read()?.goodAt, T + HOUR);
  clock.wall += 20 * HOUR;
  await watch.check();
  assert.equal(
    { report: watch.report(), trusted: watch.trustedNow() },
    { report: { state: "right", problem: null }, trusted: T + 21 * HOUR },
    "less than a day",
  );
  assert.equal(logged(), []);
});

test("logs an error about a change under a clock two years ahead, every hour until the clock is correct", async () => {
  const { store, start, pass, change, logged, lines, clock } = world();
  change();
  const watch = start();
  await watch.check();
  clock.wall += YEARS;
  await watch.check();
  assert.match(
    logged().join("\n"),
    new RegExp(
      "^warn: the clock shows 2025-\\S+, 730 days past the last known good time " +
        "\\(2023-11-14T22:13:20\\.000Z\\); see assay help clock$",
    ),
  );
  assert.equal(watch.trustedNow(), T);
  change();
  await watch.check();
  const [line] = lines;
  assert.equal(
    { level: line?.level, off_by_s: line?.["off_by_s"], last_known_good: line?.["last_known_good"] },
    {
      level: "error",
      off_by_s: YEARS,
      last_known_good: "2023-11-14T22:13:20.000Z",
    },
  );
  assert.match(logged().join("\n"), /^error: changes are being recorded under an untrusted clock: the clock shows /);
  pass(600);
  change();
  await watch.check();
  assert.equal(logged(), []);
  assert.equal(watch.report().state, "ahead");
  assert.match(watch.report().problem ?? "", /^the clock shows \S+, 730 days past the last known good time \(\S+\)$/);
  assert.is(watch.trustedNow(), T + 600, "by the monotonic clock");
  pass(HOUR);
  await watch.check();
  assert.equal(
    logged().map((text) => text.slice(0, 30)),
    ["error: changes are being recor"],
  );
  assert.is(store.clock.read()?.goodAt, T + 600 + HOUR, "the expected time advances");

  clock.wall -= YEARS;
  await watch.check();
  assert.equal(logged(), ["warn: the clock is correct again and is trusted"]);
  assert.equal(watch.report(), { state: "right", problem: null });
  assert.equal(
    { isOpen: store.clock.read()?.isOpen, goodAt: store.clock.read()?.goodAt },
    { isOpen: false, goodAt: T + 600 + HOUR },
  );
});

test("a restart remembers the jump and the last good time", async () => {
  const { start, pass, change, logged, clock } = world();
  change();
  clock.wall += YEARS;
  change();
  const watch = start();
  await watch.check();
  assert.match(logged().join("\n"), /^error: changes are being recorded under an untrusted clock/);
  assert.is(watch.report().state, "ahead");
  pass(HOUR);
  clock.wall -= YEARS;
  const next = start();
  assert.equal(
    logged().map((text) => text.slice(0, 48)),
    ["error: the clock is behind the newest record: on"],
  );
  await next.check();
  assert.is(next.report().state, "right");
});

test("logs an error with both times when the clock is behind the newest record at the start", async () => {
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
  assert.is(msg, "the clock is behind the newest record: one of them is wrong, see assay help clock");
});

test("after a stop of several days the clock is trusted only after a day without a jump", async () => {
  const { store, start, pass, change, logged, clock } = world();
  change();
  clock.wall += 9 * DAY;
  const watch = start();
  await watch.check();
  change();
  await watch.check();
  assert.equal(
    logged().map((text) => text.slice(0, 20)),
    ["warn: the clock show", "error: changes are b"],
  );
  for (let hour = 0; hour < 23; hour += 1) {
    pass(HOUR);
    await watch.check();
  }
  assert.is(watch.report().state, "ahead");
  logged();
  pass(HOUR);
  await watch.check();
  assert.equal(logged(), ["warn: the clock has run for a day without a jump and is now trusted"]);
  assert.equal(
    { state: watch.report().state, goodAt: store.clock.read()?.goodAt, isOpen: store.clock.read()?.isOpen },
    { state: "right", goodAt: T + 10 * DAY, isOpen: false },
  );
});

test("a wrong clock that was accepted is noticed when it jumps back", async () => {
  const { store, start, pass, change, logged, clock } = world();
  change();
  const watch = start();
  await watch.check();
  clock.wall += YEARS;
  change();
  await watch.check();
  pass(DAY + 1);
  await watch.check();
  assert.is(watch.report().state, "right");
  logged();
  clock.wall -= YEARS;
  await watch.check();
  assert.equal(
    { state: watch.report().state, trusted: watch.trustedNow(), goodAt: store.clock.read()?.goodAt },
    { state: "right", trusted: T + DAY + 1, goodAt: T + DAY + 1 },
  );
  assert.is(store.clock.timeOfSnapshot(T + DAY + 2, T + YEARS + DAY), T + DAY + 2);
});

test("logs and reports an error for a clock that falls behind a good time", async () => {
  const { start, pass, change, logged, clock } = world();
  change();
  const watch = start();
  await watch.check();
  clock.wall -= 9 * DAY;
  await watch.check();
  assert.match(
    logged().join("\n"),
    /^error: the clock shows \S+, 9 days before the last known good time \(\S+\); see assay help clock$/,
  );
  pass(600);
  await watch.check();
  assert.equal(logged(), []);
  assert.equal(
    { state: watch.report().state, trusted: watch.trustedNow() },
    { state: "behind", trusted: T + 600 - 9 * DAY },
    "nothing is deleted earlier than the clock says",
  );
  assert.is(watch.endedBy(), T + 600, "what had expired stays expired");
});

test("a key that expired stays expired after a restart under a clock that was set back by days", async () => {
  const { start, pass, change, clock, store, db, writer } = world();
  change();
  await start().check();
  const user = store.users.create({ name: "ann", displayName: "", email: null });
  const digest = keyDigest("a key of this test");
  store.apiKeys.create({ userId: user }, { digest, description: "ci", expiresAt: T + 100 });
  const versions = watchVersions(db);
  const authenticates = (endedBy: () => number): boolean =>
    createAuthenticator(store, versions, endedBy).authenticate(digest.toString("hex")) !== null;
  pass(50);
  assert.ok(authenticates(start().endedBy));
  pass(DAY / 2);
  change();
  clock.wall -= 9 * DAY;
  const watch = start();
  assert.not.ok(authenticates(watch.endedBy));
  await closeExpiredKeys({ store, writer, endedBy: watch.endedBy });
  clock.wall += 8.9 * DAY;
  assert.not.ok(
    authenticates(() => clock.wall),
    "its record is closed for good",
  );
});

test.run();
