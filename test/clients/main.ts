/**
 * `make clients`: runs what tests Assay with its clients, and writes the table of the README from what ran: each client
 * with its version, what was run, and the day. What is skipped, because its program is missing, gets no row; what fails
 * ends the run without a table.
 */
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withPart } from "../rules/documentation.ts";
import { clientRows, clientTable } from "./table.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Runs a program, shows its output, and returns it. Throws an Error if it fails. */
function outputOf(program: string, args: readonly string[]): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn(program, args, { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    text += piece;
    process.stdout.write(piece);
  });
  child.on("error", reject);
  child.on("close", (code) =>
    code === 0 ? resolve(text) : reject(new Error(`${program} ${args.join(" ")} ended with exit code ${code}`)),
  );
  return promise;
}

/** The first version number that a program prints; null where the program is missing. */
const versionOf = (program: string, ...args: string[]): Promise<string | null> =>
  outputOf(program, args).then(
    (text) => /\d+\.\d+\.\d+/.exec(text)?.[0] ?? null,
    () => null,
  );

const suites = (pattern: string): Promise<string> => outputOf(process.execPath, ["test/run.ts", pattern]);

const rows = clientRows({
  dialects: readFileSync(join(ROOT, "test/binary/client.ts"), "utf8"),
  requests: await suites("^binary/runtime-clients"),
  examples: await suites("^integration/readme"),
  cli: await versionOf("kosli", "version"),
  generators: await outputOf(process.execPath, ["test/openapi/main.ts"]),
});
const readme = join(ROOT, "README.md");
const day = new Date().toISOString().slice(0, 10);
writeFileSync(readme, withPart(readFileSync(readme, "utf8"), "clients", clientTable(rows, day)));
console.log(`${rows.length} rows in README.md`);
