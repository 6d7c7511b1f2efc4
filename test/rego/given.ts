/** An engine for tests, and bundles to give to it. */
import * as assert from "uvu/assert";
import { createRegoEngine } from "../../src/rego/engine.ts";
import type { EngineOptions } from "../../src/rego/engine.ts";
import type { RegoEngine, RegoQuestion } from "../../src/rego/types.ts";
import { startRegoWorker } from "../../src/server/worker-threads.ts";

/** Long enough never to expire. */
const AMPLE_MS = 600_000;
const MB = 1 << 20;

/** @param options those that the test is about */
export const givenEngine = (options: Partial<EngineOptions> = {}) =>
  createRegoEngine({
    timeMs: AMPLE_MS,
    memoryBytes: 256 * MB,
    threads: 1,
    keepsReady: false,
    idleMs: 300_000,
    start: startRegoWorker,
    memory: null,
    ...options,
  });

/** Takes longer than any limit of a test. */
export const ENDLESS_RULE = `allow if {
	some x in numbers.range(1, 100000)
	some y in numbers.range(1, 100000)
	x * y == -1
}`;

/** What an evaluation is about, with values as JSON has them. */
export const givenQuestion = ({
  input = {},
  params = {},
  seed = "seed",
}: {
  input?: unknown;
  params?: object;
  seed?: string;
} = {}): RegoQuestion => ({
  input: Buffer.from(JSON.stringify(input)),
  params: JSON.stringify(params),
  timeNs: 1_757_000_000_500_000_000n,
  seed,
});

/** A bundle of one file. */
export const givenPolicy = (text: string) => ({ "policy.rego": text });

/** Answers in no time, for the evaluation after another one. */
export const SMALL_POLICY = givenPolicy("package policy\n\nallow if input.ok\n");

/** The message of the failure of a policy, after which the engine still evaluates another one. */
export async function failureOf(engine: RegoEngine, rules: string, question: Parameters<typeof givenQuestion>[0] = {}) {
  const outcome = await engine.evaluate(givenPolicy(`package policy\n\n${rules}\n`), givenQuestion(question));
  const next = await engine.evaluate(SMALL_POLICY, givenQuestion({ input: { ok: true } }));
  assert.ok(next.ok && next.value.allow, "the next evaluation works");
  if (outcome.ok) throw new Error("the evaluation has a verdict");
  return `${outcome.error.kind}: ${outcome.error.message}`;
}
