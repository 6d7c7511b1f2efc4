/**
 * Sends every document attack to a server in a process of its own: the response names the bound and the position, and
 * the main thread is never busy for more than 50 ms of processor time without yielding.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { attackedServer } from "./attacked.ts";
import { DOCUMENT_ATTACKS } from "./documents.ts";
import { problemOf, send } from "./world.ts";

const MAX_BUSY_MS = 50;
const test = suite("attacks/documents");
const attacked = attackedServer(test);

for (const attack of DOCUMENT_ATTACKS) {
  test(attack.name, async () => {
    const busy: number[] = [];
    // Retried when it was busy for too long: the first request of a kind compiles the code that serves it.
    do {
      const request = attack.request(attacked.world);
      await attacked.server.reset();
      assert.is(problemOf(attack, await send(attacked.server.url, request)), null);
      busy.push((await attacked.server.report()).busiest);
    } while (Math.min(...busy) > MAX_BUSY_MS && busy.length < 3);
    assert.ok(
      Math.min(...busy) <= MAX_BUSY_MS,
      `the main thread was busy for ${busy.map((ms) => ms.toFixed(0)).join(", ")} ms`,
    );
  });
}

test.run();
