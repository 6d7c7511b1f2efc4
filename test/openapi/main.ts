/**
 * `make openapi-check`: tests the OpenAPI document with the tools that people use. Two linters, and three generators
 * whose clients are compiled and send twelve requests each to a server of this checkout. The tools are pinned here and
 * installed into .build/openapi; where one is unavailable (no Go, no Python, no registry) its checks are skipped, and
 * the summary says so.
 */
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer } from "../bench/processes.ts";

const HERE = import.meta.dirname;
const ROOT = join(HERE, "../..");
const WORK = join(ROOT, ".build/openapi");
const DOCUMENT = join(WORK, "openapi.json");
const CALLS = 12;

type Step = { ok: boolean; text: string };

/**
 * Runs a program to its end. `env` is added to the environment of this process. Never rejects: a missing program is a
 * failed step.
 */
const run = (
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

const results: { check: string; outcome: "passed" | "FAILED" | "skipped"; detail: string }[] = [];

function note(check: string, outcome: (typeof results)[number]["outcome"], detail: string): void {
  results.push({ check, outcome, detail });
  console.log(`${outcome.padEnd(7)} ${check}${detail === "" ? "" : `: ${detail}`}`);
}

const lastLines = (text: string, count = 25): string => text.split("\n").slice(-count).join("\n");
const passed = (check: string, { ok, text }: Step, detail: string): boolean => {
  note(check, ok ? "passed" : "FAILED", ok ? detail : `\n${lastLines(text)}`);
  return ok;
};

/**
 * Installs a tool below `folder`, and keeps it as long as its files do not change.
 * @param needs a command that has to work
 * @returns whether the tool is available; otherwise it is noted as skipped
 */
async function installed(
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

const npm = join(WORK, "npm");
const bin = (name: string): string => join(npm, "node_modules/.bin", name);

/** Accepted complaints of linters, each with its reason. */
const KNOWN_WARNINGS: Readonly<Record<string, string>> = {
  // /repos/{org}/{repo}/deployments beside /repos/{org}/live-artifacts/{repo_name} and the like: paths of the contract.
  // The leftmost literal wins (http/routing/route-order.ts).
  "redocly no-ambiguous-paths": "paths of the contract",
};

async function lint(): Promise<void> {
  const spectral = await run(bin("spectral"), [
    "lint",
    "--ruleset",
    join(HERE, "spectral.yaml"),
    "--format",
    "json",
    "--quiet",
    DOCUMENT,
  ]);
  report("spectral spectral:oas", spectral, () =>
    (JSON.parse(spectral.text.match(/^\[[\s\S]*\]/m)?.[0] ?? "[]") as { code: string; severity: number }[]).map(
      ({ code, severity }) => ({
        rule: `spectral ${code}`,
        isError: severity === 0,
      }),
    ),
  );
  // Its report goes to standard output, everything else to standard error.
  const redocly = await run(bin("redocly"), ["lint", DOCUMENT, "--extends", "recommended", "--format", "json"], {
    env: { REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" },
  });
  report("redocly recommended", redocly, () =>
    (
      JSON.parse(redocly.text.slice(redocly.text.indexOf("{"), redocly.text.lastIndexOf("}") + 1)) as {
        problems: { ruleId: string; severity: string }[];
      }
    ).problems.map(({ ruleId, severity }) => ({ rule: `redocly ${ruleId}`, isError: severity === "error" })),
  );
}

function report(check: string, step: Step, read: () => { rule: string; isError: boolean }[]): void {
  let found: { rule: string; isError: boolean }[];
  try {
    found = read();
  } catch {
    note(check, "FAILED", `\n${lastLines(step.text)}`);
    return;
  }
  const errors = found.filter(({ isError }) => isError).length;
  const unknown = [...new Set(found.map(({ rule }) => rule))].filter((rule) => !(rule in KNOWN_WARNINGS));
  const counts = `${errors} errors, ${found.length - errors} warnings`;
  note(
    check,
    errors === 0 && unknown.length === 0 ? "passed" : "FAILED",
    unknown.length === 0 ? counts : `${counts}; ${unknown.join(", ")}`,
  );
}

/** Runs calls with a client, which prints a line for each. */
function called(check: string, step: Step): void {
  const calls = step.text.split("\n").filter((line) => line.startsWith("ok ")).length;
  passed(check, { ok: step.ok && calls === CALLS, text: step.text }, `${calls} calls`);
}

async function typescript(settings: Record<string, string>): Promise<void> {
  const folder = join(npm, "client");
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(HERE, "clients"), folder, { recursive: true, filter: (path) => !/\.(py|go)$/.test(path) });
  const generated = await run(bin("openapi-typescript"), [DOCUMENT, "--output", join(folder, "assay.d.ts")]);
  if (!passed("openapi-typescript: generate", generated, versionOf("openapi-typescript"))) return;
  if (!passed("openapi-typescript: tsc", await run(bin("tsc"), ["--project", folder]), versionOf("typescript"))) return;
  called("openapi-typescript: calls", await run(process.execPath, ["calls.ts"], { cwd: folder, env: settings }));
}

const versionOf = (name: string): string =>
  (JSON.parse(readFileSync(join(npm, "node_modules", name, "package.json"), "utf8")) as { version: string }).version;

async function python(settings: Record<string, string>): Promise<void> {
  const folder = join(WORK, "python");
  const tool = (name: string): string => join(folder, "venv/bin", name);
  const requirements = join(HERE, "python/requirements.txt");
  const ready = await installed(
    "openapi-python-client",
    { folder, files: ["python/requirements.txt"], needs: "python3 --version" },
    async () => {
      const made = await run("python3", ["-m", "venv", "venv"], { cwd: folder });
      return made.ok
        ? run(tool("pip"), ["install", "--quiet", "--disable-pip-version-check", "--requirement", requirements], {
            cwd: folder,
          })
        : made;
    },
  );
  if (!ready) return;
  rmSync(join(folder, "assay_client"), { recursive: true, force: true });
  const config = join(HERE, "python/config.yaml");
  const generated = await run(
    tool("openapi-python-client"),
    [
      "generate",
      "--path",
      DOCUMENT,
      "--config",
      config,
      "--meta",
      "none",
      "--output-path",
      join(folder, "assay_client"),
      "--fail-on-warning",
    ],
    // Its formatter is installed beside it.
    { env: { PATH: `${join(folder, "venv/bin")}:${process.env["PATH"] ?? ""}` } },
  );
  const { text } = await run(tool("openapi-python-client"), ["--version"]);
  if (!passed("openapi-python-client: generate", generated, text.replace(/^.*version: /, ""))) return;
  cpSync(join(HERE, "clients/calls.py"), join(folder, "calls.py"));
  const types = await run(tool("mypy"), ["--config-file", join(HERE, "python/mypy.ini"), "calls.py", "assay_client"], {
    cwd: folder,
  });
  if (!passed("openapi-python-client: mypy", types, lastLines(types.text, 1))) return;
  called("openapi-python-client: calls", await run(tool("python"), ["calls.py"], { cwd: folder, env: settings }));
}

async function go(settings: Record<string, string>): Promise<void> {
  const folder = join(WORK, "go");
  const ready = await installed(
    "oapi-codegen",
    { folder, files: ["go/go.mod", "go/go.sum"], needs: "go version" },
    async () => {
      cpSync(join(HERE, "go"), folder, { recursive: true });
      return run("go", ["build", "-o", "oapi-codegen", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen"], {
        cwd: folder,
      });
    },
  );
  if (!ready) return;
  mkdirSync(join(folder, "api"), { recursive: true });
  const output = join(folder, "api/api.go");
  const generated = await run(join(folder, "oapi-codegen"), [
    "-generate",
    "types,client",
    "-package",
    "api",
    "-o",
    output,
    DOCUMENT,
  ]);
  const { text } = await run(join(folder, "oapi-codegen"), ["-version"], { cwd: folder });
  if (!passed("oapi-codegen: generate", generated, lastLines(text, 1))) return;
  cpSync(join(HERE, "clients/calls.go"), join(folder, "calls.go"));
  if (!passed("oapi-codegen: go vet", await run("go", ["vet", "./..."], { cwd: folder }), "")) return;
  const built = await run("go", ["build", "-o", "calls", "."], { cwd: folder });
  if (!built.ok) passed("oapi-codegen: go build", built, "");
  else called("oapi-codegen: calls", await run(join(folder, "calls"), [], { env: settings }));
}

mkdirSync(WORK, { recursive: true });
const data = mkdtempSync(join(tmpdir(), "assay-openapi-"));
const program = [process.execPath, join(ROOT, "src/main.ts")];
const server = await startServer(
  [...program, "dev", "--data", join(data, "data"), "--listen", "127.0.0.1:0", "--log-level", "info"],
  {
    output: join(data, "log"),
    env: { PATH: process.env["PATH"] ?? "" },
  },
);
try {
  const settings = {
    ASSAY_URL: server.url,
    ASSAY_KEY: readFileSync(join(data, "data/dev-key"), "utf8").trim(),
    ASSAY_ORG: "acme",
  };
  writeFileSync(DOCUMENT, await (await fetch(`${server.url}/api/v2/openapi.json`)).text());
  const tools = await installed(
    "npm tools",
    { folder: npm, files: ["npm/package.json", "npm/package-lock.json"], needs: "npm --version" },
    () => {
      for (const file of ["package.json", "package-lock.json", ".npmrc"])
        cpSync(join(HERE, "npm", file), join(npm, file));
      // npm runs with the Node that it was installed with.
      return run("npm", ["ci", "--no-progress", "--loglevel=error"], {
        cwd: npm,
        env: { PATH: process.env["SYSTEM_PATH"] ?? process.env["PATH"] ?? "" },
      });
    },
  );
  if (tools) {
    await lint();
    await typescript(settings);
  }
  await python(settings);
  await go(settings);
} finally {
  await server.stop();
  rmSync(data, { recursive: true, force: true });
}
const count = (outcome: string): number => results.filter((one) => one.outcome === outcome).length;
console.log(`${count("passed")} passed, ${count("FAILED")} failed, ${count("skipped")} skipped`);
process.exitCode = count("FAILED") > 0 ? 1 : 0;
