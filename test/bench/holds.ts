// How long any request of the bench holds the event loop: each kind one at a time, on a server of this checkout with
// the probe of test/attacks in it, which counts processor time between two turns of the loop.
import { startProbedOver } from "../attacks/probed.ts";
import { createAsk, median } from "./ask.ts";
import { READS, TRAIL_READ, WRITE, WRITE_WITH_FILE } from "./lines.ts";
import { drive } from "./load.ts";
import { clusterReport, createCluster, reportPath, rewriteSmallFlows, snapshotPath, trailsPath } from "./single.ts";
import type { Work } from "./slices.ts";
import { atMost, judge } from "./targets.ts";

/** Requests of each kind; the median counts, so that code which is compiled in the first ones does not. */
const TIMES = 9;

type Kind = { before?: (n: number) => Promise<unknown>; request: (n: number) => Promise<unknown> };

/** Measures over the data directory of a server that has stopped. */
export async function measureHolds(data: string): Promise<void> {
  const server = await startProbedOver(data);
  const ask = createAsk(server.url);
  const once = (work: Work): Kind => ({
    request: (n) =>
      drive({ url: server.url, connections: 1, expect: work.expect, next: (m) => (m === 0 ? work.next(n) : null) }),
  });
  const [plain, other] = [clusterReport(false), clusterReport(true)];
  const report = (name: string, body: Buffer): Promise<unknown> => ask("PUT", reportPath(name), body, [200, 201]);
  const first = "held-0";
  const kinds: Readonly<Record<string, Kind>> = {
    attestation: once(WRITE),
    "attestation with 1 KB of evidence": once(WRITE_WITH_FILE),
    ...Object.fromEntries(Object.entries({ ...READS, trail: TRAIL_READ }).map(([name, work]) => [name, once(work)])),
    "list of trails": {
      before: () => rewriteSmallFlows(server.url),
      request: (n) => ask("GET", trailsPath(1 + n)),
    },
    "first report": {
      before: (n) => createCluster(ask, `held-${n}`),
      request: (n) => report(`held-${n}`, plain),
    },
    "identical report": { request: () => report(first, plain) },
    "changed report": { request: (n) => report(first, n % 2 === 0 ? other : plain) },
    "latest snapshot": {
      before: (n) => report(first, n % 2 === 0 ? other : plain),
      request: () => ask("GET", snapshotPath(first)),
    },
  };
  console.log("\nHow long a request holds the event loop, processor time");
  const longest: { name: string; hold: number }[] = [];
  for (const [name, { before, request }] of Object.entries(kinds)) {
    const holds: number[] = [];
    for (let n = 0; n < TIMES; n += 1) {
      await before?.(n);
      await server.reset();
      await request(n);
      holds.push((await server.report()).busiest);
    }
    const hold = median(holds);
    longest.push({ name, hold });
    judge(`hold: ${name}`, hold, null, `${holds.map((each) => each.toFixed(1)).join(", ")} ms`);
  }
  await server.stop();
  const worst = longest.reduce((a, b) => (b.hold > a.hold ? b : a));
  judge("longest hold of the event loop", worst.hold, atMost(20, 10, " ms"), `by: ${worst.name}`);
}
