import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createBackupMaker } from "../../src/backup/backup-maker.ts";
import type { BackupWorkerData } from "../../src/backup/backup-worker.ts";
import { BackupError } from "../../src/backup/errors.ts";

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

test.run();
