/** Reads the code blocks of a guide page, for tests that run them exactly as printed. */
import { readDocument } from "../rules/documentation.ts";

/**
 * The indented blocks of src/guide/TOPIC.md in order, each without its indentation. Every line indented by four spaces
 * or more belongs to a block: blocks below a list item are indented further, while a list item's prose is indented by
 * three.
 */
export function readCodeBlocks(topic: string): string[] {
  const blocks: string[][] = [];
  let block: string[] | null = null;
  for (const line of readDocument(`src/guide/${topic}.md`).split("\n")) {
    if (/^ {4}/.test(line)) {
      if (!block) blocks.push((block = []));
      block.push(line);
    } else if (line !== "" || block === null) block = null;
    else block.push("");
  }
  return blocks.map((lines) => {
    const depth = Math.min(...lines.filter((line) => line !== "").map((line) => line.search(/\S/)));
    return `${lines
      .map((line) => line.slice(depth))
      .join("\n")
      .trimEnd()}\n`;
  });
}

/** The only block of the page that contains `part`. Throws an Error when no block does, or more than one. */
export function findCodeBlock(topic: string, part: string): string {
  const [found, ...others] = readCodeBlocks(topic).filter((block) => block.includes(part));
  if (found === undefined || others.length > 0)
    throw new Error(
      `${found === undefined ? "no block" : "more than one block"} of the page ${topic} contains '${part}'`,
    );
  return found;
}
