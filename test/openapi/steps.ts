/** The steps of `make openapi-check`: programs that run to their end, tools that are installed, and a summary. */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const HERE = import.meta.dirname;
export const ROOT = join(HERE, "../..");
export const WORK = join(ROOT, ".build/openapi");
export const DOCUMENT = join(WORK, "openapi.json");

export type Step = { ok: boolean; text: string };

/**
 * Runs a program to its end. `env` is added to the environment of this process. Never rejects: a missing program is a
 * failed step.
 */
export const run = (
  program: string,
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string> } = {},
): Promise<Step> =>
  new Promise((resolve) => {
    execFile(
      program,
      args,
      { cwd: options.cwd ?? WORK, env: { ...process.env, ...options.env }, maxBuffer: 1 << 28 },
      (error, stdout, stderr) =>
        resolve({
          ok: error === null,
          text: [stdout, stderr, error && !stdout && !stderr ? error.message : ""].join("").trim(),
        }),
    );
  });

export const results: { check: string; outcome: "passed" | "FAILED" | "skipped"; detail: string }[] = [];

export function note(check: string, outcome: (typeof results)[number]["outcome"], detail: string): void {
  results.push({ check, outcome, detail });
  console.log(`${outcome.padEnd(7)} ${check}${detail === "" ? "" : `: ${detail}`}`);
}

export const lastLines = (text: string, count = 25): string => text.split("\n").slice(-count).join("\n");
export const passed = (check: string, { ok, text }: Step, detail: string): boolean => {
  note(check, ok ? "passed" : "FAILED", ok ? detail : `\n${lastLines(text)}`);
  return ok;
};

/**
 * Installs a tool below `folder`, and keeps it as long as its files do not change.
 * @param needs a command that has to work
 * @returns whether the tool is available; otherwise it is noted as skipped
 */
export async function installed(
  what: string,
  { folder, files, needs }: { folder: string; files: readonly string[]; needs: string },
  install: () => Promise<Step>,
): Promise<boolean> {
  const [program = "", ...args] = needs.split(" ");
  const there = await run(program, args);
  if (!there.ok) {
    note(what, "skipped", `${needs} does not work here`);
    return false;
  }
  const wanted = files.map((file) => readFileSync(join(HERE, file), "utf8")).join("\n");
  const stamp = join(folder, ".installed");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return true;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const step = await install();
  if (step.ok) writeFileSync(stamp, wanted);
  else note(what, "skipped", `cannot be installed: ${lastLines(step.text, 3)}`);
  return step.ok;
}

/** Notes the calls of a client, which prints a line for each. */
export function called(check: string, step: Step, expected: number): void {
  const calls = step.text.split("\n").filter((line) => line.startsWith("ok ")).length;
  passed(check, { ok: step.ok && calls === expected, text: step.text }, `${calls} calls`);
}
