/** Suggestions for mistyped names. */

/** The cost grows with the product of the lengths, and no known name is longer. */
const MAX_WORD_CHARS = 40;
const MAX_SUGGESTIONS = 3;

/**
 * The names closest to a mistyped word, nearest first and at most three: those that begin with the word, or that differ
 * from it by at most one edit per three letters.
 */
export function findNearestNames(word: string, names: readonly string[]): string[] {
  if (word === "" || word.length > MAX_WORD_CHARS) return [];
  const allowed = Math.max(1, Math.floor(word.length / 3));
  return names
    .filter((name) => name.startsWith(word) || Math.abs(name.length - word.length) <= allowed)
    .map((name) => ({ name, distance: name.startsWith(word) ? 0 : editDistance(word, name) }))
    .filter(({ distance }) => distance <= allowed)
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .slice(0, MAX_SUGGESTIONS)
    .map(({ name }) => name);
}

/** Letters by which a mistyped name differs from the one that was meant. */
const MAX_SLIPS = 2;

/** The name that differs from the word by one or two letters or by case alone, the nearest one; null for none. */
export function findMistypedName(word: string, names: readonly string[]): string | null {
  let nearest: { name: string; distance: number } | null = null;
  for (const name of names) {
    if (Math.abs(name.length - word.length) > MAX_SLIPS) continue;
    const distance = editDistance(word.toLowerCase(), name.toLowerCase());
    if (distance <= MAX_SLIPS && distance < (nearest?.distance ?? Infinity)) nearest = { name, distance };
  }
  return nearest?.name ?? null;
}

// Insertions, deletions, replacements and swaps of adjacent letters count one each.
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      let best = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) best = Math.min(best, (beforeLast[j - 2] ?? 0) + 1);
      row.push(best);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
