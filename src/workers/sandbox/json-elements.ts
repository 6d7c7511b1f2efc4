/**
 * Splits a list in compact JSON, as JSON.stringify writes it, into its elements without parsing them.
 * @returns the texts of the first `maxElements` elements, and the number of all
 */
export function readFirstElements(list: string, maxElements: number): { elements: string[]; count: number } {
  const elements: string[] = [];
  let count = 0;
  let depth = 0;
  let start = 1;
  const end = (at: number): void => {
    if (at === start) return;
    count += 1;
    if (elements.length < maxElements) elements.push(list.slice(start, at));
    start = at + 1;
  };
  for (let at = 1; at < list.length - 1; at += 1) {
    const code = list.charCodeAt(at);
    if (code === 0x22) {
      // Skips to the end of the string.
      for (at += 1; list.charCodeAt(at) !== 0x22; at += 1) if (list.charCodeAt(at) === 0x5c) at += 1;
    } else if (code === 0x5b || code === 0x7b) depth += 1;
    else if (code === 0x5d || code === 0x7d) depth -= 1;
    else if (code === 0x2c && depth === 0) end(at);
  }
  end(list.length - 1);
  return { elements, count };
}
