/** Sizes and durations in option values. */

export const KB = 1024;
export const MB = 1024 * KB;
const GB = 1024 * MB;
const TB = 1024 * GB;

const SIZE_UNITS: Readonly<Record<string, number>> = { B: 1, KB, MB, GB, TB };

/**
 * Bytes of a size such as 100MB; null if it is invalid or not within `min` and `max` bytes. The unit is mandatory: a
 * bare 100 means bytes to some and megabytes to others. A MB is 1,048,576 bytes (semantics 13.111).
 */
export function parseSize(text: string, min: number, max: number): number | null {
  const match = /^(\d{1,15})(?:\.(\d{1,3}))? ?([KMGT]?B)$/i.exec(text);
  if (!match) return null;
  const [, whole, fraction, unit] = match;
  const bytes = Number(`${whole}.${fraction ?? 0}`) * (SIZE_UNITS[(unit ?? "").toUpperCase()] ?? 1);
  return Number.isSafeInteger(bytes) && bytes >= min && bytes <= max ? bytes : null;
}

/** Units of a duration in seconds, in the order in which they must be written. */
const DURATION_UNITS: readonly (readonly [string, number])[] = [
  ["w", 604_800],
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];
const DURATION = new RegExp(`^(?=\\d)${DURATION_UNITS.map(([unit]) => `(?:(\\d{1,10})${unit})?`).join("")}$`);

/**
 * Whole seconds of a duration in weeks, days, hours, minutes and seconds, each with its unit and in this order, such as
 * 90d, 24h, 1h30m or 30s. The unit is mandatory, as for sizes. null if it is invalid or not within `min` and `max`
 * seconds.
 */
export function parseDuration(text: string, min: number, max: number): number | null {
  const match = DURATION.exec(text);
  if (!match) return null;
  const seconds = DURATION_UNITS.reduce((sum, [, size], index) => sum + Number(match[index + 1] ?? 0) * size, 0);
  return seconds >= min && seconds <= max ? seconds : null;
}

/** Formats whole seconds for `parseDuration`, in days and smaller units: 168 hours are 7d, 5400 seconds 1h30m. */
export function formatDuration(seconds: number): string {
  let rest = seconds;
  const parts = DURATION_UNITS.slice(1).map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count === 0 ? "" : `${count}${unit}`;
  });
  return parts.join("") || "0s";
}

/** Formats bytes for `parseSize`, in the largest unit that gives a whole number. */
export function formatSize(bytes: number): string {
  const units = Object.entries(SIZE_UNITS).reverse();
  const [unit, size] = units.find(([, one]) => bytes >= one && bytes % one === 0) ?? ["B", 1];
  return `${bytes / size}${unit}`;
}
