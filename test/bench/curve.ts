// How throughput follows the number of processors: the same writes and reads with the server pinned to one, to two, to
// four and so on (`taskset`), as far as this machine has them; at the end the driver takes its share of them. Up to
// eight processors are simulated from what was measured (processors.ts): each request needs the main thread for a
// while, which no number of processors shortens.
import { spawnSync } from "node:child_process";
import { cpus } from "node:os";
import { join } from "node:path";
import { EXECUTABLE } from "../binary/executable.ts";
import { LINES, READS } from "./lines.ts";
import { get } from "./load.ts";
import { measureHandOver, printSimulation } from "./processors.ts";
import { startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { interleave } from "./slices.ts";
import type { Extent, Measured, Side } from "./slices.ts";
import { judge, skip } from "./targets.ts";
import { createRewriter, describe } from "./throughput.ts";
import { TRAILS, populate } from "./world.ts";

const UNCACHED = "assert, scope environment, trail just rewritten";
const BAR = 40;
/** The least that any request costs: HTTP, and a response of a few bytes. */
const NOTHING = { expect: 200, next: () => get("/healthz", "none") };

/** One server for each number of processors, over worlds of their own. */
async function startPinned(root: string, applyFile: string, processors: number): Promise<Server> {
  const last = processors - 1;
  const data = join(root, `processors-${processors}`);
  const serve = [EXECUTABLE, "serve", "--data", data, "--listen", "127.0.0.1:0", "--bootstrap", applyFile];
  const server = await startServer(["taskset", "--cpu-list", last === 0 ? "0" : `0-${last}`, ...serve], {
    output: `${data}.log`,
  });
  await populate(server.url);
  return server;
}

/** The requests whose curve is drawn; those of a side have numbers of their own. */
const kinds = (): Record<string, (server: Server) => Side> => ({
  ...Object.fromEntries(
    LINES.filter(({ title }) => !title.includes("nothing written")).map(({ title, assay }) => [
      title,
      (server: Server): Side => ({ server, work: assay }),
    ]),
  ),
  [UNCACHED]: (server) => ({
    server,
    work: READS["assert, scope environment"] as Side["work"],
    before: createRewriter(server.url),
  }),
});

/** Measures below the directory `root`, on servers that `applyFile` sets up. */
export async function measureCurve(root: string, applyFile: string, extent: Extent): Promise<void> {
  console.log("");
  if (spawnSync("taskset", ["--version"], { stdio: "ignore" }).status !== 0)
    return skip("curve over processors", "taskset is not installed");
  const servers: Server[] = [];
  // One, two, four, ...: each step doubles.
  for (let processors = 1; processors <= cpus().length; processors *= 2)
    servers.push(await startPinned(root, applyFile, processors));
  const [idle] = await interleave([{ server: servers.at(-1) as Server, work: NOTHING }], extent);
  const constants = { http: (idle as Measured).main, handOver: await measureHandOver() };
  judge("curve: a request that does nothing, processor time of the main thread, us", constants.http, null);
  judge("curve: a request to another thread and back, processor time of either, us", constants.handOver, null);
  console.log("Requests per second by the number of processors of the server");
  for (const [title, sideOf] of Object.entries(kinds())) {
    const length = title === UNCACHED ? { requests: TRAILS } : extent;
    const measured = await interleave(servers.map(sideOf), { rounds: extent.rounds, ...length });
    const most = Math.max(...measured.map(({ perSecond }) => perSecond));
    console.log("");
    for (const [n, one] of measured.entries()) {
      judge(`curve: ${title}, on ${2 ** n}, req/s`, one.perSecond, null);
      console.log(`      ${"#".repeat(Math.max(1, Math.round((one.perSecond / most) * BAR)))}\n      ${describe(one)}`);
    }
    printSimulation(
      title,
      {
        demands: measured.map(({ main, all }) => ({ main, others: all - main })),
        isRead: !title.startsWith("attestation"),
        measured: measured.map(({ perSecond }) => perSecond),
      },
      constants,
    );
  }
  for (const server of servers) await server.stop();
}
