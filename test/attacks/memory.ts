// Part of `make crash`: sends the whole attack list to the packaged executable in a control group of 512 MB, first one
// attack after the other, then several at once. The process must survive, respond to each attack as its row says, and
// serve afterwards.
//
//   node test/attacks/memory.ts [pattern]
//
// Exits with 1 otherwise. Without permission to create a control group, it is skipped and exits with 0.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { start } from "../binary/executable.ts";
import { createMemoryGroup } from "./cgroup.ts";
import { MALLOC_SETTINGS } from "../../src/cli/malloc.ts";
import { ATTACKS } from "./index.ts";
import { APPLY_FILE, prepareWorld, problemOf, send } from "./world.ts";

const LIMIT_BYTES = 512 << 20;
/** Concurrent attacks in the second half. */
const CONCURRENT = 4;

const attacks = ATTACKS.filter(({ name }) => new RegExp(process.argv[2] ?? "").test(name));
const made = createMemoryGroup(`assay-attacks-${process.pid}`, LIMIT_BYTES);
if (typeof made === "string") {
  console.log(`SKIPPED: attacks in ${LIMIT_BYTES >> 20} MB of memory: ${made}`);
  process.exit(0);
}
const group = made;
const directory = mkdtempSync(join(tmpdir(), "assay-attacks-"));
const applyFile = join(directory, "apply.yaml");
writeFileSync(applyFile, APPLY_FILE);
// The shell enters the group and then becomes the server, so that all of its memory is counted.
const shell = ["-c", `echo $$ > "$0" && exec "$@"`];
const server = await start(
  [
    ...shell,
    group.entry,
    process.env["ASSAY_EXECUTABLE"] ?? join(import.meta.dirname, "..", "..", "dist", "assay"),
    "serve",
    "--data",
    join(directory, "data"),
    "--listen",
    "127.0.0.1:0",
    "--log-level",
    "error",
    "--bootstrap",
    applyFile,
  ],
  { executable: "/bin/sh", env: MALLOC_SETTINGS },
);
const problems: string[] = [];
let ended: string | null = null;
void server.exited.then((exit) => (ended = JSON.stringify(exit)));
const world = await prepareWorld(server.url);
// An aborted test must not leave the server behind.
process.once("SIGTERM", () => process.exit(1));
const mb = (bytes: number | null): string => (bytes === null ? "?" : (bytes / 1_048_576).toFixed(0));

async function attack(one: (typeof ATTACKS)[number], crowded: boolean): Promise<void> {
  if (ended !== null) return;
  const requests = Array.from({ length: crowded ? 1 : (one.parallel ?? 1) }, () => one.request(world));
  const answers = await Promise.all(requests.map((request) => send(server.url, request)));
  for (const answer of answers) {
    const problem = problemOf(one, answer, { crowded });
    if (problem !== null) problems.push(problem);
  }
  const end = ended === null ? "" : `; THE SERVER ENDED: ${ended}`;
  console.log(`${one.name}: ${mb(group.own())} MB, at most ${mb(group.peak())} MB with cached files${end}`);
}

for (const one of attacks) await attack(one, false);
console.log(`${CONCURRENT} at once:`);
const left = [...attacks, ...attacks];
const lane = async (): Promise<void> => {
  for (let one = left.shift(); one !== undefined; one = left.shift()) await attack(one, true);
};
await Promise.all(Array.from({ length: CONCURRENT }, lane));
const ready = ended === null ? await fetch(`${server.url}/ready`).then((answer) => answer.text(), String) : null;
if (ready !== "OK")
  problems.push(
    `afterwards the server ${ended === null ? `responds with ${ready}` : `is gone: ${ended}`}\n${server.output()}`,
  );
const peak = mb(group.peak());
await server.stop();
group.remove();
rmSync(directory, { recursive: true, force: true });
for (const problem of problems) console.log(`PROBLEM ${problem}`);
console.log(`${attacks.length} attacks in ${LIMIT_BYTES >> 20} MB: ${problems.length} problems, at most ${peak} MB`);
process.exitCode = problems.length > 0 ? 1 : 0;
