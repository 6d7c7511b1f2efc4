// `make crash`: kills the packaged executable with -9 in the middle of writes, a hundred times over one data directory, and
// after each restart asks for everything that was ever acknowledged in that round, and looks at the data directory itself.
//
//   node test/crash/main.ts [--rounds N] [--seed N]
//
// It proves what the death of a process can do. The loss of power is another matter: it needs the order of fsyncs, which
// test/vault and the choice of synchronous=FULL answer for. Ends with 1 on any loss, any orphan and any refusal.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { EXECUTABLE, start } from "../binary/executable.ts";
import { inspect, leftInStaging } from "./inspect.ts";
import type { Seen } from "./inspect.ts";
import { APPLY_FILE, apiOf, attestationsSince, missingOf } from "./ledger.ts";
import type { Entry } from "./ledger.ts";
import { prepare, randomOf, writeUntilGone } from "./load.ts";

const LANES = 16;
/** A kill comes so many milliseconds after the load began. */
const EARLIEST = 30;
const LATEST = 900;
/** Some starts after a kill are killed as well, within as many milliseconds as a start takes: recovery may be cut off too. */
const KILLED_STARTS = 0.15;
const LATEST_IN_START = 200;

const { values } = parseArgs({ options: { rounds: { type: "string", default: "100" }, seed: { type: "string", default: "1" } } });
const rounds = Number(values.rounds);
const seed = Number(values.seed);
const random = randomOf(seed);
const directory = mkdtempSync(join(tmpdir(), "assay-crash-"));
const applyFile = join(directory, "apply.yaml");
const data = join(directory, "data");
writeFileSync(applyFile, APPLY_FILE);
const args = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"];

const seen: Seen = { attestation: 0, files: new Set() };
const problems: string[] = [];
const counts: Record<string, number> = {};
let acknowledged = 0;
let all: Entry[] = [];
const began = Date.now();

let server = await start([...args, "--bootstrap", applyFile]);
all.push(...(await prepare(apiOf(server.url))));
for (let round = 1; round <= rounds && problems.length === 0; round += 1) {
  const entries: Entry[] = [];
  const since = Date.now() / 1000;
  const load = writeUntilGone(apiOf(server.url), LANES, seed * 10_000 + round, entries);
  await new Promise((resolve) => setTimeout(resolve, EARLIEST + random() * (LATEST - EARLIEST)));
  const killed = await server.stop("SIGKILL");
  if (killed.signal !== "SIGKILL") problems.push(`round ${round}: the server ended by itself: ${JSON.stringify(killed)}\n${server.output()}`);
  problems.push(...(await load).map((refusal) => `round ${round}: refused ${refusal}`));

  while (random() < KILLED_STARTS) {
    const child = spawn(EXECUTABLE, args, { stdio: "ignore", env: {} });
    await sleep(random() * LATEST_IN_START);
    child.kill("SIGKILL");
    await once(child, "close");
  }
  server = await start(args);
  problems.push(...leftInStaging(data).map((problem) => `round ${round}: ${problem}`));
  const api = apiOf(server.url);
  const records = await attestationsSince(api, since);
  for (const entry of entries) {
    const missing = await missingOf(api, entry, records);
    if (missing) problems.push(`round ${round}: LOST ${missing}`);
    counts[entry.kind] = (counts[entry.kind] ?? 0) + 1;
  }
  problems.push(...inspect(data, seen).map((problem) => `round ${round}: ${problem}`));
  acknowledged += entries.length;
  all = [...all, ...entries];
  if (round % 10 === 0) console.log(`round ${round}: ${acknowledged} writes acknowledged, all of them found; ${seen.files.size} evidence files whole`);
}

// Once more everything, oldest first: what survived its own crash must have survived all later ones.
let lost = 0;
const everything = await attestationsSince(apiOf(server.url), 0);
for (const entry of all) {
  const missing = await missingOf(apiOf(server.url), entry, everything);
  if (!missing) continue;
  lost += 1;
  problems.push(`at the end: LOST ${missing}`);
}
const { code } = await server.stop();
if (code !== 0) problems.push(`the last server ended with ${code}:\n${server.output()}`);
rmSync(directory, { recursive: true, force: true });

const kinds = Object.entries(counts).sort().map(([kind, count]) => `${count} ${kind}`);
console.log(`${rounds} kills in ${Math.round((Date.now() - began) / 1000)} s (seed ${seed}): ${acknowledged} acknowledged writes (${kinds.join(", ")}), ${lost} lost`);
for (const problem of problems.slice(0, 50)) console.error(problem);
console.log(problems.length === 0 ? "no loss, no orphan, every verdict is what its facts lead to" : `${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
