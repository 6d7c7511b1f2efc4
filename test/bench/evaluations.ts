// How long an evaluation of a Rego policy takes, from its request to its verdict, and what evaluations cost other
// requests: on a server of its own, alternately with and without two evaluations at a time beside a full load. Its
// start and memory before the first evaluation are in the other parts, because the engine is loaded by the first one.
import { spawn } from "node:child_process";
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EXECUTABLE } from "../binary/executable.ts";
import { createAsk, median, quantile, sort } from "./ask.ts";
import type { Ask } from "./ask.ts";
import { freshQuestion, WRITE } from "./lines.ts";
import { LOW_PRIORITY } from "../../src/workers/own-time.ts";
import { drive } from "./load.ts";
import { memory, startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { CONNECTIONS } from "./slices.ts";
import type { Extent, Work } from "./slices.ts";
import { atMost, judge, number } from "./targets.ts";
import { APPLY_FILE, KEY, ORG, TRAILS, flowOf, populate, trailName } from "./world.ts";

const SECOND_KEY = "bench-key-of-another-caller-0123456789abcde";
/** One caller has one evaluation in the engine at a time. */
const WITH_SECOND_CALLER = `${APPLY_FILE.replace("role: admin }", "role: admin }, { user: second, role: member }")}
  - name: second
    api_keys: [{ description: bench, key: ${SECOND_KEY} }]
`;
const FIRST_STARTS = 5;
const WARM_UP = 20;
const TIMES = 100;
const MANY_TRAILS = 100;
const MANY_TIMES = 7;

const SMALL = `package policy

default allow := false

allow if input.trail.compliance_status.is_compliant

violations contains "the trail is not compliant" if not allow
`;
const MANY = `package policy

default allow := false

allow if count(violations) == 0

violations contains sprintf("%s is not compliant", [trail.name]) if {
    some trail in input.trails
    not trail.compliance_status.is_compliant
}
`;
/** Takes about half a second in the engine. */
const BUSY = `package policy

default allow := false

allow if count([1 | some i in numbers.range(1, 1000); some j in numbers.range(1, 400); i * j == 7]) == 2
`;

const trailOf = (n: number) => ({ flow: flowOf(n % TRAILS), trail: trailName(n % TRAILS) });

/** Requests an evaluation and waits for its verdict. @returns milliseconds @throws Error unless it is completed */
async function evaluate(ask: Ask, source: string, trails: readonly object[]): Promise<number> {
  const startedAt = performance.now();
  const body = { context: { trails }, policy: { files: { "policy.rego": source } } };
  const { body: created } = await ask("POST", `/evaluations/${ORG}`, body, 201);
  const { id } = JSON.parse(created.toString());
  for (;;) {
    const { body: answer } = await ask("GET", `/evaluations/${ORG}/${id}`);
    const { status } = JSON.parse(answer.toString());
    if (status === "completed") return performance.now() - startedAt;
    if (status !== "pending") throw new Error(`an evaluation is ${status}: ${answer.toString()}`);
  }
}

export async function measureEvaluations(root: string, extent: Extent): Promise<void> {
  console.log("\nEvaluations of Rego policies: from the request to the verdict, over HTTP");
  const applied = join(root, "evaluations.yml");
  writeFileSync(applied, WITH_SECOND_CALLER);
  const command = [EXECUTABLE, "serve", "--data", join(root, "evaluations"), "--listen", "127.0.0.1:0"];
  const start = () =>
    startServer([...command, "--bootstrap", applied], { output: join(root, "evaluations.log"), ready: true });

  let server = await start();
  await populate(server.url);
  const first: number[] = [];
  for (let n = 0; n < FIRST_STARTS; n += 1) {
    await server.stop();
    server = await start();
    first.push(await evaluate(createAsk(server.url), SMALL, [trailOf(n)]));
  }
  judge("first evaluation of a process", median(first), atMost(1_000, 500, " ms"), first.map(number).join(", "));
  const ask = createAsk(server.url);
  const small: number[] = [];
  for (let n = 0; n < WARM_UP + TIMES; n += 1) {
    const took = await evaluate(ask, SMALL, [trailOf(n)]);
    if (n >= WARM_UP) small.push(took);
  }
  judge("evaluation of one trail", median(small), atMost(50, 20, " ms"), `longest ${number(Math.max(...small))} ms`);
  const many: number[] = [];
  for (let n = 0; n < MANY_TIMES; n += 1) {
    const trails = Array.from({ length: MANY_TRAILS }, (_, m) => trailOf(n * MANY_TRAILS + m));
    many.push(await evaluate(ask, MANY, trails));
  }
  judge(`evaluation of ${MANY_TRAILS} trails`, median(many), atMost(2_000, 500, " ms"), many.map(number).join(", "));
  await server.stop();
  await measureBeside(start, extent);
  console.log(`  executable: ${number(statSync(EXECUTABLE).size / 1e6)} MB`);
}

const BUSY_THREADS = 2;
const COMPUTE = `
const { setPriority } = require("node:os");
setPriority(${LOW_PRIORITY});
for (;;);
`;

/** Starts processes that only compute, at the priority of evaluations. @returns what ends them */
function compute(): () => void {
  const processes = Array.from({ length: BUSY_THREADS }, () => spawn(process.execPath, ["-e", COMPUTE]));
  return () => {
    for (const each of processes) each.kill("SIGKILL");
  };
}

/** Starts two callers who have evaluations one after the other. @returns what ends them, and how many there were */
function evaluateOn(url: string, source: string): () => Promise<number> {
  let isOver = false;
  let evaluations = 0;
  const callers = [KEY, SECOND_KEY].map(async (key) => {
    const ask = createAsk(url, { headers: { Authorization: `Bearer ${key}` } });
    while (!isOver) {
      await evaluate(ask, source, [evaluatedTrailOf(evaluations)]);
      evaluations += 1;
    }
  });
  return async () => {
    isOver = true;
    await Promise.all(callers);
    return evaluations;
  };
}

/** Evaluated trails get no attestations of the load: an evaluation costs more with each that a trail has. */
const EVALUATED_TRAILS = 100;
const evaluatedTrailOf = (n: number) => trailOf(TRAILS - 1 - (n % EVALUATED_TRAILS));
const LOADS = {
  assert: { expect: 200, next: () => freshQuestion() },
  attestation: { ...WRITE, next: (n: number) => WRITE.next(n % (TRAILS - EVALUATED_TRAILS)) },
};
const SOURCES = { "small evaluations": SMALL, "evaluations of half a second": BUSY };
const WARM_UP_SECONDS = 3;

/** The times of all requests in milliseconds: alone, beside processes that compute, and beside evaluations. */
type BesideTimes = { alone: number[]; computing: number[]; beside: number[]; evaluations: number };

/**
 * A full load alone, beside as many processes that only compute, which is what any load of the processor costs here,
 * and beside two callers who have evaluations one after the other, in turn.
 *
 * The percentiles are those of all requests, over as many processes of the server as there are rounds: the slowest
 * hundredth of a slice comes from two or three pauses of the garbage collector, whose length differs by a fifth from
 * one process to the next.
 */
async function measureBeside(start: () => Promise<Server>, { rounds, seconds }: Extent): Promise<void> {
  const cases = Object.entries(SOURCES).flatMap(([title, source]) =>
    Object.entries(LOADS).map(([name, work]) => {
      const times: BesideTimes = { alone: [], computing: [], beside: [], evaluations: 0 };
      return { title: `p99 of ${name} beside two callers with ${title}, ratio`, source, work, times };
    }),
  );
  for (let round = 0; round < rounds; round += 1) {
    const server = await start();
    const load = async (work: Work, length = seconds) =>
      (await drive({ url: server.url, connections: CONNECTIONS, ...work }, length)).times;
    for (const work of Object.values(LOADS)) {
      const endEvaluating = evaluateOn(server.url, SMALL);
      await load(work, WARM_UP_SECONDS);
      await endEvaluating();
    }
    for (const { source, work, times } of cases) {
      times.alone.push(...(await load(work)));
      const endComputing = compute();
      times.computing.push(...(await load(work)));
      endComputing();
      const endEvaluating = evaluateOn(server.url, source);
      times.beside.push(...(await load(work)));
      times.evaluations += await endEvaluating();
    }
    const { now, peak } = memory(server.pid);
    if (round === 0) console.log(`  memory afterwards: ${number(now)} MB, at most ${number(peak)} MB`);
    await server.stop();
  }
  for (const { title, times } of cases) judgeBeside(title, times);
}

function judgeBeside(title: string, { alone, computing, beside, evaluations }: BesideTimes): void {
  const [quiet, busy, bare] = [alone, beside, computing].map(sort) as [number[], number[], number[]];
  const p99 = (sorted: number[]): number => quantile(sorted, 0.99);
  const medians = [busy, quiet, bare].map((sorted) => number(quantile(sorted, 0.5)));
  const detail =
    `p99 ${number(p99(busy))} ms beside ${evaluations} evaluations, ${number(p99(quiet))} ms without, ` +
    `${number(p99(bare))} ms beside processes that only compute; medians ${medians.join(", ")}`;
  judge(title, p99(busy) / p99(quiet), atMost(1.2, 1.1, ""), detail);
}
