/** Packages as streams: consistent, abandoned without a trace, bounded in number. */
import { mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import type { Worker } from "node:worker_threads";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startPackageWorker } from "../../src/server/worker-threads.ts";
import { DamagedEvidenceError } from "../../src/evidence/errors.ts";
import { evidencePath } from "../../src/evidence/layout.ts";
import { createMemoryBudget } from "../../src/http/memory/memory-budget.ts";
import { acquireFrom } from "../../src/workers/task-memory.ts";
import { PackagesBusyError } from "../../src/audit-packages/admission.ts";
import { PackageMemoryError, PackageWorkerError, createPackageMaker } from "../../src/audit-packages/package-maker.ts";
import type { PackageMaker } from "../../src/audit-packages/package-maker.ts";
import { StalledError } from "../../src/workers/byte-streams.ts";
import { fresh, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { unpack } from "./unpack.ts";

const test = suite("audit-packages/package-maker");
const MB = 1 << 20;
const directory = mkdtempSync(join(tmpdir(), "assay-packages-"));
const data = { directory, evidence: join(directory, "evidence"), staging: join(directory, "staging") };
let server: TestServer;
let maker: PackageMaker;
test.before(async () => {
  server = await startServer({ directory });
  maker = createPackageMaker({ data, start: startPackageWorker });
});
test.after(async () => {
  await maker.close();
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** A trail with that many megabytes of incompressible evidence. */
async function trail(megabytes: number) {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const name = await server.given.trail(at, { flow });
  for (let file = 0; file < megabytes; file += 1) {
    const content = Buffer.alloc(1 << 20);
    for (let index = 0, state = file + 7; index < content.length; index += 1)
      content[index] = (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) >>> 24;
    content.write(fresh("content"));
    await server.given.attestation(at, {
      flow,
      trail: name,
      file: { name: "attachment_file", filename: "noise.bin", content },
    });
  }
  const organization = server.store.organizations.find(at.org) as { id: number };
  const { id: flowId } = server.store.flows.find(organization.id, flow) as { id: number };
  const { id } = server.store.trails.find(flowId, name) as { id: number };
  return {
    at,
    flow,
    name,
    request: {
      organizationId: organization.id,
      caller: "ada",
      subject: { kind: "trail" as const, trailId: id },
      baseUrl: "http://assay.test",
    },
  };
}

/** Files of packages that this process has open. They have no names, so only the file descriptors show them. */
const openFiles = (): string[] =>
  readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      // The evidence store keeps its directories open.
      return target.startsWith(data.staging) || /\/evidence\/[0-9a-f]{2}\/[0-9a-f]/.test(target) ? [target] : [];
    } catch {
      return [];
    }
  });

test("a package has the records of the moment it was started, however slowly it is read", async () => {
  const { at, flow, name, request } = await trail(4);
  const before = await buffer(await maker.open(request));
  const stream = await maker.open(request);
  const [first] = (await once(stream, "data")) as [Buffer];
  stream.pause();
  await server.given.attestation(at, { flow, trail: name, name: "later" });
  await server.given.trail(at, { flow, name, description: "changed" });
  const rest = await buffer(stream);
  assert.ok(Buffer.concat([first, rest]).equals(before));
  const members = await unpack(await buffer(await maker.open(request)));
  assert.equal(
    { description: members.json("trail.json").description, attestationCount: members.json("attestations.json").length },
    { description: "changed", attestationCount: 5 },
  );
});

test("a package has the digits that were sent", async () => {
  const { at, flow, name, request } = await trail(0);
  const json = '{"attestation_name":"a","is_compliant":true,"user_data":{"n":[9007199254740993,1.0],"10":1,"2":2}}';
  await server.call("POST", `/attestations/${at.org}/${flow}/trail/${name}/generic`, { key: at.key, form: { json } });
  const members = await unpack(await buffer(await maker.open(request)));
  const text = members.text("attestations.json").replace(/\s/g, "");
  assert.ok(text.includes('"user_data":{"n":[9007199254740993,1.0],"10":1,"2":2}'), text);
});

test("an abandoned package leaves no open files and nothing in the directories", async () => {
  const { request } = await trail(3);
  const stream = await maker.open(request);
  await once(stream, "readable");
  assert.ok(openFiles().length >= 2);
  assert.equal(readdirSync(data.staging), []);
  stream.destroy();
  // The thread processes requests in order: when this one is done, the first has ended.
  await maker.report(request);
  assert.equal(openFiles(), []);
});

