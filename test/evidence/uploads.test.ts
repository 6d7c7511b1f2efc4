/** Files of uploads whose row is refused: they go at once, unless anything may still need them. */
import { readFileSync } from "node:fs";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createUploads } from "../../src/evidence/uploads.ts";
import { type AppError, UnconfirmedError, conflict, readOnly, unavailable } from "../../src/errors.ts";
import type { Disk } from "../../src/evidence/disk.ts";
import {
  chunks,
  contentOf,
  digestOf,
  gate,
  givenLocalStore,
  givenRoot,
  interceptedDisk,
  rejection,
  removeRoots,
} from "./given.ts";

const test = suite("evidence/uploads");
test.after(removeRoots);

const coded = (code: string): Error => Object.assign(new Error(code), { code });
const notStored = (code: string): AppError => unavailable("The write could not be stored", 5, coded(code));

/** A store with uploads, whose rows are in `rows`. */
function given(options: { root?: string; disk?: Disk } = {}) {
  const local = givenLocalStore(options);
  const rows = new Set<string>();
  const failures: { error: unknown; digest: string }[] = [];
  const uploads = createUploads({
    store: local.store,
    isReferenced: (digest) => rows.has(digest),
    onFailure: (error, digest) => void failures.push({ error, digest }),
  });
  const stage = (content: Buffer) => uploads.stage(chunks(content), { limit: content.length });
  return {
    ...local,
    rows,
    failures,
    uploads,
    /** Uploads content whose write ends with `error`, or is committed. */
    async upload(content: Buffer, error: Error | null = null): Promise<string> {
      const staged = await stage(content);
      return uploads.publishFor(staged, async () => {
        if (error) throw error;
        rows.add(staged.digest);
        return staged.digest;
      });
    },
    /** The same, whose write waits until `end` is called. */
    async begin(content: Buffer) {
      const staged = await stage(content);
      const [published, ended] = [gate(), gate()];
      let failure: Error | null = null;
      const write = async (): Promise<void> => {
        published.open();
        await ended.passed;
        if (failure) throw failure;
        rows.add(staged.digest);
      };
      const done = uploads.publishFor(staged, write).then(
        () => null,
        (error: Error) => error,
      );
      return {
        published: published.passed,
        end(error: Error | null = null): Promise<Error | null> {
          failure = error;
          ended.open();
          return done;
        },
      };
    },
  };
}

const CONTENT = contentOf(5_000);
const DIGEST = digestOf(CONTENT);

for (const [what, error] of [
  ["a full disk", notStored("SQLITE_FULL")],
  ["read-only mode", readOnly("the disk is full")],
  ["another writer", notStored("SQLITE_BUSY")],
  ["the operation", conflict()],
  ["a mistake of the program", new TypeError("x is not a function")],
] as const)
  test(`the file of a write that ${what} refused is removed, and the error is that of the write`, async () => {
    const { upload, files, leftovers, store, failures } = given();
    assert.is(await rejection(upload(CONTENT, error)), error);
    assert.equal({ files: files(), leftovers: leftovers(), failures }, { files: [], leftovers: [], failures: [] });
    assert.is(await upload(CONTENT), DIGEST);
    assert.is(await store.verify(DIGEST), "ok");
    await store.close();
  });

test("a file that was there before the refused upload stays", async () => {
  const { upload, put, files, store } = given();
  await put(CONTENT);
  await rejection(upload(CONTENT, notStored("SQLITE_FULL")));
  assert.equal(files(), [DIGEST]);
  await store.close();
});

test("a file that a row names stays, also when the request failed after its commit", async () => {
  const { upload, rows, files, store } = given();
  rows.add(DIGEST);
  await rejection(upload(CONTENT, conflict()));
  assert.equal(files(), [DIGEST]);
  await store.close();
});

test("of two uploads of the same content, one refused and one stored, the file stays, in either order", async () => {
  for (const refusedEndsFirst of [true, false])
    for (const refusedPublishedFirst of [true, false]) {
      const { begin, files, pathOf, store } = given();
      const [first, second] = [await begin(CONTENT), await begin(CONTENT)];
      await Promise.all([first.published, second.published]);
      const [refused, stored] = refusedPublishedFirst ? [first, second] : [second, first];
      const ends = [() => refused.end(notStored("SQLITE_FULL")), () => stored.end()];
      for (const end of refusedEndsFirst ? ends : ends.reverse()) await end();
      assert.equal(files(), [DIGEST]);
      assert.ok(readFileSync(pathOf(DIGEST)).equals(CONTENT));
      await store.close();
    }
});

