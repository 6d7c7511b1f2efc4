/**
 * The contract of every evidence store, wherever its files are. The promises about the disk alone, and about failing
 * S3 storage, have test files of their own.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { DamagedEvidenceError, MissingEvidenceError, TooLargeError } from "../../src/evidence/errors.ts";
import type { EvidenceStore } from "../../src/evidence/local-store.ts";
import { chunks, contentOf, digestOf, givenRoot, givenLocalStore, rejection, removeRoots } from "./given.ts";
import { givenS3Store, startStorage } from "./s3-server.ts";
import type { Storage } from "./s3-server.ts";

const KB = 1024;
const DAY = 86_400;
const NOW = Math.floor(Date.now() / 1000);
const LARGE = 300 * KB;

/** A store, and the files behind it. */
type Given = { store: EvidenceStore; staging: string; pathOf(digest: string): string; repaired: string[] };

let storage: Storage;
const KINDS: Record<string, (root: string) => Given> = {
  directory: (root) => givenLocalStore({ root }),
  s3(root) {
    const { store, staging, keyOf, repaired } = givenS3Store({
      storage,
      root,
      prefix: `contract/${root.slice(-6)}`,
      pageSize: 3,
    });
    return { store, staging, repaired, pathOf: (digest) => storage.fileOf(keyOf(digest)) };
  },
};

