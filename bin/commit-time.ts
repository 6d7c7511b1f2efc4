import { execFileSync } from "node:child_process";

/** When the commit of the checkout was made; null where git cannot tell. */
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
