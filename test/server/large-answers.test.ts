/** Files of large answers: who makes them, who shares them, and that nothing of them stays. */
import { mkdtempSync, readdirSync, readlinkSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { spoolAnswer } from "../../src/server/spool-answer.ts";
import { AppError, notFound } from "../../src/errors.ts";
import { createAnswerReader } from "../../src/http/answers/answer-reader.ts";
import { BLOCKS, SPOOL_BLOCK_BYTES, UNWANTED, createFreeBlocks } from "../../src/http/answers/large-answers.ts";
import type { AnswerTask, SpoolResult, SpoolTask } from "../../src/http/answers/large-answers.ts";
import { QueueFullError, WorkerDiedError } from "../../src/workers/pool.ts";

const test = suite("server/large-answers");
const directory = mkdtempSync(join(tmpdir(), "assay-answers-"));
test.after(() => rmSync(directory, { recursive: true, force: true }));
test.after.each(() => assert.equal(readdirSync(directory), [], "no file has a name"));

/** Open files of the directory, with or without a name. */
const openFiles = (): number =>
  readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(directory);
    } catch {
      return false;
    }
  }).length;

const ALL_BLOCKS = 40;

/** A reader whose thread does what `work` says, when `work` resolves. */
function given(work: (task: SpoolTask) => SpoolResult | Promise<SpoolResult>) {
  const free = createFreeBlocks(ALL_BLOCKS * SPOOL_BLOCK_BYTES);
  const limits = { directory, freeBlocks: free, reserveBytes: 0 };
  const tasks: SpoolTask[] = [];
  let ids = 0;
  const reader = createAnswerReader({
    pool: {
      async run(task) {
        tasks.push(task);
        return work(task);
      },
      load: () => ({ waiting: 0, running: 0 }),
      close: async () => undefined,
    },
    directory,
    newId: () => `${(ids += 1)}`,
    freeBlocks: free,
  });
  const task = (operation = "get_it", gzip = false): AnswerTask => ({
    operation,
    organizationId: 1,
    baseUrl: "http://assay.test",
    input: { params: {}, query: {} },
    prepared: null,
    isForPage: false,
    gzip,
  });
  const make = (one = task(), state = 1, signal = new AbortController().signal) => reader.make(one, { state, signal });
  const spool = (one: SpoolTask, pieces: Iterable<string>) => spoolAnswer(pieces, one, limits);
  return { tasks, task, make, spool, freeBlocks: () => Atomics.load(free, 0) };
}

const failure = (promise: Promise<unknown>): Promise<AppError> =>
  promise.then(
    () => assert.unreachable(),
    (e) => e,
  );

/** Characters of one to four bytes, over several blocks, cut anywhere. */
const PIECES = Array.from({ length: 4_000 }, (_, n) => "aé€😀".repeat(n % 40));
const WHOLE = PIECES.join("");

test("an answer is the bytes of its pieces, and its file has no name while it is made", async () => {
  const { make, spool, freeBlocks } = given((task) =>
    spool(
      task,
      (function* () {
        for (const piece of PIECES) {
          assert.equal(readdirSync(directory), []);
          yield piece;
        }
      })(),
    ),
  );
  const answer = await make();
  assert.is(answer.bytes, Buffer.byteLength(WHOLE));
  assert.is(freeBlocks(), ALL_BLOCKS - Math.ceil(answer.bytes / SPOOL_BLOCK_BYTES));
  assert.is((await answer.read()).toString(), WHOLE);
  assert.is(await text(answer.open()), WHOLE);
  assert.is(freeBlocks(), ALL_BLOCKS);
  assert.is(openFiles(), 0);
});

test("a compressed answer is one gzip stream", async () => {
  const { make, spool, task } = given((one) => spool(one, PIECES));
  const answer = await make(task("get_it", true));
  assert.ok(answer.gzipped);
  assert.ok(answer.bytes < WHOLE.length / 4);
  assert.is(gunzipSync(await answer.read()).toString(), WHOLE);
  answer.close();
});

test("requests for the same answer share it until the database changes", async () => {
  const { make, spool, task, tasks, freeBlocks } = given(async (one) => spool(one, PIECES));
  const [one, two, changed, other] = await Promise.all([make(), make(), make(task(), 2), make(task("get_that"))]);
  assert.equal(
    tasks.map(({ operation }) => operation),
    ["get_it", "get_it", "get_that"],
  );
  one.close();
  one.close();
  assert.is(await text(two.open()), WHOLE, "the other one still has it");
  changed.close();
  other.close();
  assert.is(freeBlocks(), ALL_BLOCKS);
  (await make()).close();
  assert.is(tasks.length, 4, "made again: it was given up");
});

