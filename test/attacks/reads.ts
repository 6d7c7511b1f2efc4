// Part of `make crash`: every GET of every operation on a large world (large-world.ts), and previews of changes, by the
// packaged executable in a control group of 512 MB: 60 times by a client that never reads, and meanwhile 16 times in
// parallel by one that does. The process must survive, `/readyz` must respond within a second (without what other
// programs took), every answer that is read is the one that a single request gets (of a preview, 200), 429, or 503 with
// Retry-After, and afterwards nothing of the memory budget is held.
//
//   node test/attacks/reads.ts [pattern of operations] [large | small]
//
// Exits with 1 otherwise. Without permission to create a control group, it is skipped and exits with 0.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attackWithBombs } from "./bombs-beside-reads.ts";
import { createMemoryGroup } from "./cgroup.ts";
import { prepareLargeWorld } from "./large-world.ts";
import type { LargeSizes, Read } from "./large-world.ts";
import { attackReads } from "./read-attack.ts";

const LIMIT_BYTES = 512 << 20;

const SIZES: Readonly<Record<string, LargeSizes>> = {
  large: {
    artifacts: [95_000, 95_000, 60_000],
    judged: 95_000,
    attestations: 16,
    attestationBytes: 3_900_000,
    history: 2_000,
    checks: 3_000,
  },
  small: {
    artifacts: [20_000, 20_000],
    judged: 5_000,
    attestations: 6,
    attestationBytes: 3_900_000,
    history: 300,
    checks: 600,
  },
};

const [pattern = "", size = "large"] = process.argv.slice(2);
const made = createMemoryGroup(`assay-reads-${process.pid}`, LIMIT_BYTES);
if (typeof made === "string") {
  console.log(`SKIPPED: reads in ${LIMIT_BYTES >> 20} MB of memory: ${made}`);
  process.exit(0);
}
// An aborted test must not leave the server behind.
process.once("SIGTERM", () => process.exit(1));
const directory = mkdtempSync(join(tmpdir(), "assay-reads-"));
const data = join(directory, "data");
const startedAt = performance.now();
const world = await prepareLargeWorld(data, SIZES[size] as LargeSizes);
console.log(`the world took ${((performance.now() - startedAt) / 1000).toFixed(0)} s`);
const reads = world.reads.filter(({ operation }) => new RegExp(pattern).test(operation));
const { problems, summary } = await attackReads(
  { data, keys: world.keys, group: made },
  { reads, unread: 60, parallel: 16, maxReadyMs: 1_000, print: (line) => console.log(line) },
);
if (new RegExp(pattern).test("post_rego_evaluation")) {
  const snapshot = world.reads.find(({ operation }) => operation === "get_snapshot") as Read;
  const found = await attackWithBombs({ data, keys: world.keys, group: made }, snapshot.path);
  console.log(`two memory bombs beside unread snapshots: ${found.length === 0 ? "the server lives" : "see below"}`);
  problems.push(...found);
}
made.remove();
rmSync(directory, { recursive: true, force: true });
for (const problem of problems) console.log(`PROBLEM ${problem}`);
console.log(`${reads.length} reads in ${LIMIT_BYTES >> 20} MB: ${problems.length} problems; ${summary}`);
process.exitCode = problems.length > 0 ? 1 : 0;
