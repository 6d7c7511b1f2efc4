/**
 * What the info strings of fenced blocks on pages of the guide mean. On the pages of RUN_PAGES every block has one, and
 * so no command is left out of `make guide-run` without a word:
 *
 *     sh                        commands, which run as root, one block after the other; each must succeed
 *     sh serves                 the last command serves until the reader stops it
 *     sh needs=WORD             commands that run only where the machine has what NEEDS says
 *     output                    what the block before prints; numbers, times, hashes and "..." may differ
 *     LANG file=PATH mode=MODE  the content of a file
 *     text                      neither: lines of a log, error messages, a drawing
 */
import type { Block } from "./page.ts";

/** The pages that an operator follows from the installation on, in this order. */
export const RUN_PAGES = ["installing", "backup", "restore", "upgrade", "tls", "standby", "troubleshooting"] as const;

/** What a block may need that the container lacks, in words. */
export const NEEDS: Readonly<Record<string, string>> = {
  docker: "a container engine",
  litestream: "Litestream, and storage for its replica",
  vault: "a second machine",
};

type Instruction =
  | { kind: "run" | "serve"; needs: string | null }
  | { kind: "file"; path: string; mode: number }
  | { kind: "output" | "text" };

/** What to do with a block. Throws an Error for an info string without a meaning. */
export function readInstruction({ info, line }: Block): Instruction {
  const [language = "", ...words] = (info ?? "").split(" ");
  const settings = new Map(
    words.filter((word) => word.includes("=")).map((word) => word.split("=", 2) as [string, string]),
  );
  const flags = words.filter((word) => !word.includes("="));
  const meaning = [[...flags].join(" "), [...settings.keys()].sort().join(" ")].join("|");
  const needs = settings.get("needs") ?? null;
  if (language === "sh" && (needs === null || needs in NEEDS)) {
    if (meaning === "|" || meaning === "|needs") return { kind: "run", needs };
    if (meaning === "serves|" || meaning === "serves|needs") return { kind: "serve", needs };
  }
  if (language !== "" && meaning === "|file mode")
    return {
      kind: "file",
      path: settings.get("file") ?? "",
      mode: Number.parseInt(settings.get("mode") ?? "", 8),
    };
  if (info === "output" || info === "text") return { kind: info };
  throw new Error(`line ${line}: a block with the info string '${info ?? ""}' says not what it is`);
}

/** Whether each line of a page's output block is in what was printed, in this order. */
export function findUnprinted(expected: string, printed: string): string | null {
  const lines = printed.split("\n");
  let at = 0;
  for (const line of expected.trimEnd().split("\n")) {
    const pattern = patternOf(line);
    const found = lines.findIndex((one, index) => index >= at && pattern.test(one));
    if (found < 0) return line;
    at = found + 1;
  }
  return null;
}

const patternOf = (line: string): RegExp =>
  new RegExp(
    `^${line.replace(/[0-9a-f]+\.\.\.|\.\.\.|\d+(?:\.\d+)?|[^\d.0-9a-f]+|./g, (part) =>
      /^[0-9a-f]+\.\.\.$/.test(part)
        ? "[0-9a-f]+"
        : part === "..."
          ? ".*"
          : /^\d/.test(part)
            ? "\\d+(?:\\.\\d+)?"
            : part.replace(/[$()*+.?[\\\]^{|}]/g, "\\$&"),
    )}$`,
  );
