// `make soak`: ten minutes of an installation under load. Writers, reporters and readers run all the time, with a
// backup and a restore every minute and kill -9 every twenty seconds. After each kill the test looks for everything
// that was acknowledged since the last one, and verifies the database. Each restored copy is verified completely and
// must contain everything that was acknowledged before its backup began.
//
//   node test/soak/main.ts [--minutes N] [--seed N]
//
// Exits with 1 on any loss, damage, refusal or failed command, and prints how large memory, log and database became.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { EXECUTABLE, start } from "../binary/executable.ts";
import { openReadOnly } from "../../src/store/db/connection.ts";
import { listLeftInStaging } from "../crash/inspect.ts";
import { drain } from "../crash/drain.ts";
import { differencesShown, isOfEnvironments, missingEnvironmentEntries } from "../crash/ledger-environments.ts";
import type { EnvironmentEntry } from "../crash/ledger-environments.ts";
import { APPLY_FILE, apiOf, attestationsSince, missingOf } from "../crash/ledger.ts";
import type { Entry } from "../crash/ledger.ts";
import { environmentWriters, prepareEnvironments } from "../crash/load-environments.ts";
import { prepare, writeUntilGone, writers } from "../crash/load.ts";
import type { Lane } from "../crash/load.ts";
import { readers } from "./readers.ts";

/** From a start to its kill, and between two backups. */
const KILL_INTERVAL_S = 20;
const BACKUP_INTERVAL_S = 60;
/** Lanes, and the pause of each after a request: about a hundred requests a second, sustainable for ten minutes. */
const WRITERS = 6;
const READERS = 4;
const PAUSE_MS = 60;
/** The pause of lanes that change environments: each of their requests writes hundreds of rows. */
const ENVIRONMENT_PAUSE_MS = 250;
const SAMPLE_INTERVAL_MS = 500;
const MAX_WAL_BYTES = 256 * 1_048_576;

type Any = Entry | EnvironmentEntry;

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "10" }, seed: { type: "string", default: "1" } },
});
const minutes = Number(values.minutes);
const seed = Number(values.seed);
const directory = mkdtempSync(join(tmpdir(), "assay-soak-"));
const data = join(directory, "data");
const applyFile = join(directory, "apply.yaml");
writeFileSync(applyFile, APPLY_FILE);
const serveOn = (place: string): string[] => [
  "serve",
  "--data",
  place,
  "--listen",
  "127.0.0.1:0",
  "--log-level",
  "error",
];

const problems: string[] = [];
const all: Any[] = [];
const peak = { memory: 0, log: 0 };
const counts = { kills: 0, backups: 0, reads: 0, verified: 0 };
const startedAt = Date.now();

/** Runs a command of the executable; an exit code other than 0 is a problem. @returns its stdout */
async function command(args: readonly string[]): Promise<string> {
  const child = spawn(EXECUTABLE, args, { stdio: ["ignore", "pipe", "pipe"], env: {} });
  const [out, err]: Buffer[][] = [[], []];
  child.stdout.on("data", (bytes: Buffer) => out?.push(bytes));
  child.stderr.on("data", (bytes: Buffer) => err?.push(bytes));
  const code = await new Promise((resolve) => child.once("close", resolve));
  if (code !== 0)
    problems.push(
      `assay ${args.join(" ")} ended with ${String(code)}: ${Buffer.concat(err ?? [])}${Buffer.concat(out ?? [])}`,
    );
  return Buffer.concat(out ?? []).toString();
}

const paced =
  <T>(lane: Lane<T>, pauseMs: number): Lane<T> =>
  async () => {
    const done = await lane();
    await sleep(pauseMs);
    return done;
  };

