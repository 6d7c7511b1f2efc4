/** `part` of `total` as a percentage with one decimal place; 0 of nothing (semantics 13.84). */
export const percentOf = (part: number, total: number): number =>
  total === 0 ? 0 : Math.round((part / total) * 1000) / 10;

/** As percentOf, but 100 only of all, and 0 only of none: nearly all must not read as all. */
export function shareOf(part: number, total: number): number {
  const rounded = percentOf(part, total);
  if (part < total && rounded === 100) return 99.9;
  return part > 0 && rounded === 0 ? 0.1 : rounded;
}
