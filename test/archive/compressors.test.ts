/** Threads that make compressors are ended between two of them. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startEndable, withCompressors } from "../../src/archive/compressors.ts";
import { sourceFiles } from "../rules/source.ts";
import { workerNames } from "../../bin/bundle.ts";
import { ROOT } from "../rules/source.ts";

const test = suite("archive/compressors");
const ENTRY = new URL("./compressing-thread.ts", import.meta.url);

/** A thread that holds a compressor, with what it has reported. */
async function holding({ ends = false } = {}) {
  const gate = new Int32Array(new SharedArrayBuffer(4));
  const worker = startEndable(() => new Worker(ENTRY, { workerData: { gate, ends } }));
  const reports: unknown[] = [];
  worker.on("message", (report) => reports.push(report));
  // Listens before the thread reports: one that ends at once exits in the same turn.
  const exited = once(worker, "exit");
  await once(worker, "message");
  const open = (): void => {
    Atomics.store(gate, 0, 1);
    Atomics.notify(gate, 0);
  };
  return { worker, reports, open, exited };
}

test("a thread is ended after it has made its compressor, and not before", async () => {
  const { worker, reports, open } = await holding();
  const ending = Promise.all([worker.terminate(), worker.terminate()]);
  open();
  await ending;
  assert.equal(reports, ["began", 6]);
});

test("a thread that ended by itself while it made one is gone at once", async () => {
  const { worker, exited } = await holding({ ends: true });
  const [code] = await exited;
  assert.is(code, 3);
  await worker.terminate();
});

test("on the main thread, and in a thread that was started otherwise, work just runs", () => {
  assert.is(
    withCompressors(() => 7),
    7,
  );
});

/** Files that a thread loads, and that make compressors for others. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "src/audit-packages/pdf/fonts.ts": "within the report, all of which the thread renders withCompressors",
  "src/rego/documents.ts": "asynchronous, so not in a handler that the reader thread runs",
  "src/rego/export.ts": "a download, which the main thread sends",
};

test("a file of a thread makes compressors withCompressors", () => {
  const files = new Map(sourceFiles("src").map((file) => [file.path, file]));
  const reached = new Set<string>();
  const reach = (path: string): void => {
    const file = files.get(path);
    if (!file || reached.has(path)) return;
    reached.add(path);
    for (const name of file.imports) reach(name);
  };
  for (const name of workerNames(ROOT)) reach(`src/${name}.ts`);
  const makers =
    /\b(?:deflate|inflate|gzip|gunzip|unzip|brotli\w*|zstd\w*|create(?:G|Gun|Un)zip|create(?:De|In)flate)\w*\(/;
  const offences = [...reached].filter((path) => {
    const { text = "" } = files.get(path) ?? {};
    const names = /^import \{([^}]*)\} from "node:zlib";/m.exec(text)?.[1] ?? "";
    const used = names
      .split(",")
      .map((name) => name.trim())
      .filter((name) => makers.test(`${name}(`));
    return used.length > 0 && !text.includes("withCompressors(");
  });
  assert.equal(offences.sort(), Object.keys(ELSEWHERE));
});

test.run();
