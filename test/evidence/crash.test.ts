import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { disk as realDisk } from "../../src/evidence/disk.ts";
import type { Disk } from "../../src/evidence/disk.ts";
import {
  chunks,
  contentOf,
  digestOf,
  gate,
  givenRoot,
  givenLocalStore,
  removeRoots,
  interceptedDisk,
} from "./given.ts";

const test = suite("evidence/crash");
test.after(removeRoots);

const SMALL = contentOf(500, 1);
const LARGE = contentOf(300_000, 2);
const never = new Promise<never>(() => {});

/** A disk that stops before call number `step`, as a dying process does. A write that is cut off is half done. */
function stoppingDisk(root: string, step: number): { disk: Disk; stopped: Promise<void>; calls: string[] } {
  const { passed: reached, open: stop } = gate();
  const running = new Set<Promise<unknown>>();
  const calls: string[] = [];
  const cut = ((fd: number, bytes: Buffer, offset: number, length: number) =>
    realDisk.write(fd, bytes, offset, calls.length > step ? Math.ceil(length / 2) : length, null)) as Disk["write"];
  const disk = interceptedDisk(
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

/** A disk that keeps each call in `running` while it lasts. */
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

/** Concurrent calls that began before the stop may end after it: the process is dead only once they have. */
async function settled(running: ReadonlySet<Promise<unknown>>): Promise<void> {
  do {
    await Promise.allSettled(running);
    await new Promise(setImmediate);
  } while (running.size > 0);
}

async function storeBoth({ store }: ReturnType<typeof givenLocalStore>): Promise<void> {
  const small = await store.stage(chunks(SMALL), { limit: SMALL.length });
  const large = await store.stage(chunks(LARGE), { limit: LARGE.length });
  await store.publish([small, large]);
}

/** Must hold after a stop at any moment. */
async function assertSound(root: string): Promise<void> {
  const { store, files, leftovers, put } = givenLocalStore({ root });
  const left = leftovers().length;
  for (const digest of files()) assert.is(await store.verify(digest), "ok");
  assert.is(await store.sweepStaging(), left);
  assert.equal(leftovers(), []);
  await put(SMALL);
  await put(LARGE);
  assert.equal(files().sort(), [digestOf(SMALL), digestOf(LARGE)].sort());
  assert.equal(leftovers(), []);
  await store.close();
}

test("a stop before any call leaves only complete files under their names, and leftovers", async () => {
  const complete = givenRoot();
  const whole = stoppingDisk(complete, Number.POSITIVE_INFINITY);
  const given = givenLocalStore({ root: complete, disk: whole.disk });
  await storeBoth(given);
  await given.store.close();
  const steps = whole.calls.length;
  assert.ok(steps > 20);

  for (let step = 0; step < steps; step += 1) {
    const root = givenRoot();
    const { disk, stopped } = stoppingDisk(root, step);
    const stopping = givenLocalStore({ root, disk });
    void storeBoth(stopping).then(() => stopping.store.close());
    await stopped;
    await assertSound(root);
  }
});

test("a process killed under load has stored everything that it acknowledged", async () => {
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

  const { store, files, leftovers } = givenLocalStore({ root });
  for (const digest of files()) assert.is(await store.verify(digest), "ok");
  const stored = new Set(files());
  assert.equal(
    published.filter((digest) => !stored.has(digest)),
    [],
  );
  await store.sweepStaging();
  assert.equal(leftovers(), []);
  await store.close();
});

test.run();
