/** Sizes and times as operators write them. */

export const KB = 1024;
export const MB = 1024 * KB;
export const GB = 1024 * MB;
export const TB = 1024 * GB;

const SIZE_UNITS: Readonly<Record<string, number>> = { B: 1, KB, MB, GB, TB };

/**
 * Bytes of a size such as 100MB; null for what is none from `least` to `most`. A unit is demanded: a bare 100 would be
 * read as bytes by one person and as megabytes by the next. A MB is 1,048,576 bytes (semantics 13, decision 111).
 */
export function parseSize(text: string, least: number, most: number): number | null {
  const match = /^(\d{1,15})(?:\.(\d{1,3}))? ?([KMGT]?B)$/i.exec(text);
  if (!match) return null;
  const [, whole, fraction, unit] = match;
  const bytes = Number(`${whole}.${fraction ?? 0}`) * (SIZE_UNITS[(unit ?? "").toUpperCase()] ?? 1);
  return Number.isSafeInteger(bytes) && bytes >= least && bytes <= most ? bytes : null;
}

/** Units of a duration in seconds, in the order in which they are written. */
const DURATION_UNITS: readonly (readonly [string, number])[] = [
  ["w", 604_800],
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];
const DURATION = new RegExp(`^(?=\\d)${DURATION_UNITS.map(([unit]) => `(?:(\\d{1,10})${unit})?`).join("")}$`);

/**
 * Whole seconds of a duration: weeks, days, hours, minutes and seconds, each with its unit and in this order, such as
 * 90d, 24h, 1h30m or 30s. A unit is demanded, as for sizes. Null for anything else, and for what is not from `least` to
 * `most`.
 */
export function parseDuration(text: string, least: number, most: number): number | null {
  const match = DURATION.exec(text);
  if (!match) return null;
  const seconds = DURATION_UNITS.reduce((sum, [, size], index) => sum + Number(match[index + 1] ?? 0) * size, 0);
  return seconds >= least && seconds <= most ? seconds : null;
}

/** Whole seconds as `parseDuration` reads them, in days and smaller units: 168 hours are 7d, 5400 seconds 1h30m. */
export function formatDuration(seconds: number): string {
  let rest = seconds;
  const parts = DURATION_UNITS.slice(1).map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count === 0 ? "" : `${count}${unit}`;
  });
  return parts.join("") || "0s";
}

/** Bytes as `parseSize` reads them, in the largest unit of which they are a whole number. */
export function formatSize(bytes: number): string {
  const units = Object.entries(SIZE_UNITS).reverse();
  const [unit, size] = units.find(([, one]) => bytes >= one && bytes % one === 0) ?? ["B", 1];
  return `${bytes / size}${unit}`;
}
