import { suite } from "uvu";
import * as assert from "uvu/assert";
import { LogSyncError, createCommitSync } from "../../../src/store/db/commit-sync.ts";

const test = suite("store/db/commit-sync");

/** A sync whose end the test decides. */
function given() {
  const started: ((error: unknown) => void)[] = [];
  const failures: Error[] = [];
  const commits = createCommitSync(
    (done) => void started.push(done),
    (error) => void failures.push(error),
  );
  const called: string[] = [];
  const wait = (name: string): void => commits.whenDurable(() => void called.push(name));
  return { commits, started, failures, called, wait, end: (error: unknown = null) => started.shift()?.(error) };
}

test("calls at once while everything is durable, and starts no sync for it", () => {
  const { commits, started, called, wait } = given();
  wait("a");
  assert.equal([called, started.length, commits.isPending()], [["a"], 0, false]);
});

test("a commit starts a sync; the commit and who waits are called when that ends", () => {
  const { commits, called, wait, end } = given();
  commits.start(() => void called.push("commit"));
  wait("a");
  wait("b");
  assert.equal([called, commits.isPending()], [[], true]);
  end();
  assert.equal([called, commits.isPending()], [["commit", "a", "b"], false]);
});

test("who is called may commit again", () => {
  const { commits, started, called, wait, end } = given();
  commits.start(() => {
    called.push("first");
    commits.start(() => void called.push("second"));
  });
  end();
  assert.equal([called, started.length, commits.isPending()], [["first"], 1, true]);
  wait("later");
  end();
  assert.equal([called, commits.isPending()], [["first", "second", "later"], false]);
});

test("a commit during a sync is a mistake of the caller", () => {
  const { commits } = given();
  commits.start(() => undefined);
  assert.throws(() => commits.start(() => undefined), "a commit during a sync");
});

test("after a sync that failed nobody is called, and the failure says what to do", () => {
  const { commits, started, failures, called, wait, end } = given();
  commits.start(() => void called.push("commit"));
  wait("a");
  end(Object.assign(new Error("i/o error"), { code: "EIO" }));
  assert.equal([called, started.length, commits.isPending()], [[], 0, true]);
  wait("c");
  assert.equal(called, []);
  assert.instance(failures[0], LogSyncError);
  assert.is(
    failures[0]?.message,
    "the write-ahead log could not be synced to disk (EIO): the latest changes are not acknowledged and may be lost, " +
      "and the server ends. Look after the disk, then start it again",
  );
});

test.run();
