/** What the checks of `assay doctor` have in common: what each says, and how each sees the machine. */
import { readFileSync, realpathSync, statfsSync } from "node:fs";
import { dirname } from "node:path";

export type Level = "ok" | "warn" | "fail";

/** `todo` says what the operator can do; null where nothing is to be done. */
export type Check = { name: string; level: Level; found: string; todo: string | null };

export const ok = (name: string, found: string): Check => ({ name, level: "ok", found, todo: null });
export const warn = (name: string, found: string, todo: string): Check => ({ name, level: "warn", found, todo });
export const fail = (name: string, found: string, todo: string): Check => ({ name, level: "fail", found, todo });

/** What is asked of the machine: a table, so that tests decide what it is like. Nothing of it writes. */
export type Machine = {
  /** Epoch seconds. */
  now(): number;
  /** A small text, such as those of /proc and /sys; null where it cannot be read. */
  readText(path: string): string | null;
  /** Of the file system on which a path lies, in bytes and files; null where it cannot be asked. */
  fileSystemSpace(path: string): FileSystemSpace | null;
  /** Of this process; null where there are no users. */
  uid: number | null;
};

/** `type` is the magic number of statfs(2). */
export type FileSystemSpace = { type: number; size: number; free: number; files: number; freeFiles: number };

export const realMachine: Machine = {
  now: () => Date.now() / 1000,
  readText(path) {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return null;
    }
  },
  fileSystemSpace(path) {
    try {
      const { type, bsize, blocks, bavail, files, ffree } = statfsSync(path);
      return { type, size: bsize * blocks, free: bsize * bavail, files, freeFiles: ffree };
    } catch {
      return null;
    }
  },
  uid: process.getuid?.() ?? null,
};

/** The real path of the nearest directory above `path` that is there, `path` itself if it is. */
export function nearestExisting(path: string): string {
  for (let at = path; ; at = dirname(at)) {
    try {
      return realpathSync(at);
    } catch {
      if (dirname(at) === at) return at;
    }
  }
}

/** Bytes as people read them. */
export function fileSizeText(bytes: number): string {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let [amount, unit] = [bytes, 0];
  while (amount >= 1024 && unit < units.length - 1) [amount, unit] = [amount / 1024, unit + 1];
  return `${unit === 0 || amount >= 100 ? Math.round(amount) : amount.toFixed(1)} ${units[unit]}`;
}
