// `make litestream`: follows the standby page of the guide literally, with the real Litestream. Machine A serves under
// load while Litestream replicates its database; both are killed with -9; machine B restores the replica, verifies it
// and serves. Every write that was acknowledged longer before the kill than the RPO of the page must exist, with its
// evidence.
//
//   node test/litestream/main.ts [--seconds N]
//
// Runs once with the replica on S3-compatible storage, as on the page, and once with a replica in a directory. The
// storage is s3rver on loopback. Without Litestream the test is skipped and exits with 0.
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, promisify } from "node:util";
import { createClient, expectStatus } from "../binary/client.ts";
import type { Client } from "../binary/client.ts";
import { EXECUTABLE, start } from "../binary/executable.ts";
import { findCodeBlock } from "../guide/page.ts";
import { findTool } from "../tools.ts";
import { KEYS, startStorage } from "../evidence/s3-server.ts";

const { values } = parseArgs({ options: { seconds: { type: "string", default: "15" } } });
const LOAD_MS = Number(values.seconds) * 1_000;
const LANES = 4;
const EVIDENCE_BYTES = 2_000;
/** Allowance for an upload to loopback on a busy machine. */
const MAX_UPLOAD_S = 3;
const COMMAND_TIMEOUT_MS = 120_000;
const execute = promisify(execFile);
const CI_KEY = "key-of-the-litestream-test-0123456789";
const DATABASES = "assay-database";

/** An acknowledged write, with its time in monotonic milliseconds. */
type Acknowledged = { name: string; digest: string; at: number };
type Machine = {
  home: string;
  data: string;
  /** Runs lines of the page in a shell that stops at the first failing command; resolves with their output. */
  run: (lines: string) => Promise<string>;
  config: string;
  litestream: string;
};

const litestream = findTool("litestream");
if (litestream === null) {
  console.log(
    "skipped: there is no litestream on PATH or in .build/tools; make litestream builds it where Go is installed",
  );
  process.exit(0);
}
console.log(`litestream ${execFileSync(litestream, ["version"], { encoding: "utf8" }).trim()}`);

const root = mkdtempSync(join(tmpdir(), "assay-litestream-"));
/** Inherits nothing from the shell that runs this test; the libraries of Litestream need HOME. */
const ENVIRONMENT = { HOME: root };
const storage = await startStorage([DATABASES]);
const children = new Set<ChildProcess>();
let failed = false;
try {
  for (const kind of ["s3", "file"] as const) {
    try {
      await failover(kind);
    } catch (error) {
      failed = true;
      console.error(`${kind}: ${error instanceof Error ? error.stack : String(error)}`);
    }
  }
} finally {
  for (const child of children) child.kill("SIGKILL");
  await storage.stop();
  rmSync(root, { recursive: true, force: true });
}
console.log(failed ? "the page is wrong" : "the page is right: no write older than the RPO was lost, and B serves");
process.exit(failed ? 1 : 0);

