/** The elements of a list in compact JSON, as JSON.stringify writes it, without parsing it. */

/** @returns the texts of the first `most` elements, and how many there are. */
export function readFirstElements(list: string, most: number): { elements: string[]; count: number } {
  const elements: string[] = [];
  let count = 0;
  let depth = 0;
  let start = 1;
  const end = (at: number): void => {
    if (at === start) return;
    count += 1;
    if (elements.length < most) elements.push(list.slice(start, at));
    start = at + 1;
  };
  for (let at = 1; at < list.length - 1; at += 1) {
    const code = list.charCodeAt(at);
    if (code === 0x22) {
      // To the end of the text.
      for (at += 1; list.charCodeAt(at) !== 0x22; at += 1) if (list.charCodeAt(at) === 0x5c) at += 1;
    } else if (code === 0x5b || code === 0x7b) depth += 1;
    else if (code === 0x5d || code === 0x7d) depth -= 1;
    else if (code === 0x2c && depth === 0) end(at);
  }
  end(list.length - 1);
  return { elements, count };
}
