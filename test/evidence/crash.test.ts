import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { disk as realDisk } from "../../src/evidence/disk.ts";
import type { Disk } from "../../src/evidence/disk.ts";
import { chunks, contentOf, digestOf, gate, givenRoot, givenVault, removeRoots, watchedDisk } from "./given.ts";

const test = suite("vault: crash");
test.after(removeRoots);

const SMALL = contentOf(500, 1);
const LARGE = contentOf(300_000, 2);
const never = new Promise<never>(() => {});

/** The process stops before its call number `step`: nothing after it happens. Half of a write that is cut off does. */
function stoppingDisk(root: string, step: number): { disk: Disk; stopped: Promise<void>; calls: string[] } {
  const { passed: reached, open: stop } = gate();
  const running = new Set<Promise<unknown>>();
  const calls: string[] = [];
  const cut = ((fd: number, bytes: Buffer, offset: number, length: number) =>
    realDisk.write(fd, bytes, offset, calls.length > step ? Math.ceil(length / 2) : length, null)) as Disk["write"];
  const disk = watchedDisk(
    root,
    async (call) => {
      calls.push(call);
      if (calls.length > step + 1 || (calls.length === step + 1 && !call.startsWith("write"))) {
        stop();
        await never;
      }
    },
    tracked({ ...realDisk, write: cut }, running),
  );
  return { disk, stopped: reached.then(() => settled(running)), calls };
}

/** The calls of a disk, each in `running` for as long as it lasts. */
function tracked(disk: Disk, running: Set<Promise<unknown>>): Disk {
  const track =
    (call: (...args: unknown[]) => Promise<unknown>) =>
    (...args: unknown[]) => {
      const result = call(...args);
      running.add(result);
      const done = (): void => void running.delete(result);
      result.then(done, done);
      return result;
    };
  return Object.fromEntries(Object.entries(disk).map(([name, call]) => [name, track(call as never)])) as Disk;
}

/** Calls that neighbours began before the stop end at some time after it: the process is only dead once they have. */
async function settled(running: ReadonlySet<Promise<unknown>>): Promise<void> {
  do {
    await Promise.allSettled(running);
    await new Promise(setImmediate);
  } while (running.size > 0);
}

async function storeBoth({ vault }: ReturnType<typeof givenVault>): Promise<void> {
  const small = await vault.stage(chunks(SMALL), { limit: SMALL.length });
  const large = await vault.stage(chunks(LARGE), { limit: LARGE.length });
  await vault.publish([small, large]);
}

/** What must hold after a stop at any moment. */
async function assertSound(root: string): Promise<void> {
  const { vault, files, leftovers, store } = givenVault({ root });
  const left = leftovers().length;
  for (const digest of files()) assert.is(await vault.verify(digest), "ok");
  assert.is(await vault.sweepStaging(), left);
  assert.equal(leftovers(), []);
  await store(SMALL);
  await store(LARGE);
  assert.equal(files().sort(), [digestOf(SMALL), digestOf(LARGE)].sort());
  assert.equal(leftovers(), []);
  await vault.close();
}

test("a stop before any call leaves whole files under their names, or leftovers", async () => {
  const complete = givenRoot();
  const whole = stoppingDisk(complete, Number.POSITIVE_INFINITY);
  const given = givenVault({ root: complete, disk: whole.disk });
  await storeBoth(given);
  await given.vault.close();
  const steps = whole.calls.length;
  assert.ok(steps > 20);

  for (let step = 0; step < steps; step += 1) {
    const root = givenRoot();
    const { disk, stopped } = stoppingDisk(root, step);
    const stopping = givenVault({ root, disk });
    void storeBoth(stopping).then(() => stopping.vault.close());
    await stopped;
    await assertSound(root);
  }
});

test("a process killed under load has everything it said it had", async () => {
  const root = givenRoot();
  const child = spawn(process.execPath, [fileURLToPath(new URL("crash-child.ts", import.meta.url)), root], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = new Promise((resolve) => child.on("exit", (_code, signal) => resolve(signal)));
  const published: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.length === 64) published.push(line);
    if (published.length === 100) child.kill("SIGKILL");
  }
  assert.is(await exited, "SIGKILL");

  const { vault, files, leftovers } = givenVault({ root });
  for (const digest of files()) assert.is(await vault.verify(digest), "ok");
  const stored = new Set(files());
  assert.equal(
    published.filter((digest) => !stored.has(digest)),
    [],
  );
  await vault.sweepStaging();
  assert.equal(leftovers(), []);
  await vault.close();
});

test.run();
