/** What the checks of `assay doctor` share: their results, and their view of the machine. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, realpathSync, statfsSync, statSync } from "node:fs";
import type { BigIntStats } from "node:fs";
import { dirname } from "node:path";

type Level = "ok" | "warn" | "fail";

/** `found` describes the state; `todo` says what the operator can do, null where nothing has to be done. */
export type Check = { name: string; level: Level; found: string; todo: string | null };

export const ok = (name: string, found: string): Check => ({ name, level: "ok", found, todo: null });
export const warn = (name: string, found: string, todo: string): Check => ({ name, level: "warn", found, todo });
export const fail = (name: string, found: string, todo: string): Check => ({ name, level: "fail", found, todo });

/** The machine as the checks see it, replaceable by tests. No method writes. */
export type Machine = {
  /** Epoch seconds. */
  now(): number;
  /** The content of a small file, such as those of /proc and /sys; null where it cannot be read. */
  readText(path: string): string | null;
  /** The file system of a path; null where it cannot be determined. */
  fileSystemSpace(path: string): FileSystemSpace | null;
  /** The text of a systemd unit with its drop-ins; null where there is none, or no systemd. */
  unitText(name: string): string | null;
  /** The open files of a process as `deviceAndInode`; null where they cannot be read. */
  openFiles(pid: number): ReadonlySet<string> | null;
  /** The user of this process; null where the platform has no users. */
  uid: number | null;
};

/** `type` is the magic number of statfs(2); `size` and `free` are in bytes, `files` and `freeFiles` count inodes. */
type FileSystemSpace = { type: number; size: number; free: number; files: number; freeFiles: number };

/** Asking systemd takes some 10 ms. */
const SYSTEMCTL_TIMEOUT_MS = 5_000;

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
  unitText(name) {
    try {
      return execFileSync("systemctl", ["--no-pager", "cat", "--", name], {
        encoding: "utf8",
        env: { ...process.env, LC_ALL: "C", SYSTEMD_COLORS: "0" },
        stdio: ["ignore", "pipe", "ignore"],
        timeout: SYSTEMCTL_TIMEOUT_MS,
      });
    } catch {
      return null;
    }
  },
  openFiles(pid) {
    try {
      const files = readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
        const stats = statSync(`/proc/${pid}/fd/${descriptor}`, { bigint: true, throwIfNoEntry: false });
        return stats ? [deviceAndInode(stats)] : [];
      });
      return new Set(files);
    } catch {
      return null;
    }
  },
  uid: process.getuid?.() ?? null,
};

/** What identifies a file, whatever its name. */
export const deviceAndInode = ({ dev, ino }: BigIntStats): string => `${dev}:${ino}`;

/** The real path of `path`, or of its nearest parent that exists. */
export function nearestExisting(path: string): string {
  for (let at = path; ; at = dirname(at)) {
    try {
      return realpathSync(at);
    } catch {
      if (dirname(at) === at) return at;
    }
  }
}

/** Bytes in a readable unit: "9.8 KB". */
export function fileSizeText(bytes: number): string {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let [amount, unit] = [bytes, 0];
  while (amount >= 1024 && unit < units.length - 1) [amount, unit] = [amount / 1024, unit + 1];
  return `${unit === 0 || amount >= 100 ? Math.round(amount) : amount.toFixed(1)} ${units[unit]}`;
}

/** Seconds in a readable unit: "3 hours". */
export function ageText(seconds: number): string {
  const age = Math.max(0, seconds);
  if (age < 120) return `${Math.round(age)} seconds`;
  if (age < 7_200) return `${Math.round(age / 60)} minutes`;
  if (age < 172_800) return `${Math.round(age / 3_600)} hours`;
  return `${Math.round(age / 86_400)} days`;
}
