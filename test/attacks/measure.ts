// Sends every attack to a server of this checkout and prints its cost: node test/attacks/measure.ts [pattern] [times]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ATTACKS } from "./index.ts";
import { startProbed } from "./probed.ts";
import { prepareWorld, problemOf, send } from "./world.ts";

const [pattern = "", times = "2"] = process.argv.slice(2);
const directory = mkdtempSync(join(tmpdir(), "assay-attacks-"));
const server = await startProbed(directory);
const world = await prepareWorld(server.url);
for (const attack of ATTACKS.filter(({ name }) => new RegExp(pattern).test(name))) {
  const figures: string[] = [];
  for (let turn = 0; turn < Number(times); turn += 1) {
    const requests = Array.from({ length: attack.parallel ?? 1 }, () => attack.request(world));
    await server.reset();
    const startedAt = performance.now();
    const answers = await Promise.all(requests.map((request) => send(server.url, request)));
    const took = performance.now() - startedAt;
    const { busiest, longest, peak } = await server.report();
    const problems = answers.map((answer) => problemOf(attack, answer)).filter((problem) => problem !== null);
    const list = problems.map((problem) => `\n    ${problem}`).join("");
    figures.push(
      `${busiest.toFixed(0)}/${longest.toFixed(0)} ms, ${(peak / 1e6).toFixed(0)} MB, ${took.toFixed(0)} ms${list}`,
    );
  }
  console.log(`${attack.name}: ${figures.join(" | ")}`);
}
await server.stop();
rmSync(directory, { recursive: true, force: true });
