/** Programs of this machine that tests run where they are installed. */
import { execFile, execFileSync } from "node:child_process";

/** Whether a program is installed and takes these arguments. */
export function worksHere(program: string, ...args: string[]): boolean {
  try {
    execFileSync(program, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Runs a program to its end. @returns its exit code and all that it printed */
export const runProgram = (
  program: string,
  args: readonly string[],
  options: { cwd: string; env?: Record<string, string> },
): Promise<{ code: number; text: string }> =>
  new Promise((resolve) => {
    const env = { ...process.env, ...options.env };
    const child = execFile(program, args, { cwd: options.cwd, env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, text: stdout + stderr }),
    );
  });
