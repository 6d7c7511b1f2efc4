/**
 * The smaller form of reads.ts: every GET of every operation on a world that is large enough to fill the memory if
 * answers had no bound. How long `/readyz` takes is measured by the larger form alone.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createMemoryGroup } from "./cgroup.ts";
import { prepareLargeWorld } from "./large-world.ts";
import { attackReads } from "./read-attack.ts";

const LIMIT_BYTES = 512 << 20;

const test = suite("attacks/reads");
const made = createMemoryGroup(`assay-reads-test-${process.pid}`, LIMIT_BYTES);
if (typeof made === "string") console.log(`skipped: ${made}`);
const directory = mkdtempSync(join(tmpdir(), "assay-reads-"));
test.after(() => {
  if (typeof made !== "string") made.remove();
  rmSync(directory, { recursive: true, force: true });
});

(typeof made === "string" ? test.skip : test)(
  "every GET, unread and in parallel, in 512 MB: nothing dies, and nothing stays in the memory budget",
  async () => {
    assert.ok(typeof made !== "string");
    const data = join(directory, "data");
    const sizes = {
      artifacts: [5_000, 5_000],
      judged: 1_000,
      attestations: 4,
      attestationBytes: 3_900_000,
      history: 60,
      checks: 20,
    };
    const { keys, reads } = await prepareLargeWorld(data, sizes);
    assert.ok(new Set(reads.map(({ operation }) => operation)).size > 80, "the reads of all operations");
    const plan = { reads, unread: 12, parallel: 3, maxReadyMs: Number.POSITIVE_INFINITY, print: () => undefined };
    const { problems } = await attackReads({ data, keys, group: made }, plan);
    assert.equal(problems, []);
  },
);

test.run();
