// What a slow disk costs those who only read: reads beside four writers while each sync of the log takes longer, and
// how long a health probe waits while one sync takes two seconds. A library makes syncs slow (slow-sync.c), which needs
// a C compiler. With a second executable, slices of both alternate.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { drive, get } from "./load.ts";
import { startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { describe } from "./throughput.ts";
import { interleave } from "./slices.ts";
import type { Extent, Work } from "./slices.ts";
import { WRITE } from "./lines.ts";
import { atMost, judge, skip } from "./targets.ts";
import { TRAILS, artifactPath, populate, read } from "./world.ts";

const DELAYS_MS = [0, 1, 4];
const WRITERS = 4;
const HANG_MS = 2_000;

const reading: Work = { expect: 200, next: (n) => read(artifactPath(n % TRAILS)) };

/** @param executables the measured one first */
export async function measureSlowDisk(
  root: string,
  { executables, applyFile, extent }: { executables: readonly string[]; applyFile: string; extent: Extent },
): Promise<void> {
  const shim = join(root, "slow-sync.so");
  const source = join(import.meta.dirname, "..", "integration", "slow-sync.c");
  if (spawnSync("cc", ["-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"]).status !== 0) {
    skip("slow disk", "making syncs slow needs a C compiler");
    return;
  }
  const control = join(root, "slow-sync");
  const setDelay = (milliseconds: number): void => writeFileSync(control, String(milliseconds));
  setDelay(0);
  const servers: Server[] = [];
  for (const [index, executable] of executables.entries()) {
    const command = [executable, "serve", "--data", join(root, `slow-${index}`), "--bootstrap", applyFile];
    const server = await startServer([...command, "--listen", "127.0.0.1:0", "--log-level", "warn"], {
      output: join(root, `slow-${index}.log`),
      env: { LD_PRELOAD: shim, SLOW_SYNC: control },
    });
    await populate(server.url);
    servers.push(server);
  }
  for (const delay of DELAYS_MS) {
    setDelay(delay);
    const beside = { ...WRITE, connections: WRITERS };
    const kinds: readonly (readonly [string, Work])[] = [
      [`artifact beside ${WRITERS} writers`, { ...reading, beside }],
      ["attestation", WRITE],
    ];
    for (const [title, work] of kinds) {
      const measured = await interleave(
        servers.map((server) => ({ server, work })),
        extent,
      );
      for (const [index, one] of measured.entries())
        judge(
          `slow disk: ${title}, +${delay} ms a sync, ${nameOf(index)}: a second`,
          one.perSecond,
          null,
          describe(one),
        );
    }
  }
  for (const [index, { url }] of servers.entries()) {
    // SQLite itself waits for the disk when it begins the log anew, which the first write after a pause may do.
    await writeOnce(url, 0);
    setDelay(HANG_MS);
    const write = writeOnce(url, 1);
    const probes = await drive(
      { url, connections: 1, expect: 200, next: () => get("/healthz", "none") },
      HANG_MS / 2_000,
    );
    setDelay(0);
    await write;
    judge(
      `slow disk: /healthz while a sync takes ${HANG_MS} ms, ${nameOf(index)}: p99`,
      probes.p99,
      atMost(50, 20, " ms"),
    );
  }
  await Promise.all(servers.map((server) => server.stop()));
}

const writeOnce = (url: string, number: number) =>
  drive({ url, connections: 1, expect: 201, next: (n) => (n === 0 ? WRITE.next(number) : null) });

const nameOf = (index: number): string => (index === 0 ? "this executable" : "the other");
