// The part over the world of world.ts, on one server beside the bare one: throughput and processor time of writes and
// reads, the memory that is left, and a gigabyte of evidence up, down and in an audit package.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { EXECUTABLE } from "../binary/executable.ts";
import { transferEvidence } from "./evidence.ts";
import { LINES } from "./lines.ts";
import { countSystemCalls, startCounting, straceProblem } from "./calls.ts";
import { downloadPackage } from "./packages.ts";
import { reached, row } from "./print.ts";
import { memory, startServer } from "./processes.ts";
import type { Server } from "./processes.ts";
import type { Extent } from "./slices.ts";
import { atMost, judge, skip } from "./targets.ts";
import { comparePocketBase } from "./pocketbase.ts";
import { SPREAD, UNCACHED, compare, compareSpread, compareUncached, createRewriter } from "./throughput.ts";
import { measureHolds } from "./holds.ts";
import { measureSingle } from "./single.ts";
import { KEY, artifactPath, populate, populateSmallFlows } from "./world.ts";

const EVIDENCE_MEGABYTES = 1024;

/** What `--only` selects from here; the others of its parts have servers of their own. */
export const WORLD_TITLES: readonly string[] = [
  ...LINES.map(({ title }) => title),
  SPREAD,
  ...Object.keys(UNCACHED),
  "PocketBase",
  "bytes",
  "single",
  "memory",
  "evidence",
  "hold",
  // Its data directory is that of the world.
  "start",
];

/** Measures what `only` selects by its title, with the data in the directory `data`, which is left behind. */
export async function measureWorld(
  { root, data, applyFile }: { root: string; data: string; applyFile: string },
  extent: Extent,
  only: RegExp,
): Promise<void> {
  const assay = await startServer(
    [EXECUTABLE, "serve", "--data", data, "--listen", "127.0.0.1:0", "--bootstrap", applyFile],
    { output: join(root, "assay.log"), env: { ASSAY_EVIDENCE_LIMIT: `${EVIDENCE_MEGABYTES}MB` } },
  );
  await populate(assay.url);
  await populateSmallFlows(assay.url);
  const selected = LINES.filter(({ title }) => only.test(title));
  const baseline = await startBaseline(root, assay.url);
  const noStrace = straceProblem();
  if (noStrace !== null) skip("system calls by name", noStrace);
  for (const line of selected) {
    await compare(line, { baseline, assay }, extent);
    if (noStrace === null) console.log(`    ${await countSystemCalls(assay, line.assay, join(root, "strace.txt"))}`);
  }
  if (only.test(SPREAD)) await compareSpread(assay, extent);
  await compareUncached({ baseline, assay }, extent.rounds, only);
  if (only.test("PocketBase")) await comparePocketBase(assay, root, extent);
  await measureSingle(assay, data, only);
  if (only.test("memory")) measureMemory(assay);
  if (only.test("evidence")) await measureTransfers(assay, data);
  await assay.stop();
  await baseline.stop();
  await countStatements(data, only);
  if (only.test("hold")) await measureHolds(data);
}

/** Starts the bare server; its responses are as long as that to a read of an artifact. */
export async function startBaseline(root: string, url: string): Promise<Server> {
  const answer = await fetch(url + artifactPath(0), { headers: { Authorization: `Bearer ${KEY}` } });
  const bytes = (await answer.text()).length;
  const directory = join(root, "baseline");
  mkdirSync(directory);
  return startServer([process.execPath, join(import.meta.dirname, "baseline.ts"), directory, String(bytes)], {
    output: join(root, "baseline.log"),
  });
}

/** Counted by a server of this checkout over the same data, after the executable has stopped. */
async function countStatements(data: string, only: RegExp): Promise<void> {
  const written = LINES.filter(({ title }) => only.test(title)).map(({ title, assay }) => ({ title, work: assay }));
  const uncached = Object.entries(UNCACHED).filter(([title]) => only.test(title));
  if (written.length + uncached.length === 0) return;
  const server = await startCounting(data);
  const before = createRewriter(server.url);
  console.log("\nSQL statements of the main thread for a request");
  for (const { title, work } of written) {
    const { total, texts } = await server.count(work);
    judge(`${title}, statements`, total, title === "attestation" ? atMost(17, 17, "") : null);
    if (title === "attestation") listTexts(texts);
  }
  for (const [title, work] of uncached) {
    const { total, texts } = await server.count(work, before);
    judge(`${title}, statements`, total, null);
    listTexts(texts);
  }
  await server.stop();
}

/** Prints the texts but those that hardly any request executes. */
function listTexts(texts: readonly { text: string; times: number }[]): void {
  for (const { text, times } of texts.filter((each) => each.times >= 0.05))
    console.log(`      ${times.toFixed(2).padStart(6)}  ${text.slice(0, 100)}`);
}

function measureMemory({ pid }: Server): void {
  const { now, anonymous, peak } = memory(pid);
  console.log("\nMemory");
  judge("memory after the bench", now, atMost(165, 150, " MB"), `peak ${Math.round(peak)} MB`);
  judge("... of it anonymous", anonymous, atMost(100, 90, " MB"));
}

async function measureTransfers(assay: Server, data: string): Promise<void> {
  console.log("");
  const { up, down, digest } = await transferEvidence(assay, EVIDENCE_MEGABYTES);
  row(["evidence, 1 GB up", `${Math.round(up.speed)} MB/s`, "", `+${Math.round(up.growth)} MB`]);
  const grown = (title: string, speed: number, growth: number, bare: readonly string[]): void =>
    row([
      title,
      `${Math.round(speed)} MB/s`,
      "",
      `+${Math.round(growth)} MB`,
      ...bare,
      "< 50 MB",
      `  ${reached(growth < 50)}`,
    ]);
  grown("evidence, 1 GB down", down.speed, down.growth, ["", "", "", ""]);
  const { own, bare } = await downloadPackage(assay, { data, digest, megabytes: EVIDENCE_MEGABYTES });
  grown("audit package of 1 GB", own.speed, own.growth, [`${Math.round(bare)} MB/s`, "", "tar | gzip", ""]);
}