/** Samples memory and log size of a process until the returned function is called. */
function watch(pid: number): () => void {
  const timer = setInterval(() => {
    const status = read(`/proc/${pid}/status`);
    peak.memory = Math.max(peak.memory, Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024);
    peak.log = Math.max(peak.log, statSync(join(data, "assay.db-wal"), { throwIfNoEntry: false })?.size ?? 0);
  }, SAMPLE_INTERVAL_MS);
  return () => clearInterval(timer);
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** The entries that a server on the data directory `place` does not know. */
async function missing(url: string, place: string, entries: readonly Any[], since: number): Promise<string[]> {
  const api = apiOf(url);
  const records = await attestationsSince(api, since);
  const lost: string[] = [];
  for (const entry of entries) {
    const text = isOfEnvironments(entry) ? null : await missingOf(api, entry, records);
    if (text) lost.push(text);
  }
  const db = openReadOnly(place);
  try {
    return [...lost, ...missingEnvironmentEntries(db, entries.filter(isOfEnvironments))];
  } finally {
    db.close();
  }
}

/** Waits for the jobs that a kill left, then compares what the server shows with the database; updates `world`. */
async function settle(url: string): Promise<string[]> {
  const db = openReadOnly(data);
  try {
    const { problems } = await drain(db);
    return [...problems, ...(await differencesShown(apiOf(url), db, world))];
  } finally {
    db.close();
  }
}

/** Makes a backup beside the server, restores it into a new directory, and checks the copy. */
async function backUpAndRestore(number: number): Promise<void> {
  const file = join(directory, `backup-${number}.tar`);
  const copy = join(directory, `restored-${number}`);
  const before = [...all];
  await command(["backup", file, "--data", data, "--json"]);
  await command(["restore", file, "--data", copy, "--json"]);
  await command(["verify", "--data", copy, "--json"]);
  const server = await start(serveOn(copy));
  for (const text of await missing(server.url, copy, before, 0)) problems.push(`restored copy ${number}: LOST ${text}`);
  await server.stop();
  rmSync(copy, { recursive: true, force: true });
  rmSync(file, { force: true });
  counts.backups += 1;
}

let server = await start([...serveOn(data), "--bootstrap", applyFile]);
all.push(...(await prepare(apiOf(server.url))));
const world = await prepareEnvironments(apiOf(server.url));

/** Checks that all acknowledged writes survived a kill, on the next server while the next load runs. */
async function checkCycle(cycle: number, entries: readonly Any[], since: number): Promise<void> {
  for (const text of await missing(server.url, data, entries, since)) problems.push(`cycle ${cycle}: LOST ${text}`);
  await command(["verify", "--quick", "--data", data, "--json"]);
  counts.verified += 1;
}

let checking: Promise<void> = Promise.resolve();
let backingUp: Promise<void> = Promise.resolve();
let lastBackup = -Infinity;
for (let cycle = 1; Date.now() - startedAt < minutes * 60_000 && problems.length === 0; cycle += 1) {
  const api = apiOf(server.url);
  const entries: Any[] = [];
  const started = Date.now();
  const stopWatching = watch(server.pid);
  const own = seed * 10_000 + cycle;
  const reading = readers(api, READERS, own).map(
    (lane): Lane<Any> =>
      async () => {
        counts.reads += 1;
        return lane();
      },
  );
  const lanes = [
    ...[...writers(api, WRITERS, own), ...reading].map((lane: Lane<Any>) => paced(lane, PAUSE_MS)),
    ...environmentWriters(api, world, own).map((lane) => paced(lane, ENVIRONMENT_PAUSE_MS)),
  ];
  // Recorded immediately, so that a backup that begins now expects it.
  const load = writeUntilGone(lanes, {
    push(entry) {
      all.push(entry);
      entries.push(entry);
    },
  });
  if (Date.now() - lastBackup >= (BACKUP_INTERVAL_S - KILL_INTERVAL_S / 2) * 1_000) {
    // The previous backup must have ended; this one may outlast the kill.
    await backingUp;
    lastBackup = Date.now();
    backingUp = sleep(2_000).then(() => backUpAndRestore(cycle));
  }
  await sleep(Math.max(0, KILL_INTERVAL_S * 1_000 - (Date.now() - started)));
  await checking;
  stopWatching();
  const killed = await server.stop("SIGKILL");
  counts.kills += 1;
  if (killed.signal !== "SIGKILL")
    problems.push(`cycle ${cycle}: the server ended by itself: ${JSON.stringify(killed)}\n${server.output()}`);
  for (const refused of await load) problems.push(`cycle ${cycle}: refused ${refused}`);
  server = await start(serveOn(data));
  for (const text of listLeftInStaging(data)) problems.push(`cycle ${cycle}: ${text}`);
  for (const text of await settle(server.url)) problems.push(`cycle ${cycle}: ${text}`);
  checking = checkCycle(cycle, entries, started / 1000);
  const seconds = Math.round((Date.now() - startedAt) / 1000);
  console.log(
    `${seconds} s: ${counts.kills} kills, ${counts.backups} backups restored, ${all.length} writes acknowledged, ` +
      `memory ${megabytes(peak.memory)} MB, log ${megabytes(peak.log)} MB`,
  );
}
await Promise.all([checking, backingUp]);

for (const text of await missing(server.url, data, all, 0)) problems.push(`at the end: LOST ${text}`);
const stopped = await server.stop();
if (stopped.code !== 0) problems.push(`the last server ended with ${JSON.stringify(stopped)}:\n${server.output()}`);
const verdict = await command(["verify", "--data", data, "--json"]);
if (peak.log > MAX_WAL_BYTES) problems.push(`the write-ahead log grew to ${megabytes(peak.log)} MB`);
const size = statSync(join(data, "assay.db")).size;
rmSync(directory, { recursive: true, force: true });

console.log(verdict.trimEnd().slice(-2_000));
console.log(
  `${Math.round((Date.now() - startedAt) / 1000)} s (seed ${seed}): ${counts.kills} kills, ` +
    `${counts.backups} backups restored, ${counts.verified} quick verifications, ` +
    `${all.length} acknowledged writes, ${counts.reads} reads; at most ${megabytes(peak.memory)} MB of memory ` +
    `and ${megabytes(peak.log)} MB of log; database ${megabytes(size)} MB`,
);
for (const problem of problems.slice(0, 50)) console.error(problem);
console.log(problems.length === 0 ? "nothing lost, nothing damaged" : `${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;

function megabytes(bytes: number): number {
  return Math.round(bytes / 1_048_576);
}
