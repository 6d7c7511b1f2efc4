import { constants, statSync, unlinkSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { disk as realDisk } from "../../src/evidence/disk.ts";
import {
  chunks,
  contentOf,
  digestOf,
  gate,
  givenRoot,
  givenVault,
  rejection,
  removeRoots,
  watchedDisk,
} from "./given.ts";

/** More than is held in memory. */
const LARGE = 300 * 1024;

const discarding = suite("vault: discard and leftovers");
discarding.after(removeRoots);

discarding("a leftover file that somebody else removed is no error", async () => {
  const root = givenRoot();
  const { vault, staging, leftovers } = givenVault({ root });
  const large = await vault.stage(chunks(contentOf(LARGE)), { limit: LARGE });
  for (const name of leftovers()) unlinkSync(join(staging, name));
  await vault.discard([large]);
  await vault.close();
});

discarding.run();

const publishing = suite("vault: publish");
publishing.after(removeRoots);

publishing("content is on disk before it has its name, and the name before publish resolves", async () => {
  const root = givenRoot();
  const calls: string[] = [];
  const { vault } = givenVault({ root, disk: watchedDisk(root, (call) => void calls.push(call)) });
  const content = contentOf(10);
  const digest = digestOf(content);
  const [shard, target] = [`evidence/${digest.slice(0, 2)}`, `evidence/${digest.slice(0, 2)}/${digest.slice(2)}`];
  const small = await vault.stage(chunks(content), { limit: LARGE });
  assert.equal(calls, []);
  await vault.publish([small]);
  assert.equal(calls.splice(0), [
    `mkdir ${shard}`,
    "open evidence",
    "fsync evidence",
    `open ${shard}`,
    `stat ${target}`,
    `open staging/${small.token}`,
    `write staging/${small.token}`,
    `close staging/${small.token}`,
    `rename staging/${small.token} -> ${target}`,
    `fsync ${shard}`,
  ]);

  const large = await vault.stage(chunks(contentOf(LARGE), 50_000), { limit: LARGE });
  const file = `staging/${large.token}`;
  assert.equal(calls.splice(0), [`open ${file}`, `write ${file}`, `write ${file}`]);
  await vault.publish([large]);
  const later = calls.filter((call) => !/^(mkdir|open|stat)|fsync evidence$/.test(call));
  assert.equal(later, [
    `fdatasync ${file}`,
    `close ${file}`,
    `rename ${file} -> evidence/${large.digest.slice(0, 2)}/${large.digest.slice(2)}`,
    `fsync evidence/${large.digest.slice(0, 2)}`,
  ]);
  await vault.close();
});

publishing("a small file is written through, which is what stands for its sync", async () => {
  const flags: number[] = [];
  const open = ((path: string, flag: number, mode: number) => {
    if (path.includes("staging")) flags.push(flag);
    return realDisk.open(path, flag, mode);
  }) as typeof realDisk.open;
  const { vault, store } = givenVault({ disk: { ...realDisk, open } });
  await store(contentOf(10));
  assert.equal(flags, [constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_DSYNC]);
  await vault.close();
});

publishing("neighbours share the sync of a directory", async () => {
  const root = givenRoot();
  const neighbours = sameShard(7);
  const allRenamed = gate();
  let renames = 0;
  let syncs = 0;
  let watching = false;
  const disk = watchedDisk(root, async (call) => {
    if (!watching) return;
    if (call.startsWith("rename") && ++renames === 6) allRenamed.open();
    if (call.startsWith("fsync evidence/")) {
      syncs += 1;
      await allRenamed.passed;
    }
  });
  const { vault, store, files } = givenVault({ root, disk });
  const [first, ...others] = neighbours;
  await store(first as Buffer);
  watching = true;
  const staged = await Promise.all(others.map((content) => vault.stage(chunks(content), { limit: 100 })));
  await vault.publish(staged);
  assert.is(syncs, 2);
  assert.is(files().length, 7);
  await vault.close();
});

publishing("the failure of one directory sync is the failure of those who need it, and of nobody else", async () => {
  const root = givenRoot();
  const [one, two] = [contentOf(10, 1), contentOf(10, 2)];
  const sick = digestOf(one).slice(0, 2);
  assert.is.not(sick, digestOf(two).slice(0, 2));
  let broken = true;
  const disk = watchedDisk(root, (call) => {
    if (broken && call === `fsync evidence/${sick}`)
      throw Object.assign(new Error("input/output error"), { code: "EIO" });
  });
  const { vault, leftovers } = givenVault({ root, disk });
  const first = await vault.stage(chunks(one), { limit: 10 });
  const second = await vault.stage(chunks(two), { limit: 10 });
  const results = await Promise.allSettled([vault.publish([first]), vault.publish([second])]);
  assert.equal(
    results.map(({ status }) => status),
    ["rejected", "fulfilled"],
  );
  assert.equal(leftovers(), []);
  broken = false;
  await vault.publish([await vault.stage(chunks(one), { limit: 10 })]);
  assert.is(await vault.verify(first.digest), "ok");
  await vault.close();
});

publishing("a shard directory that could not be made is tried again", async () => {
  const root = givenRoot();
  let full = true;
  const disk = watchedDisk(root, (call) => {
    if (full && call.startsWith("mkdir")) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  });
  const { vault, store, leftovers, files } = givenVault({ root, disk });
  assert.is((await rejection(store(contentOf(LARGE)))).code, "ENOSPC");
  assert.equal(leftovers(), []);
  full = false;
  assert.equal([await store(contentOf(LARGE))], files());
  await vault.close();
});

publishing(
  "content from an earlier life is kept, synced and made young; the next time one look is enough",
  async () => {
    const root = givenRoot();
    const before = givenVault({ root });
    const content = contentOf(LARGE);
    const digest = await before.store(content);
    await before.vault.close();
    utimesSync(before.pathOf(digest), 1000, 1000);
    const { ino } = statSync(before.pathOf(digest));

    const calls: string[] = [];
    const { vault, store, pathOf, leftovers } = givenVault({
      root,
      disk: watchedDisk(root, (call) => void calls.push(call)),
    });
    await store(content);
    const target = `evidence/${digest.slice(0, 2)}/${digest.slice(2)}`;
    const onTarget = calls.splice(0).filter((call) => call.includes(target) || call.startsWith("fsync evidence/"));
    assert.equal(onTarget, [
      `stat ${target}`,
      `open ${target}`,
      `futimes ${target}`,
      `fdatasync ${target}`,
      `close ${target}`,
      `fsync evidence/${digest.slice(0, 2)}`,
    ]);
    assert.is(statSync(pathOf(digest)).ino, ino);
    assert.ok(statSync(pathOf(digest)).mtimeMs > 1_000_000);
    assert.equal(leftovers(), []);

    await vault.publish([await vault.stage(chunks(contentOf(LARGE), LARGE), { limit: LARGE })]);
    assert.equal(
      calls.filter((call) => call.includes("evidence")),
      [`stat ${target}`],
    );
    await vault.close();
  },
);

publishing("one failure among several does not leave the others half done", async () => {
  const root = givenRoot();
  let renames = 0;
  const disk = watchedDisk(root, (call) => {
    if (call.startsWith("rename") && ++renames === 2)
      throw Object.assign(new Error("input/output error"), { code: "EIO" });
  });
  const { vault, files, leftovers } = givenVault({ root, disk });
  const staged = [];
  for (const seed of [1, 2, 3]) staged.push(await vault.stage(chunks(contentOf(LARGE, seed)), { limit: LARGE }));
  assert.is((await rejection(vault.publish(staged))).code, "EIO");
  assert.is(files().length, 2);
  assert.equal(leftovers(), []);
  await vault.close();
});

publishing.run();

const inspecting = suite("vault: describe and verify");
inspecting.after(removeRoots);

inspecting("an unreadable file is damaged", async () => {
  const root = givenRoot();
  const disk = watchedDisk(root, (call) => {
    if (call.startsWith("read ")) throw Object.assign(new Error("input/output error"), { code: "EIO" });
  });
  const { vault, store } = givenVault({ root, disk });
  assert.is(await vault.verify(await store(contentOf(10))), "damaged");
  await vault.close();
});

inspecting.run();

/** `count` different contents whose digests begin with the same byte. */
function sameShard(count: number): Buffer[] {
  const found: Buffer[] = [];
  for (let n = 0; found.length < count; n += 1) {
    const content = Buffer.from(String(n));
    if (digestOf(content).startsWith("ab")) found.push(content);
  }
  return found;
}
