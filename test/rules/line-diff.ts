/**
 * The lines that differ between two texts, in their order: `- ` and the number of a line that is gone, `+ ` and the
 * number of one that is new. The lines in common at both ends are cut off first, and what is left is compared by its
 * longest common subsequence; where that would cost too much, all of it is told as changed.
 */
export function lineDiff(before: string, after: string): string[] {
  const old = before.split("\n");
  const now = after.split("\n");
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const gone = old.slice(start, old.length - end);
  const added = now.slice(start, now.length - end);
  const kept = gone.length * added.length <= MAX_CELLS ? commonLines(gone, added) : [];

  const lines: string[] = [];
  let [a, b] = [0, 0];
  for (const [i, j] of [...kept, [gone.length, added.length] as const]) {
    for (; a < i; a += 1) lines.push(`- ${start + a + 1}: ${gone[a]}`);
    for (; b < j; b += 1) lines.push(`+ ${start + b + 1}: ${added[b]}`);
    [a, b] = [i + 1, j + 1];
  }
  return lines;
}

/** Size of the table of the comparison: 16 MB, and some tens of milliseconds. */
const MAX_CELLS = 4_000_000;

/** The positions in both lists of a longest common subsequence. */
function commonLines(one: readonly string[], other: readonly string[]): [number, number][] {
  const width = other.length + 1;
  const lengths = new Uint32Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i -= 1)
    for (let j = other.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      lengths[at] =
        one[i] === other[j]
          ? (lengths[at + width + 1] as number) + 1
          : Math.max(lengths[at + width] as number, lengths[at + 1] as number);
    }
  const pairs: [number, number][] = [];
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (one[i] === other[j]) pairs.push([i++, j++]);
    else if ((lengths[(i + 1) * width + j] as number) >= (lengths[i * width + j + 1] as number)) i += 1;
    else j += 1;
  }
  return pairs;
}
