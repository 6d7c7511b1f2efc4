// Measures the packaged executable: `make bench`, or `node test/bench/main.ts [--seconds N] [--rounds N] [--only
// REGEXP]`.
//
// Throughput is compared with a bare server (baseline.ts) on the same machine at the same time: rounds alternate
// between baseline and assay, and the median round counts. This process drives both over 32 connections, and each line
// shows how much of a core the driver and the server used. On two cores the driver shares the machine with either
// server alike; a server that does not use nearly a whole core was limited by the driver, the disk or the threads that
// wait for it.
//
// The runtime part (`--only runtime`, runtime.ts) uses a server of its own and measures other things than throughput.
// The lists and pages parts (`--only lists`, lists.ts; `--only pages`, pages.ts) need the database of `make bench-data`
// and are skipped without it. The deliveries part (`--only deliveries`, deliveries.ts) uses a server of its own, too.
//
// All files are below .build, on the disk of the checkout. The program only prints; it exits with 0 unless a response
// was wrong.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { EXECUTABLE } from "../binary/executable.ts";
import { isBuilt } from "./data.ts";
import { measureDeliveries } from "./deliveries.ts";
import { transferEvidence } from "./evidence.ts";
import { measureLists } from "./lists.ts";
import { drive, get, sendJson } from "./load.ts";
import { downloadPackage } from "./packages.ts";
import { measurePages } from "./pages.ts";
import type { Load, Outcome } from "./load.ts";
import { cpuSeconds, memory, startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { ms, percent, reached, row } from "./print.ts";
import { measureRuntime } from "./runtime.ts";
import {
  APPLY_FILE,
  ENVIRONMENT,
  KEY,
  REPORT_BYTES,
  TRAILS,
  artifactPath,
  assertPath,
  attestation,
  populate,
  read,
  report,
} from "./world.ts";

const CONNECTIONS = 32;
/** Before each kind of request, so that both servers run compiled code. */
const WARM_UP_SECONDS = 4;
const ATTACHMENT_BYTES = 1024;
const EVIDENCE_MEGABYTES = 1024;
const COLD_STARTS = 5;
/** The name of the part about environments, reports and snapshots for `--only`. */
const RUNTIME = "runtime";
/** The names of the parts about lists and pages on a large database. */
const LISTS = "lists";
const PAGES = "pages";

const { values: options } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    rounds: { type: "string", default: "3" },
    only: { type: "string", default: "" },
  },
});
const seconds = Number(options.seconds);
const rounds = Number(options.rounds);
const only = new RegExp(options.only);

type Work = Pick<Load, "next" | "expect">;
/**
 * A line of the table. `target` is the minimal ratio to the baseline; `runtime`: whether it also belongs to the runtime
 * part.
 */
type Line = { title: string; runtime?: true; target: number; baseline: Work; assay: Work };

const attachment = Buffer.alloc(ATTACHMENT_BYTES, "e");
let lastAttachment = 0;
/** Unique content: an upload of existing content costs no file. */
function freshAttachment(): Buffer {
  attachment.write(`${++lastAttachment} `);
  return attachment;
}

let lastQuestion = 0;
/**
 * An assert in scope environment under a new address with one of a few meanings: letters are written literally or as
 * %XX. Nothing is written while reads are measured, so the lines above show responses from the read cache
 * (src/store/db/read-cache.ts). After a write to the trail of an artifact, a request costs what this one does.
 */
function freshQuestion(): Buffer {
  const spelling = Math.floor(++lastQuestion / TRAILS);
  const environment = [...ENVIRONMENT]
    .map((letter, place) => ((spelling >> place) & 1 ? `%${letter.charCodeAt(0).toString(16)}` : letter))
    .join("");
  return read(assertPath(lastQuestion % TRAILS, { environment }));
}

const NAMES = ["unit-tests", "review", "scan", "pull-request"] as const;
const nameOf = (n: number): string => NAMES[Math.floor(n / TRAILS) % NAMES.length] ?? "review";
const bareRead: Work = { expect: 200, next: (n) => get(`/rows/row-${n % 1000}`, "none") };
const bareWrite: Work = { expect: 201, next: (n) => sendJson("POST", "/rows", "none", report(n % TRAILS, nameOf(n))) };

const UNCACHED = "... not cached";
const WRITE = "generic attestation";