test("does not make a package after its request was aborted", async () => {
  const { request } = await trail(1);
  const abort = new AbortController();
  const opening = maker.open(request, abort.signal);
  abort.abort(new Error("gone"));
  assert.is(await opening.catch((error: Error) => error.message), "gone");
  await maker.report(request);
  assert.equal(openFiles(), []);
  assert.is(await maker.open(request, abort.signal).catch((error: Error) => error.message), "gone");
});

test("ends the stream of a client that stops reading, and frees its place", async () => {
  const { request } = await trail(3);
  const shortTimeout = createPackageMaker({ data, start: startPackageWorker, stallTimeoutMs: 1 });
  try {
    const opening = shortTimeout.open(request);
    // Either assembling took longer than a millisecond, or the stream was not read.
    const error = await opening.then(
      (stream) => once(stream, "close").then(() => stream.errored),
      (refusal: Error) => refusal,
    );
    assert.instance(error, StalledError);
  } finally {
    await shortTimeout.close();
  }
});

test("composes one report after the other, and refuses those beyond the queue and the share of a caller", async () => {
  const { request } = await trail(0);
  const compose = (caller: string, count: number): Promise<string>[] =>
    Array.from({ length: count }, () =>
      maker.report({ ...request, caller }).then(
        (pdf) => pdf.subarray(0, 5).toString(),
        (error: Error) => error.name,
      ),
    );
  const callers = [18, 16, 16, 17].flatMap((count, index) => compose(`caller-${index}`, count));
  const refused = (await Promise.all(callers)).flatMap((text, place) => (text === "%PDF-" ? [] : [[place, text]]));
  assert.equal(refused, [
    [17, "PackagesBusyError"],
    [66, "PackagesBusyError"],
  ]);
});

test("a caller who asks for many packages delays the one of another caller by one alone", async () => {
  const { request } = await trail(1);
  const order: string[] = [];
  const open = (caller: string, name: string) =>
    maker.open({ ...request, caller }).then((stream) => {
      order.push(name);
      return stream;
    });
  const opened = ["a1", "a2", "a3", "a4", "a5"].map((name) => open("ada", name));
  opened.push(open("grace", "g1"), open("grace", "g2"));
  for (const stream of await Promise.all(opened)) stream.destroy();
  assert.equal(order, ["a1", "g1", "a2", "g2", "a3", "a4", "a5"]);
});

test("says that a package did not have its turn in time, and leaves it", async () => {
  const { request } = await trail(0);
  const memory = createMemoryBudget({ total: MB, bodies: MB, answers: MB });
  const acquireMemory = acquireFrom(memory.threads, MB);
  const own = createPackageMaker({ data, start: startPackageWorker, acquireMemory, maxWaitingMs: 10 });
  const others = memory.threads.take(MB, () => undefined);
  try {
    const failures = [own.open(request), own.open(request)].map((opening) =>
      opening.catch((error: Error) => error.name),
    );
    // The first has its turn, but no memory.
    assert.equal(await Promise.all(failures), ["PackageMemoryError", "PackagesBusyError"]);
    others?.release();
    (await own.open(request)).destroy();
  } finally {
    await own.close();
  }
});

test("takes memory until a package is assembled or a report is sent, and lets the next one wait for it", async () => {
  const { request } = await trail(3);
  const memory = createMemoryBudget({ total: MB, bodies: MB, answers: MB });
  const held = () => memory.load().threads.bytes;
  const own = createPackageMaker({ data, start: startPackageWorker, acquireMemory: acquireFrom(memory.threads, MB) });
  try {
    const opening = own.open(request);
    const [second, report] = [own.open({ ...request, caller: "grace" }), own.report(request)];
    const abort = new AbortController();
    const abandoned = own.open(request, abort.signal).catch((error: Error) => error.message);
    await new Promise(setImmediate);
    // The others of the same caller wait for their turn.
    assert.equal(memory.load().threads, { bytes: MB, waiting: 1, refused: 0 });
    abort.abort(new Error("gone"));
    assert.is(await abandoned, "gone");

    // A client that does not read holds none of it.
    const first = await opening;
    const unread = await second;
    assert.is((await report).subarray(0, 5).toString(), "%PDF-");
    assert.is(held(), 0);
    assert.ok((await buffer(first)).length > 3 * MB);
    unread.destroy();

    const others = memory.threads.take(MB, () => undefined);
    const cancelled = new AbortController();
    const waiting = own.open(request, cancelled.signal).catch((error: Error) => error.message);
    cancelled.abort(new Error("gone, too"));
    assert.is(await waiting, "gone, too");
    others?.release();
    assert.equal(memory.load().threads, { bytes: 0, waiting: 0, refused: 0 });
  } finally {
    await own.close();
  }
});

