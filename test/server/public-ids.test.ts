import { suite } from "uvu";
import * as assert from "uvu/assert";
import { newPublicId, newSecret } from "../../src/clock.ts";

const test = suite("server/public-ids");

const realNow = Date.now;
test.after.each(() => {
  Date.now = realNow;
});

test("an id starts with the millisecond in which it was made, also when the clock steps back", () => {
  for (const now of [0x18bcfe56800, 0x18bcfe56800, 0x18bcfe56801, 0x18bcfe55fff]) {
    Date.now = () => now;
    assert.match(newPublicId(), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{8}$/);
    assert.is(newPublicId().slice(0, 13).replace("-", ""), now.toString(16).padStart(12, "0"));
  }
});

test("ids of one millisecond differ", () => {
  Date.now = () => 0x18bcfe56800;
  assert.is(new Set(Array.from({ length: 1_000 }, newPublicId)).size, 1_000);
});

test("no secret begins with a hyphen, which command lines take for a flag", () => {
  const secrets = Array.from({ length: 3_000 }, newSecret);
  assert.equal(
    secrets.filter((secret) => !/^[A-Za-z0-9_][A-Za-z0-9_-]{42}$/.test(secret)),
    [],
  );
  assert.is(new Set(secrets).size, secrets.length);
});

test.run();
