// Measures how many small pieces of evidence per second become durable: `node test/bench/evidence-store.ts [bytes]
// [seconds]`, with 32 concurrent uploads, in a directory below the working directory (a tmpfs would measure nothing).
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openLocalStore } from "../../src/evidence/local-store.ts";

const CONCURRENT = 32;
const bytes = Number(process.argv[2] ?? 8192);
const seconds = Number(process.argv[3] ?? 2);
const root = mkdtempSync("bench-evidence-");

let count = 0;

/** Runs `once` in 32 loops for `duration` seconds, with a unique number, and prints rate and cost. */
async function measure(title: string, once: (n: number) => Promise<void>, duration = seconds): Promise<void> {
  const first = count;
  const cpu = process.cpuUsage();
  const main = process.threadCpuUsage();
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: CONCURRENT }, async () => {
      while (performance.now() - startedAt < duration * 1000) await once(count++);
    }),
  );
  const elapsed = (performance.now() - startedAt) / 1000;
  const all = process.cpuUsage(cpu);
  const own = process.threadCpuUsage(main);
  const perOperation = (usage: { user: number; system: number }) =>
    Math.round((usage.user + usage.system) / (count - first));
  console.log(
    `${title}: ${Math.round((count - first) / elapsed)}/s, ` +
      `cpu ${perOperation(all)} us each, main thread ${perOperation(own)} us each`,
  );
}

let id = 0;
const store = openLocalStore({
  directory: join(root, "evidence"),
  staging: join(root, "staging"),
  ids: () => `${process.pid}-${id++}`,
});
try {
  const template = randomBytes(bytes);
  const content = async function* (n: number) {
    const chunk = Buffer.from(template);
    chunk.writeUInt32LE(n);
    yield chunk;
  };
  const upload = async (n: number) => {
    await store.publish([await store.stage(content(n), { limit: bytes })]);
  };
  // In its first seconds ext4 still spreads the new directories over its block groups, at half the speed.
  await measure("(warming up)", upload, 4);
  await measure("stage and discard", async (n) => store.discard([await store.stage(content(n), { limit: bytes })]));
  await measure(`new content of ${bytes} bytes`, upload);
  await measure("the same content again", () => upload(0));
} finally {
  await store.close();
  rmSync(root, { recursive: true });
}
