/**
 * What every vault promises, wherever it keeps its files. What is promised about the disk alone, and about a store that
 * fails, is beside this.
 */
import { mkdirSync, readdirSync, renameSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { DamagedEvidenceError, MissingEvidenceError, TooLargeError } from "../../src/evidence/errors.ts";
import type { EvidenceStore } from "../../src/evidence/local-store.ts";
import { chunks, contentOf, digestOf, givenRoot, givenVault, rejection, removeRoots } from "./given.ts";
import { givenS3Vault, startStorage } from "./s3-server.ts";
import type { Storage } from "./s3-server.ts";

const KB = 1024;
const DAY = 86_400;
const NOW = Math.floor(Date.now() / 1000);
const LARGE = 300 * KB;

/** A vault, and the files behind it. */
type Given = { vault: EvidenceStore; staging: string; pathOf(digest: string): string };

let storage: Storage;
const KINDS: Record<string, (root: string) => Given> = {
  directory: (root) => givenVault({ root }),
  s3(root) {
    const { vault, staging, keyOf } = givenS3Vault({
      storage,
      root,
      prefix: `contract/${root.slice(-6)}`,
      pageSize: 3,
    });
    return { vault, staging, pathOf: (digest) => storage.fileOf(keyOf(digest)) };
  },
};

for (const [kind, open] of Object.entries(KINDS)) {
  const test = suite(`vault contract: ${kind}`);
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
      async store(content: Buffer): Promise<string> {
        const staged = await made.vault.stage(chunks(content, 65_536), { limit: content.length });
        await made.vault.publish([staged]);
        return staged.digest;
      },
      async files(): Promise<string[]> {
        const found: string[] = [];
        for await (const { digest } of made.vault.list()) found.push(digest);
        return found;
      },
      age: (digest: string, seconds: number) => utimesSync(made.pathOf(digest), NOW - seconds, NOW - seconds),
    };
  };

  /** Puts other bytes under a name, as a bad disk would. */
  const overwrite = (path: string, content: Buffer) => {
    mkdirSync(dirname(path), { recursive: true });
    // The file itself is read-only.
    writeFileSync(`${path}.new`, content);
    renameSync(`${path}.new`, path);
  };

  for (const size of [0, 1, 128 * KB, 128 * KB + 1, 700_001]) {
    test(`content of ${size} bytes is received, published, told and read`, async () => {
      const { vault, files, leftovers } = given();
      const content = contentOf(size);
      const staged = await vault.stage(chunks(content, 65_536), { limit: size });
      assert.equal({ digest: staged.digest, size: staged.size }, { digest: digestOf(content), size });
      assert.equal(await files(), []);
      await vault.publish([staged]);
      assert.equal(await files(), [staged.digest]);
      assert.equal(leftovers(), []);
      assert.equal(await vault.describe(staged.digest), { size });
      assert.is(await vault.verify(staged.digest), "ok");
      assert.is(await vault.isIntact(staged.digest, size), true);
      assert.is(await vault.isIntact(staged.digest, size + 1), false);
      const read: Buffer[] = [];
      for await (const block of vault.read(staged.digest)) read.push(block);
      assert.ok(Buffer.concat(read).equals(content));
      await vault.close();
    });
  }

  test("more than the limit leaves nothing", async () => {
    const { vault, files, leftovers } = given();
    assert.instance(await rejection(vault.stage(chunks(contentOf(LARGE)), { limit: LARGE - 1 })), TooLargeError);
    assert.equal({ leftovers: leftovers(), files: await files() }, { leftovers: [], files: [] });
    await vault.close();
  });

  test("what is discarded is gone, and what was published stays", async () => {
    const { vault, files, leftovers } = given();
    const [small, large, kept] = [
      await vault.stage(chunks(contentOf(10)), { limit: 10 }),
      await vault.stage(chunks(contentOf(LARGE)), { limit: LARGE }),
      await vault.stage(chunks(contentOf(20)), { limit: 20 }),
    ];
    await vault.publish([kept]);
    await vault.discard([small, large, kept]);
    await vault.discard([small, { digest: kept.digest, size: 1, token: "of another life" }]);
    assert.equal({ leftovers: leftovers(), files: await files() }, { leftovers: [], files: [kept.digest] });
    assert.is(
      (await rejection(vault.publish([kept]))).message,
      `staged content ${kept.digest} was published or discarded before`,
    );
    await vault.publish([]);
    await vault.close();
  });

  for (const size of [10, LARGE]) {
    test(`equal content of ${size} bytes published at the same time is stored once`, async () => {
      const { vault, files, leftovers } = given();
      const staged = await Promise.all(
        Array.from({ length: 8 }, () => vault.stage(chunks(contentOf(size)), { limit: size })),
      );
      assert.is(new Set(staged.map(({ token }) => token)).size, 8);
      await Promise.all([vault.publish(staged.slice(0, 3)), ...staged.slice(3).map((one) => vault.publish([one]))]);
      assert.equal(
        { leftovers: leftovers(), files: await files() },
        { leftovers: [], files: [digestOf(contentOf(size))] },
      );
      assert.is(await vault.verify(digestOf(contentOf(size))), "ok");
      await vault.close();
    });
  }

  test("content that is there is kept, and a file of another size under its name is replaced", async () => {
    const { vault, pathOf, store } = given();
    const content = contentOf(5000);
    const digest = await store(content);
    const { ino } = statSync(pathOf(digest));
    await store(content);
    assert.is(statSync(pathOf(digest)).ino, ino);
    overwrite(pathOf(digest), content.subarray(0, 100));
    assert.is(await vault.verify(digest), "damaged");
    await store(content);
    assert.is(await vault.verify(digest), "ok");
    await vault.close();
  });

  test("good, changed, truncated and missing files are told apart", async () => {
    const { vault, pathOf, store } = given();
    const content = contentOf(LARGE);
    const digest = await store(content);
    const changed = Buffer.from(content);
    changed[0] = (changed[0] ?? 0) ^ 1;
    overwrite(pathOf(digest), changed);
    assert.is(await vault.verify(digest), "damaged");
    assert.is(await vault.isIntact(digest, LARGE), false);
    let received = 0;
    const failure = await rejection(
      (async () => {
        for await (const block of vault.read(digest)) received += block.length;
      })(),
    );
    assert.instance(failure, DamagedEvidenceError);
    assert.ok(received < LARGE);
    overwrite(pathOf(digest), content.subarray(1));
    assert.is(await vault.verify(digest), "damaged");
    assert.equal(await vault.describe(digest), { size: LARGE - 1 });
    const unknown = digestOf(contentOf(1));
    assert.is(await vault.verify(unknown), "missing");
    assert.is(await vault.describe(unknown), null);
    assert.is(await vault.isIntact(unknown, 1), false);
    assert.instance(
      await rejection(
        (async () => {
          for await (const _ of vault.read(unknown));
        })(),
      ),
      MissingEvidenceError,
    );
    await vault.close();
  });

  test("nothing but a digest becomes a name", async () => {
    const { vault } = given();
    for (const digest of [
      "",
      "../../etc/passwd",
      "A".repeat(64),
      "a".repeat(63),
      `${"a".repeat(64)}\n`,
      `${"a".repeat(62)}/.`,
    ]) {
      assert.instance(await rejection(vault.describe(digest)), RangeError);
      assert.instance(await rejection(vault.verify(digest)), RangeError);
    }
    await vault.close();
  });

  test("all files are listed in the order of their digests, strangers are passed over", async () => {
    const { vault, pathOf, store } = given();
    const contents = Array.from({ length: 8 }, (_, n) => contentOf(n * 100, n));
    const digests: string[] = [];
    for (const content of contents) digests.push(await store(content));
    const stranger = pathOf(digests[0] as string).replace((digests[0] as string).slice(2), "notes");
    writeFileSync(stranger, "x");
    const found = [];
    for await (const file of vault.list()) found.push(file);
    assert.equal(
      found.map(({ digest, size }) => [digest, size]),
      contents.map((content) => [digestOf(content), content.length]).sort(),
    );
    assert.ok(found.every(({ modifiedAt }) => modifiedAt > 1_000_000_000));
    await vault.close();
  });

  test("the sweep takes what is old and unreferenced, and nothing else", async () => {
    const { vault, store, files, age } = given();
    const [gone, alsoGone, referenced, young] = [
      await store(contentOf(100, 1)),
      await store(contentOf(2000, 2)),
      await store(contentOf(300, 3)),
      await store(contentOf(400, 4)),
    ] as const;
    for (const digest of [gone, alsoGone, referenced]) age(digest, 2 * DAY);
    age(young, DAY);
    const rules = { isReferenced: (digest: string) => digest === referenced, olderThan: NOW - DAY };
    assert.equal(await vault.sweep(rules), { removed: 2, bytes: 2100 });
    assert.equal(await files(), [referenced, young].sort());
    assert.equal(await vault.sweep(rules), { removed: 0, bytes: 0 });
    await vault.close();
  });

  test("a reference that appears between the two questions saves the file", async () => {
    const { vault, store, files, age } = given();
    const digest = await store(contentOf(100));
    age(digest, 2 * DAY);
    let asked = 0;
    assert.equal(await vault.sweep({ isReferenced: () => ++asked === 2, olderThan: NOW - DAY }), {
      removed: 0,
      bytes: 0,
    });
    assert.equal({ asked, files: await files() }, { asked: 2, files: [digest] });
    await vault.close();
  });

  test("old content that was published again is not swept before its row can be there", async () => {
    const before = given();
    const digest = await before.store(contentOf(100));
    before.age(digest, 2 * DAY);
    await before.vault.close();
    const { vault, store } = given(before.root);
    await store(contentOf(100));
    assert.equal(await vault.sweep({ isReferenced: () => false, olderThan: NOW - DAY }), { removed: 0, bytes: 0 });
    assert.is(await vault.verify(digest), "ok");
    await vault.close();
  });

  test("leftovers of a dead process go, those of this one stay", async () => {
    const { vault, staging, leftovers } = given();
    writeFileSync(join(staging, "dead"), "a");
    const alive = await vault.stage(chunks(contentOf(LARGE)), { limit: LARGE });
    assert.is(await vault.sweepStaging(), 1);
    assert.equal(leftovers(), [alive.token]);
    await vault.publish([alive]);
    await vault.close();
  });

  test("a closed vault drops what is staged, and refuses what comes", async () => {
    const { vault, leftovers } = given();
    const large = await vault.stage(chunks(contentOf(LARGE)), { limit: LARGE });
    const source = new PassThrough();
    const receiving = rejection(vault.stage(source, { limit: LARGE }));
    await vault.close();
    source.end(contentOf(LARGE));
    assert.is((await receiving).message, "the vault is closed");
    assert.equal(leftovers(), []);
    for (const late of [vault.stage(chunks(contentOf(1)), { limit: 1 }), vault.publish([large]), vault.sweepStaging()])
      assert.is((await rejection(late)).message, "the vault is closed");
  });

  test.run();
}
