/**
 * Sends every document attack to a server in a process of its own: the response names the bound and the position, and
 * the main thread is never busy for more than 50 ms of processor time without yielding.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { World } from "./attack.ts";
import { DOCUMENT_ATTACKS } from "./documents.ts";
import { startProbed } from "./probed.ts";
import { prepareWorld, problemOf, send } from "./world.ts";

const MAX_BUSY_MS = 50;
const test = suite("attacks/documents");

let server: Awaited<ReturnType<typeof startProbed>>;
let world: World;
let directory = "";
test.before(async () => {
  directory = mkdtempSync(join(tmpdir(), "assay-attacks-"));
  server = await startProbed(directory);
  world = await prepareWorld(server.url);
});
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

for (const attack of DOCUMENT_ATTACKS) {
  test(attack.name, async () => {
    const busy: number[] = [];
    // Retried when it was busy for too long: the first request of a kind compiles the code that serves it.
    do {
      const request = attack.request(world);
      await server.reset();
      assert.is(problemOf(attack, await send(server.url, request)), null);
      busy.push((await server.report()).busiest);
    } while (Math.min(...busy) > MAX_BUSY_MS && busy.length < 3);
    assert.ok(
      Math.min(...busy) <= MAX_BUSY_MS,
      `the main thread was busy for ${busy.map((ms) => ms.toFixed(0)).join(", ")} ms`,
    );
  });
}

test.run();
