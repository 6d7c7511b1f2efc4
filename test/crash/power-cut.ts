// The power cuts of `make crash`. Sessions of load run with record-disk.c loaded, which records every change of a file
// and every sync. From that trace simulated-disk.ts builds the disk as a cut at any moment would have left it, and the
// executable starts on it: nothing that was acknowledged before the cut may be lost, no row may name a missing file,
// and `assay verify` must find nothing.
//
//   node test/crash/power-cut.ts [--cuts N] [--seed N]
//
// The first session begins with an empty disk, so cuts also hit the creation of the data directory and the first start.
// Each session makes one backup. The checks are tested too: they must detect a disk that only pretends to sync.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { run, start } from "../binary/executable.ts";
import { APPLY_FILE, apiOf, attestationsSince, missingOf } from "./ledger.ts";
import type { Entry } from "./ledger.ts";
import { listLeftInStaging } from "./inspect.ts";
import { prepare, randomOf, writeUntilGone, writers } from "./load.ts";
import { LOSSES, filesOf, inodesOf, simulateDisk, RECORDER_SOURCE } from "./simulated-disk.ts";
import type { Loss, Pretends } from "./simulated-disk.ts";

/** Several cuts of one session share the cost of its load. */
const CUTS_PER_SESSION = 6;
const LANES = 6;
/** How long a session writes. */
const LOAD_MS = 1_200;
/** The data directory; none of these directories exists at first. */
const DATA = join("srv", "assay", "data");
const BACKUPS = "backups";

/** An acknowledgement, and the length of the trace (`at`) when it arrived. `path` is below the root of the disk. */
type Acknowledged = { at: number } & (
  | { what: "entry"; entry: Entry }
  | { what: "started" }
  | { what: "backup"; path: string }
);

/** `stopped`: the length of the trace when the server was told to stop. */
type Session = {
  root: string;
  base: { path: string; inodes: ReadonlyMap<string, bigint> };
  trace: Buffer;
  stopped: number;
  acknowledged: Acknowledged[];
  problems: string[];
};

/**
 * Simulates power cuts; each problem names the seed and the number of its cut.
 * @returns null where there is no C compiler, otherwise the problems and a summary
 */
