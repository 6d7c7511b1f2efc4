import {
  chmodSync,
  closeSync,
  constants,
  openSync,
  readFileSync,
  statSync,
  unlinkSync,
  utimesSync,
  writeSync,
} from "node:fs";
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
  givenLocalStore,
  rejection,
  removeRoots,
  interceptedDisk,
} from "./given.ts";

/** More than is held in memory. */
const LARGE = 300 * 1024;

const discarding = suite("evidence/local-store: discard and leftovers");
discarding.after(removeRoots);

discarding("a leftover file that another process removed is not an error", async () => {
  const root = givenRoot();
  const { store, staging, leftovers } = givenLocalStore({ root });
  const large = await store.stage(chunks(contentOf(LARGE)), { limit: LARGE });
  for (const name of leftovers()) unlinkSync(join(staging, name));
  await store.discard([large]);
  await store.close();
});

discarding.run();

const publishing = suite("evidence/local-store: publish");
publishing.after(removeRoots);

publishing("content is durable before its name, and the name before publish resolves", async () => {
  const root = givenRoot();
  const calls: string[] = [];
  const { store } = givenLocalStore({ root, disk: interceptedDisk(root, (call) => void calls.push(call)) });
  const content = contentOf(10);
  const digest = digestOf(content);
  const [shard, target] = [`evidence/${digest.slice(0, 2)}`, `evidence/${digest.slice(0, 2)}/${digest.slice(2)}`];
  const small = await store.stage(chunks(content), { limit: LARGE });
  assert.equal(calls, []);
  await store.publish([small]);
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
    `stat ${target}`,
  ]);

  const large = await store.stage(chunks(contentOf(LARGE), 50_000), { limit: LARGE });
  const file = `staging/${large.token}`;
  assert.equal(calls.splice(0), [`open ${file}`, `write ${file}`, `write ${file}`]);
  await store.publish([large]);
  const later = calls.filter((call) => !/^(mkdir|open|stat)|fsync evidence$/.test(call));
  assert.equal(later, [
    `fdatasync ${file}`,
    `close ${file}`,
    `rename ${file} -> evidence/${large.digest.slice(0, 2)}/${large.digest.slice(2)}`,
    `fsync evidence/${large.digest.slice(0, 2)}`,
  ]);
  await store.close();
});

publishing("a small file is written with O_DSYNC in place of a sync", async () => {
  const flags: number[] = [];
  const open = ((path: string, flag: number, mode: number) => {
    if (path.includes("staging")) flags.push(flag);
    return realDisk.open(path, flag, mode);
  }) as typeof realDisk.open;
  const { store, put } = givenLocalStore({ disk: { ...realDisk, open } });
  await put(contentOf(10));
  assert.equal(flags, [constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_DSYNC]);
  await store.close();
});

publishing("concurrent publishes share the sync of a directory", async () => {
  const root = givenRoot();
  const contents = sameShard(7);
  const allRenamed = gate();
  let renames = 0;
  let syncs = 0;
  let watching = false;
  const disk = interceptedDisk(root, async (call) => {
    if (!watching) return;
    if (call.startsWith("rename") && ++renames === 6) allRenamed.open();
    if (call.startsWith("fsync evidence/")) {
      syncs += 1;
      await allRenamed.passed;
    }
  });
  const { store, put, files } = givenLocalStore({ root, disk });
  const [first, ...others] = contents;
  await put(first as Buffer);
  watching = true;
  const staged = await Promise.all(others.map((content) => store.stage(chunks(content), { limit: 100 })));
  await store.publish(staged);
  // The last file may get its name just after the second sync began, and then needs a third.
  assert.ok(syncs === 2 || syncs === 3, `${syncs} syncs`);
  assert.is(files().length, 7);
  await store.close();
});

publishing("a failed directory sync fails only the publishes that need it", async () => {
  const root = givenRoot();
  const [one, two] = [contentOf(10, 1), contentOf(10, 2)];
  const failing = digestOf(one).slice(0, 2);
  assert.is.not(failing, digestOf(two).slice(0, 2));
  let broken = true;
  const disk = interceptedDisk(root, (call) => {
    if (broken && call === `fsync evidence/${failing}`)
      throw Object.assign(new Error("input/output error"), { code: "EIO" });
  });
  const { store, leftovers } = givenLocalStore({ root, disk });
  const first = await store.stage(chunks(one), { limit: 10 });
  const second = await store.stage(chunks(two), { limit: 10 });
  const results = await Promise.allSettled([store.publish([first]), store.publish([second])]);
  assert.equal(
    results.map(({ status }) => status),
    ["rejected", "fulfilled"],
  );
  assert.equal(leftovers(), []);
  broken = false;
  await store.publish([await store.stage(chunks(one), { limit: 10 })]);
  assert.is(await store.verify(first.digest), "ok");
  await store.close();
});

