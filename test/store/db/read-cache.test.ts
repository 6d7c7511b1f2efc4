import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createReadCache } from "../../../src/store/db/read-cache.ts";
import type { Dependency } from "../../../src/store/db/versions.ts";

const test = suite("store/db/read-cache");

/** A cache over versions that a test moves by hand. */
function world() {
  let latest = 1;
  const moved = new Map<Dependency, number>();
  const versions = {
    latest: () => latest,
    isCurrent: (subjects: readonly Dependency[], since: number) =>
      subjects.every((subject) => (moved.get(subject) ?? 0) <= since),
  };
  const cache = createReadCache(versions, 100);
  const move = (subject: Dependency): void => void moved.set(subject, (latest += 1));
  const fill = (key: string, dependsOn: readonly Dependency[], chars = 1): void =>
    cache.set(key, key, { chars, version: cache.version(), dependsOn });
  return { cache, move, fill };
}

test("a value is kept until one of its subjects changes", () => {
  const { cache, move, fill } = world();
  assert.is(cache.get("a"), undefined);
  fill("a", [1, "x"]);
  fill("b", [2]);
  move(3);
  assert.equal([cache.get("a"), cache.get("b")], ["a", "b"]);
  move("x");
  assert.equal([cache.get("a"), cache.get("b")], [undefined, "b"]);
  fill("a", [1, "x"]);
  assert.is(cache.get("a"), "a");
});

test("a value that was read before a change is not given out after it", () => {
  const { cache, move } = world();
  const version = cache.version();
  move(1);
  cache.set("a", "perhaps old", { chars: 1, version, dependsOn: [1] });
  assert.is(cache.get("a"), undefined);
});

test("never exceeds its limit of characters, and drops what was not used for longest", () => {
  const { cache, fill } = world();
  fill("a", [], 35);
  fill("b", [], 35);
  assert.is(cache.get("a"), "a");
  fill("c", [], 35);
  assert.equal(
    ["a", "b", "c"].map((key) => cache.get(key)),
    ["a", undefined, "c"],
  );
});

test("counts keys, and does not cache a value larger than the whole cache", () => {
  const { cache, fill } = world();
  const [a, b] = ["a".repeat(60), "b".repeat(60)];
  fill(a, []);
  fill(b, []);
  assert.equal([cache.get(a), cache.get(b)], [undefined, b]);
  fill("huge", [], 101);
  assert.equal([cache.get("huge"), cache.get(b)], [undefined, b]);
});

test.run();
