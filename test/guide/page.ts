/** The code blocks of a page of the guide, for tests that follow the page to the letter. */
import { readDocument } from "../rules/documentation.ts";

/**
 * The indented blocks of src/guide/TOPIC.md in their order, each without its indentation. Below a list item a block is
 * indented further; everything from four spaces on counts. Prose of a list item is indented by three.
 */
export function codeBlocksOf(topic: string): string[] {
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

/** The only block of the page that contains `part`. @throws Error when there is none, or more than one. */
export function codeBlockWith(topic: string, part: string): string {
  const [found, ...others] = codeBlocksOf(topic).filter((block) => block.includes(part));
  if (found === undefined || others.length > 0)
    throw new Error(
      `${found === undefined ? "no block" : "more than one block"} of the page ${topic} contains '${part}'`,
    );
  return found;
}
