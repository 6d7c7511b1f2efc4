/** A server of this checkout in a process of its own, with the probe loaded. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { ProbeReport } from "./probe.ts";
import { APPLY_FILE } from "./world.ts";

const MAIN = join(import.meta.dirname, "..", "..", "src", "main.ts");
const PROBE = pathToFileURL(join(import.meta.dirname, "probe.ts")).href;

/** Starts a server over `directory`, which is empty. It ends with this process. */
export function startProbed(directory: string, options: readonly string[] = []) {
  const applyFile = join(directory, "apply.yaml");
  writeFileSync(applyFile, APPLY_FILE);
  return startProbedOver(join(directory, "data"), ["--bootstrap", applyFile, ...options]);
}

/** Starts a server over a data directory. It ends with this process. */
export async function startProbedOver(data: string, options: readonly string[] = []) {
  const args = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error", ...options];
  const child = fork(MAIN, args, { execArgv: ["--import", PROBE], stdio: ["ignore", "pipe", "pipe", "ipc"], env: {} });
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  let output = "";
  const url = await new Promise<string>((resolve, reject) => {
    const read = (bytes: Buffer): void => {
      output += bytes.toString();
      const found = /listening on (http:\/\/[^\s"]+)/.exec(output)?.[1];
      if (found) resolve(found);
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.once("exit", (code, signal) => reject(new Error(`the server ended with ${signal ?? code}:\n${output}`)));
  });
  const ask = async (question: "reset" | "report"): Promise<unknown> => {
    const answer = once(child, "message");
    child.send(question);
    return (await answer)[0];
  };
  return {
    url,
    pid: child.pid as number,
    output: (): string => output,
    reset: async (): Promise<void> => void (await ask("reset")),
    report: (): Promise<ProbeReport> => ask("report") as Promise<ProbeReport>,
    async stop(): Promise<void> {
      process.off("exit", kill);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    },
  };
}