test("gives the memory back when a package cannot be made, and says that it waited too long for it", async () => {
  const memory = createMemoryBudget({ total: MB, bodies: MB, answers: MB });
  const acquireMemory = acquireFrom(memory.threads, MB);
  const { request } = await trail(0);
  const own = createPackageMaker({ data, start: startPackageWorker, acquireMemory, maxWaitingMs: 10 });
  try {
    const missing = { ...request, subject: { kind: "trail" as const, trailId: 987_654 } };
    assert.instance(await own.open(missing).catch((error) => error), PackageWorkerError);
    assert.is(memory.load().threads.bytes, 0);
    const others = memory.threads.take(MB, () => undefined);
    assert.instance(await own.open(request).catch((error) => error), PackageMemoryError);
    others?.release();
    (await own.open(request)).destroy();
    assert.is(memory.load().threads.bytes, 0);
  } finally {
    await own.close();
  }
});

test("queues requests beyond the limits, and refuses those beyond the queue and the share of a caller", async () => {
  const { request } = await trail(3);
  const of = (caller: string) => ({ ...request, caller });
  const busy = (caller: string) => maker.open(of(caller)).catch((error) => error);
  const abort = new AbortController();
  const wait = (caller: string, count: number) =>
    Array.from({ length: count }, () =>
      maker.open(of(caller), abort.signal).then(
        (stream) => stream,
        (error: Error) => error,
      ),
    );
  const first = await Promise.all(Array.from({ length: 16 }, () => maker.open(of("a"))));
  const waiting = wait("a", 64);
  assert.instance(await busy("a"), PackagesBusyError);
  const callers = ["b", "c", "d"];
  const others = await Promise.all(
    callers.flatMap((caller) => Array.from({ length: 16 }, () => maker.open(of(caller)))),
  );
  for (const caller of callers) waiting.push(...wait(caller, 64));
  assert.instance(await busy("e"), PackagesBusyError);
  first[0]?.destroy();
  const next = await Promise.race(waiting);
  assert.not.instance(next, Error);
  abort.abort(new Error("gone"));
  const left = (await Promise.all(waiting)).filter((one) => one !== next);
  for (const one of left) assert.is((one as Error).message, "gone");
  for (const stream of [...first, ...others, next as (typeof first)[number]]) stream.destroy();
  await unpack(await buffer(await maker.open(request)));
});

test("a new thread knows the damage that an earlier one found", async () => {
  const { request } = await trail(1);
  const digest = server.db
    .prepare("SELECT evidence_digest FROM attestations WHERE trail_id = ?")
    .pluck()
    .get(request.subject.trailId) as string;
  const path = evidencePath(data.evidence, digest);
  const content = readFileSync(path);
  unlinkSync(path);
  writeFileSync(path, Buffer.concat([content.subarray(0, -1), Buffer.from("!")]));
  const workers: Worker[] = [];
  const restartable = createPackageMaker({
    data,
    start(options) {
      const worker = startPackageWorker(options);
      workers.push(worker);
      return worker;
    },
  });
  try {
    assert.instance(
      await restartable
        .open(request)
        .then(buffer)
        .catch((error) => error),
      DamagedEvidenceError,
    );
    const ended = once(workers[0] as Worker, "exit");
    await workers[0]?.terminate();
    await ended;
    const members = await unpack(await buffer(await restartable.open(request)));
    assert.equal(
      members
        .json("manifest.json")
        .not_included.map(({ sha256, reason }: { sha256: string; reason: string }) => [sha256, reason]),
      [[digest, "damaged"]],
    );
    assert.is(workers.length, 2);
  } finally {
    await restartable.close();
  }
});

test("a dying thread fails its packages, and the next package gets a new thread", async () => {
  const { request } = await trail(3);
  const workers: Worker[] = [];
  const restartable = createPackageMaker({
    data,
    start(options) {
      const worker = startPackageWorker(options);
      workers.push(worker);
      return worker;
    },
  });
  try {
    const stream = await restartable.open(request);
    const failing = buffer(stream).catch((error) => error);
    await workers[0]?.terminate();
    assert.instance(await failing, PackageWorkerError);
    await unpack(await buffer(await restartable.open(request)));
    assert.is(workers.length, 2);
  } finally {
    await restartable.close();
  }
  assert.instance(await restartable.open(request).catch((error) => error), PackageWorkerError);
});

test.run();
