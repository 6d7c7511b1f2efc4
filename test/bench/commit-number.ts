// What the number of each commit costs (src/store/db/commit-number.ts): the same commits of one row with it and
// without, in short slices that alternate, on the disk of the checkout. No server: the two differ in nothing else.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { openCommitNumbering } from "../../src/store/db/commit-number.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";
import { walBytes } from "../../src/store/db/wal.ts";
import { judge } from "./targets.ts";

const SLICES = 60;
const COMMITS_PER_SLICE = 50;

type Side = { commit(): Promise<unknown>; directory: string; nanoseconds: number[]; processor: number[] };

function open(root: string, name: string, { isNumbered }: { isNumbered: boolean }): Side {
  const directory = join(root, name);
  mkdirSync(directory);
  const db = openDatabase(directory, 0);
  db.pragma("wal_autocheckpoint = 0");
  const insert = db.prepare("INSERT INTO jobs (kind, payload_json, due_at, created_at) VALUES ('x', '{}', 0, 0)");
  const numbering = isNumbered ? openCommitNumbering(db, { isServer: true }) : null;
  const writer = new GroupCommitWriter(db, { numbering });
  return { commit: () => writer.run(() => insert.run()), directory, nanoseconds: [], processor: [] };
}

/** Prints the time, the processor time and the bytes of the log that each commit takes in addition. */
export async function measureCommitNumber(root: string): Promise<void> {
  const [bare, numbered] = [
    open(root, "commits-bare", { isNumbered: false }),
    open(root, "commits-numbered", { isNumbered: true }),
  ];
  for (let slice = 0; slice < SLICES; slice += 1)
    for (const side of slice % 2 === 0 ? [bare, numbered] : [numbered, bare]) {
      const [started, used] = [process.hrtime.bigint(), process.cpuUsage()];
      for (let count = 0; count < COMMITS_PER_SLICE; count += 1) await side.commit();
      side.nanoseconds.push(Number(process.hrtime.bigint() - started) / COMMITS_PER_SLICE);
      const { user, system } = process.cpuUsage(used);
      side.processor.push((user + system) / COMMITS_PER_SLICE);
    }
  const added = (of: (side: Side) => number): number => of(numbered) - of(bare);
  const detail = (of: (side: Side) => number, unit: string): string =>
    `${of(numbered).toFixed(1)}${unit} with it, ${of(bare).toFixed(1)}${unit} without`;
  const time = ({ nanoseconds }: Side): number => median(nanoseconds) / 1000;
  const processor = (side: Side): number => median(side.processor);
  const bytes = ({ directory }: Side): number => walBytes(directory) / SLICES / COMMITS_PER_SLICE;
  judge("commit number: microseconds of a commit of one row", added(time), null, detail(time, " us"));
  judge("commit number: processor time in microseconds", added(processor), null, detail(processor, " us"));
  judge("commit number: bytes of the write-ahead log", added(bytes), null, detail(bytes, ""));
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
