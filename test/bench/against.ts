// Compares the executable with another one, as that of the commit before: the requests of lines.ts to two servers over
// worlds of their own, in alternating slices.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { EXECUTABLE } from "../binary/executable.ts";
import { LINES } from "./lines.ts";
import { startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { interleave } from "./slices.ts";
import type { Extent, Measured, Side } from "./slices.ts";
import { judge } from "./targets.ts";
import { UNCACHED, createRewriter, describe } from "./throughput.ts";
import { TRAILS, populate } from "./world.ts";

type Comparison = {
  /** Below it the servers have their data. */
  root: string;
  applyFile: string;
  /** The path of the other executable. */
  other: string;
  extent: Extent;
  /** Selects kinds of requests by their titles. */
  only: RegExp;
};

/**
 * Measures what `only` selects.
 * @throws Error when there is no such executable, or `only` selects nothing
 */
export async function measureAgainst({ root, applyFile, other, extent, only }: Comparison): Promise<void> {
  const lines = LINES.filter(({ title }) => only.test(title));
  const uncached = Object.entries(UNCACHED).filter(([title]) => only.test(title));
  if (!existsSync(other)) throw new Error(`--against ${other}: there is no such file; give the path of an executable`);
  if (lines.length + uncached.length === 0) throw new Error("--only selects no kind of request; see lines.ts");
  const start = async (executable: string, name: string): Promise<Server> => {
    const data = join(root, name);
    const server = await startServer(
      [executable, "serve", "--data", data, "--listen", "127.0.0.1:0", "--bootstrap", applyFile],
      { output: `${data}.log` },
    );
    await populate(server.url);
    return server;
  };
  const servers = { this: await start(EXECUTABLE, "this"), other: await start(other, "other") };
  for (const { title, assay: work } of lines)
    print(
      title,
      await interleave(
        Object.values(servers).map((server): Side => ({ server, work })),
        extent,
      ),
    );
  for (const [title, work] of uncached)
    print(
      title,
      await interleave(
        Object.values(servers).map((server): Side => ({ server, work, before: createRewriter(server.url) })),
        { rounds: extent.rounds, requests: TRAILS },
      ),
    );
  for (const server of Object.values(servers)) await server.stop();
}

function print(title: string, measured: readonly Measured[]): void {
  const [own, other] = measured as [Measured, Measured];
  console.log(`\n${title}`);
  judge(`${title}, processor time to the other`, own.all / other.all, null);
  console.log(`    this   ${describe(own)}\n    other  ${describe(other)}`);
}
