// PocketBase beside Assay: the same driver, connections, size of records and durability, in alternating slices. The
// program is built from pocketbase/ by the Go tool chain; without one, or without its modules, the part is skipped.
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { READS, WRITE, WRITE_WITH_FILE } from "./lines.ts";
import { drive, get, sendForm, sendJson } from "./load.ts";
import { startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import { interleave } from "./slices.ts";
import type { Extent, Measured, Work } from "./slices.ts";
import { atLeast, judge, skip } from "./targets.ts";
import { describe } from "./throughput.ts";
import { REPORT_BYTES } from "./world.ts";

const SOURCE = join(import.meta.dirname, "pocketbase");
const PROGRAM = join(import.meta.dirname, "..", "..", ".build", "tools", "bench-pocketbase");
/** Modules are fetched at the first build. */
const BUILD_TIMEOUT_MS = 300_000;
const RECORDS = "/api/collections/reports/records";
/** Records that are read. */
const ROWS = 1_000;
const FILE_BYTES = 1_024;

/** Builds the program. @returns why that is impossible, null when it was built */
async function buildProblem(): Promise<string | null> {
  // No other tool chain and no other versions than those of go.mod.
  const env = { ...process.env, GOTOOLCHAIN: "local", GOFLAGS: "-mod=readonly -buildvcs=false" };
  try {
    await promisify(execFile)("go", ["build", "-o", PROGRAM, "."], { cwd: SOURCE, env, timeout: BUILD_TIMEOUT_MS });
    return null;
  } catch (error) {
    const { code, stderr } = error as { code?: unknown; stderr?: string };
    if (code === "ENOENT") return "the Go tool chain is not installed";
    return `it cannot be built: ${stderr?.trim().split("\n").at(-1) ?? String(error)}`;
  }
}

/** A record of REPORT_BYTES bytes. */
function record(name: string): { name: string; detail: string } {
  const value = { name, detail: "" };
  value.detail = "x".repeat(REPORT_BYTES - JSON.stringify(value).length);
  return value;
}

/**
 * The requests to PocketBase, reads before anything is written. Names are unique: theirs is the index that a read uses.
 */
function works(token: string): Record<"indexed read" | "create" | "create with file", Work> {
  const file = Buffer.alloc(FILE_BYTES, "e");
  return {
    "indexed read": {
      expect: 200,
      next: (n) =>
        get(`${RECORDS}?perPage=1&skipTotal=1&filter=${encodeURIComponent(`name="row-${n % ROWS}"`)}`, token),
    },
    create: { expect: 200, next: (n) => sendJson("POST", RECORDS, token, record(`plain-${n}`)) },
    "create with file": {
      expect: 200,
      next(n) {
        file.write(`${n} `);
        const json = { field: "@jsonPayload", value: record(`file-${n}`) };
        return sendForm("POST", RECORDS, token, json, { field: "evidence", content: file });
      },
    },
  };
}

/** Compares a running server with PocketBase, which keeps its data below `root`. */
export async function comparePocketBase(assay: Server, root: string, extent: Extent): Promise<void> {
  console.log("");
  const problem = await buildProblem();
  if (problem !== null) {
    skip("PocketBase", problem);
    return;
  }
  const directory = join(root, "pocketbase");
  const output = join(root, "pocketbase.log");
  mkdirSync(directory);
  const peer = await startServer([PROGRAM, directory], { output });
  const token = /^token (\S+)$/m.exec(readFileSync(output, "utf8"))?.[1];
  if (token === undefined) throw new Error(`PocketBase printed no token; see ${output}`);
  const requests = works(token);
  await drive({
    url: peer.url,
    connections: 8,
    expect: 200,
    next: (n) => (n < ROWS ? sendJson("POST", RECORDS, token, record(`row-${n}`)) : null),
  });
  const own: Record<keyof typeof requests, Work> = {
    create: WRITE,
    "create with file": WRITE_WITH_FILE,
    "indexed read": READS["artifact by fingerprint"] as Work,
  };
  for (const [name, work] of Object.entries(requests) as [keyof typeof requests, Work][]) {
    const [theirs, ours] = (await interleave(
      [
        { server: peer, work },
        { server: assay, work: own[name] },
      ],
      extent,
    )) as [Measured, Measured];
    console.log(`\nPocketBase, ${name}`);
    judge(`PocketBase, ${name}, its processor time to ours`, theirs.all / ours.all, atLeast(3, 5));
    judge(`PocketBase, ${name}, our req/s to its`, ours.perSecond / theirs.perSecond, null);
    console.log(`    assay      ${describe(ours)}\n    PocketBase ${describe(theirs)}`);
  }
  await peer.stop();
}