for (const [kind, open] of Object.entries(KINDS)) {
  const test = suite(`evidence/contract: ${kind}`);
  test.before(async () => {
    storage = await startStorage();
  });
  test.after(async () => {
    await storage.stop();
    removeRoots();
  });

  const given = (root = givenRoot()) => {
    const made = open(root);
    return {
      ...made,
      root,
      leftovers: () => readdirSync(made.staging),
      async put(content: Buffer): Promise<string> {
        const staged = await made.store.stage(chunks(content, 65_536), { limit: content.length });
        await made.store.publish([staged]);
        return staged.digest;
      },
      async files(): Promise<string[]> {
        const found: string[] = [];
        for await (const { digest } of made.store.list()) found.push(digest);
        return found;
      },
      age: (digest: string, seconds: number) => utimesSync(made.pathOf(digest), NOW - seconds, NOW - seconds),
    };
  };

  /** Puts other bytes under a name, as a faulty disk would. */
  const overwrite = (path: string, content: Buffer) => {
    mkdirSync(dirname(path), { recursive: true });
    // Not in place, because the file is read-only.
    writeFileSync(`${path}.new`, content);
    renameSync(`${path}.new`, path);
  };

  for (const size of [0, 1, 128 * KB, 128 * KB + 1, 700_001]) {
    test(`content of ${size} bytes is received, published, described and read`, async () => {
      const { store, files, leftovers } = given();
      const content = contentOf(size);
      const staged = await store.stage(chunks(content, 65_536), { limit: size });
      assert.equal({ digest: staged.digest, size: staged.size }, { digest: digestOf(content), size });
      assert.equal(await files(), []);
      await store.publish([staged]);
      assert.equal(await files(), [staged.digest]);
      assert.equal(leftovers(), []);
      assert.equal(await store.describe(staged.digest), { size });
      assert.is(await store.verify(staged.digest), "ok");
      assert.is(await store.isIntact(staged.digest, size), true);
      assert.is(await store.isIntact(staged.digest, size + 1), false);
      const read: Buffer[] = [];
      for await (const block of store.read(staged.digest)) read.push(block);
      assert.ok(Buffer.concat(read).equals(content));
      await store.close();
    });
  }

  test("content over the limit leaves nothing", async () => {
    const { store, files, leftovers } = given();
    assert.instance(await rejection(store.stage(chunks(contentOf(LARGE)), { limit: LARGE - 1 })), TooLargeError);
    assert.equal({ leftovers: leftovers(), files: await files() }, { leftovers: [], files: [] });
    await store.close();
  });

  test("discarding removes staged content and keeps published content", async () => {
    const { store, files, leftovers } = given();
    const [small, large, kept] = [
      await store.stage(chunks(contentOf(10)), { limit: 10 }),
      await store.stage(chunks(contentOf(LARGE)), { limit: LARGE }),
      await store.stage(chunks(contentOf(20)), { limit: 20 }),
    ];
    await store.publish([kept]);
    await store.discard([small, large, kept]);
    await store.discard([small, { digest: kept.digest, size: 1, token: "of another life", content: null }]);
    assert.equal({ leftovers: leftovers(), files: await files() }, { leftovers: [], files: [kept.digest] });
    assert.is(
      (await rejection(store.publish([kept]))).message,
      `staged content ${kept.digest} was published or discarded before`,
    );
    await store.publish([]);
    await store.close();
  });

  for (const size of [10, LARGE]) {
    test(`equal content of ${size} bytes published at the same time is stored once`, async () => {
      const { store, files, leftovers } = given();
      const staged = await Promise.all(
        Array.from({ length: 8 }, () => store.stage(chunks(contentOf(size)), { limit: size })),
      );
      assert.is(new Set(staged.map(({ token }) => token)).size, 8);
      await Promise.all([store.publish(staged.slice(0, 3)), ...staged.slice(3).map((one) => store.publish([one]))]);
      assert.equal(
        { leftovers: leftovers(), files: await files() },
        { leftovers: [], files: [digestOf(contentOf(size))] },
      );
      assert.is(await store.verify(digestOf(contentOf(size))), "ok");
      await store.close();
    });
  }

  test("existing content is kept, and a file of another size under its name is replaced", async () => {
    const { store, pathOf, put } = given();
    const content = contentOf(5000);
    const digest = await put(content);
    const { ino } = statSync(pathOf(digest));
    await put(content);
    assert.is(statSync(pathOf(digest)).ino, ino);
    overwrite(pathOf(digest), content.subarray(0, 100));
    assert.is(await store.verify(digest), "damaged");
    await put(content);
    assert.is(await store.verify(digest), "ok");
    await store.close();
  });

  for (const size of [5000, LARGE])
    test(`damaged content of ${size} bytes is replaced by an upload of the same file, and told`, async () => {
      const first = given();
      const content = contentOf(size);
      const digest = await first.put(content);
      await first.store.close();
      const damaged = Buffer.from(content);
      damaged.write("oops", size - 10);
      overwrite(first.pathOf(digest), damaged);
      // Of an earlier process: in this one, storage may not show that an object is another one of the same size.
      const { store, put, leftovers, repaired, pathOf } = given(first.root);
      assert.is(await store.verify(digest), "damaged");
      await put(content);
      assert.ok(readFileSync(pathOf(digest)).equals(content));
      assert.equal({ repaired, leftovers: leftovers() }, { repaired: [digest], leftovers: [] });
      await put(content);
      assert.equal(repaired, [digest]);
      await store.close();
    });

  test("distinguishes intact, changed, truncated and missing files", async () => {
    const { store, pathOf, put } = given();
    const content = contentOf(LARGE);
    const digest = await put(content);
    const changed = Buffer.from(content);
    changed[0] = (changed[0] ?? 0) ^ 1;
    overwrite(pathOf(digest), changed);
    assert.is(await store.verify(digest), "damaged");
    assert.is(await store.isIntact(digest, LARGE), false);
    let received = 0;
    const failure = await rejection(
      (async () => {
        for await (const block of store.read(digest)) received += block.length;
      })(),
    );
    assert.instance(failure, DamagedEvidenceError);
    assert.ok(received < LARGE);
    overwrite(pathOf(digest), content.subarray(1));
    assert.is(await store.verify(digest), "damaged");
    assert.equal(await store.describe(digest), { size: LARGE - 1 });
    const unknown = digestOf(contentOf(1));
    assert.is(await store.verify(unknown), "missing");
    assert.is(await store.describe(unknown), null);
    assert.is(await store.isIntact(unknown, 1), false);
    assert.instance(
      await rejection(
        (async () => {
          for await (const _ of store.read(unknown));
        })(),
      ),
      MissingEvidenceError,
    );
    await store.close();
  });

  test("refuses any name that is not a digest", async () => {
    const { store } = given();
    for (const digest of [
      "",
      "../../etc/passwd",
      "A".repeat(64),
      "a".repeat(63),
      `${"a".repeat(64)}\n`,
      `${"a".repeat(62)}/.`,
    ]) {
      assert.instance(await rejection(store.describe(digest)), RangeError);
      assert.instance(await rejection(store.verify(digest)), RangeError);
    }
    await store.close();
  });

  test("lists all files in the order of their digests and skips foreign files", async () => {
    const { store, pathOf, put } = given();
    const contents = Array.from({ length: 8 }, (_, n) => contentOf(n * 100, n));
    const digests: string[] = [];
    for (const content of contents) digests.push(await put(content));
    const foreign = pathOf(digests[0] as string).replace((digests[0] as string).slice(2), "notes");
    writeFileSync(foreign, "x");
    const found = [];
    for await (const file of store.list()) found.push(file);
    assert.equal(
      found.map(({ digest, size }) => [digest, size]),
      contents.map((content) => [digestOf(content), content.length]).sort(),
    );
    assert.ok(found.every(({ modifiedAt }) => modifiedAt > 1_000_000_000));
    await store.close();
  });

  test("a publish says which content is new", async () => {
    const { store, put } = given();
    const kept = await put(contentOf(10));
    const staged = await Promise.all(
      [contentOf(10), contentOf(LARGE)].map((content) => store.stage(chunks(content), { limit: LARGE })),
    );
    assert.is(staged[0]?.digest, kept);
    assert.equal(await store.publish(staged), [digestOf(contentOf(LARGE))]);
    await store.close();
  });

  test("withdraws content that nothing needs, also what was published twice, and takes it again", async () => {
    const { store, put, files } = given();
    const digest = await put(contentOf(10));
    await put(contentOf(10));
    await store.withdraw(digest, () => true);
    assert.equal(await files(), [digest]);
    await store.withdraw(digest, () => false);
    assert.equal(await files(), []);
    await store.withdraw(digest, () => false);
    await put(contentOf(10));
    assert.is(await store.verify(digest), "ok");
    await store.close();
    assert.is((await rejection(store.withdraw(digest, () => false))).message, "the evidence store is closed");
  });

  test("a sweep removes old unreferenced files and nothing else", async () => {
    const { store, put, files, age } = given();
    const [gone, alsoGone, referenced, young] = [
      await put(contentOf(100, 1)),
      await put(contentOf(2000, 2)),
      await put(contentOf(300, 3)),
      await put(contentOf(400, 4)),
    ] as const;
    for (const digest of [gone, alsoGone, referenced]) age(digest, 2 * DAY);
    age(young, DAY);
    const rules = { isReferenced: (digest: string) => digest === referenced, olderThan: NOW - DAY };
    assert.equal(await store.sweep(rules), { removed: 2, bytes: 2100 });
    assert.equal(await files(), [referenced, young].sort());
    assert.equal(await store.sweep(rules), { removed: 0, bytes: 0 });
    await store.close();
  });

  test("a reference that appears between the two checks saves the file", async () => {
    const { store, put, files, age } = given();
    const digest = await put(contentOf(100));
    age(digest, 2 * DAY);
    let asked = 0;
    assert.equal(await store.sweep({ isReferenced: () => ++asked === 2, olderThan: NOW - DAY }), {
      removed: 0,
      bytes: 0,
    });
    assert.equal({ asked, files: await files() }, { asked: 2, files: [digest] });
    await store.close();
  });

  test("a sweep spares old content that was published again, until its row can be committed", async () => {
    const before = given();
    const digest = await before.put(contentOf(100));
    before.age(digest, 2 * DAY);
    await before.store.close();
    const { store, put } = given(before.root);
    await put(contentOf(100));
    assert.equal(await store.sweep({ isReferenced: () => false, olderThan: NOW - DAY }), { removed: 0, bytes: 0 });
    assert.is(await store.verify(digest), "ok");
    await store.close();
  });

  test("sweepStaging removes the leftovers of a dead process and keeps entries of this one", async () => {
    const { store, staging, leftovers } = given();
    writeFileSync(join(staging, "dead"), "a");
    const alive = await store.stage(chunks(contentOf(LARGE)), { limit: LARGE });
    assert.is(await store.sweepStaging(), 1);
    assert.equal(leftovers(), [alive.token]);
    await store.publish([alive]);
    await store.close();
  });

  test("a closed store drops staged content and refuses new calls", async () => {
    const { store, leftovers } = given();
    const large = await store.stage(chunks(contentOf(LARGE)), { limit: LARGE });
    const source = new PassThrough();
    const receiving = rejection(store.stage(source, { limit: LARGE }));
    await store.close();
    source.end(contentOf(LARGE));
    assert.is((await receiving).message, "the evidence store is closed");
    assert.equal(leftovers(), []);
    for (const late of [store.stage(chunks(contentOf(1)), { limit: 1 }), store.publish([large]), store.sweepStaging()])
      assert.is((await rejection(late)).message, "the evidence store is closed");
  });

  test.run();
}