publishing("creating a shard directory is retried after a failure", async () => {
  const root = givenRoot();
  let full = true;
  const disk = interceptedDisk(root, (call) => {
    if (full && call.startsWith("mkdir")) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  });
  const { store, put, leftovers, files } = givenLocalStore({ root, disk });
  assert.is((await rejection(put(contentOf(LARGE)))).code, "ENOSPC");
  assert.equal(leftovers(), []);
  full = false;
  assert.equal([await put(contentOf(LARGE))], files());
  await store.close();
});

publishing(
  "content of an earlier process is kept, synced and its mtime renewed; later one stat is enough",
  async () => {
    const root = givenRoot();
    const before = givenLocalStore({ root });
    const content = contentOf(LARGE);
    const digest = await before.put(content);
    await before.store.close();
    utimesSync(before.pathOf(digest), 1000, 1000);
    const { ino } = statSync(before.pathOf(digest));

    const calls: string[] = [];
    const { store, put, pathOf, leftovers } = givenLocalStore({
      root,
      disk: interceptedDisk(root, (call) => void calls.push(call)),
    });
    await put(content);
    const target = `evidence/${digest.slice(0, 2)}/${digest.slice(2)}`;
    const onTarget = calls.splice(0).filter((call) => call.includes(target) || call.startsWith("fsync evidence/"));
    assert.equal(
      [...new Set(onTarget.splice(0, onTarget.indexOf(`close ${target}`) + 1))],
      [`stat ${target}`, `open ${target}`, `read ${target}`, `close ${target}`],
    );
    assert.equal(onTarget, [
      `open ${target}`,
      `futimes ${target}`,
      `fdatasync ${target}`,
      `close ${target}`,
      `fsync evidence/${digest.slice(0, 2)}`,
      `stat ${target}`,
    ]);
    assert.is(statSync(pathOf(digest)).ino, ino);
    assert.ok(statSync(pathOf(digest)).mtimeMs > 1_000_000);
    assert.equal(leftovers(), []);

    await store.publish([await store.stage(chunks(contentOf(LARGE), LARGE), { limit: LARGE })]);
    assert.equal(
      calls.filter((call) => call.includes("evidence")),
      [`stat ${target}`],
    );
    await store.close();
  },
);

publishing("a file that changes in place while the process runs is compared again, and replaced", async () => {
  const { store, put, pathOf, repaired } = givenLocalStore();
  for (const size of [5000, LARGE]) {
    const content = contentOf(size);
    const digest = await put(content);
    await put(content);
    assert.equal(repaired.splice(0), []);
    chmodSync(pathOf(digest), 0o600);
    const fd = openSync(pathOf(digest), "r+");
    writeSync(fd, "oops", 100);
    closeSync(fd);
    assert.is(await store.verify(digest), "damaged");
    await put(content);
    assert.equal(repaired.splice(0), [digest]);
    assert.ok(readFileSync(pathOf(digest)).equals(content));
  }
  await store.close();
});

publishing("a file that cannot be read is replaced", async () => {
  const root = givenRoot();
  const before = givenLocalStore({ root });
  const digest = await before.put(contentOf(5000));
  await before.store.close();
  const disk = interceptedDisk(root, (call) => {
    if (call.startsWith("read evidence/")) throw Object.assign(new Error("input/output error"), { code: "EIO" });
  });
  const { ino } = statSync(before.pathOf(digest));
  const { store, put, pathOf, repaired } = givenLocalStore({ root, disk });
  await put(contentOf(5000));
  assert.equal(repaired, [digest]);
  assert.is.not(statSync(pathOf(digest)).ino, ino);
  await store.close();
});

publishing("one failure among several leaves the others complete", async () => {
  const root = givenRoot();
  let renames = 0;
  const disk = interceptedDisk(root, (call) => {
    if (call.startsWith("rename") && ++renames === 2)
      throw Object.assign(new Error("input/output error"), { code: "EIO" });
  });
  const { store, files, leftovers } = givenLocalStore({ root, disk });
  const staged = [];
  for (const seed of [1, 2, 3]) staged.push(await store.stage(chunks(contentOf(LARGE, seed)), { limit: LARGE }));
  assert.is((await rejection(store.publish(staged))).code, "EIO");
  assert.is(files().length, 2);
  assert.equal(leftovers(), []);
  await store.close();
});

publishing.run();

const inspecting = suite("evidence/local-store: verify");
inspecting.after(removeRoots);

inspecting("an unreadable file counts as damaged", async () => {
  const root = givenRoot();
  const disk = interceptedDisk(root, (call) => {
    if (call.startsWith("read ")) throw Object.assign(new Error("input/output error"), { code: "EIO" });
  });
  const { store, put } = givenLocalStore({ root, disk });
  assert.is(await store.verify(await put(contentOf(10))), "damaged");
  await store.close();
});

inspecting.run();

/** `count` contents whose digests begin with the same byte. */
function sameShard(count: number): Buffer[] {
  const found: Buffer[] = [];
  for (let n = 0; found.length < count; n += 1) {
    const content = Buffer.from(String(n));
    if (digestOf(content).startsWith("ab")) found.push(content);
  }
  return found;
}
