import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createLru } from "../../src/domain/lru.ts";

const test = suite("domain/lru");

const keysOf = (cache: ReturnType<typeof createLru<string, number>>, keys: string) =>
  [...keys].filter((key) => cache.get(key) !== undefined).join("");

test("evicts the entry that was used least recently", () => {
  const cache = createLru<string, number>({ maxEntries: 2 });
  cache.set("a", 1);
  cache.set("b", 2);
  assert.is(cache.get("a"), 1);
  cache.set("c", 3);
  assert.equal({ keys: keysOf(cache, "abc"), size: cache.size }, { keys: "ac", size: 2 });
});

test("replaces a value without evicting another one", () => {
  const cache = createLru<string, number>({ maxEntries: 2, maxWeight: 10 });
  cache.set("a", 1, 6);
  cache.set("b", 2, 4);
  cache.set("a", 3, 6);
  assert.equal({ a: cache.get("a"), b: cache.get("b") }, { a: 3, b: 2 });
});

test("evicts as many entries as a heavy one needs", () => {
  const cache = createLru<string, number>({ maxEntries: 10, maxWeight: 10 });
  for (const key of "abcde") cache.set(key, 1, 2);
  cache.set("f", 1, 7);
  assert.is(keysOf(cache, "abcdef"), "ef");
});

test("does not keep an entry that is heavier than the cache, nor the value it replaces", () => {
  const cache = createLru<string, number>({ maxEntries: 10, maxWeight: 10 });
  cache.set("a", 1, 1);
  cache.set("b", 1, 1);
  cache.set("b", 2, 11);
  assert.equal({ keys: keysOf(cache, "ab"), size: cache.size }, { keys: "a", size: 1 });
});

test("forgets one entry, or all, with their weight", () => {
  const cache = createLru<string, number>({ maxEntries: 10, maxWeight: 10 });
  cache.set("a", 1, 10);
  cache.delete("a");
  cache.delete("unknown");
  cache.set("b", 1, 10);
  assert.is(keysOf(cache, "ab"), "b");
  cache.clear();
  cache.set("c", 1, 10);
  assert.is(keysOf(cache, "abc"), "c");
});

test("lists its entries", () => {
  const cache = createLru<string, number>({ maxEntries: 3 });
  for (const [key, value] of Object.entries({ a: 1, b: 2, c: 3 })) cache.set(key, value);
  assert.equal(Object.fromEntries(cache.entries()), { a: 1, b: 2, c: 3 });
});

test("evicts the oldest entry when all are used", () => {
  const cache = createLru<string, number>({ maxEntries: 3 });
  for (const key of "abc") cache.set(key, 1);
  assert.is(keysOf(cache, "abc"), "abc");
  cache.set("d", 1);
  assert.is(keysOf(cache, "abcd"), "bcd");
});

test("keeps the entry that a set replaces, however much of the rest it needs", () => {
  const cache = createLru<string, number>({ maxEntries: 3, maxWeight: 10 });
  for (const key of "abc") cache.set(key, 1, 3);
  assert.is(keysOf(cache, "abc"), "abc");
  cache.set("a", 2, 10);
  assert.equal({ keys: keysOf(cache, "abc"), a: cache.get("a"), size: cache.size }, { keys: "a", a: 2, size: 1 });
});

test("keeps a used entry while others that are read once pass through", () => {
  const cache = createLru<string, number>({ maxEntries: 3 });
  cache.set("hot", 1);
  for (let n = 0; n < 100; n++) {
    assert.is(cache.get("hot"), 1);
    cache.set(`cold-${n}`, n);
  }
  assert.is(cache.size, 3);
});

test.run();
