import { chmodSync, constants, mkdirSync, statSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { disk as realDisk } from "../../src/vault/disk.ts";
import { DamagedEvidenceError, MissingEvidenceError } from "../../src/vault/errors.ts";
import { chunks, contentOf, digestOf, gate, givenRoot, givenVault, rejection, removeRoots, watchedDisk } from "./given.ts";

/** More than is held in memory. */
const LARGE = 300 * 1024;

const discarding = suite("vault: discard and leftovers");
discarding.after(removeRoots);

discarding("drops what is staged, ignores what was published, discarded or lost", async () => {
  const { vault, files, leftovers } = givenVault();
  const small = await vault.stage(chunks(contentOf(10)), { limit: 10 });
  const large = await vault.stage(chunks(contentOf(LARGE)), { limit: LARGE });
  const kept = await vault.stage(chunks(contentOf(20)), { limit: 20 });
  assert.is(leftovers().length, 1);
  await vault.publish([kept]);
  await vault.discard([small, large, kept]);
  await vault.discard([small, large, { digest: kept.digest, size: 1, token: "of another life" }]);
  assert.equal(leftovers(), []);
  assert.equal(files(), [kept.digest]);
  await vault.close();
});

discarding("a leftover file that somebody else removed is no error", async () => {
  const root = givenRoot();
  const { vault, staging, leftovers } = givenVault({ root });
  const large = await vault.stage(chunks(contentOf(LARGE)), { limit: LARGE });
  for (const name of leftovers()) unlinkSync(join(staging, name));
  await vault.discard([large]);
  await vault.close();
});

discarding("the sweep at the start removes what a dead process left, and only that", async () => {
  const { vault, staging, leftovers } = givenVault();
  writeFileSync(join(staging, "dead-1"), "a");
  writeFileSync(join(staging, "dead-2"), "");
  const alive = await vault.stage(chunks(contentOf(LARGE)), { limit: LARGE });
  assert.is(await vault.sweepStaging(), 2);
  assert.equal(leftovers(), [alive.token]);
  await vault.publish([alive]);
  assert.is(await vault.sweepStaging(), 0);
  await vault.close();
});

discarding("close drops what is staged, and later calls are refused", async () => {
  const { vault, leftovers } = givenVault();
  const large = await vault.stage(chunks(contentOf(LARGE)), { limit: LARGE });
  const source = new PassThrough();
  const receiving = rejection(vault.stage(source, { limit: LARGE }));
  await vault.close();
  source.end(contentOf(LARGE));
  assert.is((await receiving).message, "the vault is closed");
  assert.equal(leftovers(), []);
  assert.is((await rejection(vault.stage(chunks(contentOf(1)), { limit: 1 }))).message, "the vault is closed");
  assert.is((await rejection(vault.publish([large]))).message, "the vault is closed");
  await vault.discard([large]);
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
    if (broken && call === `fsync evidence/${sick}`) throw Object.assign(new Error("input/output error"), { code: "EIO" });
  });
  const { vault, leftovers } = givenVault({ root, disk });
  const first = await vault.stage(chunks(one), { limit: 10 });
  const second = await vault.stage(chunks(two), { limit: 10 });
  const results = await Promise.allSettled([vault.publish([first]), vault.publish([second])]);
  assert.equal(results.map(({ status }) => status), ["rejected", "fulfilled"]);
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

publishing("equal content published at the same time is stored once", async () => {
  for (const size of [10, LARGE]) {
    const { vault, files, leftovers } = givenVault();
    const content = contentOf(size);
    const staged = await Promise.all(Array.from({ length: 12 }, () => vault.stage(chunks(content), { limit: size })));
    assert.is(new Set(staged.map(({ token }) => token)).size, 12);
    await Promise.all([vault.publish(staged.slice(0, 5)), ...staged.slice(5).map((one) => vault.publish([one]))]);
    assert.equal(files(), [digestOf(content)]);
    assert.equal(leftovers(), []);
    assert.is(await vault.verify(digestOf(content)), "ok");
    await vault.close();
  }
});

publishing("content from an earlier life is kept, synced and made young; the next time one look is enough", async () => {
  const root = givenRoot();
  const before = givenVault({ root });
  const content = contentOf(LARGE);
  const digest = await before.store(content);
  await before.vault.close();
  utimesSync(before.pathOf(digest), 1000, 1000);
  const { ino } = statSync(before.pathOf(digest));

  const calls: string[] = [];
  const { vault, store, pathOf, leftovers } = givenVault({ root, disk: watchedDisk(root, (call) => void calls.push(call)) });
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
  assert.equal(calls.filter((call) => call.includes("evidence")), [`stat ${target}`]);
  await vault.close();
});

publishing("a truncated file under the name is replaced by the good content", async () => {
  const root = givenRoot();
  const content = contentOf(5000);
  const digest = digestOf(content);
  const { vault, pathOf, store } = givenVault({ root });
  mkdirSync(join(root, "evidence", digest.slice(0, 2)));
  writeFileSync(pathOf(digest), content.subarray(0, 100));
  assert.is(await vault.verify(digest), "damaged");
  await store(content);
  assert.is(await vault.verify(digest), "ok");
  await vault.close();
});

publishing("staged content can be published once", async () => {
  const { vault } = givenVault();
  const staged = await vault.stage(chunks(contentOf(10)), { limit: 10 });
  await vault.publish([staged]);
  const error = await rejection(vault.publish([staged]));
  assert.is(error.message, `staged content ${staged.digest} was published or discarded before`);
  await vault.publish([]);
  await vault.close();
});

publishing("one failure among several does not leave the others half done", async () => {
  const root = givenRoot();
  let renames = 0;
  const disk = watchedDisk(root, (call) => {
    if (call.startsWith("rename") && ++renames === 2) throw Object.assign(new Error("input/output error"), { code: "EIO" });
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

inspecting("tells good, changed, truncated and missing files apart", async () => {
  const { vault, pathOf, store } = givenVault();
  const content = contentOf(LARGE);
  const digest = await store(content);
  assert.is(await vault.verify(digest), "ok");
  chmodSync(pathOf(digest), 0o600);
  const changed = Buffer.from(content);
  changed[LARGE - 1] = (changed[LARGE - 1] ?? 0) ^ 1;
  writeFileSync(pathOf(digest), changed);
  assert.is(await vault.verify(digest), "damaged");
  writeFileSync(pathOf(digest), content.subarray(1));
  assert.is(await vault.verify(digest), "damaged");
  assert.equal(await vault.describe(digest), { size: LARGE - 1 });
  const unknown = digestOf(contentOf(1));
  assert.is(await vault.verify(unknown), "missing");
  assert.is(await vault.describe(unknown), null);
  await vault.close();
});

inspecting("an unreadable file is damaged", async () => {
  const root = givenRoot();
  const disk = watchedDisk(root, (call) => {
    if (call.startsWith("read ")) throw Object.assign(new Error("input/output error"), { code: "EIO" });
  });
  const { vault, store } = givenVault({ root, disk });
  assert.is(await vault.verify(await store(contentOf(10))), "damaged");
  await vault.close();
});

inspecting("nothing but a digest becomes a path", async () => {
  const { vault } = givenVault();
  for (const digest of ["", "../../etc/passwd", "A".repeat(64), "a".repeat(63), `${"a".repeat(64)}\n`, `${"a".repeat(62)}/.`]) {
    assert.instance(await rejection(vault.describe(digest)), RangeError);
    assert.instance(await rejection(vault.verify(digest)), RangeError);
  }
  await vault.close();
});

inspecting("lists what is there, and passes over strangers", async () => {
  const { vault, directory: root, store } = givenVault();
  const contents = [contentOf(10), contentOf(LARGE), contentOf(0)];
  const digests: string[] = [];
  for (const content of contents) digests.push(await store(content));
  mkdirSync(join(root, "lost+found"));
  writeFileSync(join(root, (digests[0] as string).slice(0, 2), "notes.txt"), "x");
  const found = [];
  for await (const file of vault.list()) found.push(file);
  assert.equal(found.map(({ digest, size }) => [digest, size]), contents.map((content) => [digestOf(content), content.length]).sort());
  assert.ok(found.every(({ modifiedAt }) => modifiedAt > 1_000_000_000));
  await vault.close();
});

inspecting("reads in blocks, and gives the last one only when the content is right", async () => {
  const { vault, pathOf, store } = givenVault();
  const content = contentOf(LARGE);
  const digest = await store(content);
  const read = async (name: string): Promise<Buffer[]> => {
    const blocks: Buffer[] = [];
    for await (const block of vault.read(name)) blocks.push(block);
    return blocks;
  };
  assert.ok(Buffer.concat(await read(digest)).equals(content));
  assert.equal(await read(await store(contentOf(0))), []);
  const changed = Buffer.from(content);
  changed[0] = (changed[0] ?? 0) ^ 1;
  writeFileSync(pathOf(digest), changed);
  let given = 0;
  const failure = await rejection((async () => {
    for await (const block of vault.read(digest)) given += block.length;
  })());
  assert.instance(failure, DamagedEvidenceError);
  assert.ok(given < LARGE);
  assert.instance(await rejection(read(digestOf(contentOf(1)))), MissingEvidenceError);
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
