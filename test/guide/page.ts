/** Reads the code blocks of a guide page, for tests that run them exactly as printed. */
import { readDocument } from "../rules/documentation.ts";

/**
 * A block of src/guide/TOPIC.md without its indentation. `info` is the info string of a fenced block; null for an
 * indented one. `line` counts from 1.
 */
export type Block = { info: string | null; text: string; line: number };

const withoutIndentation = (lines: readonly string[]): string => {
  const depth = Math.min(...lines.filter((line) => line !== "").map((line) => line.search(/\S/)));
  return `${lines
    .map((line) => line.slice(depth))
    .join("\n")
    .trimEnd()}\n`;
};

/**
 * The blocks of a page in their order, fenced and indented. Every line outside of fences that is indented by four
 * spaces or more belongs to an indented block: blocks below a list item are indented further, while a list item's prose
 * is indented by three.
 */
export function readBlocks(topic: string): Block[] {
  const blocks: { info: string | null; lines: string[]; line: number }[] = [];
  let indented: string[] | null = null;
  let fenced: string[] | null = null;
  for (const [index, line] of readDocument(`src/guide/${topic}.md`).split("\n").entries()) {
    const fence = /^ *```(.*)$/.exec(line)?.[1];
    if (fence !== undefined) {
      if (fenced) fenced = null;
      else blocks.push({ info: fence.trim(), lines: (fenced = []), line: index + 1 });
      indented = null;
    } else if (fenced) fenced.push(line);
    else if (/^ {4}/.test(line)) {
      if (!indented) blocks.push({ info: null, lines: (indented = []), line: index + 1 });
      indented.push(line);
    } else if (line !== "" || indented === null) indented = null;
    else indented.push("");
  }
  if (fenced) throw new Error(`src/guide/${topic}.md: a fence is not closed`);
  return blocks.map(({ info, lines, line }) => ({ info, text: withoutIndentation(lines), line }));
}

/** The only block of the page that contains `part`. Throws an Error when no block does, or more than one. */
export function findCodeBlock(topic: string, part: string): string {
  const [found, ...others] = readBlocks(topic).filter(({ text }) => text.includes(part));
  if (found === undefined || others.length > 0)
    throw new Error(
      `${found === undefined ? "no block" : "more than one block"} of the page ${topic} contains '${part}'`,
    );
  return found.text;
}