test("of several uploads of the same content that are all refused, the last one removes the file", async () => {
  const { begin, files, store } = given();
  const uploads = [await begin(CONTENT), await begin(CONTENT), await begin(CONTENT)];
  await Promise.all(uploads.map(({ published }) => published));
  await uploads[0]?.end(notStored("SQLITE_FULL"));
  await uploads[2]?.end(conflict());
  assert.equal(files(), [DIGEST]);
  await uploads[1]?.end(notStored("SQLITE_FULL"));
  assert.equal(files(), []);
  await store.close();
});

test("an upload that begins while the file of a refused one is removed publishes its content again", async () => {
  const root = givenRoot();
  const [removing, mayRemove] = [gate(), gate()];
  const disk = interceptedDisk(root, async (call) => {
    if (!call.startsWith("unlink evidence")) return;
    removing.open();
    await mayRemove.passed;
  });
  const { upload, store } = given({ root, disk });
  const refused = rejection(upload(CONTENT, notStored("SQLITE_FULL")));
  await removing.passed;
  const stored = upload(CONTENT);
  mayRemove.open();
  await Promise.all([refused, stored]);
  assert.is(await store.verify(DIGEST), "ok");
  await store.close();
});

for (const error of [notStored("SQLITE_IOERR_FSYNC"), new UnconfirmedError("the database was replaced")])
  test(`a write that may come back after a kill keeps its file until the next commit: ${error.message}`, async () => {
    const { upload, files, store } = given();
    await rejection(upload(CONTENT, error));
    assert.equal(files(), [DIGEST]);
    // Neither a refusal nor a write without a new row is a later commit.
    await rejection(upload(contentOf(10, 1), conflict()));
    await rejection(upload(CONTENT, conflict()));
    assert.equal(files(), [DIGEST]);
    const later = await upload(contentOf(10, 2));
    await store.close();
    assert.equal(files(), [later]);
  });

test("a write that was on its way when another one failed does not decide about that one", async () => {
  const { begin, upload, files, store } = given();
  const earlier = await begin(contentOf(10, 1));
  await earlier.published;
  await rejection(upload(CONTENT, notStored("SQLITE_IOERR_FSYNC")));
  assert.is(await earlier.end(), null);
  await store.close();
  assert.ok(files().includes(DIGEST));
});

test("content that may come back and is uploaded again stays", async () => {
  const { upload, files, store } = given();
  await rejection(upload(CONTENT, notStored("SQLITE_IOERR_FSYNC")));
  await upload(CONTENT);
  const later = await upload(contentOf(10, 2));
  await store.close();
  assert.equal(files(), [DIGEST, later].sort());
});

test("a file that cannot be removed is told, and the error stays that of the write", async () => {
  const root = givenRoot();
  const disk = interceptedDisk(root, (call) => {
    if (call.startsWith("unlink evidence")) throw coded("EIO");
  });
  const { upload, files, failures, store } = given({ root, disk });
  const error = await rejection(upload(CONTENT, notStored("SQLITE_FULL")));
  assert.is((error as AppError).message, "The write could not be stored");
  assert.equal(
    failures.map((failure) => ({ ...failure, error: (failure.error as Error).message })),
    [{ error: "EIO", digest: DIGEST }],
  );
  assert.equal(files(), [DIGEST]);
  await store.close();
});

test("a file whose name cannot be made durable is removed", async () => {
  const root = givenRoot();
  const shard = DIGEST.slice(0, 2);
  const disk = interceptedDisk(root, (call) => {
    if (call === `fsync evidence/${shard}`) throw coded("ENOSPC");
  });
  const { upload, files, store } = given({ root, disk });
  assert.is((await rejection(upload(CONTENT))).message, "ENOSPC");
  assert.equal(files(), []);
  await store.close();
});

test.run();
