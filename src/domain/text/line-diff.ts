/** The difference of two texts, line by line. */

export type DiffLine = {
  /** `gone`: only in the older text; `new`: only in the newer one. */
  kind: "same" | "gone" | "new";
  /** Numbers of the line in the texts, from 1; null where a text does not have it. */
  old: number | null;
  now: number | null;
  text: string;
};

/** Size of the table of a comparison: 4 MB, and some milliseconds. */
const MAX_CELLS = 1_000_000;

/**
 * All lines of both texts, in order. The lines in common at both ends are cut off first, and what is left is compared
 * by its longest common subsequence; where that would cost too much, all of it counts as replaced.
 */
export function diffLines(before: string, after: string): DiffLine[] {
  const older = linesOf(before);
  const newer = linesOf(after);
  let start = 0;
  while (start < older.length && start < newer.length && older[start] === newer[start]) start += 1;
  let end = 0;
  const shorter = Math.min(older.length, newer.length) - start;
  while (end < shorter && older[older.length - 1 - end] === newer[newer.length - 1 - end]) end += 1;
  const gone = older.slice(start, older.length - end);
  const added = newer.slice(start, newer.length - end);
  const common = gone.length * added.length <= MAX_CELLS ? commonLines(gone, added) : [];

  const lines: DiffLine[] = older.slice(0, start).map((text, at) => same(text, at, at));
  let [a, b] = [0, 0];
  for (const [i, j] of [...common, [gone.length, added.length] as const]) {
    for (; a < i; a += 1) lines.push({ kind: "gone", old: start + a + 1, now: null, text: gone[a] as string });
    for (; b < j; b += 1) lines.push({ kind: "new", old: null, now: start + b + 1, text: added[b] as string });
    if (i < gone.length) lines.push(same(gone[i] as string, start + i, start + j));
    [a, b] = [i + 1, j + 1];
  }
  for (let left = end; left > 0; left -= 1)
    lines.push(same(older[older.length - left] as string, older.length - left, newer.length - left));
  return lines;
}

/** How many lines a difference adds and removes. */
export function countChanges(lines: readonly DiffLine[]): { added: number; removed: number } {
  const of = (kind: DiffLine["kind"]): number => lines.filter((line) => line.kind === kind).length;
  return { added: of("new"), removed: of("gone") };
}

const same = (text: string, old: number, now: number): DiffLine => ({ kind: "same", old: old + 1, now: now + 1, text });

/** A line feed at the end of a text ends its last line and begins no further one. */
const linesOf = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

/** The positions in both lists of a longest common subsequence, in order. */
function commonLines(one: readonly string[], other: readonly string[]): [number, number][] {
  const width = other.length + 1;
  const lengths = new Uint32Array((one.length + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] as number;
  for (let i = one.length - 1; i >= 0; i -= 1)
    for (let j = other.length - 1; j >= 0; j -= 1)
      lengths[i * width + j] = one[i] === other[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const pairs: [number, number][] = [];
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (one[i] === other[j]) pairs.push([i++, j++]);
    else if (at(i + 1, j) >= at(i, j + 1)) i += 1;
    else j += 1;
  }
  return pairs;
}