async function failover(kind: "s3" | "file"): Promise<void> {
  const [a, b] = [machine(kind, "a"), machine(kind, "b")];
  const apply = join(a.home, "apply.yaml");
  writeFileSync(
    apply,
    "organizations:\n  - name: acme\n    service_accounts:\n" +
      `      - {name: ci, privilege: member, api_keys: [{description: ci, key: "${CI_KEY}"}]}\n`,
  );
  const onA = await start(["serve", "--config", a.config, "--bootstrap", apply], { env: ENVIRONMENT });
  const replicating = replicate(a);
  const client = createClient(onA.url, CI_KEY);
  await expectStatus(
    client.form("PUT", "/flows/acme/template_file", "data_json", { name: "payments", description: "" }),
    201,
  );
  await expectStatus(client.form("PUT", "/trails/acme/payments", "data_json", { name: "release-1" }), 201);

  const acknowledged: Acknowledged[] = [];
  const load = writeUntilGone(client, acknowledged);
  await sleep(LOAD_MS);
  // Both at once, as when the machine fails.
  const killed = performance.now();
  replicating.child.kill("SIGKILL");
  await onA.stop("SIGKILL");
  await load;
  await replicating.ended;

  const restoreStartedAt = performance.now();
  await b.run(findCodeBlock("standby", "litestream restore"));
  const restored = performance.now() - restoreStartedAt;
  const { mode } = statSync(join(b.data, "assay.db"));
  if ((mode & 0o077) !== 0)
    throw new Error(`other users can read the restored database: mode ${(mode & 0o777).toString(8)}`);
  const verified = await b.run(findCodeBlock("standby", "assay verify --quick"));
  if (!verified.includes("All 10 checks passed")) throw new Error(verified);
  await b.run("assay verify --config /etc/assay/assay.yaml");

  const onB = await start(["serve", "--config", b.config], { env: ENVIRONMENT });
  const standby = createClient(onB.url, CI_KEY);
  const rpo = (rpoOf(findCodeBlock("standby", "dbs:")) + MAX_UPLOAD_S) * 1_000;
  const lost: Acknowledged[] = [];
  for (const write of acknowledged) if (!(await isStored(standby, write))) lost.push(write);
  const oldest = Math.max(0, ...lost.map(({ at }) => killed - at));
  console.log(
    `${kind}: ${acknowledged.length} writes acknowledged in ${LOAD_MS / 1_000} s, ${lost.length} lost, ` +
      `the oldest of them ${(oldest / 1_000).toFixed(2)} s before the kill; restore ${(restored / 1_000).toFixed(2)} s`,
  );
  if (acknowledged.length < 50)
    throw new Error(`only ${acknowledged.length} writes were acknowledged, which proves nothing`);
  if (oldest > rpo)
    throw new Error(`a write that was acknowledged ${oldest} ms before the kill is lost; the RPO is ${rpo} ms`);
  await expectStatus(report(standby, "on-b", contentOf("on-b")), 201);

  // Step 5: from here on B is replicated to a path of its own.
  writeFileSync(b.litestream, litestreamConfig(kind, b, "prod-2"));
  const onward = replicate(b);
  for (let tries = 0; !onward.output().includes("snapshot complete"); tries += 1) {
    if (tries > 300 || onward.child.exitCode !== null)
      throw new Error(`Litestream does not replicate B:\n${onward.output()}`);
    await sleep(100);
  }
  onward.child.kill("SIGTERM");
  await onward.ended;
  const { code } = await onB.stop();
  if (code !== 0) throw new Error(`B ended with ${code}:\n${onB.output()}`);
}

/** A machine with the configuration of the page: the root of the page is a directory of its own. */
function machine(kind: "s3" | "file", name: string): Machine {
  const home = join(root, `${kind}-${name}`);
  const data = join(home, "var/lib/assay");
  const etc = join(home, "etc/assay");
  mkdirSync(etc, { recursive: true });
  const programs = join(home, "bin");
  mkdirSync(programs);
  for (const [program, path] of [
    ["assay", EXECUTABLE],
    ["litestream", litestream],
  ] as const)
    writeFileSync(join(programs, program), `#!/bin/sh\nexec '${path}' "$@"\n`, { mode: 0o755 });
  const config = join(etc, "assay.yaml");
  writeFileSync(config, withPaths(findCodeBlock("standby", "checkpoints: external"), home));
  const s3 = `evidence_store: s3://evidence/${kind}\ns3_endpoint: ${storage.endpoint}\n`;
  appendFileSync(
    config,
    `${s3}s3_access_key: ${KEYS.accessKey}\ns3_secret_key: ${KEYS.secretKey}\nlisten: 127.0.0.1:0\n`,
  );
  const made: Machine = {
    home,
    data,
    config,
    litestream: join(home, "etc/litestream.yml"),
    // Asynchronous, because the storage is in this process.
    async run(lines) {
      const env = { ...ENVIRONMENT, PATH: `${programs}:${process.env["PATH"]}` };
      return (await execute("sh", ["-ec", withPaths(lines, home)], { env, timeout: COMMAND_TIMEOUT_MS })).stdout;
    },
  };
  writeFileSync(made.litestream, litestreamConfig(kind, made, "prod"));
  return made;
}

