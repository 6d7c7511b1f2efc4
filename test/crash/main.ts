// `make crash`: kills the packaged executable with -9 in the middle of writes, a hundred times over one data directory.
// After each restart it looks for every write that was acknowledged in that round, and checks the data directory.
//
//   node test/crash/main.ts [--rounds N] [--seed N]
//
// Meanwhile environments receive reports, change their policies and are re-evaluated; once the jobs that a kill left
// are done, their snapshots, intervals, counts and verdicts must be consistent (src/diagnostics/verify).
//
// This covers the death of the process. Power cuts are simulated afterwards (power-cut.ts), three for ten rounds. Exits
// with 1 on any loss, any orphan and any refusal.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { EXECUTABLE, start } from "../binary/executable.ts";
import { newPublicId } from "../../src/clock.ts";
import { openLocalStore } from "../../src/evidence/local-store.ts";
import { openReadOnly } from "../../src/store/db/connection.ts";
import { drain } from "./drain.ts";
import { inspect, inspectEnvironments, listLeftInStaging, nothingInspected } from "./inspect.ts";
import { inspectSettled } from "./inspect-settled.ts";
import { differencesShown, isOfEnvironments, missingEnvironmentEntries } from "./ledger-environments.ts";
import type { EnvironmentEntry } from "./ledger-environments.ts";
import { APPLY_FILE, apiOf, attestationsSince, missingOf } from "./ledger.ts";
import type { Entry } from "./ledger.ts";
import { environmentWriters, prepareEnvironments } from "./load-environments.ts";
import { prepare, randomOf, writeUntilGone, writers } from "./load.ts";
import { reportPowerCuts } from "./power-cut.ts";

/** Concurrent writers, in addition to those of load-environments.ts. */
const LANES = 10;
/** When a kill comes after the beginning of the load. */
const MIN_KILL_DELAY_MS = 30;
const MAX_KILL_DELAY_MS = 900;
/** The share of starts that are killed as well, within the time that a start takes: recovery may be interrupted too. */
const KILLED_STARTS = 0.15;
const MAX_START_KILL_DELAY_MS = 200;

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "100" }, seed: { type: "string", default: "1" } },
});
const rounds = Number(values.rounds);
const seed = Number(values.seed);
const random = randomOf(seed);
const directory = mkdtempSync(join(tmpdir(), "assay-crash-"));
const applyFile = join(directory, "apply.yaml");
const data = join(directory, "data");
writeFileSync(applyFile, APPLY_FILE);
const args = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"];

const progress = nothingInspected();
const problems: string[] = [];
const counts: Record<string, number> = {};
let kills = 0;
let drained = 0;
let all: (Entry | EnvironmentEntry)[] = [];
const startedAt = Date.now();

let server = await start([...args, "--bootstrap", applyFile]);
all.push(...(await prepare(apiOf(server.url))));
const world = await prepareEnvironments(apiOf(server.url));
const db = openReadOnly(data);
const store = openLocalStore({ directory: join(data, "evidence"), staging: join(data, "staging"), ids: newPublicId });
for (let round = 1; round <= rounds && problems.length === 0; round += 1) {
  const entries: (Entry | EnvironmentEntry)[] = [];
  const since = Date.now() / 1000;
  const own = seed * 10_000 + round;
  const lanes = [...writers(apiOf(server.url), LANES, own), ...environmentWriters(apiOf(server.url), world, own)];
  const load = writeUntilGone(lanes, entries);
  await sleep(MIN_KILL_DELAY_MS + random() * (MAX_KILL_DELAY_MS - MIN_KILL_DELAY_MS));
  const killed = await server.stop("SIGKILL");
  const report = (...found: string[]): void =>
    void problems.push(...found.map((problem) => `seed ${seed}, round ${round}: ${problem}`));
  kills += 1;
  if (killed.signal !== "SIGKILL") report(`the server ended by itself: ${JSON.stringify(killed)}\n${server.output()}`);
  for (const refusal of await load) report(`refused ${refusal}`);

  while (random() < KILLED_STARTS) {
    const child = spawn(EXECUTABLE, args, { stdio: "ignore", env: {} });
    await sleep(random() * MAX_START_KILL_DELAY_MS);
    child.kill("SIGKILL");
    await once(child, "close");
  }
  server = await start(args);
  report(...(await readinessProblems(server.url)));
  report(...listLeftInStaging(data));
  const api = apiOf(server.url);
  const records = await attestationsSince(api, since);
  for (const entry of entries) {
    counts[entry.kind] = (counts[entry.kind] ?? 0) + 1;
    const missing = isOfEnvironments(entry) ? null : await missingOf(api, entry, records);
    if (missing) report(`LOST ${missing}`);
  }
  const lostEntries = missingEnvironmentEntries(db, entries.filter(isOfEnvironments));
  report(...lostEntries.map((missing) => `LOST ${missing}`));
  const left = await drain(db);
  drained += left.jobs;
  report(...left.problems);
  report(...(await inspect(db, store, progress)), ...inspectSettled(db));
  report(...(await differencesShown(api, db, world)));
  all = [...all, ...entries];
  if (round % 10 === 0)
    console.log(
      `round ${round}: ${all.length} acknowledged writes, all found; ` +
        `${progress.files.size} evidence files intact; ${countSnapshots()} snapshots consistent`,
    );
}

/** A kill never reads as a loss of commits, which would start the server in read-only mode. */
async function readinessProblems(url: string): Promise<string[]> {
  const { state, reason } = (await (await fetch(`${url}/readyz`)).json()) as { state: string; reason: string | null };
  return state === "ready" ? [] : [`the server is ${state} after a kill: ${reason}`];
}

function countSnapshots(): number {
  return db.prepare("SELECT count(*) FROM snapshots").pluck().get() as number;
}

// Everything once more, oldest first: a write that survived its own crash must have survived all later ones.
let lost = 0;
const everything = await attestationsSince(apiOf(server.url), 0);
for (const entry of all) {
  const missing = isOfEnvironments(entry) ? null : await missingOf(apiOf(server.url), entry, everything);
  if (!missing) continue;
  lost += 1;
  problems.push(`at the end: LOST ${missing}`);
}
const gone = missingEnvironmentEntries(db, all.filter(isOfEnvironments));
lost += gone.length;
problems.push(
  ...[...gone, ...(await inspectEnvironments(db, nothingInspected()))].map(
    (problem) => `seed ${seed}, at the end: ${problem}`,
  ),
);
const { row, evaluation, deployment } = progress.evaluations;
const summary =
  `${countSnapshots()} snapshots, ${row} intervals, ${evaluation} evaluations and ${deployment} deployments checked, ` +
  `${drained} jobs left by kills`;
db.close();
await store.close();
const { code } = await server.stop();
if (code !== 0) problems.push(`the last server ended with ${code}:\n${server.output()}`);
rmSync(directory, { recursive: true, force: true });

const kinds = Object.entries(counts)
  .sort()
  .map(([kind, count]) => `${count} ${kind}`);
console.log(
  `${kills} kills in ${Math.round((Date.now() - startedAt) / 1000)} s (seed ${seed}): ` +
    `${all.length} acknowledged writes (${kinds.join(", ")}), ${lost} lost`,
);
console.log(summary);
for (const problem of problems.slice(0, 50)) console.error(problem);
console.log(
  problems.length === 0
    ? "no loss, no orphan, every snapshot consistent, every verdict follows from its facts"
    : `${problems.length} problems`,
);
process.exitCode = problems.length === 0 ? 0 : 1;
if (!(await reportPowerCuts({ cuts: Math.ceil(rounds * 0.3), seed }))) process.exitCode = 1;