const LINES: readonly Line[] = [
  {
    title: "artifact by fingerprint",
    target: 0.5,
    baseline: bareRead,
    assay: { expect: 200, next: (n) => read(artifactPath(n % TRAILS)) },
  },
  {
    title: "assert, scope flow",
    target: 0.4,
    baseline: bareRead,
    assay: { expect: 200, next: (n) => read(assertPath(n % TRAILS, null)) },
  },
  {
    title: "assert, scope policy",
    target: 0.4,
    baseline: bareRead,
    assay: { expect: 200, next: (n) => read(assertPath(n % TRAILS, { policy: "production" })) },
  },
  {
    title: "assert, scope environment",
    runtime: true,
    target: 0.4,
    baseline: bareRead,
    assay: { expect: 200, next: (n) => read(assertPath(n % TRAILS, { environment: ENVIRONMENT })) },
  },
  {
    title: UNCACHED,
    runtime: true,
    target: 0.4,
    baseline: bareRead,
    assay: { expect: 200, next: () => freshQuestion() },
  },
  {
    title: WRITE,
    target: 0.3,
    baseline: bareWrite,
    assay: { expect: 201, next: (n) => attestation(n % TRAILS, nameOf(n), null) },
  },
  {
    title: "... with 1 KB of evidence",
    target: 0.3,
    baseline: bareWrite,
    assay: { expect: 201, next: (n) => attestation(n % TRAILS, nameOf(n), freshAttachment()) },
  },
];

type Round = Outcome & { server: { main: number; all: number } };

async function measure(server: Server, work: Work, duration: number): Promise<Round> {
  const before = cpuSeconds(server.pid);
  const outcome = await drive({ url: server.url, connections: CONNECTIONS, ...work }, duration);
  const after = cpuSeconds(server.pid);
  return {
    ...outcome,
    server: { main: (after.main - before.main) / outcome.seconds, all: (after.all - before.all) / outcome.seconds },
  };
}

/** The round with the median throughput. */
const median = (all: readonly Round[]): Round =>
  [...all].sort((a, b) => a.perSecond - b.perSecond)[Math.floor(all.length / 2)] as Round;

/** CPU per request is what a noisy machine disturbs least. */
const resources = ({ server, driver, perSecond }: Round): string =>
  `${Math.round((server.main / perSecond) * 1e6)} us of CPU a request ` +
  `(main thread ${percent(server.main)} of a core, all threads ${percent(server.all)}, driver ${percent(driver)})`;

async function compare(line: Line, baseline: Server, assay: Server): Promise<void> {
  await measure(baseline, line.baseline, WARM_UP_SECONDS);
  await measure(assay, line.assay, WARM_UP_SECONDS);
  const bare: Round[] = [];
  const own: Round[] = [];
  for (let round = 0; round < rounds; round += 1) {
    bare.push(await measure(baseline, line.baseline, seconds));
    own.push(await measure(assay, line.assay, seconds));
  }
  const [base, mine] = [median(bare), median(own)];
  const ratio = mine.perSecond / base.perSecond;
  row([
    line.title,
    Math.round(mine.perSecond),
    ms(mine.p50),
    ms(mine.p99),
    Math.round(base.perSecond),
    ms(base.p50),
    ms(base.p99),
    ratio.toFixed(2),
    `>= ${line.target}`,
    `  ${reached(ratio >= line.target)}`,
  ]);
  console.log(`    assay: ${resources(mine)}; baseline: ${resources(base)}`);
}

/** The median time from the start of a new copy of the executable to its first response, in milliseconds. */
async function coldStart(root: string, data: string): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < COLD_STARTS; n += 1) {
    const executable = join(root, `assay-${n}`);
    copyFileSync(EXECUTABLE, executable);
    const server = await startServer([executable, "serve", "--data", data, "--listen", "127.0.0.1:0"], {
      output: join(root, "start.log"),
      ready: true,
    });
    times.push(server.firstReply ?? 0);
    await server.stop();
    rmSync(executable);
  }
  console.log(`    all of them: ${times.map(Math.round).join(", ")} ms`);
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;
}

