// How long a newcomer waits: from a release archive to the first verdicts, by the letter of the README in it, and
// without a network. Prints the seconds of each step. Exit code 1 if a step fails, or if all of them together take more
// than 60 s of processor time. The seconds of the clock are printed and not judged: they depend on what else the
// machine does.
//
//     node bin/first-verdict.ts [ARCHIVE]     by default the archive of this version in dist/

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { readBuildInfo } from "../src/assets.ts";
import { start } from "../test/binary/executable.ts";
import { createStopwatch } from "../test/patience.ts";

const MAX_PROCESSOR_S = 60;

/** Runs its arguments in a network namespace with nothing but loopback. */
const ISOLATE = ["-rn", "sh", "-c", 'ip link set lo up && exec "$0" "$@"'];
const ISOLATED = "isolated";

const root = join(import.meta.dirname, "..");
const [given = "", how = ""] = process.argv.slice(2);
const archive = resolve(given === "" ? join(root, "dist", `assay-${readBuildInfo().version}-linux-x64.tar.gz`) : given);
const isIsolated = how === ISOLATED;

if (!isIsolated && spawnSync("unshare", [...ISOLATE, "true"]).status === 0) {
  const { status } = spawnSync("unshare", [...ISOLATE, process.execPath, import.meta.filename, archive, ISOLATED], {
    stdio: "inherit",
  });
  process.exit(status ?? 1);
}
process.exitCode = (await measure()) ? 0 : 1;

/** Follows the README. @returns whether it took no longer than it may @throws Error at the first step that fails */
async function measure(): Promise<boolean> {
  const hosts = Object.values(networkInterfaces()).flatMap((addresses) =>
    (addresses ?? []).filter((one) => !one.internal),
  );
  console.log(
    hosts.length === 0
      ? "without a network: only loopback"
      : "WITH A NETWORK, because this process may not create a namespace without one (unshare -rn, ip): this run " +
          "does not show that nothing is downloaded",
  );
  const directory = mkdtempSync(join(tmpdir(), "assay-first-verdict-"));
  try {
    return await follow(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function follow(directory: string): Promise<boolean> {
  // Nothing of this machine but its commands.
  const env = { PATH: "/usr/bin:/bin", HOME: directory };
  const watch = createStopwatch();
  const total = { clockS: 0, processorS: 0 };
  const timed = async <T>(what: string, work: () => Promise<T> | T): Promise<T> => {
    watch.restart();
    const result = await work();
    const { clockS, processorS } = watch.read();
    total.clockS += clockS;
    total.processorS += processorS;
    printLine(what, { clockS, processorS });
    return result;
  };
  const shell = (cwd: string, script: string): string => {
    const { status, stdout, stderr } = spawnSync("/bin/sh", ["-eu"], { cwd, env, input: script, encoding: "utf8" });
    if (status !== 0) throw new Error(`exit code ${status} of\n${script}\n${stdout}${stderr}`);
    return stdout;
  };

  await timed("unpack the archive", () => shell(directory, `tar -xzf '${archive}'`));
  const [name = ""] = readdirSync(directory);
  const unpacked = join(directory, name);
  const { commands, policy } = readSteps(readFileSync(join(unpacked, "README.md"), "utf8"));
  const [verify = "", serve = ""] = commands;
  await timed(verify, () => shell(unpacked, verify));

  // The words after the program. Where other servers may run, not the usual port.
  const words = [...serve.split(" ").slice(1), ...(isIsolated ? [] : ["--listen", "127.0.0.1:0"])];
  const server = await timed(serve, () => start(words, { executable: join(unpacked, "assay"), cwd: unpacked, env }));
  try {
    const explain = find(await server.wrote(/^7\. .*\n.*\n/m), / is NON-COMPLIANT in .*\n.*\n {3}(.* explain .*)\n/);
    expectDenial(await timed("the verdict that it says to look at", () => shell(unpacked, explain)));
    const script = find(server.output(), /^(export KOSLI_HOST=[^]*?^\))$/m);
    const lines = await timed("the script that it prints", () => shell(unpacked, script));
    find(lines, /^(app is COMPLIANT in .* and COMPLIANT in .*)$/m);
    // In the shell into which the script was pasted.
    const exports = find(script, /^((?:export .*\n)+)/);
    expectDenial(await timed("the first policy of the README", () => shell(unpacked, `${exports}\n${policy}`)));
  } finally {
    await server.stop();
  }
  printLine("together", total);
  const isInTime = total.processorS <= MAX_PROCESSOR_S;
  console.log(
    `${isInTime ? "ok" : "FAIL"}: ${total.processorS.toFixed(1)} s of processor time, at most ${MAX_PROCESSOR_S} s; ` +
      "the clock depends on what else the machine does, and is not judged",
  );
  return isInTime;
}

/** The commands of a README, in order, and the block with the first policy. */
function readSteps(readme: string): { commands: string[]; policy: string } {
  const prose = readme.replace(/^```[^]*?^```$/gm, "");
  return {
    commands: [...prose.matchAll(/^ {4}(\S.*)$/gm)].map((match) => match[1] as string),
    policy: find(readme, /^```sh policy\n([^]*?)^```$/m),
  };
}

/** The first group of a pattern. @throws Error */
function find(text: string, pattern: RegExp): string {
  const found = pattern.exec(text)?.[1];
  if (found === undefined) throw new Error(`there is no ${pattern} in\n${text}`);
  return found;
}

/** @throws Error unless the text explains a verdict NON-COMPLIANT with a rule and a reason */
function expectDenial(explanation: string): void {
  const verdict = find(explanation, /^(.* is NON-COMPLIANT: .*)$/m);
  const rule = find(explanation, /^ {4}FAILED (.*)\n {11}\S/m);
  console.log(`      ${verdict}\n      FAILED ${rule}`);
}

function printLine(what: string, { clockS, processorS }: { clockS: number; processorS: number }): void {
  console.log(`${clockS.toFixed(1).padStart(6)} s, ${processorS.toFixed(1).padStart(5)} s of processor time  ${what}`);
}
