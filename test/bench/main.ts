// Measures the packaged executable: `make bench`, or `node test/bench/main.ts [--seconds N] [--rounds N] [--only
// REGEXP] [--cores | --against PATH]`. The servers get the environment of this process.
//
// Throughput is compared with a bare server (baseline.ts) on the same machine at the same time (world-part.ts): short
// slices of either alternate. Processor time for a request is printed beside it, because it hardly depends on what else
// the machine does. This process drives both over 32 connections.
//
// The runtime part (`--only runtime`, runtime.ts) uses a server of its own and measures other things than throughput.
// The lists and pages parts (`--only lists`, lists.ts; `--only pages`, pages.ts) need the database of `make bench-data`
// and are skipped without it. The deliveries part (`--only deliveries`, deliveries.ts) uses a server of its own, too,
// and so do the evaluations of Rego policies (`--only evaluations`, evaluations.ts).
// Growth (`--only growth`, growth.ts) compares a small database with a copy of the large one. With --cores, and nothing
// else, the curve over the number of processors is measured (curve.ts). With --against, and nothing else, the requests
// of lines.ts that --only selects are sent to the executable and to the one at that path in turn (against.ts), or with
// `--only 'slow disk'` those of slow-disk.ts.
//
// All files are below .build, on the disk of the checkout. The program only prints; it exits with 0 unless a response
// was wrong.
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { EXECUTABLE } from "../binary/executable.ts";
import { measureAgainst } from "./against.ts";
import { measureCommitNumber } from "./commit-number.ts";
import { measureCurve } from "./curve.ts";
import { isBuilt } from "./data.ts";
import { measureDeliveries } from "./deliveries.ts";
import { measureEvaluations } from "./evaluations.ts";
import { measureGrowth } from "./growth.ts";
import { freshQuestion, WRITE } from "./lines.ts";
import { measureLists } from "./lists.ts";
import { measurePages } from "./pages.ts";
import { startServer, temporaryDirectory } from "./processes.ts";
import { CONNECTIONS } from "./slices.ts";
import { reached, row } from "./print.ts";
import { measureRuntime } from "./runtime.ts";
import { measureSlowDisk } from "./slow-disk.ts";
import { printResults, skip } from "./targets.ts";
import { APPLY_FILE, REPORT_BYTES, TRAILS } from "./world.ts";
import { WORLD_TITLES, measureWorld } from "./world-part.ts";

const COLD_STARTS = 5;
/** The name of the part about environments, reports and snapshots for `--only`. */
const RUNTIME = "runtime";
/** The name of the part about reads while the disk is slow (slow-disk.ts). */
const SLOW_DISK = "slow disk";
/** The parts about lists and pages on a large database. */
const LARGE_PARTS = { lists: (root: string) => measureLists(root), pages: measurePages };

const { values: options } = parseArgs({
  options: {
    seconds: { type: "string", default: "1.5" },
    rounds: { type: "string", default: "6" },
    only: { type: "string", default: "" },
    cores: { type: "boolean", default: false },
    against: { type: "string" },
  },
});
const extent = { seconds: Number(options.seconds), rounds: Number(options.rounds) };
const only = new RegExp(options.only);

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

/** Requests whose work must not suffer while messages are sent. */
const BESIDE_DELIVERIES = [
  ["assert", { expect: 200, next: () => freshQuestion() }],
  ["attestation", WRITE],
] as const;

async function main(root: string): Promise<void> {
  console.log(
    `${cpus().length} cores, ${cpus()[0]?.model ?? "unknown"}; ${CONNECTIONS} connections, ` +
      `${extent.rounds} slices of ${extent.seconds} s; a report has ${REPORT_BYTES} bytes, over ${TRAILS} trails`,
  );
  const applyFile = join(root, "apply.yml");
  writeFileSync(applyFile, APPLY_FILE);
  if (options.cores) {
    await measureCurve(root, applyFile, extent);
    printResults();
    return;
  }
  if (options.against !== undefined) {
    const { against: other } = options;
    if (only.source === SLOW_DISK) await measureSlowDisk(root, { executables: [EXECUTABLE, other], applyFile, extent });
    else await measureAgainst({ root, applyFile, other, extent, only });
    printResults();
    return;
  }
  const data = join(root, "data");
  if (WORLD_TITLES.some((title) => only.test(title))) await measureWorld({ root, data, applyFile }, extent, only);
  if (only.test(RUNTIME)) await measureRuntime(root);
  for (const [name, measurePart] of Object.entries(LARGE_PARTS)) {
    if (!only.test(name)) continue;
    if (isBuilt()) await measurePart(root);
    else skip(name, "run `make bench-data` first");
  }
  if (only.test("growth")) await measureGrowth(root, extent.rounds);
  if (only.test(SLOW_DISK)) await measureSlowDisk(root, { executables: [EXECUTABLE], applyFile, extent });
  if (only.test("commit number")) await measureCommitNumber(root);
  if (only.test("evaluations")) await measureEvaluations(root, extent);
  if (only.test("deliveries")) await measureDeliveries(root, applyFile, BESIDE_DELIVERIES);
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
  printResults();
}

await main(temporaryDirectory("bench-"));
