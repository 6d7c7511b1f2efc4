/** What a client is told when the thread of previews fails it. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createPolicyPreviewer } from "../../src/jobs/policy-previews.ts";
import { AppError } from "../../src/errors.ts";
import { DeadlineError, PoolClosedError, QueueFullError, TaskError, WorkerDiedError } from "../../src/workers/pool.ts";
import { rejection } from "../evidence/given.ts";
import { opened } from "../store/given.ts";

const test = suite("jobs/policy-previews");
const organization = { id: 1, name: "acme" };
const TASK = {
  organization,
  policy: { name: "p", yaml: "_schema: /v1", parsedJson: null },
  policyId: null,
  environmentIds: [],
  at: 0,
};

const previewerOf = (error: Error) =>
  createPolicyPreviewer({
    store: opened().store,
    pool: {
      run: () => Promise.reject(error),
      load: () => ({ waiting: 0, running: 0 }),
      close: async () => undefined,
    },
  });
const failingWith = (error: Error) => rejection(previewerOf(error).preview("acme", TASK));

const described = (error: Error): unknown =>
  error instanceof AppError ? [error.code, error.message, error.headers] : error;

test("a preview that takes too much time or memory is too large, with what to do", async () => {
  for (const error of [
    new DeadlineError("policy previews", { deadlineMs: 15_000, started: true }),
    new WorkerDiedError("out of memory", { began: true }),
  ])
    assert.equal(described(await failingWith(error)), [
      "too_large",
      "The preview takes more time or memory than the server has for one request. Name fewer environments",
      {},
    ]);
});

test("a template that takes too much is too large, and one that names no custom type needs no thread", async () => {
  const previewer = previewerOf(new DeadlineError("policy previews", { deadlineMs: 15_000, started: true }));
  const compare = (template: string) => previewer.compareTemplate("acme", { organization, template });
  assert.equal(described(await rejection(compare("trail: {attestations: [{name: a, type: 'custom:b'}]}"))), [
    "too_large",
    "The preview takes more time or memory than the server has for one request. Send a shorter text",
    {},
  ]);
  assert.equal(await compare("trail: {attestations: [{name: a, type: junit}]}"), []);
  const question = { flowId: 1, draft: { text: "version: 1", parsedJson: null }, at: 0 };
  assert.equal(described(await rejection(previewer.previewTemplate("acme", question))), [
    "too_large",
    "The preview takes more time or memory than the server has for one request. Send a shorter template",
    {},
  ]);
});

test("a busy thread asks for a retry", async () => {
  for (const error of [
    new DeadlineError("policy previews", { deadlineMs: 15_000, started: false }),
    new WorkerDiedError("gone", { began: false }),
    new QueueFullError("policy previews", 64),
    new PoolClosedError("policy previews"),
  ])
    assert.equal(described(await failingWith(error)), [
      "unavailable",
      "Other previews keep the server busy. Please try again",
      { "Retry-After": "5" },
    ]);
});

test("a mistake of the program is not hidden", async () => {
  const mistake = new TaskError("no", { task: "TypeError", code: null });
  assert.is(await failingWith(mistake), mistake);
});

test.run();
