// Usage: `run.ts [--slow] [PATTERN]`. Runs every test/**/*.test.ts but those of SLOW; with --slow, those of SLOW. A
// pattern (a regular expression over the path below test/) chooses among all files, or with --slow among those of SLOW.
// Files that lie in one directory below test/ run one after the other in a child process, so that a crash in one group
// cannot hide the others; large directories are several groups, small ones share one, and a few groups run at once. The
// last line is "N passed, N failed"; the exit code is 1 when anything failed or nothing was found.
//
// Inside a child the suites are uvu's, but files are imported and run by this file and not by uvu's command, which
// loses every suite of a group when one file throws at import, and which takes a suite whose `before` hook threw for a
// passed one.

import { type ChildProcess, fork } from "node:child_process";
import { globSync } from "node:fs";
import { join, sep } from "node:path";
import { performance } from "node:perf_hooks";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { buildClient } from "../bin/client.ts";
import { readProcessorSeconds } from "./patience.ts";
import { watchGroup } from "./group-watch.ts";
import { buildThreadBundles, startThreadsFromBundles } from "./thread-bundles.ts";

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

/** What a group tells of itself: its counts after each file, at its end, and which test it runs. */
type Report = { counts: Counts; finished: boolean } | { running: string };

/** What uvu leaves for every `suite.run()`: failure texts (true when there are none), passed, skipped, all. */
type QueuedSuite = () => Promise<[string | true, number, number, number]>;

/** One more than the machine of the measurements has cores: most tests wait for a disk, a child process or a timer. */
const GROUPS_AT_ONCE = 3;

/**
 * What takes long, for `make integration`, so that `make test` takes four minutes on two processors: directories, and
 * proofs that take ten seconds or more, over every operation, page or example of the guide.
 */
const SLOW = new RegExp(
  `^(?:(?:${["integration", "attacks", "replay", "binary"].join("|")})/|(?:${[
    "api/bad-input",
    "api/flows/audit-packages",
    "api/policies/rego-evaluations",
    "audit-packages/package-maker",
    "backup/archive",
    "cli/commands/dev-demo",
    "demo/make",
    "evidence/s3-store",
    "guide/examples",
    "guide/writing",
    "http/first-limits",
    "rego/limits",
    "web/every-page",
    "web/kept-forms",
    "whole/concurrency",
    "whole/damage",
    "whole/kept-answers",
    "whole/plans",
    "whole/properties",
    "whole/short-way",
    "workers/sandbox/attestation-types",
  ].join("|")})\\.)`,
);

/**
 * Files that take at least as long are printed with their time, so that a slow suite says where it is slow; all of them
 * with TIMES=1 in the environment.
 */
const SLOW_S = process.env["TIMES"] === "1" ? 0 : 2;

/**
 * Directories whose tests take longest start first, so that none of them ends alone; the most files of one group, all
 * unless given. More groups take more processor time, because each process loads the same code again: 0.7 s for that of
 * a server.
 */
const LARGE: readonly (readonly [directory: string, maxFiles?: number])[] = [
  ["integration", 3],
  ["binary", 5],
  ["whole", 8],
  ["cli", 36],
  ["api", 31],
  ["web"],
  ["http"],
  ["store"],
  ["domain"],
  ["jobs"],
];

/** Directories of at most as many files share one process, unless they are LARGE. */
const MAX_SHARED_FILES = 6;

/**
 * Node keeps what it compiled, and what it made of TypeScript, for all processes of the suite: a process of the program
 * starts in half of the processor time.
 */
const COMPILE_CACHE = join(import.meta.dirname, "..", ".build", "compile-cache");

const directory = import.meta.dirname;

if (process.send === undefined) {
  // Pages load what is built from the sources of this moment.
  await buildClient(join(import.meta.dirname, ".."));
  const bundles = await buildThreadBundles();
  const { values, positionals } = parseArgs({ options: { slow: { type: "boolean" } }, allowPositionals: true });
  await runSuite({ pattern: positionals[0] ?? "", isSlow: values.slow === true, bundles });
} else {
  const [bundles = "", ...files] = process.argv.slice(2);
  startThreadsFromBundles(bundles);
  await runGroup(files);
}

type Run = { pattern: string; isSlow: boolean; bundles: string };

