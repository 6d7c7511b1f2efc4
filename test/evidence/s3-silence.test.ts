import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EvidenceUnavailableError } from "../../src/evidence/errors.ts";
import { createSilenceGuard } from "../../src/evidence/s3-silence.ts";
import { rejection } from "./given.ts";

const test = suite("evidence/s3-silence");

const silent = () => Promise.reject(Object.assign(new Error("no response"), { name: "TimeoutError" }));
const reset = () => Promise.reject(Object.assign(new Error("reset"), { name: "TimeoutError", code: "ECONNRESET" }));
const refused = () => Promise.reject(new Error("AccessDenied"));
const answered = () => Promise.resolve("ok");

/** A guard with a clock, after `timeouts` requests without an answer. */
async function givenGuard(timeouts: number) {
  const clock = { now: 0 };
  const guard = createSilenceGuard(() => clock.now);
  for (let count = 0; count < timeouts; count += 1) await rejection(guard.run(silent));
  return { clock, guard };
}

test("two timeouts refuse nothing, three refuse all requests for ten seconds", async () => {
  assert.is(await (await givenGuard(2)).guard.run(answered), "ok");
  const { clock, guard } = await givenGuard(3);
  clock.now = 9_999;
  const error = await rejection(guard.run(answered));
  assert.instance(error, EvidenceUnavailableError);
  assert.is(
    (error as unknown as EvidenceUnavailableError).why,
    "the storage did not answer the latest 3 requests; the next attempt is in 1 s",
  );
  clock.now = 10_000;
  assert.is(await guard.run(answered), "ok");
  assert.is(await guard.run(answered), "ok");
});

test("one request is sent while the others are refused", async () => {
  const { clock, guard } = await givenGuard(3);
  clock.now = 10_000;
  const attempt = Promise.withResolvers<string>();
  const first = guard.run(() => attempt.promise);
  assert.instance(await rejection(guard.run(answered)), EvidenceUnavailableError);
  attempt.resolve("ok");
  assert.is(await first, "ok");
  assert.is(await guard.run(answered), "ok");
});

test("a storage that refuses a request or resets a connection is not silent", async () => {
  for (const failing of [refused, reset]) {
    const { guard } = await givenGuard(2);
    await rejection(guard.run(failing));
    await rejection(guard.run(silent));
    assert.is(await guard.run(answered), "ok");
  }
});

test.run();
