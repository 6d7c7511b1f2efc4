import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { watchGroup } from "./group-watch.ts";
import { listProcesses, until } from "./patience.ts";

const test = suite("group-watch");

/** Runs a program of the shell under watch; `why` is null while it was not killed. */
function watched(script: string, silenceS: { idle: number; busy: number }) {
  const child = spawn("sh", ["-c", script], { stdio: ["ignore", "pipe", "ignore"] });
  const state = { why: null as string | null };
  const watch = watchGroup(child, { silenceS, onKilled: (why) => (state.why = why) });
  child.stdout.on("data", watch.noteLife);
  const ended = once(child, "exit").then(([, signal]) => {
    watch.stop();
    return signal as string | null;
  });
  return { child, state, ended };
}

test("kills processes that are silent and do nothing, with all below them, and says so", async () => {
  const { child, state, ended } = watched("sleep 600 & sleep 600", { idle: 1, busy: 600 });
  const pids = await until("both run", () => {
    const found = listProcesses(child.pid as number);
    return found.length === 3 && found;
  });
  assert.is(await ended, "SIGKILL");
  assert.match(
    state.why as string,
    new RegExp(
      "^hangs: no test ended and nothing was printed for \\d+ s, \\d+ s of them without a processor; " +
        "\\d+\\.\\d s of processor time; load average \\d+\\.\\d on \\d+ processors\\. The limit is 1 s ",
    ),
  );
  await until("all have ended", () => !pids.some(isRunning));
});

test("kills processes that are silent and compute, after a longer time", async () => {
  const { state, ended } = watched("while :; do :; done", { idle: 0.5, busy: 1 });
  assert.is(await ended, "SIGKILL");
  assert.match(state.why as string, /^loops, or takes too long: .* The limit is 1 s /);
});

test("kills no processes that print now and then", async () => {
  const { state, ended } = watched("for turn in 1 2 3 4 5 6; do echo $turn; sleep 0.5; done", { idle: 2, busy: 2 });
  assert.is(await ended, null);
  assert.is(state.why, null);
});

/** Whether a process has not ended. One that ended has no command line, even while nobody waited for it. */
function isRunning(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1") !== "";
  } catch {
    return false;
  }
}

test.run();