async function main(root: string): Promise<void> {
  const data = join(root, "data");
  writeFileSync(join(root, "apply.yml"), APPLY_FILE);
  const assay = await startServer(
    [EXECUTABLE, "serve", "--data", data, "--listen", "127.0.0.1:0", "--bootstrap", join(root, "apply.yml")],
    {
      output: join(root, "assay.log"),
      env: { ASSAY_EVIDENCE_LIMIT: `${EVIDENCE_MEGABYTES}MB` },
    },
  );
  await populate(assay.url);
  const answerBytes = (
    await (await fetch(assay.url + artifactPath(0), { headers: { Authorization: `Bearer ${KEY}` } })).text()
  ).length;
  const baselineRoot = join(root, "baseline");
  mkdirSync(baselineRoot);
  const baseline = await startServer(
    [process.execPath, join(import.meta.dirname, "baseline.ts"), baselineRoot, String(answerBytes)],
    { output: join(root, "baseline.log") },
  );

  console.log(
    `${cpus().length} cores, ${cpus()[0]?.model ?? "unknown"}; ` +
      `${CONNECTIONS} connections, ${rounds} rounds of ${seconds} s; ` +
      `an artifact response has ${answerBytes} bytes, a report ${REPORT_BYTES}, over ${TRAILS} trails\n`,
  );
  row(["", "req/s", "p50", "p99", "bare req/s", "p50", "p99", "ratio", "target"]);
  for (const line of LINES)
    if (only.test(line.title) || (line.runtime && only.test(RUNTIME))) await compare(line, baseline, assay);

  console.log("");
  const { now, peak } = memory(assay.pid);
  row([
    "memory after the run",
    `${Math.round(now)} MB`,
    "",
    `(peak ${Math.round(peak)} MB)`,
    "",
    "",
    "",
    "",
    "<= 200 MB",
    `  ${reached(now <= 200)}`,
  ]);
  if (only.test("evidence")) {
    const { up, down, digest } = await transferEvidence(assay, EVIDENCE_MEGABYTES);
    row(["evidence, 1 GB up", `${Math.round(up.speed)} MB/s`, "", `+${Math.round(up.growth)} MB`]);
    row([
      "evidence, 1 GB down",
      `${Math.round(down.speed)} MB/s`,
      "",
      `+${Math.round(down.growth)} MB`,
      "",
      "",
      "",
      "",
      "< 50 MB",
      `  ${reached(down.growth < 50)}`,
    ]);
    const { own, bare } = await downloadPackage(assay, { data, digest, megabytes: EVIDENCE_MEGABYTES });
    row([
      "audit package of 1 GB",
      `${Math.round(own.speed)} MB/s`,
      "",
      `+${Math.round(own.growth)} MB`,
      `${Math.round(bare)} MB/s`,
      "",
      "tar | gzip",
      "",
      "< 50 MB",
      `  ${reached(own.growth < 50)}`,
    ]);
  }
  await assay.stop();
  await baseline.stop();
  if (only.test(RUNTIME)) await measureRuntime(root);
  if (only.test(LISTS)) {
    if (isBuilt()) await measureLists(root);
    else console.log("\nlists: skipped, run `make bench-data` first");
  }
  if (only.test(PAGES)) {
    if (isBuilt()) await measurePages(root);
    else console.log("\npages: skipped, run `make bench-data` first");
  }
  if (only.test("deliveries")) {
    const works = LINES.filter(({ title }) => title === UNCACHED || title === WRITE).map(
      ({ title, assay: work }) => [title === UNCACHED ? "assert" : title, work] as const,
    );
    await measureDeliveries(root, join(root, "apply.yml"), works, rounds, seconds);
  }
  if (only.test("start")) {
    const start = await coldStart(root, data);
    row([
      "start to first reply",
      `${Math.round(start)} ms`,
      "",
      "",
      "",
      "",
      "",
      "",
      "<= 400 ms",
      `  ${reached(start <= 400)}`,
    ]);
  }
}

mkdirSync(join(import.meta.dirname, "..", "..", ".build"), { recursive: true });
const root = mkdtempSync(join(import.meta.dirname, "..", "..", ".build", "bench-"));
// Also when it is interrupted: the servers are killed at exit (processes.ts, whose listener runs before this one).
process.on("exit", () => rmSync(root, { recursive: true, force: true }));
process.on("SIGINT", () => process.exit(130));
process.on("SIGTERM", () => process.exit(143));
await main(root);
