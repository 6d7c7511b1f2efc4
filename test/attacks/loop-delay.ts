// Part of `make crash`: sends the whole attack list to a server and measures how long its main thread was busy without
// yielding. No attack may hold it for more than 50 ms of processor time. Other load on the machine only ever makes a
// measurement longer, so the shortest of several counts.
//
//   node test/attacks/loop-delay.ts [pattern]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Attack, World } from "./attack.ts";
import { ATTACKS } from "./index.ts";
import { startProbed } from "./probed.ts";
import { prepareWorld, problemOf, send } from "./world.ts";

/** Processor time. */
export const MAX_BUSY_MS = 50;
const MAX_TRIES = 5;

/**
 * Sends an attack until it held the main thread for less than the limit, at most MAX_TRIES times. @returns the
 * problems, and the best measurement
 */
export async function measureAttack(
  server: Awaited<ReturnType<typeof startProbed>>,
  world: World,
  attack: Attack,
): Promise<{ problems: string[]; busiest: number }> {
  const problems = new Set<string>();
  let best = Infinity;
  for (let turn = 0; turn < MAX_TRIES && best > MAX_BUSY_MS; turn += 1) {
    const requests = Array.from({ length: attack.parallel ?? 1 }, () => attack.request(world));
    await server.reset();
    const answers = await Promise.all(requests.map((request) => send(server.url, request)));
    const { busiest } = await server.report();
    best = Math.min(best, busiest);
    for (const answer of answers) {
      const problem = problemOf(attack, answer);
      if (problem !== null) problems.add(problem);
    }
  }
  if (best > MAX_BUSY_MS) problems.add(`${attack.name}: the main thread was busy for ${best.toFixed(0)} ms at a time`);
  return { problems: [...problems], busiest: best };
}

if (import.meta.main) {
  const directory = mkdtempSync(join(tmpdir(), "assay-attacks-"));
  const server = await startProbed(directory);
  const world = await prepareWorld(server.url);
  const problems: string[] = [];
  const attacks = ATTACKS.filter(({ name }) => new RegExp(process.argv[2] ?? "").test(name));
  let longest = 0;
  for (const attack of attacks) {
    const found = await measureAttack(server, world, attack);
    problems.push(...found.problems);
    longest = Math.max(longest, found.busiest);
    console.log(`${attack.name}: ${found.busiest.toFixed(0)} ms`);
  }
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
  for (const problem of problems) console.log(`PROBLEM ${problem}`);
  console.log(
    `${attacks.length} attacks: ${problems.length} problems, ` +
      `the main thread was busy for at most ${longest.toFixed(0)} ms at a time`,
  );
  process.exitCode = problems.length > 0 ? 1 : 0;
}
