// Kills the packaged executable under load and looks for what is missing: `make crash`, or
// `node test/crash/main.ts [--rounds N] [--seed N]`.
//
// A round: the server runs on the data directory of all rounds, eight lanes write, and at a moment that the seed decides the
// process gets SIGKILL. It is started again (now and then it is killed while it starts, too), and everything is read back:
// through the API, and past it in the database and the evidence directory. The last round looks at everything once more.
//
// A kill leaves what the kernel already has, so this says nothing about the loss of power. The order of writes and syncs,
// which decides that, is what test/vault/crash.test.ts stops between any two of.
//
// The exit code is 1 when an acknowledged write is lost, anything is half there, or a write was refused.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { EXECUTABLE, start } from "../binary/executable.ts";
import { inspector } from "./inspect.ts";
import { emptyJournal, randomNumbers } from "./journal.ts";
import { readBack } from "./readback.ts";
import { APPLY_FILE, LANES, write } from "./writers.ts";

/** Milliseconds from the first write to the kill. The longest make some hundreds of writes, enough for a checkpoint. */
const SHORTEST = 20;
const LONGEST = 900;
/** Milliseconds after which a start is killed, which takes about 150. */
const LONGEST_START = 200;
const KILLED_STARTS = 0.15;
const MOST_PROBLEMS = 20;

const { values: options } = parseArgs({ options: { rounds: { type: "string", default: "100" }, seed: { type: "string", default: String(Date.now() % 1_000_000) } } });
const rounds = Number(options.rounds);
const seed = Number(options.seed);
const random = randomNumbers(seed);

async function main(root: string): Promise<string[]> {
  const directory = join(root, "data");
  const apply = join(root, "apply.yml");
  writeFileSync(apply, APPLY_FILE);
  const args = ["serve", "--data", directory, "--listen", "127.0.0.1:0", "--bootstrap", apply, "--log-level", "error"];
  const all = emptyJournal();
  const data = inspector(directory);
  const problems: string[] = [];
  let killedStarts = 0;

  for (let round = 1; round <= rounds && problems.length === 0; round += 1) {
    const journal = emptyJournal();
    const server = await start(args);
    const writing = write(server.url, round, journal, random);
    await sleep(SHORTEST + random() * (LONGEST - SHORTEST));
    await server.stop("SIGKILL");
    await writing;

    while (random() < KILLED_STARTS) {
      killedStarts += 1;
      const child = spawn(EXECUTABLE, args, { stdio: "ignore", env: {} });
      await sleep(random() * LONGEST_START);
      child.kill("SIGKILL");
      await once(child, "close");
    }
    const again = await start(args);
    problems.push(...journal.refused, ...data.inspect(), ...(await readBack(again.url, journal)));
    await again.stop(random() < 0.5 ? "SIGKILL" : "SIGTERM");
    if (again.output().includes('"level":"error"')) problems.push(again.output());
    all.tried.push(...journal.tried);
    all.acknowledged.push(...journal.acknowledged);
    if (round % 10 === 0) console.log(`${round} rounds: ${all.acknowledged.length} writes acknowledged`);
  }

  const server = await start(args);
  data.forget();
  problems.push(...data.inspect(), ...(await readBack(server.url, all)));
  await server.stop();
  const lost = problems.filter((problem) => problem.startsWith("LOST")).length;
  console.log(
    `${rounds} rounds with ${LANES} writers, ${killedStarts} starts killed: ${all.tried.length} writes sent, ${all.acknowledged.length} acknowledged, ` +
      `${all.acknowledged.length - lost} found, ${lost} lost`,
  );
  return problems;
}

console.log(`seed ${seed}`);
mkdirSync(join(import.meta.dirname, "..", "..", ".build"), { recursive: true });
const root = mkdtempSync(join(import.meta.dirname, "..", "..", ".build", "crash-"));
const problems = await main(root);
for (const problem of problems.slice(0, MOST_PROBLEMS)) console.log(problem);
if (problems.length > 0) {
  // The data directory is kept for whoever looks into it.
  console.log(`${problems.length} problems; the data are in ${root}`);
  process.exitCode = 1;
} else rmSync(root, { recursive: true });
