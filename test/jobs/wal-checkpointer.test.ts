/** The write-ahead log under endlessly overlapping readers, in threads of their own. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createWalWatch, CHECKPOINT_LIMITS, busyTimeoutFor } from "../../src/jobs/wal-checkpointer.ts";
import type { CheckpointLimits } from "../../src/jobs/wal-checkpointer.ts";
import { createRecorder } from "../../src/jobs/recorder.ts";
import { createLogger } from "../../src/log.ts";
import { delegateCheckpoints } from "../../src/store/db/connection.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import { walBytes, listWalReaders } from "../../src/store/db/wal.ts";
import type { WalReader } from "../../src/store/db/wal.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";
import { createRecordingPool } from "../../src/server/worker-threads.ts";

const test = suite("jobs/wal-checkpointer");
const KB = 1024;
const SMALL: CheckpointLimits = {
  steps: [
    { fromBytes: 512 * KB, busyTimeoutMs: 5 },
    { fromBytes: 1024 * KB, busyTimeoutMs: 5000 },
  ],
  alarmBytes: 8192 * KB,
};

/** A database with its writer, and two threads that read it; `turn` makes each begin a new transaction in turn. */
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
  const pool = createRecordingPool(directory, { checkpoints });
  const writer: GroupCommitWriter = new GroupCommitWriter(db, { onBatch: (writes) => recorder.onCommit(writes) });
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
    /** The reader with the oldest transaction begins a new one, while the other one continues. */
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

test("holds back writes longer for a longer log", () => {
  const MB = 1 << 20;
  assert.equal(
    [0, 63 * MB, 64 * MB, 96 * MB, 200 * MB, 900 * MB].map((bytes) => busyTimeoutFor(bytes, CHECKPOINT_LIMITS)),
    [0, 0, 25, 250, 2000, 2000],
  );
  assert.ok(CHECKPOINT_LIMITS.steps.every(({ fromBytes: from }) => from < CHECKPOINT_LIMITS.alarmBytes));
});

test("bounds the log over thousands of writes under readers that always overlap", () =>
  world("own", async (house) => {
    const watch = createWalWatch({
      file: { bytes: () => walBytes(house.directory), readers: () => [] },
      checkpoint: house.recorder.emptyWal,
      logger: house.logger,
      limits: SMALL,
    });
    await house.turn();
    await house.turn();
    let longest = 0;
    for (let round = 0; round < 60; round += 1) {
      await Promise.all(Array.from({ length: 40 }, house.write));
      // The readers continue while it waits for them, each beginning a new transaction while the other one reads.
      let waiting = true;
      const watched = watch().finally(() => (waiting = false));
      while (waiting) await house.turn();
      await watched;
      longest = Math.max(longest, walBytes(house.directory));
    }
    assert.is(house.db.prepare("SELECT count(*) FROM filler").pluck().get(), 2400);
    // 2400 rows of two pages or more are 25 MB; a round writes half a megabyte.
    assert.ok(longest < 2048 * KB, `${longest}`);
    assert.equal(house.lines, []);
  }));

test("reports a reader that never ends once, with its process, and reports its end", () =>
  world("own", async (house) => {
    const limits: CheckpointLimits = { steps: [{ fromBytes: 256 * KB, busyTimeoutMs: 1 }], alarmBytes: 512 * KB };
    const watch = createWalWatch({
      file: { bytes: () => walBytes(house.directory), readers: () => listWalReaders(house.directory) },
      checkpoint: house.recorder.emptyWal,
      logger: house.logger,
      limits,
    });
    await house.write();
    await house.turn();
    for (let round = 0; round < 3; round += 1) {
      await Promise.all(Array.from({ length: 80 }, house.write));
      await watch();
    }
    assert.ok(walBytes(house.directory) > limits.alarmBytes);
    const [line, ...more] = house.lines.map(
      (text) => JSON.parse(text) as { msg: string; level: string; wal_bytes: number; readers: WalReader[] },
    );
    assert.equal(more, []);
    assert.match(
      line?.msg ?? "",
      "the write-ahead log keeps growing: a reader of the database does not end; see assay help space",
    );
    assert.ok((line?.wal_bytes ?? 0) > limits.alarmBytes);
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

test("leaves the log to another program where configured, and reports when that program does not empty it", () =>
  world("external", async (house) => {
    const limits: CheckpointLimits = { steps: [{ fromBytes: 1, busyTimeoutMs: 1 }], alarmBytes: 1024 * KB };
    const watch = createWalWatch({
      file: { bytes: () => walBytes(house.directory), readers: () => [] },
      checkpoint: null,
      logger: house.logger,
      limits,
    });
    for (let round = 0; round < 60; round += 1) await Promise.all(Array.from({ length: 20 }, house.write));
    await house.recorder.emptyWal(1000);
    await watch();
    // Everything is still in the log: nothing was copied, and the log was not restarted.
    const [result] = house.db.pragma("wal_checkpoint(NOOP)") as { log: number; checkpointed: number }[];
    assert.ok((result?.log ?? 0) > 2400 && result?.checkpointed === 0, JSON.stringify(result));
    assert.match(house.lines.join(""), "checkpoints: external");
  }));

test("locks that are not those of readers of the log are not counted", () => {
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