async function runSuite({ pattern, isSlow, bundles }: Run): Promise<void> {
  const matches = new RegExp(pattern);
  const isChosen = (file: string): boolean =>
    matches.test(file) && (isSlow ? SLOW.test(file) : pattern !== "" || !SLOW.test(file));
  const files = globSync("**/*.test.ts", { cwd: directory })
    .map((file) => file.split(sep).join("/"))
    .filter(isChosen)
    .sort();
  const groups = groupByDirectory(files);

  const started = performance.now();
  const sum: Counts = { passed: 0, failed: 0, skipped: 0 };
  const lane = async (): Promise<void> => {
    for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
      const counts = await startGroup(group[0], group[1], bundles);
      sum.passed += counts.passed;
      sum.failed += counts.failed;
      sum.skipped += counts.skipped;
    }
  };
  await Promise.all(Array.from({ length: GROUPS_AT_ONCE }, lane));

  if (files.length === 0) {
    console.log(`no test file matches ${matches}`);
    sum.failed = 1;
  }
  if (sum.skipped > 0) console.log(`${sum.skipped} skipped`);
  console.log(`${files.length} files in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  console.log(`${sum.passed} passed, ${sum.failed} failed`);
  process.exitCode = sum.failed > 0 ? 1 : 0;
}

/** The groups, [name, files], in the order in which they start. */
function groupByDirectory(files: readonly string[]): [string, string[]][] {
  const every = Map.groupBy(files, (file) => (file.includes("/") ? file.slice(0, file.indexOf("/")) : "test"));
  const rankOf = (name: string): number => LARGE.findIndex(([directory]) => directory === name) >>> 0;
  const isSmall = (name: string, all: readonly string[]): boolean =>
    all.length <= MAX_SHARED_FILES && LARGE.every(([large]) => large !== name);
  const small = [...every].filter(([name, all]) => isSmall(name, all));
  const directories = new Map([...every].filter(([name, all]) => !isSmall(name, all)));
  if (small.length > 0)
    directories.set(
      small.map(([directory]) => directory).join(", "),
      small.flatMap(([, all]) => all),
    );
  return [...directories]
    .sort(([a], [b]) => rankOf(a) - rankOf(b))
    .flatMap(([directory, all]) => {
      const maxFiles = LARGE.find(([name]) => name === directory)?.[1] ?? all.length;
      const count = Math.ceil(all.length / maxFiles);
      // Every n-th file, because slow files stand side by side in the alphabet.
      return Array.from({ length: count }, (_, part): [string, string[]] => [
        count === 1 ? directory : `${directory} ${part + 1}/${count}`,
        all.filter((_file, index) => index % count === part),
      ]);
    });
}

/** Runs one group in a child process, prints its output in one piece and returns its counts. */
async function startGroup(name: string, files: readonly string[], bundles: string): Promise<Counts> {
  const started = performance.now();
  const child = fork(import.meta.filename, [bundles, ...files], {
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    env: { ...process.env, NODE_COMPILE_CACHE: COMPILE_CACHE },
  });
  const output = collectOutput(child);
  let counts: Counts = { passed: 0, failed: 0, skipped: 0 };
  let finished = false;
  let running = "no test";
  let why: string | null = null;
  const watch = watchGroup(child, { onKilled: (problem) => (why = problem) });
  child.stdout?.on("data", watch.noteLife);
  child.stderr?.on("data", watch.noteLife);
  child.on("message", (report: Report) => {
    watch.noteLife();
    if ("running" in report) running = report.running;
    else ({ counts, finished } = report);
  });
  const ending = await new Promise<string>((resolve) => {
    child.on("close", (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
  });
  watch.stop();

  let text = output();
  if (!finished) {
    counts = { ...counts, failed: counts.failed + 1 };
    text += `\n  FAIL  ${running}\n    ${why ?? `the group ended before its tests did (${ending})`}\n`;
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`${text.trimEnd()}\n-- ${name}: ${counts.passed} passed, ${counts.failed} failed (${seconds} s)\n`);
  return counts;
}

function collectOutput(child: ChildProcess): () => string {
  const chunks: Buffer[] = [];
  child.stdout?.on("data", (chunk: Buffer) => chunks.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => chunks.push(chunk));
  return () => Buffer.concat(chunks).toString("utf8");
}

/** The child's part: imports each file and runs the suites it queued, reporting the counts after each file. */
async function runGroup(files: readonly string[]): Promise<void> {
  const shared = globalThis as unknown as { UVU_DEFER: number; UVU_INDEX: number; UVU_QUEUE: QueuedSuite[][] };
  shared.UVU_DEFER = 1; // suites wait to be run by us
  shared.UVU_INDEX = 0;
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
  const fail = (what: string, error: unknown): void => {
    counts.failed += 1;
    console.log(`\n  FAIL  ${what}\n${error instanceof Error ? error.stack : String(error)}\n`);
  };

  for (const file of files) {
    const queue: QueuedSuite[] = [];
    shared.UVU_QUEUE = [queue];
    console.log(file);
    tellTests(file);
    const started = performance.now();
    const cpuBefore = readProcessorSeconds(process.pid);
    try {
      await import(pathToFileURL(join(directory, file)).href);
      if (queue.length === 0) fail(`${file} runs no suite`, "every suite needs its .run()");
    } catch (error) {
      fail(`${file} cannot be loaded`, error);
    }
    for (const run of queue) {
      try {
        const [failures, passed, skipped, all] = await run();
        if (failures !== true) console.log(`\n${failures}`);
        else if (passed < all)
          console.log(`\n  FAIL  a hook of this suite threw: ${all - passed} tests of ${all} did not run\n`);
        counts.passed += passed;
        counts.failed += all - passed;
        counts.skipped += skipped;
      } catch (error) {
        fail(`a hook of ${file}`, error);
      }
    }
    const seconds = (performance.now() - started) / 1000;
    const cpu = readProcessorSeconds(process.pid) - cpuBefore;
    if (seconds >= SLOW_S) console.log(`   ${file}: ${seconds.toFixed(2)} s, processor ${cpu.toFixed(2)} s`);
    await tell({ counts, finished: false });
  }
  await tell({ counts, finished: true });
  // Not by running dry: a server or a timer that a failed test left behind would hold the process.
  process.exit(0);
}

/** Tells the parent which test runs: uvu writes its name into the state of its suite, and tells nobody else. */
function tellTests(file: string): void {
  const outside = `${file}, outside of its tests`;
  void tell({ running: outside });
  Object.defineProperty(Object.prototype, "__test__", {
    configurable: true,
    set: (test: string) => void tell({ running: test === "" ? outside : `${file}, "${test}"` }),
  });
}

function tell(report: Report): Promise<void> {
  return new Promise((resolve) => process.send?.(report, () => resolve()));
}
