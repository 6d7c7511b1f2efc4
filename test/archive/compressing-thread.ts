/** A thread that makes something with compressors as `workerData` says, and reports each step. */
import { parentPort, workerData } from "node:worker_threads";
import { deflateRawSync } from "node:zlib";
import { withCompressors } from "../../src/archive/compressors.ts";

const { gate, ends } = workerData as { gate: Int32Array; ends: boolean };
withCompressors(() => {
  parentPort?.postMessage("began");
  if (ends) process.exit(3);
  Atomics.wait(gate, 0, 0);
  withCompressors(() => deflateRawSync("inner"));
  parentPort?.postMessage(deflateRawSync("made").length);
});
for (;;) withCompressors(() => deflateRawSync("again"));