export async function cutPower({
  cuts,
  seed,
}: {
  cuts: number;
  seed: number;
}): Promise<{ problems: string[]; summary: string } | null> {
  const directory = mkdtempSync(join(tmpdir(), "assay-power-"));
  try {
    const recorder = join(directory, "record-disk.so");
    const compiled = spawnSync("cc", ["-shared", "-fPIC", "-O1", "-o", recorder, RECORDER_SOURCE, "-ldl"], {
      env: { PATH: "/usr/bin:/bin" },
    });
    if (compiled.status !== 0) return null;
    return await simulate({ directory, recorder, cuts, seed });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function simulate({
  directory,
  recorder,
  cuts,
  seed,
}: {
  directory: string;
  recorder: string;
  cuts: number;
  seed: number;
}) {
  const random = randomOf(seed);
  const applyFile = join(directory, "apply.yaml");
  writeFileSync(applyFile, APPLY_FILE);
  const problems: string[] = [];
  const counts = { entries: 0, backups: 0, bytes: 0, sabotages: 0 };
  /** The acknowledgements on the disk that a session begins with. */
  let before: Acknowledged[] = [];
  let base = join(directory, "empty");
  mkdirSync(join(base, BACKUPS), { recursive: true });
  for (let cut = 0, number = 0; cut < cuts && problems.length === 0; number += 1) {
    const session: Session = await record({
      directory: join(directory, `session-${number}`),
      recorder,
      applyFile,
      base,
      before,
      seed: seed * 1_000 + number,
    });
    problems.push(...session.problems.map((problem) => `seed ${seed}, session ${number}: ${problem}`));
    counts.bytes += session.trace.length;
    const image = join(directory, "image");
    const check = async (at: number, loss: Loss, pretends?: Pretends): Promise<string[]> => {
      rmSync(image, { recursive: true, force: true });
      const { trace, root } = session;
      simulateDisk({ trace, bytes: at, root, base: session.base, ...(pretends ? { pretends } : {}) }).writeTo(
        image,
        loss,
        random,
      );
      const acknowledged = session.acknowledged.filter((entry) => entry.at <= at);
      return inspect(image, acknowledged, { applyFile, verifyFirst: random() < 0.5 });
    };
    if (number === 0) {
      const missed = await checkSabotages(session, check);
      counts.sabotages += SABOTAGES.length;
      problems.push(...missed);
    }
    const moment = (of: Acknowledged["what"]): number =>
      session.acknowledged.findLast(({ what }) => what === of)?.at ?? 0;
    const [started, backedUp] = [moment("started"), moment("backup")];
    let at = 0;
    for (let own = 0; own < CUTS_PER_SESSION && cut < cuts && problems.length === 0; own += 1, cut += 1) {
      // In the first session a third of the cuts come before the first start is done, and a third after the backup.
      const [from, to] =
        number === 0 && own % 3 === 0 ? [0, started] : [own % 3 === 2 ? backedUp : started, session.trace.length];
      at = Math.floor(from + random() * (to - from));
      const loss = LOSSES[cut % LOSSES.length] as Loss;
      const found = await check(at, loss);
      const known = session.acknowledged.filter((entry) => entry.at <= at);
      counts.entries += known.filter(({ what }) => what === "entry").length;
      counts.backups += known.filter(({ what }) => what === "backup").length;
      problems.push(
        ...found.map(
          (problem) =>
            `seed ${seed}, cut ${cut} (session ${number}, byte ${at} of the trace, lost: ${loss}): ${problem}`,
        ),
      );
    }
    // The next session continues with what the last cut left.
    before = session.acknowledged.filter((entry) => entry.at <= at).map((entry) => ({ ...entry, at: 0 }));
    base = join(directory, `base-${number}`);
    cpSync(image, base, { recursive: true });
    rmSync(join(directory, `session-${number}`), { recursive: true, force: true });
  }
  const summary =
    `${cuts} power cuts over ${(counts.bytes / 1_048_576).toFixed(0)} MB of recorded writes (seed ${seed}): ` +
    `${counts.entries} acknowledged writes and ${counts.backups} backups found; ` +
    `${counts.sabotages} disks that only pretend to sync detected`;
  return { problems, summary };
}

/** Runs the executable with the recorder on a disk: a start, load with a backup in the middle, and a stop. */
async function record({
  directory,
  recorder,
  applyFile,
  base,
  before,
  seed,
}: {
  directory: string;
  recorder: string;
  applyFile: string;
  base: string;
  before: readonly Acknowledged[];
  seed: number;
}): Promise<Session> {
  const root = join(directory, "disk");
  const traceFile = join(directory, "trace");
  mkdirSync(directory);
  cpSync(base, root, { recursive: true });
  writeFileSync(traceFile, "");
  const known = { path: base, inodes: inodesOf(root) };
  const env = { LD_PRELOAD: recorder, DISK_ROOT: root, DISK_TRACE: traceFile };
  const acknowledged: Acknowledged[] = [...before];
  const now = (): number => statSync(traceFile).size;
  const data = join(root, DATA);
  const problems: string[] = [];

  const server = await start(serveArguments(data, applyFile), { env });
  acknowledged.push({ at: now(), what: "started" });
  const api = apiOf(server.url);
  for (const entry of await prepare(api)) acknowledged.push({ at: now(), what: "entry", entry });
  const load = writeUntilGone(writers(api, LANES, seed), {
    push: (entry) => acknowledged.push({ at: now(), what: "entry", entry }),
  });
  await sleep(LOAD_MS / 3);
  const path = join(BACKUPS, `${seed}.tar`);
  const backup = await run(["backup", join(root, path), "--data", data], { env });
  if (backup.code === 0) acknowledged.push({ at: now(), what: "backup", path });
  else problems.push(`the backup failed: ${backup.stderr}`);
  await sleep(LOAD_MS / 2);
  const stopped = now();
  // Not killed, because the trace could miss a change between it and its record. Cuts hit the stop as well.
  const { code } = await server.stop();
  if (code !== 0) problems.push(`the server ended with ${code}: ${server.output()}`);
  problems.push(...(await load).map((refusal) => `refused ${refusal}`));

  const trace = readFileSync(traceFile);
  problems.push(...findUnrecorded({ trace, root, base: known, directory }));
  return { root, base: known, trace, stopped, acknowledged, problems };
}

const serveArguments = (data: string, applyFile: string): string[] => [
  "serve",
  "--data",
  data,
  "--listen",
  "127.0.0.1:0",
  "--log-level",
  "error",
  "--bootstrap",
  applyFile,
];

/**
 * Files of which the recorder missed a change: without loss, the simulated disk must equal the real one. The index of
 * the write-ahead log is shared memory and not compared.
 */
function findUnrecorded({
  trace,
  root,
  base,
  directory,
}: Pick<Session, "trace" | "root" | "base"> & { directory: string }): string[] {
  const copy = join(directory, "copy");
  simulateDisk({ trace, root, base }).writeTo(copy, "nothing", () => 0);
  const [real, simulated] = [filesOf(root), filesOf(copy)];
  const names = new Set([...real.keys(), ...simulated.keys()]);
  const different = [...names].filter(
    (name) => !name.endsWith("-shm") && !real.get(name)?.equals(simulated.get(name) ?? Buffer.from("?")),
  );
  return different.map(
    (name) =>
      `the recorder missed changes of ${name}: ` +
      `${real.get(name)?.length} bytes on the disk, ${simulated.get(name)?.length} in the simulation`,
  );
}

/**
 * The problems of a disk after a cut, given everything that was acknowledged before it.
 * @param verifyFirst whether `assay verify` runs before the start too
 */
async function inspect(
  image: string,
  acknowledged: readonly Acknowledged[],
  { applyFile, verifyFirst }: { applyFile: string; verifyFirst: boolean },
): Promise<string[]> {
  const problems: string[] = [];
  const data = join(image, DATA);
  const isStarted = acknowledged.some(({ what }) => what === "started");
  if (isStarted && verifyFirst) problems.push(...(await runVerify(data, "before the start")));
  const server = await start(serveArguments(data, applyFile)).catch((error: unknown) => (error as Error).message);
  if (typeof server === "string") return [...problems, `no start: ${server}`];
  try {
    problems.push(...listLeftInStaging(data));
    const api = apiOf(server.url);
    const records = await attestationsSince(api, 0);
    for (const one of acknowledged) {
      if (one.what === "entry") {
        const missing = await missingOf(api, one.entry, records);
        if (missing) problems.push(`LOST ${missing}`);
      } else if (one.what === "backup") problems.push(...(await runRestore(image, one.path)));
    }
  } catch (error) {
    problems.push(`LOST the organization: ${(error as Error).message}`);
  } finally {
    const { code } = await server.stop();
    if (code !== 0) problems.push(`the server ended with ${code}: ${server.output()}`);
  }
  return [...problems, ...(await runVerify(data, "after the start"))];
}

async function runVerify(data: string, when: string): Promise<string[]> {
  const { code, stdout, stderr } = await run(["verify", "--data", data]);
  return code === 0 ? [] : [`verify ${when} ends with ${code}: ${stdout}${stderr}`];
}

/** Restores a backup, which reads and checks every byte. */
async function runRestore(image: string, path: string): Promise<string[]> {
  const target = join(image, "restored");
  if (!existsSync(join(image, path))) return [`LOST the backup ${path}`];
  const { code, stderr } = await run(["restore", join(image, path), "--data", target]);
  rmSync(target, { recursive: true, force: true });
  return code === 0 ? [] : [`LOST the backup ${path}: ${stderr}`];
}

/** Disks that only pretend to sync certain files; the checks must detect each after a cut at the end. */
const SABOTAGES: readonly { what: string; pretends: Pretends }[] = [
  { what: "anything", pretends: () => true },
  { what: "the log of the database", pretends: (path) => path.endsWith("-wal") },
  { what: "evidence", pretends: (path) => path.includes("/staging/") || path.includes("/evidence/") },
  { what: "the directories of evidence", pretends: (path) => /\/evidence(\/..)?$/.test(path) },
  { what: "backups", pretends: (path) => path.includes(`/${BACKUPS}`) },
];

async function checkSabotages(
  { stopped }: Session,
  check: (at: number, loss: Loss, pretends?: Pretends) => Promise<string[]>,
): Promise<string[]> {
  const honest = await check(stopped, "all");
  if (honest.length > 0) return honest;
  const missed: string[] = [];
  for (const { what, pretends } of SABOTAGES) {
    const found = await check(stopped, "all", pretends);
    if (found.length === 0) missed.push(`the checks find nothing wrong with a disk that only pretends to sync ${what}`);
  }
  return missed;
}

/** Simulates power cuts and prints the result. @returns whether there is no problem; true where it was skipped */
export async function reportPowerCuts(options: { cuts: number; seed: number }): Promise<boolean> {
  const startedAt = Date.now();
  const result = await cutPower(options);
  if (result === null) {
    console.log("skipped: there is no C compiler, so no power cuts were simulated");
    return true;
  }
  console.log(`${result.summary}, in ${Math.round((Date.now() - startedAt) / 1000)} s`);
  for (const problem of result.problems.slice(0, 50)) console.error(problem);
  return result.problems.length === 0;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { cuts: { type: "string", default: "30" }, seed: { type: "string", default: "1" } },
  });
  if (!(await reportPowerCuts({ cuts: Number(values.cuts), seed: Number(values.seed) }))) process.exitCode = 1;
}
