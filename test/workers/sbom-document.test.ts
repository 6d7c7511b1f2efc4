/** SBOMs in a real thread, within its memory, and once each. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { MAX_INLINE_DOCUMENT_BYTES } from "../../src/domain/documents.ts";
import type { AppError } from "../../src/errors.ts";
import { openDocuments } from "../../src/server/worker-threads.ts";
import type { DocumentResult, DocumentTask } from "../../src/workers/document-worker.ts";
import { createDocumentReader } from "../../src/workers/documents.ts";
import { DeadlineError, QueueFullError, WorkerDiedError } from "../../src/workers/pool.ts";
import { MAX_SBOM_BYTES } from "../../src/workers/sbom-document.ts";
import { rejection } from "../evidence/given.ts";

const test = suite("workers/sbom-document");
const documents = openDocuments();
test.after(() => documents.close());

const TOO_COMPLEX = { unread: "it has more values than the server reads" };
let digests = 0;
const freshDigest = () => String((digests += 1));
const read = (text: string) => documents.readSbom("a", freshDigest(), () => Promise.resolve(Buffer.from(text)));
const components = (count: number): string =>
  Array.from({ length: count }, (_, index) => `{"name":"c${index}","version":"1","purl":"pkg:npm/c${index}"}`).join();

/** A reader whose thread gives every task this result. */
function readerOf(answer: DocumentResult | Error) {
  const tasks: DocumentTask[] = [];
  const reader = createDocumentReader({
    run(task: DocumentTask) {
      tasks.push(task);
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
    load: () => ({ waiting: 0, running: 0 }),
    close: async () => undefined,
  });
  return { reader, tasks };
}

test("reads small and large documents alike", async () => {
  for (const count of [1, 20_000]) {
    const found = await read(`{"bomFormat":"CycloneDX","components":[${components(count)}]}`);
    if ("unread" in found) throw new Error(found.unread);
    assert.equal(
      { components: found.facts.components, hash: found.facts.without.hash, version: found.facts.without.version },
      { components: count, hash: count, version: 0 },
    );
  }
});

test("reads no document that would take more memory than the thread has", async () => {
  const fill = (piece: string, end = ""): string =>
    piece.repeat(Math.floor((MAX_SBOM_BYTES - 100) / piece.length)) + end;
  const head = '{"bomFormat":"CycloneDX","components":[';
  for (const text of [
    `${head}${fill("{},", "{}")}]}`,
    `${head}${fill("[],", "[]")}]}`,
    `${head}${fill("0,", "0")}]}`,
    `${"[".repeat(1_000_000)}`.replace("[", '{"a":['),
    `\ufeff \n${head}${fill("{},", "{}")}]}`,
  ])
    assert.equal(await read(text), TOO_COMPLEX);
  const keys = Array.from({ length: 20_000 }, (_, index) => `"key${index}":0`).join();
  assert.equal(await read(`${head}{${keys}}]}`), TOO_COMPLEX);
  assert.equal(await read(`SPDXVersion: SPDX-2.3\n${fill("PackageName: ü\n")}`.slice(0, 7_000_000)), TOO_COMPLEX);
});

test("reads the costliest documents that it accepts", async () => {
  const head = '{"bomFormat":"CycloneDX","components":[';
  const wide = `{"name":"ü","x":"${"y".repeat(7_000_000)}"}`;
  const many = Array.from({ length: 39_000 }, (_, i) => `{"name":"ü${i}","hashes":[{"alg":"a","content":"b"}]}`);
  for (const text of [`${head}${wide}]}`, `${head}${many.join()}]}`]) assert.ok("facts" in (await read(text)));
  const lines = Array.from({ length: 139_000 }, (_, i) => `PackageName: ü${i}\n`).join("");
  assert.ok("facts" in (await read(`SPDXVersion: SPDX-2.3\n${lines}`)));
});

test("reads a document once, and its bytes only when it is not known", async () => {
  const facts = { unread: "of the thread" };
  const { reader, tasks } = readerOf({ sbom: facts });
  let loads = 0;
  const load = () => {
    loads += 1;
    return Promise.resolve(Buffer.alloc(MAX_INLINE_DOCUMENT_BYTES + 1));
  };
  for (const lane of ["a", "b"]) assert.is(await reader.readSbom(lane, "digest", load), facts);
  assert.equal({ loads, tasks: tasks.length }, { loads: 1, tasks: 1 });
});

test("has at most two documents in memory", async () => {
  let [loaded, most] = [0, 0];
  const reads = Array.from({ length: 6 }, () =>
    documents.readSbom("a", freshDigest(), async () => {
      most = Math.max(most, (loaded += 1));
      await new Promise(setImmediate);
      loaded -= 1;
      return Buffer.from("x");
    }),
  );
  await Promise.all(reads);
  assert.is(most, 2);
});

test("a document that ends its thread counts as too complex; a busy thread and lost bytes are an error", async () => {
  const bytes = () => Promise.resolve(Buffer.alloc(MAX_INLINE_DOCUMENT_BYTES + 1));
  for (const error of [
    new DeadlineError("documents", { deadlineMs: 1, started: true }),
    new WorkerDiedError("memory", { began: true }),
  ])
    assert.equal(await readerOf(error).reader.readSbom("a", "d", bytes), TOO_COMPLEX);
  const busy = await rejection(readerOf(new QueueFullError("documents", 1)).reader.readSbom("a", "d", bytes));
  assert.is((busy as AppError).code, "unavailable");
  const { reader } = readerOf({ sbom: { unread: "later" } });
  const lost = new Error("gone");
  assert.is(await rejection(reader.readSbom("a", "d", () => Promise.reject(lost))), lost);
  assert.equal(await reader.readSbom("a", "d", bytes), { unread: "later" }, "an error is not kept");
});

test.run();
