/**
 * `make openapi-check`: tests the OpenAPI document with the tools that people use. Two linters, and four generators
 * whose five clients are compiled and send twelve requests or more each to a server of this checkout. The tools are
 * pinned here and installed into .build/openapi; where one is unavailable (no Go, no Python, no Java, no registry) its
 * checks are skipped, and the summary says so.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer } from "../bench/processes.ts";
import { openapiGenerator } from "./openapi-generator.ts";
import { DOCUMENT, HERE, ROOT, WORK, called, installed, lastLines, note, passed, results, run } from "./steps.ts";
import type { Step } from "./steps.ts";

const CALLS = 12;

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

async function typescript(settings: Record<string, string>): Promise<void> {
  const folder = join(npm, "client");
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(HERE, "clients"), folder, {
    recursive: true,
    filter: (path) => !/\.(py|go)$|openapi-generator/.test(path),
  });
  const generated = await run(bin("openapi-typescript"), [DOCUMENT, "--output", join(folder, "assay.d.ts")]);
  if (!passed("openapi-typescript: generate", generated, versionOf("openapi-typescript"))) return;
  if (!passed("openapi-typescript: tsc", await run(bin("tsc"), ["--project", folder]), versionOf("typescript"))) return;
  called("openapi-typescript: calls", await run(process.execPath, ["calls.ts"], { cwd: folder, env: settings }), CALLS);
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
  called(
    "openapi-python-client: calls",
    await run(tool("python"), ["calls.py"], { cwd: folder, env: settings }),
    CALLS,
  );
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
  else called("oapi-codegen: calls", await run(join(folder, "calls"), [], { env: settings }), CALLS);
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
  await openapiGenerator(settings, { typescript: tools ? npm : null });
} finally {
  await server.stop();
  rmSync(data, { recursive: true, force: true });
}
const count = (outcome: string): number => results.filter((one) => one.outcome === outcome).length;
console.log(`${count("passed")} passed, ${count("FAILED")} failed, ${count("skipped")} skipped`);
process.exitCode = count("FAILED") > 0 ? 1 : 0;
