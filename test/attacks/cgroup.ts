/**
 * A group of processes with a memory limit, like a container: the kernel kills a process that exceeds it. Supports
 * control groups version 2 (`memory.max`) and 1 (`memory.limit_in_bytes`), where they are writable.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export type MemoryGroup = {
  /** The file that takes the id of a process to put it, and its children, into the group. */
  readonly entry: string;
  /** The peak memory of the group in bytes, cached files included; null where the kernel does not report it. */
  peak(): number | null;
  /** Its memory now in bytes, without cached files, which the kernel takes back; null as for `peak`. */
  own(): number | null;
  /** Removes the group, which must be empty. */
  remove(): void;
};

const ROOT = "/sys/fs/cgroup";

/** Creates a group limited to `bytes`, without swap where possible. @returns the reason where it cannot be created */
export function createMemoryGroup(name: string, bytes: number): MemoryGroup | string {
  const isV2 = existsSync(join(ROOT, "cgroup.controllers"));
  const parent = isV2 ? ROOT : join(ROOT, "memory");
  const directory = join(parent, name);
  const [limit, swap, peak] = isV2
    ? ["memory.max", "memory.swap.max", "memory.peak"]
    : ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes"];
  try {
    if (isV2) writeFileSync(join(parent, "cgroup.subtree_control"), "+memory");
    mkdirSync(directory);
    writeFileSync(join(directory, limit), String(bytes));
  } catch (error) {
    if (existsSync(directory)) rmdirSync(directory);
    return `no control group can be made: ${(error as Error).message}`;
  }
  try {
    writeFileSync(join(directory, swap), isV2 ? "0" : String(bytes));
  } catch {
    // Kernels without swap accounting do not have this file.
  }
  return {
    entry: join(directory, "cgroup.procs"),
    peak() {
      try {
        return Number(readFileSync(join(directory, peak), "utf8"));
      } catch {
        return null;
      }
    },
    own() {
      try {
        const stat = readFileSync(join(directory, "memory.stat"), "utf8");
        return Number(/^(?:anon|total_rss) (\d+)$/m.exec(stat)?.[1] ?? Number.NaN);
      } catch {
        return null;
      }
    },
    remove: () => rmdirSync(directory),
  };
}
