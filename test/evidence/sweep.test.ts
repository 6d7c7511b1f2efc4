import { mkdirSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  chunks,
  contentOf,
  gate,
  givenRoot,
  givenLocalStore,
  rejection,
  removeRoots,
  interceptedDisk,
} from "./given.ts";

const DAY = 86_400;
const NOW = Math.floor(Date.now() / 1000);
const nothing = () => false;

const test = suite("evidence/sweep");
test.after(removeRoots);

/** Stores content and backdates it by `age` seconds. */
async function givenOld(given: ReturnType<typeof givenLocalStore>, content: Buffer, age = 2 * DAY): Promise<string> {
  const digest = await given.put(content);
  utimesSync(given.pathOf(digest), NOW - age, NOW - age);
  return digest;
}

test("a sweep leaves foreign files alone", async () => {
  const given = givenLocalStore();
  mkdirSync(join(given.directory, "lost+found"));
  mkdirSync(join(given.directory, "ab"));
  for (const path of ["README", "ab/notes.txt", `ab/${"f".repeat(61)}`]) {
    writeFileSync(join(given.directory, path), "mine");
    utimesSync(join(given.directory, path), 1000, 1000);
  }
  assert.equal(await given.store.sweep({ isReferenced: nothing, olderThan: NOW }), { removed: 0, bytes: 0 });
  await given.store.close();
});

test("a sweep does not remove content that is being published again", async () => {
  const root = givenRoot();
  const content = contentOf(100);
  const before = givenLocalStore({ root });
  const digest = await givenOld(before, content);
  await before.store.close();

  const [touching, mayTouch] = [gate(), gate()];
  const disk = interceptedDisk(root, async (call) => {
    if (!call.startsWith("futimes")) return;
    touching.open();
    await mayTouch.passed;
  });
  const given = givenLocalStore({ root, disk });
  const publishing = given.put(content);
  await touching.passed;
  const sweeping = given.store.sweep({ isReferenced: nothing, olderThan: NOW - DAY });
  mayTouch.open();
  await publishing;
  assert.equal(await sweeping, { removed: 0, bytes: 0 });
  assert.is(await given.store.verify(digest), "ok");
  await given.store.close();
});

test("content that is published during a sweep exists afterwards", async () => {
  const root = givenRoot();
  const content = contentOf(100);
  const [removing, mayRemove] = [gate(), gate()];
  const disk = interceptedDisk(root, async (call) => {
    if (!call.startsWith("unlink evidence")) return;
    removing.open();
    await mayRemove.passed;
  });
  const given = givenLocalStore({ root, disk });
  // This process published it, so one stat confirms its name: the sweep must revoke that.
  const digest = await givenOld(given, content);
  const sweeping = given.store.sweep({ isReferenced: nothing, olderThan: NOW - DAY });
  await removing.passed;
  const publishing = given.store.publish([await given.store.stage(chunks(content), { limit: 100 })]);
  mayRemove.open();
  await publishing;
  assert.equal(await sweeping, { removed: 1, bytes: 100 });
  assert.is(await given.store.verify(digest), "ok");
  await given.store.close();
});

test("a file that disappears during a sweep is not an error, a failing reference check is", async () => {
  const given = givenLocalStore();
  const digest = await givenOld(given, contentOf(100));
  const isReferenced = () => {
    unlinkSync(given.pathOf(digest));
    return false;
  };
  assert.equal(await given.store.sweep({ isReferenced, olderThan: NOW - DAY }), { removed: 0, bytes: 0 });
  await givenOld(given, contentOf(100));
  const failing = () => {
    throw new Error("the database is closed");
  };
  const error = await rejection(given.store.sweep({ isReferenced: failing, olderThan: NOW - DAY }));
  assert.is(error.message, "the database is closed");
  await given.store.close();
});

test("closing the store ends a sweep", async () => {
  const given = givenLocalStore();
  for (const seed of [1, 2, 3]) await givenOld(given, contentOf(100, seed));
  let closing = Promise.resolve();
  let asked = 0;
  const isReferenced = () => {
    // The second check comes right before the first removal.
    if (++asked === 2) closing = given.store.close();
    return false;
  };
  assert.equal(await given.store.sweep({ isReferenced, olderThan: NOW - DAY }), { removed: 1, bytes: 100 });
  await closing;
});

test.run();
