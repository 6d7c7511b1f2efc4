import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createBackupMaker } from "../../src/backup/backup-maker.ts";
import type { BackupWorkerData } from "../../src/backup/backup-worker.ts";
import { BackupError } from "../../src/backup/errors.ts";

import { createMemoryBudget } from "../../src/http/memory/memory-budget.ts";
import { acquireFrom } from "../../src/workers/task-memory.ts";

const test = suite("backup/backup-maker");

test("starts no thread once it is closed", async () => {
  let started = 0;
  const maker = createBackupMaker({
    start() {
      started += 1;
      throw new Error("no thread here");
    },
  });
  const make = () => maker.make({} as BackupWorkerData).catch((error: unknown) => error);
  assert.match(String(await make()), "no thread here");
  await maker.close();
  const refusal = await make();
  assert.instance(refusal, BackupError);
  assert.is((refusal as Error).message, "the server is stopping");
  assert.is(started, 1);
});

test("holds memory while a thread runs; a stop ends the wait for it", async () => {
  const MB = 1 << 20;
  const memory = createMemoryBudget({ total: MB, bodies: MB, answers: MB });
  const held: number[] = [];
  const maker = createBackupMaker({
    acquireMemory: acquireFrom(memory.threads, MB),
    start() {
      held.push(memory.load().threads.bytes);
      throw new Error("no thread here");
    },
  });
  const make = () => maker.make({} as BackupWorkerData).catch((error: Error) => error.message);
  assert.is(await make(), "no thread here");
  assert.equal({ held, afterwards: memory.load().threads.bytes }, { held: [MB], afterwards: 0 });

  const others = memory.threads.take(MB, () => undefined);
  const waiting = make();
  await maker.close();
  assert.is(await waiting, "the server is stopping");
  others?.release();
  assert.equal(memory.load().threads, { bytes: 0, waiting: 0, refused: 0 });
  assert.is(held.length, 1, "no thread was started");
});

test.run();
