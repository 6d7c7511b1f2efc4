import { mkdirSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { chunks, contentOf, gate, givenRoot, givenVault, rejection, removeRoots, watchedDisk } from "./given.ts";

const DAY = 86_400;
const NOW = Math.floor(Date.now() / 1000);
const nothing = () => false;

const test = suite("vault: sweep");
test.after(removeRoots);

/** Stores content and dates it back by `age` seconds. */
async function givenOld(given: ReturnType<typeof givenVault>, content: Buffer, age = 2 * DAY): Promise<string> {
  const digest = await given.store(content);
  utimesSync(given.pathOf(digest), NOW - age, NOW - age);
  return digest;
}

test("what the vault did not store is left alone", async () => {
  const given = givenVault();
  mkdirSync(join(given.directory, "lost+found"));
  mkdirSync(join(given.directory, "ab"));
  for (const path of ["README", "ab/notes.txt", `ab/${"f".repeat(61)}`]) {
    writeFileSync(join(given.directory, path), "mine");
    utimesSync(join(given.directory, path), 1000, 1000);
  }
  assert.equal(await given.vault.sweep({ isReferenced: nothing, olderThan: NOW }), { removed: 0, bytes: 0 });
  await given.vault.close();
});

test("content that is being published again is not taken away", async () => {
  const root = givenRoot();
  const content = contentOf(100);
  const before = givenVault({ root });
  const digest = await givenOld(before, content);
  await before.vault.close();

  const [touching, mayTouch] = [gate(), gate()];
  const disk = watchedDisk(root, async (call) => {
    if (!call.startsWith("futimes")) return;
    touching.open();
    await mayTouch.passed;
  });
  const given = givenVault({ root, disk });
  const publishing = given.store(content);
  await touching.passed;
  const sweeping = given.vault.sweep({ isReferenced: nothing, olderThan: NOW - DAY });
  mayTouch.open();
  await publishing;
  assert.equal(await sweeping, { removed: 0, bytes: 0 });
  assert.is(await given.vault.verify(digest), "ok");
  await given.vault.close();
});

test("content that is published while it is being swept is there afterwards", async () => {
  const root = givenRoot();
  const content = contentOf(100);
  const [removing, mayRemove] = [gate(), gate()];
  const disk = watchedDisk(root, async (call) => {
    if (!call.startsWith("unlink evidence")) return;
    removing.open();
    await mayRemove.passed;
  });
  const given = givenVault({ root, disk });
  // This process published it, so its name is trusted after one look: the sweep must end that.
  const digest = await givenOld(given, content);
  const sweeping = given.vault.sweep({ isReferenced: nothing, olderThan: NOW - DAY });
  await removing.passed;
  const publishing = given.vault.publish([await given.vault.stage(chunks(content), { limit: 100 })]);
  mayRemove.open();
  await publishing;
  assert.equal(await sweeping, { removed: 1, bytes: 100 });
  assert.is(await given.vault.verify(digest), "ok");
  await given.vault.close();
});

test("a file that disappears under the sweep is no error, a failing question is", async () => {
  const given = givenVault();
  const digest = await givenOld(given, contentOf(100));
  const isReferenced = () => {
    unlinkSync(given.pathOf(digest));
    return false;
  };
  assert.equal(await given.vault.sweep({ isReferenced, olderThan: NOW - DAY }), { removed: 0, bytes: 0 });
  await givenOld(given, contentOf(100));
  const failing = () => {
    throw new Error("the database is closed");
  };
  const error = await rejection(given.vault.sweep({ isReferenced: failing, olderThan: NOW - DAY }));
  assert.is(error.message, "the database is closed");
  await given.vault.close();
});

test("a closing vault ends the sweep", async () => {
  const given = givenVault();
  for (const seed of [1, 2, 3]) await givenOld(given, contentOf(100, seed));
  let closing = Promise.resolve();
  let asked = 0;
  const isReferenced = () => {
    // The second question comes right before the first file goes.
    if (++asked === 2) closing = given.vault.close();
    return false;
  };
  assert.equal(await given.vault.sweep({ isReferenced, olderThan: NOW - DAY }), { removed: 1, bytes: 100 });
  await closing;
});

test.run();
