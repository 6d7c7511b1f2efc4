/**
 * The examples of the README with the clients that they are for, against the executable. The clients are not in the
 * npm registry: a test whose client is missing says that it is skipped.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClient, expectStatus } from "../binary/client.ts";
import { EXECUTABLE, inDirectory, run, start } from "../binary/executable.ts";
import { readmeBlock } from "../rules/documentation.ts";
import { runProgram, worksHere } from "./programs.ts";

const test = suite("integration/readme");

/** The block with the address and the key of a server in the place of the printed ones. */
const forServer = (info: string, { url, key }: { url: string; key: string }): string =>
  readmeBlock(info).replaceAll("http://127.0.0.1:8001", url).replaceAll("KEY", key);

async function withServer(body: (server: { url: string; key: string }) => Promise<void>): Promise<void> {
  await inDirectory(async (data) => {
    const { stdout } = await run(["init", "--org", "acme", "--user", "ops", "--data", data]);
    const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    try {
      await body({ url: server.url, key: stdout.trim() });
    } finally {
      await server.stop();
    }
  });
}

async function inFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "assay-readme-"));
  try {
    await body(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const hasCurl = worksHere("curl", "--version");
if (!hasCurl) console.log("skipped: the first policy of the README, for want of curl");

(hasCurl ? test : test.skip)("the first policy of the README denies what ran before it, and is explained", () =>
  inFolder(async (folder) => {
    const server = await start(["dev", "--listen", "127.0.0.1:0", "--data", join(folder, ".assay-dev")]);
    try {
      symlinkSync(EXECUTABLE, join(folder, "assay"));
      const script = /^export KOSLI_HOST=.*^\)$/ms.exec(await server.wrote(/^\)$/m))?.[0] ?? "";
      const { code, text } = await runProgram("bash", ["-euc", `${script}\n${readmeBlock("sh policy")}`], {
        cwd: folder,
      });
      assert.is(code, 0, text);
      assert.match(text, "\napp is COMPLIANT in first-flow and COMPLIANT in first-environment: ");
      assert.match(
        text,
        /\nfirst-environment#1 is COMPLIANT and would be NON-COMPLIANT\. Of 1 running artifacts: 1 would fail,/,
      );
      assert.match(text, /\nfirst-environment#2 is NON-COMPLIANT: 1 of 1 artifact is not compliant\.\n/);
      assert.match(
        text,
        "    FAILED requires a compliant generic attestation named 'security-scan'\n" +
          "           none was reported in trail 'build-1' of flow 'first-flow'\n",
      );
      assert.match(text, "\n  what would make it compliant:\n");
    } finally {
      await server.stop();
    }
  }),
);

const hasCli = worksHere("kosli", "version");
if (!hasCli) console.log("skipped: the example of the Kosli CLI, for want of kosli");

(hasCli ? test : test.skip)("the Kosli CLI records the pipeline of the README, and asserts that it is compliant", () =>
  withServer(async (server) => {
    await inFolder(async (folder) => {
      const git = (...args: string[]) =>
        execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args], { cwd: folder });
      writeFileSync(join(folder, "app.tar"), "the program\n");
      mkdirSync(join(folder, "reports"));
      writeFileSync(
        join(folder, "reports/unit.xml"),
        '<testsuite name="unit" tests="1" failures="0" errors="0" skipped="0" time="0.1">' +
          '<testcase name="adds" time="0.1"/></testsuite>',
      );
      git("init", "-q");
      git("add", ".");
      git("commit", "-qm", "First");
      const { code, text } = await runProgram("bash", ["-euc", forServer("sh kosli", server)], { cwd: folder });
      assert.is(code, 0, text);
      const client = createClient(server.url, server.key);
      const trail = await expectStatus(client.json("GET", "/trails/acme/web/build-1"), 200);
      assert.is(trail.compliance_state, "COMPLIANT");
    });
  }),
);

/** Where Terraform looks for providers, so that it asks no registry. */
const PLUGINS = process.env["ASSAY_TERRAFORM_PLUGINS"] ?? join(homedir(), ".terraform.d/plugins");

async function initialized(folder: string, env: Record<string, string>): Promise<boolean> {
  const rules = `provider_installation {\n  filesystem_mirror {\n    path = ${JSON.stringify(PLUGINS)}\n  }\n}\n`;
  writeFileSync(env["TF_CLI_CONFIG_FILE"] as string, rules);
  return (await runProgram("terraform", ["init", "-input=false"], { cwd: folder, env })).code === 0;
}

const hasTerraform = worksHere("terraform", "version");
if (!hasTerraform) console.log("skipped: the example of Terraform, for want of terraform");

(hasTerraform ? test : test.skip)("Terraform creates the environment of the README, and plans no change after it", () =>
  withServer((server) =>
    inFolder(async (folder) => {
      const env = { TF_CLI_CONFIG_FILE: join(folder, "terraformrc"), CHECKPOINT_DISABLE: "1", TF_IN_AUTOMATION: "1" };
      writeFileSync(join(folder, "main.tf"), forServer("hcl terraform", server));
      if (!(await initialized(folder, env)))
        return console.log(`skipped: the example of Terraform, for want of its provider in ${PLUGINS}`);
      const applied = await runProgram("terraform", ["apply", "-auto-approve", "-input=false"], { cwd: folder, env });
      assert.is(applied.code, 0, applied.text);
      const planned = await runProgram("terraform", ["plan", "-detailed-exitcode", "-input=false"], {
        cwd: folder,
        env,
      });
      assert.is(planned.code, 0, planned.text);
      const client = createClient(server.url, server.key);
      const { name, type, description } = await expectStatus(client.json("GET", "/environments/acme/production"), 200);
      assert.equal({ name, type, description }, { name: "production", type: "K8S", description: "The shop" });
    }),
  ),
);

test("the placeholders of the examples are replaced, and nothing else", () => {
  const server = { url: "http://127.0.0.1:9", key: "k-1" };
  assert.match(
    forServer("sh kosli", server),
    /KOSLI_HOST=http:\/\/127\.0\.0\.1:9 KOSLI_ORG=acme KOSLI_API_TOKEN=k-1\n/,
  );
  assert.match(
    forServer("hcl terraform", server),
    /api_url {3}= "http:\/\/127\.0\.0\.1:9"\n.*\n {2}api_token = "k-1"\n/,
  );
});

test.run();