test("what the handler throws is thrown here, and the next request makes the answer again", async () => {
  const { code, message, fields, headers } = notFound("no such thing");
  const { make, tasks } = given(({ path }) => {
    unlinkSync(path);
    return { refusal: { code, message, fields, headers } };
  });
  const errors = await Promise.all([failure(make()), failure(make())]);
  assert.equal(
    errors.map((error) => [error instanceof AppError, error.code, error.message]),
    Array(2).fill([true, "not_found", "no such thing"]),
  );
  assert.is(tasks.length, 1);
  await failure(make());
  assert.is(tasks.length, 2);
});

for (const [what, error, code, message] of [
  ["a full queue", new QueueFullError("answers", 1), "too_many", /making too many large answers/],
  ["a thread that died", new WorkerDiedError("out of memory", { began: true }), "unavailable", /Ask for smaller pages/],
] as const)
  test(`${what} is an answer with Retry-After, and leaves nothing`, async () => {
    const { make, freeBlocks } = given(() => Promise.reject(error));
    const refusal = await failure(make());
    assert.is(refusal.code, code);
    assert.match(refusal.message, message);
    assert.is(refusal.headers["Retry-After"], "5");
    assert.is(freeBlocks(), ALL_BLOCKS);
    assert.is(openFiles(), 0);
  });

test("a client that leaves does not take the answer from another one that waits", async () => {
  const gone = new AbortController();
  const { make, spool, tasks, freeBlocks } = given(async (task) => {
    await new Promise<void>((resolve) => gone.signal.addEventListener("abort", () => resolve()));
    return spool(task, PIECES);
  });
  const [first, second] = [make(undefined, 1, gone.signal), make()];
  gone.abort(new Error("gone"));
  assert.is((await failure(first)).message, "gone");
  assert.is(await text((await second).open()), WHOLE);
  assert.is(tasks.length, 1);
  assert.is(freeBlocks(), ALL_BLOCKS);
});

test("an answer that nobody waits for is given up", async () => {
  const gone = new AbortController();
  let made: Promise<SpoolResult> | null = null;
  const { make, spool, tasks, freeBlocks } = given((task) => {
    made = new Promise<void>((resolve) => setImmediate(resolve)).then(() => spool(task, PIECES));
    return made;
  });
  const first = make(undefined, 1, gone.signal);
  gone.abort(new Error("gone"));
  assert.is((await failure(first)).message, "gone");
  assert.is(Atomics.load((tasks[0] as SpoolTask).control, UNWANTED), 1);
  assert.equal(await made, { stopped: "unwanted" });
  assert.is(freeBlocks(), ALL_BLOCKS);
});

test("all files together take no more blocks than there are: 429, and what was taken is free again", async () => {
  const large = "x".repeat(SPOOL_BLOCK_BYTES);
  const { make, spool, task, freeBlocks } = given((one) => spool(one, Array(30).fill(large)));
  const first = await make(task("one"));
  const refusal = await failure(make(task("two")));
  assert.is(refusal.code, "too_many");
  assert.is(refusal.headers["Retry-After"], "5");
  assert.is(freeBlocks(), ALL_BLOCKS - 30);
  first.close();
  const second = await make(task("two"));
  assert.is(second.bytes, 30 * SPOOL_BLOCK_BYTES);
  second.close();
});

test("an answer leaves the free space that the disk is to keep", () => {
  const freeBlocks = createFreeBlocks(2 ** 30);
  const path = join(directory, "answer");
  writeFileSync(path, "");
  const control = new Int32Array(new SharedArrayBuffer(8));
  const result = spoolAnswer(
    Array(100).fill("x".repeat(SPOOL_BLOCK_BYTES)),
    { path, control, gzip: false },
    { directory, freeBlocks, reserveBytes: Number.MAX_SAFE_INTEGER },
  );
  assert.equal(result, { stopped: "full" });
  assert.is(Atomics.load(control, BLOCKS), 0);
});

test("an error in the middle leaves neither a file nor blocks", async () => {
  const { make, spool, freeBlocks } = given((task) =>
    spool(
      task,
      (function* () {
        yield "x".repeat(3 * SPOOL_BLOCK_BYTES);
        throw new Error("damaged");
      })(),
    ),
  );
  assert.is((await failure(make())).message, "damaged");
  assert.is(freeBlocks(), ALL_BLOCKS);
});

test("a file that is too short fails its stream, so that a part is not taken for the whole", async () => {
  const { make, spool, freeBlocks } = given((task) => {
    const { bytes } = spool(task, PIECES) as { bytes: number };
    return { bytes: bytes + 1 };
  });
  assert.match((await failure(text((await make()).open()))).message, /too short/);
  assert.is(freeBlocks(), ALL_BLOCKS);
});

test.run();
