import { suite } from "uvu";
import * as assert from "uvu/assert";
import { networkOf } from "../../src/domain/network/client-network.ts";
import { createRateLimiter } from "../../src/http/rate-limiter.ts";

const test = suite("http/rate-limiter");

function createTestLimiter(options: { burst: number; perSeconds: number; maxKeys?: number }) {
  const clock = { at: 1_700_000_000.25 };
  return { clock, limiter: createRateLimiter({ ...options, now: () => clock.at }) };
}

test("admits a burst at once, then one attempt at a time, with the wait in whole seconds", () => {
  const { clock, limiter } = createTestLimiter({ burst: 10, perSeconds: 900 });
  assert.equal(
    Array.from({ length: 10 }, () => limiter.take("a")),
    Array(10).fill(0),
  );
  assert.equal(
    [limiter.take("a"), limiter.peek("a"), limiter.take("a")],
    [90, 90, 90],
    "a refused attempt costs nothing",
  );
  clock.at += 45;
  assert.is(limiter.take("a"), 45);
  clock.at += 44.5;
  assert.is(limiter.take("a"), 1, "half a second is rounded up");
  clock.at += 0.5;
  assert.equal([limiter.take("a"), limiter.take("a")], [0, 90]);
  clock.at += 900;
  assert.equal(
    Array.from({ length: 11 }, () => limiter.take("a")),
    [...Array(10).fill(0), 90],
  );
});

test("never refuses a client that keeps to the rate", () => {
  const { clock, limiter } = createTestLimiter({ burst: 7, perSeconds: 60 });
  for (let n = 0; n < 7; n++) assert.is(limiter.take("a"), 0);
  for (let n = 0; n < 10_000; n++) {
    clock.at += 60 / 7;
    assert.is(limiter.take("a"), 0, `attempt ${n}`);
  }
});

test("admits no more than the burst and what was refilled, in any period", () => {
  const { clock, limiter } = createTestLimiter({ burst: 30, perSeconds: 60 });
  let passed = 0;
  for (let n = 0; n < 1200; n++) {
    if (limiter.take("a") === 0) passed += 1;
    clock.at += 0.1;
  }
  assert.is(
    passed,
    30 + Math.floor(119.9 / 2),
    "an attempt is refilled every two seconds, and the last one was taken after 119.9 seconds",
  );
});

test("keys are independent, peek takes nothing, and reset refills", () => {
  const { limiter } = createTestLimiter({ burst: 1, perSeconds: 60 });
  assert.equal([limiter.peek("a"), limiter.take("a"), limiter.take("a")], [0, 0, 60]);
  assert.equal([limiter.take("b"), limiter.take("b")], [0, 60]);
  limiter.reset("a");
  assert.equal({ "take a": limiter.take("a"), "take b": limiter.take("b") }, { "take a": 0, "take b": 60 });
});

test("forgets full buckets, and evicts the key with the oldest attempt", () => {
  const { clock, limiter } = createTestLimiter({ burst: 2, perSeconds: 60, maxKeys: 1000 });
  for (let n = 0; n < 5000; n++) limiter.take(`early ${n}`);
  assert.is(limiter.size, 1000);
  assert.is(limiter.take("early 4999"), 0);
  assert.is(limiter.take("early 4999"), 30, "the latest keys are kept");
  clock.at += 61;
  limiter.take("late");
  assert.is(limiter.size, 1);
});

test("networkOf gives IPv6 by /64, IPv4 by address in either spelling, and other texts unchanged", () => {
  assert.is(networkOf("192.0.2.7"), "192.0.2.7");
  assert.is(networkOf("::ffff:192.0.2.7"), "192.0.2.7");
  assert.is(networkOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  assert.is(networkOf("2001:DB8:1:2::ffff"), "2001:db8:1:2::/64");
  assert.is.not(networkOf("2001:db8:1:3::1"), networkOf("2001:db8:1:2::1"));
  assert.is(networkOf("::1"), "0:0:0:0::/64");
  assert.is(networkOf("fe80::1%eth0"), "fe80:0:0:0::/64");
  assert.is(networkOf("unix:"), "unix:");
  assert.is(networkOf(""), "");
});

test.run();
