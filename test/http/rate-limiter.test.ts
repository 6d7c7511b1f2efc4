import { suite } from "uvu";
import * as assert from "uvu/assert";
import { networkOf } from "../../src/domain/network/client-network.ts";
import { createRateLimiter } from "../../src/http/rate-limiter.ts";

const test = suite("http/rate-limiter");

function limiterAt(options: { burst: number; perSeconds: number; maxKeys?: number }) {
  const clock = { at: 1_700_000_000.25 };
  return { clock, limiter: createRateLimiter({ ...options, now: () => clock.at }) };
}

test("as many tries as there are pass at once, then one at a time, and the wait is told in whole seconds", () => {
  const { clock, limiter } = limiterAt({ burst: 10, perSeconds: 900 });
  assert.equal(
    Array.from({ length: 10 }, () => limiter.take("a")),
    Array(10).fill(0),
  );
  assert.equal([limiter.take("a"), limiter.peek("a"), limiter.take("a")], [90, 90, 90], "a refused try costs nothing");
  clock.at += 45;
  assert.is(limiter.take("a"), 45);
  clock.at += 44.5;
  assert.is(limiter.take("a"), 1, "half a second is told as a whole one");
  clock.at += 0.5;
  assert.equal([limiter.take("a"), limiter.take("a")], [0, 90]);
  clock.at += 900;
  assert.equal(
    Array.from({ length: 11 }, () => limiter.take("a")),
    [...Array(10).fill(0), 90],
  );
});

test("who keeps to the rate is never refused", () => {
  const { clock, limiter } = limiterAt({ burst: 7, perSeconds: 60 });
  for (let n = 0; n < 7; n++) assert.is(limiter.take("a"), 0);
  for (let n = 0; n < 10_000; n++) {
    clock.at += 60 / 7;
    assert.is(limiter.take("a"), 0, `try ${n}`);
  }
});

test("in any stretch of time no more than burst and what came back meanwhile", () => {
  const { clock, limiter } = limiterAt({ burst: 30, perSeconds: 60 });
  let passed = 0;
  for (let n = 0; n < 1200; n++) {
    if (limiter.take("a") === 0) passed += 1;
    clock.at += 0.1;
  }
  assert.is(
    passed,
    30 + Math.floor(119.9 / 2),
    "a try comes back every two seconds, and the last one was asked for after 119.9 of them",
  );
});

test("keys do not know of each other, a look takes nothing, and what is forgiven is as new", () => {
  const { limiter } = limiterAt({ burst: 1, perSeconds: 60 });
  assert.equal([limiter.peek("a"), limiter.take("a"), limiter.take("a")], [0, 0, 60]);
  assert.equal([limiter.take("b"), limiter.take("b")], [0, 60]);
  limiter.reset("a");
  assert.equal({ "take a": limiter.take("a"), "take b": limiter.take("b") }, { "take a": 0, "take b": 60 });
});

test("memory is bounded: full stores are forgotten, and of too many keys the one longest without a try", () => {
  const { clock, limiter } = limiterAt({ burst: 2, perSeconds: 60, maxKeys: 1000 });
  for (let n = 0; n < 5000; n++) limiter.take(`early ${n}`);
  assert.is(limiter.size, 1000);
  assert.is(limiter.take("early 4999"), 0);
  assert.is(limiter.take("early 4999"), 30, "the latest are the ones that are known");
  clock.at += 61;
  limiter.take("late");
  assert.is(limiter.size, 1);
});

test("IPv6 counts by /64, IPv4 by address in either spelling, and what is no address as itself", () => {
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
