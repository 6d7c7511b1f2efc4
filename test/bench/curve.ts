// How throughput follows the number of processors: the same writes and reads with the server pinned to one, to two, to
// four and so on (`taskset`), as far as this machine has them; at the end the driver takes its share of them. Each
// request needs the main thread for a while, which no number of processors shortens: that limit is printed below.
import { spawnSync } from "node:child_process";
import { cpus } from "node:os";
import { join } from "node:path";
import { EXECUTABLE } from "../binary/executable.ts";
import { LINES, READS } from "./lines.ts";
import { startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { interleave } from "./slices.ts";
import type { Extent, Side } from "./slices.ts";
import { judge, skip } from "./targets.ts";
import { createRewriter, describe } from "./throughput.ts";
import { TRAILS, populate } from "./world.ts";

const UNCACHED = "assert, scope environment, trail just rewritten";
const BAR = 40;

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
    // The main thread, of which there is one, with a processor of its own.
    const limit = 1e6 / Math.min(...measured.map(({ main }) => main));
    judge(`curve: ${title}, most on any number, req/s`, limit, null);
  }
  for (const server of servers) await server.stop();
}