/** The configuration of the page, with the storage of the test in place of the example's. */
function litestreamConfig(kind: "s3" | "file", { home }: Pick<Machine, "home">, path: string): string {
  const page = withPaths(findCodeBlock("standby", "dbs:"), home)
    .replace("https://minio.example.com:9000", storage.endpoint)
    .replace("access-key-id: LITESTREAM", `access-key-id: ${KEYS.accessKey}`)
    .replace("secret-access-key: SECRET", `secret-access-key: ${KEYS.secretKey}`)
    .replace("path: prod", `path: ${path}`);
  if (kind === "s3") return page;
  return page
    .replace("type: s3", "type: file")
    .replace(`path: ${path}`, `path: ${join(root, "replica", path)}`)
    .replace(/^ +(?:endpoint|bucket|access-key-id|secret-access-key): .*\n/gm, "");
}

/** Lines of the page with the paths of a machine. */
function withPaths(text: string, home: string): string {
  return text.replace(/\/var\/lib\/(?:private\/)?assay/g, `${home}/var/lib/assay`).replaceAll("/etc/", `${home}/etc/`);
}

/** The seconds that the configuration allows between a write and its upload. */
function rpoOf(config: string): number {
  const seconds = (key: string): number => Number(new RegExp(`^ *${key}: (\\d+)s$`, "m").exec(config)?.[1]);
  const sum = seconds("monitor-interval") + seconds("sync-interval");
  if (Number.isNaN(sum)) throw new Error(`the configuration of the page contains no intervals:\n${config}`);
  return sum;
}

function replicate({ home, run: _, ...on }: Machine): {
  child: ChildProcess;
  output(): string;
  ended: Promise<unknown>;
} {
  const [program, ...words] = withPaths(findCodeBlock("standby", "litestream replicate -config"), home)
    .trim()
    .split(" ");
  if (program !== "litestream" || !words.includes(on.litestream))
    throw new Error(`the page starts another program: ${program} ${words.join(" ")}`);
  const child = spawn(litestream as string, words, { env: ENVIRONMENT, stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (bytes: Buffer) => void (output += bytes.toString()));
  const ended = once(child, "close").then(() => children.delete(child));
  return { child, output: () => output, ended };
}

async function writeUntilGone(client: Client, acknowledged: Acknowledged[]): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (;;) {
      const name = `write-${(next += 1)}`;
      const content = contentOf(name);
      const status = await report(client, name, content).then(
        (answer) => answer.status,
        () => null,
      );
      if (status === null) return;
      if (status !== 201) throw new Error(`a write was refused: ${status}`);
      acknowledged.push({ name, digest: digestOf(content), at: performance.now() });
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

function report(client: Client, name: string, content: Buffer) {
  const json = { attestation_name: name, is_compliant: true };
  const file = { part: "attachment_file", name: `${name}.txt`, content };
  return client.form("POST", "/attestations/acme/payments/trail/release-1/generic", "data_json", json, file);
}

async function isStored(client: Client, { name, digest }: Acknowledged): Promise<boolean> {
  const path = "/attestations/acme/payments/trail/release-1";
  const { status, body } = await client.json("GET", `${path}/${name}`);
  const [row] = status === 200 ? body : [];
  if (!row) return false;
  const evidence = await client.json("GET", `${path}/attestation/${row.attestation_id}/evidence`);
  return evidence.status === 200 && digestOf(evidence.bytes) === digest;
}

function contentOf(name: string): Buffer {
  return Buffer.from(`${name} `.repeat(EVIDENCE_BYTES / (name.length + 1)));
}

function digestOf(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
