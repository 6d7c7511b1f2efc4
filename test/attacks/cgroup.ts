/**
 * A group of processes that gets so much memory and no more, as a container does: the kernel ends a process of it that
 * takes more. Works with version 2 (`memory.max`) and 1 (`memory.limit_in_bytes`) of control groups, where they can be
 * written.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export type MemoryGroup = {
  /** The file into which the id of a process is written to have it, and what it starts, in the group. */
  readonly entry: string;
  /** The most that the group ever held, bytes; null where the kernel does not tell. */
  peak(): number | null;
  /** Removes the group, which must be empty. */
  remove(): void;
};

const ROOT = "/sys/fs/cgroup";

/**
 * Makes a group of `bytes`; without swap, where that can be said. @returns why there is none, where it cannot be made.
 */
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
    // Kernels that do not count swap have no such file.
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
    remove: () => rmdirSync(directory),
  };
}
