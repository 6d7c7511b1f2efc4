import { execFileSync } from "node:child_process";

/** The time of the commit that is checked out; null where git does not know it. */
export function commitTime(root: string): Date | null {
  try {
    const seconds = execFileSync("git", ["log", "-1", "--format=%ct"], {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return new Date(Number(seconds) * 1000);
  } catch {
    return null;
  }
}
