/** The server that the suites of attacks share: one in a process of its own, with the data that attacks need. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Test } from "uvu";
import type { World } from "./attack.ts";
import { startProbed } from "./probed.ts";
import { prepareWorld } from "./world.ts";

type Attacked = { server: Awaited<ReturnType<typeof startProbed>>; world: World };

/** Starts it before the tests of a suite and removes it after them: its members are there in hooks and tests only. */
export function attackedServer(test: Pick<Test, "before" | "after">): Attacked & { directory: string } {
  const directory = mkdtempSync(join(tmpdir(), "assay-attacks-"));
  let started: Attacked | null = null;
  const present = (): Attacked => {
    if (started === null) throw new Error("the server starts before the tests");
    return started;
  };
  test.before(async () => {
    const server = await startProbed(directory);
    started = { server, world: await prepareWorld(server.url) };
  });
  test.after(async () => {
    await present().server.stop();
    rmSync(directory, { recursive: true, force: true });
  });
  return {
    directory,
    get server() {
      return present().server;
    },
    get world() {
      return present().world;
    },
  };
}
