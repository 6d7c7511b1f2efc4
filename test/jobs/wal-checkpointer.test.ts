/** The write-ahead log under readers that overlap each other without an end, in threads of their own. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createLogWatch, LIMITS, patienceFor } from "../../src/jobs/wal-checkpointer.ts";
import type { CheckpointLimits } from "../../src/jobs/wal-checkpointer.ts";
import { createRecorder } from "../../src/jobs/large-reports.ts";
import { createLogger } from "../../src/log.ts";
import { delegateCheckpoints, openDatabase } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import { walBytes, listWalReaders } from "../../src/store/db/wal.ts";
import type { WalReader } from "../../src/store/db/wal.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";
import { createRecordingPool } from "../../src/server/worker-threads.ts";

const test = suite("jobs/wal-checkpointer");
const KB = 1024;
const SMALL: CheckpointLimits = {
  steps: [
    { from: 512 * KB, patience: 5 },
    { from: 1024 * KB, patience: 5000 },
  ],
  alarm: 8192 * KB,
};

/**
 * A database with its writer, and two threads that read it; `turn` has them begin a new transaction each, one after the
 * other.
 */
async function world(
  checkpoints: "own" | "external",
  body: (house: Awaited<ReturnType<typeof open>>) => Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "assay-log-"));
  const house = await open(directory, checkpoints);
  try {
    await body(house);
  } finally {
    await house.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function open(directory: string, checkpoints: "own" | "external") {
  const db = openDatabase(directory, 1);
  delegateCheckpoints(db, checkpoints);
  db.exec("CREATE TABLE filler (id INTEGER PRIMARY KEY, text TEXT)");
  const store = openStore(db, { now: () => 5000, newId: () => "id" });
  const pool = createRecordingPool(directory, checkpoints);
  const writer: GroupCommitWriter = new GroupCommitWriter(db, { onBatch: (writes) => recorder.committed(writes) });
  const recorder = createRecorder({ store, writer, now: () => 5000, pool, checkpoints });
  const readers = [0, 1].map(
    () =>
      new Worker(new URL("./log-readers.ts", import.meta.url), { workerData: { file: join(directory, "assay.db") } }),
  );
  const insert = db.prepare("INSERT INTO filler (text) VALUES (?)");
  let turns = 0;
  const lines: string[] = [];
  return {
    db,
    directory,
    recorder,
    readers,
    lines,
    logger: createLogger({ level: "info", destination: { write: (line: string) => void lines.push(line) } }),
    write: (): Promise<unknown> => writer.run(() => insert.run("x".repeat(8000))),
    /** The reader that read longest begins anew; the other one goes on meanwhile. */
    async turn(): Promise<void> {
      const reader = readers[(turns += 1) % 2] as Worker;
      reader.postMessage(null);
      await once(reader, "message");
    },
    async close(): Promise<void> {
      await Promise.all(readers.map((reader) => reader.terminate()));
      await writer.idle();
      await pool.close();
      db.close();
    },
  };
}

test("the longer the log, the longer writes may be held back", () => {
  const MB = 1 << 20;
  assert.equal(
    [0, 63 * MB, 64 * MB, 96 * MB, 200 * MB, 900 * MB].map((bytes) => patienceFor(bytes, LIMITS)),
    [0, 0, 25, 250, 2000, 2000],
  );
  assert.ok(LIMITS.steps.every(({ from }) => from < LIMITS.alarm));
});

test("thousands of writes under readers that always overlap leave a log of bounded size", () =>
  world("own", async (house) => {
    const watch = createLogWatch({
      file: { bytes: () => walBytes(house.directory), readers: () => [] },
      checkpoint: house.recorder.emptyLog,
      logger: house.logger,
      limits: SMALL,
    });
    await house.turn();
    await house.turn();
    let longest = 0;
    for (let round = 0; round < 60; round += 1) {
      await Promise.all(Array.from({ length: 40 }, house.write));
      // While it waits for readers these go on, each beginning anew while the other one reads.
      let waiting = true;
      const watched = watch().finally(() => (waiting = false));
      while (waiting) await house.turn();
      await watched;
      longest = Math.max(longest, walBytes(house.directory));
    }
    assert.is(house.db.prepare("SELECT count(*) FROM filler").pluck().get(), 2400);
    // 2400 rows of two pages and more are 25 MB; a round writes half a megabyte.
    assert.ok(longest < 2048 * KB, `${longest}`);
    assert.equal(house.lines, []);
  }));

test("a reader that never ends is told of with its process, once, and so is its end", () =>
  world("own", async (house) => {
    const limits: CheckpointLimits = { steps: [{ from: 256 * KB, patience: 1 }], alarm: 512 * KB };
    const watch = createLogWatch({
      file: { bytes: () => walBytes(house.directory), readers: () => listWalReaders(house.directory) },
      checkpoint: house.recorder.emptyLog,
      logger: house.logger,
      limits,
    });
    await house.write();
    await house.turn();
    for (let round = 0; round < 3; round += 1) {
      await Promise.all(Array.from({ length: 80 }, house.write));
      await watch();
    }
    assert.ok(walBytes(house.directory) > limits.alarm);
    const [line, ...more] = house.lines.map(
      (text) => JSON.parse(text) as { msg: string; level: string; wal_bytes: number; readers: WalReader[] },
    );
    assert.equal(more, []);
    assert.match(
      line?.msg ?? "",
      "the write-ahead log cannot be emptied: somebody reads the database without an end; see assay help space",
    );
    assert.ok((line?.wal_bytes ?? 0) > limits.alarm);
    assert.equal(
      line?.readers.map(({ pid }) => pid),
      [process.pid],
    );
    assert.match(line?.readers[0]?.command ?? "", "node");
    await house.readers[1]?.terminate();
    await watch();
    assert.is(walBytes(house.directory), 0);
    assert.match(house.lines[1] ?? "", "the write-ahead log is short again");
    assert.is(house.lines.length, 2);
  }));

test("where another program empties the log this server never touches it, and says when that program does not", () =>
  world("external", async (house) => {
    const limits: CheckpointLimits = { steps: [{ from: 1, patience: 1 }], alarm: 1024 * KB };
    const watch = createLogWatch({
      file: { bytes: () => walBytes(house.directory), readers: () => [] },
      checkpoint: null,
      logger: house.logger,
      limits,
    });
    for (let round = 0; round < 60; round += 1) await Promise.all(Array.from({ length: 20 }, house.write));
    await house.recorder.emptyLog(1000);
    await watch();
    // All that was written is still in the log: nothing was copied, and nothing begun anew.
    const [result] = house.db.pragma("wal_checkpoint(NOOP)") as { log: number; checkpointed: number }[];
    assert.ok((result?.log ?? 0) > 2400 && result?.checkpointed === 0, JSON.stringify(result));
    assert.match(house.lines.join(""), "checkpoints: external");
  }));

test("locks of others than readers of the log, and of other files, are none of its readers", () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-log-"));
  try {
    assert.equal(listWalReaders(directory), []);
    const db = openDatabase(directory, 1);
    db.exec("BEGIN");
    db.prepare("SELECT count(*) FROM flows").get();
    const none = listWalReaders(
      directory,
      () => "1: POSIX  ADVISORY  READ 77 08:02:1 124 124\n2: POSIX  ADVISORY  WRITE 78 08:02:2 124 124\nnonsense\n",
    );
    assert.equal(none, []);
    assert.equal(
      listWalReaders(directory, () => {
        throw new Error("no such file");
      }),
      [],
    );
    db.close();
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test.run();
